//! A coin and its spend.

use serde::Serialize;
use unspent_chain::{CoinState, codec::SpentRecord};
use unspent_model::{Family, Network, Outpoint, chain::Record};
use unspent_networks::address::{show_address, show_stake_address};
use unspent_server::json::{OnCardano, OutpointJson, Time, ValueJson, on_cardano};
use utoipa::ToSchema;

use super::AmountJson;

/// A coin.
#[derive(Serialize, ToSchema)]
pub(crate) struct UtxoJson {
    #[serde(flatten)]
    outpoint: OutpointJson,
    #[serde(flatten)]
    value: ValueJson,
    /// Hex of the script where it has no address
    address: String,
    /// Hex; null on Cardano
    script: Option<String>,
    coinbase: bool,
    height: u64,
    block_hash: String,
    block_time: Time,
    /// Position of the transaction in its block
    tx_index: u32,
    #[serde(flatten)]
    #[schema(value_type = MaybeCardanoUtxo)]
    cardano: Option<CardanoUtxo>,
}

type MaybeCardanoUtxo = OnCardano<CardanoUtxo>;

impl UtxoJson {
    pub(crate) fn new(network: Network, outpoint: &Outpoint, record: &Record) -> Self {
        let Record { output, born } = record;
        let is_script = network.family() == Family::Bitcoin;
        Self {
            outpoint: OutpointJson::new(network, outpoint),
            value: ValueJson::new(network, u128::from(output.value)),
            address: show_address(network, &output.addr),
            script: is_script.then(|| hex::encode(&output.addr)),
            coinbase: output.is_coinbase,
            height: born.block_number,
            block_hash: network.show_hash(&born.block_hash.0),
            block_time: Time::seconds(born.block_time),
            tx_index: born.tx_position,
            cardano: on_cardano(network, || CardanoUtxo::new(network, record)),
        }
    }
}

/// What Cardano's coins have in addition, and Cardano's names for the rest.
#[derive(Serialize, ToSchema)]
pub(crate) struct CardanoUtxo {
    owner_addr: String,
    owner_stake_addr: Option<String>,
    owner_payment_credential: Option<String>,
    owner_stake_credential: Option<String>,
    amounts: Vec<AmountJson>,
    data_hash: Option<String>,
    inline_datum: Option<String>,
    script_ref: Option<String>,
    reference_script_hash: Option<String>,
    is_collateral_return: bool,
    slot: u64,
    block: u64,
    epoch: Option<u64>,
}

impl CardanoUtxo {
    fn new(network: Network, record: &Record) -> Self {
        let Record { output, born } = record;
        let stake = output.stake_addr.as_ref();
        Self {
            owner_addr: show_address(network, &output.addr),
            owner_stake_addr: stake.map(|addr| show_stake_address(network, addr)),
            owner_payment_credential: output.payment_credential.map(hex::encode),
            owner_stake_credential: output.stake_credential.map(hex::encode),
            amounts: AmountJson::of_output(output),
            data_hash: output.data_hash.map(hex::encode),
            inline_datum: output.inline_datum.as_ref().map(hex::encode),
            script_ref: output.script_ref.as_ref().map(hex::encode),
            reference_script_hash: output.reference_script_hash.map(hex::encode),
            is_collateral_return: output.is_collateral_return,
            slot: born.slot,
            block: born.block_number,
            epoch: born.epoch,
        }
    }
}

/// Who spent a coin, and where.
#[derive(Serialize, ToSchema)]
pub(crate) struct SpentJson {
    /// Null when a new era withdrew the coin
    spent_by: Option<String>,
    spent_height: u64,
    spent_block_hash: String,
    spent_block_time: Time,
    #[serde(flatten)]
    #[schema(value_type = MaybeCardanoSpent)]
    cardano: Option<CardanoSpent>,
}

type MaybeCardanoSpent = OnCardano<CardanoSpent>;

/// A spend in Cardano's words.
#[derive(Serialize, ToSchema)]
pub(crate) struct CardanoSpent {
    spent_tx_hash: Option<String>,
    spent_at_slot: u64,
    spent_at_block: u64,
    spent_at_block_hash: String,
    spent_epoch: Option<u64>,
}

impl SpentJson {
    fn new(network: Network, spent: &SpentRecord) -> Self {
        let by = spent.by.map(|by| network.show_hash(&by.tx.0));
        let block_hash = network.show_hash(&spent.at.hash.0);
        Self {
            spent_by: by.clone(),
            spent_height: spent.at.height,
            spent_block_hash: block_hash.clone(),
            spent_block_time: Time::seconds(spent.time),
            cardano: on_cardano(network, || CardanoSpent {
                spent_tx_hash: by,
                spent_at_slot: spent.at.slot,
                spent_at_block: spent.at.height,
                spent_at_block_hash: block_hash,
                spent_epoch: spent.epoch,
            }),
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
