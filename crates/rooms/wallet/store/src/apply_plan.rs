//! Applying a plan: load what it needs, then write it with set statements.
//!
//! The planner is pure, so somebody has to play its two questions against the database: "load
//! these" until it has enough, then "write this". Between the first load and the last write nobody
//! may change what the plan was made on; the caller holds the wallet's row for that, and the
//! guarded `WHERE status = …` of the changed transactions would show if it ever failed.
//!
//! What is to be written is gathered over all wallets and sent at once (`writes`): a family of a
//! thousand costs as many statements as one transaction.

use std::collections::HashMap;

use unspent_model::{
    Micros, TxId,
    wallet::{
        PlanOutcome, WalletEvent, WalletPlan,
        plan::{JournalEntry, plan},
    },
};
use unspent_sql::{RowId, Tx};

use crate::{
    error::WalletError,
    labels,
    load::{LoadedFacts, MissingFacts, load},
    wallet_row::WalletRow,
    writes::PendingWrites,
};

/// Rounds of loading before we believe in a fault of ours: each round loads something new, and
/// families come whole, so a handful is the rule.
const MAX_ROUNDS: usize = 10_000;

/// Raw transactions by name, for those that will be stored or confirmed.
pub(crate) type RawTxs = HashMap<TxId, Vec<u8>>;

/// One wallet's share of a change.
pub(crate) struct WalletShare<'w> {
    pub(crate) wallet: &'w mut WalletRow,
    pub(crate) events: Vec<WalletEvent>,
    /// Facts that are known from elsewhere; the rest is loaded.
    pub(crate) loaded: LoadedFacts,
}

/// Plans the events under the wallet's lock and writes the plan. The caller saves the wallet's row.
pub(crate) fn apply_plan(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    events: &[WalletEvent],
    raws: &RawTxs,
    now: Micros,
) -> Result<WalletPlan, WalletError> {
    let mut writes = PendingWrites::default();
    let share = WalletShare { wallet, events: events.to_vec(), loaded: LoadedFacts::default() };
    let plans = apply_plans(tx, &mut [share], raws, &mut writes, now)?;
    writes.send(tx)?;
    plans.into_iter().next().ok_or(WalletError::Bug("no plan was made"))
}

/// Plans each wallet's events, side by side, and gathers what has to be written.
pub(crate) fn apply_plans(
    tx: &mut Tx<'_>,
    shares: &mut [WalletShare<'_>],
    raws: &RawTxs,
    writes: &mut PendingWrites,
    now: Micros,
) -> Result<Vec<WalletPlan>, WalletError> {
    let mut plans: Vec<Option<WalletPlan>> = shares.iter().map(|_| None).collect();
    for _ in 0..MAX_ROUNDS {
        let mut missing = Vec::new();
        for (share, ready) in shares.iter_mut().zip(&mut plans) {
            if ready.is_some() {
                continue;
            }
            match plan(&share.loaded.facts, &share.events, now)? {
                PlanOutcome::Ready(made) => *ready = Some(made),
                PlanOutcome::NeedMore(needs) => {
                    let (wallet, loaded) = (share.wallet.id, &mut share.loaded);
                    missing.push(MissingFacts { wallet, loaded, needs });
                }
            }
        }
        if missing.is_empty() {
            let plans: Vec<WalletPlan> = plans.into_iter().flatten().collect();
            for (share, plan) in shares.iter_mut().zip(&plans) {
                PlanWriter { share, writes: &mut *writes, now }.gather(plan, raws)?;
                // Edges are all it needs: a clone with another
                // txid wins against the one that was labelled.
                labels::follow_clones(tx, share.wallet, &plan.edges, raws)?;
            }
            return Ok(plans);
        }
        load(tx, &mut missing, now)?;
    }
    Err(WalletError::Bug("a plan never had enough facts"))
}

/// Turns one wallet's plan into rows.
struct PlanWriter<'a, 'w> {
    share: &'a mut WalletShare<'w>,
    writes: &'a mut PendingWrites,
    now: Micros,
}

impl PlanWriter<'_, '_> {
    fn gather(&mut self, plan: &WalletPlan, raws: &RawTxs) -> Result<(), WalletError> {
        self.new_txs(plan, raws)?;
        self.changed_txs(plan, raws)?;
        self.coins(plan)?;
        let (wallet, now) = (self.share.wallet.id, self.now);
        for edge in &plan.edges {
            let (loser, winner) = (self.row_of(edge.replaced)?, self.row_of(edge.replacement)?);
            self.writes.edge(wallet, now, edge, loser, winner);
        }
        for line in &plan.lines {
            self.writes.line(self.share.wallet, line, now)?;
        }
        // The total is kept by differences, so that a balance needn't add up a million coins; the
        // audit adds them up and compares.
        let row = &mut *self.share.wallet;
        let amount = i128::from(row.confirmed_amount) + plan.confirmed_sats;
        row.confirmed_amount = i64::try_from(amount)
            .map_err(|_| WalletError::Corrupt("the confirmed total left its range".into()))?;
        row.confirmed_coins += plan.confirmed_coins;
        Ok(())
    }

    fn row_of(&self, txid: TxId) -> Result<RowId, WalletError> {
        let found = self.share.loaded.tx_rows.get(&txid).copied();
        found.ok_or(WalletError::Bug("a plan names a transaction that has no row"))
    }

    fn new_txs(&mut self, plan: &WalletPlan, raws: &RawTxs) -> Result<(), WalletError> {
        for tx in &plan.new_txs {
            let id = self.share.wallet.new_id();
            let raw = raws.get(&tx.txid).ok_or(WalletError::Bug("no raw transaction"))?;
            self.writes.new_tx(self.share.wallet.id, self.now, id, tx, raw)?;
            self.share.loaded.tx_rows.insert(tx.txid, id);
        }
        Ok(())
    }

    fn changed_txs(&mut self, plan: &WalletPlan, raws: &RawTxs) -> Result<(), WalletError> {
        for change in &plan.changed_txs {
            let row = self.row_of(change.now.txid)?;
            let raw = change.now.confirmed.and_then(|_| raws.get(&change.now.txid));
            let raw = raw.map(Vec::as_slice);
            self.writes.changed_tx(self.share.wallet.id, row, change, raw)?;
        }
        Ok(())
    }

    fn coins(&mut self, plan: &WalletPlan) -> Result<(), WalletError> {
        for new in &plan.new_coins {
            let id = self.share.wallet.new_id();
            let maker = self.row_of(new.outpoint.tx)?;
            let spender = self.spender(new.coin.spent_by)?;
            let wallet = self.share.wallet.id;
            self.writes.coin(wallet, id, maker, new.outpoint, &new.coin, spender)?;
        }
        for spend in &plan.spends {
            let coin = self.share.loaded.coin_rows.get(&spend.outpoint).copied();
            let coin = coin.ok_or(WalletError::Bug("a plan names a coin that has no row"))?;
            let spender = self.spender(spend.by)?;
            self.writes.spend(self.share.wallet.id, coin, spender);
        }
        Ok(())
    }

    fn spender(&self, by: Option<(TxId, u32)>) -> Result<Option<(RowId, u32)>, WalletError> {
        by.map(|(txid, input)| Ok((self.row_of(txid)?, input))).transpose()
    }
}

/// Appends lines to a wallet's journal.
pub(crate) fn write_lines(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    lines: &[JournalEntry],
    now: Micros,
) -> Result<(), WalletError> {
    let mut writes = PendingWrites::default();
    lines.iter().try_for_each(|line| writes.line(wallet, line, now))?;
    writes.send(tx)
}
