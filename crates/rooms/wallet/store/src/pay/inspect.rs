//! What a PSBT does, and what it lacks.

use std::collections::BTreeSet;

use bitcoin::{OutPoint, Psbt, ScriptBuf, bip32::Fingerprint, psbt, secp256k1::Secp256k1};
use miniscript::psbt::PsbtExt as _;

use super::{
    explain::own_scripts,
    finish::{claimed, fee, is_final, sum},
};
use crate::{descriptor::script_hash, error::WalletError, ids::WalletId, store::WalletStore};

/// An input of a PSBT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PsbtInput {
    /// What it spends.
    pub outpoint: OutPoint,
    /// What that holds, in satoshis, where it is known.
    pub amount: Option<u64>,
    /// What that pays to, where it is known.
    pub script: Option<ScriptBuf>,
    /// Whether the wallet knows the transaction that made it; then the amount is the wallet's word.
    pub is_known: bool,
    /// Signatures that are there.
    pub signatures: usize,
    /// Whether its signatures suffice.
    pub is_complete: bool,
    /// Master keys that could sign and haven't, where it isn't complete.
    pub missing: Vec<Fingerprint>,
}

/// An output of a PSBT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PsbtOutput {
    /// What it pays to.
    pub script: ScriptBuf,
    /// In satoshis.
    pub amount: u64,
    /// What the script is to this wallet: `receive`, `change` or `imported`.
    pub purpose: Option<String>,
}

/// What a PSBT does, and what it lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PsbtView {
    /// In the transaction's order.
    pub inputs: Vec<PsbtInput>,
    /// In the transaction's order.
    pub outputs: Vec<PsbtOutput>,
    /// What goes to miners, where all amounts are known.
    pub fee: Option<u64>,
    /// What leaves the wallet for others' scripts, in satoshis.
    pub pays_others: u64,
    /// Virtual bytes once it is signed, where it is complete.
    pub virtual_size: Option<u64>,
    /// Whether all signatures are there.
    pub is_complete: bool,
}

impl WalletStore {
    /// Looks at a PSBT; nothing is recorded, and nothing is believed that the wallet knows better.
    ///
    /// # Errors
    ///
    /// Whatever the database says; [`WalletError::Payment`] when it pays more than it spends.
    pub fn inspect_psbt(&self, wallet: WalletId, psbt: &Psbt) -> Result<PsbtView, WalletError> {
        let known = self.spent_by(wallet, &psbt.unsigned_tx)?;
        let mut spent = claimed(psbt);
        spent.extend(known.clone());
        let finished = finished(psbt);
        let inputs: Vec<PsbtInput> = psbt
            .unsigned_tx
            .input
            .iter()
            .zip(psbt.inputs.iter().zip(&finished.inputs))
            .map(|(input, (before, after))| {
                let (outpoint, is_complete) = (input.previous_output, is_final(after));
                let output = spent.get(&outpoint);
                PsbtInput {
                    outpoint,
                    amount: output.map(|output| output.value.to_sat()),
                    script: output.map(|output| output.script_pubkey.clone()),
                    is_known: known.contains_key(&outpoint),
                    signatures: signatures(before),
                    is_complete,
                    missing: if is_complete { Vec::new() } else { missing(before) },
                }
            })
            .collect();
        let outputs = self.psbt_outputs(wallet, psbt)?;
        let is_complete = inputs.iter().all(|input| input.is_complete);
        let others = outputs.iter().filter(|output| output.purpose.is_none());
        let pays_others = sum(others.map(|output| output.amount))?;
        let virtual_size = is_complete
            .then(|| finished.extract_tx_unchecked_fee_rate().vsize())
            .and_then(|size| u64::try_from(size).ok());
        let fee = fee(&psbt.unsigned_tx, &spent)?;
        Ok(PsbtView { inputs, outputs, fee, pays_others, virtual_size, is_complete })
    }

    fn psbt_outputs(&self, wallet: WalletId, psbt: &Psbt) -> Result<Vec<PsbtOutput>, WalletError> {
        let outputs = psbt.unsigned_tx.output.clone();
        self.door.read(move |tx| {
            let ours = own_scripts(tx, wallet, outputs.iter().map(|out| &out.script_pubkey))?;
            let view = outputs.iter().map(|output| {
                let row = ours.get(&script_hash(&output.script_pubkey));
                Ok(PsbtOutput {
                    script: output.script_pubkey.clone(),
                    amount: output.value.to_sat(),
                    purpose: row.map(|row| row.text("purpose")).transpose()?,
                })
            });
            view.collect::<Result<Vec<_>, WalletError>>()
        })
    }
}

/// With the signatures of those inputs in place that have enough of them.
fn finished(psbt: &Psbt) -> Psbt {
    let mut done = psbt.clone();
    let secp = Secp256k1::verification_only();
    for place in 0..psbt.inputs.len() {
        if !psbt.inputs.get(place).is_some_and(is_final) {
            // What lacks signatures stays as it is.
            let _ = done.finalize_inp_mut(&secp, place);
        }
    }
    done
}

fn signatures(input: &psbt::Input) -> usize {
    let key_path = usize::from(input.tap_key_sig.is_some());
    input.partial_sigs.len() + input.tap_script_sigs.len() + key_path
}

/// Master keys named for an input that haven't signed it.
fn missing(input: &psbt::Input) -> Vec<Fingerprint> {
    let mut masters: BTreeSet<Fingerprint> = BTreeSet::new();
    for (key, (master, _)) in &input.bip32_derivation {
        if !input.partial_sigs.contains_key(&bitcoin::PublicKey::new(*key)) {
            masters.insert(*master);
        }
    }
    for (key, (_, (master, _))) in &input.tap_key_origins {
        if !input.tap_script_sigs.keys().any(|(signer, _)| signer == key) {
            masters.insert(*master);
        }
    }
    masters.into_iter().collect()
}

/// Brings the signatures of several copies of one PSBT together.
///
/// # Errors
///
/// [`WalletError::Payment`] when they are of different transactions, or there is none.
pub fn combine(psbts: Vec<Psbt>) -> Result<Psbt, WalletError> {
    let refuse = |why: String| WalletError::Payment(why);
    let mut all = psbts.into_iter();
    let first = all.next().ok_or_else(|| refuse("there is nothing to combine".into()))?;
    all.try_fold(first, |mut whole, part| {
        let why = |error: psbt::Error| format!("these can't be combined: {error}");
        whole.combine(part).map_err(|error| refuse(why(error)))?;
        Ok(whole)
    })
}
