//! The node's mempool in the wallets: what it holds is recorded, what it lost is flagged, and own
//! transactions that it doesn't have are sent.
//!
//! Invariant: a transaction counts as missing only when the node's tip equals ours before and after
//! the reading; missing flags it as evicted and never changes its status. One that reappears is
//! recorded again, which clears the flag. Before everything in the mempool is read, after a start
//! say, own pending transactions are sent, so that an older rival in there can't beat them.
//!
//! A reading asks for the names of everything, and for the transactions whose names are new. Where
//! the node tells of each that comes in (ZMQ), only those are asked for, and everything's names now
//! and then, and after each block.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use bitcoin::{Transaction, Txid};
use unspent_engine::{clock, context::Context, jobs::Outcome, status::RoomState};
use unspent_model::{Kind, Point, wallet::TxStatus};
use unspent_source::{Answer, HeardTxs, Node};
use unspent_wallet::{
    ObservedTx, TxBatch, TxSource, WalletError, WalletId, WalletStore, following::UnconfirmedTx,
};

use super::broadcast;
use crate::{broadcast::BroadcastError, names::NAME, open_wallets::OpenWallets};

/// Transactions asked of the node, and recorded, at once.
const AT_ONCE: usize = 200;
/// How often everything's names are asked for although the node tells of what comes in: what leaves
/// the mempool is noticed so.
const WHOLE_EVERY: Duration = Duration::from_secs(30);
/// Refusals remembered, so that each is told once.
const REFUSALS_KEPT: usize = 10_000;

/// The wallets that know of a transaction that the mempool holds it.
type KnownTxs = HashMap<Txid, Vec<WalletId>>;

/// What the engine knows of the node's mempool.
pub(super) struct MempoolReader {
    node: Arc<dyn Node>,
    room: Arc<OpenWallets>,
    context: Arc<Context>,
    /// Transactions of the last reading that have been recorded.
    recorded: HashSet<Txid>,
    /// How many wallets were at the tip at the last reading.
    count: u64,
    /// The tip at which own transactions were last sent.
    sent_at: Option<Point>,
    /// Own transactions have been sent since everything was to be read.
    has_sent: bool,
    /// Everything is being read, also what is known already: a wallet may have come to own more.
    reads_all: bool,
    /// What the node last said against a transaction.
    refusals: HashMap<Txid, String>,
    /// When everything's names were last asked for, and the tip then.
    whole_at: Option<(Instant, Point)>,
}

impl MempoolReader {
    pub(super) fn new(node: Arc<dyn Node>, room: Arc<OpenWallets>, context: Arc<Context>) -> Self {
        Self {
            node,
            room,
            context,
            recorded: HashSet::new(),
            count: 0,
            sent_at: None,
            has_sent: false,
            reads_all: true,
            refusals: HashMap::new(),
            whole_at: None,
        }
    }

    /// Reads everything again at the next turn, as after a start.
    pub(super) fn forget(&mut self) {
        self.recorded.clear();
        self.has_sent = false;
        self.reads_all = true;
        self.whole_at = None;
    }

    /// One reading. `most` bounds what is fetched; the rest comes with the next one.
    pub(super) fn read(&mut self, most: usize) -> Result<Outcome, String> {
        let Some(wallets) = self.ready_wallets() else { return Ok(not_at_tip()) };
        let Some(before) = wallets.tip().map_err(|e| self.failed(e))? else { return Ok(nobody()) };
        let count = wallets.wallets_at(before).map_err(|e| self.failed(e))?;
        // A wallet that is behind does not know yet what is confirmed: nothing is told to it.
        if count == 0 {
            return Ok(nobody());
        }
        if std::mem::replace(&mut self.count, count) != count {
            // A wallet that has come may own what was passed over before.
            self.forget();
        }
        if !self.has_sent {
            self.send(most)?;
        }
        // Taken in any case: what is heard before a reading of everything is part of it.
        let heard = self.node.heard();
        let is_recent =
            self.whole_at.is_some_and(|(at, tip)| at.elapsed() < WHOLE_EVERY && tip == before);
        match heard {
            HeardTxs::These(txids) if is_recent => self.read_some(&wallets, &txids),
            HeardTxs::These(_) | HeardTxs::Unknown => self.read_whole(&wallets, before, most),
        }
    }

    /// Reads what the node has told of.
    fn read_some(&mut self, wallets: &WalletStore, txids: &[Txid]) -> Result<Outcome, String> {
        let fresh: Vec<Txid> =
            txids.iter().filter(|txid| !self.recorded.contains(*txid)).copied().collect();
        let fetched = self.fetch(wallets, &fresh, &KnownTxs::new())?;
        if fetched > 0 {
            self.context.changed();
        }
        Ok(Outcome::Done(format!("{} transactions announced, {fetched} read", txids.len())))
    }

    /// Reads what is new among everything that there is.
    #[allow(clippy::cast_precision_loss)]
    fn read_whole(
        &mut self,
        wallets: &WalletStore,
        before: Point,
        most: usize,
    ) -> Result<Outcome, String> {
        // Set again at the end only: a reading that failed halfway does not count as one.
        self.whole_at = None;
        // Ours before the node's: what is sent in between is
        // not in this list, and so is not missed.
        let waiting = wallets.waiting(before).map_err(|e| self.failed(e))?;
        let view = self.node.mempool().map_err(|error| error.to_string())?;
        let held: HashSet<Txid> = view.txids.iter().copied().collect();
        metrics::gauge!("unspent_engine_mempool_transactions").set(held.len() as f64);
        let known = self.settle_known(&waiting, &held);
        let fresh = view.txids.iter().filter(|txid| !self.recorded.contains(*txid));
        let fresh: Vec<Txid> = fresh.take(most).copied().collect();
        let fetched = self.fetch(wallets, &fresh, &known)?;
        let is_part = fresh.len() == most;
        self.reads_all &= is_part;
        let mut evicted = 0;
        if view.tip == Some(before.hash) {
            evicted = self.flag(wallets, &waiting, &held, before)?;
        }
        // A block or a reorganisation may have thrown our payments out, or let them in again.
        if self.sent_at.replace(before) != Some(before) {
            self.send(most)?;
        }
        if fetched + evicted > 0 {
            self.context.changed();
        }
        let all = held.len();
        let said = format!("{all} transactions, {fetched} read, {evicted} of ours missing");
        if is_part {
            return Ok(Outcome::More(said));
        }
        self.whole_at = Some((Instant::now(), before));
        Ok(Outcome::Done(said))
    }

    /// Settles which transactions need not be read, and which wallets need not be told of one: who
    /// knows it to be in the mempool. Telling could only take the place of a replacement that was
    /// made in this very moment. Others may not have heard of it, so it is read all the same.
    fn settle_known(&mut self, waiting: &[UnconfirmedTx], held: &HashSet<Txid>) -> KnownTxs {
        self.recorded.retain(|txid| held.contains(txid));
        let mut known = KnownTxs::new();
        for tx in waiting {
            if tx.evicted_at.is_some() {
                self.recorded.remove(&tx.txid);
            } else if tx.status == TxStatus::Published && !self.reads_all && held.contains(&tx.txid)
            {
                known.entry(tx.txid).or_default().push(tx.wallet);
            }
        }
        known
    }

    fn fetch(
        &mut self,
        wallets: &WalletStore,
        fresh: &[Txid],
        known: &KnownTxs,
    ) -> Result<usize, String> {
        let mut fetched = 0;
        for some in fresh.chunks(AT_ONCE) {
            let txs = self.node.transactions(some).map_err(|error| error.to_string())?;
            let names: Vec<Txid> = txs.iter().map(Transaction::compute_txid).collect();
            fetched += txs.len();
            let seen = txs.into_iter().zip(&names).map(|(tx, txid)| ObservedTx {
                known_to: known.get(txid).cloned().unwrap_or_default(),
                ..ObservedTx::new(tx, TxSource::Mempool)
            });
            record(wallets, seen.collect()).map_err(|error| self.failed(error))?;
            // Only now: what could not be recorded is fetched again at the next turn.
            self.recorded.extend(names);
        }
        Ok(fetched)
    }

    /// Sends own transactions that the node doesn't have: pending ones, and those it dropped.
    pub(super) fn send(&mut self, most: usize) -> Result<Outcome, String> {
        let Some(wallets) = self.ready_wallets() else { return Ok(not_at_tip()) };
        let Some(tip) = wallets.tip().map_err(|e| self.failed(e))? else { return Ok(nobody()) };
        let waiting = wallets.waiting(tip).map_err(|e| self.failed(e))?;
        // A payment to us that the node dropped is its sender's to send again.
        let ours = waiting.iter().filter(|tx| {
            tx.status == TxStatus::Pending
                || (tx.status == TxStatus::Published && tx.is_own && tx.evicted_at.is_some())
        });
        let (mut sent, mut refused) = (0, 0);
        for tx in ours.take(most) {
            match self.send_one(&wallets, tx.wallet, tx.txid)? {
                Answer::Accepted => sent += 1,
                Answer::Rejected { .. } => refused += 1,
            }
        }
        self.has_sent = true;
        Ok(Outcome::Done(format!("{sent} sent, {refused} refused")))
    }

    /// Asks the node; a refusal that was told before isn't told again.
    fn send_one(
        &mut self,
        wallets: &WalletStore,
        wallet: WalletId,
        txid: Txid,
    ) -> Result<Answer, String> {
        if let Some(said) = self.refusals.get(&txid) {
            let tx = wallets.tx(wallet, txid).map_err(|error| self.failed(error))?.tx;
            let answer = self.node.broadcast(&tx).map_err(|error| error.to_string())?;
            if matches!(&answer, Answer::Rejected { reason } if reason == said) {
                return Ok(answer);
            }
        }
        let answer = match broadcast::send(&self.context, &self.node, wallets, wallet, txid) {
            Ok(answer) => answer,
            // It was settled between the listing and now.
            Err(BroadcastError::NotLive(why)) => Answer::Rejected { reason: why.into() },
            Err(BroadcastError::Wallet(error)) if error.kind() == Kind::Refused => {
                Answer::Rejected { reason: error.to_string() }
            }
            Err(error) => return Err(error.to_string()),
        };
        match &answer {
            Answer::Accepted => {
                self.refusals.remove(&txid);
            }
            Answer::Rejected { reason } => {
                if self.refusals.len() >= REFUSALS_KEPT {
                    // To forget them all costs no more than each told a second time.
                    self.refusals.clear();
                }
                self.refusals.insert(txid, reason.clone());
            }
        }
        Ok(answer)
    }

    /// Flags transactions of ours that the mempool doesn't hold, if our tip is still what it was.
    fn flag(
        &self,
        wallets: &WalletStore,
        waiting: &[UnconfirmedTx],
        held: &HashSet<Txid>,
        before: Point,
    ) -> Result<usize, String> {
        // What has left the mempool meanwhile may be in the block that came meanwhile.
        if wallets.tip().map_err(|e| self.failed(e))? != Some(before) {
            return Ok(0);
        }
        let missing = waiting.iter().filter(|tx| {
            tx.status == TxStatus::Published && tx.evicted_at.is_none() && !held.contains(&tx.txid)
        });
        let mut count = 0;
        for tx in missing {
            match wallets.mark_evicted(tx.wallet, tx.txid, clock::now()) {
                Ok(()) => count += 1,
                // It was settled since it was listed, by a replacement say: then it is not missing.
                Err(error) if error.kind() == Kind::Refused => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(count)
    }

    /// The wallets, if they are at the tip.
    fn ready_wallets(&self) -> Option<Arc<WalletStore>> {
        let is_following = self.context.state(NAME) == RoomState::Following;
        self.room.wallets().filter(|_| is_following)
    }

    /// An error of the room that a person must look at stops its thread.
    fn failed(&self, error: WalletError) -> String {
        if error.kind() == Kind::Refused { error.to_string() } else { self.room.report(error) }
    }
}

fn nobody() -> Outcome {
    Outcome::Done("no wallet is at the tip".into())
}

fn not_at_tip() -> Outcome {
    Outcome::Later("the wallets have not reached the tip".into())
}

/// Records what the mempool holds. One that the room refuses doesn't keep out the others.
fn record(wallets: &WalletStore, txs: Vec<ObservedTx>) -> Result<(), WalletError> {
    let batch = TxBatch { txs, ..TxBatch::default() };
    let refused = match wallets.record(&batch, clock::now()) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == Kind::Refused => error,
        Err(error) => return Err(error),
    };
    let txs = batch.txs;
    if txs.len() == 1 {
        tracing::warn!(%refused, "skipped a transaction of the mempool");
        return Ok(());
    }
    txs.into_iter().try_for_each(|tx| record(wallets, vec![tx]))
}
