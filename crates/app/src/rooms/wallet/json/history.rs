//! What happened: transactions, the journal, labels, and what was done by hand.

use bitcoin::consensus::encode;
use serde::Serialize;
use unspent_wallet::{
    descriptor::show_script,
    history::{EdgeInfo, JournalLine, TxDetail, TxSummary},
    labels::Label,
};
use utoipa::ToSchema;

use crate::{
    json::{OutpointJson, Time},
    rooms::wallet::labels::LabelJson,
};

/// A transaction in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxJson {
    pub(crate) txid: String,
    pub(crate) status: &'static str,
    pub(crate) height: Option<u64>,
    pub(crate) received_at: Time,
    pub(crate) coinbase: bool,
    pub(crate) own: bool,
    pub(crate) fee: Option<String>,
    pub(crate) credit: String,
    pub(crate) debit: String,
    pub(crate) net: String,
    pub(crate) label: Option<String>,
    pub(crate) evicted_at: Option<Time>,
}

impl TxJson {
    pub(crate) fn new(tx: &TxSummary) -> Self {
        Self {
            txid: tx.txid.to_string(),
            status: tx.status.name(),
            height: tx.height,
            received_at: Time(tx.received),
            coinbase: tx.is_coinbase,
            own: tx.is_own,
            fee: tx.fee.map(|fee| fee.to_string()),
            credit: tx.credit.to_string(),
            debit: tx.debit.to_string(),
            net: tx.net().to_string(),
            label: tx.label.clone(),
            evicted_at: tx.evicted_at.map(Time),
        }
    }
}

/// A page of transactions.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxsJson {
    pub(crate) txs: Vec<TxJson>,
    pub(crate) next: Option<String>,
}

/// What a transaction spends; `value` where the coin is ours.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxInputJson {
    #[serde(flatten)]
    pub(crate) outpoint: OutpointJson,
    pub(crate) value: Option<String>,
}

/// What a transaction pays.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxOutputJson {
    pub(crate) vout: u32,
    pub(crate) value: String,
    pub(crate) ours: bool,
    pub(crate) address: String,
    pub(crate) script: String,
}

/// One transaction standing in another's way.
#[derive(Serialize, ToSchema)]
pub(crate) struct EdgeJson {
    pub(crate) txid: String,
    pub(crate) cause: &'static str,
}

/// A transaction in full.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxDetailJson {
    #[serde(flatten)]
    pub(crate) tx: TxJson,
    pub(crate) inputs: Vec<TxInputJson>,
    pub(crate) outputs: Vec<TxOutputJson>,
    pub(crate) replaced_by: Vec<EdgeJson>,
    pub(crate) replaces: Vec<EdgeJson>,
    pub(crate) raw: String,
}

impl TxDetailJson {
    pub(crate) fn new(found: &TxDetail, network: bitcoin::Network) -> Self {
        let inputs = found.inputs.iter().map(|input| TxInputJson {
            outpoint: input.outpoint.into(),
            value: input.amount.map(|value| value.to_string()),
        });
        let outputs = found.outputs.iter().map(|out| TxOutputJson {
            vout: out.index,
            value: out.amount.to_string(),
            ours: out.is_ours,
            address: show_script(&out.script, network),
            script: out.script.to_hex_string(),
        });
        let edges = |edges: &[EdgeInfo]| -> Vec<EdgeJson> {
            let edge = |edge: &EdgeInfo| EdgeJson {
                txid: edge.txid.to_string(),
                cause: edge.cause.name(),
            };
            edges.iter().map(edge).collect()
        };
        Self {
            tx: TxJson::new(&found.summary),
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            replaced_by: edges(&found.replaced_by),
            replaces: edges(&found.replaces),
            raw: encode::serialize_hex(&found.tx),
        }
    }
}

/// A line of the journal.
#[derive(Serialize, ToSchema)]
pub(crate) struct LineJson {
    pub(crate) number: i64,
    pub(crate) at: Time,
    pub(crate) cause: &'static str,
    pub(crate) txid: String,
    pub(crate) outpoint: Option<String>,
    pub(crate) from: Option<&'static str>,
    pub(crate) to: Option<&'static str>,
    pub(crate) other: Option<String>,
    pub(crate) height: Option<u64>,
    pub(crate) lock: Option<String>,
}

impl LineJson {
    pub(crate) fn new(line: &JournalLine) -> Self {
        Self {
            number: line.id,
            at: Time(line.at),
            cause: line.cause.name(),
            txid: line.txid.to_string(),
            outpoint: line.output.map(|coin| coin.to_string()),
            from: line.from.map(|status| status.name()),
            to: line.to.map(|status| status.name()),
            other: line.other.map(|txid| txid.to_string()),
            height: line.height,
            lock: line.lock.map(|lock| lock.to_string()),
        }
    }
}

/// A page of the journal.
#[derive(Serialize, ToSchema)]
pub(crate) struct JournalJson {
    pub(crate) lines: Vec<LineJson>,
    pub(crate) next: Option<String>,
}

/// Where a transaction stands.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxStatusJson {
    pub(crate) txid: String,
    pub(crate) status: &'static str,
}

/// What a rewind did.
#[derive(Serialize, ToSchema)]
pub(crate) struct RewoundJson {
    pub(crate) txs: u64,
    pub(crate) steps: u64,
}

/// Transactions that a prune removed.
#[derive(Serialize, ToSchema)]
pub(crate) struct PrunedTxsJson {
    pub(crate) pruned: Vec<String>,
}

/// What an audit found; empty when everything agrees.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditJson {
    pub(crate) differences: Vec<String>,
}

/// A page of labels.
#[derive(Serialize, ToSchema)]
pub(crate) struct LabelsJson {
    #[schema(value_type = Vec<LabelJson>)]
    pub(crate) labels: Vec<Label>,
    pub(crate) next: Option<String>,
}

/// How many labels were taken in.
#[derive(Serialize, ToSchema)]
pub(crate) struct ImportedJson {
    pub(crate) imported: usize,
}
