//! Whole wallets of other programs, taken in at once.
//!
//! A wallet that lived elsewhere brings more than keys: a history that a scan would find again, and
//! things that no scan finds, such as labels, leases and payments that wait for a block. All of it
//! goes through the same door as everything else, [`record`](crate::record), in one database
//! transaction; so an import is there as a whole or not at all, and what is found afterwards obeys
//! the same rules as if it had happened here.
//!
//! | module | does |
//! |---|---|
//! | [`btcwallet`] | `wallet.db` of btcwallet and lnd to a [`WalletImport`] |
//! | [`core`] | Bitcoin Core's `listdescriptors` to a [`WalletImport`] |
//! | [`slip132`] | `zpub` and its kin to descriptors |
//! | [`report`] | what was taken of it and what was left, its balances beside ours |
//! | `write` | a [`WalletImport`] into the tables |
//! | `compare` | what the source says of each coin beside what is found here |
//!
//! Taking in the same again changes nothing: what is known is left as it is, also where it has
//! gone on since. The other program's file is never written.

pub mod btcwallet;
mod compare;
pub mod core;
pub mod report;
mod write;

use bitcoin::{OutPoint, ScriptBuf, Transaction, Txid};
use unspent_model::{
    Micros,
    wallet::{Balance, CoinState, LockId},
};
use unspent_sql::{Failure, SqlError};

use crate::{
    NewAccount,
    additions::parsed,
    batch::BlockRef,
    error::WalletError,
    ids::WalletId,
    store::WalletStore,
    wallet_info::{KeychainPurpose, check_name},
};

/// Addresses of one chain that are taken in at most.
pub const MAX_CHAIN: u32 = 1_000_000;

/// A wallet as another program kept it.
#[derive(Clone, Debug, Default)]
pub struct WalletImport {
    /// Its name here.
    pub name: String,
    /// The first block that could concern it.
    pub birthday: u64,
    /// Its date in seconds, where no height is known.
    pub born: Option<u64>,
    /// Scripts watched beyond the last used one.
    pub gap_limit: u32,
    /// Its accounts.
    pub accounts: Vec<AccountImport>,
    /// Scripts that follow from no account.
    pub scripts: Vec<ScriptBuf>,
    /// Its transactions: mined ones in the order of the chain, then the others.
    pub txs: Vec<TxImport>,
    /// Up to where it had read the chain.
    pub tip: Option<BlockRef>,
    /// Labels of transactions.
    pub labels: Vec<(Txid, String)>,
    /// Coins that are held.
    pub leases: Vec<LeaseImport>,
    /// What it believes of its coins, to be compared.
    pub coins: Vec<CoinClaim>,
}

/// An account of another program.
#[derive(Clone, Debug)]
pub struct AccountImport {
    /// Its descriptors.
    pub account: NewAccount,
    /// The next index to hand out, on the receiving chain and on that for change.
    pub next: [u32; 2],
    /// Addresses that the source saw used.
    pub used: Vec<(KeychainPurpose, u32)>,
}

/// A transaction of another program.
#[derive(Clone, Debug)]
pub struct TxImport {
    /// With its signatures.
    pub tx: Transaction,
    /// When it was first seen there, in microseconds.
    pub received: Micros,
    /// Its block and place; nothing while it waits.
    pub block: Option<(BlockRef, u64)>,
}

/// A lease of another program.
#[derive(Clone, Copy, Debug)]
pub struct LeaseImport {
    /// What is held.
    pub coin: OutPoint,
    /// For whom.
    pub lock: LockId,
    /// Until when, in microseconds.
    pub expires_at: Micros,
}

/// What the source says of one of its coins.
#[derive(Clone, Copy, Debug)]
pub struct CoinClaim {
    /// Which.
    pub coin: OutPoint,
    /// In satoshis.
    pub amount: u64,
    /// Whether any transaction of the source spends it.
    pub is_spent: bool,
}

/// A coin about which the two don't agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoinDifference {
    /// Which.
    pub coin: OutPoint,
    /// In satoshis.
    pub amount: u64,
    /// Whether the source calls it spent; nothing where it doesn't know it.
    pub spent_there: Option<bool>,
    /// Its state here; nothing where it isn't known here.
    pub here: Option<CoinState>,
    /// Its height here.
    pub height: Option<u64>,
    /// Whether it, or what spends it, lost to a conflicting transaction here.
    pub by_conflict: bool,
}

/// What an import did.
#[derive(Clone, Debug)]
pub struct ImportResult {
    /// The wallet; gone again after a dry run.
    pub wallet: WalletId,
    /// Whether it was made now.
    pub is_new: bool,
    /// Whether it stands above the source's tip: then it knows more than the source.
    pub has_gone_on: bool,
    /// Accounts made now.
    pub accounts: usize,
    /// Scripts watched now that follow from no account.
    pub scripts: usize,
    /// Transactions stored now.
    pub txs: usize,
    /// Transactions that were known but whose block is news.
    pub confirmed: usize,
    /// Coins found now.
    pub coins: usize,
    /// Labels set now.
    pub labels: usize,
    /// Leases taken now.
    pub leases: usize,
    /// Leases that were not taken: their coin is spent, dead, unknown or held by another.
    pub leases_left: Vec<OutPoint>,
    /// Coins about which the two don't agree.
    pub differences: Vec<CoinDifference>,
    /// The balance here at 1, 2 and 6 confirmations.
    pub balances: [(u32, Balance); 3],
}

impl ImportResult {
    /// Whether anything was written.
    pub fn is_nothing(&self) -> bool {
        let done =
            [self.accounts, self.scripts, self.txs, self.confirmed, self.labels, self.leases];
        !self.is_new && done.iter().all(|count| *count == 0)
    }
}

/// How an import ends without being kept.
enum NotKept {
    Failed(WalletError),
    /// Everything went well, and nothing was to stay.
    DryRun(Box<ImportResult>),
}

impl From<SqlError> for NotKept {
    fn from(error: SqlError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<WalletError> for NotKept {
    fn from(error: WalletError) -> Self {
        Self::Failed(error)
    }
}

impl Failure for NotKept {
    fn sql(&self) -> Option<&SqlError> {
        if let Self::Failed(error) = self { error.sql() } else { None }
    }
}

impl WalletStore {
    /// Takes in a wallet: as a whole or not at all, and not at all in a dry run. A wallet of that
    /// name that is already there is given what it lacks.
    ///
    /// # Errors
    ///
    /// [`WalletError::Argument`] when an account of the same name has other keys,
    /// [`WalletError::BlockMismatch`] when the source is on another branch; nothing is changed.
    pub fn import(
        &self,
        import: WalletImport,
        dry_run: bool,
        now: Micros,
    ) -> Result<ImportResult, WalletError> {
        check_name(&import.name)?;
        let network = self.bitcoin_network();
        let accounts = import.accounts.iter().map(|account| parsed(&account.account, network));
        let accounts = accounts.collect::<Result<Vec<_>, _>>()?;
        if !(1..=10_000).contains(&import.gap_limit) {
            return Err(WalletError::Argument("the gap limit must be 1 to 10,000".into()));
        }
        for account in &import.accounts {
            if account.next.iter().any(|next| *next > MAX_CHAIN) {
                let name = &account.account.name;
                let why = format!("account `{name}` has more than 1,000,000 addresses in a chain");
                return Err(WalletError::Argument(why));
            }
        }
        let done = self.door.write(move |tx| {
            let imported = write::write(tx, &import, &accounts, now)?;
            // A dry run is the real thing, undone by its error: what it tells is what would happen.
            if dry_run { Err(NotKept::DryRun(Box::new(imported))) } else { Ok(imported) }
        });
        match done {
            Ok(imported) => Ok(imported),
            Err(NotKept::DryRun(imported)) => Ok(*imported),
            Err(NotKept::Failed(error)) => Err(error),
        }
    }
}
