//! Tokens: made, claimed by others, claimed by us, taken back.

use unspent_ecash::{EcashError, EntityDetails, NewEntity, NewTerms, flow::FlowStep};
use unspent_model::ecash::{EntityState, EntityVariant, TransactionState, input_fee};

use crate::fixture::*;

fn waits(next: &FlowStep) -> bool {
    matches!(next, FlowStep::Wait(_))
}

fn reversal(d: &StoreFixture, send_swap: &str) -> NewEntity {
    NewEntity::Reversal { send_swap: send_swap.into(), keyset: d.mint.borrow().output_keyset() }
}

fn claim(d: &StoreFixture, proofs: cashu::Proofs) -> NewEntity {
    NewEntity::ReceiveSwap { proofs, keyset: d.mint.borrow().output_keyset() }
}

#[test]
fn a_token_that_needs_a_swap_is_made_whatever_is_lost() {
    on_both(|d| {
        d.fund(4_096);
        for (what, how) in [
            ("swap", Luck::Good),
            ("swap", Luck::RequestLost),
            ("swap", Luck::AnswerLost),
            ("swap", Luck::Doubled),
        ] {
            let swap = d.token(100);
            assert_eq!((swap.state, swap.variant), (EntityState::Draft, EntityVariant::NeedsSwap));
            let before = d.free("home") + d.held("home");
            assert!(waits(&d.run_with_lost(&swap.id, what, how)));
            let after = d.store.entity(&swap.id).unwrap();
            assert_eq!(after.state, EntityState::Pending, "{how:?}");
            let EntityDetails::SendSwap(details) = &after.details else { panic!() };
            assert!(details.token_hash.is_some());
            let token = d.token_of(&swap.id);
            let value: u64 = token.iter().map(|proof| proof.amount.to_u64()).sum();
            assert_eq!(value, details.to_send);
            assert!(value - input_fee(token.iter().map(|_| 100)) >= 100, "the receiver pays a fee");
            assert_eq!(d.free("home") + d.held("home"), before - details.send_fee);
            // Somebody claims it.
            d.claim_by_other(&token);
            assert_eq!(d.run(&swap.id), FlowStep::Done);
            assert_eq!(d.state(&swap.id), EntityState::Completed);
            d.check();
        }
    });
}

#[test]
fn a_sum_that_fits_is_handed_over_as_it_is() {
    on_both(|d| {
        d.fund(64);
        let counter = d.store.keysets("home").unwrap()[0].1;
        // One proof costs its receiver 1.
        let swap = d.token(63);
        assert_eq!((swap.state, swap.variant), (EntityState::Pending, EntityVariant::Exact));
        assert_eq!(d.store.keysets("home").unwrap()[0].1, counter);
        assert_eq!((d.free("home"), d.held("home")), (0, 64));
        assert!(waits(&d.run(&swap.id)));
        d.claim_by_other(&d.token_of(&swap.id));
        d.run(&swap.id);
        assert_eq!(d.state(&swap.id), EntityState::Completed);
        d.check();
    });
}

#[test]
fn a_token_of_more_than_there_can_be_is_refused() {
    on_both(|d| {
        d.fund(64);
        let mut token = d.token_of(&d.token(63).id);
        token[0].amount = (1_u64 << 63).into();
        let more = vec![token[0].clone(), token[0].clone()];
        let refused = d.begin(claim(&d, more), d.terms("home")).err().unwrap();
        assert!(refused.to_string().contains("beyond 2^64"), "{refused}");
        d.check();
    });
}

#[test]
fn a_token_is_claimed_once() {
    on_both(|d| {
        d.fund(1_000);
        for how in [Luck::Good, Luck::RequestLost, Luck::AnswerLost, Luck::Doubled] {
            let swap = d.token(100);
            d.run(&swap.id);
            let token = d.token_of(&swap.id);
            let before = d.free("home");
            let received = d.create(claim(&d, token.clone()));
            let again = d.store.create(claim(&d, token.clone()), d.terms("home"));
            assert!(matches!(again, Err(EcashError::InUse { .. })), "{again:?}");
            d.run_with_lost(&received.id, "swap", how);
            assert_eq!(d.state(&received.id), EntityState::Completed, "{how:?}");
            assert!(d.free("home") >= before + 100);
            d.run(&swap.id);
            assert_eq!(d.state(&swap.id), EntityState::Completed);
            d.check();
        }
    });
}

#[test]
fn a_token_that_another_has_claimed_fails_and_may_be_tried_again() {
    on_both(|d| {
        d.fund(1_000);
        let swap = d.token(100);
        d.run(&swap.id);
        let token = d.token_of(&swap.id);
        d.claim_by_other(&token);
        let before = d.free("home");
        let received = d.create(claim(&d, token.clone()));
        d.run(&received.id);
        assert_eq!(d.state(&received.id), EntityState::Failed);
        assert_eq!(d.free("home"), before);
        let note = d.store.journal_of(&received.id).unwrap().pop().unwrap().note;
        assert_eq!(note.as_deref(), Some("Token already claimed"));
        d.create(claim(&d, token));
    });
}

#[test]
fn a_token_is_taken_back_whatever_is_lost() {
    on_both(|d| {
        d.fund(1_000);
        for how in [Luck::Good, Luck::RequestLost, Luck::AnswerLost, Luck::Doubled] {
            let swap = d.token(100);
            d.run(&swap.id);
            let (free, held) = (d.free("home"), d.held("home"));
            let back = d.create(reversal(&d, &swap.id));
            // While it is being taken back, nothing else decides.
            d.run(&swap.id);
            assert_eq!(d.state(&swap.id), EntityState::Pending);
            d.run_with_lost(&back.id, "swap", how);
            assert_eq!(d.state(&back.id), EntityState::Completed, "{how:?}");
            let after = d.store.entity(&swap.id).unwrap();
            assert_eq!(after.state, EntityState::Reversed);
            assert_eq!(after.transaction_state, TransactionState::Reversed);
            let EntityDetails::ReceiveSwap(details) = &back.details else { panic!() };
            assert_eq!((d.free("home"), d.held("home")), (free + held - details.fee, 0));
            d.check();
        }
    });
}

#[test]
fn a_receiver_that_is_quicker_wins_and_no_proof_stays_reserved() {
    on_both(|d| {
        d.fund(1_000);
        let swap = d.token(100);
        d.run(&swap.id);
        let back = d.create(reversal(&d, &swap.id));
        let second = d.store.create(reversal(&d, &swap.id), d.terms("home"));
        assert!(matches!(second, Err(EcashError::InUse { .. })), "{second:?}");
        d.claim_by_other(&d.token_of(&swap.id));
        d.run(&back.id);
        assert_eq!(d.state(&back.id), EntityState::Failed);
        assert_eq!(d.state(&swap.id), EntityState::Completed);
        assert_eq!(d.held("home"), 0);
        let refused = d.store.create(reversal(&d, &swap.id), d.terms("home"));
        assert!(matches!(refused, Err(EcashError::Refused(_))), "{refused:?}");
        d.check();
    });
}

#[test]
fn a_swap_survives_a_rotation() {
    on_both(|d| {
        d.fund(1_000);
        let swap = d.token(100);
        d.mint.borrow_mut().rotate(false);
        d.store.put_keysets("home", d.mint.borrow().infos()).unwrap();
        assert!(waits(&d.run(&swap.id)));
        assert_eq!(d.state(&swap.id), EntityState::Pending);
        d.check();
    });
}

#[test]
fn the_same_key_answers_with_the_same_entity() {
    on_both(|d| {
        d.fund(1_000);
        let keyset = d.mint.borrow().output_keyset();
        let inputs = unspent_ecash::InputChoice::Select;
        let new = NewEntity::SendSwap { amount: 100, inputs, keyset };
        let key = Some("shop-17".to_owned());
        let terms = || NewTerms { idempotency_key: key.clone(), ..d.terms("home") };
        let first = d.store.create(new.clone(), terms()).unwrap();
        let held = d.held("home");
        let again = d.store.create(new, terms()).unwrap();
        assert!(!first.is_repeat && again.is_repeat);
        assert_eq!(first.entity, again.entity);
        assert_eq!(d.held("home"), held);
    });
}

/// Whoever asks twice to take a token back, because the first answer was lost, hears what came of
/// it, even when it is over.
#[test]
fn the_same_key_answers_for_a_reversal_that_is_over() {
    on_both(|d| {
        d.fund(1_000);
        let swap = d.token(100);
        d.run(&swap.id);
        let key = Some("back-1".to_owned());
        let terms = || NewTerms { idempotency_key: key.clone(), ..d.terms("home") };
        let first = d.store.create(reversal(&d, &swap.id), terms()).unwrap();
        d.run(&first.entity.id);
        assert_eq!(d.state(&swap.id), EntityState::Reversed);
        let again = d.store.create(reversal(&d, &swap.id), terms()).unwrap();
        assert!(again.is_repeat);
        assert_eq!(again.entity.id, first.entity.id);
        assert_eq!(again.entity.state, EntityState::Completed);
    });
}
