//! Signatures put in place and checked, before anything is recorded.
//!
//! A transaction that no node takes would still spend its coins here and hold its change back. So
//! every input is run through the very script interpreter that nodes have (`libbitcoinconsensus`),
//! against the outputs that this wallet knows; a PSBT's own word on amounts counts only for inputs
//! that aren't ours.

use std::collections::HashMap;

use bitcoin::{
    OutPoint, Psbt, Transaction, TxOut, Txid, consensus::encode, psbt, secp256k1::Secp256k1,
};
use bitcoinconsensus::{Utxo, VERIFY_ALL_PRE_TAPROOT, VERIFY_TAPROOT, verify_with_flags};
use miniscript::psbt::PsbtExt as _;
use unspent_sql::{Arg, BulkStatement, Column};

use super::{
    check_fee,
    explain::{output_of, raw_tx},
};
use crate::{
    error::WalletError,
    ids::{WalletId, bitcoin_txid, model_txid},
    rows,
    store::WalletStore,
};

/// A transaction that came back from a signer.
#[derive(Clone, Debug)]
pub enum SignedPayment {
    /// With its signatures still apart, or already in place.
    Psbt(Box<Psbt>),
    /// As it goes to the network.
    Raw(Transaction),
}

/// A transaction with all its signatures, checked.
#[derive(Clone, Debug)]
pub struct CompletedTx {
    /// As it goes to the network.
    pub tx: Transaction,
    /// Its fee, where all that it spends is known.
    pub fee: Option<u64>,
}

pub(super) const PARENTS: BulkStatement = BulkStatement {
    sqlite: "SELECT tx_hash, raw_tx FROM transactions WHERE wallet_id = $1 AND tx_hash = $2",
    postgres: "SELECT t.tx_hash, t.raw_tx FROM UNNEST($2::bytea[]) q (h)
        JOIN transactions t ON t.tx_hash = q.h AND t.wallet_id = $1",
};

type KnownOutputs = HashMap<OutPoint, TxOut>;

impl WalletStore {
    /// Puts the signatures in place and checks them, and the fee. Nothing is recorded.
    ///
    /// # Errors
    ///
    /// [`WalletError::Payment`] when signatures are missing or wrong, or the fee looks like a
    /// mistake.
    pub fn complete(
        &self,
        wallet: WalletId,
        signed: SignedPayment,
        allow_high_fee: bool,
    ) -> Result<CompletedTx, WalletError> {
        let (tx, claimed) = match signed {
            SignedPayment::Raw(tx) => (tx, KnownOutputs::new()),
            SignedPayment::Psbt(psbt) => {
                let claimed = claimed(&psbt);
                (extracted(*psbt)?, claimed)
            }
        };
        // Where nobody knows what an input spends, no
        // interpreter can run it; this much is seen even so.
        if tx.input.iter().any(|input| input.script_sig.is_empty() && input.witness.is_empty()) {
            return Err(WalletError::Payment("an input has no signature".into()));
        }
        let mut known = claimed;
        // Second, so that the wallet's word replaces what the PSBT says of the same output.
        known.extend(self.spent_by(wallet, &tx)?);
        check_scripts(&tx, &known)?;
        let fee = fee(&tx, &known)?;
        if let Some(fee) = fee {
            check_fee(fee, tx.weight(), allow_high_fee)?;
        }
        Ok(CompletedTx { tx, fee })
    }

    /// The outputs that a transaction spends, as far as this wallet has their transactions.
    pub(super) fn spent_by(
        &self,
        wallet: WalletId,
        tx: &Transaction,
    ) -> Result<KnownOutputs, WalletError> {
        let names: Vec<OutPoint> = tx.input.iter().map(|input| input.previous_output).collect();
        let mut parents: Vec<Txid> = names.iter().map(|name| name.txid).collect();
        parents.sort_unstable();
        parents.dedup();
        self.door.read(move |tx| {
            let keys = [Column::blobs(parents.iter().map(|txid| model_txid(*txid).0))];
            let mut known = HashMap::new();
            for row in tx.query_set(PARENTS, &[Arg::Int(wallet.0)], &keys)? {
                known.insert(bitcoin_txid(rows::txid(&row, "tx_hash")?), raw_tx(&row)?);
            }
            let mut outputs = KnownOutputs::new();
            for name in &names {
                if let Some(parent) = known.get(&name.txid) {
                    let gone = || WalletError::Payment(format!("{name} does not exist"));
                    outputs.insert(*name, output_of(parent, *name).map_err(|_| gone())?);
                }
            }
            Ok(outputs)
        })
    }
}

/// What a PSBT says that its inputs spend.
pub(super) fn claimed(psbt: &Psbt) -> KnownOutputs {
    let inputs = psbt.unsigned_tx.input.iter().zip(&psbt.inputs);
    inputs
        .filter_map(|(input, known)| {
            let name = input.previous_output;
            let parent = known.non_witness_utxo.as_ref();
            // A whole parent that hashes to the name can't lie about the amount (BIP 174).
            let whole = parent.filter(|parent| parent.compute_txid() == name.txid);
            let output = whole.and_then(|parent| output_of(parent, name).ok());
            output.or_else(|| known.witness_utxo.clone()).map(|output| (name, output))
        })
        .collect()
}

pub(super) fn is_final(input: &psbt::Input) -> bool {
    input.final_script_sig.is_some() || input.final_script_witness.is_some()
}

fn extracted(mut psbt: Psbt) -> Result<Transaction, WalletError> {
    let secp = Secp256k1::verification_only();
    for place in 0..psbt.inputs.len() {
        if psbt.inputs.get(place).is_some_and(is_final) {
            continue;
        }
        psbt.finalize_inp_mut(&secp, place)
            .map_err(|why| WalletError::Payment(format!("it can't be finalized: {why}")))?;
    }
    Ok(psbt.extract_tx_unchecked_fee_rate())
}

/// What goes to miners, where all inputs are known.
pub(super) fn fee(tx: &Transaction, known: &KnownOutputs) -> Result<Option<u64>, WalletError> {
    let paid = sum(tx.output.iter().map(|output| output.value.to_sat()))?;
    let spent = tx.input.iter().map(|input| known.get(&input.previous_output));
    let Some(spent) = spent.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let spent = sum(spent.into_iter().map(|output| output.value.to_sat()))?;
    let short = || WalletError::Payment("its outputs hold more than its inputs".into());
    spent.checked_sub(paid).map(Some).ok_or_else(short)
}

/// Amounts together. A PSBT is anybody's, who may write any amount.
pub(super) fn sum(mut amounts: impl Iterator<Item = u64>) -> Result<u64, WalletError> {
    let all = amounts.try_fold(0, u64::checked_add);
    all.ok_or_else(|| WalletError::Payment("its amounts are more than can exist".into()))
}

fn check_scripts(tx: &Transaction, known: &KnownOutputs) -> Result<(), WalletError> {
    let bytes = encode::serialize(tx);
    let spent: Vec<Option<&TxOut>> =
        tx.input.iter().map(|input| known.get(&input.previous_output)).collect();
    // Taproot signs all that is spent: it can be checked only when all of that is known.
    let all: Option<Vec<Utxo>> = spent.iter().map(|output| output.map(as_spent)).collect();
    let flags = VERIFY_ALL_PRE_TAPROOT | all.as_ref().map_or(0, |_| VERIFY_TAPROOT);
    for (place, output) in spent.iter().enumerate() {
        let Some(output) = output else { continue };
        let (script, value) = (output.script_pubkey.as_bytes(), output.value.to_sat());
        let done = verify_with_flags(script, value, &bytes, all.as_deref(), place, flags);
        done.map_err(|_| {
            let why = "its signature or script is wrong; no node would accept it";
            WalletError::Payment(format!("input {place}: {why}"))
        })?;
    }
    Ok(())
}

fn as_spent(output: &TxOut) -> Utxo {
    let script = output.script_pubkey.as_bytes();
    Utxo {
        script_pubkey: script.as_ptr(),
        script_pubkey_len: u32::try_from(script.len()).unwrap_or(u32::MAX),
        value: i64::try_from(output.value.to_sat()).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::{
        Amount, ScriptBuf, TxIn, absolute::LockTime, hashes::Hash as _, transaction::Version,
    };

    use super::*;

    fn place(vout: u32) -> OutPoint {
        OutPoint { txid: Txid::all_zeros(), vout }
    }

    fn output(sats: u64) -> TxOut {
        TxOut { value: Amount::from_sat(sats), script_pubkey: ScriptBuf::new() }
    }

    /// It spends two coins.
    fn paying(outputs: &[u64]) -> Transaction {
        let input = |vout| TxIn { previous_output: place(vout), ..TxIn::default() };
        Transaction {
            version: Version::TWO,
            lock_time: LockTime::ZERO,
            input: vec![input(0), input(1)],
            output: outputs.iter().copied().map(output).collect(),
        }
    }

    #[test]
    fn amounts_that_cannot_be_are_no_fee() {
        let known = |sats| KnownOutputs::from([(place(0), output(sats)), (place(1), output(7))]);
        assert_eq!(fee(&paying(&[5]), &known(10)).unwrap(), Some(12));
        assert_eq!(fee(&paying(&[5]), &KnownOutputs::new()).unwrap(), None);
        let beyond = [u64::MAX, u64::MAX];
        let wrong = [
            ("less than it pays", fee(&paying(&[18]), &known(10))),
            ("inputs beyond 2^64", fee(&paying(&[5]), &known(u64::MAX))),
            ("outputs beyond 2^64", fee(&paying(&beyond), &known(10))),
            ("both", fee(&paying(&beyond), &known(u64::MAX))),
            ("outputs beyond 2^64, of coins unknown", fee(&paying(&beyond), &KnownOutputs::new())),
        ];
        for (what, fee) in wrong {
            assert!(matches!(fee, Err(WalletError::Payment(_))), "{what}: {fee:?}");
        }
    }
}
