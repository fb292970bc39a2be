//! The words that every room uses for the same thing in JSON: where a block stands, what a coin is
//! called, when something happened.
//!
//! | word | form |
//! |---|---|
//! | `outpoint` | `txid:vout`; on input `txid#vout` is read too |
//! | `txid`, `block_hash` | as people of the network write hashes |
//! | `vout`, `height`, `slot` | numbers |
//! | `value`, `fee`, `net` … | base units, a decimal string: sums pass 2^53 |
//! | times | RFC 3339, UTC, always with six decimals, so that text order is time order |
//!
//! On Cardano networks answers about the chain also carry the names that its ecosystem knows
//! (`tx_hash`, `output_index`, `lovelace_amount` …), each beside the common one.

use serde::Serialize;
pub use unspent_engine::clock::Time;
use unspent_model::{Family, Network, Outpoint, Point, TxId};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, schema::Schema},
};

/// A block.
// The description of the interface lets these names speak for themselves.
#[allow(missing_docs)]
#[derive(Serialize, Clone, ToSchema)]
pub struct PointJson {
    pub(crate) height: u64,
    /// The height on Bitcoin
    pub slot: u64,
    pub(crate) block_hash: String,
}

impl PointJson {
    /// A point in the words of its network.
    pub fn new(network: Network, point: &Point) -> Self {
        let block_hash = network.show_hash(&point.hash.0);
        Self { height: point.height, slot: point.slot, block_hash }
    }
}

/// The name of a coin.
// The description of the interface lets these names speak for themselves.
#[allow(missing_docs)]
#[derive(Serialize, Clone, ToSchema)]
pub struct OutpointJson {
    /// `txid:vout`
    pub outpoint: String,
    pub(crate) txid: String,
    pub vout: u32,
    #[serde(flatten)]
    #[schema(value_type = MaybeCardanoOutpoint)]
    cardano: Option<CardanoOutpoint>,
}

type MaybeCardanoOutpoint = OnCardano<CardanoOutpoint>;

/// The name of a coin in Cardano's words.
#[derive(Serialize, Clone, ToSchema)]
pub struct CardanoOutpoint {
    tx_hash: String,
    output_index: u32,
}

impl OutpointJson {
    /// A coin in the words of its network.
    pub fn new(network: Network, outpoint: &Outpoint) -> Self {
        let (txid, vout) = (network.show_hash(&outpoint.tx.0), outpoint.index);
        let cardano =
            on_cardano(network, || CardanoOutpoint { tx_hash: txid.clone(), output_index: vout });
        Self { outpoint: format!("{txid}:{vout}"), txid, vout, cardano }
    }
}

impl From<bitcoin::OutPoint> for OutpointJson {
    fn from(coin: bitcoin::OutPoint) -> Self {
        let (txid, vout) = (coin.txid.to_string(), coin.vout);
        Self { outpoint: format!("{txid}:{vout}"), txid, vout, cardano: None }
    }
}

/// How large a transaction of Bitcoin is.
#[derive(Serialize, Clone, Copy, ToSchema)]
pub struct TxSizeJson {
    /// Bytes, witnesses included
    pub(crate) size: usize,
    /// What fee rates count, in vB
    pub(crate) vsize: usize,
    /// In weight units
    pub weight: u64,
}

impl TxSizeJson {
    /// Measures a transaction.
    pub fn new(tx: &bitcoin::Transaction) -> Self {
        Self { size: tx.total_size(), vsize: tx.vsize(), weight: tx.weight().to_wu() }
    }

    /// What is paid for each vB, in satoshis with two decimals, rounded down.
    pub fn fee_rate(self, fee: u64) -> Option<String> {
        let size = u128::try_from(self.vsize).ok().filter(|size| *size > 0)?;
        let hundredths = u128::from(fee) * 100 / size;
        Some(format!("{}.{:02}", hundredths / 100, hundredths % 100))
    }
}

/// Reads `txid:vout` or `txid#vout`; `None` when it is neither.
pub fn parse_outpoint(network: Network, text: &str) -> Option<Outpoint> {
    let (txid, vout) = text.split_once([':', '#'])?;
    // No sign, no space.
    let digits = vout.bytes().all(|byte| byte.is_ascii_digit());
    let vout = if digits { vout.parse().ok()? } else { return None };
    Some(Outpoint::new(TxId(network.parse_hash(txid)?), vout))
}

/// How much.
#[derive(Serialize, Clone, ToSchema)]
pub struct ValueJson {
    /// Base units, as a decimal string
    pub(crate) value: String,
    #[serde(flatten)]
    #[schema(value_type = MaybeCardanoValue)]
    cardano: Option<CardanoValue>,
}

type MaybeCardanoValue = OnCardano<CardanoValue>;

/// How much, in Cardano's words.
#[derive(Serialize, Clone, ToSchema)]
pub struct CardanoValue {
    lovelace_amount: String,
}

impl ValueJson {
    /// A value in the words of its network.
    pub fn new(network: Network, value: u128) -> Self {
        let value = value.to_string();
        let cardano = on_cardano(network, || CardanoValue { lovelace_amount: value.clone() });
        Self { value, cardano }
    }
}

/// What is there on Cardano networks alone.
pub fn on_cardano<T>(network: Network, made: impl FnOnce() -> T) -> Option<T> {
    match network.family() {
        Family::Bitcoin => None,
        Family::Cardano => Some(made()),
    }
}

/// Describes fields that are there on Cardano networks alone: those of `T`, none of them required.
pub struct OnCardano<T>(std::marker::PhantomData<T>);

impl<T: PartialSchema> PartialSchema for OnCardano<T> {
    fn schema() -> RefOr<Schema> {
        match T::schema() {
            RefOr::T(Schema::Object(mut object)) => {
                object.required.clear();
                object.into()
            }
            // What is no object has no fields that could be required.
            other @ (RefOr::T(_) | RefOr::Ref(_)) => other,
        }
    }
}

impl<T: ToSchema> ToSchema for OnCardano<T> {
    fn name() -> std::borrow::Cow<'static, str> {
        T::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        T::schemas(schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_civil_and_have_one_form() {
        assert_eq!(Time(0).text(), "1970-01-01 00:00:00 UTC");
        assert_eq!(Time::seconds(951_782_399).text(), "2000-02-28 23:59:59 UTC");
        assert_eq!(Time::seconds(951_868_800).text(), "2000-03-01 00:00:00 UTC");
        assert_eq!(Time::seconds(1_231_006_505).to_string(), "2009-01-03T18:15:05.000000Z");
        assert_eq!(Time(1_763_215_200_000_001).to_string(), "2025-11-15T14:00:00.000001Z");
        assert_eq!(Time(-1).to_string(), "1969-12-31T23:59:59.999999Z");
        assert_eq!(Time::seconds(4_102_444_800).text(), "2100-01-01 00:00:00 UTC");
        let _ = (Time::seconds(u64::MAX).to_string(), Time(i64::MIN).to_string());
    }
}
