//! The mempool, and handing transactions over.

use std::collections::HashMap;

use bitcoin::{Transaction, Txid, consensus::encode::serialize_hex};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    CoreNode, CoreState,
    rpc::{Refusal, RpcError, short},
    shapes::{HexTx, TxName, WireHash},
    tx_bell::TxBell,
};
use crate::{
    Answer, FeeEstimate, HeardTxs, MempoolTx, MempoolView, Node, SourceError, wakeup::lock,
};

/// Transactions asked for at once; fewer when their answer is too large.
const TXS_AT_ONCE: usize = 100;
/// The transaction is not in the mempool.
const UNKNOWN_TX: i64 = -5;
/// The transaction is in a block and has coins left.
const ALREADY_IN_CHAIN: i64 = -27;
/// Codes with which a node refuses a transaction, and not the call.
const REJECTIONS: [i64; 4] = [-8, -22, -25, -26];
/// Reasons of a refusal that mean that the node has the transaction.
const KNOWN: [&str; 4] = [
    "txn-already-in-mempool",
    "txn-already-known",
    "txn-same-nonwitness-data-in-mempool",
    "already in block chain",
];

impl CoreState {
    fn best_hash(&self) -> Result<WireHash, SourceError> {
        self.rpc.call("getbestblockhash", json!([]))
    }

    /// Adds the transactions to `found`, halving the question while the answer is too large.
    fn read(&self, txids: &[Txid], found: &mut Vec<Transaction>) -> Result<(), SourceError> {
        let params: Vec<Value> = txids.iter().map(|txid| json!([txid.to_string()])).collect();
        let method = "getrawtransaction";
        let answers = match self.rpc.batch::<HexTx>(method, &params) {
            Ok(answers) => answers,
            Err(RpcError::TooLarge) if txids.len() > 1 => {
                let (some, others) = txids.split_at(txids.len() / 2);
                self.read(some, found)?;
                return self.read(others, found);
            }
            Err(fault) => return Err(self.rpc.explain(method, fault)),
        };
        for (txid, answer) in txids.iter().zip(answers) {
            match answer {
                // Wallets record it under this name, so a wrong body would put strangers' coins
                // there.
                Ok(HexTx(tx)) if tx.compute_txid() == *txid => found.push(tx),
                Ok(_) => {
                    let name = self.rpc.name().to_owned();
                    let reason = format!("{method}: not the transaction {txid}");
                    return Err(SourceError::Malformed { name, reason });
                }
                // It was mined, replaced or evicted since it was named; the next reading tells
                // which.
                Err(refusal) if refusal.code == UNKNOWN_TX => {}
                Err(refusal) => return Err(self.rpc.explain(method, RpcError::Refused(refusal))),
            }
        }
        Ok(())
    }
}

impl Node for CoreNode {
    fn mempool(&self) -> Result<MempoolView, SourceError> {
        let before = self.state.best_hash()?;
        let names: Vec<TxName> = self.state.rpc.call("getrawmempool", json!([]))?;
        // A transaction missing from the list may just have been mined, unless no block came
        // meanwhile.
        let after = self.state.best_hash()?;
        let txids = names.into_iter().map(|TxName(txid)| txid).collect();
        Ok(MempoolView { tip: (before == after).then_some(after.0), txids })
    }

    fn news(&self) -> u64 {
        lock(&self.state.tx_bell).as_ref().map_or(0, TxBell::count)
    }

    fn heard(&self) -> HeardTxs {
        lock(&self.state.tx_bell).as_ref().map_or(HeardTxs::Unknown, TxBell::take)
    }

    fn transactions(&self, txids: &[Txid]) -> Result<Vec<Transaction>, SourceError> {
        let mut found = Vec::new();
        for txids in txids.chunks(TXS_AT_ONCE) {
            self.state.read(txids, &mut found)?;
        }
        Ok(found)
    }

    fn broadcast(&self, tx: &Transaction) -> Result<Answer, SourceError> {
        let rpc = &self.state.rpc;
        match rpc.ask::<TxName>("sendrawtransaction", json!([serialize_hex(tx)])) {
            Ok(_) => Ok(Answer::Accepted),
            // After a crash it is simply sent again, so a node that has it already is what is
            // wanted.
            Err(RpcError::Refused(refusal)) if is_known(&refusal) => Ok(Answer::Accepted),
            Err(RpcError::Refused(refusal)) if REJECTIONS.contains(&refusal.code) => {
                Ok(Answer::Rejected { reason: short(&refusal.message) })
            }
            Err(fault) => Err(rpc.explain("sendrawtransaction", fault)),
        }
    }

    fn test(&self, tx: &Transaction) -> Result<Option<Answer>, SourceError> {
        let params = json!([[serialize_hex(tx)]]);
        let answers: Vec<Tested> = self.state.rpc.call("testmempoolaccept", params)?;
        let answer = answers.into_iter().next().map(|Tested { allowed, reject_reason }| {
            let reason = reject_reason.unwrap_or_default();
            let is_there = KNOWN.iter().any(|known| reason.contains(known));
            match allowed || is_there {
                true => Answer::Accepted,
                false => Answer::Rejected { reason: short(&reason) },
            }
        });
        Ok(answer)
    }

    fn fee_rate(&self, blocks: u16) -> Result<FeeEstimate, SourceError> {
        let told: Estimated = self.state.rpc.call("estimatesmartfee", json!([blocks]))?;
        Ok(match told.feerate.and_then(satoshis).filter(|rate| *rate > 0) {
            Some(sat_per_kvb) => FeeEstimate::Rate { sat_per_kvb, blocks: told.blocks },
            None => FeeEstimate::Unknown { reason: short(&told.errors.join("; ")) },
        })
    }

    fn with_ancestors(&self, txid: Txid) -> Result<Vec<MempoolTx>, SourceError> {
        let (rpc, name) = (&self.state.rpc, txid.to_string());
        let entry = match rpc.ask::<MempoolEntry>("getmempoolentry", json!([name])) {
            Ok(entry) => entry,
            Err(fault) if is_gone(&fault) => return Ok(Vec::new()),
            Err(fault) => return Err(rpc.explain("getmempoolentry", fault)),
        };
        let method = "getmempoolancestors";
        let below = match rpc.ask::<HashMap<String, MempoolEntry>>(method, json!([name, true])) {
            Ok(below) => below,
            // It can go between the two questions.
            Err(fault) if is_gone(&fault) => return Ok(Vec::new()),
            Err(fault) => return Err(rpc.explain(method, fault)),
        };
        let all = below.into_iter().chain([(name, entry)]);
        let read = all.map(|(name, entry)| entry.read(&name)).collect::<Option<_>>();
        read.ok_or_else(|| {
            let reason = format!("{method}: a txid or fee can't be read");
            SourceError::Malformed { name: rpc.name().to_owned(), reason }
        })
    }
}

/// One answer of `testmempoolaccept`.
#[derive(Deserialize)]
struct Tested {
    allowed: bool,
    #[serde(rename = "reject-reason")]
    reject_reason: Option<String>,
}

/// The answer of `estimatesmartfee`: BTC per thousand virtual bytes, if it knows, and the target
/// that it has an estimate for; else why not.
#[derive(Deserialize)]
struct Estimated {
    feerate: Option<f64>,
    #[serde(default)]
    blocks: u64,
    #[serde(default)]
    errors: Vec<String>,
}

/// An answer of `getmempoolentry`, as far as it is read.
#[derive(Deserialize)]
struct MempoolEntry {
    vsize: u64,
    fees: EntryFees,
    depends: Vec<TxName>,
}

impl MempoolEntry {
    fn read(self, name: &str) -> Option<MempoolTx> {
        Some(MempoolTx {
            txid: name.parse().ok()?,
            fee: satoshis(self.fees.base)?,
            virtual_size: self.vsize,
            parents: self.depends.into_iter().map(|TxName(txid)| txid).collect(),
        })
    }
}

#[derive(Deserialize)]
struct EntryFees {
    base: f64,
}

/// Satoshis out of a node's BTC.
fn satoshis(btc: f64) -> Option<u64> {
    // No amount is lost: all satoshis that can exist fit into the 53 bits of a double.
    bitcoin::Amount::from_btc(btc).ok().map(bitcoin::Amount::to_sat)
}

/// The transaction isn't in the mempool, or no longer.
fn is_gone(fault: &RpcError) -> bool {
    if let RpcError::Refused(refusal) = fault { refusal.code == UNKNOWN_TX } else { false }
}

fn is_known(refusal: &Refusal) -> bool {
    refusal.code == ALREADY_IN_CHAIN || KNOWN.iter().any(|known| refusal.message.contains(known))
}
