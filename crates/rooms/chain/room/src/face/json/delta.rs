//! What a block did to the coin set.

use serde::Serialize;
use unspent_chain::codec::StoredDelta;
use unspent_model::{Network, Outpoint, chain::Record};
use unspent_server::json::{OnCardano, OutpointJson, on_cardano};
use utoipa::ToSchema;

use super::UtxoJson;

/// A coin in a delta; its body is there when the delta is self-contained.
#[derive(Serialize, ToSchema)]
struct DeltaCoinJson {
    #[serde(flatten)]
    outpoint: OutpointJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    spent_by: Option<String>,
    #[serde(flatten)]
    #[schema(value_type = MaybeCardanoSpender)]
    cardano: Option<CardanoSpender>,
    #[serde(skip_serializing_if = "Option::is_none")]
    utxo: Option<UtxoJson>,
}

type MaybeCardanoSpender = OnCardano<CardanoSpender>;

/// Who spent a coin, in Cardano's words.
#[derive(Serialize, ToSchema)]
struct CardanoSpender {
    spent_tx_hash: String,
}

/// What a block did.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeltaJson {
    height: u64,
    block_hash: String,
    is_self_contained: bool,
    created: Vec<DeltaCoinJson>,
    spent: Vec<DeltaCoinJson>,
    overwritten: Vec<DeltaCoinJson>,
    missing_inputs: Vec<OutpointJson>,
    #[serde(flatten)]
    #[schema(value_type = MaybeCardanoDelta)]
    cardano: Option<CardanoDelta>,
}

type MaybeCardanoDelta = OnCardano<CardanoDelta>;

/// What a block of Cardano did in addition, and Cardano's names for the rest.
#[derive(Serialize, ToSchema)]
struct CardanoDelta {
    slot: u64,
    block: u64,
    flags: DeltaFlagsJson,
    tx_flags: Vec<TxFlagsJson>,
}

/// Of the block as a whole, spelt as Cardano's tools do.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DeltaFlagsJson {
    contains_invalid_tx: bool,
}

#[derive(Serialize, ToSchema)]
struct TxFlagsJson {
    txid: String,
    tx_hash: String,
    is_invalid: bool,
    had_collateral_return: bool,
}

impl CardanoDelta {
    fn new(network: Network, delta: &StoredDelta) -> Self {
        let flags = delta.tx_flags.iter().map(|flags| {
            let txid = network.show_hash(&flags.tx.0);
            TxFlagsJson {
                txid: txid.clone(),
                tx_hash: txid,
                is_invalid: flags.is_invalid,
                had_collateral_return: flags.had_collateral_return,
            }
        });
        let contains_invalid_tx = delta.tx_flags.iter().any(|flags| flags.is_invalid);
        Self {
            slot: delta.point.slot,
            block: delta.point.height,
            flags: DeltaFlagsJson { contains_invalid_tx },
            tx_flags: flags.collect(),
        }
    }
}

impl DeltaJson {
    pub(crate) fn new(network: Network, delta: &StoredDelta) -> Self {
        let coin = |outpoint: &Outpoint, record: Option<&Record>| DeltaCoinJson {
            outpoint: OutpointJson::new(network, outpoint),
            spent_by: None,
            cardano: None,
            utxo: record.map(|record| UtxoJson::new(network, outpoint, record)),
        };
        // A compact delta has the bodies of what it spent too, but shows none.
        let body = |record| delta.self_contained.then_some(record);
        let spent = delta.spent.iter().map(|spent| {
            let by = spent.by.map(|by| network.show_hash(&by.tx.0));
            let named = by.clone().map(|spent_tx_hash| CardanoSpender { spent_tx_hash });
            DeltaCoinJson {
                spent_by: by,
                cardano: on_cardano(network, || named).flatten(),
                ..coin(&spent.outpoint, body(&spent.record))
            }
        });
        let created = delta.created.iter();
        let missing = delta.missing.iter();
        Self {
            height: delta.point.height,
            block_hash: network.show_hash(&delta.point.hash.0),
            is_self_contained: delta.self_contained,
            created: created.map(|born| coin(&born.outpoint, born.record.as_ref())).collect(),
            spent: spent.collect(),
            overwritten: delta.overwritten.iter().map(|(at, lost)| coin(at, Some(lost))).collect(),
            missing_inputs: missing.map(|at| OutpointJson::new(network, at)).collect(),
            cardano: on_cardano(network, || CardanoDelta::new(network, delta)),
        }
    }
}
