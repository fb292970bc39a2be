//! Being paid by an invoice of a mint, or by the melt of a token.

use cashu::{MintQuoteState, MintRequest, Proof, nut20::derive_quote_locking_key};
use unspent_model::ecash::{EntityEvent, EntityState, EntityVariant, split_amount};

use super::{
    FaultClass, FlowAnswer, FlowContext, FlowRequest, FlowStage, FlowStep, FlowTurn, WaitReason,
    apply, end, leave_range,
    outputs::{RangeOutputs, RestoreOutcome},
    retry,
    source::{self, SourceStage},
    watch, with_states,
};
use crate::{
    details::{EntityDetails, ReceiveQuoteDetails},
    error::EcashError,
    event::{FreshProof, PaymentEvent, RangeAsk},
};

/// What was asked last.
#[derive(Debug)]
pub(super) enum ReceiveStage {
    /// The mint quote.
    Look,
    /// Something at the token's mint.
    Source(SourceStage),
    /// To issue.
    Mint,
    /// Which outputs are signed; whether the keyset was the trouble.
    Restore(bool),
    /// The quote, since outputs are signed, or none though the mint refuses.
    Issued(SignedOutputs),
    /// Whether restored proofs are still good.
    Restored(Vec<Proof>),
}

/// What a restore gave.
#[derive(Debug)]
pub(super) enum SignedOutputs {
    /// All of the range.
    All(Vec<Proof>),
    /// Some, or over other amounts; whether any of them verifies.
    Others(bool),
    None,
}

fn on(stage: ReceiveStage, next: FlowStep) -> FlowTurn {
    Ok((FlowStage::ReceiveQuote(stage), next))
}

fn quote(context: &FlowContext) -> Result<&ReceiveQuoteDetails, EcashError> {
    let EntityDetails::ReceiveQuote(quote) = &context.open.entity.details else {
        return Err(EcashError::Corrupt("a receive quote has other details".into()));
    };
    Ok(quote)
}

fn ask_source(context: &FlowContext) -> FlowTurn {
    on_source(source::start(context)?)
}

fn on_source((stage, next): (Option<SourceStage>, FlowStep)) -> FlowTurn {
    match stage {
        Some(stage) => on(ReceiveStage::Source(stage), next),
        None => end(next),
    }
}

pub(super) fn start(context: &FlowContext) -> FlowTurn {
    let entity = &context.open.entity;
    match entity.state {
        EntityState::Paid => ask_mint(context),
        EntityState::Completed if entity.awaits_change() => ask_source(context),
        EntityState::Completed => end(FlowStep::Done),
        // Over or not: a payment that comes late is money that the mint holds for us (D9).
        EntityState::Unpaid | EntityState::Failed | EntityState::Expired => {
            on(ReceiveStage::Look, ask_quote(context)?)
        }
        EntityState::Draft | EntityState::Pending | EntityState::Reversed => {
            Err(EcashError::Corrupt("a receive quote is in a state that it can't have".into()))
        }
    }
}

pub(super) fn answer(context: &FlowContext, stage: ReceiveStage, answer: FlowAnswer) -> FlowTurn {
    match (stage, answer) {
        (ReceiveStage::Look, FlowAnswer::MintQuote(view)) => looked(context, view.state),
        (ReceiveStage::Source(stage), answer) => on_source(source::answer(context, stage, answer)?),
        (ReceiveStage::Mint, FlowAnswer::Signatures(signed)) => {
            let outputs = outputs(context)?;
            match outputs.proofs(&signed, &context.mint()?.keys) {
                Some(proofs) => complete(proofs.into_iter().map(FreshProof::from).collect()),
                // Without a valid DLEQ proof a signature may be worthless, or made with a key for
                // us alone to mark the proofs (NUT-12).
                None => ask_restore(context, false),
            }
        }
        (ReceiveStage::Mint, FlowAnswer::Fault(fault))
            if fault.class() == FaultClass::Transient =>
        {
            retry(fault.to_string())
        }
        // Refused, issued before, or done with the answer lost: asking for the outputs tells
        // which, and changes nothing.
        (ReceiveStage::Mint, FlowAnswer::Fault(fault)) => {
            ask_restore(context, fault.class() == FaultClass::RefreshKeysets)
        }
        (ReceiveStage::Restore(is_keyset), FlowAnswer::Restored(found)) => {
            match outputs(context)?.recovered(&found, &context.mint()?.keys) {
                RestoreOutcome::All(proofs) => ask_issued(context, SignedOutputs::All(proofs)),
                RestoreOutcome::Nothing if is_keyset => take_new_range(context),
                RestoreOutcome::Nothing => ask_issued(context, SignedOutputs::None),
                RestoreOutcome::Unclear => {
                    let signed = outputs(context)?.signed(&found, &context.mint()?.keys);
                    ask_issued(context, SignedOutputs::Others(!signed.is_empty()))
                }
            }
        }
        (ReceiveStage::Issued(signed), FlowAnswer::MintQuote(view)) => {
            issued(context, signed, view.state)
        }
        (ReceiveStage::Restored(proofs), FlowAnswer::States(states)) => {
            complete(with_states(proofs, &states)?)
        }
        (_, FlowAnswer::Fault(fault)) => retry(fault.to_string()),
        (_, _) => retry("the mint answered something else than it was asked"),
    }
}

fn ask_quote(context: &FlowContext) -> Result<FlowStep, EcashError> {
    let (mint, quote) = (context.mint()?.url.clone(), quote(context)?.quote_id.clone());
    Ok(FlowStep::Ask(FlowRequest::MintQuote { mint, quote }))
}

fn ask_issued(context: &FlowContext, signed: SignedOutputs) -> FlowTurn {
    on(ReceiveStage::Issued(signed), ask_quote(context)?)
}

/// The mint refuses to issue. Signatures on our outputs are this quote's only if it was issued.
fn issued(context: &FlowContext, signed: SignedOutputs, state: MintQuoteState) -> FlowTurn {
    match (signed, state) {
        (_, MintQuoteState::Unpaid) => retry("the mint calls a paid quote unpaid"),
        (SignedOutputs::All(proofs), MintQuoteState::Issued) => {
            let next = context.ask_states(&proofs)?;
            on(ReceiveStage::Restored(proofs), next)
        }
        (SignedOutputs::All(_) | SignedOutputs::Others(true), MintQuoteState::Paid) => {
            leave_range(ask(context)?)
        }
        // A mint issues all outputs of a request or none.
        (SignedOutputs::Others(true), MintQuoteState::Issued) if context.is_past_grace() => {
            leave_range(ask(context)?)
        }
        (SignedOutputs::Others(_), _) => retry("the mint restores only a part of the outputs"),
        (SignedOutputs::None, MintQuoteState::Issued) if context.is_past_grace() => {
            let why = "The mint has issued it to another copy of this wallet.";
            apply(PaymentEvent::new(EntityEvent::FailClaimed).because(why).showing_copy())
        }
        (SignedOutputs::None, MintQuoteState::Issued) => {
            retry("the mint has issued the quote, and gives none of it back")
        }
        (SignedOutputs::None, MintQuoteState::Paid) => retry("the mint has not issued yet"),
    }
}

fn looked(context: &FlowContext, state: MintQuoteState) -> FlowTurn {
    let entity = &context.open.entity;
    let is_over = entity.state != EntityState::Unpaid;
    match state {
        // Issued to another copy; what it got was scanned for when this one ended.
        MintQuoteState::Issued if is_over && quote(context)?.range.is_some() => watch(),
        MintQuoteState::Paid | MintQuoteState::Issued => {
            let late = EntityEvent::LatePayment;
            let what = if is_over { late } else { EntityEvent::ProcessPayment };
            let event = PaymentEvent::new(what).with_range(ask(context)?);
            // Issued, though this database never asked for it: a copy of it had it issued. If its
            // counters were the same, a restore finds the outputs.
            let is_copy = state == MintQuoteState::Issued;
            apply(if is_copy { event.showing_copy() } else { event })
        }
        MintQuoteState::Unpaid if is_over => watch(),
        // Before our own clock: the token's melt may be under way, and ends when it ends.
        MintQuoteState::Unpaid if entity.variant == EntityVariant::CashuToken => {
            ask_source(context)
        }
        MintQuoteState::Unpaid if context.is_expired() => {
            apply(PaymentEvent::new(EntityEvent::Expire).because("Nobody paid in time."))
        }
        MintQuoteState::Unpaid => watch(),
    }
}

/// Outputs of the active keyset.
fn ask(context: &FlowContext) -> Result<RangeAsk, EcashError> {
    let active = &context.mint()?.active;
    let bad = || EcashError::argument("the active keyset can't make the sum");
    let amounts = split_amount(quote(context)?.amount, &active.amounts).ok_or_else(bad)?;
    Ok(RangeAsk { keyset_id: active.keyset_id.clone(), amounts, send_count: 0 })
}

fn outputs(context: &FlowContext) -> Result<RangeOutputs, EcashError> {
    let missing = || EcashError::Corrupt("a paid quote has no outputs".into());
    RangeOutputs::of(quote(context)?.range.as_ref().ok_or_else(missing)?, &context.environment.seed)
}

/// Signed in both forms: mints know the one or the other.
fn ask_mint(context: &FlowContext) -> FlowTurn {
    let quote = quote(context)?;
    let bug = || EcashError::Bug("a mint request can't be signed".into());
    let key =
        derive_quote_locking_key(&context.environment.seed, quote.lock_index).map_err(|_| bug())?;
    let outputs = outputs(context)?.messages();
    let mut request = MintRequest { quote: quote.quote_id.clone(), outputs, signature: None };
    let mut tagged = request.clone();
    tagged.sign(&key).map_err(|_| bug())?;
    request.sign_legacy(key).map_err(|_| bug())?;
    let mint = context.mint()?.url.clone();
    on(ReceiveStage::Mint, FlowStep::Ask(FlowRequest::Mint { mint, request, tagged }))
}

fn ask_restore(context: &FlowContext, is_keyset: bool) -> FlowTurn {
    let (mint, request) = (context.mint()?.url.clone(), outputs(context)?.restore());
    on(ReceiveStage::Restore(is_keyset), FlowStep::Ask(FlowRequest::Restore { mint, request }))
}

fn take_new_range(context: &FlowContext) -> FlowTurn {
    let old = quote(context)?.range.as_ref().map_or("", |range| range.keyset_id.as_str());
    match context.new_range(old, ask(context)?) {
        Some(ask) => apply(PaymentEvent::new(EntityEvent::TakeNewRange).with_range(ask)),
        None => end(FlowStep::Wait(WaitReason::ForKeysets)),
    }
}

fn complete(proofs: Vec<FreshProof>) -> FlowTurn {
    apply(PaymentEvent::new(EntityEvent::Complete).with_proofs(proofs))
}
