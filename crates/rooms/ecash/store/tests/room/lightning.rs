//! Lightning through a mint: paying and being paid, with everything that can go wrong between.

use unspent_ecash::{EcashError, EntityDetails, InputChoice, Kind, PaymentEvent, flow::FlowStep};
use unspent_model::ecash::{EntityEvent, EntityState, TransactionState};

use crate::{fixture::*, mint::Payment};

fn waits(next: &FlowStep) -> bool {
    matches!(next, FlowStep::Wait(_))
}

#[test]
fn a_payment_takes_proofs_and_brings_change() {
    on_both(|d| {
        d.fund(1_000);
        let quote = d.melt(100, None);
        assert!(d.held("home") >= 105);
        assert_eq!(quote.state, EntityState::Unpaid);
        assert_eq!(quote.transaction_state, TransactionState::Pending);
        assert_eq!(d.run(&quote.id), FlowStep::Done);
        let after = d.store.entity(&quote.id).unwrap();
        assert_eq!((after.state, after.transaction_state), {
            (EntityState::Paid, TransactionState::Completed)
        });
        let EntityDetails::SendQuote(details) = &after.details else { panic!("{after:?}") };
        // What went out: the amount, the payment's fee, the fee of the inputs.
        assert_eq!(details.spent, Some(100 + 1 + details.input_fee));
        assert_eq!(d.free("home"), 1_000 - details.spent.unwrap());
        assert_eq!(d.held("home"), 0);
        assert!(details.preimage.is_some());
        d.check();
    });
}

/// Every question of a payment is lost once, on the way there and on the way back.
#[test]
fn one_lost_message_costs_nothing() {
    on_both(|d| {
        d.fund(4_000);
        let start = d.free("home");
        let mut spent = 0;
        for what in ["melt_quote", "melt"] {
            for how in [Luck::RequestLost, Luck::AnswerLost, Luck::Doubled] {
                let quote = d.melt(50, None);
                d.run_with_lost(&quote.id, what, how);
                let after = d.store.entity(&quote.id).unwrap();
                assert_eq!(after.state, EntityState::Paid, "{what} {how:?}");
                let EntityDetails::SendQuote(details) = &after.details else { panic!("{after:?}") };
                spent += details.spent.unwrap();
                let melts = &d.mint.borrow().melts;
                assert_eq!(melts[&details.quote_id].payments, 1);
            }
        }
        assert_eq!(d.free("home"), start - spent);
        d.check();
    });
}

#[test]
fn a_pending_payment_keeps_its_proofs_until_it_settles() {
    on_both(|d| {
        d.fund(500);
        d.mint.borrow_mut().payment = Payment::Hangs;
        let quote = d.melt(100, Some(d.now().later(HOUR)));
        assert!(waits(&d.run(&quote.id)));
        assert_eq!(d.state(&quote.id), EntityState::Pending);
        let held = d.held("home");
        // Its time passes; pending never expires.
        d.wait_hours(2);
        assert!(waits(&d.run(&quote.id)));
        assert_eq!((d.state(&quote.id), d.held("home")), (EntityState::Pending, held));
        let EntityDetails::SendQuote(details) = quote.details else { panic!() };
        d.mint.borrow_mut().settle(&details.quote_id);
        assert_eq!(d.run(&quote.id), FlowStep::Done);
        assert_eq!(d.state(&quote.id), EntityState::Paid);
        assert_eq!(d.held("home"), 0);
        d.check();
    });
}

#[test]
fn a_pending_payment_that_comes_back_has_failed() {
    on_both(|d| {
        d.fund(500);
        d.mint.borrow_mut().payment = Payment::Hangs;
        let quote = d.melt(100, None);
        d.run(&quote.id);
        let EntityDetails::SendQuote(details) = &quote.details else { panic!() };
        d.mint.borrow_mut().give_back(&details.quote_id);
        d.run(&quote.id);
        assert_eq!(d.state(&quote.id), EntityState::Failed);
        assert_eq!((d.free("home"), d.held("home")), (500, 0));
        d.check();
        // The mint pays after all: the proofs are gone, and people are told.
        d.mint.borrow_mut().settle(&details.quote_id);
        assert_eq!(d.run(&quote.id), FlowStep::Done);
        let after = d.store.entity(&quote.id).unwrap();
        assert_eq!(after.state, EntityState::Failed);
        assert!(after.alarm);
        assert_eq!(d.free("home"), 500 - 101 - details.input_fee);
        d.check();
    });
}

#[test]
fn a_refused_payment_gives_its_proofs_back_and_may_be_tried_again() {
    on_both(|d| {
        d.fund(500);
        d.mint.borrow_mut().payment = Payment::Fails;
        let quote = d.melt(100, None);
        d.run(&quote.id);
        assert_eq!(d.state(&quote.id), EntityState::Failed);
        assert_eq!((d.free("home"), d.held("home")), (500, 0));
        let journal = d.store.journal_of(&quote.id).unwrap();
        assert!(journal.last().unwrap().note.as_ref().unwrap().contains("payment failed"));
        d.check();
    });
}

#[test]
fn a_quote_expires_only_when_the_mint_agrees() {
    on_both(|d| {
        d.fund(500);
        let quote = d.melt(100, Some(d.now().later(HOUR)));
        let early = d.store.apply(&quote.id, PaymentEvent::new(EntityEvent::Expire), d.now());
        assert!(matches!(early, Err(EcashError::Refused(_))), "{early:?}");
        d.wait_hours(1);
        d.run(&quote.id);
        assert_eq!(d.state(&quote.id), EntityState::Expired);
        assert_eq!(d.free("home"), 500);
        assert!(d.apply(&quote.id, PaymentEvent::new(EntityEvent::Expire)).is_repeat);
        d.check();
    });
}

#[test]
fn the_fence_renews_proofs_before_a_payment_is_given_up() {
    on_both(|mut d| {
        d.fence = true;
        d.fund(500);
        d.mint.borrow_mut().payment = Payment::Fails;
        let quote = d.melt(100, None);
        let EntityDetails::SendQuote(details) = &quote.details else { panic!() };
        let old = d.token_of(&quote.id);
        d.run_with_lost(&quote.id, "swap", Luck::AnswerLost);
        assert_eq!(d.state(&quote.id), EntityState::Failed);
        // A late melt finds nothing to spend.
        let mint = d.mint.borrow();
        assert!(old.iter().all(|proof| mint.spent.contains(&proof.y().unwrap())));
        drop(mint);
        assert_eq!((d.free("home"), d.held("home")), (500 - details.input_fee, 0));
        d.check();
    });
}

#[test]
fn blanks_are_as_many_as_any_change_needs() {
    on_both(|d| {
        d.fund(64);
        let before = d.store.keysets("home").unwrap()[0].1;
        // One input at 100 ppk costs 1: 58 + 5 + 1 = 64, and at most 5 come back.
        let quote = d.melt(58, None);
        let EntityDetails::SendQuote(details) = &quote.details else { panic!() };
        assert_eq!(details.range.as_ref().unwrap().amounts.len(), 3);
        assert_eq!(d.store.keysets("home").unwrap()[0].1, before + 3);
        d.run(&quote.id);
        assert_eq!(d.free("home"), 64 - 59 - 1);
        d.check();
    });
}

#[test]
fn a_rotated_keyset_gets_new_outputs() {
    on_both(|d| {
        d.fund(500);
        let quote = d.melt(100, None);
        d.mint.borrow_mut().rotate(true);
        d.store.put_keysets("home", d.mint.borrow().infos()).unwrap();
        assert_eq!(d.run(&quote.id), FlowStep::Done);
        let after = d.store.entity(&quote.id).unwrap();
        assert_eq!(after.state, EntityState::Paid);
        let range = after.details.range().unwrap();
        assert_eq!(range.keyset_id, d.mint.borrow().active().id.to_string());
        let events: Vec<String> =
            d.store.journal_of(&quote.id).unwrap().into_iter().map(|line| line.event).collect();
        assert!(events.contains(&"take_new_range".to_owned()), "{events:?}");
        d.check();
    });
}

#[test]
fn an_invoice_is_paid_once_whatever_is_lost() {
    on_both(|d| {
        let mut expected = 0;
        for what in ["mint_quote", "mint"] {
            for how in [Luck::RequestLost, Luck::AnswerLost, Luck::Doubled] {
                let id = d.invoice("home", 77, None);
                assert!(waits(&d.run(&id)));
                assert_eq!(d.state(&id), EntityState::Unpaid);
                d.pay_invoice("home", &id);
                d.run_with_lost(&id, what, how);
                assert_eq!(d.state(&id), EntityState::Completed, "{what} {how:?}");
                expected += 77;
                assert_eq!(d.free("home"), expected);
            }
        }
        d.check();
    });
}

#[test]
fn a_keyset_that_rotates_before_the_issue_is_no_obstacle() {
    on_both(|d| {
        let id = d.invoice("home", 77, None);
        d.pay_invoice("home", &id);
        // Paid and outputs taken, then the mint rotates.
        d.run_with(&id, |request| match request.name() {
            "mint_quote" => Luck::Good,
            _ => Luck::RequestLost,
        });
        assert_eq!(d.state(&id), EntityState::Paid);
        d.mint.borrow_mut().rotate(false);
        d.store.put_keysets("home", d.mint.borrow().infos()).unwrap();
        assert_eq!(d.run(&id), FlowStep::Done);
        assert_eq!(d.free("home"), 77);
        d.check();
    });
}

#[test]
fn a_late_payment_reopens_an_expired_quote() {
    on_both(|d| {
        let id = d.invoice("home", 77, Some(d.now().later(HOUR)));
        d.wait_hours(1);
        d.run(&id);
        let expired = d.store.entity(&id).unwrap();
        assert_eq!(expired.state, EntityState::Expired);
        assert_eq!(expired.transaction_state, TransactionState::Failed);
        d.pay_invoice("home", &id);
        assert_eq!(d.run(&id), FlowStep::Done);
        let after = d.store.entity(&id).unwrap();
        assert_eq!(after.state, EntityState::Completed);
        assert_eq!(after.transaction_state, TransactionState::Completed);
        assert_eq!(d.free("home"), 77);
        d.check();
    });
}

#[test]
fn repeats_change_nothing_and_a_quote_is_used_once() {
    on_both(|d| {
        d.fund(500);
        let quote = d.melt(100, None);
        d.run(&quote.id);
        let before = d.store.entity(&quote.id).unwrap();
        for event in [EntityEvent::Complete, EntityEvent::MarkPending] {
            let again = d.apply(&quote.id, PaymentEvent::new(event));
            assert!(again.is_repeat);
            assert_eq!(again.entity, before);
        }
        let refused = d.store.apply(&quote.id, PaymentEvent::new(EntityEvent::Fail), d.now());
        assert_eq!(refused.unwrap_err().kind(), Kind::Refused);
        assert_eq!(d.store.entity(&quote.id).unwrap(), before);
        // The same melt quote again.
        let again = unspent_ecash::NewEntity::SendQuote {
            quote_id: format!("melt-{}", before.id),
            invoice: "lnbc1".into(),
            amount: 10,
            fee_reserve: 1,
            inputs: InputChoice::Select,
            keyset: d.mint.borrow().output_keyset(),
        };
        let (free, counter) = (d.free("home"), d.store.keysets("home").unwrap()[0].1);
        let refused = d.store.create(again, d.terms("home"));
        assert!(matches!(refused, Err(EcashError::InUse { .. })), "{refused:?}");
        // A refused beginning takes neither proofs nor counter.
        assert_eq!(d.free("home"), free);
        assert_eq!(d.store.keysets("home").unwrap()[0].1, counter);
        d.check();
    });
}

/// A payment was given up and its proofs went into others. Then the mint proves that it paid: they
/// are gone, whoever holds them, and those others must still be able to end.
#[test]
fn proofs_that_another_payment_holds_may_turn_out_to_be_spent() {
    on_both(|d| {
        d.fund(64);
        let given_up = d.melt(40, None);
        let held = d.token_of(&given_up.id);
        d.apply(&given_up.id, PaymentEvent::new(EntityEvent::Fail));
        let spent: Vec<_> = held.iter().map(|p| unspent_ecash::proof_name(p).unwrap()).collect();
        let second = d.try_melt(40, None, InputChoice::These(spent.clone())).unwrap();
        let proven =
            PaymentEvent { spent: spent.clone(), ..PaymentEvent::new(EntityEvent::ProvePaid) };
        assert!(d.apply(&given_up.id, proven).entity.alarm);
        assert_eq!((d.free("home"), d.held("home")), (0, 0));
        let failed = PaymentEvent { spent, ..PaymentEvent::new(EntityEvent::Fail) };
        assert_eq!(d.apply(&second.id, failed).entity.state, EntityState::Failed);
        assert_eq!((d.free("home"), d.held("home")), (0, 0), "what is spent stays spent");

        // The same with a token that was made of such proofs.
        d.fund(64);
        let given_up = d.melt(40, None);
        let held = d.token_of(&given_up.id);
        d.apply(&given_up.id, PaymentEvent::new(EntityEvent::Fail));
        let spent: Vec<_> = held.iter().map(|p| unspent_ecash::proof_name(p).unwrap()).collect();
        let keyset = d.mint.borrow().output_keyset();
        let inputs = InputChoice::These(spent.clone());
        let token = d.create(unspent_ecash::NewEntity::SendSwap { amount: 63, inputs, keyset });
        assert_eq!(token.state, EntityState::Pending, "it fits as it is");
        d.apply(&given_up.id, PaymentEvent { spent, ..PaymentEvent::new(EntityEvent::ProvePaid) });
        let over = d.apply(&token.id, PaymentEvent::new(EntityEvent::Complete)).entity;
        assert_eq!(over.state, EntityState::Completed);
    });
}

#[test]
fn too_little_money_and_no_proofs_are_refused() {
    on_both(|d| {
        d.fund(50);
        let refused = d.try_melt(50, None, InputChoice::Select);
        assert!(matches!(refused, Err(EcashError::NotEnough(_))), "{refused:?}");
        let refused = d.try_melt(1, None, InputChoice::These(Vec::new()));
        assert!(matches!(refused, Err(EcashError::Argument(_))), "{refused:?}");
        assert_eq!((d.free("home"), d.held("home")), (50, 0));
        d.check();
    });
}

#[test]
fn proofs_that_are_worth_something_else_are_refused() {
    on_both(|d| {
        d.fund(500);
        let id = d.invoice("home", 77, None);
        d.pay_invoice("home", &id);
        d.run_with(&id, |request| match request.name() {
            "mint_quote" => Luck::Good,
            _ => Luck::RequestLost,
        });
        let before = d.store.entity(&id).unwrap();
        assert_eq!(before.state, EntityState::Paid);
        let empty = d.store.apply(&id, PaymentEvent::new(EntityEvent::Complete), d.now());
        assert!(matches!(empty, Err(EcashError::Argument(_))), "{empty:?}");
        assert_eq!(d.store.entity(&id).unwrap(), before);
        assert_eq!(d.run(&id), FlowStep::Done);
        assert_eq!(d.free("home"), 577);
        d.check();
    });
}
