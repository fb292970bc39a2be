//! Paying an invoice by a melt.

use cashu::{MeltQuoteState, MeltRequest, Proof, State, SwapRequest};
use unspent_model::ecash::{EntityEvent, EntityState, split_amount};

use super::{
    Answer, Course, Desk, FaultClass, MeltView, Next, Request, Turn, Wait, all_are, apply, end,
    outputs::{Outputs, Recovered},
    retry, spent_of, watch,
};
use crate::{
    details::{Details, OutputRange, SendQuote},
    error::EcashError,
    event::{Event, FreshProof, ProofName, RangeAsk},
};

/// What was asked last.
#[derive(Debug)]
pub(super) enum PayStage {
    /// The quote, to begin with.
    Look,
    /// To pay.
    Pay,
    /// The quote, after paying was refused or unclear.
    LookAgain(Refusal),
    /// The inputs, before giving up.
    Inputs(String),
    /// The quote, since inputs are spent.
    LookAtLast(String, Vec<ProofName>),
    /// Change, since the quote is paid.
    Change(Option<String>),
    /// To swap the inputs to ourselves.
    Fence,
    /// Whether that swap happened.
    FenceRestore,
    /// Inputs of a payment that we had given up.
    Proving(MeltView),
}

/// How paying went.
#[derive(Debug)]
pub(super) enum Refusal {
    Unclear,
    Definite(String),
    Keyset,
}

fn on(stage: PayStage, next: Next) -> Turn {
    Ok((Course::SendQuote(stage), next))
}

fn quote(desk: &Desk) -> Result<&SendQuote, EcashError> {
    let Details::SendQuote(quote) = &desk.open.entity.details else {
        return Err(EcashError::Corrupt("a send quote has other details".into()));
    };
    Ok(quote)
}

fn look(desk: &Desk) -> Result<Next, EcashError> {
    let (mint, quote) = (desk.mint()?.url.clone(), quote(desk)?.quote_id.clone());
    Ok(Next::Ask(Request::MeltQuote { mint, quote }))
}

pub(super) fn start(desk: &Desk) -> Turn {
    on(PayStage::Look, look(desk)?)
}

pub(super) fn answer(desk: &Desk, stage: PayStage, answer: Answer) -> Turn {
    match (stage, answer) {
        (PayStage::Look, Answer::Melt(view)) => looked(desk, view),
        (PayStage::Pay, Answer::Melt(view)) if view.is_unpaid() => {
            let reason = "The mint did not pay.".to_owned();
            on(PayStage::Inputs(reason), desk.ask_states(&desk.open.held)?)
        }
        (PayStage::Pay, Answer::Melt(view)) => under_way(desk, view),
        (PayStage::Pay, Answer::Fault(fault)) => {
            let refusal = match fault.class() {
                FaultClass::Definite => Refusal::Definite(fault.to_string()),
                FaultClass::RefreshKeysets => Refusal::Keyset,
                FaultClass::DoneAlready
                | FaultClass::UnknownOutcome
                | FaultClass::Transient
                | FaultClass::LockFormat => Refusal::Unclear,
            };
            on(PayStage::LookAgain(refusal), look(desk)?)
        }
        (PayStage::LookAgain(refusal), Answer::Melt(view)) => looked_again(desk, refusal, view),
        (PayStage::Inputs(reason), Answer::States(states)) => {
            if all_are(&states, State::Unspent) {
                give_up(desk, &reason, Vec::new())
            } else if states.iter().any(|found| found.state == State::Spent) {
                on(PayStage::LookAtLast(reason, spent_of(&states)), look(desk)?)
            } else {
                watch()
            }
        }
        // Two readings agree that the mint has not paid: somebody else has spent the inputs.
        (PayStage::LookAtLast(reason, spent), Answer::Melt(view)) if view.is_unpaid() => {
            give_up(desk, &reason, spent)
        }
        (PayStage::LookAtLast(..), Answer::Melt(view)) => under_way(desk, view),
        (PayStage::Change(preimage), Answer::Restored(found)) => {
            let Some(range) = &quote(desk)?.range else { return complete(preimage, Vec::new()) };
            let outputs = Outputs::of(range, &desk.around.seed)?;
            complete(preimage, outputs.recovered_change(&found, &desk.mint()?.keys))
        }
        (PayStage::Fence, Answer::Signatures(signed)) => fenced(desk, &signed),
        (PayStage::Fence, Answer::Fault(_)) => {
            let mint = desk.mint()?.url.clone();
            let request = Outputs::of(fence_range(desk)?, &desk.around.seed)?.restore();
            on(PayStage::FenceRestore, Next::Ask(Request::Restore { mint, request }))
        }
        (PayStage::FenceRestore, Answer::Restored(found)) => {
            let outputs = Outputs::of(fence_range(desk)?, &desk.around.seed)?;
            match outputs.recovered(&found, &desk.mint()?.keys) {
                Recovered::All(proofs) => fence(proofs),
                Recovered::Nothing | Recovered::Unclear => retry("the fence is not done yet"),
            }
        }
        (PayStage::Proving(view), Answer::States(states)) => prove(desk, &view, spent_of(&states)),
        (_, Answer::Fault(fault)) => retry(fault.to_string()),
        (_, _) => retry("the mint answered something else than it was asked"),
    }
}

fn looked(desk: &Desk, view: MeltView) -> Turn {
    let entity = &desk.open.entity;
    if matches!(entity.state, EntityState::Failed | EntityState::Expired) {
        if view.state != MeltQuoteState::Paid || entity.alarm {
            return end(Next::Done);
        }
        let next = desk.ask_names(&desk.open.let_go)?;
        return if desk.open.let_go.is_empty() {
            prove(desk, &view, Vec::new())
        } else {
            on(PayStage::Proving(view), next)
        };
    }
    if view.is_unpaid() { unpaid(desk) } else { under_way(desk, view) }
}

/// The mint has not paid, and nothing of ours is under way.
fn unpaid(desk: &Desk) -> Turn {
    let (entity, quote) = (&desk.open.entity, quote(desk)?);
    if quote.fence.is_some() {
        return ask_fence(desk);
    }
    if entity.state == EntityState::Pending {
        let reason = "The payment failed.".to_owned();
        return on(PayStage::Inputs(reason), desk.ask_states(&desk.open.held)?);
    }
    if desk.is_expired() {
        return on(PayStage::Inputs(EXPIRED.to_owned()), desk.ask_states(&desk.open.held)?);
    }
    if !entity.melt_initiated {
        return apply(Event::new(EntityEvent::MarkMeltInitiated));
    }
    let outputs = quote.range.as_ref().map(|range| Outputs::of(range, &desk.around.seed));
    let outputs = outputs.transpose()?.map(|outputs| outputs.messages());
    let request = MeltRequest::new(quote.quote_id.clone(), desk.open.held.clone(), outputs);
    let mint = desk.mint()?.url.clone();
    on(PayStage::Pay, Next::Ask(Request::Melt { mint, request }))
}

const EXPIRED: &str = "The quote has expired.";

/// Paid, pending, or something we don't know.
fn under_way(desk: &Desk, view: MeltView) -> Turn {
    match view.state {
        MeltQuoteState::Paid => paid(desk, view),
        MeltQuoteState::Pending if desk.open.entity.state == EntityState::Unpaid => {
            apply(Event::new(EntityEvent::MarkPending))
        }
        MeltQuoteState::Pending => watch(),
        MeltQuoteState::Unpaid | MeltQuoteState::Failed | MeltQuoteState::Unknown => {
            retry("the mint does not say how the payment stands")
        }
    }
}

fn looked_again(desk: &Desk, refusal: Refusal, view: MeltView) -> Turn {
    if !view.is_unpaid() {
        return under_way(desk, view);
    }
    match refusal {
        Refusal::Unclear => retry("the melt is unclear; it will be asked for again"),
        Refusal::Definite(reason) => {
            on(PayStage::Inputs(reason), desk.ask_states(&desk.open.held)?)
        }
        Refusal::Keyset => {
            let quote = quote(desk)?;
            let Some(old) = &quote.range else { return end(Next::Wait(Wait::ForKeysets)) };
            let keyset_id = desk.mint()?.active.keyset_id.clone();
            let ask = RangeAsk { keyset_id, amounts: old.amounts.clone(), send_count: 0 };
            match desk.new_range(&old.keyset_id, ask) {
                Some(ask) => apply(Event::new(EntityEvent::TakeNewRange).with_range(ask)),
                None => end(Next::Wait(Wait::ForKeysets)),
            }
        }
    }
}

/// Inputs are free, or spent by somebody else. Whether the mint may still pay, nobody can promise;
/// the fence makes sure.
fn give_up(desk: &Desk, reason: &str, spent: Vec<ProofName>) -> Turn {
    let (entity, quote) = (&desk.open.entity, quote(desk)?);
    if desk.around.fence && entity.melt_initiated && spent.is_empty() && quote.fence.is_none() {
        let active = &desk.mint()?.active;
        let short = || EcashError::Corrupt("the inputs don't cover their own fee".into());
        let amount = quote.worth().ok_or_else(short)?;
        if let Some(amounts) = split_amount(amount, &active.amounts).filter(|a| !a.is_empty()) {
            let keyset_id = active.keyset_id.clone();
            let ask = RangeAsk { keyset_id, amounts, send_count: 0 };
            return apply(Event::new(EntityEvent::TakeFenceRange).with_range(ask));
        }
    }
    let may_expire = entity.state == EntityState::Unpaid && desk.is_expired();
    let what = if may_expire { EntityEvent::Expire } else { EntityEvent::Fail };
    apply(Event { spent, ..Event::new(what).because(reason) })
}

fn paid(desk: &Desk, view: MeltView) -> Turn {
    let quote = quote(desk)?;
    let Some(range) = &quote.range else { return complete(view.preimage, Vec::new()) };
    let outputs = Outputs::of(range, &desk.around.seed)?;
    let keys = &desk.mint()?.keys;
    if let Some(change) = view.change.and_then(|signed| outputs.change(&signed, keys)) {
        return complete(view.preimage, change);
    }
    let mint = desk.mint()?.url.clone();
    let request = outputs.restore();
    on(PayStage::Change(view.preimage), Next::Ask(Request::Restore { mint, request }))
}

fn complete(preimage: Option<String>, change: Vec<Proof>) -> Turn {
    let event = Event::new(EntityEvent::Complete);
    let event = event.with_proofs(change.into_iter().map(FreshProof::from));
    apply(Event { preimage, ..event })
}

fn fence_range(desk: &Desk) -> Result<&OutputRange, EcashError> {
    let missing = || EcashError::Corrupt("a fence has no outputs".into());
    quote(desk)?.fence.as_ref().ok_or_else(missing)
}

fn ask_fence(desk: &Desk) -> Turn {
    let outputs = Outputs::of(fence_range(desk)?, &desk.around.seed)?;
    let request = SwapRequest::new(desk.open.held.clone(), outputs.messages());
    let mint = desk.mint()?.url.clone();
    on(PayStage::Fence, Next::Ask(Request::Swap { mint, request }))
}

fn fenced(desk: &Desk, signed: &[cashu::BlindSignature]) -> Turn {
    let outputs = Outputs::of(fence_range(desk)?, &desk.around.seed)?;
    match outputs.proofs(signed, &desk.mint()?.keys) {
        Some(proofs) => fence(proofs),
        None => retry("signatures of the fence don't verify"),
    }
}

fn fence(proofs: Vec<Proof>) -> Turn {
    let event = Event::new(EntityEvent::Fence).because("Not paid; the proofs were renewed.");
    apply(event.with_proofs(proofs.into_iter().map(FreshProof::from)))
}

/// A payment that we had given up was made after all.
fn prove(desk: &Desk, view: &MeltView, spent: Vec<ProofName>) -> Turn {
    let change = match (&quote(desk)?.range, &view.change) {
        (Some(range), Some(signed)) => {
            let outputs = Outputs::of(range, &desk.around.seed)?;
            outputs.change(signed, &desk.mint()?.keys).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let event = Event::new(EntityEvent::ProvePaid).because("The mint has paid after all.");
    let event = event.with_proofs(change.into_iter().map(FreshProof::from));
    apply(Event { spent, preimage: view.preimage.clone(), ..event })
}
