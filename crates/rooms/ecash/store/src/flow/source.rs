//! The melt of a token that pays a receive quote of another account.

use cashu::{MeltQuoteState, MeltRequest, Proof, State};
use unspent_model::ecash::{EntityEvent, EntityState};

use super::{
    FaultClass, FlowAnswer, FlowContext, FlowRequest, FlowStep, MeltView, MintFault, WaitReason,
    all_are, check, outputs::RangeOutputs,
};
use crate::{
    details::TokenSource,
    error::EcashError,
    event::{FreshProof, PaymentEvent, ProofName, proof_name},
};

/// What was asked last at the token's mint.
#[derive(Debug)]
pub(super) enum SourceStage {
    /// The melt quote, to begin with.
    Look,
    /// To pay.
    Pay,
    /// The melt quote, after paying was refused (why) or unclear.
    LookAgain(Option<String>),
    /// The token's proofs, before giving up.
    Inputs(String),
    /// Change, since the melt is paid.
    Change,
}

/// A question goes on here; anything else ends the flow.
pub(super) type SourceTurn = Result<(Option<SourceStage>, FlowStep), EcashError>;

fn end(next: FlowStep) -> SourceTurn {
    Ok((None, next))
}

fn retry(why: impl Into<String>) -> SourceTurn {
    end(FlowStep::Wait(WaitReason::Retry(why.into())))
}

fn source(context: &FlowContext) -> Result<&TokenSource, EcashError> {
    let missing = || EcashError::Corrupt("an entity paid by a token has no token".into());
    context.open.entity.details.source().ok_or_else(missing)
}

fn look(context: &FlowContext) -> Result<FlowStep, EcashError> {
    let (mint, quote) = (context.source()?.url.clone(), source(context)?.melt_quote_id.clone());
    Ok(FlowStep::Ask(FlowRequest::MeltQuote { mint, quote }))
}

pub(super) fn start(context: &FlowContext) -> SourceTurn {
    Ok((Some(SourceStage::Look), look(context)?))
}

pub(super) fn answer(context: &FlowContext, stage: SourceStage, answer: FlowAnswer) -> SourceTurn {
    match (stage, answer) {
        (_, FlowAnswer::Melt(view)) if !view.is_unpaid() => under_way(context, view),
        (SourceStage::Look, FlowAnswer::Melt(_)) => unpaid(context),
        (SourceStage::Pay, FlowAnswer::Melt(_)) => ask_inputs(context, MELT_FAILED),
        (SourceStage::Pay, FlowAnswer::Fault(fault)) => {
            // The token is a stranger's, who may have spent it meanwhile: here that is a refusal.
            let reason = (fault.class() == FaultClass::Definite
                || fault == MintFault::AlreadySpent)
                .then(|| fault.to_string());
            Ok((Some(SourceStage::LookAgain(reason)), look(context)?))
        }
        (SourceStage::LookAgain(Some(reason)), FlowAnswer::Melt(_)) => ask_inputs(context, &reason),
        (SourceStage::LookAgain(None), FlowAnswer::Melt(_)) => {
            retry("the melt of the token is unclear; it will be asked for again")
        }
        (SourceStage::Inputs(reason), FlowAnswer::States(states)) => {
            // Spent though the quote is unpaid: the token was claimed by somebody else.
            if all_are(&states, State::Unspent) || all_are(&states, State::Spent) {
                give_up(context, &reason)
            } else {
                end(FlowStep::Wait(WaitReason::ForChange))
            }
        }
        (SourceStage::Change, FlowAnswer::Restored(found)) => {
            let Some(outputs) = outputs(context)? else { return store(Vec::new()) };
            store(outputs.recovered_change(&found, &context.source()?.keys))
        }
        (_, FlowAnswer::Fault(fault)) => retry(fault.to_string()),
        (_, _) => retry("the mint answered something else than it was asked"),
    }
}

const MELT_FAILED: &str = "Cashu token melt failed.";

fn outputs(context: &FlowContext) -> Result<Option<RangeOutputs>, EcashError> {
    let range = source(context)?.range.as_ref();
    range.map(|range| RangeOutputs::of(range, &context.environment.seed)).transpose()
}

fn unpaid(context: &FlowContext) -> SourceTurn {
    // A melt that was seen under way and is unpaid again has failed.
    if context.open.entity.melt_initiated {
        return ask_inputs(context, MELT_FAILED);
    }
    // The sooner of both quotes' ends: after it the melt may pay an invoice that the other mint has
    // forgotten.
    if context.is_expired() {
        return ask_inputs(context, "The quote has expired.");
    }
    let blanks = outputs(context)?.map(|outputs| outputs.messages());
    let quote = source(context)?.melt_quote_id.clone();
    let request = MeltRequest::new(quote, context.open.token.clone(), blanks);
    let mint = context.source()?.url.clone();
    Ok((Some(SourceStage::Pay), FlowStep::Ask(FlowRequest::Melt { mint, request })))
}

fn ask_inputs(context: &FlowContext, reason: &str) -> SourceTurn {
    let names = context.open.token.iter().map(proof_name);
    let names: Vec<ProofName> = names.collect::<Result<_, _>>()?;
    let (mint, request) = (context.source()?.url.clone(), check(&names)?);
    let next = FlowStep::Ask(FlowRequest::CheckState { mint, request });
    Ok((Some(SourceStage::Inputs(reason.to_owned())), next))
}

fn give_up(context: &FlowContext, reason: &str) -> SourceTurn {
    let is_late = context.is_expired() && !context.open.entity.melt_initiated;
    let what = if is_late { EntityEvent::Expire } else { EntityEvent::Fail };
    end(FlowStep::Apply(PaymentEvent::new(what).because(reason)))
}

/// Paid, pending, or something we don't know. The receiving side learns of the payment by itself.
fn under_way(context: &FlowContext, view: MeltView) -> SourceTurn {
    let entity = &context.open.entity;
    let is_unmarked = entity.state == EntityState::Unpaid && !entity.melt_initiated;
    match view.state {
        // Marked first: that the melt was seen decides what UNPAID means from now on.
        MeltQuoteState::Paid | MeltQuoteState::Pending if is_unmarked => {
            end(FlowStep::Apply(PaymentEvent::new(EntityEvent::MarkMeltInitiated)))
        }
        MeltQuoteState::Paid => change(context, view),
        MeltQuoteState::Pending => end(FlowStep::Wait(WaitReason::ForChange)),
        MeltQuoteState::Unpaid | MeltQuoteState::Failed | MeltQuoteState::Unknown => {
            retry("the mint does not say how the payment stands")
        }
    }
}

fn change(context: &FlowContext, view: MeltView) -> SourceTurn {
    // This side is settled. The payment itself is seen at the mint that issues.
    if source(context)?.change_stored {
        return end(FlowStep::Wait(WaitReason::ForChange));
    }
    let Some(outputs) = outputs(context)? else { return store(Vec::new()) };
    let keys = &context.source()?.keys;
    if let Some(change) = view.change.and_then(|signed| outputs.change(&signed, keys)) {
        return store(change);
    }
    let (mint, request) = (context.source()?.url.clone(), outputs.restore());
    Ok((Some(SourceStage::Change), FlowStep::Ask(FlowRequest::Restore { mint, request })))
}

fn store(change: Vec<Proof>) -> SourceTurn {
    let event = PaymentEvent::new(EntityEvent::StoreSourceChange);
    end(FlowStep::Apply(event.with_proofs(change.into_iter().map(FreshProof::from))))
}
