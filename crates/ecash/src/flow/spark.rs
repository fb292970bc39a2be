//! Paying and being paid through Spark.

use unspent_model::ecash::{EntityEvent, EntityKind, EntityState, Variant};

use super::{
    Answer, Course, Desk, Next, Request, SparkAnswer, SparkIds, SparkRequest, Turn, apply, end,
    retry,
    source::{self, SourceStage},
    watch,
};
use crate::{
    details::{Details, SparkReceive, SparkSend},
    error::EcashError,
    event::Event,
};

/// What was asked last.
#[derive(Debug)]
pub(super) enum Stage {
    /// Whether a payment with our key exists.
    Find,
    /// To pay.
    Send,
    /// Whether it exists after all, since paying was refused for this reason.
    FindAgain(String),
    /// How the payment stands.
    Sending,
    /// How our invoice stands.
    Receiving,
    /// Something at the token's mint.
    Source(SourceStage),
}

fn on(stage: Stage, next: Next) -> Turn {
    Ok((Course::Spark(stage), next))
}

fn ask(request: SparkRequest) -> Next {
    Next::Ask(Request::Spark(request))
}

fn send(desk: &Desk) -> Result<&SparkSend, EcashError> {
    match &desk.open.entity.details {
        Details::SparkSend(send) => Ok(send),
        _ => Err(EcashError::Corrupt("a Spark send has other details".into())),
    }
}

fn receive(desk: &Desk) -> Result<&SparkReceive, EcashError> {
    match &desk.open.entity.details {
        Details::SparkReceive(receive) => Ok(receive),
        _ => Err(EcashError::Corrupt("a Spark receive has other details".into())),
    }
}

fn find(desk: &Desk) -> Result<Next, EcashError> {
    let payment_hash = send(desk)?.payment_hash.clone();
    Ok(ask(SparkRequest::FindSend { key: desk.open.entity.id.clone(), payment_hash }))
}

pub(super) fn start(desk: &Desk) -> Turn {
    let entity = &desk.open.entity;
    match (entity.kind, entity.state) {
        (EntityKind::SparkSendQuote, EntityState::Unpaid) => on(Stage::Find, find(desk)?),
        (EntityKind::SparkSendQuote, EntityState::Pending) => {
            let missing = || EcashError::Corrupt("a payment has no Spark id".into());
            let request_id = send(desk)?.request_id.clone().ok_or_else(missing)?;
            on(Stage::Sending, ask(SparkRequest::SendStatus { request_id }))
        }
        (EntityKind::SparkReceiveQuote, EntityState::Paid) if has_open_change(desk) => {
            on_source(source::start(desk)?)
        }
        (EntityKind::SparkReceiveQuote, state) if state != EntityState::Paid => {
            let request_id = receive(desk)?.request_id.clone();
            on(Stage::Receiving, ask(SparkRequest::ReceiveStatus { request_id }))
        }
        (_, _) => end(Next::Done),
    }
}

fn has_open_change(desk: &Desk) -> bool {
    let source = desk.open.entity.details.source();
    source.is_some_and(|source| source.range.is_some() && !source.change_stored)
}

fn on_source((stage, next): (Option<SourceStage>, Next)) -> Turn {
    match stage {
        Some(stage) => on(Stage::Source(stage), next),
        None => end(next),
    }
}

pub(super) fn answer(desk: &Desk, stage: Stage, answer: Answer) -> Turn {
    let said = match (stage, answer) {
        (Stage::Source(stage), answer) => return on_source(source::answer(desk, stage, answer)?),
        (_, Answer::Fault(fault)) => return retry(fault.to_string()),
        (stage, Answer::Spark(said)) => (stage, said),
        (_, _) => return retry("Spark answered something else than it was asked"),
    };
    match said {
        (_, SparkAnswer::Sent { ids, preimage }) => sent(ids, preimage),
        (Stage::Find | Stage::Send | Stage::FindAgain(_), SparkAnswer::Sending(ids)) => {
            let event = Event::new(EntityEvent::MarkPending);
            apply(Event { spark: Some(ids), ..event })
        }
        (Stage::Find, SparkAnswer::NoSuchSend) => pay(desk),
        // Refused, yet it may be ours from before.
        (Stage::Send, SparkAnswer::Rejected(reason)) => on(Stage::FindAgain(reason), find(desk)?),
        (Stage::FindAgain(reason), SparkAnswer::NoSuchSend) => {
            apply(Event::new(EntityEvent::Fail).because(reason))
        }
        (Stage::Find | Stage::FindAgain(_) | Stage::Sending, SparkAnswer::Returned) => {
            apply(Event::new(EntityEvent::Fail).because("Lightning payment failed."))
        }
        (Stage::Receiving, SparkAnswer::Received { transfer_id, preimage }) => {
            received(desk, transfer_id, preimage)
        }
        (Stage::Receiving, SparkAnswer::ReceiveFailed(reason)) => match desk.open.entity.state {
            EntityState::Unpaid => apply(Event::new(EntityEvent::Fail).because(reason)),
            _ => end(Next::Done),
        },
        (Stage::Receiving, SparkAnswer::Waiting) => waiting(desk),
        (_, SparkAnswer::Unknown(words)) => retry(words),
        (_, _) => watch(),
    }
}

fn sent(ids: SparkIds, preimage: String) -> Turn {
    let event = Event::new(EntityEvent::Complete);
    apply(Event { spark: Some(ids), preimage: Some(preimage), ..event })
}

fn pay(desk: &Desk) -> Turn {
    if desk.is_expired() {
        return apply(Event::new(EntityEvent::Fail).because("Lightning invoice expired."));
    }
    let send = send(desk)?;
    let request = SparkRequest::Send {
        key: desk.open.entity.id.clone(),
        invoice: send.invoice.clone(),
        amount: send.is_amountless.then_some(send.amount),
        max_fee: send.max_fee,
    };
    on(Stage::Send, ask(request))
}

fn received(desk: &Desk, transfer_id: String, preimage: String) -> Turn {
    let is_over = desk.open.entity.state != EntityState::Unpaid;
    let what = if is_over { EntityEvent::LatePayment } else { EntityEvent::Complete };
    let request_id = receive(desk)?.request_id.clone();
    let spark = Some(SparkIds { request_id, transfer_id, fee: 0 });
    apply(Event { spark, preimage: Some(preimage), ..Event::new(what) })
}

fn waiting(desk: &Desk) -> Turn {
    let entity = &desk.open.entity;
    match entity.state {
        EntityState::Unpaid if entity.variant == Variant::CashuToken => {
            on_source(source::start(desk)?)
        }
        EntityState::Unpaid if desk.is_expired() => {
            apply(Event::new(EntityEvent::Expire).because("Nobody paid in time."))
        }
        _ => watch(),
    }
}
