//! What a block did to the coin set.

use serde::Serialize;
use unspent_chain::codec::StoredDelta;
use unspent_model::{Network, Outpoint, chain::Record};
use utoipa::ToSchema;

use super::{OutpointJson, UtxoJson};

/// A coin in a delta; its body is there when the delta is self-contained.
#[derive(Serialize, ToSchema)]
struct DeltaCoinJson {
    #[serde(flatten)]
    outpoint: OutpointJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    spent_tx_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    utxo: Option<UtxoJson>,
}

#[derive(Serialize, ToSchema)]
struct TxFlagsJson {
    tx_hash: String,
    is_invalid: bool,
    had_collateral_return: bool,
}

/// What a block did.
#[derive(Serialize, ToSchema)]
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
