//! Coins, spends, balances and deltas as JSON, with the field names of the seed document.
//!
//! Hashes are written as people of the network write them; numbers that can pass 2^53 are strings. Every
//! field is always there; what a coin doesn't have is `null`.

use std::collections::BTreeMap;

use serde::Serialize;
use unspent_chain::{
    Balance, CoinState, Digest, Page,
    codec::{SpentRecord, StoredDelta},
};
use unspent_model::{
    Family, Network, Outpoint, Point,
    chain::{Output, Record},
};
use unspent_networks::address::{show_address, show_stake_address};

/// A block.
#[derive(Serialize, Clone)]
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
#[derive(Serialize)]
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
#[derive(Serialize)]
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
        std::iter::once(Self::base(network, u128::from(output.lovelace))).chain(assets).collect()
    }
}

/// A coin.
#[derive(Serialize)]
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
            lovelace_amount: output.lovelace.to_string(),
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
#[derive(Serialize)]
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
#[derive(Serialize)]
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

/// A page of coins.
#[derive(Serialize)]
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
#[derive(Serialize)]
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
            lovelace_amount: balance.lovelace.to_string(),
            amounts: std::iter::once(AmountJson::base(network, balance.lovelace))
                .chain(assets)
                .collect(),
            at: balance.at.map(|at| PointJson::new(network, &at)),
        }
    }
}

/// The coin set in four numbers.
#[derive(Serialize)]
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

/// A coin in a delta; its body is there when the delta is self-contained.
#[derive(Serialize)]
struct DeltaCoinJson {
    #[serde(flatten)]
    outpoint: OutpointJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    spent_tx_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    utxo: Option<UtxoJson>,
}

#[derive(Serialize)]
struct TxFlagsJson {
    tx_hash: String,
    is_invalid: bool,
    had_collateral_return: bool,
}

/// What a block did.
#[derive(Serialize)]
pub(crate) struct DeltaJson {
    slot: u64,
    block: u64,
    block_hash: String,
    is_self_contained: bool,
    created: Vec<DeltaCoinJson>,
    spent: Vec<DeltaCoinJson>,
    overwritten: Vec<DeltaCoinJson>,
    missing_inputs: Vec<OutpointJson>,
    tx_flags: Vec<TxFlagsJson>,
}

impl DeltaJson {
    pub(crate) fn new(network: Network, delta: &StoredDelta) -> Self {
        let coin = |outpoint: &Outpoint, record: Option<&Record>| DeltaCoinJson {
            outpoint: OutpointJson::new(network, outpoint),
            spent_tx_hash: None,
            utxo: record.map(|record| UtxoJson::new(network, outpoint, record)),
        };
        let spent = delta.spent.iter().map(|spent| DeltaCoinJson {
            spent_tx_hash: spent.by.map(|tx| network.show_hash(&tx.0)),
            ..coin(&spent.outpoint, spent.record.as_ref())
        });
        let flags = delta.tx_flags.iter().map(|flags| TxFlagsJson {
            tx_hash: network.show_hash(&flags.tx.0),
            is_invalid: flags.is_invalid,
            had_collateral_return: flags.had_collateral_return,
        });
        let created = delta.created.iter();
        let missing = delta.missing.iter();
        Self {
            slot: delta.point.slot,
            block: delta.point.height,
            block_hash: network.show_hash(&delta.point.hash.0),
            is_self_contained: delta.is_self_contained(),
            created: created.map(|born| coin(&born.outpoint, born.record.as_ref())).collect(),
            spent: spent.collect(),
            overwritten: delta.overwritten.iter().map(|(at, lost)| coin(at, Some(lost))).collect(),
            missing_inputs: missing.map(|at| OutpointJson::new(network, at)).collect(),
            tx_flags: flags.collect(),
        }
    }
}
