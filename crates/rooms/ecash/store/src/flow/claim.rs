//! The parts of a token that is claimed: what others have spent of it, and what is swapped at a
//! time.

use cashu::{Proof, Proofs, nuts::SpendingConditions};
use unspent_model::ecash::{input_fee, split_amount};

use super::{FaultClass, FlowContext, MintFault};
use crate::{
    details::{EntityDetails, ReceiveSwapDetails, TokenRest},
    error::EcashError,
    event::{ProofName, RangeAsk, proof_name},
    inputs::value,
};

/// Some mints take no longer secret; the protocol sets no limit.
const LONG_SECRET: usize = 1_024;

/// What the next swap of a claim is.
pub(super) enum NextSwap {
    /// This one.
    Swap(RangeAsk, TokenRest),
    /// Nothing is left.
    Nothing(TokenRest),
    /// What is left, in all, doesn't pay its own fee.
    Worthless(u64, TokenRest),
}

pub(super) fn details(context: &FlowContext) -> Result<&ReceiveSwapDetails, EcashError> {
    let EntityDetails::ReceiveSwap(swap) = &context.open.entity.details else {
        return Err(EcashError::Corrupt("a claim has other details".into()));
    };
    Ok(swap)
}

/// Proofs of the token that are neither claimed nor lost, in its order.
fn left<'c>(context: &'c FlowContext, also: &[ProofName]) -> Result<Vec<&'c Proof>, EcashError> {
    let (swap, token) = (details(context)?, &context.open.token);
    if also.is_empty() && swap.progress.lost.is_empty() && swap.progress.done.is_empty() {
        return Ok(token.iter().collect());
    }
    let mut left = Vec::new();
    for proof in token {
        let name = proof_name(proof)?;
        if !also.contains(&name) && !swap.is_out(&name) {
            left.push(proof);
        }
    }
    Ok(left)
}

/// What the swap under way spends.
pub(super) fn inputs(context: &FlowContext) -> Result<Proofs, EcashError> {
    let batch = details(context)?.progress.batch.unwrap_or(usize::MAX);
    Ok(left(context, &[])?.into_iter().take(batch).cloned().collect())
}

/// The swap of what is left without `gone`, `batch` proofs at a time.
pub(super) fn next_swap(
    context: &FlowContext,
    gone: &[ProofName],
    batch: Option<usize>,
) -> Result<NextSwap, EcashError> {
    let active = &context.mint()?.active;
    let left = left(context, gone)?;
    let chosen: Proofs = left.iter().take(batch.unwrap_or(usize::MAX)).copied().cloned().collect();
    let fee = |proof: &Proof| {
        let id = proof.keyset_id.to_string();
        let missing = || EcashError::NotFound { what: "keyset", name: id.clone() };
        context.open.fees.get(&id).copied().ok_or_else(missing)
    };
    let fees: Vec<u64> = chosen.iter().map(fee).collect::<Result<_, _>>()?;
    let (input_amount, fee) = (value(&chosen)?, input_fee(fees));
    let rest = TokenRest {
        whole: details(context)?.token_worth(),
        spent_amount: worth_of(context, gone)?,
        input_amount,
        fee,
        batch,
    };
    let none = TokenRest { input_amount: 0, fee: 0, ..rest.clone() };
    if chosen.is_empty() {
        return Ok(NextSwap::Nothing(none));
    }
    let Some(worth) = input_amount.checked_sub(fee).filter(|worth| *worth > 0) else {
        let left: Proofs = left.into_iter().cloned().collect();
        return Ok(NextSwap::Worthless(value(&left)?, none));
    };
    let bad = || EcashError::argument("the active keyset can't make the sum");
    let amounts = split_amount(worth, &active.amounts).ok_or_else(bad)?;
    let ask = RangeAsk { keyset_id: active.keyset_id.clone(), amounts, send_count: 0 };
    Ok(NextSwap::Swap(ask, rest))
}

fn worth_of(context: &FlowContext, names: &[ProofName]) -> Result<u64, EcashError> {
    let mut found = Proofs::new();
    if !names.is_empty() {
        for proof in &context.open.token {
            if names.contains(&proof_name(proof)?) {
                found.push(proof.clone());
            }
        }
    }
    value(&found)
}

/// Why a swap that was refused like this never succeeds, where the inputs alone tell.
pub(super) fn hopeless(
    context: &FlowContext,
    inputs: &Proofs,
    fault: &MintFault,
) -> Option<&'static str> {
    // We sign no inputs and know no preimages; a token may bring its witness. Whatever the mint
    // said, that is why.
    let is_shut = |proof: &Proof| proof.witness.is_none() && is_locked(proof, context);
    if inputs.iter().any(is_shut) {
        return Some("The token is locked, and not to a key of ours.");
    }
    let is_answer = matches!(fault.class(), FaultClass::DoneAlready | FaultClass::Definite);
    // Nutshell refuses them under the code of outputs that are signed.
    let is_long = inputs.iter().any(|proof| proof.secret.as_bytes().len() > LONG_SECRET);
    (is_answer && is_long).then_some("The token has a secret that the mint finds too long.")
}

/// Whether a proof needs a witness (NUT-11, NUT-14).
fn is_locked(proof: &Proof, context: &FlowContext) -> bool {
    let Ok(lock) = SpendingConditions::try_from(&proof.secret) else { return false };
    let now = u64::try_from(context.environment.now.get() / 1_000_000).unwrap_or(0);
    let is_over = lock.locktime().is_some_and(|end| end < now);
    // After its time a lock without refund keys is open to anybody.
    !(is_over && lock.refund_keys().is_none_or(|keys| keys.is_empty()))
}
