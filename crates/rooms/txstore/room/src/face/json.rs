//! The answers.

use std::{collections::BTreeMap, ops::Range};

use bitcoin::{Transaction, consensus::deserialize};
use serde::Serialize;
use unspent_model::{
    Network, Outpoint, TxId,
    txstore::{DeletionBlocker, DeletionVerdict, RetryAt, Slot, TxRecord},
};
use unspent_networks::address::show_address;
use unspent_server::json::{OutpointJson, TxSizeJson};
use unspent_txstore::{CleanReport, StoredTx, TxStoreError, UnminedTx, WhyKept, query::best_block};
use utoipa::ToSchema;

/// A stored transaction.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoredTxJson {
    pub(super) txid: String,
    /// `mined`, `unmined` or `conflicting`
    pub(super) state: &'static str,
    /// Height and hash of its block on the best chain
    pub(super) height: Option<u64>,
    pub(super) block_hash: Option<String>,
    /// Every block that holds it, forks too
    pub(super) blocks: Vec<MinedInJson>,
    /// Since which height it is in no block of the best chain
    pub(super) unmined_since: Option<u64>,
    pub(super) coinbase: bool,
    pub(super) locked: bool,
    /// In satoshis, where it is known
    pub(super) fee: Option<String>,
    pub(super) size: u64,
    /// In weight units
    pub(super) weight: Option<u64>,
    /// In sat/vB, where the fee is known
    pub(super) fee_rate: Option<String>,
    pub(super) outputs: u32,
    /// Outputs that can still be spent
    pub(super) unspent: u32,
    /// It may be deleted from this height on, if its children allow it
    pub(super) delete_at: Option<u64>,
    pub(super) preserve_until: Option<u64>,
    /// When the cleaner looks at it next
    pub(super) due_at: Option<u64>,
    /// What it spends, as TXID:VOUT
    pub(super) inputs: Vec<String>,
    /// Conflicting transactions that spend its outputs
    pub(super) rivals: Vec<String>,
    /// Its bytes in hex, when they were asked for
    pub(super) raw: Option<String>,
}

/// A block that holds a transaction.
#[derive(Serialize, ToSchema)]
pub(crate) struct MinedInJson {
    height: u64,
    block_hash: String,
    on_best_chain: bool,
}

impl MinedInJson {
    /// For people.
    pub(super) fn text(&self) -> String {
        let fork = if self.on_best_chain { "" } else { ", not on the best chain" };
        format!("{} at height {}{fork}", self.block_hash, self.height)
    }
}

impl StoredTxJson {
    pub(super) fn new(network: Network, stored: &StoredTx, with_raw: bool) -> Self {
        let StoredTx { record, body, inputs } = stored;
        let best = best_block(record);
        let hash = |hash: &[u8; 32]| network.show_hash(hash);
        let coin = |coin: &Outpoint| format!("{}:{}", hash(&coin.tx.0), coin.index);
        let shape = deserialize::<Transaction>(body).ok().map(|tx| TxSizeJson::new(&tx));
        Self {
            txid: hash(&record.txid.0),
            state: state(record),
            height: best.map(|block| block.height),
            block_hash: best.map(|block| hash(&block.hash.0)),
            blocks: record
                .blocks
                .iter()
                .map(|block| MinedInJson {
                    height: block.height,
                    block_hash: hash(&block.hash.0),
                    on_best_chain: block.on_best_chain,
                })
                .collect(),
            unmined_since: record.unmined_since,
            coinbase: record.is_coinbase,
            locked: record.is_locked,
            fee: record.fee.map(|fee| fee.to_string()),
            size: record.size,
            weight: shape.map(|shape| shape.weight),
            fee_rate: shape.zip(record.fee).and_then(|(shape, fee)| shape.fee_rate(fee)),
            outputs: record.slots.len(),
            unspent: record.slots.open(),
            delete_at: record.delete_at,
            preserve_until: record.preserve_until,
            due_at: record.due_at,
            inputs: inputs.iter().map(coin).collect(),
            rivals: record.rivals.iter().map(|rival| hash(&rival.0)).collect(),
            raw: with_raw.then(|| hex::encode(body)),
        }
    }
}

fn state(record: &TxRecord) -> &'static str {
    if record.is_conflicting {
        "conflicting"
    } else if record.is_mined() {
        "mined"
    } else {
        "unmined"
    }
}

/// An output with whoever spends it.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoredOutputJson {
    #[serde(flatten)]
    pub(super) outpoint: OutpointJson,
    /// In satoshis
    pub(super) value: String,
    pub(super) address: String,
    /// `unspent`, `spent`, `spent_pruned` (its spender was deleted since), `frozen`, `unspendable`
    pub(super) state: &'static str,
    pub(super) spent_by: Option<String>,
    /// Which input of the spender
    pub(super) spent_vin: Option<u32>,
    /// It was reassigned: from this height on it may be spent
    pub(super) reassigned_until: Option<u64>,
}

/// A page of outputs.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoredOutputsJson {
    pub(super) txid: String,
    pub(super) outputs: Vec<StoredOutputJson>,
    pub(super) next: Option<String>,
}

impl StoredOutputsJson {
    /// The outputs with these numbers.
    pub(super) fn new(
        network: Network,
        stored: &StoredTx,
        vouts: Range<u32>,
    ) -> Result<Self, TxStoreError> {
        let record = &stored.record;
        let parsed: Transaction = deserialize(&stored.body)
            .map_err(|error| TxStoreError::Corrupt(format!("a stored transaction: {error}")))?;
        let slots = record.slots.iter().filter(|(vout, _)| vouts.contains(vout));
        let outputs = slots.filter_map(|(vout, slot)| {
            let output = parsed.output.get(vout as usize)?;
            let by = slot.spender();
            let given = record.reassigned.iter().find(|given| given.vout == vout);
            Some(StoredOutputJson {
                outpoint: OutpointJson::new(network, &Outpoint::new(record.txid, vout)),
                value: output.value.to_sat().to_string(),
                address: show_address(network, output.script_pubkey.as_bytes()),
                state: slot_name(slot),
                spent_by: by.map(|by| network.show_hash(&by.tx.0)),
                spent_vin: by.map(|by| by.vin),
                reassigned_until: given.map(|given| given.spendable_at),
            })
        });
        Ok(Self {
            txid: network.show_hash(&record.txid.0),
            outputs: outputs.collect(),
            next: (record.slots.len() > vouts.end).then(|| vouts.end.to_string()),
        })
    }
}

fn slot_name(slot: Slot) -> &'static str {
    match slot {
        Slot::Unspendable => "unspendable",
        Slot::Unspent => "unspent",
        Slot::Spent(_) => "spent",
        Slot::SpentPruned(_) => "spent_pruned",
        Slot::Frozen => "frozen",
    }
}

/// Why a transaction is still there.
#[derive(Serialize, ToSchema)]
pub(crate) struct WhyJson {
    pub(super) txid: String,
    /// The height that it was judged by
    pub(super) height: u64,
    /// `delete`: it goes with the next pass of the cleaner; `keep`
    pub(super) verdict: &'static str,
    /// The main reason, one of those below
    pub(super) reason: Option<&'static str>,
    /// From which height it could go if nothing changes; null when that can't be said
    pub(super) from_height: Option<u64>,
    /// Everything that prevents its deletion
    pub(super) blockers: Vec<BlockerJson>,
}

/// Something that prevents a deletion.
#[derive(Serialize, ToSchema)]
pub(crate) struct BlockerJson {
    pub(super) reason: &'static str,
    /// The output whose spender it is about
    pub(super) vout: Option<u32>,
    /// That spender
    pub(super) child: Option<String>,
    /// How deep the child lies, the tip's block counting as 0
    pub(super) depth: Option<u64>,
    /// `at_height`, `after_mining` (of the child) or `on_change` (of the transaction itself)
    pub(super) again: &'static str,
    pub(super) again_at: Option<u64>,
}

impl WhyJson {
    pub(super) fn new(network: Network, why: &WhyKept) -> Self {
        let (verdict, reason) = match why.verdict {
            DeletionVerdict::Delete => ("delete", None),
            DeletionVerdict::Keep(kept) => ("keep", Some(kept.reason.name())),
        };
        Self {
            txid: network.show_hash(&why.record.txid.0),
            height: why.height,
            verdict,
            reason,
            from_height: why.from_height,
            blockers: why.blockers.iter().map(|found| BlockerJson::new(network, found)).collect(),
        }
    }
}

impl BlockerJson {
    fn new(network: Network, found: &DeletionBlocker) -> Self {
        let (again, again_at) = match found.retry_at {
            RetryAt::At(height) => ("at_height", Some(height)),
            RetryAt::AfterMining(_) => ("after_mining", None),
            RetryAt::OnChange => ("on_change", None),
        };
        Self {
            reason: found.reason.name(),
            vout: found.child.map(|(vout, _)| vout),
            child: found.child.map(|(_, by)| network.show_hash(&by.tx.0)),
            depth: found.depth,
            again,
            again_at,
        }
    }
}

/// What a pass of the cleaner did.
#[derive(Serialize)]
pub(super) struct CleanedJson {
    pub(super) height: u64,
    pub(super) looked_at: usize,
    pub(super) deleted: usize,
    pub(super) losers: usize,
    pub(super) kept: BTreeMap<&'static str, usize>,
    pub(super) expired: usize,
    pub(super) seconds: f64,
    /// The limit was reached; more may be due
    pub(super) cut: bool,
}

impl From<CleanReport> for CleanedJson {
    fn from(report: CleanReport) -> Self {
        let kept = report.kept.iter().map(|(reason, count)| (reason.name(), *count));
        Self {
            height: report.height,
            looked_at: report.looked_at,
            deleted: report.deleted,
            losers: report.losers,
            kept: kept.collect(),
            expired: report.expired,
            seconds: report.took.as_secs_f64(),
            cut: report.is_cut,
        }
    }
}

/// An unmined transaction.
#[derive(Serialize)]
pub(super) struct UnminedJson {
    pub(super) txid: String,
    pub(super) unmined_since: u64,
}

impl UnminedJson {
    pub(super) fn new(network: Network, found: &UnminedTx) -> Self {
        let UnminedTx { since, txid: TxId(hash) } = found;
        Self { txid: network.show_hash(hash), unmined_since: *since }
    }
}
