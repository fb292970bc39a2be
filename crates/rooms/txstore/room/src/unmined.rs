//! The node's mempool in the store: what it holds is taken in as unmined, parents first.
//!
//! The node has the last word on rivals: a transaction of its mempool beats whoever spent the same
//! output without a block, and one that had lost is brought back. A transaction that the mempool no
//! longer holds stays as it is: it may be mined yet. If it never is, it keeps its parents, which a
//! gauge counts, and an operator may drop it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bitcoin::{Transaction, Txid, hashes::Hash as _};
use unspent_engine::{context::Context, jobs::Outcome, status::RoomState};
use unspent_model::{Kind, Point, TxId};
use unspent_source::Node;
use unspent_txstore::{AcceptOutcome, CreateTerms, NewTx, SpendOptions, TxStore, TxStoreError};

use crate::room::{NAME, OpenTxStore};

/// Transactions asked of the node, looked up or stored at once.
const TOGETHER: usize = 200;

/// What the engine knows of the node's mempool.
pub(super) struct MempoolReader {
    node: Arc<dyn Node>,
    room: Arc<OpenTxStore>,
    context: Arc<Context>,
    /// Transactions of the last reading that are in the store, and no losers.
    known: HashSet<Txid>,
    /// The tip at the last reading. After another one everything is looked up again: a block or a
    /// reorganisation may have made losers of what is known.
    tip: Option<Point>,
}

/// What came of a reading.
#[derive(Default)]
struct MempoolCounts {
    taken: usize,
    won: usize,
    refused: usize,
}

impl MempoolReader {
    pub(super) fn new(node: Arc<dyn Node>, room: Arc<OpenTxStore>, context: Arc<Context>) -> Self {
        Self { node, room, context, known: HashSet::new(), tip: None }
    }

    /// Looks everything up again at the next turn, as after a start.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// One reading. `most` bounds what is fetched; the rest comes with the next one.
    pub(super) fn read(&mut self, most: usize) -> Result<Outcome, String> {
        let is_following = self.context.state(NAME) == RoomState::Following;
        // Behind the tip the mempool spends coins of blocks that aren't here yet.
        let Some(store) = self.room.store().filter(|_| is_following) else {
            return Ok(Outcome::Later("the txstore room is not at the tip".into()));
        };
        // Before the mempool is read: a block that comes in between shows at the next turn as
        // another tip, and all is looked up again.
        let tip = store.tip().map_err(|error| self.failed(error))?;
        let Some(at) = tip else { return Ok(Outcome::Done("there is no tip yet".into())) };
        if std::mem::replace(&mut self.tip, tip) != tip {
            self.forget();
        }
        let view = self.node.mempool().map_err(|error| error.to_string())?;
        let held: HashSet<Txid> = view.txids.iter().copied().collect();
        // What left the mempool may have lost here by the time it comes back.
        self.known.retain(|txid| held.contains(txid));
        let fresh: Vec<Txid> =
            view.txids.iter().filter(|txid| !self.known.contains(*txid)).copied().collect();
        let mut counts = MempoolCounts::default();
        let absent = self.look_up(&store, &fresh, at, &mut counts)?;
        let fetched = self.fetch(&absent, most)?;
        let mut waiting = fetched;
        while let Some(next) = generation(&mut waiting, &held, &self.known) {
            for some in next.chunks(TOGETHER) {
                self.take_in(&store, some, at, &mut counts)?;
            }
        }
        let MempoolCounts { taken, won, refused } = counts;
        if taken + won > 0 {
            self.context.changed();
        }
        let all = held.len();
        Ok(Outcome::Done(format!(
            "{all} transactions, {taken} added, {won} won a conflict, {refused} skipped"
        )))
    }

    /// Those that the store doesn't have. Of the others, losers are brought back.
    fn look_up(
        &mut self,
        store: &TxStore,
        fresh: &[Txid],
        at: Point,
        counts: &mut MempoolCounts,
    ) -> Result<Vec<Txid>, String> {
        let mut absent = Vec::new();
        for some in fresh.chunks(TOGETHER) {
            let names = some.iter().map(|txid| TxId(txid.to_byte_array())).collect();
            let found = store.records(names).map_err(|error| self.failed(error))?;
            for (txid, record) in some.iter().zip(found) {
                match record {
                    None => absent.push(*txid),
                    Some(record) if record.is_conflicting => self.win(store, *txid, at, counts)?,
                    Some(_) => {
                        self.known.insert(*txid);
                    }
                }
            }
        }
        Ok(absent)
    }

    fn fetch(&self, absent: &[Txid], most: usize) -> Result<HashMap<Txid, Transaction>, String> {
        let mut fetched = HashMap::new();
        for some in absent.chunks(TOGETHER).take(most.div_ceil(TOGETHER)) {
            let txs = self.node.transactions(some).map_err(|error| error.to_string())?;
            // By what the bytes hash to: some may have left the mempool, and the answer carries no
            // names.
            fetched.extend(txs.into_iter().map(|tx| (tx.compute_txid(), tx)));
        }
        Ok(fetched)
    }

    fn take_in(
        &mut self,
        store: &TxStore,
        txs: &[(Txid, NewTx)],
        at: Point,
        counts: &mut MempoolCounts,
    ) -> Result<(), String> {
        let terms = CreateTerms::unmined(at.height);
        // A store that began in the middle of the chain doesn't have all parents.
        let options = SpendOptions { allow_absent: true, ..SpendOptions::default() };
        let new = txs.iter().map(|(_, new)| new.clone()).collect();
        let accepted = store.accept(new, terms, options).map_err(|error| self.failed(error))?;
        for ((txid, new), acceptance) in txs.iter().zip(accepted) {
            match acceptance {
                AcceptOutcome::Accepted(_) => {
                    counts.taken += 1;
                    self.known.insert(*txid);
                }
                AcceptOutcome::Exists => {
                    self.known.insert(*txid);
                }
                AcceptOutcome::Refused(_) => self.insist(store, *txid, new, at, counts)?,
            }
        }
        Ok(())
    }

    /// The store refuses what the node has taken.
    fn insist(
        &mut self,
        store: &TxStore,
        txid: Txid,
        new: &NewTx,
        at: Point,
        counts: &mut MempoolCounts,
    ) -> Result<(), String> {
        let options = SpendOptions { allow_absent: true, ..SpendOptions::default() };
        // A coinbase that the next block may spend is in the mempool already.
        let next = CreateTerms::unmined(at.height + 1);
        let again = store.accept(vec![new.clone()], next, options);
        let again = again.map_err(|error| self.failed(error))?;
        if let [AcceptOutcome::Accepted(_) | AcceptOutcome::Exists] = again[..] {
            counts.taken += 1;
            self.known.insert(txid);
            return Ok(());
        }
        // It comes in as a loser, which spends nothing, and then wins.
        let loser = CreateTerms { is_conflicting: true, ..CreateTerms::unmined(at.height) };
        let created = store.accept(vec![new.clone()], loser, options);
        created.map_err(|error| self.failed(error))?;
        self.win(store, txid, at, counts)
    }

    /// The node holds it, so whoever stood against it without a block has lost.
    fn win(
        &mut self,
        store: &TxStore,
        txid: Txid,
        at: Point,
        counts: &mut MempoolCounts,
    ) -> Result<(), String> {
        self.known.insert(txid);
        // Known from here on, even if it can't win: before another tip each try would end the same
        // way.
        match store.resolve_conflict(TxId(txid.to_byte_array()), at.height) {
            Ok(_) => counts.won += 1,
            // The node doesn't know a block that we know, or an output is frozen here alone.
            Err(error) if error.kind() == Kind::Refused => {
                counts.refused += 1;
                tracing::debug!(%txid, %error, "a transaction of the mempool remains conflicting");
            }
            Err(error) => return Err(self.failed(error)),
        }
        Ok(())
    }

    /// An error of the room that a person must look at stops its thread.
    fn failed(&self, error: TxStoreError) -> String {
        if error.kind() == Kind::Refused { error.to_string() } else { self.room.report(error) }
    }
}

/// Takes out the transactions that may come in now: those of whose parents none is in the mempool
/// and unknown. A child that came in before its parent would be missing from the parent's outputs.
/// `None` when there is none; what is left then waits for the next reading.
fn generation(
    waiting: &mut HashMap<Txid, Transaction>,
    held: &HashSet<Txid>,
    known: &HashSet<Txid>,
) -> Option<Vec<(Txid, NewTx)>> {
    let is_ready = |_: &Txid, tx: &mut Transaction| {
        let mut parents = tx.input.iter().map(|input| input.previous_output.txid);
        parents.all(|parent| !held.contains(&parent) || known.contains(&parent))
    };
    let ready = waiting.extract_if(is_ready).map(|(txid, tx)| {
        let new = NewTx::with_txid(&tx, TxId(txid.to_byte_array()));
        (txid, new)
    });
    let ready: Vec<_> = ready.collect();
    (!ready.is_empty()).then_some(ready)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bitcoin::{
        Amount, OutPoint, ScriptBuf, TxIn, TxOut, absolute::LockTime, transaction::Version,
    };

    use super::*;

    fn tx(parent: Txid, value: u64) -> Transaction {
        let previous_output = OutPoint { txid: parent, vout: 0 };
        Transaction {
            version: Version::TWO,
            lock_time: LockTime::ZERO,
            input: vec![TxIn { previous_output, ..TxIn::default() }],
            output: vec![TxOut { value: Amount::from_sat(value), script_pubkey: ScriptBuf::new() }],
        }
    }

    #[test]
    fn parents_come_first_and_a_child_waits_for_one_that_is_not_here() {
        let mined = Txid::from_byte_array([9; 32]);
        let mut chain = vec![tx(mined, 50)];
        for value in (40..50).rev() {
            chain.push(tx(chain.last().unwrap().compute_txid(), value));
        }
        let names: Vec<Txid> = chain.iter().map(Transaction::compute_txid).collect();
        let held: HashSet<Txid> = names.iter().copied().collect();
        let mut waiting: HashMap<_, _> = names.iter().copied().zip(chain).collect();
        waiting.remove(&names[4]);
        let mut known = HashSet::new();
        let mut take = |known: &mut HashSet<Txid>| {
            let mut taken = Vec::new();
            while let Some(next) = generation(&mut waiting, &held, known) {
                taken.extend(next.iter().map(|(txid, _)| *txid));
                known.extend(next.into_iter().map(|(txid, _)| txid));
            }
            taken
        };
        assert_eq!(take(&mut known), names[..4], "the rest wait for a parent that is not stored");
        known.insert(names[4]);
        assert_eq!(take(&mut known), names[5..]);
    }
}
