//! Coins, spends, balances and deltas as JSON: the common words first, and on Cardano networks the
//! field names of the seed document beside them.
//!
//! Every field is always there; what a coin doesn't have is `null`.

mod answer;
mod coin;
mod delta;
mod proof;
#[cfg(test)]
mod tests;

use serde::Serialize;
use unspent_model::chain::Output;
use utoipa::ToSchema;

pub(crate) use self::{
    answer::{BalanceJson, DigestJson, PageJson},
    coin::{CoinJson, UtxoJson},
    delta::DeltaJson,
    proof::{CoinProofJson, ProvenJson, RootJson},
};

/// An amount of lovelace or of an asset.
#[derive(Serialize, ToSchema)]
pub(crate) struct AmountJson {
    unit: String,
    policy_id: Option<String>,
    asset_name: Option<String>,
    quantity: String,
}

impl AmountJson {
    fn lovelace(quantity: u128) -> Self {
        let (unit, quantity) = ("lovelace".to_owned(), quantity.to_string());
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

    fn of_output(output: &Output) -> Vec<Self> {
        let assets = output
            .assets
            .iter()
            .map(|asset| Self::asset(&asset.policy, &asset.name, u128::from(asset.quantity)));
        std::iter::once(Self::lovelace(u128::from(output.value))).chain(assets).collect()
    }
}
