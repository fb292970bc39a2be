//! The plan itself: the difference between what is stored and what should be.

use super::working::PlanState;
use crate::{
    Outpoint, TxId,
    wallet::{
        EdgeCause, JournalCause, LockId, TxStatus,
        facts::{Coin, StoredTx},
    },
};

/// What is to be written, in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalletPlan {
    /// Transactions to store.
    pub new_txs: Vec<StoredTx>,
    /// Transactions to change.
    pub changed_txs: Vec<TxChange>,
    /// Coins to store.
    pub new_coins: Vec<NewCoin>,
    /// Coins whose spender changes.
    pub spends: Vec<SpendChange>,
    /// Replacement edges to add where absent.
    pub edges: Vec<ReplacementEdge>,
    /// Lines for the journal, in order.
    pub lines: Vec<JournalEntry>,
    /// By how much the confirmed, unspent satoshis change.
    pub confirmed_sats: i128,
    /// By how much the number of confirmed, unspent coins changes.
    pub confirmed_coins: i64,
}

/// A stored transaction before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxChange {
    /// Its status as planned on; the write is guarded by it.
    pub was: TxStatus,
    /// What it shall be.
    pub now: StoredTx,
}

/// A coin to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewCoin {
    /// The output that it is.
    pub outpoint: Outpoint,
    /// What it is.
    pub coin: Coin,
}

/// A coin that gets another spender, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpendChange {
    /// The coin whose spender changes.
    pub outpoint: Outpoint,
    /// The live spender and its input.
    pub by: Option<(TxId, u32)>,
}

/// One transaction stands in another's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplacementEdge {
    /// The loser.
    pub replaced: TxId,
    /// The winner.
    pub replacement: TxId,
    /// Why.
    pub cause: EdgeCause,
}

/// A line of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// The transaction it is about.
    pub txid: TxId,
    /// The coin, where it is about one.
    pub output: Option<Outpoint>,
    /// Status before.
    pub from: Option<TxStatus>,
    /// Status after.
    pub to: Option<TxStatus>,
    /// Why.
    pub cause: JournalCause,
    /// The other transaction involved.
    pub other: Option<TxId>,
    /// The block that confirmed it or that it lost.
    pub height: Option<u64>,
    /// Whose lease a forced spend broke.
    pub lock: Option<LockId>,
}

impl WalletPlan {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl PlanState<'_> {
    pub(super) fn finish(self) -> WalletPlan {
        let (confirmed_sats, confirmed_coins) = self.confirmed_change();
        let mut plan = WalletPlan { confirmed_sats, confirmed_coins, ..WalletPlan::default() };
        for txid in self.order.iter() {
            let Some(now) = self.txs.get(&txid) else { continue };
            match self.facts.txs.get(&txid).and_then(Option::as_ref) {
                None => plan.new_txs.push(now.clone()),
                Some(was) if was != now => {
                    plan.changed_txs.push(TxChange { was: was.status, now: now.clone() });
                }
                Some(_) => {}
            }
        }
        for outpoint in self.coin_order.iter() {
            let Some(coin) = self.coins.get(&outpoint).copied() else { continue };
            match self.facts.coins.get(&outpoint).copied().flatten() {
                None => plan.new_coins.push(NewCoin { outpoint, coin }),
                Some(was) if was.spent_by != coin.spent_by => {
                    plan.spends.push(SpendChange { outpoint, by: coin.spent_by });
                }
                Some(_) => {}
            }
        }
        plan.edges = self.edges;
        plan.lines = self.lines.into_iter().filter(is_news).collect();
        plan
    }

    /// Confirmed and unspent, before and after, over every coin that could differ. The difference
    /// keeps the wallet's total right without a sum over its coins.
    fn confirmed_change(&self) -> (i128, i64) {
        let moved = self.order.iter().filter(|txid| self.confirmation_moved(*txid));
        let theirs = moved.flat_map(|txid| {
            let stored = self.facts.credits.get(&txid).into_iter().flatten();
            stored.map(move |index| Outpoint::new(txid, *index))
        });
        let mut looked_at = std::collections::HashSet::new();
        let (mut sats, mut coins) = (0_i128, 0_i64);
        for outpoint in theirs.chain(self.coin_order.iter()) {
            if !looked_at.insert(outpoint) {
                continue;
            }
            let stored = self.facts.coins.get(&outpoint).copied().flatten();
            let stored_tx = self.facts.txs.get(&outpoint.tx).and_then(Option::as_ref);
            let coin = self.coins.get(&outpoint).copied().or(stored);
            let tx = self.txs.get(&outpoint.tx).or(stored_tx);
            for (coin, tx, sign) in [(stored, stored_tx, -1_i8), (coin, tx, 1)] {
                if let Some(amount) = counted(coin, tx) {
                    sats += i128::from(sign) * i128::from(amount);
                    coins += i64::from(sign);
                }
            }
        }
        (sats, coins)
    }

    fn confirmation_moved(&self, txid: TxId) -> bool {
        let was = self.facts.txs.get(&txid).and_then(Option::as_ref).map(is_confirmed);
        self.txs.get(&txid).map(is_confirmed) != was
    }
}

fn is_confirmed(tx: &StoredTx) -> bool {
    tx.confirmed.is_some() && tx.status == TxStatus::Published
}

fn counted(coin: Option<Coin>, tx: Option<&StoredTx>) -> Option<u64> {
    let coin = coin.filter(|coin| coin.spent_by.is_none())?;
    tx.filter(|tx| is_confirmed(tx)).map(|_| coin.amount)
}

/// A status that stays the same is no news, unless the line tells of something else.
fn is_news(line: &JournalEntry) -> bool {
    match line.cause {
        JournalCause::Evicted | JournalCause::ForcedSpend | JournalCause::Confirmed => true,
        JournalCause::Created
        | JournalCause::Relayed
        | JournalCause::Mempool
        | JournalCause::Broadcast
        | JournalCause::Disconnected
        | JournalCause::Replaced
        | JournalCause::DoubleSpent
        | JournalCause::ParentInvalid
        | JournalCause::Revived
        | JournalCause::ChildConfirmed
        | JournalCause::Withdrawn
        | JournalCause::Pruned
        | JournalCause::PrunedEdge => line.from != line.to,
    }
}
