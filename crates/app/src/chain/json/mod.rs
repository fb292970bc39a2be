//! Coins, spends, balances and deltas as JSON, with the field names of the seed document.
//!
//! Hashes are written as people of the network write them; numbers that can pass 2^53 are strings.
//! Every field is always there; what a coin doesn't have is `null`.

mod answer;
mod coin;
mod delta;
#[cfg(test)]
mod tests;

use serde::Serialize;
use unspent_model::{Family, Network, Outpoint, Point, chain::Output};
use utoipa::ToSchema;

pub(crate) use self::{
    answer::{BalanceJson, DigestJson, PageJson},
    coin::{CoinJson, UtxoJson},
    delta::DeltaJson,
};

/// A block.
#[derive(Serialize, Clone, ToSchema)]
pub(crate) struct PointJson {
    pub(crate) height: u64,
    pub(crate) slot: u64,
    pub(crate) hash: String,
}

impl PointJson {
    pub(crate) fn new(network: Network, point: &Point) -> Self {
        let hash = network.show_hash(&point.hash.0);
        Self { height: point.height, slot: point.slot, hash }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        format!("height {}, {}", super::text::grouped(u128::from(self.height)), self.hash)
    }
}

/// The name of a coin.
#[derive(Serialize, ToSchema)]
pub(crate) struct OutpointJson {
    tx_hash: String,
    output_index: u32,
}

impl OutpointJson {
    pub(crate) fn new(network: Network, outpoint: &Outpoint) -> Self {
        Self { tx_hash: network.show_hash(&outpoint.tx.0), output_index: outpoint.index }
    }
}

/// An amount of the base unit or of an asset.
#[derive(Serialize, ToSchema)]
pub(crate) struct AmountJson {
    unit: String,
    policy_id: Option<String>,
    asset_name: Option<String>,
    quantity: String,
}

impl AmountJson {
    fn base(network: Network, quantity: u128) -> Self {
        let unit = match network.family() {
            Family::Bitcoin => "satoshi",
            Family::Cardano => "lovelace",
        };
        let (unit, quantity) = (unit.to_owned(), quantity.to_string());
        Self { unit, policy_id: None, asset_name: None, quantity }
    }

    fn asset(policy: &[u8; 28], name: &[u8], quantity: u128) -> Self {
        let (policy, name) = (hex::encode(policy), hex::encode(name));
        Self {
            unit: format!("{policy}{name}"),
            policy_id: Some(policy),
            asset_name: Some(name),
            quantity: quantity.to_string(),
        }
    }

    fn of_output(network: Network, output: &Output) -> Vec<Self> {
        let assets = output
            .assets
            .iter()
            .map(|asset| Self::asset(&asset.policy, &asset.name, u128::from(asset.quantity)));
        std::iter::once(Self::base(network, u128::from(output.value))).chain(assets).collect()
    }
}
