//! Answers about many coins.

use serde::Serialize;
use unspent_chain::{CoinPage, OwnerBalance, SetDigest};
use unspent_model::Network;
use unspent_server::json::{OnCardano, PointJson, ValueJson, on_cardano};
use utoipa::ToSchema;

use super::{AmountJson, UtxoJson};

/// A page of coins.
#[derive(Serialize, ToSchema)]
pub(crate) struct PageJson {
    utxos: Vec<UtxoJson>,
    next: Option<String>,
    /// The tip that the page is from
    at: Option<PointJson>,
}

impl PageJson {
    pub(crate) fn new(network: Network, page: &CoinPage) -> Self {
        let coins = page.coins.iter();
        Self {
            utxos: coins.map(|(at, record)| UtxoJson::new(network, at, record)).collect(),
            next: page.next.map(|next| next.to_string()),
            at: page.at.map(|at| PointJson::new(network, &at)),
        }
    }
}

/// An owner's balance.
#[derive(Serialize, ToSchema)]
pub(crate) struct BalanceJson {
    utxos: u64,
    #[serde(flatten)]
    value: ValueJson,
    #[serde(flatten)]
    #[schema(value_type = MaybeCardanoBalance)]
    cardano: Option<CardanoBalance>,
    at: Option<PointJson>,
}

type MaybeCardanoBalance = OnCardano<CardanoBalance>;

/// Lovelace and assets, added up.
#[derive(Serialize, ToSchema)]
pub(crate) struct CardanoBalance {
    amounts: Vec<AmountJson>,
}

impl CardanoBalance {
    fn new(balance: &OwnerBalance) -> Self {
        let assets = balance
            .assets
            .iter()
            .map(|((policy, name), sum)| AmountJson::asset(policy, name, *sum));
        let amounts = std::iter::once(AmountJson::lovelace(balance.value)).chain(assets);
        Self { amounts: amounts.collect() }
    }
}

impl BalanceJson {
    pub(crate) fn new(network: Network, balance: &OwnerBalance) -> Self {
        Self {
            utxos: balance.coins,
            value: ValueJson::new(network, balance.value),
            cardano: on_cardano(network, || CardanoBalance::new(balance)),
            at: balance.at.map(|at| PointJson::new(network, &at)),
        }
    }
}

/// The coin set in four numbers.
#[derive(Serialize, ToSchema)]
pub(crate) struct DigestJson {
    height: Option<u64>,
    slot: Option<u64>,
    block_hash: Option<String>,
    utxos: u64,
    #[serde(flatten)]
    value: ValueJson,
    asset_entries: u64,
    sha256: String,
    /// As Core shows it; only where it was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    muhash: Option<String>,
}

impl DigestJson {
    pub(crate) fn new(network: Network, digest: &SetDigest, muhash: Option<String>) -> Self {
        Self {
            height: digest.at.map(|at| at.height),
            slot: digest.at.map(|at| at.slot),
            block_hash: digest.at.map(|at| network.show_hash(&at.hash.0)),
            utxos: digest.coins,
            value: ValueJson::new(network, digest.value),
            asset_entries: digest.asset_entries,
            sha256: hex::encode(digest.sha256),
            muhash,
        }
    }
}
