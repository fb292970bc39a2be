//! A consistency check: index, coins, spends, deltas and points against each other.
//!
//! RocksDB's checksums find bytes that changed on disk. They don't find an entry that was never
//! written, or one too many: a bug of ours, a restored mixture of files. But nearly everything is
//! told twice, so each telling is held against the other:
//!
//! | told by | and by |
//! |---|---|
//! | points: hash and ordinal | `chain_hashes` |
//! | coins: the keys they ask for | each secondary index: [`lists`] |
//! | deltas: what a block spent | pointers in `utxo_spent`, block by block |
//! | deltas: what a block created | coins, and bodies in later deltas, that say they were born in it |
//! | the cursor: number and value | coins |
//! | the trees of the MMR store: see [`trees`] | coins, deltas, themselves |
//!
//! Looking every counterpart up would be a random read per entry. Instead each family is read once,
//! in key order, and both tellings are added up to sums that don't depend on the order
//! ([`SetSum`]); equal sums are equal sets. Only where two differ are the culprits looked for,
//! among a 256th of the lists of an index or in one block ([`culprits`]).
//!
//! Large families are read in ranges, several at once. Memory is bounded by the window and the
//! number of threads, not by the set. Differences are named, up to a limit; bytes that can't be
//! read at all end the check with an error.

mod blocks;
mod coins;
mod culprits;
mod lists;
mod sum;
mod trees;

use std::fmt;

use unspent_model::{Network, Outpoint};

use crate::{
    codec::{IndexCursor, PruneHorizon, TreeCommitment},
    db::View,
    error::{QueryError, StoreError},
    indexes::IndexRow,
    open,
    query::Reader,
    schema::{ColumnFamily, names},
};
use sum::SetSum;

/// Most differences that are listed by name; the rest are counted.
pub const FINDINGS_LIMIT: usize = 100;

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VerifyReport {
    /// Entries read, by column family.
    pub checked: Vec<(&'static str, u64)>,
    /// Differences, the first [`FINDINGS_LIMIT`] of them.
    pub findings: Vec<Finding>,
    /// All differences.
    pub differences: u64,
    /// Blocks an import jumped over, with heights left and resumed.
    pub holes: Vec<(Option<u64>, u64)>,
    /// Inputs that were not in the set. 0 on a chain without holes.
    pub missing_inputs: u64,
}

/// One difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The family with the odd entry.
    pub family: &'static str,
    /// Which entry.
    pub entry: String,
    /// What is odd about it.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.family, self.entry, self.what)
    }
}

impl VerifyReport {
    /// Nothing differs.
    pub fn is_clean(&self) -> bool {
        self.differences == 0
    }

    fn found(&mut self, family: ColumnFamily, entry: impl fmt::Display, what: impl Into<String>) {
        self.differences += 1;
        if self.findings.len() < FINDINGS_LIMIT {
            let entry = entry.to_string();
            self.findings.push(Finding { family: family.name(), entry, what: what.into() });
        }
    }

    /// Takes in what another thread found.
    fn absorb(&mut self, other: Self) {
        self.differences += other.differences;
        // A full list takes no more.
        let room = FINDINGS_LIMIT.saturating_sub(self.findings.len());
        self.findings.extend(other.findings.into_iter().take(room));
    }
}

impl Reader {
    /// Compares everything with everything. `progress` is told entries as they are read; there are
    /// about [`Self::entries_estimated`].
    ///
    /// # Errors
    ///
    /// [`QueryError`] when an entry can't be read at all; it names the entry.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<VerifyReport, QueryError> {
        self.enabled()?;
        let view = self.db.view();
        let state = open::state(&view, true)?;
        let absent = |name: &[u8]| StoreError::absent(ColumnFamily::UtxoMeta.name(), name);
        let layout = open::stored_layout(&view)?.ok_or_else(|| absent(names::LAYOUT))?;
        open::stored_choices(&view)?.ok_or_else(|| absent(names::CHOICES))?;
        open::redeem_coins(&view)?;
        let mut check = Check {
            view,
            network: self.network,
            cursor: state.cursor,
            horizon: state.horizon,
            indexes: layout.indexes.rows(self.network.family()),
            commitment: state.commitment,
            report: VerifyReport::default(),
            progress,
        };
        check.points()?;
        let window = check.window()?;
        let leaves = check.coins(&window)?;
        check.trees(leaves)?;
        let mut report = check.report;
        report.holes = state.holes.iter().map(|hole| (hole.left_at, hole.resumes_at)).collect();
        report.missing_inputs = state.cursor.missing_inputs;
        Ok(report)
    }

    /// About how many entries there are to read, for telling how long that will take.
    ///
    /// # Errors
    ///
    /// [`QueryError`].
    pub fn entries_estimated(&self) -> Result<u64, QueryError> {
        let families = self.db.families().iter();
        let estimates = families.map(|family| self.db.entries_estimated(*family));
        Ok(estimates.sum::<Result<u64, StoreError>>()?)
    }
}

struct Check<'a> {
    view: View<'a>,
    network: Network,
    cursor: IndexCursor,
    horizon: PruneHorizon,
    /// Those that are kept.
    indexes: Vec<IndexRow>,
    /// Where the trees stand; `None` in a classic store.
    commitment: Option<TreeCommitment>,
    report: VerifyReport,
    progress: &'a mut dyn FnMut(u64),
}

impl Check<'_> {
    /// Scans a small family, handing each entry to `visit` together with the check's parts.
    fn each(
        &mut self,
        family: ColumnFamily,
        mut visit: impl FnMut(&View<'_>, &mut VerifyReport, &[u8], &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Self { view, report, progress, .. } = self;
        let mut count = 0;
        view.scan_all(family, |key, value| {
            count += 1;
            progress(1);
            visit(view, report, key, value)
        })?;
        report.checked.push((family.name(), count));
        Ok(())
    }
}

/// A coin in a finding. Its `Debug` is written to be read, and takes no side between the networks'
/// ways to write a hash.
fn named(outpoint: &Outpoint) -> String {
    format!("{outpoint:?}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
