//! What happened: transactions, the journal, labels, and what was done by hand.

use bitcoin::consensus::encode;
use serde::Serialize;
use unspent_server::json::{OutpointJson, Time, TxSizeJson};
use unspent_wallet::{
    bip329::LabelImport,
    descriptor::show_script,
    history::{EdgeInfo, JournalLine, TxDetail, TxSummary},
    labels::Label,
    statement::StatementLine,
};
use utoipa::ToSchema;

use crate::events::JournalChange;

use crate::face::labels::LabelJson;

/// A transaction in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxJson {
    pub(crate) txid: String,
    pub(crate) status: &'static str,
    pub(crate) height: Option<u64>,
    /// The time in its block's header
    pub(crate) block_time: Option<Time>,
    pub(crate) confirmations: u64,
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
            block_time: tx.block_time.map(Time::seconds),
            confirmations: tx.confirmations,
            received_at: Time(tx.received.0),
            coinbase: tx.is_coinbase,
            own: tx.is_own,
            fee: tx.fee.map(|fee| fee.to_string()),
            credit: tx.credit.to_string(),
            debit: tx.debit.to_string(),
            net: tx.net().to_string(),
            label: tx.label.clone(),
            evicted_at: tx.evicted_at.map(|at| Time(at.0)),
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
    #[serde(flatten)]
    pub(crate) size: TxSizeJson,
    /// In sat/vB, where the fee is known
    pub(crate) fee_rate: Option<String>,
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
        let size = TxSizeJson::new(&found.tx);
        Self {
            tx: TxJson::new(&found.summary),
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            size,
            fee_rate: found.summary.fee.and_then(|fee| size.fee_rate(fee)),
            replaced_by: edges(&found.replaced_by),
            replaces: edges(&found.replaces),
            raw: encode::serialize_hex(&found.tx),
        }
    }
}

/// An unconfirmed transaction of a wallet.
#[derive(Serialize, ToSchema)]
pub(crate) struct PoolTxJson {
    #[serde(flatten)]
    pub(crate) tx: TxJson,
    #[serde(flatten)]
    pub(crate) size: TxSizeJson,
    /// In sat/vB, where the wallet or the node knows the fee
    pub(crate) fee_rate: Option<String>,
}

/// What a wallet waits for.
#[derive(Serialize, ToSchema)]
pub(crate) struct PoolTxsJson {
    pub(crate) txs: Vec<PoolTxJson>,
    pub(crate) next: Option<String>,
}

/// A line of the journal.
#[derive(Serialize, ToSchema)]
pub(crate) struct LineJson {
    pub(crate) number: i64,
    pub(crate) cause: &'static str,
    #[serde(flatten)]
    pub(crate) change: JournalChange,
}

impl LineJson {
    pub(crate) fn new(line: &JournalLine) -> Self {
        Self { number: line.id, cause: line.cause.name(), change: line.into() }
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

/// A line that was left out.
#[derive(Serialize, ToSchema)]
pub(crate) struct BadLineJson {
    /// Its number, from 1
    pub(crate) line: usize,
    pub(crate) reason: String,
}

/// How many labels were taken in, and which lines were not.
#[derive(Serialize, ToSchema)]
pub(crate) struct ImportedJson {
    pub(crate) imported: usize,
    pub(crate) left_out: usize,
    /// The first hundred of those
    pub(crate) bad: Vec<BadLineJson>,
}

impl ImportedJson {
    pub(crate) fn new(done: &LabelImport) -> Self {
        let bad =
            done.bad.iter().map(|bad| BadLineJson { line: bad.line, reason: bad.why.clone() });
        Self { imported: done.taken, left_out: done.left_out, bad: bad.collect() }
    }
}

/// A confirmed transaction and what the wallet held after it.
#[derive(Serialize, ToSchema)]
pub(crate) struct StatementLineJson {
    pub(crate) date: Option<Time>,
    pub(crate) height: Option<u64>,
    pub(crate) txid: String,
    pub(crate) label: Option<String>,
    /// What it changed
    pub(crate) value: String,
    /// What it paid to miners, where the wallet paid it
    pub(crate) fee: Option<String>,
    /// What was confirmed after it
    pub(crate) balance: String,
}

impl StatementLineJson {
    pub(crate) fn new(line: &StatementLine) -> Self {
        let tx = &line.tx;
        // What a sender paid to miners is no cost of this account.
        let fee = tx.fee.filter(|_| tx.is_own);
        Self {
            date: tx.block_time.map(Time::seconds),
            height: tx.height,
            txid: tx.txid.to_string(),
            label: tx.label.clone(),
            value: tx.net().to_string(),
            fee: fee.map(|fee| fee.to_string()),
            balance: line.balance.to_string(),
        }
    }
}

/// A page of a wallet's history.
#[derive(Serialize, ToSchema)]
pub(crate) struct StatementJson {
    pub(crate) lines: Vec<StatementLineJson>,
    pub(crate) next: Option<String>,
}
