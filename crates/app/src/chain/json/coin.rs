//! A coin and its spend.

use serde::Serialize;
use unspent_chain::{CoinState, codec::SpentRecord};
use unspent_model::{Network, Outpoint, chain::Record};
use unspent_networks::address::{show_address, show_stake_address};
use utoipa::ToSchema;

use super::{AmountJson, OutpointJson};

/// A coin.
#[derive(Serialize, ToSchema)]
pub(crate) struct UtxoJson {
    #[serde(flatten)]
    outpoint: OutpointJson,
    owner_addr: String,
    owner_stake_addr: Option<String>,
    owner_payment_credential: Option<String>,
    owner_stake_credential: Option<String>,
    lovelace_amount: String,
    amounts: Vec<AmountJson>,
    data_hash: Option<String>,
    inline_datum: Option<String>,
    script_ref: Option<String>,
    reference_script_hash: Option<String>,
    is_collateral_return: bool,
    is_coinbase: bool,
    slot: u64,
    block: u64,
    block_hash: String,
    epoch: Option<u64>,
    block_time: u64,
    tx_index: u32,
}

impl UtxoJson {
    pub(crate) fn new(network: Network, outpoint: &Outpoint, record: &Record) -> Self {
        let Record { output, born } = record;
        Self {
            outpoint: OutpointJson::new(network, outpoint),
            owner_addr: show_address(network, &output.addr),
            owner_stake_addr: output
                .stake_addr
                .as_ref()
                .map(|addr| show_stake_address(network, addr)),
            owner_payment_credential: output.payment_credential.map(hex::encode),
            owner_stake_credential: output.stake_credential.map(hex::encode),
            lovelace_amount: output.value.to_string(),
            amounts: AmountJson::of_output(network, output),
            data_hash: output.data_hash.map(hex::encode),
            inline_datum: output.inline_datum.as_ref().map(hex::encode),
            script_ref: output.script_ref.as_ref().map(hex::encode),
            reference_script_hash: output.reference_script_hash.map(hex::encode),
            is_collateral_return: output.is_collateral_return,
            is_coinbase: output.is_coinbase,
            slot: born.slot,
            block: born.block_number,
            block_hash: network.show_hash(&born.block_hash.0),
            epoch: born.epoch,
            block_time: born.block_time,
            tx_index: born.tx_position,
        }
    }
}

/// Who spent a coin, and where.
#[derive(Serialize, ToSchema)]
pub(crate) struct SpentJson {
    spent_tx_hash: Option<String>,
    spent_at_slot: u64,
    spent_at_block: u64,
    spent_at_block_hash: String,
    spent_block_time: u64,
    spent_epoch: Option<u64>,
}

impl SpentJson {
    fn new(network: Network, spent: &SpentRecord) -> Self {
        Self {
            spent_tx_hash: spent.by.map(|tx| network.show_hash(&tx.0)),
            spent_at_slot: spent.at.slot,
            spent_at_block: spent.at.height,
            spent_at_block_hash: network.show_hash(&spent.at.hash.0),
            spent_block_time: spent.time,
            spent_epoch: spent.epoch,
        }
    }
}

/// What is known of a coin.
#[derive(Serialize, ToSchema)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum CoinJson {
    /// In the set.
    Unspent(UtxoJson),
    /// Spent inside the window.
    Spent {
        #[serde(flatten)]
        coin: UtxoJson,
        #[serde(flatten)]
        spent: SpentJson,
    },
    /// Never seen, or forgotten.
    Unknown(OutpointJson),
}

impl CoinJson {
    pub(crate) fn new(network: Network, outpoint: &Outpoint, state: &CoinState) -> Self {
        match state {
            CoinState::Unspent(record) => Self::Unspent(UtxoJson::new(network, outpoint, record)),
            CoinState::Spent(spent) => Self::Spent {
                coin: UtxoJson::new(network, outpoint, &spent.record),
                spent: SpentJson::new(network, spent),
            },
            CoinState::Unknown => Self::Unknown(OutpointJson::new(network, outpoint)),
        }
    }
}
