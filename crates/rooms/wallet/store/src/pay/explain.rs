//! What a signer is told: what each input spends and with which keys, which outputs are ours.

use std::collections::HashMap;

use bitcoin::{OutPoint, Psbt, ScriptBuf, Transaction, TxOut, consensus::encode};
use miniscript::psbt::PsbtExt as _;
use unspent_sql::{Arg, BulkStatement, Column, Row, Tx};

use crate::{
    descriptor::{Keychain, script_hash},
    error::WalletError,
    ids::{WalletId, bitcoin_outpoint, model_txid},
    rows,
    wallet_info::KeychainPurpose,
    wallet_row::WalletRow,
};

const COIN_SOURCES: BulkStatement = BulkStatement {
    sqlite: "SELECT t.tx_hash, u.output_index, t.raw_tx, k.purpose, k.descriptor, d.address_index
        FROM transactions t
        CROSS JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $3
        CROSS JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
        CROSS JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
        WHERE t.wallet_id = $1 AND t.tx_hash = $2",
    postgres: "SELECT t.tx_hash, u.output_index, t.raw_tx, k.purpose, k.descriptor, d.address_index
        FROM UNNEST($2::bytea[], $3::bigint[]) q (h, n)
        JOIN transactions t ON t.tx_hash = q.h AND t.wallet_id = $1
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = q.n
        JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
        JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id",
};
pub(super) const SCRIPT_SOURCES: BulkStatement = BulkStatement {
    sqlite: "SELECT d.script_hash, k.purpose, k.descriptor, k.input_weight, d.address_index
        FROM addresses d
        CROSS JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
        WHERE d.script_hash = $2 AND d.wallet_id = $1",
    postgres: "SELECT d.script_hash, k.purpose, k.descriptor, k.input_weight, d.address_index
        FROM UNNEST($2::bytea[]) q (h)
        JOIN addresses d ON d.script_hash = q.h AND d.wallet_id = $1
        JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id",
};

type DefiniteDescriptor = miniscript::Descriptor<miniscript::DefiniteDescriptorKey>;

/// Descriptors that were read, each once.
#[derive(Default)]
pub(super) struct DescriptorCache {
    known: HashMap<String, Keychain>,
}

impl DescriptorCache {
    /// The descriptor of one script, where it has one: `purpose`, `descriptor`, `address_index`.
    pub(super) fn of(&mut self, row: &Row) -> Result<Option<DefiniteDescriptor>, WalletError> {
        if row.text("purpose")? == KeychainPurpose::Imported.name() {
            return Ok(None);
        }
        let (text, index) = (row.text("descriptor")?, row.index("address_index")?);
        if let Some(known) = self.known.get(&text) {
            return known.at(index).map(Some);
        }
        let read = Keychain::stored(&text)?;
        let definite = read.at(index)?;
        self.known.insert(text, read);
        Ok(Some(definite))
    }
}

/// Tells the signer about inputs and outputs.
pub(super) fn explain(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    psbt: &mut Psbt,
) -> Result<(), WalletError> {
    let mut descriptors = DescriptorCache::default();
    explain_inputs(tx, wallet, psbt, &mut descriptors)?;
    explain_outputs(tx, wallet, psbt, &mut descriptors)
}

fn explain_inputs(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    psbt: &mut Psbt,
    descriptors: &mut DescriptorCache,
) -> Result<(), WalletError> {
    let names: Vec<OutPoint> =
        psbt.unsigned_tx.input.iter().map(|input| input.previous_output).collect();
    let keys = [
        Column::blobs(names.iter().map(|name| model_txid(name.txid).0)),
        Column::ints(names.iter().map(|name| i64::from(name.vout))),
    ];
    let mut sources = HashMap::new();
    for row in tx.query_set(COIN_SOURCES, &[Arg::Int(wallet.id.0)], &keys)? {
        sources.insert(bitcoin_outpoint(rows::coin(&row)?), row);
    }
    for (place, name) in names.iter().enumerate() {
        let row = sources.get(name).ok_or(WalletError::CoinNotFound(*name))?;
        let definite = descriptors.of(row)?;
        explain_input(psbt, place, *name, row, definite.as_ref())?;
    }
    Ok(())
}

fn explain_input(
    psbt: &mut Psbt,
    place: usize,
    name: OutPoint,
    row: &Row,
    definite: Option<&DefiniteDescriptor>,
) -> Result<(), WalletError> {
    let parent = raw_tx(row)?;
    let output = output_of(&parent, name)?;
    let Some(input) = psbt.inputs.get_mut(place) else { return Ok(()) };
    // BIP 174: an input that is signed in the old way must not be shown as a witness output, or
    // signers make the wrong hash. A script hash tells which only by what is behind it.
    let nested = definite.is_some_and(|known| known.desc_type().segwit_version().is_some());
    let script = &output.script_pubkey;
    let is_taproot = script.is_p2tr();
    if script.is_witness_program() || nested {
        input.witness_utxo = Some(output);
    }
    // The whole parent too: a signer that is only shown an amount can be lied to about it. Taproot
    // signs all amounts, so there it isn't needed.
    if !is_taproot {
        input.non_witness_utxo = Some(parent);
    }
    if let Some(definite) = definite {
        psbt.update_input_with_descriptor(place, definite)
            .map_err(|error| WalletError::Payment(error.to_string()))?;
    }
    Ok(())
}

pub(super) fn raw_tx(row: &Row) -> Result<Transaction, WalletError> {
    encode::deserialize(&row.blob("raw_tx")?)
        .map_err(|error| WalletError::Corrupt(format!("a raw transaction: {error}")))
}

/// The output that a coin is.
pub(super) fn output_of(parent: &Transaction, name: OutPoint) -> Result<TxOut, WalletError> {
    let index = usize::try_from(name.vout).unwrap_or(usize::MAX);
    let output = parent.output.get(index).cloned();
    output.ok_or_else(|| WalletError::Corrupt("a coin has no output".into()))
}

/// What is known of scripts, by the script's hash: those that are ours.
pub(super) fn own_scripts<'s>(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    scripts: impl Iterator<Item = &'s ScriptBuf>,
) -> Result<HashMap<[u8; 32], Row>, WalletError> {
    let mut hashes: Vec<[u8; 32]> = scripts.map(|script| script_hash(script)).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let keys = [Column::blobs(hashes)];
    let mut found = HashMap::new();
    for row in tx.query_set(SCRIPT_SOURCES, &[Arg::Int(wallet.0)], &keys)? {
        found.insert(row.hash("script_hash")?, row);
    }
    Ok(found)
}

fn explain_outputs(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    psbt: &mut Psbt,
    descriptors: &mut DescriptorCache,
) -> Result<(), WalletError> {
    let scripts: Vec<ScriptBuf> =
        psbt.unsigned_tx.output.iter().map(|output| output.script_pubkey.clone()).collect();
    let ours = own_scripts(tx, wallet.id, scripts.iter())?;
    for (place, script) in scripts.iter().enumerate() {
        let Some(row) = ours.get(&script_hash(script)) else { continue };
        if let Some(definite) = descriptors.of(row)? {
            psbt.update_output_with_descriptor(place, &definite)
                .map_err(|error| WalletError::Payment(error.to_string()))?;
        }
    }
    Ok(())
}
