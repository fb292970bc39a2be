//! What people and programs write: values, rates, times, coins. Each has one text form, read by the
//! same code on the command line and in JSON, where a number may stand for its own text.

use std::{fmt, str::FromStr};

use bitcoin::{OutPoint, Txid};
use unspent_engine::clock::Time;
use unspent_model::{
    Network,
    wallet::{LockId, amount, select::FeePerWeight},
};
use unspent_server::{
    input::{in_json, number_within},
    json::parse_outpoint,
};
use unspent_wallet::ids::bitcoin_outpoint;
use utoipa::openapi::schema::{Object, ObjectBuilder, OneOfBuilder, Schema, Type};

pub(crate) use unspent_server::argument::text_of;

/// The highest fee rate taken, in hundredths of a sat/vB: beyond it there is a mistake.
const MAX_RATE: u64 = 10_000_000;
/// The highest height taken: the largest whole number that every reader of JSON knows.
const MAX_HEIGHT: u64 = 9_007_199_254_740_991;
const HEX_64: &str = "^[0-9a-fA-F]{64}$";

/// Base units: `150000`, or with a unit as in `0.0015 BTC`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BaseUnits(pub(crate) u64);

impl FromStr for BaseUnits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        amount::parse(text).map(Self).map_err(|error| error.to_string())
    }
}

/// What an output gets: base units, or `all` that is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PayValue {
    Exactly(u64),
    All,
}

impl FromStr for PayValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        text.parse().map(|BaseUnits(value)| Self::Exactly(value))
    }
}

impl fmt::Display for PayValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(value) => value.fmt(f),
            Self::All => f.write_str("all"),
        }
    }
}

/// A fee rate in sat/vB, with up to two decimals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FeeRate {
    hundredths: u64,
}

impl FeeRate {
    /// One satoshi for each virtual byte.
    pub(crate) const ONE: Self = Self { hundredths: 100 };

    #[allow(clippy::cast_precision_loss)]
    fn sat_per_vbyte(&self) -> f64 {
        self.hundredths as f64 / 100.0
    }

    /// Out of satoshis per thousand virtual bytes, rounded up.
    pub(crate) fn of_sat_per_kvb(rate: u64) -> Self {
        Self { hundredths: rate.div_ceil(10).clamp(1, MAX_RATE) }
    }

    pub(crate) fn rate(self) -> FeePerWeight {
        // Rounded up: at least the rate that was asked for.
        FeePerWeight { sat_per_kwu: (self.hundredths * 5).div_ceil(2) }
    }
}

impl FromStr for FeeRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a fee rate is 0.01 to 100,000 sat/vB: write 5 or 2.5".to_owned();
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        // The parser would take a sign, and a rate has none.
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > 2 {
            return Err(wrong());
        }
        let hundredths = format!("{whole}{part:0<2}").parse::<u64>().map_err(|_| wrong())?;
        let is_meant = (1..=MAX_RATE).contains(&hundredths);
        if is_meant { Ok(Self { hundredths }) } else { Err(wrong()) }
    }
}

impl fmt::Display for FeeRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.hundredths / 100)?;
        let part = self.hundredths % 100;
        if part == 0 { Ok(()) } else { write!(f, ".{part:02}") }
    }
}

/// The first block that could concern a wallet: its height, or a date such as `2023-05-01`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Birthday {
    Height(u64),
    /// The first moment of that day in UTC, in seconds.
    Date(u64),
}

impl Birthday {
    /// Height and date as the room takes them.
    pub(crate) fn parts(self) -> (u64, Option<u64>) {
        match self {
            Self::Height(height) => (height, None),
            Self::Date(seconds) => (0, Some(seconds)),
        }
    }
}

impl Default for Birthday {
    fn default() -> Self {
        Self::Height(0)
    }
}

impl FromStr for Birthday {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a birthday is the height of a block, or a date such as 2023-05-01";
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let height = text.parse().ok().filter(|height| *height <= MAX_HEIGHT);
            return height.map(Self::Height).ok_or_else(|| wrong().into());
        }
        let seconds = Time::of_date(text).map(|time| time.0.div_euclid(1_000_000));
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.map(Self::Date).ok_or_else(|| wrong().into())
    }
}

impl fmt::Display for Birthday {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Height(height) => height.fmt(f),
            Self::Date(seconds) => f.write_str(&Time::seconds(*seconds).date()),
        }
    }
}

/// A coin, as `TXID:VOUT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Coin(pub(crate) OutPoint);

impl FromStr for Coin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Hashes are written alike on every network that has wallets.
        let found = parse_outpoint(Network::Bitcoin, text).map(bitcoin_outpoint);
        found.map(Self).ok_or_else(|| "a coin is named TXID:VOUT".to_owned())
    }
}

/// A transaction, by 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TxName(pub(crate) Txid);

impl FromStr for TxName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| "a transaction is named by 64 hex digits".to_owned())
    }
}

/// Who holds coins, as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lock(pub(crate) LockId);

impl FromStr for Lock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error| format!("not a lock id (64 hex digits): {error}"))
    }
}

fn text_like(pattern: &str) -> Object {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).build()
}

fn height_or_date() -> Schema {
    let height = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(0))
        .maximum(Some(i64::try_from(MAX_HEIGHT).unwrap_or(i64::MAX)));
    let date = text_like("^[0-9]{4}-[0-9]{2}-[0-9]{2}$");
    Schema::OneOf(OneOfBuilder::new().item(height).item(date).build())
}

in_json!(BaseUnits, text_like("^[0-9]{1,16}$"), |value| value.0.to_string());
in_json!(PayValue, text_like("^([0-9]{1,16}|all)$"), ToString::to_string);
in_json!(FeeRate, number_within(Type::Number, 0..=100_000), FeeRate::sat_per_vbyte);
in_json!(Birthday, height_or_date(), ToString::to_string);
in_json!(Coin, text_like("^[0-9a-fA-F]{64}[:#][0-9]{1,10}$"), |coin| coin.0.to_string());
in_json!(TxName, text_like(HEX_64), |txid| txid.0.to_string());
in_json!(Lock, text_like(HEX_64), |lock| lock.0.to_string());

/// A Bitcoin network, by its name or by the last part of it.
pub(crate) fn network(text: &str) -> Result<Network, String> {
    let full = match text {
        "mainnet" | "main" => "bitcoin".to_owned(),
        "testnet4" | "signet" | "regtest" => format!("bitcoin-{text}"),
        other => other.to_owned(),
    };
    full.parse::<Network>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use unspent_server::input::Seconds;

    use super::*;

    #[test]
    fn rates_spans_and_values_are_read_or_refused() {
        let rate = |text: &str| text.parse::<FeeRate>().map(FeeRate::rate);
        assert_eq!(rate("1"), Ok(FeePerWeight { sat_per_kwu: 250 }));
        assert_eq!(rate("2.5"), Ok(FeePerWeight { sat_per_kwu: 625 }));
        assert_eq!("10m".parse(), Ok(Seconds(600)));
        assert_eq!("90".parse(), Ok(Seconds(90)));
        assert_eq!("0.5 BTC".parse(), Ok(BaseUnits(50_000_000)));
        assert_eq!(
            rate("1.01"),
            Ok(FeePerWeight { sat_per_kwu: 253 }),
            "never below what was asked for"
        );
        assert_eq!(FeeRate::of_sat_per_kvb(12_341).to_string(), "12.35");
        for wrong in ["", "0", "0.00", "-1", "1e3", "1.234", ".5", "100000.01", "9999999999999999"]
        {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "m", "0s", "-5m", "+5m", "5y", "366d", "9223372036854775807d", "é"] {
            assert!(wrong.parse::<Seconds>().is_err(), "{wrong}");
        }
        assert_eq!(network("regtest"), Ok(Network::BitcoinRegtest));
        assert_eq!("800000".parse(), Ok(Birthday::Height(800_000)));
        assert_eq!("2023-05-01".parse(), Ok(Birthday::Date(1_682_899_200)));
        assert_eq!(Birthday::Date(1_682_899_200).to_string(), "2023-05-01");
        for wrong in ["", "-1", "2023", "1969-12-31", "2023-02-30", "9007199254740992"] {
            let read = wrong.parse::<Birthday>();
            assert!(read.is_err() || wrong == "2023", "{wrong}: {read:?}");
        }
    }

    #[test]
    fn json_takes_numbers_for_their_text() {
        let read = |text: &str| serde_json::from_str::<FeeRate>(text).map(|rate| rate.to_string());
        for (json, text) in [("2.5", "2.50"), ("10.0", "10"), ("3", "3"), ("\"0.25\"", "0.25")] {
            assert_eq!(read(json).unwrap(), text);
        }
        assert!(read("2.555").is_err() && read("-1").is_err() && read("null").is_err());
        assert_eq!(serde_json::from_str::<BaseUnits>("\"70000\"").unwrap(), BaseUnits(70_000));
        assert_eq!(serde_json::from_str::<BaseUnits>("70000").unwrap(), BaseUnits(70_000));
        assert_eq!(serde_json::from_str::<Seconds>("3600").unwrap(), Seconds(3_600));
        assert_eq!(serde_json::from_str::<Birthday>("17").unwrap(), Birthday::Height(17));
        assert!(serde_json::from_str::<Birthday>("1.5").is_err());
        assert!(serde_json::from_str::<Coin>("17").is_err());
        let (colon, hash) = (format!("{:064x}:3", 7), format!("{:064x}#3", 7));
        assert_eq!(colon.parse::<Coin>(), hash.parse::<Coin>());
    }
}
