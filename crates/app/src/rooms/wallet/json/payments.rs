//! Chosen coins, payments that wait for signatures, and what a node said to them.

use serde::Serialize;
use unspent_wallet::{
    choose::Chosen,
    pay::{Unsigned, psbt_txid},
};
use utoipa::ToSchema;

use crate::json::{OutpointJson, Time};

/// A chosen coin.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChosenCoinJson {
    #[serde(flatten)]
    pub(crate) outpoint: OutpointJson,
    pub(crate) value: String,
}

/// Chosen coins and the reason; `lock` where they are held.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChosenJson {
    pub(crate) coins: Vec<ChosenCoinJson>,
    pub(crate) fee: String,
    pub(crate) change: Option<String>,
    pub(crate) weight: u64,
    pub(crate) waste: String,
    pub(crate) method: &'static str,
    pub(crate) why: String,
    pub(crate) lock: Option<String>,
}

impl ChosenJson {
    pub(crate) fn new(chosen: &Chosen, lock: Option<String>) -> Self {
        let selection = &chosen.selection;
        let coins = chosen.coins.iter().map(|coin| ChosenCoinJson {
            outpoint: coin.outpoint.into(),
            value: coin.amount.to_string(),
        });
        Self {
            coins: coins.collect(),
            fee: selection.fee.to_string(),
            change: selection.change.map(|value| value.to_string()),
            weight: selection.weight,
            waste: selection.waste.to_string(),
            method: selection.method.name(),
            why: selection.why(),
            lock,
        }
    }
}

/// A payment that waits for signatures.
#[derive(Serialize, ToSchema)]
pub(crate) struct UnsignedJson {
    #[serde(flatten)]
    pub(crate) chosen: ChosenJson,
    pub(crate) expires_at: Time,
    pub(crate) unsigned_txid: String,
    pub(crate) change_vout: Option<usize>,
    pub(crate) psbt: String,
}

impl UnsignedJson {
    pub(crate) fn new(unsigned: &Unsigned, lock: String) -> Self {
        Self {
            chosen: ChosenJson::new(&unsigned.chosen, Some(lock)),
            expires_at: Time(unsigned.held_until),
            unsigned_txid: psbt_txid(&unsigned.psbt).to_string(),
            change_vout: unsigned.change_output,
            psbt: unsigned.psbt.to_string(),
        }
    }
}

/// What a node said to a transaction.
#[derive(Serialize, ToSchema)]
pub(crate) struct NodeAnswerJson {
    pub(crate) accepted: bool,
    /// Why not
    pub(crate) reason: Option<String>,
}

/// A transaction that is recorded as pending, or sent.
#[derive(Serialize, ToSchema)]
pub(crate) struct FinalizedJson {
    pub(crate) txid: String,
    pub(crate) status: &'static str,
    pub(crate) raw: String,
    /// Where it was asked for
    pub(crate) broadcast: Option<NodeAnswerJson>,
}

/// A transaction that was handed to the node.
#[derive(Serialize, ToSchema)]
pub(crate) struct BroadcastJson {
    pub(crate) txid: String,
    pub(crate) status: &'static str,
    pub(crate) accepted: bool,
    pub(crate) reason: Option<String>,
}
