//! Reading what people type: amounts, rates, times, files.

use std::{fs, io::Read as _};

use anyhow::Context as _;
use unspent_model::{
    Network,
    wallet::{amount, select::Rate},
};

use crate::fault::Fault;

/// The largest file or standard input taken in.
const MAX_INPUT: u64 = 16 << 20;

/// An amount in satoshis, or with a unit.
pub(super) fn sats(text: &str) -> Result<u64, String> {
    amount::parse(text).map_err(|error| error.to_string())
}

/// A fee rate in sat/vB, with up to two decimals.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("`{text}` is no fee rate; write 5 or 2.5 (sat/vB)");
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 2 {
        return Err(wrong());
    }
    let hundredths = format!("{whole}{part:0<2}").parse::<u64>().map_err(|_| wrong())?;
    let sat_per_kwu = hundredths.checked_mul(5).map(|n| n / 2).ok_or_else(wrong)?;
    Ok(Rate { sat_per_kwu })
}

/// A time span such as `90s`, `10m`, `2h` or `1d`, in microseconds.
pub(super) fn span(text: &str) -> Result<i64, String> {
    let wrong = || format!("`{text}` is no time span; write 90s, 10m, 2h or 1d");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds: i64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: i64 = number.parse().map_err(|_| wrong())?;
    if number <= 0 {
        return Err(wrong());
    }
    number.checked_mul(seconds).and_then(|s| s.checked_mul(1_000_000)).ok_or_else(wrong)
}

/// A payment `ADDRESS=AMOUNT`.
pub(super) fn output(text: &str) -> Result<(String, u64), String> {
    let (address, sats_text) =
        text.split_once('=').ok_or_else(|| format!("`{text}` is not ADDRESS=AMOUNT"))?;
    Ok((address.to_owned(), sats(sats_text)?))
}

/// A Bitcoin network, by its name or by the last part of it.
pub(super) fn network(text: &str) -> Result<Network, String> {
    let full = match text {
        "mainnet" | "main" => "bitcoin".to_owned(),
        "testnet4" | "signet" | "regtest" => format!("bitcoin-{text}"),
        other => other.to_owned(),
    };
    full.parse::<Network>().map_err(|error| error.to_string())
}

/// Text from an argument, a file (`@PATH`) or standard input (`-`).
pub(super) fn text_of(argument: &str) -> anyhow::Result<String> {
    let bytes = match (argument, argument.strip_prefix('@')) {
        ("-", _) => {
            let mut bytes = Vec::new();
            std::io::stdin().take(MAX_INPUT + 1).read_to_end(&mut bytes)?;
            bytes
        }
        (_, Some(path)) => {
            let size = fs::metadata(path).with_context(|| format!("can't read {path}"))?.len();
            if size > MAX_INPUT {
                return Err(Fault::input(format!("{path} is larger than 16 MiB")).into());
            }
            fs::read(path).with_context(|| format!("can't read {path}"))?
        }
        (text, None) => return Ok(text.to_owned()),
    };
    if bytes.len() as u64 > MAX_INPUT {
        return Err(Fault::input("more than 16 MiB").into());
    }
    // A binary PSBT is shown as hex, which every reader below understands.
    Ok(String::from_utf8(bytes).unwrap_or_else(|wrong| hex::encode(wrong.into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_spans_are_read_or_refused() {
        assert_eq!(rate("1"), Ok(Rate { sat_per_kwu: 250 }));
        assert_eq!(rate("2.5"), Ok(Rate { sat_per_kwu: 625 }));
        assert_eq!(span("10m"), Ok(600_000_000));
        for wrong in ["", "-1", "1e3", "1.234", ".5", "99999999999999999999"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "m", "0s", "-5m", "5", "5y", "9223372036854775807d", "é"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        assert!(output("abc").is_err() && output("abc=-5").is_err());
        assert_eq!(output("abc=0.5 BTC"), Ok(("abc".into(), 50_000_000)));
        assert_eq!(network("regtest"), Ok(Network::BitcoinRegtest));
    }
}
