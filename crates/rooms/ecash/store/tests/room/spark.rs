//! Spark, by a script: no real operator is asked.

use unspent_ecash::{
    EcashError, NewEntity, NewTerms, PaymentEvent,
    details::{SparkReceiveDetails, SparkSendDetails},
    flow::{FlowAnswer, FlowRequest, FlowStep, SparkAnswer, SparkIds, SparkRequest, WaitReason},
};
use unspent_model::{
    Micros,
    ecash::{EntityEvent, EntityState, TransactionState},
};

use crate::fixture::*;

fn ids() -> SparkIds {
    SparkIds { request_id: "req-1".into(), transfer_id: "tr-1".into(), fee: 2 }
}

fn send(d: &StoreFixture) -> String {
    let send = SparkSendDetails {
        invoice: "lnbc1".into(),
        payment_hash: "ab".repeat(32),
        amount: 100,
        is_amountless: false,
        max_fee: 3,
        fee: None,
        request_id: None,
        transfer_id: None,
        preimage: None,
    };
    d.store.create(NewEntity::SparkSend(send), d.terms("spark")).unwrap().entity.id
}

fn receive(d: &StoreFixture, expires_at: Option<Micros>) -> String {
    let terms = NewTerms { expires_at, ..d.terms("spark") };
    let receive = SparkReceiveDetails {
        request_id: format!("req-{}", terms.id),
        invoice: "lnbc1".into(),
        payment_hash: "cd".repeat(32),
        amount: 100,
        transfer_id: None,
        preimage: None,
        source: None,
    };
    d.store.create(NewEntity::SparkReceive(receive, None), terms).unwrap().entity.id
}

/// Plays a script: names of the questions, and what is answered.
fn play(d: &StoreFixture, id: &str, script: &[(&str, SparkAnswer)]) -> FlowStep {
    let mut script = script.iter();
    loop {
        let (mut flow, mut next) = d.flow(id);
        loop {
            match next {
                FlowStep::Ask(FlowRequest::Spark(request)) => {
                    let Some((expected, answer)) = script.next() else {
                        return FlowStep::Ask(FlowRequest::Spark(request));
                    };
                    let name = match &request {
                        SparkRequest::FindSend { key, .. } => {
                            assert_eq!(key, id);
                            "find"
                        }
                        SparkRequest::Send { key, max_fee, .. } => {
                            assert_eq!((key.as_str(), *max_fee), (id, 3));
                            "send"
                        }
                        SparkRequest::SendStatus { .. } => "sending",
                        SparkRequest::ReceiveStatus { .. } => "receiving",
                    };
                    assert_eq!(name, *expected);
                    next = flow.answer(FlowAnswer::Spark(answer.clone())).unwrap();
                }
                FlowStep::Apply(event) => {
                    d.store.apply(id, event, d.now()).unwrap();
                    break;
                }
                other => return other,
            }
        }
    }
}

#[test]
fn a_payment_is_looked_for_before_it_is_made() {
    on_both(|d| {
        d.add_spark();
        let id = send(&d);
        assert_eq!(d.store.entity(&id).unwrap().transaction_state, TransactionState::Draft);
        let lost = SparkAnswer::Unknown("no answer".into());
        // The answer to the payment is lost; the next flow finds it by its key.
        let script = [("find", SparkAnswer::NoSuchSend), ("send", lost)];
        assert!(matches!(play(&d, &id, &script), FlowStep::Wait(WaitReason::Retry(_))));
        assert_eq!(d.state(&id), EntityState::Unpaid);
        let script = [("find", SparkAnswer::Sending(ids())), ("sending", SparkAnswer::Waiting)];
        assert_eq!(play(&d, &id, &script), FlowStep::Wait(WaitReason::ForChange));
        assert_eq!(d.state(&id), EntityState::Pending);
        let sent = SparkAnswer::Sent { ids: ids(), preimage: "ee".into() };
        assert_eq!(play(&d, &id, &[("sending", sent)]), FlowStep::Done);
        let after = d.store.entity(&id).unwrap();
        assert_eq!((after.state, after.transaction_state), {
            (EntityState::Completed, TransactionState::Completed)
        });
    });
}

#[test]
fn a_payment_fails_only_once_the_money_is_back_or_it_was_never_made() {
    on_both(|d| {
        d.add_spark();
        let id = send(&d);
        let no = SparkAnswer::Rejected("no funds".into());
        let script = [
            ("find", SparkAnswer::NoSuchSend),
            ("send", no.clone()),
            ("find", SparkAnswer::NoSuchSend),
        ];
        assert_eq!(play(&d, &id, &script), FlowStep::Done);
        assert_eq!(d.state(&id), EntityState::Failed);
        // It may be tried again; and what is refused may be ours from before.
        let id = send(&d);
        let script = [
            ("find", SparkAnswer::NoSuchSend),
            ("send", no),
            ("find", SparkAnswer::Sending(ids())),
            ("sending", SparkAnswer::Returned),
        ];
        assert_eq!(play(&d, &id, &script), FlowStep::Done);
        assert_eq!(d.state(&id), EntityState::Failed);
    });
}

#[test]
fn completing_without_ids_is_refused_by_name() {
    on_both(|d| {
        d.add_spark();
        let id = send(&d);
        let bare = d.store.apply(&id, PaymentEvent::new(EntityEvent::Complete), d.now());
        let Err(EcashError::Refused(refusal)) = bare else { panic!("{bare:?}") };
        assert_eq!(refusal.why, unspent_model::ecash::RefusalReason::NoSparkIds);
        let sent = SparkAnswer::Sent { ids: ids(), preimage: "ee".into() };
        assert_eq!(play(&d, &id, &[("find", sent)]), FlowStep::Done);
        assert_eq!(d.state(&id), EntityState::Completed);
    });
}

#[test]
fn an_invoice_of_spark_is_paid_in_time_or_late() {
    on_both(|d| {
        d.add_spark();
        let paid = || SparkAnswer::Received { transfer_id: "tr".into(), preimage: "ff".into() };
        let id = receive(&d, Some(d.now().later(HOUR)));
        let waiting = [("receiving", SparkAnswer::Waiting)];
        assert_eq!(play(&d, &id, &waiting), FlowStep::Wait(WaitReason::ForChange));
        assert_eq!(play(&d, &id, &[("receiving", paid())]), FlowStep::Done);
        assert_eq!(d.state(&id), EntityState::Paid);
        let id = receive(&d, Some(d.now().later(HOUR)));
        d.wait_hours(1);
        play(&d, &id, &waiting);
        assert_eq!(d.state(&id), EntityState::Expired);
        assert_eq!(play(&d, &id, &[("receiving", paid())]), FlowStep::Done);
        let after = d.store.entity(&id).unwrap();
        assert_eq!((after.state, after.transaction_state), {
            (EntityState::Paid, TransactionState::Completed)
        });
    });
}
