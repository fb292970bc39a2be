//! Paying and being paid through Spark.

use unspent_model::ecash::{EntityEvent, EntityKind, EntityState, EntityVariant};

use super::{
    FlowAnswer, FlowContext, FlowRequest, FlowStage, FlowStep, FlowTurn, SparkAnswer, SparkIds,
    SparkRequest, apply, end, retry,
    source::{self, SourceStage},
    watch,
};
use crate::{
    details::{EntityDetails, SparkReceiveDetails, SparkSendDetails},
    error::EcashError,
    event::PaymentEvent,
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

fn on(stage: SparkStage, next: FlowStep) -> FlowTurn {
    Ok((FlowStage::Spark(stage), next))
}

fn ask(request: SparkRequest) -> FlowStep {
    FlowStep::Ask(FlowRequest::Spark(request))
}

fn send(context: &FlowContext) -> Result<&SparkSendDetails, EcashError> {
    let EntityDetails::SparkSend(send) = &context.open.entity.details else {
        return Err(EcashError::Corrupt("a Spark send has other details".into()));
    };
    Ok(send)
}

fn receive(context: &FlowContext) -> Result<&SparkReceiveDetails, EcashError> {
    let EntityDetails::SparkReceive(receive) = &context.open.entity.details else {
        return Err(EcashError::Corrupt("a Spark receive has other details".into()));
    };
    Ok(receive)
}

fn find(context: &FlowContext) -> Result<FlowStep, EcashError> {
    let payment_hash = send(context)?.payment_hash.clone();
    Ok(ask(SparkRequest::FindSend { key: context.open.entity.id.clone(), payment_hash }))
}

pub(super) fn start(context: &FlowContext) -> FlowTurn {
    let entity = &context.open.entity;
    match (entity.kind, entity.state) {
        // Never paid without having been looked for: a crash between paying and noting it leaves a
        // payment that Spark alone knows.
        (EntityKind::SparkSendQuote, EntityState::Unpaid) => on(SparkStage::Find, find(context)?),
        (EntityKind::SparkSendQuote, EntityState::Pending) => {
            let missing = || EcashError::Corrupt("a payment has no Spark id".into());
            let request_id = send(context)?.request_id.clone().ok_or_else(missing)?;
            on(SparkStage::Sending, ask(SparkRequest::SendStatus { request_id }))
        }
        (EntityKind::SparkReceiveQuote, EntityState::Paid)
            if context.open.entity.awaits_change() =>
        {
            on_source(source::start(context)?)
        }
        (EntityKind::SparkReceiveQuote, state) if state != EntityState::Paid => {
            let request_id = receive(context)?.request_id.clone();
            on(SparkStage::Receiving, ask(SparkRequest::ReceiveStatus { request_id }))
        }
        (_, _) => end(FlowStep::Done),
    }
}

fn on_source((stage, next): (Option<SourceStage>, FlowStep)) -> FlowTurn {
    match stage {
        Some(stage) => on(SparkStage::Source(stage), next),
        None => end(next),
    }
}

pub(super) fn answer(context: &FlowContext, stage: SparkStage, answer: FlowAnswer) -> FlowTurn {
    let is_over = context.open.entity.state != EntityState::Unpaid;
    let said = match (stage, answer) {
        (SparkStage::Source(stage), answer) => {
            return on_source(source::answer(context, stage, answer)?);
        }
        (_, FlowAnswer::Fault(fault)) => return retry(fault.to_string()),
        (stage, FlowAnswer::Spark(said)) => (stage, said),
        (_, _) => return retry("Spark answered something else than it was asked"),
    };
    match said {
        (_, SparkAnswer::Sent { ids, preimage }) => sent(ids, preimage),
        (
            SparkStage::Find | SparkStage::Send | SparkStage::FindAgain(_),
            SparkAnswer::Sending(ids),
        ) => {
            let event = PaymentEvent::new(EntityEvent::MarkPending);
            apply(PaymentEvent { spark: Some(ids), ..event })
        }
        (SparkStage::Find, SparkAnswer::NoSuchSend) => pay(context),
        // Refused, yet it may be ours from before.
        (SparkStage::Send, SparkAnswer::Rejected(reason)) => {
            on(SparkStage::FindAgain(reason), find(context)?)
        }
        (SparkStage::FindAgain(reason), SparkAnswer::NoSuchSend) => {
            apply(PaymentEvent::new(EntityEvent::Fail).because(reason))
        }
        (
            SparkStage::Find | SparkStage::FindAgain(_) | SparkStage::Sending,
            SparkAnswer::Returned,
        ) => apply(PaymentEvent::new(EntityEvent::Fail).because("Lightning payment failed.")),
        (SparkStage::Receiving, SparkAnswer::Received { transfer_id, preimage }) => {
            received(context, transfer_id, preimage)
        }
        (SparkStage::Receiving, SparkAnswer::ReceiveFailed(_)) if is_over => end(FlowStep::Done),
        (SparkStage::Receiving, SparkAnswer::ReceiveFailed(reason)) => {
            apply(PaymentEvent::new(EntityEvent::Fail).because(reason))
        }
        (SparkStage::Receiving, SparkAnswer::Waiting) => waiting(context),
        (_, SparkAnswer::Unknown(words)) => retry(words),
        (_, _) => watch(),
    }
}

fn sent(ids: SparkIds, preimage: String) -> FlowTurn {
    let event = PaymentEvent::new(EntityEvent::Complete);
    apply(PaymentEvent { spark: Some(ids), preimage: Some(preimage), ..event })
}

fn pay(context: &FlowContext) -> FlowTurn {
    // Only here, after nothing was found: what expired since may have been paid before.
    if context.is_expired() {
        return apply(PaymentEvent::new(EntityEvent::Fail).because("Lightning invoice expired."));
    }
    let send = send(context)?;
    let request = SparkRequest::Send {
        key: context.open.entity.id.clone(),
        invoice: send.invoice.clone(),
        amount: send.is_amountless.then_some(send.amount),
        // What people agreed to. Spark's price may have risen since; then it refuses, and nothing
        // is paid.
        max_fee: send.max_fee,
    };
    on(SparkStage::Send, ask(request))
}

fn received(context: &FlowContext, transfer_id: String, preimage: String) -> FlowTurn {
    let is_over = context.open.entity.state != EntityState::Unpaid;
    let what = if is_over { EntityEvent::LatePayment } else { EntityEvent::Complete };
    let request_id = receive(context)?.request_id.clone();
    let spark = Some(SparkIds { request_id, transfer_id, fee: 0 });
    apply(PaymentEvent { spark, preimage: Some(preimage), ..PaymentEvent::new(what) })
}

fn waiting(context: &FlowContext) -> FlowTurn {
    let entity = &context.open.entity;
    if entity.state != EntityState::Unpaid {
        return watch();
    }
    if entity.variant == EntityVariant::CashuToken {
        return on_source(source::start(context)?);
    }
    if context.is_expired() {
        return apply(PaymentEvent::new(EntityEvent::Expire).because("Nobody paid in time."));
    }
    watch()
}
