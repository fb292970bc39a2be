//! A scan: which of our outputs a mint has signed, whoever asked for it with our seed (NUT-09).

use cashu::{
    CheckStateRequest, Proof, ProofState, PublicKey, RestoreRequest, RestoreResponse, State,
};

use super::outputs::{KeyRing, RangeOutputs};
use crate::{details::OutputRange, error::EcashError, event::proof_name, store::WalletSeed};

/// Outputs that a mint is asked for at a time.
pub const SCAN_BATCH: u32 = 100;
/// So many outputs in a row that were never signed, beyond those known to be used, end a scan.
pub const SCAN_GAP: u32 = 300;

/// A proof that a mint has signed for somebody with our seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProof {
    /// The counter of its output.
    pub counter: u32,
    /// The proof.
    pub proof: Proof,
    /// The mint doesn't call it unspent.
    pub is_spent: bool,
}

/// Outputs of a keyset from one counter on.
pub struct ScanOutputs {
    start: u32,
    outputs: RangeOutputs,
}

impl ScanOutputs {
    /// The [`SCAN_BATCH`] outputs from a counter on.
    ///
    /// # Errors
    ///
    /// [`EcashError::Corrupt`] for an id that is none.
    pub fn of(seed: &WalletSeed, keyset_id: &str, start: u32) -> Result<Self, EcashError> {
        let amounts = vec![0; SCAN_BATCH as usize];
        let range = OutputRange { keyset_id: keyset_id.to_owned(), start, amounts };
        Ok(Self { start, outputs: RangeOutputs::of(&range, seed)? })
    }

    /// Behind the last of them.
    pub fn end(&self) -> u32 {
        // Counters end at 2^31, long before numbers do.
        self.start.saturating_add(SCAN_BATCH)
    }

    /// What the mint is asked.
    pub fn request(&self) -> RestoreRequest {
        self.outputs.restore()
    }

    /// Those that were signed with keys of the mint; `None` where one doesn't verify. Left out, it
    /// would be money that no later scan looks for.
    pub fn found(&self, answer: &RestoreResponse, keys: &KeyRing) -> Option<Vec<FoundProof>> {
        let found = self.outputs.signed(answer, keys);
        let is_whole = found.len() == self.outputs.said_signed(answer);
        let found = found.into_iter();
        let found = found.map(|(counter, proof)| FoundProof { counter, proof, is_spent: false });
        is_whole.then(|| found.collect())
    }
}

/// The question which proofs are still good.
///
/// # Errors
///
/// [`EcashError::Argument`] for a proof without a name.
pub fn ask_found(found: &[FoundProof]) -> Result<CheckStateRequest, EcashError> {
    let bad = |_| EcashError::argument("a proof's name is no point");
    let name = |found: &FoundProof| PublicKey::from_slice(&proof_name(&found.proof)?).map_err(bad);
    Ok(CheckStateRequest { ys: found.iter().map(name).collect::<Result<_, _>>()? })
}

/// Its answer, in the order in which it was asked; `None` while one is under way, since it may
/// come back.
pub fn with_word(found: Vec<FoundProof>, states: &[ProofState]) -> Option<Vec<FoundProof>> {
    let both = found.into_iter().zip(states);
    let told = both.map(|(found, state)| match state.state {
        State::Spent => Some(FoundProof { is_spent: true, ..found }),
        State::Unspent => Some(found),
        State::Pending | State::Reserved | State::PendingSpent => None,
    });
    told.collect()
}
