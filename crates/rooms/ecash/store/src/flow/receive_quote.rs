//! Being paid by an invoice of a mint, or by the melt of a token.

use cashu::{MintQuoteState, MintRequest, Proof, nut20::derive_quote_locking_key};
use unspent_model::ecash::{EntityEvent, EntityState, Variant, split_amount};

use super::{
    Answer, Course, Desk, FaultClass, Next, Request, Turn, Wait, apply, end,
    outputs::{Outputs, Recovered},
    retry,
    source::{self, SourceStage},
    watch, with_states,
};
use crate::{
    details::{Details, ReceiveQuote},
    error::EcashError,
    event::{Event, FreshProof, RangeAsk},
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
    /// Whether restored proofs are still good.
    Restored(Vec<Proof>),
}

fn on(stage: ReceiveStage, next: Next) -> Turn {
    Ok((Course::ReceiveQuote(stage), next))
}

fn quote(desk: &Desk) -> Result<&ReceiveQuote, EcashError> {
    let Details::ReceiveQuote(quote) = &desk.open.entity.details else {
        return Err(EcashError::Corrupt("a receive quote has other details".into()));
    };
    Ok(quote)
}

fn ask_source(desk: &Desk) -> Turn {
    on_source(source::start(desk)?)
}

fn on_source((stage, next): (Option<SourceStage>, Next)) -> Turn {
    match stage {
        Some(stage) => on(ReceiveStage::Source(stage), next),
        None => end(next),
    }
}

pub(super) fn start(desk: &Desk) -> Turn {
    let entity = &desk.open.entity;
    match entity.state {
        EntityState::Paid => ask_mint(desk),
        EntityState::Completed if entity.awaits_change() => ask_source(desk),
        EntityState::Completed => end(Next::Done),
        EntityState::Unpaid | EntityState::Failed | EntityState::Expired => {
            let (mint, quote) = (desk.mint()?.url.clone(), quote(desk)?.quote_id.clone());
            on(ReceiveStage::Look, Next::Ask(Request::MintQuote { mint, quote }))
        }
        EntityState::Draft | EntityState::Pending | EntityState::Reversed => {
            Err(EcashError::Corrupt("a receive quote is in a state that it can't have".into()))
        }
    }
}

pub(super) fn answer(desk: &Desk, stage: ReceiveStage, answer: Answer) -> Turn {
    match (stage, answer) {
        (ReceiveStage::Look, Answer::MintQuote(state)) => looked(desk, state),
        (ReceiveStage::Source(stage), answer) => on_source(source::answer(desk, stage, answer)?),
        (ReceiveStage::Mint, Answer::Signatures(signed)) => {
            let outputs = outputs(desk)?;
            match outputs.proofs(&signed, &desk.mint()?.keys) {
                Some(proofs) => complete(proofs.into_iter().map(FreshProof::from).collect()),
                None => ask_restore(desk, false),
            }
        }
        (ReceiveStage::Mint, Answer::Fault(fault)) if fault.class() == FaultClass::Transient => {
            retry(fault.to_string())
        }
        (ReceiveStage::Mint, Answer::Fault(fault)) => {
            ask_restore(desk, fault.class() == FaultClass::RefreshKeysets)
        }
        (ReceiveStage::Restore(is_keyset), Answer::Restored(found)) => {
            match outputs(desk)?.recovered(&found, &desk.mint()?.keys) {
                Recovered::All(proofs) => {
                    let next = desk.ask_states(&proofs)?;
                    on(ReceiveStage::Restored(proofs), next)
                }
                Recovered::Nothing if is_keyset => take_new_range(desk),
                Recovered::Nothing => retry("the mint has not issued yet"),
                Recovered::Unclear => retry("the mint restores only a part of the outputs"),
            }
        }
        (ReceiveStage::Restored(proofs), Answer::States(states)) => {
            complete(with_states(proofs, &states)?)
        }
        (_, Answer::Fault(fault)) => retry(fault.to_string()),
        (_, _) => retry("the mint answered something else than it was asked"),
    }
}

fn looked(desk: &Desk, state: MintQuoteState) -> Turn {
    let entity = &desk.open.entity;
    let is_over = entity.state != EntityState::Unpaid;
    match state {
        MintQuoteState::Paid | MintQuoteState::Issued => {
            let late = EntityEvent::LatePayment;
            let what = if is_over { late } else { EntityEvent::ProcessPayment };
            apply(Event::new(what).with_range(ask(desk)?))
        }
        MintQuoteState::Unpaid if is_over => watch(),
        MintQuoteState::Unpaid if entity.variant == Variant::CashuToken => ask_source(desk),
        MintQuoteState::Unpaid if desk.is_expired() => {
            apply(Event::new(EntityEvent::Expire).because("Nobody paid in time."))
        }
        MintQuoteState::Unpaid => watch(),
    }
}

/// Outputs of the active keyset.
fn ask(desk: &Desk) -> Result<RangeAsk, EcashError> {
    let active = &desk.mint()?.active;
    let bad = || EcashError::argument("the active keyset can't make the sum");
    let amounts = split_amount(quote(desk)?.amount, &active.amounts).ok_or_else(bad)?;
    Ok(RangeAsk { keyset_id: active.keyset_id.clone(), amounts, send_count: 0 })
}

fn outputs(desk: &Desk) -> Result<Outputs, EcashError> {
    let missing = || EcashError::Corrupt("a paid quote has no outputs".into());
    Outputs::of(quote(desk)?.range.as_ref().ok_or_else(missing)?, &desk.around.seed)
}

/// Signed in both forms: mints know the one or the other.
fn ask_mint(desk: &Desk) -> Turn {
    let quote = quote(desk)?;
    let bug = || EcashError::Bug("a mint request can't be signed".into());
    let key = derive_quote_locking_key(&desk.around.seed, quote.lock_index).map_err(|_| bug())?;
    let outputs = outputs(desk)?.messages();
    let mut request = MintRequest { quote: quote.quote_id.clone(), outputs, signature: None };
    let mut tagged = request.clone();
    tagged.sign(&key).map_err(|_| bug())?;
    request.sign_legacy(key).map_err(|_| bug())?;
    let mint = desk.mint()?.url.clone();
    on(ReceiveStage::Mint, Next::Ask(Request::Mint { mint, request, tagged }))
}

fn ask_restore(desk: &Desk, is_keyset: bool) -> Turn {
    let (mint, request) = (desk.mint()?.url.clone(), outputs(desk)?.restore());
    on(ReceiveStage::Restore(is_keyset), Next::Ask(Request::Restore { mint, request }))
}

fn take_new_range(desk: &Desk) -> Turn {
    let old = quote(desk)?.range.as_ref().map_or("", |range| range.keyset_id.as_str());
    match desk.new_range(old, ask(desk)?) {
        Some(ask) => apply(Event::new(EntityEvent::TakeNewRange).with_range(ask)),
        None => end(Next::Wait(Wait::ForKeysets)),
    }
}

fn complete(proofs: Vec<FreshProof>) -> Turn {
    apply(Event::new(EntityEvent::Complete).with_proofs(proofs))
}
