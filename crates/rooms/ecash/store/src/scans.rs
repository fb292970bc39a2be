//! Counters that another copy of this database has used: where a scan begins, what it finds, and
//! its end.
//!
//! Outputs of ranges that open payments of this database hold are left alone: what was signed on
//! them belongs to those payments, which look for it themselves. Nobody looks at the ranges of
//! payments that are over.

use std::collections::BTreeSet;

use unspent_model::Micros;
use unspent_sql::{Arg, Row, SqlError, Tx};

use crate::{
    details::OutputRange,
    entities::RAISE_ACCOUNT,
    error::EcashError,
    event::{FreshProof, ProofName, SealedProof, seal_all},
    flow::scan::FoundProof,
    proofs::{self, InsertTarget},
    store::{ACCOUNT, EcashStore, one_account},
};

/// Payments whose ranges are read together.
const PAGE: i64 = 1_000;

const CATCH_UP: &str = "UPDATE counters SET copied_from = CASE WHEN copied_from < counter
        THEN copied_from ELSE counter END, counter = $2
    WHERE keyset_id = $1 AND counter < $2 RETURNING copied_from";
const NEW_COUNTER: &str = "INSERT INTO counters (keyset_id, counter, copied_from)
    VALUES ($1, $2, 0) ON CONFLICT (keyset_id) DO NOTHING";
const COUNTERS: &str = "SELECT keyset_id, counter FROM counters ORDER BY keyset_id";
const BEGIN_ALL: &str = "UPDATE account_keysets SET scan_from = $2
    WHERE keyset_id = $1 AND (scan_from IS NULL OR scan_from > $2)";
const BEGIN: &str = "UPDATE account_keysets SET scan_from = $3
    WHERE account_id = $1 AND keyset_id = $2 AND (scan_from IS NULL OR scan_from > $3)";
const BEGIN_HERE: &str = "UPDATE account_keysets SET scan_from = (SELECT c.counter
        FROM counters c WHERE c.keyset_id = account_keysets.keyset_id)
    WHERE account_id = $1 AND scan_from IS NULL";
const DUE: &str = "SELECT k.account_id AS account_id, k.keyset_id AS keyset_id,
        k.scan_from AS scan_from, c.counter AS counter
    FROM account_keysets k JOIN counters c ON c.keyset_id = k.keyset_id
    JOIN accounts a ON a.id = k.account_id
    WHERE k.scan_from IS NOT NULL AND a.removed_at IS NULL ORDER BY k.account_id, k.keyset_id";
const LOCK_COUNTER: &str = "SELECT counter FROM counters WHERE keyset_id = $1 FOR UPDATE";
const SCAN_FROM: &str = "SELECT scan_from FROM account_keysets
    WHERE account_id = $1 AND keyset_id = $2 FOR UPDATE";
const RANGES: &str = "SELECT id, outputs FROM entities WHERE is_open AND id > $1
    ORDER BY id LIMIT $2";
const IS_OURS: &str = "SELECT p.y AS y FROM accounts a JOIN proofs p ON p.account_id = a.id
    AND p.y = $1 LIMIT 1";
const ADVANCE: &str = "UPDATE counters SET counter = $2 WHERE keyset_id = $1 AND counter < $2";
const GO_ON: &str = "UPDATE account_keysets SET scan_from = $3
    WHERE account_id = $1 AND keyset_id = $2";
const OPEN_SCAN: &str = "SELECT id FROM scans
    WHERE account_id = $1 AND keyset_id = $2 AND ended_at IS NULL";
const NEW_SCAN: &str = "INSERT INTO scans (id, account_id, keyset_id, first_counter, next_counter,
    proofs, amount, started_at) VALUES ($1, $2, $3, $4, $4, 0, 0, $5)";
const NOTE_SCAN: &str = "UPDATE scans SET next_counter = $2, proofs = proofs + $3,
    amount = amount + $4, ended_at = $5 WHERE id = $1";
const SCANS: &str = "SELECT account_id, keyset_id, first_counter, next_counter, proofs, amount,
        started_at, ended_at
    FROM scans ORDER BY started_at DESC, id DESC LIMIT $1";

/// A keyset of an account that is to be scanned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueScan {
    /// Whose mint is asked.
    pub account_id: String,
    /// On which keyset.
    pub keyset_id: String,
    /// The first counter to ask for.
    pub from: u32,
    /// The next counter that a payment would use; to be asked for beyond it too.
    pub counter: u32,
}

/// Counters that a mint was asked for, and what it has signed of them.
#[derive(Clone, Debug)]
pub struct ScannedBatch {
    /// An id for the scan, in case it begins with this batch.
    pub scan_id: String,
    /// Behind the last counter that was asked for.
    pub end: u32,
    /// What was found, spent or not.
    pub found: Vec<FoundProof>,
    /// Nothing is to be expected beyond.
    pub is_last: bool,
}

/// What a scan has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanLine {
    /// Whose mint was asked.
    pub account_id: String,
    /// On which keyset.
    pub keyset_id: String,
    /// Where it began.
    pub first: u32,
    /// How far it came.
    pub next: u32,
    /// Proofs that were put into the account.
    pub proofs: u64,
    /// What they are worth.
    pub amount: u64,
    /// When it began.
    pub started_at: Micros,
    /// `None` while it goes on.
    pub ended_at: Option<Micros>,
}

impl EcashStore {
    /// The next counter of each keyset.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn counters(&self) -> Result<Vec<(String, u32)>, EcashError> {
        self.door.read(|tx| {
            let rows = tx.query(COUNTERS, &[])?;
            rows.iter().map(|row| Ok((row.text("keyset_id")?, row.index("counter")?))).collect()
        })
    }

    /// Takes over counters that are known to be used: those below them are used by no payment of
    /// this database any more, and are to be scanned. Says how many keysets were behind.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn catch_up(&self, used: Vec<(String, u32)>) -> Result<usize, EcashError> {
        self.door.write(move |tx| {
            let mut behind = 0;
            for (keyset, counter) in &used {
                let args = [Arg::Text(keyset), Arg::Int(i64::from(*counter))];
                let from = match tx.maybe(CATCH_UP, &args)? {
                    Some(row) => row.int("copied_from")?,
                    // A keyset that only the newer copy has met.
                    None if tx.execute(NEW_COUNTER, &args)? > 0 => 0,
                    None => continue,
                };
                tx.execute(BEGIN_ALL, &[Arg::Text(keyset), Arg::Int(from)])?;
                behind += 1;
            }
            Ok(behind)
        })
    }

    /// Keysets that are to be scanned.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn due_scans(&self) -> Result<Vec<DueScan>, EcashError> {
        self.door.read(|tx| {
            let read = |row: &Row| -> Result<DueScan, EcashError> {
                Ok(DueScan {
                    account_id: row.text("account_id")?,
                    keyset_id: row.text("keyset_id")?,
                    from: row.index("scan_from")?,
                    counter: row.index("counter")?,
                })
            };
            tx.query(DUE, &[])?.iter().map(read).collect()
        })
    }

    /// Has all keysets of an account scanned from their first counter.
    ///
    /// # Errors
    ///
    /// [`EcashError::NotFound`].
    pub fn scan_account(&self, account: &str) -> Result<(), EcashError> {
        const ALL: &str = "UPDATE account_keysets SET scan_from = 0 WHERE account_id = $1";
        let account = account.to_owned();
        self.door.write(move |tx| {
            one_account(tx, &account, ACCOUNT)?;
            tx.execute(ALL, &[Arg::Text(&account)])?;
            Ok(())
        })
    }

    /// Keeps what a mint has signed of a batch: unspent proofs that are new go into the account,
    /// and the counter goes beyond the last output that was signed. A batch that doesn't begin
    /// where the scan stands changes nothing: somebody else has scanned it.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn keep_scanned(
        &self,
        scan: &DueScan,
        batch: ScannedBatch,
        now: Micros,
    ) -> Result<(), EcashError> {
        let unspent = batch.found.iter().filter(|found| !found.is_spent);
        let fresh = unspent.map(|found| FreshProof::from(found.proof.clone()));
        let sealed = seal_all(&fresh.collect::<Vec<_>>(), &self.sealer)?;
        let places = batch.found.iter().filter(|found| !found.is_spent);
        let sealed = places.map(|found| found.counter).zip(sealed).collect();
        let (scan, batch) = (scan.clone(), StoredBatch { sealed, ..StoredBatch::of(&batch) });
        self.door.write(move |tx| keep(tx, &scan, &batch, now))
    }

    /// Writes down that another copy has spent proofs which no payment of this database holds.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn lose_spent(
        &self,
        account: &str,
        names: Vec<ProofName>,
        now: Micros,
    ) -> Result<(), EcashError> {
        let account = account.to_owned();
        self.door.write(move |tx| {
            proofs::lose_spent(tx, &account, &names, now)?;
            tx.execute(RAISE_ACCOUNT, &[Arg::Text(&account)])?;
            Ok(())
        })
    }

    /// What scans have done, the newest first.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn scans(&self, limit: u32) -> Result<Vec<ScanLine>, EcashError> {
        self.door.read(move |tx| {
            tx.query(SCANS, &[Arg::Int(limit.into())])?.iter().map(read_scan).collect()
        })
    }
}

/// A batch as a closure may repeat it.
struct StoredBatch {
    scan_id: String,
    end: u32,
    is_last: bool,
    /// Behind the last output that was signed.
    signed_to: u32,
    sealed: Vec<(u32, SealedProof)>,
}

impl StoredBatch {
    fn of(batch: &ScannedBatch) -> Self {
        // Counters end at 2^31, long before numbers do.
        let last = batch.found.iter().map(|found| found.counter.saturating_add(1)).max();
        Self {
            scan_id: batch.scan_id.clone(),
            end: batch.end,
            is_last: batch.is_last,
            signed_to: last.unwrap_or_default(),
            sealed: Vec::new(),
        }
    }
}

/// Has an account's keysets scanned from their counters on, and one of them from the start of a
/// range that somebody else has used.
pub(crate) fn begin(
    tx: &mut Tx<'_>,
    account: &str,
    used: Option<(&str, u32)>,
) -> Result<(), SqlError> {
    tx.execute(BEGIN_HERE, &[Arg::Text(account)])?;
    if let Some((keyset, from)) = used {
        tx.execute(BEGIN, &[Arg::Text(account), Arg::Text(keyset), Arg::Int(i64::from(from))])?;
    }
    Ok(())
}

fn keep(
    tx: &mut Tx<'_>,
    scan: &DueScan,
    batch: &StoredBatch,
    now: Micros,
) -> Result<(), EcashError> {
    let place = [Arg::Text(&scan.account_id), Arg::Text(&scan.keyset_id)];
    // Before everything else: whoever takes a range waits here, so that none begins in this batch
    // while its outputs are given out.
    tx.maybe(LOCK_COUNTER, &[Arg::Text(&scan.keyset_id)])?;
    let stands = tx.maybe(SCAN_FROM, &place)?.map(|row| row.opt_int("scan_from")).transpose()?;
    if stands.flatten() != Some(i64::from(scan.from)) {
        return Ok(());
    }
    let fresh = if batch.sealed.is_empty() { Vec::new() } else { fresh_of(tx, scan, batch)? };
    let id = match tx.maybe(OPEN_SCAN, &place)? {
        Some(row) => row.text("id")?,
        None => {
            let [account, keyset] = place;
            let (id, from) = (Arg::Text(&batch.scan_id), Arg::Int(scan.from.into()));
            tx.execute(NEW_SCAN, &[id, account, keyset, from, Arg::Int(now.get())])?;
            batch.scan_id.clone()
        }
    };
    let target = InsertTarget { account: &scan.account_id, entity: &id, is_reserved: false, now };
    if !fresh.is_empty() {
        proofs::insert(tx, &target, &fresh)?;
        tx.execute(RAISE_ACCOUNT, &[Arg::Text(&scan.account_id)])?;
    }
    tx.execute(ADVANCE, &[Arg::Text(&scan.keyset_id), Arg::Int(batch.signed_to.into())])?;
    let next = (!batch.is_last).then_some(i64::from(batch.end));
    let [account, keyset] = place;
    tx.execute(GO_ON, &[account, keyset, Arg::OptInt(next)])?;
    let amount = fresh.iter().try_fold(0, |sum: u64, proof| sum.checked_add(proof.amount));
    let amount = amount.ok_or_else(|| EcashError::argument("the proofs are beyond 2^64"))?;
    let note = [
        Arg::Text(&id),
        Arg::Int(batch.end.into()),
        Arg::Int(crate::store::sql_int(fresh.len() as u64)?),
        Arg::Int(crate::store::sql_int(amount)?),
        Arg::OptInt(batch.is_last.then_some(now.get())),
    ];
    tx.execute(NOTE_SCAN, &note)?;
    Ok(())
}

/// Proofs of a batch that are nobody's: neither kept already nor on a payment's own outputs.
fn fresh_of(
    tx: &mut Tx<'_>,
    scan: &DueScan,
    batch: &StoredBatch,
) -> Result<Vec<SealedProof>, EcashError> {
    let taken = taken(tx, &scan.keyset_id, scan.from, batch.end)?;
    let mut fresh: Vec<SealedProof> = Vec::new();
    for (counter, proof) in &batch.sealed {
        if !taken.contains(counter) && !is_ours(tx, proof)? {
            fresh.push(proof.clone());
        }
    }
    Ok(fresh)
}

/// Whether any account holds a proof, or has held it.
pub(crate) fn is_ours(tx: &mut Tx<'_>, proof: &SealedProof) -> Result<bool, SqlError> {
    Ok(tx.maybe(IS_OURS, &[Arg::Blob(&proof.y)])?.is_some())
}

/// Counters from `from` up to `end` that open payments of this database hold.
fn taken(tx: &mut Tx<'_>, keyset: &str, from: u32, end: u32) -> Result<BTreeSet<u32>, EcashError> {
    let (mut taken, mut after) = (BTreeSet::new(), String::new());
    loop {
        let rows = tx.query(RANGES, &[Arg::Text(&after), Arg::Int(PAGE)])?;
        let Some(last) = rows.last() else { return Ok(taken) };
        after = last.text("id")?;
        for row in &rows {
            let ranges: Vec<OutputRange> = crate::audit::ranges_of(&row.text("outputs")?)?;
            for range in ranges.iter().filter(|range| range.keyset_id == keyset) {
                let counters = (range.start..).zip(&range.amounts).map(|(counter, _)| counter);
                taken.extend(counters.filter(|counter| (from..end).contains(counter)));
            }
        }
    }
}

fn read_scan(row: &Row) -> Result<ScanLine, EcashError> {
    Ok(ScanLine {
        account_id: row.text("account_id")?,
        keyset_id: row.text("keyset_id")?,
        first: row.index("first_counter")?,
        next: row.index("next_counter")?,
        proofs: row.natural("proofs")?,
        amount: row.natural("amount")?,
        started_at: Micros(row.int("started_at")?),
        ended_at: row.opt_int("ended_at")?.map(Micros),
    })
}
