//! The melt of a token that pays a receive quote of another account.

use cashu::{MeltQuoteState, MeltRequest, ProofState, Proofs, State};
use unspent_model::ecash::{EntityEvent, EntityState};

use super::{
    FaultClass, FlowAnswer, FlowContext, FlowRequest, FlowStep, MeltView, MintFault, WaitReason,
    all_are,
    change::{ChangeAsk, ChangeParts, ChangeTurn, bring},
    check, claim, is_under_way,
    outputs::RangeOutputs,
    spent_of,
};
use crate::{
    details::{EntityDetails, TokenSource, payment_hash, proves},
    error::EcashError,
    event::{PaymentEvent, ProofName, proof_name},
    inputs::value,
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
    /// The token's proofs, since the melt is said to be paid and no preimage proves it.
    Proof(MeltView),
    /// Change, since the melt is paid.
    Change(MeltView),
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
        (SourceStage::Proof(view), FlowAnswer::States(states)) => {
            if all_are(&states, State::Spent) {
                proven(context, view)
            } else {
                retry("the mint says that it has paid, and proves it by nothing")
            }
        }
        (SourceStage::Look, FlowAnswer::Melt(_)) => unpaid(context),
        (SourceStage::Pay, FlowAnswer::Melt(_)) => ask_inputs(context, MELT_FAILED),
        (SourceStage::Pay, FlowAnswer::Fault(fault)) => {
            let hopeless = claim::hopeless(context, &context.open.token, &fault);
            // The token is a stranger's, who may have spent it meanwhile: here that is a refusal.
            let is_refusal =
                fault.class() == FaultClass::Definite || fault == MintFault::AlreadySpent;
            let reason = hopeless.map(|why| format!("{why} {fault}"));
            let reason = reason.or_else(|| is_refusal.then(|| fault.to_string()));
            Ok((Some(SourceStage::LookAgain(reason)), look(context)?))
        }
        (SourceStage::LookAgain(Some(reason)), FlowAnswer::Melt(_)) => ask_inputs(context, &reason),
        (SourceStage::LookAgain(None), FlowAnswer::Melt(_)) => {
            retry("the melt of the token is unclear; it will be asked for again")
        }
        (SourceStage::Inputs(reason), FlowAnswer::States(states)) => {
            looked_at(context, &reason, &states)
        }
        (SourceStage::Change(view), FlowAnswer::Restored(found)) => {
            let Some(ask) = change_ask(context)? else { return store(Vec::new()) };
            changed(&ask, ask.read(view.change.as_deref(), Some(&found)))
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

fn ask_token(context: &FlowContext) -> Result<FlowStep, EcashError> {
    let names = context.open.token.iter().map(proof_name);
    let names: Vec<ProofName> = names.collect::<Result<_, _>>()?;
    let (mint, request) = (context.source()?.url.clone(), check(&names)?);
    Ok(FlowStep::Ask(FlowRequest::CheckState { mint, request }))
}

fn ask_inputs(context: &FlowContext, reason: &str) -> SourceTurn {
    Ok((Some(SourceStage::Inputs(reason.to_owned())), ask_token(context)?))
}

/// The token's proofs, while its quote is unpaid. Spent ones were claimed by somebody else, and a
/// melt that needs them is refused whenever it comes.
fn looked_at(context: &FlowContext, reason: &str, states: &[ProofState]) -> SourceTurn {
    if states.len() != context.open.token.len() || states.iter().any(is_under_way) {
        return end(FlowStep::Wait(WaitReason::ForChange));
    }
    let (spent, mut left) = (spent_of(states), Proofs::new());
    for proof in &context.open.token {
        if !spent.contains(&proof_name(proof)?) {
            left.push(proof.clone());
        }
    }
    if spent.is_empty() || left.is_empty() {
        return give_up(context, reason);
    }
    let (left, whole) = (value(&left)?, source(context)?.token_amount);
    give_up(context, &format!("{reason}; {left} of {whole} are left, and can be claimed"))
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
        MeltQuoteState::Paid => paid(context, view),
        MeltQuoteState::Pending => end(FlowStep::Wait(WaitReason::ForChange)),
        MeltQuoteState::Unpaid | MeltQuoteState::Failed | MeltQuoteState::Unknown => {
            retry("the mint does not say how the payment stands")
        }
    }
}

fn paid(context: &FlowContext, view: MeltView) -> SourceTurn {
    // This side is settled. The payment itself is seen at the mint that issues.
    if source(context)?.change_stored {
        return end(FlowStep::Wait(WaitReason::ForChange));
    }
    let hash = invoice(context).and_then(payment_hash);
    let is_proven = view.preimage.as_deref().zip(hash).is_some_and(|(said, h)| proves(said, &h));
    if is_proven {
        return proven(context, view);
    }
    Ok((Some(SourceStage::Proof(view)), ask_token(context)?))
}

/// What the melt pays.
fn invoice(context: &FlowContext) -> Option<&str> {
    match &context.open.entity.details {
        EntityDetails::ReceiveQuote(receive) => Some(&receive.invoice),
        EntityDetails::SparkReceive(receive) => Some(&receive.invoice),
        EntityDetails::SendQuote(_)
        | EntityDetails::SendSwap(_)
        | EntityDetails::ReceiveSwap(_)
        | EntityDetails::SparkSend(_) => None,
    }
}

fn proven(context: &FlowContext, view: MeltView) -> SourceTurn {
    let Some(ask) = change_ask(context)? else { return store(Vec::new()) };
    if let ChangeTurn::Settled(parts) = ask.read(view.change.as_deref(), None) {
        return store(parts);
    }
    let (mint, request) = (context.source()?.url.clone(), ask.outputs.restore());
    Ok((Some(SourceStage::Change(view)), FlowStep::Ask(FlowRequest::Restore { mint, request })))
}

/// `None` where nothing can be left over, or we have no account for it.
fn change_ask(context: &FlowContext) -> Result<Option<ChangeAsk<'_>>, EcashError> {
    let (Some(outputs), source) = (outputs(context)?, source(context)?) else { return Ok(None) };
    let short = || EcashError::Corrupt("the token doesn't cover its melt".into());
    let bounds = source.change_bounds(amount(context)).ok_or_else(short)?;
    let (keys, owed) = (context.source()?, source.owed.as_ref());
    Ok(Some(ChangeAsk { context, outputs, keys, bounds, owed }))
}

/// What comes in.
fn amount(context: &FlowContext) -> u64 {
    match &context.open.entity.details {
        EntityDetails::ReceiveQuote(receive) => receive.amount,
        EntityDetails::SparkReceive(receive) => receive.amount,
        EntityDetails::SendQuote(_)
        | EntityDetails::SendSwap(_)
        | EntityDetails::ReceiveSwap(_)
        | EntityDetails::SparkSend(_) => 0,
    }
}

fn changed(ask: &ChangeAsk<'_>, turn: ChangeTurn) -> SourceTurn {
    let event = match turn {
        ChangeTurn::Settled(parts) => return store(parts),
        ChangeTurn::Take(parts) => bring(EntityEvent::TakeChange, parts),
        ChangeTurn::Miss(sum) => ask.missing(sum),
        ChangeTurn::GiveUp(kept) => ask.given_up(EntityEvent::StoreSourceChange, kept),
        ChangeTurn::Keysets => return end(FlowStep::Wait(WaitReason::ForKeysets)),
        ChangeTurn::Wait(why) => return retry(why),
    };
    end(FlowStep::Apply(event))
}

fn store(change: ChangeParts) -> SourceTurn {
    end(FlowStep::Apply(bring(EntityEvent::StoreSourceChange, change)))
}
