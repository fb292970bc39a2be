//! What was taken of a wallet and what was left, its balances beside ours.

use std::collections::HashMap;

use bitcoin::OutPoint;
use serde::{Serialize, Serializer};
use unspent_btcwallet::{WalletFile, history::SourceTx};
use unspent_model::{
    Micros,
    wallet::{
        Balance, CoinState,
        maturity::{self, ChainTip},
    },
};

use super::{CoinDifference, ImportResult, btcwallet::PreparedImport};

/// Differences shown one by one; the rest is counted.
pub const MAX_SHOWN: usize = 100;

/// Amounts are decimal texts in JSON, as everywhere.
fn text<S: Serializer>(amount: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(amount)
}

/// Something that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// What.
    pub what: String,
    /// How many.
    pub count: usize,
    /// Why not.
    pub why: String,
}

/// What the file holds of each kind, and what of it is new here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TakenCount {
    /// In the file.
    pub there: usize,
    /// Taken in now; less than `there` when some was here before.
    pub now: usize,
}

/// Both balances at a number of confirmations, in satoshis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BalancePair {
    /// Confirmations asked for.
    pub minconf: u32,
    /// What the source answers.
    #[serde(serialize_with = "text")]
    pub source: u64,
    /// What is answered here.
    #[serde(serialize_with = "text")]
    pub here: u64,
    /// Whether the differences below account for every satoshi between the two.
    pub explained: bool,
}

/// A coin about which the two don't agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownDifference {
    /// Which, as `txid:vout`.
    pub outpoint: String,
    /// In satoshis.
    #[serde(serialize_with = "text")]
    pub value: u64,
    /// What the source says: `spent`, `unspent` or `unknown`.
    pub source: &'static str,
    /// Its state here, or `unknown`.
    pub here: &'static str,
    /// Why.
    pub why: &'static str,
}

/// What an import of a `wallet.db` did.
#[derive(Clone, Debug, Serialize)]
pub struct ImportReport {
    /// The wallet here.
    pub wallet: String,
    /// Whether nothing was kept.
    pub dry_run: bool,
    /// Whether nothing had to be written.
    pub unchanged: bool,
    /// Whether the wallet here stands above the source's tip and knows more.
    pub has_gone_on: bool,
    /// Height of the source's tip.
    pub tip: Option<u64>,
    /// Accounts.
    pub accounts: TakenCount,
    /// Addresses of the file, all of which are watched here.
    pub addresses: usize,
    /// Scripts that no account explains.
    pub scripts: usize,
    /// Transactions in blocks and those that wait, together.
    pub transactions: TakenCount,
    /// Those that wait.
    pub unmined: usize,
    /// Credits; what spends them follows from the transactions.
    pub coins: TakenCount,
    /// Labels.
    pub labels: TakenCount,
    /// Leases that have not run out.
    pub leases: TakenCount,
    /// What was not taken.
    pub left: Vec<LeftOut>,
    /// Balances side by side.
    pub balances: Vec<BalancePair>,
    /// Coins about which the two don't agree, at most 100.
    pub differences: Vec<ShownDifference>,
    /// How many there are.
    pub difference_count: usize,
    /// Addresses whose keys give another script than the source noted; none in a sound file.
    pub strangers: Vec<String>,
}

impl ImportReport {
    /// Puts together what was found.
    pub fn new(
        file: &WalletFile<'_>,
        prepared: &PreparedImport,
        done: &ImportResult,
        dry_run: bool,
        now: Micros,
    ) -> Self {
        let import = &prepared.import;
        let mut left = prepared.left.clone();
        if !done.leases_left.is_empty() {
            let why = "their coins are spent, lost or leased by another holder".to_owned();
            left.push(LeftOut { what: "leases".into(), count: done.leases_left.len(), why });
        }
        let compared = CoinComparison::new(file, prepared, done, now);
        let shown = done.differences.iter().take(MAX_SHOWN).map(ShownDifference::new);
        Self {
            wallet: import.name.clone(),
            dry_run,
            unchanged: done.is_nothing(),
            has_gone_on: done.has_gone_on,
            tip: import.tip.map(|tip| tip.height),
            accounts: TakenCount { there: import.accounts.len(), now: done.accounts },
            addresses: file.keys.addresses.len(),
            scripts: done.scripts,
            transactions: TakenCount { there: import.txs.len(), now: done.txs },
            unmined: import.txs.iter().filter(|tx| tx.block.is_none()).count(),
            coins: TakenCount { there: import.coins.len(), now: done.coins },
            labels: TakenCount { there: import.labels.len(), now: done.labels },
            leases: TakenCount { there: import.leases.len(), now: done.leases },
            left,
            balances: [0, 1, 6].map(|minconf| compared.pair(minconf)).to_vec(),
            differences: shown.collect(),
            difference_count: done.differences.len(),
            strangers: prepared.strangers.clone(),
        }
    }

    /// Whether every difference is explained. A wallet that has gone on can't be compared.
    pub fn is_sound(&self) -> bool {
        let explained = self.has_gone_on || self.balances.iter().all(|pair| pair.explained);
        explained && self.strangers.is_empty()
    }
}

impl ShownDifference {
    fn new(found: &CoinDifference) -> Self {
        let (source, why) = match (found.spent_there, found.by_conflict) {
            (None, _) => ("unknown", "the source had not handed out this address"),
            (Some(spent), true) => {
                let why = "the source counts two transactions that spend the same coin; here only \
                           one is live";
                (spent_word(spent), why)
            }
            (Some(spent), false) => (spent_word(spent), "it has changed since"),
        };
        Self {
            outpoint: found.coin.to_string(),
            value: found.amount,
            source,
            here: found.here.map_or("unknown", CoinState::name),
            why,
        }
    }
}

fn spent_word(is_spent: bool) -> &'static str {
    if is_spent { "spent" } else { "unspent" }
}

/// The two views of all coins.
struct CoinComparison<'a> {
    file: &'a WalletFile<'a>,
    done: &'a ImportResult,
    by_coin: HashMap<OutPoint, &'a CoinDifference>,
    tip: u32,
    now: u64,
}

impl<'a> CoinComparison<'a> {
    fn new(
        file: &'a WalletFile<'a>,
        prepared: &PreparedImport,
        done: &'a ImportResult,
        now: Micros,
    ) -> Self {
        let by_coin = done.differences.iter().map(|found| (found.coin, found)).collect();
        let tip = prepared.import.tip.map_or(0, |tip| tip.height);
        let (tip, now) = (u32::try_from(tip).unwrap_or(0), now.0.max(0).unsigned_abs() / 1_000_000);
        Self { file, done, by_coin, tip, now }
    }

    fn pair(&self, minconf: u32) -> BalancePair {
        let source = self.file.history.balance(minconf, self.tip, self.now);
        let here = here(&self.done.balances, minconf);
        BalancePair { minconf, source, here, explained: self.expected(minconf) == here }
    }

    /// What must be here, if the differences between coins are all there are.
    fn expected(&self, minconf: u32) -> u64 {
        let (tip, least) = (u64::from(self.tip), minconf.max(1).into());
        let is_deep = |height: Option<u64>| match height {
            // A block above the tip has no confirmations.
            Some(height) => (tip + 1).saturating_sub(height) >= least,
            None => minconf == 0,
        };
        let agreed = |(tx, index): (&SourceTx, u32)| {
            let height = tx.block.map(|block| u64::from(block.height));
            // The wallet here waits one block longer with a coinbase.
            let is_ripe =
                !tx.tx.is_coinbase() || maturity::wallet_may_spend(height, ChainTip(Some(tip)));
            let differs = self.by_coin.contains_key(&OutPoint::new(tx.txid, index));
            is_ripe && !differs && is_deep(height)
        };
        let both = self.file.history.unspent(self.now).into_iter();
        let both = both.filter(|(tx, credit)| agreed((tx, credit.index)));
        let only_here = self.done.differences.iter().filter(|found| {
            let counts = matches!(
                found.here,
                Some(CoinState::Confirmed | CoinState::Unconfirmed | CoinState::Pending)
            );
            counts && is_deep(found.height)
        });
        let both = both.map(|(_, credit)| credit.amount);
        // Only a file that holds what isn't money saturates: all there is is less than 2^51.
        both.chain(only_here.map(|found| found.amount)).fold(0, u64::saturating_add)
    }
}

/// The balance here, counted as the source counts: what may be spent.
fn here(balances: &[(u32, Balance)], minconf: u32) -> u64 {
    let found = balances.iter().find(|(known, _)| *known == minconf.max(1));
    found.map_or(0, |(_, balance)| {
        let waiting =
            balance.unconfirmed_own.sats + balance.unconfirmed_foreign.sats + balance.pending.sats;
        balance.confirmed.sats + if minconf == 0 { waiting } else { 0 }
    })
}
