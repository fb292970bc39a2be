//! Selecting coins and leasing them, in one database transaction.
//!
//! To look for coins and then to lease them would be two steps, and between them somebody else may
//! choose the same. To lock each coin that is looked at would make callers wait for each other in
//! different orders, and so for ever. Hence one lock for both steps: the wallet's row.
//!
//! The wallet's row is locked while coins are read, chosen and leased, so two callers, be they two
//! processes, can never choose the same coin. Immature and leased coins are never candidates; own
//! unconfirmed change is one unless it stands in a replacement; pending parents only on request.

mod ancestors;
mod candidates;
mod pool;
mod required;
pub(crate) mod time_locks;

use bitcoin::OutPoint;
use unspent_model::{
    Micros, TxId,
    wallet::{
        AddressId, LockId,
        select::{
            ChangePolicy, CoinCandidate, CoinSelection, FeePerWeight, FeeRule, PaidAmount,
            SelectError, SelectionRequest, SelectionStrategy, select,
        },
    },
};
use unspent_sql::{Arg, Backend, BulkStatement, Row, RowId, Tx};

use self::{
    candidates::LEASED_NOW,
    pool::CandidatePool,
    time_locks::{TimeLock, TimeLocks},
};
use crate::{
    error::WalletError,
    ids::{WalletId, bitcoin_outpoint},
    lease::{LeaseTerms, take, take_over},
    rows,
    store::WalletStore,
    wallet_row::WalletRow,
};

/// Which coins may be chosen, and how.
#[derive(Clone, Debug)]
pub struct CoinPolicy {
    /// Confirmations that somebody else's coin needs; at least 1.
    pub minconf: u32,
    /// Whether own change may be spent before that.
    pub own_change: bool,
    /// Whether outputs of transactions that were never sent may be spent.
    pub pending_chaining: bool,
    /// Only coins of this account. A payment without it pays from the wallet's first account.
    pub account: Option<String>,
    /// Whether coins of scripts without a key path may be chosen; those asked for by name always
    /// are.
    pub imported: bool,
    /// Coins that must not be chosen.
    pub exclude: Vec<OutPoint>,
    /// Coins that must be chosen.
    pub require: Vec<OutPoint>,
    /// Whether no others may be.
    pub only_required: bool,
    /// Whether coins of one address are spent together.
    pub by_address: bool,
    /// The heaviest transaction allowed.
    pub max_weight: u64,
    /// Which methods to try.
    pub strategy: SelectionStrategy,
    /// The rate expected in the long run.
    pub long_term_rate: FeePerWeight,
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
            imported: true,
            exclude: Vec::new(),
            require: Vec::new(),
            only_required: false,
            by_address: false,
            max_weight: unspent_model::wallet::select::MAX_STANDARD_WEIGHT,
            strategy: SelectionStrategy::Best,
            long_term_rate: FeePerWeight { sat_per_kwu: 2_500 },
            seed: 0,
        }
    }
}

/// What the chosen coins are to pay.
#[derive(Clone, Copy, Debug)]
pub struct SelectionTarget {
    /// What the outputs hold together.
    pub target: u64,
    /// Weight of everything but inputs and change.
    pub base_weight: u64,
    /// What a unit of weight shall pay.
    pub rate: FeePerWeight,
    /// How the fee is worked out.
    pub fee: FeeRule,
    /// What the outputs get.
    pub pays: PaidAmount,
    /// What change would look like.
    pub change: ChangePolicy,
    /// Whether change is the only output.
    pub needs_change: bool,
    /// Whether a rate that looks like a mistake is meant.
    pub allow_high_fee: bool,
}

impl SelectionTarget {
    /// Outputs that get their value, at a rate.
    pub fn new(target: u64, base_weight: u64, rate: FeePerWeight, change: ChangePolicy) -> Self {
        Self {
            target,
            base_weight,
            rate,
            fee: FeeRule::ByRate,
            pays: PaidAmount::Target,
            change,
            needs_change: false,
            allow_high_fee: false,
        }
    }
}

/// A chosen coin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenCoin {
    /// By which it is leased.
    pub(crate) row: RowId,
    /// The output that an input will name.
    pub outpoint: OutPoint,
    /// In satoshis, before the fee of its own input.
    pub amount: u64,
    /// What its descriptor asks of the input.
    pub(crate) time_lock: TimeLock,
    /// Whether the transaction that is to be replaced spends it.
    pub(crate) is_freed: bool,
    tx: RowId,
    address: AddressId,
    weight: u64,
    age: u64,
    required: bool,
}

impl ChosenCoin {
    fn candidate(&self) -> CoinCandidate {
        CoinCandidate {
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
pub struct ChosenCoins {
    /// In the order in which they were considered.
    pub coins: Vec<ChosenCoin>,
    /// How they were found, and what they come to.
    pub selection: CoinSelection,
}

impl WalletStore {
    /// Chooses coins and leases them to `terms.lock`, in one transaction.
    ///
    /// # Errors
    ///
    /// [`WalletError::Select`] when the coins don't suffice; then nothing is leased.
    pub fn select_and_lease(
        &self,
        wallet: WalletId,
        wanted: SelectionTarget,
        policy: &CoinPolicy,
        terms: LeaseTerms,
        now: Micros,
    ) -> Result<ChosenCoins, WalletError> {
        terms.expires_at(now)?;
        let policy = policy.clone();
        self.door.write_for(wallet.0, move |tx| {
            let wallet = WalletRow::lock(tx, wallet)?;
            let (wallet, policy) = (&wallet, &policy);
            CoinChoice { wallet, wanted, policy, replaces: None, now }.lease(tx, &terms)
        })
    }

    /// Chooses coins without leasing them: a look, not a promise.
    ///
    /// # Errors
    ///
    /// As for [`WalletStore::select_and_lease`].
    pub fn preview_selection(
        &self,
        wallet: WalletId,
        wanted: SelectionTarget,
        policy: &CoinPolicy,
        now: Micros,
    ) -> Result<ChosenCoins, WalletError> {
        let policy = policy.clone();
        self.door.read(move |tx| {
            let wallet = WalletRow::read(tx, wallet)?;
            let (wallet, policy) = (&wallet, &policy);
            CoinChoice { wallet, wanted, policy, replaces: None, now }.choose(tx, None)
        })
    }
}

/// One choice of coins, inside an open transaction.
pub(crate) struct CoinChoice<'a> {
    pub(crate) wallet: &'a WalletRow,
    pub(crate) wanted: SelectionTarget,
    pub(crate) policy: &'a CoinPolicy,
    /// A transaction whose own inputs count as unspent, because it is to be replaced.
    pub(crate) replaces: Option<TxId>,
    pub(crate) now: Micros,
}

const ACCOUNT: &str = "SELECT id FROM accounts WHERE wallet_id = $1 AND name = $2";

pub(crate) fn account_row(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    name: &str,
) -> Result<RowId, WalletError> {
    let found = tx.maybe(ACCOUNT, &[Arg::Int(wallet.id.0), Arg::Text(name)])?;
    let none = || WalletError::Argument(format!("this wallet has no account `{name}`"));
    Ok(found.ok_or_else(none)?.row_id("id")?)
}

impl CoinChoice<'_> {
    /// Chooses and leases. The caller holds the wallet's row.
    pub(crate) fn lease(
        &self,
        tx: &mut Tx<'_>,
        terms: &LeaseTerms,
    ) -> Result<ChosenCoins, WalletError> {
        // A commit whose answer got lost may stand. To choose
        // anew would lease a second set of coins.
        if tx.after_unclear_commit()
            && let Some(done) = self.already_done(tx, terms)?
        {
            return Ok(done);
        }
        let chosen = self.choose(tx, Some(terms.lock))?;
        let mut rows: Vec<(OutPoint, RowId)> =
            chosen.coins.iter().map(|coin| (coin.outpoint, coin.row)).collect();
        // Leases are taken in one order by everybody, so that no two callers wait for each other.
        rows.sort_by_key(|(_, id)| *id);
        let freed = chosen.coins.iter().filter(|coin| coin.is_freed).map(|coin| coin.row);
        take_over(tx, self.wallet.id, freed.collect())?;
        take(tx, self.wallet.id, &rows, terms, self.now)?;
        Ok(chosen)
    }

    /// After a commit whose outcome is unknown: coins leased by this very request, if it got
    /// through. Lock, start and end of the lease name the request.
    fn already_done(
        &self,
        tx: &mut Tx<'_>,
        terms: &LeaseTerms,
    ) -> Result<Option<ChosenCoins>, WalletError> {
        let args = [
            Arg::Int(self.wallet.id.0),
            Arg::Blob(terms.lock.as_bytes()),
            Arg::Int(self.now.0),
            Arg::Int(terms.expires_at(self.now)?.0),
        ];
        let rows = tx.query(of(tx, LEASED_NOW), &args)?;
        if rows.is_empty() {
            return Ok(None);
        }
        let mut locks = TimeLocks::default();
        let mut coins = Vec::new();
        for row in &rows {
            let mut coin = candidate(row, true)?;
            coin.time_lock = locks.of(row)?;
            coins.push(coin);
        }
        coins.sort_by_key(|coin| coin.row);
        self.decide(coins).map(Some)
    }

    /// Chooses and leases nothing.
    pub(crate) fn choose(
        &self,
        tx: &mut Tx<'_>,
        lock: Option<LockId>,
    ) -> Result<ChosenCoins, WalletError> {
        let account = self.policy.account.as_deref();
        let account = account.map(|name| account_row(tx, self.wallet, name)).transpose()?;
        let required = self.required(tx, account, lock)?;
        let mut pool = CandidatePool::new(self, account, required);
        loop {
            pool.read(tx)?;
            match self.decide(pool.coins(tx)?) {
                // A wallet of small coins needs more of them than are looked at first.
                Err(WalletError::Select(SelectError::Insufficient { .. })) if pool.grow() => {}
                // Somebody who sees the coins in the balance
                // should hear that they wait, not that they lack.
                Err(WalletError::Select(SelectError::Insufficient { missing, .. }))
                    if pool.time_locked.sats > 0 =>
                {
                    return Err(WalletError::TimeLocked { missing, why: pool.time_locked.told() });
                }
                result => return result,
            }
        }
    }

    fn decide(&self, coins: Vec<ChosenCoin>) -> Result<ChosenCoins, WalletError> {
        let candidates: Vec<CoinCandidate> = coins.iter().map(ChosenCoin::candidate).collect();
        let (wanted, policy) = (self.wanted, self.policy);
        let request = SelectionRequest {
            target: wanted.target,
            base_weight: wanted.base_weight,
            rate: wanted.rate,
            long_term_rate: policy.long_term_rate,
            fee: wanted.fee,
            pays: wanted.pays,
            change: wanted.change,
            needs_change: wanted.needs_change,
            allow_high_fee: wanted.allow_high_fee,
            strategy: policy.strategy,
            by_address: policy.by_address,
            max_weight: policy.max_weight,
            seed: policy.seed,
        };
        let selection = select(&candidates, &request)?;
        let chosen = selection.chosen.iter().filter_map(|at| coins.get(*at).copied()).collect();
        Ok(ChosenCoins { coins: chosen, selection })
    }
}

/// The text of a statement for the database at hand.
fn of(tx: &Tx<'_>, both: BulkStatement) -> &'static str {
    match tx.backend() {
        Backend::Sqlite => both.sqlite,
        Backend::Postgres => both.postgres,
    }
}

fn candidate(row: &Row, required: bool) -> Result<ChosenCoin, WalletError> {
    Ok(ChosenCoin {
        row: row.row_id("id")?,
        outpoint: bitcoin_outpoint(rows::coin(row)?),
        amount: row.natural("amount")?,
        time_lock: TimeLock::default(),
        is_freed: false,
        tx: row.row_id("tx_id")?,
        address: AddressId(row.row_id("address_id")?.0),
        weight: row.natural("input_weight")?,
        // The youngest of all: oldest-first takes them last, and `ancestors` knows them by it.
        age: row.opt_natural("block_height")?.unwrap_or(u64::MAX),
        required,
    })
}
