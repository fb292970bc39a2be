//! Labels out and in as BIP-329 has them: one JSON object on each line.
//!
//! A record may also say where its thing comes from (`origin`) and whether a coin may be spent
//! (`spendable`). All of it is kept and goes out again; what a record doesn't mention stays as it
//! is.

use std::collections::BTreeSet;

use bitcoin::OutPoint;
use serde::{Deserialize, Serialize};
use unspent_model::{Micros, Outpoint};
use unspent_sql::{Arg, Row, Tx};

use crate::{
    error::WalletError,
    freeze::{freeze, frozen, thaw},
    ids::{WalletId, bitcoin_outpoint, model_outpoint},
    labels::{Label, check, set},
    store::WalletStore,
    wallet_info::MAX_PAGE,
    wallet_row::WalletRow,
};

/// The longest file of labels taken in at once, in lines.
pub const MAX_IMPORT_LINES: usize = 100_000;

/// The most bad lines that are named; the rest is counted.
pub const MAX_NAMED_LINES: usize = 100;

/// The longest origin, in characters.
const MAX_ORIGIN: usize = 1_000;

/// One line of a BIP-329 file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelRecord {
    /// What it stands on.
    #[serde(rename = "type")]
    pub kind: String,
    /// Which one.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The text; an empty one clears, none leaves what is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The key that a transaction belongs to, as an abbreviated descriptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Whether a coin may be spent; of outputs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spendable: Option<bool>,
}

/// A line that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// What became of a file of labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelImport {
    /// Records taken in.
    pub taken: usize,
    /// Lines left out.
    pub left_out: usize,
    /// The first of those.
    pub bad: Vec<BadLine>,
}

const LABELS: &str = "SELECT b.kind, b.ref, b.label, o.origin FROM labels b
    LEFT JOIN label_origins o
        ON o.wallet_id = b.wallet_id AND o.kind = b.kind AND o.ref = b.ref
    WHERE b.wallet_id = $1 AND (b.kind, b.ref) > ($2, $3) ORDER BY b.kind, b.ref LIMIT $4";
const ORIGINS: &str = "SELECT o.kind, o.ref, b.label, o.origin FROM label_origins o
    LEFT JOIN labels b ON b.wallet_id = o.wallet_id AND b.kind = o.kind AND b.ref = o.ref
    WHERE o.wallet_id = $1 AND (o.kind, o.ref) > ($2, $3) ORDER BY o.kind, o.ref LIMIT $4";
const SET_ORIGIN: &str = "INSERT INTO label_origins (wallet_id, kind, ref, origin)
    VALUES ($1, $2, $3, $4)
    ON CONFLICT (wallet_id, kind, ref) DO UPDATE SET origin = excluded.origin";

impl WalletStore {
    /// All labels, origins and frozen coins as BIP-329 lines.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn export_labels(&self, wallet: WalletId) -> Result<String, WalletError> {
        self.door.read(move |tx| {
            let mut out = LabelExport { text: String::new(), frozen: all_frozen(tx, wallet)? };
            each_record(tx, wallet, LABELS, |record| out.push(record))?;
            each_record(tx, wallet, ORIGINS, |record| match record.label {
                Some(_) => Ok(()),
                None => out.push(record),
            })?;
            out.rest()?;
            Ok(out.text)
        })
    }

    /// Takes in BIP-329 lines. A bad line is left out and named; the others go in, all at once.
    ///
    /// # Errors
    ///
    /// [`WalletError::Argument`] for more than 100,000 lines, with nothing taken in.
    pub fn import_labels(
        &self,
        wallet: WalletId,
        text: &str,
        now: Micros,
    ) -> Result<LabelImport, WalletError> {
        let (mut records, mut done) = (Vec::new(), LabelImport::default());
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            if records.len() + done.left_out >= MAX_IMPORT_LINES {
                return Err(WalletError::Argument("more than 100,000 labels at once".into()));
            }
            match parse(line) {
                Ok(record) => records.push(record),
                Err(why) => {
                    done.left_out += 1;
                    if done.bad.len() < MAX_NAMED_LINES {
                        done.bad.push(BadLine { line: at + 1, why });
                    }
                }
            }
        }
        done.taken = records.len();
        self.door.write_for(wallet.0, move |tx| {
            WalletRow::lock(tx, wallet)?;
            records.iter().try_for_each(|record| take(tx, wallet, record, now))?;
            Ok(done.clone())
        })
    }
}

/// Lines as they come out, and the frozen coins that no line has named yet.
struct LabelExport {
    text: String,
    frozen: BTreeSet<OutPoint>,
}

impl LabelExport {
    fn push(&mut self, mut record: LabelRecord) -> Result<(), WalletError> {
        if coin_of(&record).is_some_and(|coin| self.frozen.remove(&coin)) {
            record.spendable = Some(false);
        }
        let line = serde_json::to_string(&record);
        self.text.push_str(&line.map_err(|_| WalletError::Bug("a label can't be written"))?);
        self.text.push('\n');
        Ok(())
    }

    /// Frozen coins that have neither label nor origin.
    fn rest(&mut self) -> Result<(), WalletError> {
        while let Some(coin) = self.frozen.first().copied() {
            self.push(LabelRecord {
                kind: "output".into(),
                reference: coin.to_string(),
                label: None,
                origin: None,
                spendable: None,
            })?;
        }
        Ok(())
    }
}

fn all_frozen(tx: &mut Tx<'_>, wallet: WalletId) -> Result<BTreeSet<OutPoint>, WalletError> {
    let mut all = BTreeSet::new();
    let mut last: Option<Outpoint> = None;
    loop {
        let page = frozen(tx, wallet, last, MAX_PAGE)?;
        let Some(end) = page.last().copied() else { return Ok(all) };
        last = Some(end);
        all.extend(page.into_iter().map(bitcoin_outpoint));
    }
}

fn each_record(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    sql: &'static str,
    mut each: impl FnMut(LabelRecord) -> Result<(), WalletError>,
) -> Result<(), WalletError> {
    let mut last = (String::new(), String::new());
    loop {
        let args =
            [Arg::Int(wallet.0), Arg::Text(&last.0), Arg::Text(&last.1), Arg::Int(MAX_PAGE.into())];
        let rows = tx.query(sql, &args)?;
        let Some(end) = rows.last() else { return Ok(()) };
        last = (end.text("kind")?, end.text("ref")?);
        for row in &rows {
            each(read(row)?)?;
        }
    }
}

fn read(row: &Row) -> Result<LabelRecord, WalletError> {
    Ok(LabelRecord {
        kind: row.text("kind")?,
        reference: row.text("ref")?,
        label: row.opt_text("label")?,
        origin: row.opt_text("origin")?,
        spendable: None,
    })
}

fn parse(line: &str) -> Result<LabelRecord, String> {
    let record: LabelRecord = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let label = record.label.clone().unwrap_or_default();
    let (kind, reference) = (record.kind.clone(), record.reference.clone());
    check(&Label { kind, reference, label }).map_err(|error| error.to_string())?;
    if let Some(origin) = &record.origin {
        let length = origin.chars().count();
        if length == 0 || length > MAX_ORIGIN || origin.contains('\0') {
            return Err("an origin has 1 to 1,000 plain characters".into());
        }
    }
    if record.spendable.is_some() && coin_of(&record).is_none() {
        return Err("`spendable` applies to an output, named TXID:VOUT".into());
    }
    Ok(record)
}

fn coin_of(record: &LabelRecord) -> Option<OutPoint> {
    if record.kind == "output" { record.reference.parse().ok() } else { None }
}

fn take(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    record: &LabelRecord,
    now: Micros,
) -> Result<(), WalletError> {
    let (kind, reference) = (record.kind.clone(), record.reference.clone());
    if let Some(origin) = &record.origin {
        let key = [Arg::Int(wallet.0), Arg::Text(&kind), Arg::Text(&reference), Arg::Text(origin)];
        tx.execute(SET_ORIGIN, &key)?;
    }
    match (coin_of(record), record.spendable) {
        // Not looked up: labels of a wallet that moves here may come before its coins.
        (Some(coin), Some(false)) => freeze(tx, wallet, &[model_outpoint(coin)], now)?,
        (Some(coin), Some(true)) => thaw(tx, wallet, &[model_outpoint(coin)])?,
        _ => 0,
    };
    match record.label.clone() {
        Some(label) => set(tx, wallet, &Label { kind, reference, label }),
        None => Ok(()),
    }
}
