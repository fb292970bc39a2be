//! Swaps: making a token, and claiming one.

use std::{borrow::Cow, time::Duration};

use cashu::{Proof, ProofState, Proofs, State, SwapRequest};
use unspent_model::{
    Micros,
    ecash::{EntityEvent, EntityKind, split_amount},
};

use super::{
    FaultClass, FlowAnswer, FlowContext, FlowRequest, FlowStage, FlowStep, FlowTurn, MintFault,
    WaitReason, all_are, any_are, apply,
    claim::{self, NextSwap},
    end, is_under_way, leave_range,
    outputs::{RangeOutputs, RestoreOutcome},
    retry, spent_of, with_states,
};
use crate::{
    details::{EntityDetails, OutputRange, TokenRest},
    error::EcashError,
    event::{FreshProof, PaymentEvent, ProofName, RangeAsk, proof_name},
};

/// What was asked last.
#[derive(Debug)]
pub(super) enum SwapStage {
    /// To swap.
    Swap,
    /// Which outputs are signed, after the swap was refused or unclear.
    Restore(SwapTrouble),
    /// Whether inputs are spent and restored proofs still good.
    Restored(Vec<Proof>),
    /// The inputs, since some outputs are signed; whether over other amounts than ours.
    Partly(bool),
    /// The inputs, before anything is decided.
    Inputs(SwapTrouble),
}

/// How the swap went.
#[derive(Debug)]
pub(super) enum SwapTrouble {
    Unclear(String),
    Spent,
    Definite(String),
    /// Fewer inputs at a time may do.
    TooMany(String),
    /// Under way at the mint, and for so long that nothing comes of it.
    Stuck(String),
    Keyset,
}

/// A swap that is still under way after so long was left behind by the mint.
const LEFT_BEHIND: Duration = Duration::from_secs(3_600);

/// So long after people gave a claim up no swap of it is on its way from us any more: longer than
/// any request is waited for.
const GIVING_UP: Duration = Duration::from_secs(60);

fn on(stage: SwapStage, next: FlowStep) -> FlowTurn {
    Ok((FlowStage::Swap(stage), next))
}

fn range(context: &FlowContext) -> Result<&OutputRange, EcashError> {
    let missing = || EcashError::Corrupt("a swap has no outputs".into());
    context.open.entity.details.range().ok_or_else(missing)
}

fn is_claim(context: &FlowContext) -> bool {
    context.open.entity.kind == EntityKind::CashuReceiveSwap
}

/// What the swap spends: of the token that is claimed, or our own proofs.
fn inputs(context: &FlowContext) -> Result<Cow<'_, Proofs>, EcashError> {
    let is_claim = is_claim(context);
    Ok(if is_claim {
        Cow::Owned(claim::inputs(context)?)
    } else {
        Cow::Borrowed(&context.open.held)
    })
}

fn names(proofs: &Proofs) -> Result<Vec<ProofName>, EcashError> {
    proofs.iter().map(proof_name).collect()
}

pub(super) fn start(context: &FlowContext) -> FlowTurn {
    if let EntityDetails::ReceiveSwap(swap) = &context.open.entity.details
        && let Some(at) = swap.progress.cancelled_at
    {
        return give_up_slowly(context, Micros(at));
    }
    let outputs = RangeOutputs::of(range(context)?, &context.environment.seed)?;
    let request = SwapRequest::new(inputs(context)?.into_owned(), outputs.messages());
    let mint = context.mint()?.url.clone();
    on(SwapStage::Swap, FlowStep::Ask(FlowRequest::Swap { mint, request }))
}

pub(super) fn answer(context: &FlowContext, stage: SwapStage, answer: FlowAnswer) -> FlowTurn {
    match (stage, answer) {
        (SwapStage::Swap, FlowAnswer::Signatures(signed)) => {
            let outputs = RangeOutputs::of(range(context)?, &context.environment.seed)?;
            match outputs.proofs(&signed, &context.mint()?.keys) {
                Some(proofs) => done(context, proofs.into_iter().map(FreshProof::from).collect()),
                None => {
                    ask_restore(context, SwapTrouble::Unclear("signatures don't verify".into()))
                }
            }
        }
        (SwapStage::Swap, FlowAnswer::Fault(fault)) => refused(context, &fault),
        (SwapStage::Restore(trouble), FlowAnswer::Restored(found)) => {
            let outputs = RangeOutputs::of(range(context)?, &context.environment.seed)?;
            match outputs.recovered(&found, &context.mint()?.keys) {
                RestoreOutcome::All(proofs) => {
                    let both = inputs(context)?.iter().chain(&proofs).cloned().collect();
                    let next = context.ask_states(&both)?;
                    on(SwapStage::Restored(proofs), next)
                }
                RestoreOutcome::Nothing => unsigned(context, trouble),
                RestoreOutcome::Unclear => {
                    match others(range(context)?, &outputs.signed(&found, &context.mint()?.keys)) {
                        Some(others) => {
                            let next = context.ask_states(inputs(context)?.as_ref())?;
                            on(SwapStage::Partly(others), next)
                        }
                        None => retry(PARTLY),
                    }
                }
            }
        }
        (SwapStage::Restored(proofs), FlowAnswer::States(states)) => {
            let (taken, states) = states.split_at(inputs(context)?.len().min(states.len()));
            restored(context, proofs, taken, states)
        }
        (SwapStage::Partly(others), FlowAnswer::States(states)) => partly(context, others, &states),
        (SwapStage::Inputs(trouble), FlowAnswer::States(states)) => {
            if states.len() != inputs(context)?.len() {
                retry("the mint tells of other proofs than asked")
            } else if matches!(trouble, SwapTrouble::Stuck(_)) && all_are(&states, State::Unspent) {
                // A mint that recorded outputs and never signed them refuses them for ever. A scan
                // finds them where it signs them after all.
                let event = PaymentEvent::new(EntityEvent::TakeNewRange);
                apply(event.with_range(outputs_now(context)?).showing_copy())
            } else if is_claim(context) {
                claim_seen(context, trouble, &states)
            } else {
                own_seen(trouble, &states)
            }
        }
        (_, FlowAnswer::Fault(fault)) => retry(fault.to_string()),
        (_, _) => retry("the mint answered something else than it was asked"),
    }
}

/// Our own proofs, after the mint refused to swap them and has signed nothing.
fn own_seen(trouble: SwapTrouble, states: &[ProofState]) -> FlowTurn {
    let reason = match trouble {
        SwapTrouble::Definite(words) | SwapTrouble::TooMany(words) => words,
        SwapTrouble::Spent => SPENT_ELSEWHERE.to_owned(),
        SwapTrouble::Unclear(words) | SwapTrouble::Stuck(words) => return retry(words),
        SwapTrouble::Keyset => return end(FlowStep::Wait(WaitReason::ForKeysets)),
    };
    let spent = spent_of(states);
    if !spent.is_empty() {
        // Spent by none of our payments: somebody has this seed too. The others go free.
        let event = PaymentEvent::new(EntityEvent::Fail).because(SPENT_ELSEWHERE).showing_copy();
        apply(PaymentEvent { spent, ..event })
    } else if all_are(states, State::Unspent) {
        apply(PaymentEvent::new(EntityEvent::Fail).because(reason))
    } else {
        retry(reason)
    }
}

/// The token's proofs, after the mint refused to swap them and has signed nothing of ours. By its
/// word on each of them the claim goes on without those that are spent, or ends.
fn claim_seen(context: &FlowContext, trouble: SwapTrouble, states: &[ProofState]) -> FlowTurn {
    if states.iter().any(is_under_way) {
        return retry("proofs of the token are under way at the mint");
    }
    let (swap, spent) = (claim::details(context)?, spent_of(states));
    let batch = swap.progress.batch;
    match (trouble, spent.is_empty()) {
        (SwapTrouble::Definite(reason), _) if swap.progress.cancelled_at.is_some() => {
            give_up(context, reason)
        }
        (SwapTrouble::Definite(reason), true) => give_up(context, reason),
        (SwapTrouble::TooMany(words), true) => fewer(context, states.len(), &words),
        (SwapTrouble::Unclear(words) | SwapTrouble::Stuck(words), true) => retry(words),
        (SwapTrouble::Spent, true) => retry("the mint calls an input spent, and none of them"),
        (SwapTrouble::Keyset, true) => end(FlowStep::Wait(WaitReason::ForKeysets)),
        (_, false) => match claim::next_swap(context, &spent, batch)? {
            // None of our outputs was signed for it: another receiver was quicker, or the sender
            // took it back.
            NextSwap::Nothing(_) if swap.progress.got == 0 => claimed(),
            NextSwap::Nothing(rest) => apply(over(&spent, rest, "The rest was claimed by others.")),
            NextSwap::Swap(ask, rest) => {
                let event = PaymentEvent::new(EntityEvent::TakeRest).with_range(ask);
                apply(PaymentEvent { spent, rest: Some(rest), ..event })
            }
            NextSwap::Worthless(left, rest) => {
                let why = format!("Others have claimed the rest, and {left} don't pay their fee.");
                match has_come(context)? {
                    true => apply(over(&spent, rest, &why)),
                    false => apply(PaymentEvent::new(EntityEvent::Fail).because(why)),
                }
            }
        },
    }
}

/// Half as many proofs at a time.
fn fewer(context: &FlowContext, count: usize, words: &str) -> FlowTurn {
    if count < 2 {
        return give_up(context, words.to_owned());
    }
    match claim::next_swap(context, &[], Some(count.div_ceil(2)))? {
        NextSwap::Swap(ask, rest) => {
            let event = PaymentEvent::new(EntityEvent::TakeRest).with_range(ask);
            apply(PaymentEvent { rest: Some(rest), ..event }.because("with fewer proofs at a time"))
        }
        NextSwap::Nothing(_) | NextSwap::Worthless(..) => give_up(context, words.to_owned()),
    }
}

/// The claim is over without more: by what came before, it has succeeded or failed.
fn give_up(context: &FlowContext, reason: String) -> FlowTurn {
    if !has_come(context)? {
        return apply(PaymentEvent::new(EntityEvent::Fail).because(reason));
    }
    let swap = claim::details(context)?;
    let (whole, batch) = (swap.token_worth(), swap.progress.batch);
    let rest = TokenRest { whole, spent_amount: 0, input_amount: 0, fee: 0, batch };
    apply(over(&[], rest, &reason))
}

/// Whether what came before makes a claim a success. Not where our own token is taken back: that
/// would end its send, and what is left of it is spent by nobody.
fn has_come(context: &FlowContext) -> Result<bool, EcashError> {
    Ok(context.open.entity.reverses.is_none() && claim::details(context)?.progress.got > 0)
}

fn over(spent: &[ProofName], rest: TokenRest, reason: &str) -> PaymentEvent {
    let event = PaymentEvent::new(EntityEvent::Complete).because(reason);
    PaymentEvent { spent: spent.to_vec(), rest: Some(rest), ..event }
}

/// People don't want the claim any more: it ends once the mint says that nothing of it happened.
fn give_up_slowly(context: &FlowContext, since: Micros) -> FlowTurn {
    if context.environment.now < since.later(GIVING_UP) {
        return retry("it is given up; a swap that may be on its way is waited for");
    }
    ask_restore(context, SwapTrouble::Definite("Given up.".into()))
}

/// All outputs are signed. A swap spends all of its inputs or none, so that one which isn't spent
/// tells of another swap: somebody with our seed had the outputs signed.
fn restored(
    context: &FlowContext,
    proofs: Vec<Proof>,
    taken: &[ProofState],
    states: &[ProofState],
) -> FlowTurn {
    if taken.iter().any(is_under_way) {
        retry("inputs are under way at the mint")
    } else if any_are(taken, State::Unspent) {
        leave_range(outputs_now(context)?)
    } else {
        done(context, with_states(proofs, states)?)
    }
}

const PARTLY: &str = "the mint restores only a part of the outputs";

/// Whether outputs are signed over other amounts than the range has; `None` where none is signed.
fn others(range: &OutputRange, signed: &[(u32, Proof)]) -> Option<bool> {
    let asked = |counter: u32| {
        let place = usize::try_from(counter.checked_sub(range.start)?).ok()?;
        range.amounts.get(place).copied()
    };
    let differs = |(counter, proof): &(u32, Proof)| asked(*counter) != Some(proof.amount.to_u64());
    (!signed.is_empty()).then(|| signed.iter().any(differs))
}

/// A mint signs all outputs of a swap or none, over the amounts that it was asked for.
fn partly(context: &FlowContext, others: bool, states: &[ProofState]) -> FlowTurn {
    let is_other = others || context.is_past_grace();
    let is_copy = any_are(states, State::Unspent) || (is_other && all_are(states, State::Spent));
    if is_copy && !states.iter().any(is_under_way) {
        leave_range(outputs_now(context)?)
    } else {
        retry(PARTLY)
    }
}

const SPENT_ELSEWHERE: &str = "Some of the proofs were spent elsewhere.";

fn refused(context: &FlowContext, fault: &MintFault) -> FlowTurn {
    let words = fault.to_string();
    if is_claim(context)
        && let Some(why) = claim::hopeless(context, inputs(context)?.as_ref(), fault)
    {
        return ask_restore(context, SwapTrouble::Definite(format!("{why} {words}")));
    }
    if fault.is_too_many_inputs() {
        return ask_restore(context, SwapTrouble::TooMany(words));
    }
    match fault.class() {
        FaultClass::Transient if *fault == MintFault::QuotePending && is_left_behind(context) => {
            ask_restore(context, SwapTrouble::Stuck(words))
        }
        // What is pending at the mint may be our own request of before a crash (D13).
        FaultClass::Transient => retry(words),
        FaultClass::Definite => ask_restore(context, SwapTrouble::Definite(words)),
        FaultClass::RefreshKeysets => ask_restore(context, SwapTrouble::Keyset),
        FaultClass::UnknownOutcome if *fault == MintFault::AlreadySpent => {
            ask_restore(context, SwapTrouble::Spent)
        }
        FaultClass::UnknownOutcome | FaultClass::DoneAlready | FaultClass::LockFormat => {
            ask_restore(context, SwapTrouble::Unclear(words))
        }
    }
}

/// Nothing has happened to the entity for so long, so that its outputs are as old.
fn is_left_behind(context: &FlowContext) -> bool {
    context.environment.now >= context.open.entity.updated_at.later(LEFT_BEHIND)
}

fn ask_restore(context: &FlowContext, trouble: SwapTrouble) -> FlowTurn {
    let request = RangeOutputs::of(range(context)?, &context.environment.seed)?.restore();
    let mint = context.mint()?.url.clone();
    on(SwapStage::Restore(trouble), FlowStep::Ask(FlowRequest::Restore { mint, request }))
}

/// The mint has signed nothing of ours.
fn unsigned(context: &FlowContext, trouble: SwapTrouble) -> FlowTurn {
    match trouble {
        SwapTrouble::Unclear(words) => retry(words),
        SwapTrouble::Spent
        | SwapTrouble::Definite(_)
        | SwapTrouble::TooMany(_)
        | SwapTrouble::Stuck(_) => {
            let next = context.ask_states(inputs(context)?.as_ref())?;
            on(SwapStage::Inputs(trouble), next)
        }
        SwapTrouble::Keyset => match new_outputs(context)? {
            Some(ask) => apply(PaymentEvent::new(EntityEvent::TakeNewRange).with_range(ask)),
            None => end(FlowStep::Wait(WaitReason::ForKeysets)),
        },
    }
}

fn claimed() -> FlowTurn {
    apply(PaymentEvent::new(EntityEvent::FailClaimed).because("Token already claimed"))
}

/// The same sums, where the active keyset is another one.
fn new_outputs(context: &FlowContext) -> Result<Option<RangeAsk>, EcashError> {
    Ok(context.new_range(&range(context)?.keyset_id, outputs_now(context)?))
}

/// The same sums on the active keyset.
fn outputs_now(context: &FlowContext) -> Result<RangeAsk, EcashError> {
    let active = &context.mint()?.active;
    let split = |sum: Option<u64>| {
        let bad = || EcashError::argument("the active keyset can't make the sum");
        let short = || EcashError::Corrupt("a swap gives more than it takes".into());
        split_amount(sum.ok_or_else(short)?, &active.amounts).ok_or_else(bad)
    };
    // What everybody gets was settled when the payment began. A keyset with other fees doesn't
    // change that.
    let (amounts, send_count) = match &context.open.entity.details {
        EntityDetails::SendSwap(swap) => {
            let mut amounts = split(Some(swap.to_send))?;
            let send_count = amounts.len();
            amounts.extend(split(swap.change())?);
            (amounts, send_count)
        }
        EntityDetails::ReceiveSwap(swap) => (split(swap.worth())?, 0),
        EntityDetails::SendQuote(_)
        | EntityDetails::ReceiveQuote(_)
        | EntityDetails::SparkSend(_)
        | EntityDetails::SparkReceive(_) => {
            return Err(EcashError::Corrupt("a swap has other details".into()));
        }
    };
    Ok(RangeAsk { keyset_id: active.keyset_id.clone(), amounts, send_count })
}

fn done(context: &FlowContext, mut proofs: Vec<FreshProof>) -> FlowTurn {
    let EntityDetails::SendSwap(swap) = &context.open.entity.details else {
        return came(context, proofs);
    };
    // The token's outputs stand first in the range, so that a restore can tell them from change.
    let change = proofs.split_off(swap.send_count.min(proofs.len()));
    let event = PaymentEvent::new(EntityEvent::Commit).with_proofs(change);
    apply(PaymentEvent { to_send: proofs, ..event })
}

/// A part of the token, or all of it.
fn came(context: &FlowContext, proofs: Vec<FreshProof>) -> FlowTurn {
    let complete = PaymentEvent::new(EntityEvent::Complete);
    let Some(batch) = claim::details(context)?.progress.batch else {
        return apply(complete.with_proofs(proofs));
    };
    let spent = names(inputs(context)?.as_ref())?;
    match claim::next_swap(context, &spent, Some(batch))? {
        NextSwap::Swap(ask, rest) => {
            let event = PaymentEvent::new(EntityEvent::StoreBatch).with_range(ask);
            apply(PaymentEvent { spent, rest: Some(rest), ..event }.with_proofs(proofs))
        }
        NextSwap::Nothing(_) | NextSwap::Worthless(..) => apply(complete.with_proofs(proofs)),
    }
}
