//! Labels on transactions, addresses and coins.

use std::collections::HashMap;

use bitcoin::{ScriptBuf, Transaction, consensus::encode};
use serde::{Deserialize, Serialize};
use unspent_model::{TxId, wallet::plan::ReplacementEdge};
use unspent_sql::{Arg, BulkStatement, Column, Row, SqlError, Tx};

use crate::{
    apply_plan::RawTxs,
    batch::ObservedTx,
    descriptor::show_script,
    error::WalletError,
    ids::{WalletId, bitcoin_txid},
    store::WalletStore,
    wallet_info::{AddressInfo, MAX_PAGE},
    wallet_row::WalletRow,
};

/// The longest label, in characters.
pub const MAX_LABEL: usize = 500;

/// What a label may stand on, as BIP-329 names it.
pub const LABEL_KINDS: [&str; 6] = ["tx", "addr", "pubkey", "input", "output", "xpub"];

/// What people call something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// What it stands on.
    #[serde(rename = "type")]
    pub kind: String,
    /// Which one.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The text.
    #[serde(default)]
    pub label: String,
}

const FIND: &str = "SELECT label FROM labels WHERE wallet_id = $1 AND kind = $2 AND ref = $3";
const SET: &str = "INSERT INTO labels (wallet_id, kind, ref, label) VALUES ($1, $2, $3, $4)
    ON CONFLICT (wallet_id, kind, ref) DO UPDATE SET label = excluded.label";
const CLEAR: &str = "DELETE FROM labels WHERE wallet_id = $1 AND kind = $2 AND ref = $3";
const LIST: &str = "SELECT kind, ref, label FROM labels
    WHERE wallet_id = $1 AND (kind, ref) > ($2, $3) ORDER BY kind, ref LIMIT $4";
const LABELS: BulkStatement = BulkStatement {
    sqlite: "SELECT kind, ref, label FROM labels WHERE wallet_id = $1 AND kind = $2 AND ref = $3",
    postgres: "SELECT b.kind, b.ref, b.label FROM UNNEST($2::text[], $3::text[]) k (t, r)
        CROSS JOIN LATERAL (SELECT kind, ref, label FROM labels
            WHERE wallet_id = $1 AND kind = k.t AND ref = k.r OFFSET 0) b",
};
const ANY: &str = "SELECT 1 FROM labels WHERE wallet_id = $1 LIMIT 1";
const RAW: &str = "SELECT raw_tx FROM transactions WHERE wallet_id = $1 AND tx_hash = $2";

impl WalletStore {
    /// Sets a label; an empty one clears.
    ///
    /// # Errors
    ///
    /// [`WalletError::LabelTooLong`] beyond 500 characters.
    pub fn set_label(&self, wallet: WalletId, label: &Label) -> Result<(), WalletError> {
        check(label)?;
        let label = label.clone();
        self.door.write_for(wallet.0, move |tx| {
            WalletRow::lock(tx, wallet)?;
            set(tx, wallet, &label)
        })
    }

    /// A page of labels after a given one.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn labels(
        &self,
        wallet: WalletId,
        after: Option<&Label>,
    ) -> Result<Vec<Label>, WalletError> {
        let after = after.cloned();
        self.door.read(move |tx| {
            let (kind, reference) =
                after.as_ref().map_or(("", ""), |label| (&label.kind, &label.reference));
            let args = [
                Arg::Int(wallet.0),
                Arg::Text(kind),
                Arg::Text(reference),
                Arg::Int(MAX_PAGE.into()),
            ];
            tx.query(LIST, &args)?.iter().map(|row| Ok(read(row)?)).collect()
        })
    }
}

/// What a label stands on: its kind, and which one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LabelKey {
    kind: String,
    reference: String,
}

impl LabelKey {
    pub(crate) fn new(kind: &str, reference: String) -> Self {
        Self { kind: kind.into(), reference }
    }
}

/// The labels of many things at once, of those that have one.
pub(crate) fn labels_of(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    keys: impl Iterator<Item = LabelKey>,
) -> Result<HashMap<LabelKey, String>, WalletError> {
    let (kinds, names): (Vec<_>, Vec<_>) = keys.map(|key| (key.kind, key.reference)).unzip();
    let columns = [Column::texts(kinds), Column::texts(names)];
    let rows = tx.query_set(LABELS, &[Arg::Int(wallet.0)], &columns)?;
    let found = rows.iter().map(|row| {
        let Label { kind, reference, label } = read(row)?;
        Ok((LabelKey { kind, reference }, label))
    });
    found.collect()
}

/// Gives addresses their labels.
pub(crate) fn label_addresses(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    network: bitcoin::Network,
    addresses: &mut [AddressInfo],
) -> Result<(), WalletError> {
    let key = |info: &AddressInfo| LabelKey::new("addr", show_script(&info.script, network));
    let labels = labels_of(tx, wallet, addresses.iter().map(key))?;
    for info in addresses {
        info.label = labels.get(&key(info)).cloned();
    }
    Ok(())
}

fn read(row: &Row) -> Result<Label, SqlError> {
    let (kind, reference) = (row.text("kind")?, row.text("ref")?);
    Ok(Label { kind, reference, label: row.text("label")? })
}

pub(crate) fn check(label: &Label) -> Result<(), WalletError> {
    let length = label.label.chars().count();
    if length > MAX_LABEL {
        return Err(WalletError::LabelTooLong(length));
    }
    if !LABEL_KINDS.contains(&label.kind.as_str()) {
        let known = LABEL_KINDS.join(", ");
        let why = format!("`{}` can't be labelled; known: {known}", label.kind);
        return Err(WalletError::Argument(why));
    }
    let size = label.reference.chars().count();
    if size == 0 || size > 1_000 || label.reference.contains('\0') || label.label.contains('\0') {
        return Err(WalletError::Argument(
            "a label needs a `ref` without control characters".into(),
        ));
    }
    Ok(())
}

pub(crate) fn set(tx: &mut Tx<'_>, wallet: WalletId, label: &Label) -> Result<(), WalletError> {
    let key = [Arg::Int(wallet.0), Arg::Text(&label.kind), Arg::Text(&label.reference)];
    if label.label.is_empty() {
        tx.execute(CLEAR, &key)?;
    } else {
        tx.execute(SET, &[&key[..], &[Arg::Text(&label.label)]].concat())?;
    }
    Ok(())
}

/// A clone of a labelled transaction, made by somebody who changed a signature's form, takes over
/// the labels where it has none of its own.
pub(crate) fn follow_clones(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    edges: &[ReplacementEdge],
    raws: &RawTxs,
) -> Result<(), WalletError> {
    // Most wallets have no labels: then no raw transaction is read for an edge.
    if edges.is_empty() || tx.maybe(ANY, &[Arg::Int(wallet.id.0)])?.is_none() {
        return Ok(());
    }
    for edge in edges {
        let loser = unsigned(tx, wallet.id, edge.replaced, raws)?;
        let winner = unsigned(tx, wallet.id, edge.replacement, raws)?;
        if let Some(said) = loser.filter(|loser| Some(loser) == winner.as_ref()) {
            hand_over(tx, wallet.id, edge, said.output.len())?;
        }
    }
    Ok(())
}

/// What a transaction says, without what proves that it may.
fn unsigned(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    txid: TxId,
    raws: &RawTxs,
) -> Result<Option<Transaction>, WalletError> {
    let stored = match raws.get(&txid) {
        Some(raw) => Some(raw.clone()),
        None => {
            let row = tx.maybe(RAW, &[Arg::Int(wallet.0), Arg::Blob(&txid.0)])?;
            row.map(|row| row.blob("raw_tx")).transpose()?
        }
    };
    let Some(raw) = stored else { return Ok(None) };
    let damaged = |_| WalletError::Corrupt("a stored transaction can't be read".into());
    let mut said: Transaction = encode::deserialize(&raw).map_err(damaged)?;
    // Signatures of legacy inputs enter the txid, and others can change their form on the way.
    for input in &mut said.input {
        input.script_sig = ScriptBuf::new();
        input.witness.clear();
    }
    Ok(Some(said))
}

/// Gives the labels of a transaction and of its outputs to another of the same form.
fn hand_over(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    edge: &ReplacementEdge,
    outputs: usize,
) -> Result<(), WalletError> {
    let (loser, winner) = (bitcoin_txid(edge.replaced), bitcoin_txid(edge.replacement));
    let whole = ("tx", loser.to_string(), winner.to_string());
    let parts = (0..outputs).map(|n| ("output", format!("{loser}:{n}"), format!("{winner}:{n}")));
    for (kind, from, reference) in std::iter::once(whole).chain(parts) {
        let mut find =
            |name: &str| tx.maybe(FIND, &[Arg::Int(wallet.0), Arg::Text(kind), Arg::Text(name)]);
        let (before, taken) = (find(&from)?, find(&reference)?);
        if let (Some(row), None) = (before, taken) {
            set(tx, wallet, &Label { kind: kind.into(), reference, label: row.text("label")? })?;
        }
    }
    Ok(())
}

/// Labels a transaction of a batch; another label than the one that is there refuses the batch.
pub(crate) fn label_new(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    observed: &ObservedTx,
) -> Result<(), WalletError> {
    let Some(text) = observed.label.as_ref().filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    let txid = observed.tx.compute_txid();
    let label = Label { kind: "tx".into(), reference: txid.to_string(), label: text.clone() };
    check(&label)?;
    let key = [Arg::Int(wallet.id.0), Arg::Text(&label.kind), Arg::Text(&label.reference)];
    let before = tx.maybe(FIND, &key)?.map(|row| row.text("label")).transpose()?;
    match before {
        Some(before) if before == label.label => Ok(()),
        Some(_) => Err(WalletError::LabelDiffers(txid)),
        None => set(tx, wallet.id, &label),
    }
}
