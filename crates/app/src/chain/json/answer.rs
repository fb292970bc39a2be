//! Answers about many coins.

use std::collections::BTreeMap;

use serde::Serialize;
use unspent_chain::{Balance, Digest, Page};
use unspent_model::Network;
use utoipa::ToSchema;

use super::{AmountJson, PointJson, UtxoJson};

/// A page of coins.
#[derive(Serialize, ToSchema)]
pub(crate) struct PageJson {
    utxos: Vec<UtxoJson>,
    next: Option<String>,
    at: Option<PointJson>,
}

impl PageJson {
    pub(crate) fn new(network: Network, page: &Page) -> Self {
        let coins = page.coins.iter();
        Self {
            utxos: coins.map(|(at, record)| UtxoJson::new(network, at, record)).collect(),
            next: page.next.map(|next| next.to_string()),
            at: page.at.map(|at| PointJson::new(network, &at)),
        }
    }
}

/// What an owner has.
#[derive(Serialize, ToSchema)]
pub(crate) struct BalanceJson {
    utxos: u64,
    lovelace_amount: String,
    amounts: Vec<AmountJson>,
    at: Option<PointJson>,
}

impl BalanceJson {
    pub(crate) fn new(network: Network, balance: &Balance) -> Self {
        let assets: &BTreeMap<_, _> = &balance.assets;
        let assets =
            assets.iter().map(|((policy, name), sum)| AmountJson::asset(policy, name, *sum));
        Self {
            utxos: balance.coins,
            lovelace_amount: balance.value.to_string(),
            amounts: std::iter::once(AmountJson::base(network, balance.value))
                .chain(assets)
                .collect(),
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
    lovelace_amount: String,
    asset_entries: u64,
    sha256: String,
}

impl DigestJson {
    pub(crate) fn new(network: Network, digest: &Digest) -> Self {
        Self {
            height: digest.at.map(|at| at.height),
            slot: digest.at.map(|at| at.slot),
            block_hash: digest.at.map(|at| network.show_hash(&at.hash.0)),
            utxos: digest.coins,
            lovelace_amount: digest.value.to_string(),
            asset_entries: digest.asset_entries,
            sha256: hex::encode(digest.sha256),
        }
    }
}
