//! Selecting coins and leasing them, in one database transaction.
//!
//! To look for coins and then to lease them would be two steps, and between them somebody else may
//! choose the same. To lock each coin that is looked at would make callers wait for each other in
//! different orders, and so for ever. Hence one lock for both steps: the wallet's row.
//!
//! The wallet's row is locked while coins are read, chosen and leased, so two callers, be they two
//! processes, can never choose the same coin. Immature and leased coins are never candidates; own
//! unconfirmed change is one unless it stands in a replacement; pending parents only on request.

use std::collections::{BTreeSet, HashMap, HashSet};

use bitcoin::OutPoint;
use unspent_model::{
    Outpoint, TxId,
    wallet::{
        LockId, Status, maturity,
        select::{
            Candidate, ChangePolicy, Method, Rate, Request, SelectError, Selection, Strategy,
            select,
        },
    },
};
use unspent_sql::{Arg, Backend, Column, Row, Set, Tx};

use crate::{
    error::WalletError,
    lease::{LeaseTerms, height_arg, take},
    room::{Room, WalletId, WalletRow, bitcoin_outpoint, model_outpoint},
    rows::{self, opt_lock, opt_txid, status},
};

/// Coins looked at first; more are read when these don't suffice.
const FIRST_POOL: i64 = 200;

/// Which coins may be chosen, and how.
#[derive(Clone, Debug)]
pub struct CoinPolicy {
    /// Confirmations that somebody else's coin needs; at least 1.
    pub minconf: u32,
    /// Whether own change may be spent before that.
    pub own_change: bool,
    /// Whether outputs of transactions that were never sent may be spent.
    pub pending_chaining: bool,
    /// Only coins of this account.
    pub account: Option<String>,
    /// Coins that must not be chosen.
    pub exclude: Vec<OutPoint>,
    /// Coins that must be chosen.
    pub require: Vec<OutPoint>,
    /// Whether coins of one address are spent together.
    pub by_address: bool,
    /// The heaviest transaction allowed.
    pub max_weight: u64,
    /// Which methods to try.
    pub strategy: Strategy,
    /// The rate expected in the long run.
    pub long_term_rate: Rate,
    /// For the random draw.
    pub seed: u64,
}

impl Default for CoinPolicy {
    fn default() -> Self {
        Self {
            minconf: 1,
            own_change: true,
            pending_chaining: false,
            account: None,
            exclude: Vec::new(),
            require: Vec::new(),
            by_address: false,
            max_weight: unspent_model::wallet::select::MAX_STANDARD_WEIGHT,
            strategy: Strategy::Best,
            long_term_rate: Rate { sat_per_kwu: 2_500 },
            seed: 0,
        }
    }
}

/// What the chosen coins are to pay.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// What the outputs hold together.
    pub target: u64,
    /// Weight of everything but inputs and change.
    pub base_weight: u64,
    /// What a unit of weight shall pay.
    pub rate: Rate,
    /// A fee that must be reached whatever the rate says.
    pub min_fee: u64,
    /// What change would look like.
    pub change: ChangePolicy,
}

/// A chosen coin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenCoin {
    /// By which it is leased.
    pub(crate) row: i64,
    /// The output that an input will name.
    pub outpoint: OutPoint,
    /// In satoshis, before the fee of its own input.
    pub amount: u64,
    address: i64,
    weight: u64,
    age: u64,
    required: bool,
}

impl ChosenCoin {
    fn candidate(&self) -> Candidate {
        Candidate {
            amount: self.amount,
            weight: self.weight,
            age: self.age,
            group: self.address,
            required: self.required,
        }
    }
}

/// Chosen coins and the reason.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// In the order in which they were considered.
    pub coins: Vec<ChosenCoin>,
    /// How they were found, and what they come to.
    pub selection: Selection,
}

/// Coins that may be chosen, in an order. `$plus` is a unary plus on SQLite, which keeps it from
/// turning the joins round, and nothing on PostgreSQL, where it would hide the joins' sizes.
macro_rules! candidates_by {
    ($plus:literal, $order:literal) => {
        concat!(
            "SELECT u.id, t.tx_hash, u.output_index, u.amount, u.address_id,
                k.input_weight, t.block_height
            FROM utxos u
            JOIN transactions t ON t.wallet_id = ",
            $plus,
            "u.wallet_id AND t.id = ",
            $plus,
            "u.tx_id
            JOIN addresses d ON d.wallet_id = ",
            $plus,
            "u.wallet_id AND d.id = ",
            $plus,
            "u.address_id
            JOIN keychains k ON k.wallet_id = ",
            $plus,
            "d.wallet_id AND k.id = ",
            $plus,
            "d.keychain_id
            JOIN accounts a ON a.wallet_id = ",
            $plus,
            "k.wallet_id AND a.id = ",
            $plus,
            "k.account_id
            WHERE u.wallet_id = $1 AND u.spent_by_tx_id IS NULL AND u.amount > 0
                AND NOT EXISTS (SELECT 1 FROM utxo_leases l
                    WHERE l.wallet_id = u.wallet_id AND l.utxo_id = u.id AND l.expires_at > $2)
                AND (
                    (t.block_height IS NOT NULL AND t.block_height <= $3
                        AND (NOT t.is_coinbase OR t.block_height <= $4))
                    OR ($5 AND t.status = $6 AND t.is_own AND t.evicted_at IS NULL
                        AND NOT EXISTS (SELECT 1 FROM tx_replacements r
                            WHERE r.wallet_id = t.wallet_id AND r.replacement_tx_id = t.id))
                    OR ($7 AND t.status = $8))
                AND (CAST($9 AS TEXT) IS NULL OR a.name = $9)
            ORDER BY ",
            $order,
            " LIMIT $10"
        )
    };
}

const BY_AMOUNT: Set = Set {
    sqlite: candidates_by!("+", "u.amount DESC, u.id DESC"),
    postgres: candidates_by!("", "u.amount DESC, u.id DESC"),
};
const BY_AGE: Set =
    Set { sqlite: candidates_by!("+", "u.id"), postgres: candidates_by!("", "u.id") };
const NAMED: Set = Set {
    sqlite: "SELECT u.id, t.tx_hash, u.output_index, u.amount, u.address_id, k.input_weight,
            t.block_height, t.status, t.is_coinbase, s.tx_hash AS spent_by,
            l.external_lock_id, l.expires_at
        FROM transactions t
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $4
        JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
        JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
        LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
        LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
            AND l.expires_at > $2
        WHERE t.wallet_id = $1 AND t.tx_hash = $3",
    postgres: "SELECT u.id, t.tx_hash, u.output_index, u.amount, u.address_id, k.input_weight,
            t.block_height, t.status, t.is_coinbase, s.tx_hash AS spent_by,
            l.external_lock_id, l.expires_at
        FROM UNNEST($3::bytea[], $4::bigint[]) q (h, n)
        JOIN transactions t ON t.tx_hash = q.h AND t.wallet_id = $1
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = q.n
        JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
        JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
        LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
        LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
            AND l.expires_at > $2",
};
const LEASED_NOW: &str = "SELECT u.id, t.tx_hash, u.output_index, u.amount, u.address_id,
        k.input_weight, t.block_height
    FROM utxo_leases l
    JOIN utxos u ON u.wallet_id = l.wallet_id AND u.id = l.utxo_id AND u.spent_by_tx_id IS NULL
    JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
    JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    WHERE l.wallet_id = $1 AND l.external_lock_id = $2 AND l.leased_at = $3 AND l.expires_at = $4
    ORDER BY u.id";

impl Room {
    /// Chooses coins and leases them to `terms.lock`, in one transaction.
    ///
    /// # Errors
    ///
    /// [`WalletError::Select`] when the coins don't suffice; then nothing is leased.
    pub fn select_and_lease(
        &self,
        wallet: WalletId,
        wanted: Wanted,
        policy: &CoinPolicy,
        terms: LeaseTerms,
        now: i64,
    ) -> Result<Chosen, WalletError> {
        terms.expires_at(now)?;
        let policy = policy.clone();
        self.door.write(move |tx| {
            let wallet = WalletRow::lock(tx, wallet)?;
            let (wallet, policy) = (&wallet, &policy);
            Choosing { wallet, wanted, policy, replaces: None, now }.lease(tx, &terms)
        })
    }

    /// Chooses coins without leasing them: a look, not a promise.
    ///
    /// # Errors
    ///
    /// As for [`Room::select_and_lease`].
    pub fn preview_selection(
        &self,
        wallet: WalletId,
        wanted: Wanted,
        policy: &CoinPolicy,
        now: i64,
    ) -> Result<Chosen, WalletError> {
        let policy = policy.clone();
        self.door.read(move |tx| {
            let wallet = WalletRow::read(tx, wallet)?;
            let (wallet, policy) = (&wallet, &policy);
            Choosing { wallet, wanted, policy, replaces: None, now }.choose(tx, None)
        })
    }
}

/// One choice of coins, inside an open transaction.
pub(crate) struct Choosing<'a> {
    pub(crate) wallet: &'a WalletRow,
    pub(crate) wanted: Wanted,
    pub(crate) policy: &'a CoinPolicy,
    /// A transaction whose own inputs count as unspent, because it is to be replaced.
    pub(crate) replaces: Option<TxId>,
    pub(crate) now: i64,
}

impl Choosing<'_> {
    /// Chooses and leases. The caller holds the wallet's row.
    pub(crate) fn lease(&self, tx: &mut Tx<'_>, terms: &LeaseTerms) -> Result<Chosen, WalletError> {
        if tx.after_unclear_commit()
            && let Some(done) = self.already_done(tx, terms)?
        {
            return Ok(done);
        }
        let chosen = self.choose(tx, Some(terms.lock))?;
        let mut rows: Vec<(OutPoint, i64)> =
            chosen.coins.iter().map(|coin| (coin.outpoint, coin.row)).collect();
        // Leases are taken in one order by everybody, so that no two callers wait for each other.
        rows.sort_by_key(|(_, id)| *id);
        take(tx, WalletId(self.wallet.id), &rows, terms, self.now)?;
        Ok(chosen)
    }

    /// After a commit whose outcome is unknown: coins leased by this very request, if it got
    /// through. Lock, start and end of the lease name the request.
    fn already_done(
        &self,
        tx: &mut Tx<'_>,
        terms: &LeaseTerms,
    ) -> Result<Option<Chosen>, WalletError> {
        let args = [
            Arg::Int(self.wallet.id),
            Arg::Blob(terms.lock.as_bytes()),
            Arg::Int(self.now),
            Arg::Int(terms.expires_at(self.now)?),
        ];
        let rows = tx.query(LEASED_NOW, &args)?;
        if rows.is_empty() {
            return Ok(None);
        }
        let coins = rows.iter().map(|row| candidate(row, true)).collect::<Result<Vec<_>, _>>()?;
        self.decide(coins).map(Some)
    }

    fn choose(&self, tx: &mut Tx<'_>, lock: Option<LockId>) -> Result<Chosen, WalletError> {
        let required = self.required(tx, lock)?;
        let policy = self.policy;
        // Required coins are in already: among the candidates they would count twice.
        let excluded: HashSet<OutPoint> =
            policy.exclude.iter().chain(&policy.require).copied().collect();
        let mut pool = FIRST_POOL;
        loop {
            let rows = self.candidates(tx, pool)?;
            let is_all = (rows.len() as i64) < pool;
            let mut coins = required.clone();
            for row in &rows {
                let coin = candidate(row, false)?;
                // Outputs of what is replaced vanish with it.
                let from_replaced = self.replaces == Some(model_outpoint(coin.outpoint).tx);
                if !excluded.contains(&coin.outpoint) && !from_replaced {
                    coins.push(coin);
                }
            }
            match self.decide(coins) {
                // The largest coins come first, so a small pool mostly suffices; a wallet of dust
                // needs more of them.
                Err(WalletError::Select(SelectError::Insufficient { .. })) if !is_all => pool *= 8,
                result => return result,
            }
        }
    }

    fn decide(&self, coins: Vec<ChosenCoin>) -> Result<Chosen, WalletError> {
        let candidates: Vec<Candidate> = coins.iter().map(ChosenCoin::candidate).collect();
        let (wanted, policy) = (self.wanted, self.policy);
        let request = Request {
            target: wanted.target,
            base_weight: wanted.base_weight,
            rate: wanted.rate,
            long_term_rate: policy.long_term_rate,
            min_fee: wanted.min_fee,
            change: wanted.change,
            strategy: policy.strategy,
            by_address: policy.by_address,
            max_weight: policy.max_weight,
            seed: policy.seed,
        };
        let selection = select(&candidates, &request)?;
        let chosen = selection.chosen.iter().filter_map(|at| coins.get(*at).copied()).collect();
        Ok(Chosen { coins: chosen, selection })
    }

    fn candidates(&self, tx: &mut Tx<'_>, pool: i64) -> Result<Vec<Row>, WalletError> {
        let (policy, tip) = (self.policy, self.wallet.tip());
        let deep = tip.and_then(|tip| (tip + 1).checked_sub(policy.minconf.max(1).into()));
        let args = [
            Arg::Int(self.wallet.id),
            Arg::Int(self.now),
            height_arg(deep)?,
            height_arg(maturity::mature_up_to(tip))?,
            Arg::Flag(policy.own_change),
            Arg::Text(Status::Published.name()),
            Arg::Flag(policy.pending_chaining),
            Arg::Text(Status::Pending.name()),
            Arg::OptText(policy.account.as_deref()),
            Arg::Int(pool),
        ];
        let by_age = policy.strategy == Strategy::Only(Method::OldestFirst);
        let both = if by_age { BY_AGE } else { BY_AMOUNT };
        let sql = match tx.backend() {
            Backend::Sqlite => both.sqlite,
            Backend::Postgres => both.postgres,
        };
        Ok(tx.query(sql, &args)?)
    }

    /// Coins asked for by name. They must be live, mature, unspent and not held by somebody else.
    fn required(
        &self,
        tx: &mut Tx<'_>,
        lock: Option<LockId>,
    ) -> Result<Vec<ChosenCoin>, WalletError> {
        let require = &self.policy.require;
        let names: Vec<Outpoint> = require.iter().map(|coin| model_outpoint(*coin)).collect();
        let keys = [
            Column::blobs(names.iter().map(|coin| coin.tx.0)),
            Column::ints(names.iter().map(|coin| i64::from(coin.index))),
        ];
        let scalars = [Arg::Int(self.wallet.id), Arg::Int(self.now)];
        let mut found = HashMap::new();
        for row in tx.query_set(NAMED, &scalars, &keys)? {
            if let Some(coin) = self.spendable(&row, lock)? {
                found.insert(coin.outpoint, coin);
            }
        }
        let mut coins = Vec::new();
        for name in require.iter().collect::<BTreeSet<_>>() {
            coins.push(found.get(name).copied().ok_or(WalletError::CoinNotFound(*name))?);
        }
        Ok(coins)
    }

    fn spendable(
        &self,
        row: &Row,
        lock: Option<LockId>,
    ) -> Result<Option<ChosenCoin>, WalletError> {
        let coin = candidate(row, true)?;
        if let Some(holder) = opt_lock(row, "external_lock_id")?
            && Some(holder) != lock
        {
            let expires_at = row.int("expires_at")?;
            return Err(WalletError::AlreadyLeased { coin: coin.outpoint, holder, expires_at });
        }
        let spender = opt_txid(row, "spent_by")?;
        let is_unspent = spender.is_none() || spender == self.replaces;
        let height = row.opt_natural("block_height")?;
        let is_ripe =
            !row.flag("is_coinbase")? || maturity::wallet_may_spend(height, self.wallet.tip());
        Ok((status(row)?.is_live() && is_unspent && is_ripe).then_some(coin))
    }
}

fn candidate(row: &Row, required: bool) -> Result<ChosenCoin, WalletError> {
    Ok(ChosenCoin {
        row: row.int("id")?,
        outpoint: bitcoin_outpoint(rows::coin(row)?),
        amount: row.natural("amount")?,
        address: row.int("address_id")?,
        weight: row.natural("input_weight")?,
        age: row.opt_natural("block_height")?.unwrap_or(u64::MAX),
        required,
    })
}
