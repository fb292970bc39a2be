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
pub(super) enum SparkStage {
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

fn on(stage: SparkStage, next: Next) -> Turn {
    Ok((Course::Spark(stage), next))
}

fn ask(request: SparkRequest) -> Next {
    Next::Ask(Request::Spark(request))
}

fn send(desk: &Desk) -> Result<&SparkSend, EcashError> {
    let Details::SparkSend(send) = &desk.open.entity.details else {
        return Err(EcashError::Corrupt("a Spark send has other details".into()));
    };
    Ok(send)
}

fn receive(desk: &Desk) -> Result<&SparkReceive, EcashError> {
    let Details::SparkReceive(receive) = &desk.open.entity.details else {
        return Err(EcashError::Corrupt("a Spark receive has other details".into()));
    };
    Ok(receive)
}

fn find(desk: &Desk) -> Result<Next, EcashError> {
    let payment_hash = send(desk)?.payment_hash.clone();
    Ok(ask(SparkRequest::FindSend { key: desk.open.entity.id.clone(), payment_hash }))
}

pub(super) fn start(desk: &Desk) -> Turn {
    let entity = &desk.open.entity;
    match (entity.kind, entity.state) {
        (EntityKind::SparkSendQuote, EntityState::Unpaid) => on(SparkStage::Find, find(desk)?),
        (EntityKind::SparkSendQuote, EntityState::Pending) => {
            let missing = || EcashError::Corrupt("a payment has no Spark id".into());
            let request_id = send(desk)?.request_id.clone().ok_or_else(missing)?;
            on(SparkStage::Sending, ask(SparkRequest::SendStatus { request_id }))
        }
        (EntityKind::SparkReceiveQuote, EntityState::Paid) if desk.open.entity.awaits_change() => {
            on_source(source::start(desk)?)
        }
        (EntityKind::SparkReceiveQuote, state) if state != EntityState::Paid => {
            let request_id = receive(desk)?.request_id.clone();
            on(SparkStage::Receiving, ask(SparkRequest::ReceiveStatus { request_id }))
        }
        (_, _) => end(Next::Done),
    }
}

fn on_source((stage, next): (Option<SourceStage>, Next)) -> Turn {
    match stage {
        Some(stage) => on(SparkStage::Source(stage), next),
        None => end(next),
    }
}

pub(super) fn answer(desk: &Desk, stage: SparkStage, answer: Answer) -> Turn {
    let is_over = desk.open.entity.state != EntityState::Unpaid;
    let said = match (stage, answer) {
        (SparkStage::Source(stage), answer) => {
            return on_source(source::answer(desk, stage, answer)?);
        }
        (_, Answer::Fault(fault)) => return retry(fault.to_string()),
        (stage, Answer::Spark(said)) => (stage, said),
        (_, _) => return retry("Spark answered something else than it was asked"),
    };
    match said {
        (_, SparkAnswer::Sent { ids, preimage }) => sent(ids, preimage),
        (
            SparkStage::Find | SparkStage::Send | SparkStage::FindAgain(_),
            SparkAnswer::Sending(ids),
        ) => {
            let event = Event::new(EntityEvent::MarkPending);
            apply(Event { spark: Some(ids), ..event })
        }
        (SparkStage::Find, SparkAnswer::NoSuchSend) => pay(desk),
        // Refused, yet it may be ours from before.
        (SparkStage::Send, SparkAnswer::Rejected(reason)) => {
            on(SparkStage::FindAgain(reason), find(desk)?)
        }
        (SparkStage::FindAgain(reason), SparkAnswer::NoSuchSend) => {
            apply(Event::new(EntityEvent::Fail).because(reason))
        }
        (
            SparkStage::Find | SparkStage::FindAgain(_) | SparkStage::Sending,
            SparkAnswer::Returned,
        ) => apply(Event::new(EntityEvent::Fail).because("Lightning payment failed.")),
        (SparkStage::Receiving, SparkAnswer::Received { transfer_id, preimage }) => {
            received(desk, transfer_id, preimage)
        }
        (SparkStage::Receiving, SparkAnswer::ReceiveFailed(_)) if is_over => end(Next::Done),
        (SparkStage::Receiving, SparkAnswer::ReceiveFailed(reason)) => {
            apply(Event::new(EntityEvent::Fail).because(reason))
        }
        (SparkStage::Receiving, SparkAnswer::Waiting) => waiting(desk),
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
    on(SparkStage::Send, ask(request))
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
    if entity.state != EntityState::Unpaid {
        return watch();
    }
    if entity.variant == Variant::CashuToken {
        return on_source(source::start(desk)?);
    }
    if desk.is_expired() {
        return apply(Event::new(EntityEvent::Expire).because("Nobody paid in time."));
    }
    watch()
}
