//! Swaps: making a token, and claiming one.

use cashu::{Proof, Proofs, State, SwapRequest};
use unspent_model::ecash::{EntityEvent, EntityKind, split_amount};

use super::{
    FaultClass, FlowAnswer, FlowContext, FlowRequest, FlowStage, FlowStep, FlowTurn, MintFault,
    WaitReason, all_are, apply, end,
    outputs::{RangeOutputs, RestoreOutcome},
    retry, spent_of, with_states,
};
use crate::{
    details::{EntityDetails, OutputRange},
    error::EcashError,
    event::{FreshProof, PaymentEvent, RangeAsk},
};

/// What was asked last.
#[derive(Debug)]
pub(super) enum SwapStage {
    /// To swap.
    Swap,
    /// Which outputs are signed, after the swap was refused or unclear.
    Restore(SwapTrouble),
    /// Whether restored proofs are still good.
    Restored(Vec<Proof>),
    /// The inputs, before giving up.
    Inputs(String),
}

/// How the swap went.
#[derive(Debug)]
pub(super) enum SwapTrouble {
    Unclear(String),
    Spent,
    Definite(String),
    Keyset,
}

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

/// What the swap spends: the token that is claimed, or our own proofs.
fn inputs(context: &FlowContext) -> &Proofs {
    if is_claim(context) { &context.open.token } else { &context.open.held }
}

pub(super) fn start(context: &FlowContext) -> FlowTurn {
    let outputs = RangeOutputs::of(range(context)?, &context.environment.seed)?;
    let request = SwapRequest::new(inputs(context).clone(), outputs.messages());
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
                    let next = context.ask_states(&proofs)?;
                    on(SwapStage::Restored(proofs), next)
                }
                RestoreOutcome::Nothing => unsigned(context, trouble),
                RestoreOutcome::Unclear => retry("the mint restores only a part of the outputs"),
            }
        }
        (SwapStage::Restored(proofs), FlowAnswer::States(states)) => {
            done(context, with_states(proofs, &states)?)
        }
        (SwapStage::Inputs(reason), FlowAnswer::States(states)) => {
            if all_are(&states, State::Unspent) {
                apply(PaymentEvent::new(EntityEvent::Fail).because(reason))
            } else if all_are(&states, State::Spent) && is_claim(context) {
                // None of our outputs was signed for it: another receiver was quicker, or the
                // sender took it back.
                claimed()
            } else if states.iter().any(|found| found.state == State::Spent) && !is_claim(context) {
                // Our own proofs, spent by none of our payments: somebody has this seed too. The
                // others go free.
                let spent = spent_of(&states);
                apply(PaymentEvent {
                    spent,
                    ..PaymentEvent::new(EntityEvent::Fail).because(SPENT_ELSEWHERE)
                })
            } else {
                retry(reason)
            }
        }
        (_, FlowAnswer::Fault(fault)) => retry(fault.to_string()),
        (_, _) => retry("the mint answered something else than it was asked"),
    }
}

const SPENT_ELSEWHERE: &str = "Some of the proofs were spent elsewhere.";

fn refused(context: &FlowContext, fault: &MintFault) -> FlowTurn {
    let words = fault.to_string();
    match fault.class() {
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

fn ask_restore(context: &FlowContext, trouble: SwapTrouble) -> FlowTurn {
    let request = RangeOutputs::of(range(context)?, &context.environment.seed)?.restore();
    let mint = context.mint()?.url.clone();
    on(SwapStage::Restore(trouble), FlowStep::Ask(FlowRequest::Restore { mint, request }))
}

/// The mint has signed nothing of ours.
fn unsigned(context: &FlowContext, trouble: SwapTrouble) -> FlowTurn {
    match trouble {
        SwapTrouble::Unclear(words) => retry(words),
        SwapTrouble::Spent if is_claim(context) => claimed(),
        SwapTrouble::Spent => {
            on(SwapStage::Inputs(SPENT_ELSEWHERE.into()), context.ask_states(inputs(context))?)
        }
        SwapTrouble::Definite(words) => {
            on(SwapStage::Inputs(words), context.ask_states(inputs(context))?)
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

/// The same sums on the active keyset.
fn new_outputs(context: &FlowContext) -> Result<Option<RangeAsk>, EcashError> {
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
    let ask = RangeAsk { keyset_id: active.keyset_id.clone(), amounts, send_count };
    Ok(context.new_range(&range(context)?.keyset_id, ask))
}

fn done(context: &FlowContext, mut proofs: Vec<FreshProof>) -> FlowTurn {
    let EntityDetails::SendSwap(swap) = &context.open.entity.details else {
        return apply(PaymentEvent::new(EntityEvent::Complete).with_proofs(proofs));
    };
    // The token's outputs stand first in the range, so that a restore can tell them from change.
    let change = proofs.split_off(swap.send_count.min(proofs.len()));
    let event = PaymentEvent::new(EntityEvent::Commit).with_proofs(change);
    apply(PaymentEvent { to_send: proofs, ..event })
}
