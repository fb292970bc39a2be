//! Outputs of a reserved range, and proofs from signatures on them.
//!
//! An output derives from the seed, the keyset and its counter (NUT-13), so that a range makes the
//! same outputs whenever it is asked for. A signature is taken only with a valid DLEQ proof.

use std::collections::BTreeMap;

use cashu::{
    Amount, BlindSignature, BlindedMessage, Id, Keys, PreMint, Proof, PublicKey, RestoreRequest,
    RestoreResponse, SecretKey,
    dhke::{blind_message, construct_proofs},
    secret::Secret,
};

use crate::{details::OutputRange, error::EcashError, store::WalletSeed};

/// Public keys of a mint, by keyset: inactive ones too, since old signatures carry them.
pub type KeyRing = BTreeMap<Id, Keys>;

/// The outputs of one range, with what unblinds their signatures.
pub(crate) struct RangeOutputs(Vec<PreMint>);

/// What a mint knows of a range.
#[derive(Debug)]
pub(crate) enum RestoreOutcome {
    /// Every output was signed.
    All(Vec<Proof>),
    /// None was.
    Nothing,
    /// Some were, or something doesn't verify: no ground to decide on.
    Unclear,
}

/// What is read of a melt's change.
#[derive(Debug, Default)]
pub(crate) struct ChangeReading {
    /// Proofs, with the places of their outputs in the range.
    pub(crate) good: Vec<(u32, Proof)>,
    /// What the signatures say they are worth together, good or not.
    pub(crate) claimed: u64,
    /// Some are of a keyset whose keys aren't there.
    pub(crate) is_of_unknown_keyset: bool,
}

impl RangeOutputs {
    /// The outputs of a range.
    pub(crate) fn of(range: &OutputRange, seed: &WalletSeed) -> Result<Self, EcashError> {
        let bad = |_| EcashError::Corrupt(format!("`{}` is no keyset id", range.keyset_id));
        let id: Id = range.keyset_id.parse().map_err(bad)?;
        let make = |(counter, amount): (u32, &u64)| {
            let bug = || EcashError::Bug(format!("output {counter} can't be derived"));
            let secret = Secret::from_seed(seed, id, counter).map_err(|_| bug())?;
            let r = SecretKey::from_seed(seed, id, counter).map_err(|_| bug())?;
            let (blinded, r) = blind_message(secret.as_bytes(), Some(r)).map_err(|_| bug())?;
            let amount = Amount::from(*amount);
            let blinded_message = BlindedMessage::new(amount, id, blinded);
            let derivation_index = Some(counter);
            Ok(PreMint { blinded_message, secret, r, amount, derivation_index })
        };
        (range.start..).zip(&range.amounts).map(make).collect::<Result<_, _>>().map(Self)
    }

    /// What the mint signs.
    pub(crate) fn messages(&self) -> Vec<BlindedMessage> {
        self.0.iter().map(|output| output.blinded_message.clone()).collect()
    }

    pub(crate) fn restore(&self) -> RestoreRequest {
        RestoreRequest { outputs: self.messages() }
    }

    /// Proofs from signatures in the order of the outputs; `None` when one is missing, is for
    /// another amount, or doesn't verify.
    pub(crate) fn proofs(&self, signed: &[BlindSignature], keys: &KeyRing) -> Option<Vec<Proof>> {
        if signed.len() != self.0.len() {
            return None;
        }
        let pairs = self.0.iter().zip(signed);
        pairs
            .map(|(output, signature)| {
                let same = output.amount == signature.amount;
                same.then(|| proof(output, signature, keys)).flatten()
            })
            .collect()
    }

    /// What signatures on blank outputs are worth: those that came with a quote, in whatever order,
    /// and those that a restore found. The DLEQ proof tells which output was signed.
    pub(crate) fn change(
        &self,
        signed: &[BlindSignature],
        found: Option<&RestoreResponse>,
        keys: &KeyRing,
    ) -> ChangeReading {
        let by_output = found.map(pairs).unwrap_or_default();
        let good = (0_u32..).zip(&self.0).filter_map(|(place, output)| {
            let restored = by_output.get(&output.blinded_message.blinded_secret).copied();
            let mut all = signed.iter().chain(restored).filter(is_worth);
            Some((place, all.find_map(|signature| proof(output, signature, keys))?))
        });
        let restored = found.map(|found| found.signatures.as_slice()).unwrap_or_default();
        let mut all = signed.iter().chain(restored).filter(is_worth);
        ChangeReading {
            good: good.collect(),
            claimed: claimed(signed).max(claimed(restored)),
            is_of_unknown_keyset: all.any(|signature| !keys.contains_key(&signature.keyset_id)),
        }
    }

    /// What a restore says about a range with amounts.
    pub(crate) fn recovered(&self, found: &RestoreResponse, keys: &KeyRing) -> RestoreOutcome {
        if found.outputs.is_empty() && found.signatures.is_empty() {
            return RestoreOutcome::Nothing;
        }
        // By the output and not by its place: NUT-09 leaves out what was never signed.
        let by_output = pairs(found);
        let all: Option<Vec<Proof>> = self
            .0
            .iter()
            .map(|output| {
                let signature = by_output.get(&output.blinded_message.blinded_secret)?;
                let same = output.amount == signature.amount;
                same.then(|| proof(output, signature, keys)).flatten()
            })
            .collect();
        all.map_or(RestoreOutcome::Unclear, RestoreOutcome::All)
    }

    /// How many of our outputs a mint says it has signed, well or not.
    pub(crate) fn said_signed(&self, found: &RestoreResponse) -> usize {
        let by_output = pairs(found);
        let said = self.0.iter().filter(|output| {
            let signature = by_output.get(&output.blinded_message.blinded_secret);
            signature.is_some_and(is_worth)
        });
        said.count()
    }

    /// All that were signed, over whatever amount, each with its counter.
    pub(crate) fn signed(&self, found: &RestoreResponse, keys: &KeyRing) -> Vec<(u32, Proof)> {
        let by_output = pairs(found);
        let made = self.0.iter().filter_map(|output| {
            let signature = by_output.get(&output.blinded_message.blinded_secret)?;
            let is_worth = signature.amount > Amount::ZERO;
            let proof = is_worth.then(|| proof(output, signature, keys)).flatten()?;
            Some((output.derivation_index?, proof))
        });
        made.collect()
    }
}

/// Zero says that a blank output wasn't needed.
fn is_worth(signature: &&BlindSignature) -> bool {
    signature.amount > Amount::ZERO
}

fn claimed(signed: &[BlindSignature]) -> u64 {
    // A mint's word, which is compared with what can be due.
    signed.iter().fold(0, |sum: u64, signature| sum.saturating_add(signature.amount.to_u64()))
}

fn pairs(found: &RestoreResponse) -> BTreeMap<PublicKey, &BlindSignature> {
    let outputs = found.outputs.iter().map(|output| output.blinded_secret);
    outputs.zip(&found.signatures).collect()
}

fn proof_fits(output: &PreMint, signature: &BlindSignature, keys: &KeyRing) -> bool {
    let keys = keys.get(&signature.keyset_id);
    // The key of this very amount: signed with that of a smaller one, a proof would be worth less
    // than it says.
    let Some(key) = keys.and_then(|keys| keys.amount_key(signature.amount)) else { return false };
    signature.verify_dleq(key, output.blinded_message.blinded_secret).is_ok()
}

/// The keyset is the signature's: a mint may have rotated since the output was made.
fn proof(output: &PreMint, signature: &BlindSignature, keys: &KeyRing) -> Option<Proof> {
    if !proof_fits(output, signature, keys) {
        return None;
    }
    let keys = keys.get(&signature.keyset_id)?;
    let (rs, secrets) = (vec![output.r.clone()], vec![output.secret.clone()]);
    construct_proofs(vec![signature.clone()], rs, secrets, keys).ok()?.pop()
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_on_no_keyset_is_damage() {
        let range = OutputRange { keyset_id: "zz".into(), start: 0, amounts: vec![1] };
        assert!(RangeOutputs::of(&range, &WalletSeed::new([1; 64])).is_err());
    }
}
