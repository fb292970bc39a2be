//! What happened to an entity, with everything that came with it.

use std::fmt;

use cashu::Proof;
use unspent_model::ecash::EntityEvent;

use crate::{details::TokenRest, error::EcashError, flow::SparkIds, seal::SecretSealer};

/// The public name of a proof: hash-to-curve of its secret, compressed.
pub type ProofName = [u8; 33];

/// A proof that an event brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshProof {
    /// The proof.
    pub proof: Proof,
    /// The mint calls it spent already: it is kept, but it is no money.
    pub is_spent: bool,
}

impl From<Proof> for FreshProof {
    fn from(proof: Proof) -> Self {
        Self { proof, is_spent: false }
    }
}

/// Outputs that an event asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeAsk {
    /// On which keyset, in hexadecimal.
    pub keyset_id: String,
    /// Amount of each; 0 for a blank one.
    pub amounts: Vec<u64>,
    /// How many of them are the token's; for send swaps alone.
    pub send_count: usize,
}

/// What happened. Which parts count hangs on `what`; the others stay empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentEvent {
    /// The event of the machine.
    pub what: EntityEvent,
    /// New proofs, change among them.
    pub proofs: Vec<FreshProof>,
    /// Of change that was owed: which of the blank outputs `proofs` are made of.
    pub places: Vec<u32>,
    /// What of the change is given up, since the mint doesn't give it.
    pub kept: Option<u64>,
    /// Proofs of the token that was made.
    pub to_send: Vec<FreshProof>,
    /// Proofs of ours, or of a token that we claim, that the mint calls spent.
    pub spent: Vec<ProofName>,
    /// What is left of the token that is claimed.
    pub rest: Option<TokenRest>,
    /// Outputs to reserve.
    pub range: Option<RangeAsk>,
    /// Why it failed, for people.
    pub reason: Option<String>,
    /// Proof of the payment.
    pub preimage: Option<String>,
    /// What Spark calls the payment.
    pub spark: Option<SparkIds>,
    /// Only another copy of this database can have done what the mint tells of: what it got is to
    /// be looked for.
    pub shows_copy: bool,
}

impl PaymentEvent {
    /// An event that brings nothing.
    pub fn new(what: EntityEvent) -> Self {
        Self {
            what,
            proofs: Vec::new(),
            places: Vec::new(),
            kept: None,
            to_send: Vec::new(),
            spent: Vec::new(),
            rest: None,
            range: None,
            reason: None,
            preimage: None,
            spark: None,
            shows_copy: false,
        }
    }

    /// The same, done by another copy of this database as far as anybody can tell.
    pub fn showing_copy(mut self) -> Self {
        self.shows_copy = true;
        self
    }

    /// With proofs.
    pub fn with_proofs(mut self, proofs: impl IntoIterator<Item = FreshProof>) -> Self {
        self.proofs.extend(proofs);
        self
    }

    /// With outputs to reserve.
    pub fn with_range(mut self, range: RangeAsk) -> Self {
        self.range = Some(range);
        self
    }

    /// With a reason.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

/// A proof as a row. The secret is sealed.
#[derive(Clone)]
pub(crate) struct SealedProof {
    pub(crate) y: ProofName,
    pub(crate) keyset_id: String,
    pub(crate) amount: u64,
    pub(crate) sealed: Vec<u8>,
    pub(crate) is_spent: bool,
}

impl fmt::Debug for SealedProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedProof({} of {})", self.amount, self.keyset_id)
    }
}

/// An event whose secrets are sealed: what a write closure may capture and repeat.
#[derive(Clone, Debug)]
pub(crate) struct SealedEvent {
    pub(crate) plain: PaymentEvent,
    pub(crate) proofs: Vec<SealedProof>,
    pub(crate) to_send: Vec<SealedProof>,
}

impl SealedEvent {
    pub(crate) fn new(mut event: PaymentEvent, sealer: &SecretSealer) -> Result<Self, EcashError> {
        let proofs = seal_all(&std::mem::take(&mut event.proofs), sealer)?;
        let to_send = seal_all(&std::mem::take(&mut event.to_send), sealer)?;
        Ok(Self { plain: event, proofs, to_send })
    }

    /// An event that brings nothing.
    pub(crate) fn bare(what: EntityEvent) -> Self {
        Self { plain: PaymentEvent::new(what), proofs: Vec::new(), to_send: Vec::new() }
    }
}

pub(crate) fn seal_all(
    fresh: &[FreshProof],
    sealer: &SecretSealer,
) -> Result<Vec<SealedProof>, EcashError> {
    fresh.iter().map(|fresh| seal_proof(&fresh.proof, fresh.is_spent, sealer)).collect()
}

/// The public name of a proof.
///
/// # Errors
///
/// [`EcashError::Argument`] for a secret that has no point on the curve.
pub fn proof_name(proof: &Proof) -> Result<ProofName, EcashError> {
    let y = proof.y().map_err(|_| EcashError::argument("a proof's secret has no point"))?;
    Ok(y.to_bytes())
}

fn seal_proof(
    proof: &Proof,
    is_spent: bool,
    sealer: &SecretSealer,
) -> Result<SealedProof, EcashError> {
    let y = proof_name(proof)?;
    let bug = |_| EcashError::Bug("a proof can't be written".into());
    let plain = zeroize::Zeroizing::new(serde_json::to_vec(proof).map_err(bug)?);
    Ok(SealedProof {
        y,
        keyset_id: proof.keyset_id.to_string(),
        amount: proof.amount.to_u64(),
        sealed: sealer.seal(&purpose(&y), &plain)?,
        is_spent,
    })
}

pub(crate) fn open_proof(
    y: &ProofName,
    sealed: &[u8],
    sealer: &SecretSealer,
) -> Result<Proof, EcashError> {
    let plain = sealer.open(&purpose(y), sealed)?;
    serde_json::from_slice(&plain).map_err(|_| EcashError::Corrupt("a proof can't be read".into()))
}

fn purpose(y: &ProofName) -> String {
    // The name is sealed along with it: a secret that is moved to another row doesn't open there.
    format!("proof:{}", hex::encode(y))
}
