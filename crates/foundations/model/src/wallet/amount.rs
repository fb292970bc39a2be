//! Amounts as people write them: a bare number is satoshis, a unit may follow.

use crate::network::MOST_BITCOIN_MONEY;

/// Satoshis in one bitcoin.
pub const SATS_PER_BTC: u64 = 100_000_000;

/// Why a text is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAmount {
    /// Not a number with an optional unit.
    #[error("`{0}` is not an amount; write 150000, `150000 sat` or `0.0015 BTC`")]
    Form(String),
    /// More than there can be.
    #[error("`{0}` is more than {most} BTC", most = MOST_BITCOIN_MONEY / SATS_PER_BTC)]
    TooMuch(String),
    /// A fraction of a satoshi.
    #[error("`{0}` has a fraction of a satoshi")]
    TooFine(String),
}

/// Reads satoshis.
///
/// # Errors
///
/// [`BadAmount`] for signs, exponents, unknown units, fractions of a satoshi and more than exists.
pub fn parse(text: &str) -> Result<u64, BadAmount> {
    let form = || BadAmount::Form(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (number, unit) = trimmed.split_at(split.unwrap_or(trimmed.len()));
    let sats = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "sat" | "sats" if !number.contains('.') => whole(number).ok_or_else(form)?,
        "btc" => decimal(number, text)?,
        _ => return Err(form()),
    };
    match u64::try_from(sats) {
        Ok(sats) if sats <= MOST_BITCOIN_MONEY => Ok(sats),
        Ok(_) | Err(_) => Err(BadAmount::TooMuch(text.to_owned())),
    }
}

fn whole(digits: &str) -> Option<u128> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // More digits than any amount has: a number too large is still a number.
    Some(digits.parse().unwrap_or(u128::MAX))
}

fn decimal(number: &str, text: &str) -> Result<u128, BadAmount> {
    let form = || BadAmount::Form(text.to_owned());
    let (coins, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 8 {
        return Err(BadAmount::TooFine(text.to_owned()));
    }
    let fraction = format!("{fraction:0<8}");
    let coins = whole(coins).ok_or_else(form)?;
    let fraction = whole(&fraction).ok_or_else(form)?;
    // What saturates is refused by the caller as more than there is.
    Ok(coins.saturating_mul(u128::from(SATS_PER_BTC)).saturating_add(fraction))
}

/// Satoshis as bitcoins with all eight digits.
pub fn in_btc(sats: u64) -> String {
    format!("{}.{:08}", sats / SATS_PER_BTC, sats % SATS_PER_BTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_satoshis_and_a_unit_is_heeded() {
        assert_eq!(parse("150000"), Ok(150_000));
        assert_eq!(parse(" 150000 sats "), Ok(150_000));
        assert_eq!(parse("0.0015 BTC"), Ok(150_000));
        assert_eq!(parse("0.0015btc"), Ok(150_000));
        assert_eq!(parse("21000000 BTC"), Ok(MOST_BITCOIN_MONEY));
        assert_eq!(parse("1.10000000000 BTC"), Ok(110_000_000));
        assert_eq!(in_btc(150_000), "0.00150000");
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for bad in
            ["", "-5", "+5", "1e5", "1.5", "1.5 sat", ".5 BTC", "5 eur", "0x10", "٣", "1..2 BTC"]
        {
            assert!(matches!(parse(bad), Err(BadAmount::Form(_))), "{bad:?}");
        }
        assert!(matches!(parse("2100000000000001"), Err(BadAmount::TooMuch(_))));
        assert!(matches!(parse("21000000.00000001 BTC"), Err(BadAmount::TooMuch(_))));
        assert!(matches!(parse(&"9".repeat(60)), Err(BadAmount::TooMuch(_))));
        assert!(matches!(parse("0.000000001 BTC"), Err(BadAmount::TooFine(_))));
    }
}
