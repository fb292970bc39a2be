//! The coins that a choice looks at: windows first, more when these don't suffice.

use std::collections::HashSet;

use bitcoin::OutPoint;
use unspent_model::wallet::{
    AddressId, TxStatus,
    maturity::{self, ChainTip},
    select::{PaidAmount, SelectionMethod, SelectionStrategy},
};
use unspent_sql::{Arg, Column, Row, RowId, Tx};

use super::{
    ChosenCoin, CoinChoice, ancestors, candidate,
    candidates::{BY_AGE, OF_ADDRESSES, WINDOWS},
    of,
    time_locks::{Spendability, TimeLockedTotal, TimeLocks},
};
use crate::{
    error::WalletError,
    ids::{model_outpoint, sql_int},
    lease::height_arg,
};

/// Coins of each window: above the amount wanted, below it, the largest, the smallest.
const WINDOW: [i64; 4] = [8, 40, 16, 16];
/// How much larger the windows get when they don't suffice.
const GROWTH: i64 = 8;
/// Coins of one address that are spent together at most: more don't fit into a transaction.
const MAX_OF_ADDRESS: i64 = 2_000;
/// The largest pool: as many coins as fit into the heaviest transaction, and some to choose from.
const MAX_POOL: i64 = 4_096;

/// What a choice looks at.
pub(super) struct CandidatePool<'a> {
    choosing: &'a CoinChoice<'a>,
    account: Option<RowId>,
    required: Vec<ChosenCoin>,
    rows: Vec<Row>,
    times: i64,
    is_all: bool,
    locks: TimeLocks,
    pub(super) time_locked: TimeLockedTotal,
}

impl<'a> CandidatePool<'a> {
    pub(super) fn new(
        choosing: &'a CoinChoice<'a>,
        account: Option<RowId>,
        required: Vec<ChosenCoin>,
    ) -> Self {
        // All coins are wanted at once, or as many as fit.
        let times = if choosing.wanted.pays == PaidAmount::All { MAX_POOL } else { 1 };
        Self {
            choosing,
            account,
            required,
            rows: Vec::new(),
            times,
            is_all: false,
            locks: TimeLocks::default(),
            time_locked: TimeLockedTotal::default(),
        }
    }

    /// Whether there is more to look at; the next reading will.
    pub(super) fn grow(&mut self) -> bool {
        let more = !self.is_all && self.times < MAX_POOL;
        // At most as many as a pool holds.
        self.times = self.times.saturating_mul(GROWTH).min(MAX_POOL);
        more
    }

    /// Reads the windows.
    pub(super) fn read(&mut self, tx: &mut Tx<'_>) -> Result<(), WalletError> {
        if self.choosing.policy.only_required {
            self.is_all = true;
            return Ok(());
        }
        if self.choosing.policy.strategy == SelectionStrategy::Only(SelectionMethod::OldestFirst) {
            return self.read_oldest(tx);
        }
        let CoinChoice { wanted, .. } = self.choosing;
        // Where to begin to look; the choice itself counts anew.
        let one_input = wanted.base_weight.saturating_add(wanted.change.spend_weight);
        let fee = wanted.fee.fee(wanted.rate, one_input.saturating_add(4));
        let exact = match wanted.pays {
            // As above.
            PaidAmount::Target => wanted.target.saturating_add(fee),
            PaidAmount::LessFee => wanted.target,
            PaidAmount::All => 0,
        };
        let exact = sql_int(exact.min(i64::MAX.unsigned_abs()))?;
        // As above.
        let least = sql_int(wanted.rate.cost(wanted.change.spend_weight).saturating_add(1))?;
        let [above, below, largest, smallest] = self.sizes();
        let sizes = [above, below, largest, smallest].map(Arg::Int);
        let args = [&self.scalars()?[..], &[Arg::Int(exact), Arg::Int(least)], &sizes].concat();
        let rows = tx.query(of(tx, WINDOWS), &args)?;
        let (mut over, mut under) = (0, 0);
        let mut known = HashSet::new();
        self.rows.clear();
        for row in rows {
            if known.insert(row.row_id("id")?) {
                let counted = if row.int("amount")? >= exact { &mut over } else { &mut under };
                *counted += 1;
                self.rows.push(row);
            }
        }
        // The two windows meet at the amount wanted: neither full, they showed all there is.
        self.is_all = over < above && under < below;
        Ok(())
    }

    fn sizes(&self) -> [i64; 4] {
        if self.choosing.wanted.pays == PaidAmount::All {
            return [0, 0, MAX_POOL, 0];
        }
        // At most as many as a pool holds.
        WINDOW.map(|size| size.saturating_mul(self.times).min(MAX_POOL))
    }

    fn read_oldest(&mut self, tx: &mut Tx<'_>) -> Result<(), WalletError> {
        // At most as many as a pool holds.
        let most = WINDOW.iter().sum::<i64>().saturating_mul(self.times).min(MAX_POOL);
        let args = [&self.scalars()?[..], &[Arg::Int(most)]].concat();
        self.rows = tx.query(of(tx, BY_AGE), &args)?;
        self.is_all = (self.rows.len() as i64) < most;
        Ok(())
    }

    /// The arguments that all statements about candidates share.
    fn scalars(&self) -> Result<[Arg<'a>; 10], WalletError> {
        let CoinChoice { policy, wallet, now, .. } = self.choosing;
        let tip = wallet.tip();
        let deep = tip.and_then(|tip| (tip + 1).checked_sub(policy.minconf.max(1).into()));
        Ok([
            Arg::Int(wallet.id.0),
            Arg::Int(now.0),
            height_arg(deep)?,
            height_arg(maturity::mature_up_to(tip))?,
            Arg::Flag(policy.own_change),
            Arg::Text(TxStatus::Published.name()),
            Arg::Flag(policy.pending_chaining),
            Arg::Text(TxStatus::Pending.name()),
            Arg::OptInt(self.account.map(RowId::get)),
            Arg::Flag(policy.imported),
        ])
    }

    /// The coins to choose from: required ones, and all that were read and may be chosen.
    pub(super) fn coins(&mut self, tx: &mut Tx<'_>) -> Result<Vec<ChosenCoin>, WalletError> {
        self.time_locked = TimeLockedTotal::default();
        let mut free = self.free()?;
        if self.choosing.policy.by_address && !self.choosing.policy.only_required {
            self.whole_addresses(tx, &free)?;
            free = self.free()?;
        }
        let pending = self.choosing.policy.pending_chaining;
        let wallet = self.choosing.wallet;
        let free = ancestors::trusted(tx, wallet, &self.required, free, pending)?;
        Ok([&self.required[..], &free[..]].concat())
    }

    /// What was read, without what is excluded, replaced or not ripe.
    fn free(&mut self) -> Result<Vec<ChosenCoin>, WalletError> {
        let CoinChoice { policy, wallet, replaces, .. } = self.choosing;
        // Required coins are in already: among the candidates they would count twice.
        let excluded: HashSet<OutPoint> =
            policy.exclude.iter().chain(&policy.require).copied().collect();
        let mut free = Vec::new();
        for row in &self.rows {
            let mut coin = candidate(row, false)?;
            // Outputs of what is replaced vanish with it.
            let from_replaced = *replaces == Some(model_outpoint(coin.outpoint).tx);
            if excluded.contains(&coin.outpoint) || from_replaced {
                continue;
            }
            let height = row.opt_natural("block_height")?;
            coin.time_lock = self.locks.of(row)?;
            let when = coin.time_lock.spendability(height, ChainTip(wallet.tip()));
            if when == Spendability::Now {
                free.push(coin);
            } else {
                self.time_locked.add(coin.amount, when);
            }
        }
        Ok(free)
    }

    /// Coins of one address are spent together, so all coins of the addresses at hand are read.
    fn whole_addresses(&mut self, tx: &mut Tx<'_>, free: &[ChosenCoin]) -> Result<(), WalletError> {
        let coins = self.required.iter().chain(free);
        let mut addresses: Vec<AddressId> = coins.map(|coin| coin.address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let scalars = [&self.scalars()?[..], &[Arg::Int(MAX_OF_ADDRESS)]].concat();
        self.rows = tx.query_set(
            OF_ADDRESSES,
            &scalars,
            &[Column::ints(addresses.iter().map(|address| address.0))],
        )?;
        self.time_locked = TimeLockedTotal::default();
        Ok(())
    }
}
