//! Swaps: making a token, and claiming one.

use cashu::{Proof, Proofs, State, SwapRequest};
use unspent_model::ecash::{EntityEvent, EntityKind, split_amount};

use super::{
    Answer, Course, Desk, FaultClass, MintFault, Next, Request, Turn, Wait, all_are, apply, end,
    outputs::{Outputs, Recovered},
    retry, spent_of, with_states,
};
use crate::{
    details::{Details, OutputRange},
    error::EcashError,
    event::{Event, FreshProof, RangeAsk},
};

/// What was asked last.
#[derive(Debug)]
pub(super) enum SwapStage {
    /// To swap.
    Swap,
    /// Which outputs are signed, after the swap was refused or unclear.
    Restore(Trouble),
    /// Whether restored proofs are still good.
    Restored(Vec<Proof>),
    /// The inputs, before giving up.
    Inputs(String),
}

/// How the swap went.
#[derive(Debug)]
pub(super) enum Trouble {
    Unclear(String),
    Spent,
    Definite(String),
    Keyset,
}

fn on(stage: SwapStage, next: Next) -> Turn {
    Ok((Course::Swap(stage), next))
}

fn range(desk: &Desk) -> Result<&OutputRange, EcashError> {
    let missing = || EcashError::Corrupt("a swap has no outputs".into());
    desk.open.entity.details.range().ok_or_else(missing)
}

fn is_claim(desk: &Desk) -> bool {
    desk.open.entity.kind == EntityKind::CashuReceiveSwap
}

/// What the swap spends: the token that is claimed, or our own proofs.
fn inputs(desk: &Desk) -> &Proofs {
    if is_claim(desk) { &desk.open.token } else { &desk.open.held }
}

pub(super) fn start(desk: &Desk) -> Turn {
    let outputs = Outputs::of(range(desk)?, &desk.around.seed)?;
    let request = SwapRequest::new(inputs(desk).clone(), outputs.messages());
    let mint = desk.mint()?.url.clone();
    on(SwapStage::Swap, Next::Ask(Request::Swap { mint, request }))
}

pub(super) fn answer(desk: &Desk, stage: SwapStage, answer: Answer) -> Turn {
    match (stage, answer) {
        (SwapStage::Swap, Answer::Signatures(signed)) => {
            let outputs = Outputs::of(range(desk)?, &desk.around.seed)?;
            match outputs.proofs(&signed, &desk.mint()?.keys) {
                Some(proofs) => done(desk, proofs.into_iter().map(FreshProof::from).collect()),
                None => ask_restore(desk, Trouble::Unclear("signatures don't verify".into())),
            }
        }
        (SwapStage::Swap, Answer::Fault(fault)) => refused(desk, &fault),
        (SwapStage::Restore(trouble), Answer::Restored(found)) => {
            let outputs = Outputs::of(range(desk)?, &desk.around.seed)?;
            match outputs.recovered(&found, &desk.mint()?.keys) {
                Recovered::All(proofs) => {
                    let next = desk.ask_states(&proofs)?;
                    on(SwapStage::Restored(proofs), next)
                }
                Recovered::Nothing => unsigned(desk, trouble),
                Recovered::Unclear => retry("the mint restores only a part of the outputs"),
            }
        }
        (SwapStage::Restored(proofs), Answer::States(states)) => {
            done(desk, with_states(proofs, &states)?)
        }
        (SwapStage::Inputs(reason), Answer::States(states)) => {
            if all_are(&states, State::Unspent) {
                apply(Event::new(EntityEvent::Fail).because(reason))
            } else if all_are(&states, State::Spent) && is_claim(desk) {
                claimed()
            } else if states.iter().any(|found| found.state == State::Spent) && !is_claim(desk) {
                let spent = spent_of(&states);
                apply(Event { spent, ..Event::new(EntityEvent::Fail).because(SPENT_ELSEWHERE) })
            } else {
                retry(reason)
            }
        }
        (_, Answer::Fault(fault)) => retry(fault.to_string()),
        (_, _) => retry("the mint answered something else than it was asked"),
    }
}

const SPENT_ELSEWHERE: &str = "Some of the proofs were spent elsewhere.";

fn refused(desk: &Desk, fault: &MintFault) -> Turn {
    let words = fault.to_string();
    match fault.class() {
        FaultClass::Transient => retry(words),
        FaultClass::Definite => ask_restore(desk, Trouble::Definite(words)),
        FaultClass::RefreshKeysets => ask_restore(desk, Trouble::Keyset),
        FaultClass::UnknownOutcome if *fault == MintFault::AlreadySpent => {
            ask_restore(desk, Trouble::Spent)
        }
        FaultClass::UnknownOutcome | FaultClass::DoneAlready | FaultClass::LockFormat => {
            ask_restore(desk, Trouble::Unclear(words))
        }
    }
}

fn ask_restore(desk: &Desk, trouble: Trouble) -> Turn {
    let request = Outputs::of(range(desk)?, &desk.around.seed)?.restore();
    let mint = desk.mint()?.url.clone();
    on(SwapStage::Restore(trouble), Next::Ask(Request::Restore { mint, request }))
}

/// The mint has signed nothing of ours.
fn unsigned(desk: &Desk, trouble: Trouble) -> Turn {
    match trouble {
        Trouble::Unclear(words) => retry(words),
        Trouble::Spent if is_claim(desk) => claimed(),
        Trouble::Spent => {
            on(SwapStage::Inputs(SPENT_ELSEWHERE.into()), desk.ask_states(inputs(desk))?)
        }
        Trouble::Definite(words) => on(SwapStage::Inputs(words), desk.ask_states(inputs(desk))?),
        Trouble::Keyset => match new_outputs(desk)? {
            Some(ask) => apply(Event::new(EntityEvent::TakeNewRange).with_range(ask)),
            None => end(Next::Wait(Wait::ForKeysets)),
        },
    }
}

fn claimed() -> Turn {
    apply(Event::new(EntityEvent::FailClaimed).because("Token already claimed"))
}

/// The same sums on the active keyset.
fn new_outputs(desk: &Desk) -> Result<Option<RangeAsk>, EcashError> {
    let active = &desk.mint()?.active;
    let split = |sum: Option<u64>| {
        let bad = || EcashError::argument("the active keyset can't make the sum");
        let short = || EcashError::Corrupt("a swap gives more than it takes".into());
        split_amount(sum.ok_or_else(short)?, &active.amounts).ok_or_else(bad)
    };
    let (amounts, send_count) = match &desk.open.entity.details {
        Details::SendSwap(swap) => {
            let mut amounts = split(Some(swap.to_send))?;
            let send_count = amounts.len();
            amounts.extend(split(swap.change())?);
            (amounts, send_count)
        }
        Details::ReceiveSwap(swap) => (split(swap.worth())?, 0),
        Details::SendQuote(_)
        | Details::ReceiveQuote(_)
        | Details::SparkSend(_)
        | Details::SparkReceive(_) => {
            return Err(EcashError::Corrupt("a swap has other details".into()));
        }
    };
    let ask = RangeAsk { keyset_id: active.keyset_id.clone(), amounts, send_count };
    Ok(desk.new_range(&range(desk)?.keyset_id, ask))
}

fn done(desk: &Desk, mut proofs: Vec<FreshProof>) -> Turn {
    let Details::SendSwap(swap) = &desk.open.entity.details else {
        return apply(Event::new(EntityEvent::Complete).with_proofs(proofs));
    };
    let change = proofs.split_off(swap.send_count.min(proofs.len()));
    let event = Event::new(EntityEvent::Commit).with_proofs(change);
    apply(Event { to_send: proofs, ..event })
}
