//! Paying an invoice by a melt.

use cashu::{MeltQuoteState, MeltRequest, Proof, ProofState, State, SwapRequest};
use unspent_model::ecash::{EntityEvent, EntityState, split_amount};

use super::{
    FaultClass, FlowAnswer, FlowContext, FlowRequest, FlowStage, FlowStep, FlowTurn, MeltView,
    MintFault, WaitReason, all_are, any_are, apply,
    change::{ChangeAsk, ChangeParts, ChangeTurn, bring},
    end, leave_range,
    outputs::{RangeOutputs, RestoreOutcome},
    retry, spent_of, watch,
};
use crate::{
    details::{EntityDetails, OutputRange, SendQuoteDetails},
    error::EcashError,
    event::{FreshProof, PaymentEvent, ProofName, RangeAsk},
};

/// What was asked last.
#[derive(Debug)]
pub(super) enum PayStage {
    /// The quote, to begin with.
    Look,
    /// To pay.
    Pay,
    /// The quote, after paying was refused or unclear.
    LookAgain(MeltRefusal),
    /// The inputs, before giving up.
    Inputs(String),
    /// The inputs, since the mint calls one of them spent.
    SpentInputs,
    /// The quote, since inputs are spent.
    LookAtLast(String, Vec<ProofName>),
    /// The inputs, since the quote is said to be paid and no preimage proves it.
    Proof(MeltView),
    /// Change, since the quote is paid.
    Change(MeltView),
    /// The quote, of a payment whose change is owed.
    LookForChange,
    /// To swap the inputs to ourselves.
    Fence,
    /// Whether that swap happened.
    FenceRestore,
    /// Inputs of a payment that we had given up.
    Proving(MeltView),
    /// Its change, since it was made after all.
    ProvedChange(MeltView, Vec<ProofName>),
}

/// How paying went.
#[derive(Debug)]
pub(super) enum MeltRefusal {
    Unclear,
    Spent,
    Definite(String),
    Keyset,
    /// The blank outputs were signed before.
    Signed,
}

fn on(stage: PayStage, next: FlowStep) -> FlowTurn {
    Ok((FlowStage::SendQuote(stage), next))
}

fn quote(context: &FlowContext) -> Result<&SendQuoteDetails, EcashError> {
    let EntityDetails::SendQuote(quote) = &context.open.entity.details else {
        return Err(EcashError::Corrupt("a send quote has other details".into()));
    };
    Ok(quote)
}

fn look(context: &FlowContext) -> Result<FlowStep, EcashError> {
    let (mint, quote) = (context.mint()?.url.clone(), quote(context)?.quote_id.clone());
    Ok(FlowStep::Ask(FlowRequest::MeltQuote { mint, quote }))
}

pub(super) fn start(context: &FlowContext) -> FlowTurn {
    let entity = &context.open.entity;
    match entity.state {
        EntityState::Paid if entity.awaits_change() => on(PayStage::LookForChange, look(context)?),
        EntityState::Paid => end(FlowStep::Done),
        EntityState::Unpaid | EntityState::Pending | EntityState::Failed | EntityState::Expired => {
            on(PayStage::Look, look(context)?)
        }
        EntityState::Draft | EntityState::Completed | EntityState::Reversed => {
            Err(EcashError::Corrupt("a send quote is in a state that it can't have".into()))
        }
    }
}

pub(super) fn answer(context: &FlowContext, stage: PayStage, answer: FlowAnswer) -> FlowTurn {
    match (stage, answer) {
        (PayStage::Look, FlowAnswer::Melt(view)) => looked(context, view),
        // NUT-05 answers a melt once the payment has ended, so that UNPAID means that it failed.
        // The proofs are let go only when the mint has let go of them too.
        (PayStage::Pay, FlowAnswer::Melt(view)) if view.is_unpaid() => {
            let reason = "The mint did not pay.".to_owned();
            on(PayStage::Inputs(reason), context.ask_states(&context.open.held)?)
        }
        (PayStage::Pay, FlowAnswer::Melt(view)) => under_way(context, view),
        (PayStage::Pay, FlowAnswer::Fault(fault)) => refused(context, &fault),
        (PayStage::LookAgain(refusal), FlowAnswer::Melt(view)) => {
            looked_again(context, refusal, view)
        }
        (PayStage::Inputs(reason), FlowAnswer::States(states)) => {
            inputs_read(context, reason, &states)
        }
        // That they aren't spent contradicts the refusal: no ground to decide on.
        (PayStage::SpentInputs, FlowAnswer::States(states)) if all_are(&states, State::Unspent) => {
            retry("the mint calls inputs spent and unspent; the melt will be asked for again")
        }
        (PayStage::SpentInputs, FlowAnswer::States(states)) => {
            inputs_read(context, SPENT_ELSEWHERE.to_owned(), &states)
        }
        // Two readings agree that the mint has not paid: somebody else has spent the inputs.
        (PayStage::LookAtLast(reason, spent), FlowAnswer::Melt(view)) if view.is_unpaid() => {
            give_up(context, &reason, spent)
        }
        (PayStage::LookAtLast(..), FlowAnswer::Melt(view)) => under_way(context, view),
        (stage, answer) => answer_once_paid(context, stage, answer),
    }
}

fn answer_once_paid(context: &FlowContext, stage: PayStage, answer: FlowAnswer) -> FlowTurn {
    match (stage, answer) {
        (PayStage::Proof(view), FlowAnswer::States(states)) => {
            if all_are(&states, State::Spent) {
                proven(context, view)
            } else {
                retry("the mint says that it has paid, and proves it by nothing")
            }
        }
        (PayStage::LookForChange, FlowAnswer::Melt(view)) => restore_change(context, view),
        // After a while a mint may have forgotten the quote; what it has signed, it still knows.
        (PayStage::LookForChange, FlowAnswer::Fault(fault))
            if fault.class() != FaultClass::Transient =>
        {
            restore_change(context, MeltView::unheard(&quote(context)?.quote_id))
        }
        (PayStage::Change(view), FlowAnswer::Restored(found)) => {
            let Some(ask) = change_ask(context)? else { return paid_in_full(&view, Vec::new()) };
            changed(context, &ask, &view, ask.read(view.change.as_deref(), Some(&found)))
        }
        (PayStage::Proving(view), FlowAnswer::States(states)) => {
            prove(context, &view, spent_of(&states))
        }
        (PayStage::ProvedChange(view, spent), FlowAnswer::Restored(found)) => {
            let Some(ask) = change_ask(context)? else { return proved(&view, spent, Vec::new()) };
            let signed = view.change.as_deref().unwrap_or_default();
            let reading = ask.outputs.change(signed, Some(&found), &ask.keys.keys);
            proved(&view, spent, reading.good)
        }
        (stage, answer) => answer_fence(context, stage, answer),
    }
}

fn answer_fence(context: &FlowContext, stage: PayStage, answer: FlowAnswer) -> FlowTurn {
    match (stage, answer) {
        (PayStage::Fence, FlowAnswer::Signatures(signed)) => fenced(context, &signed),
        // The swap may be done and its answer lost, or the melt may have won the inputs. Which one
        // it is, only signatures on the fence's own outputs tell.
        (PayStage::Fence, FlowAnswer::Fault(_)) => {
            let mint = context.mint()?.url.clone();
            let request =
                RangeOutputs::of(fence_range(context)?, &context.environment.seed)?.restore();
            on(PayStage::FenceRestore, FlowStep::Ask(FlowRequest::Restore { mint, request }))
        }
        (PayStage::FenceRestore, FlowAnswer::Restored(found)) => {
            let outputs = RangeOutputs::of(fence_range(context)?, &context.environment.seed)?;
            match outputs.recovered(&found, &context.mint()?.keys) {
                RestoreOutcome::All(proofs) => fence(proofs),
                // Another flow reads the quote first: if the melt has won, it finds out there.
                RestoreOutcome::Nothing | RestoreOutcome::Unclear => {
                    retry("the fence is not done yet")
                }
            }
        }
        (_, FlowAnswer::Fault(fault)) => retry(fault.to_string()),
        (_, _) => retry("the mint answered something else than it was asked"),
    }
}

/// No fault proves that nothing was paid: an answer is lost as easily as a request. Whatever it
/// says, the quote is read next.
fn refused(context: &FlowContext, fault: &MintFault) -> FlowTurn {
    let refusal = match fault.class() {
        // Whoever spent them, the mint tells at once (NUT-07). Waiting for the quote's own end
        // would bind the others until then, and for ever where it has none.
        FaultClass::UnknownOutcome if *fault == MintFault::AlreadySpent => MeltRefusal::Spent,
        FaultClass::DoneAlready if *fault == MintFault::OutputsAlreadySigned => MeltRefusal::Signed,
        FaultClass::Definite => MeltRefusal::Definite(fault.to_string()),
        FaultClass::RefreshKeysets => MeltRefusal::Keyset,
        FaultClass::DoneAlready
        | FaultClass::UnknownOutcome
        | FaultClass::Transient
        | FaultClass::LockFormat => MeltRefusal::Unclear,
    };
    on(PayStage::LookAgain(refusal), look(context)?)
}

fn inputs_read(context: &FlowContext, reason: String, states: &[ProofState]) -> FlowTurn {
    // A PENDING input belongs to a payment in flight: let go, it would be spent for a second one.
    if all_are(states, State::Unspent) {
        give_up(context, &reason, Vec::new())
    } else if any_are(states, State::Spent) {
        on(PayStage::LookAtLast(reason, spent_of(states)), look(context)?)
    } else {
        watch()
    }
}

fn looked(context: &FlowContext, view: MeltView) -> FlowTurn {
    let entity = &context.open.entity;
    if matches!(entity.state, EntityState::Failed | EntityState::Expired) {
        // The alarm is raised together with the proof: with it, everything is said.
        if view.state != MeltQuoteState::Paid || entity.alarm {
            return end(FlowStep::Done);
        }
        // Some of what was let go may pay for something else by now. Only what the mint itself
        // calls spent is taken from its holder.
        let next = context.ask_names(&context.open.let_go)?;
        return if context.open.let_go.is_empty() {
            prove(context, &view, Vec::new())
        } else {
            on(PayStage::Proving(view), next)
        };
    }
    if view.is_unpaid() { unpaid(context) } else { under_way(context, view) }
}

/// The mint has not paid, and nothing of ours is under way.
fn unpaid(context: &FlowContext) -> FlowTurn {
    let (entity, quote) = (&context.open.entity, quote(context)?);
    // With outputs of the fence taken, nothing is paid any more: a melt and the fence would race
    // for the same inputs.
    if quote.fence.is_some() {
        return ask_fence(context);
    }
    // It was under way and isn't any more, so it failed at the mint (D5). A second try is people's
    // to order.
    if entity.state == EntityState::Pending {
        let reason = "The payment failed.".to_owned();
        return on(PayStage::Inputs(reason), context.ask_states(&context.open.held)?);
    }
    if context.is_expired() {
        return on(PayStage::Inputs(EXPIRED.to_owned()), context.ask_states(&context.open.held)?);
    }
    // Written down before the mint hears of it: after a crash in between nobody could tell whether
    // it has, and only a payment that it never heard of is given up without a fence.
    if !entity.melt_initiated {
        return apply(PaymentEvent::new(EntityEvent::MarkMeltInitiated));
    }
    let outputs =
        quote.range.as_ref().map(|range| RangeOutputs::of(range, &context.environment.seed));
    let outputs = outputs.transpose()?.map(|outputs| outputs.messages());
    // The same inputs and outputs after every crash, so that a mint which has paid answers as it
    // did, and no second set of proofs is ever at stake.
    let request = MeltRequest::new(quote.quote_id.clone(), context.open.held.clone(), outputs);
    let mint = context.mint()?.url.clone();
    on(PayStage::Pay, FlowStep::Ask(FlowRequest::Melt { mint, request }))
}

const EXPIRED: &str = "The quote has expired.";
const SPENT_ELSEWHERE: &str = "Some of the proofs were spent elsewhere.";

/// Paid, pending, or something we don't know.
fn under_way(context: &FlowContext, view: MeltView) -> FlowTurn {
    match view.state {
        MeltQuoteState::Paid => paid(context, view),
        // Stored, since from here on no clock of ours ends the payment.
        MeltQuoteState::Pending if context.open.entity.state == EntityState::Unpaid => {
            apply(PaymentEvent::new(EntityEvent::MarkPending))
        }
        MeltQuoteState::Pending => watch(),
        MeltQuoteState::Unpaid | MeltQuoteState::Failed | MeltQuoteState::Unknown => {
            retry("the mint does not say how the payment stands")
        }
    }
}

fn looked_again(context: &FlowContext, refusal: MeltRefusal, view: MeltView) -> FlowTurn {
    if !view.is_unpaid() {
        return under_way(context, view);
    }
    match refusal {
        MeltRefusal::Unclear => retry("the melt is unclear; it will be asked for again"),
        MeltRefusal::Spent => on(PayStage::SpentInputs, context.ask_states(&context.open.held)?),
        MeltRefusal::Definite(reason) => {
            on(PayStage::Inputs(reason), context.ask_states(&context.open.held)?)
        }
        // It has not paid, so that they were signed in another payment.
        MeltRefusal::Signed => {
            let keyset_id = context.mint()?.active.keyset_id.clone();
            let amounts = quote(context)?.range.as_ref().map(|range| range.amounts.clone());
            match amounts {
                Some(amounts) => leave_range(RangeAsk { keyset_id, amounts, send_count: 0 }),
                None => retry("the mint has signed outputs that it was not asked for"),
            }
        }
        MeltRefusal::Keyset => {
            let quote = quote(context)?;
            // A retired keyset signs nothing more. Its range stays burnt: a counter that was shown
            // to a mint once is never used again (D14).
            let Some(old) = &quote.range else {
                return end(FlowStep::Wait(WaitReason::ForKeysets));
            };
            let keyset_id = context.mint()?.active.keyset_id.clone();
            let ask = RangeAsk { keyset_id, amounts: old.amounts.clone(), send_count: 0 };
            match context.new_range(&old.keyset_id, ask) {
                Some(ask) => apply(PaymentEvent::new(EntityEvent::TakeNewRange).with_range(ask)),
                None => end(FlowStep::Wait(WaitReason::ForKeysets)),
            }
        }
    }
}

/// Inputs are free, or spent by somebody else. Whether the mint may still pay, nobody can promise;
/// the fence makes sure.
fn give_up(context: &FlowContext, reason: &str, spent: Vec<ProofName>) -> FlowTurn {
    let (entity, quote) = (&context.open.entity, quote(context)?);
    // Spent inputs need no fence: no late melt can take them, and no swap either.
    if context.environment.fence
        && entity.melt_initiated
        && spent.is_empty()
        && quote.fence.is_none()
    {
        let active = &context.mint()?.active;
        let short = || EcashError::Corrupt("the inputs don't cover their own fee".into());
        let amount = quote.worth().ok_or_else(short)?;
        if let Some(amounts) = split_amount(amount, &active.amounts).filter(|a| !a.is_empty()) {
            let keyset_id = active.keyset_id.clone();
            let ask = RangeAsk { keyset_id, amounts, send_count: 0 };
            return apply(PaymentEvent::new(EntityEvent::TakeFenceRange).with_range(ask));
        }
    }
    let may_expire = entity.state == EntityState::Unpaid && context.is_expired();
    let what = if may_expire { EntityEvent::Expire } else { EntityEvent::Fail };
    let event = PaymentEvent::new(what).because(reason);
    // Spent by none of our payments: somebody has this seed too, and got something for them.
    let event = if spent.is_empty() { event } else { event.showing_copy() };
    apply(PaymentEvent { spent, ..event })
}

/// The mint says that it has paid. A word alone would spend our proofs for a payment that nobody
/// made, so that the preimage counts, or else that the mint has taken the inputs: where Lightning
/// is pretended, or inside of one mint, there is no preimage.
fn paid(context: &FlowContext, view: MeltView) -> FlowTurn {
    let is_proven = view.preimage.as_deref().is_some_and(|said| {
        let quote = quote(context);
        quote.is_ok_and(|quote| quote.is_proof(said))
    });
    // None is held any more where the mint called them all spent before.
    if is_proven || context.open.held.is_empty() {
        return proven(context, view);
    }
    on(PayStage::Proof(view), context.ask_states(&context.open.held)?)
}

fn proven(context: &FlowContext, view: MeltView) -> FlowTurn {
    let Some(ask) = change_ask(context)? else { return paid_in_full(&view, Vec::new()) };
    match ask.read(view.change.as_deref(), None) {
        ChangeTurn::Settled(parts) => paid_in_full(&view, parts),
        // A quote that is read need not bring its change (NUT-08), and signatures that don't
        // verify are none. NUT-09 has them all the same.
        ChangeTurn::Take(_)
        | ChangeTurn::Miss(_)
        | ChangeTurn::GiveUp(_)
        | ChangeTurn::Keysets
        | ChangeTurn::Wait(_) => restore_change(context, view),
    }
}

/// `None` where nothing can be left over.
fn change_ask(context: &FlowContext) -> Result<Option<ChangeAsk<'_>>, EcashError> {
    let quote = quote(context)?;
    let Some(range) = &quote.range else { return Ok(None) };
    let short = || EcashError::Corrupt("the inputs don't cover the payment".into());
    let bounds = quote.change_bounds().ok_or_else(short)?;
    let outputs = RangeOutputs::of(range, &context.environment.seed)?;
    let (keys, owed) = (context.mint()?, quote.owed.as_ref());
    Ok(Some(ChangeAsk { context, outputs, keys, bounds, owed }))
}

fn restore_change(context: &FlowContext, view: MeltView) -> FlowTurn {
    let Some(ask) = change_ask(context)? else { return paid_in_full(&view, Vec::new()) };
    let (mint, request) = (context.mint()?.url.clone(), ask.outputs.restore());
    on(PayStage::Change(view), FlowStep::Ask(FlowRequest::Restore { mint, request }))
}

fn changed(
    context: &FlowContext,
    ask: &ChangeAsk<'_>,
    view: &MeltView,
    turn: ChangeTurn,
) -> FlowTurn {
    let is_stored = context.open.entity.state == EntityState::Paid;
    match turn {
        ChangeTurn::Settled(parts) if !is_stored => paid_in_full(view, parts),
        ChangeTurn::Settled(parts) => apply(bring(EntityEvent::CloseChange, parts)),
        ChangeTurn::Take(parts) if !is_stored => {
            let event = bring(EntityEvent::CompleteOwing, parts);
            apply(PaymentEvent { preimage: view.preimage.clone(), ..event })
        }
        ChangeTurn::Take(parts) => apply(bring(EntityEvent::TakeChange, parts)),
        ChangeTurn::Miss(sum) => apply(ask.missing(sum)),
        ChangeTurn::GiveUp(kept) => apply(ask.given_up(EntityEvent::CloseChange, kept)),
        ChangeTurn::Keysets => end(FlowStep::Wait(WaitReason::ForKeysets)),
        ChangeTurn::Wait(why) => retry(why),
    }
}

fn paid_in_full(view: &MeltView, parts: ChangeParts) -> FlowTurn {
    let event = bring(EntityEvent::Complete, parts);
    apply(PaymentEvent { preimage: view.preimage.clone(), ..event })
}

fn fence_range(context: &FlowContext) -> Result<&OutputRange, EcashError> {
    let missing = || EcashError::Corrupt("a fence has no outputs".into());
    quote(context)?.fence.as_ref().ok_or_else(missing)
}

fn ask_fence(context: &FlowContext) -> FlowTurn {
    let outputs = RangeOutputs::of(fence_range(context)?, &context.environment.seed)?;
    let request = SwapRequest::new(context.open.held.clone(), outputs.messages());
    let mint = context.mint()?.url.clone();
    on(PayStage::Fence, FlowStep::Ask(FlowRequest::Swap { mint, request }))
}

fn fenced(context: &FlowContext, signed: &[cashu::BlindSignature]) -> FlowTurn {
    let outputs = RangeOutputs::of(fence_range(context)?, &context.environment.seed)?;
    match outputs.proofs(signed, &context.mint()?.keys) {
        Some(proofs) => fence(proofs),
        None => retry("signatures of the fence don't verify"),
    }
}

fn fence(proofs: Vec<Proof>) -> FlowTurn {
    let event = PaymentEvent::new(EntityEvent::Fence).because("Not paid; the proofs were renewed.");
    apply(event.with_proofs(proofs.into_iter().map(FreshProof::from)))
}

/// A payment that we had given up was made after all.
fn prove(context: &FlowContext, view: &MeltView, spent: Vec<ProofName>) -> FlowTurn {
    let is_proven = |said: &str| quote(context).is_ok_and(|quote| quote.is_proof(said));
    let is_said_only = spent.is_empty() && !view.preimage.as_deref().is_some_and(is_proven);
    // Nothing that we let go is gone: the mint's word alone. It is asked again.
    if is_said_only && !context.open.let_go.is_empty() {
        return end(FlowStep::Done);
    }
    let Some(ask) = change_ask(context)? else { return proved(view, spent, Vec::new()) };
    if let ChangeTurn::Settled(parts) = ask.read(view.change.as_deref(), None) {
        return proved(view, spent, parts);
    }
    let (mint, request) = (context.mint()?.url.clone(), ask.outputs.restore());
    let stage = PayStage::ProvedChange(view.clone(), spent);
    on(stage, FlowStep::Ask(FlowRequest::Restore { mint, request }))
}

/// Nobody waits in a payment that was given up: change that can't be read now is left.
fn proved(view: &MeltView, spent: Vec<ProofName>, change: ChangeParts) -> FlowTurn {
    let event = bring(EntityEvent::ProvePaid, change).because("The mint has paid after all.");
    apply(PaymentEvent { spent, preimage: view.preimage.clone(), ..event })
}
