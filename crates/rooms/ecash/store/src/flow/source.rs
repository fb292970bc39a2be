//! The melt of a token that pays a receive quote of another account.

use cashu::{MeltQuoteState, MeltRequest, Proof, State};
use unspent_model::ecash::{EntityEvent, EntityState};

use super::{
    Answer, Desk, FaultClass, MeltView, MintFault, Next, Request, Wait, all_are, check,
    outputs::Outputs,
};
use crate::{
    details::Source,
    error::EcashError,
    event::{Event, FreshProof, ProofName, proof_name},
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
pub(super) type SourceTurn = Result<(Option<SourceStage>, Next), EcashError>;

fn end(next: Next) -> SourceTurn {
    Ok((None, next))
}

fn retry(why: impl Into<String>) -> SourceTurn {
    end(Next::Wait(Wait::Retry(why.into())))
}

fn source(desk: &Desk) -> Result<&Source, EcashError> {
    let missing = || EcashError::Corrupt("an entity paid by a token has no token".into());
    desk.open.entity.details.source().ok_or_else(missing)
}

fn look(desk: &Desk) -> Result<Next, EcashError> {
    let (mint, quote) = (desk.source()?.url.clone(), source(desk)?.melt_quote_id.clone());
    Ok(Next::Ask(Request::MeltQuote { mint, quote }))
}

pub(super) fn start(desk: &Desk) -> SourceTurn {
    Ok((Some(SourceStage::Look), look(desk)?))
}

pub(super) fn answer(desk: &Desk, stage: SourceStage, answer: Answer) -> SourceTurn {
    match (stage, answer) {
        (_, Answer::Melt(view)) if !view.is_unpaid() => under_way(desk, view),
        (SourceStage::Look, Answer::Melt(_)) => unpaid(desk),
        (SourceStage::Pay, Answer::Melt(_)) => ask_inputs(desk, MELT_FAILED),
        (SourceStage::Pay, Answer::Fault(fault)) => {
            let reason = (fault.class() == FaultClass::Definite
                || fault == MintFault::AlreadySpent)
                .then(|| fault.to_string());
            Ok((Some(SourceStage::LookAgain(reason)), look(desk)?))
        }
        (SourceStage::LookAgain(Some(reason)), Answer::Melt(_)) => ask_inputs(desk, &reason),
        (SourceStage::LookAgain(None), Answer::Melt(_)) => {
            retry("the melt of the token is unclear; it will be asked for again")
        }
        (SourceStage::Inputs(reason), Answer::States(states)) => {
            // Spent though the quote is unpaid: the token was claimed by somebody else.
            if all_are(&states, State::Unspent) || all_are(&states, State::Spent) {
                give_up(desk, &reason)
            } else {
                end(Next::Wait(Wait::ForChange))
            }
        }
        (SourceStage::Change, Answer::Restored(found)) => {
            let Some(outputs) = outputs(desk)? else { return store(Vec::new()) };
            store(outputs.recovered_change(&found, &desk.source()?.keys))
        }
        (_, Answer::Fault(fault)) => retry(fault.to_string()),
        (_, _) => retry("the mint answered something else than it was asked"),
    }
}

const MELT_FAILED: &str = "Cashu token melt failed.";

fn outputs(desk: &Desk) -> Result<Option<Outputs>, EcashError> {
    let range = source(desk)?.range.as_ref();
    range.map(|range| Outputs::of(range, &desk.around.seed)).transpose()
}

fn unpaid(desk: &Desk) -> SourceTurn {
    // A melt that was seen under way and is unpaid again has failed.
    if desk.open.entity.melt_initiated {
        return ask_inputs(desk, MELT_FAILED);
    }
    if desk.is_expired() {
        return ask_inputs(desk, "The quote has expired.");
    }
    let blanks = outputs(desk)?.map(|outputs| outputs.messages());
    let quote = source(desk)?.melt_quote_id.clone();
    let request = MeltRequest::new(quote, desk.open.token.clone(), blanks);
    let mint = desk.source()?.url.clone();
    Ok((Some(SourceStage::Pay), Next::Ask(Request::Melt { mint, request })))
}

fn ask_inputs(desk: &Desk, reason: &str) -> SourceTurn {
    let names = desk.open.token.iter().map(proof_name);
    let names: Vec<ProofName> = names.collect::<Result<_, _>>()?;
    let (mint, request) = (desk.source()?.url.clone(), check(&names)?);
    let next = Next::Ask(Request::CheckState { mint, request });
    Ok((Some(SourceStage::Inputs(reason.to_owned())), next))
}

fn give_up(desk: &Desk, reason: &str) -> SourceTurn {
    let is_late = desk.is_expired() && !desk.open.entity.melt_initiated;
    let what = if is_late { EntityEvent::Expire } else { EntityEvent::Fail };
    end(Next::Apply(Event::new(what).because(reason)))
}

/// Paid, pending, or something we don't know. The receiving side learns of the payment by itself.
fn under_way(desk: &Desk, view: MeltView) -> SourceTurn {
    let entity = &desk.open.entity;
    let is_unmarked = entity.state == EntityState::Unpaid && !entity.melt_initiated;
    match view.state {
        MeltQuoteState::Paid | MeltQuoteState::Pending if is_unmarked => {
            end(Next::Apply(Event::new(EntityEvent::MarkMeltInitiated)))
        }
        MeltQuoteState::Paid => change(desk, view),
        MeltQuoteState::Pending => end(Next::Wait(Wait::ForChange)),
        MeltQuoteState::Unpaid | MeltQuoteState::Failed | MeltQuoteState::Unknown => {
            retry("the mint does not say how the payment stands")
        }
    }
}

fn change(desk: &Desk, view: MeltView) -> SourceTurn {
    if source(desk)?.change_stored {
        return end(Next::Wait(Wait::ForChange));
    }
    let Some(outputs) = outputs(desk)? else { return store(Vec::new()) };
    let keys = &desk.source()?.keys;
    if let Some(change) = view.change.and_then(|signed| outputs.change(&signed, keys)) {
        return store(change);
    }
    let (mint, request) = (desk.source()?.url.clone(), outputs.restore());
    Ok((Some(SourceStage::Change), Next::Ask(Request::Restore { mint, request })))
}

fn store(change: Vec<Proof>) -> SourceTurn {
    let event = Event::new(EntityEvent::StoreSourceChange);
    end(Next::Apply(event.with_proofs(change.into_iter().map(FreshProof::from))))
}
