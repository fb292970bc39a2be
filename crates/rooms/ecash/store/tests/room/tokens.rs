//! Tokens: made, claimed by others, claimed by us, taken back.

use cashu::Proofs;
use unspent_ecash::{
    EcashError, EntityDetails, NewEntity, NewTerms, PaymentEvent,
    flow::{FlowAnswer, FlowRequest, FlowStep, MintFault},
};
use unspent_model::ecash::{EntityEvent, EntityState, EntityVariant, TransactionState, input_fee};

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

fn sum(proofs: &Proofs) -> u64 {
    proofs.iter().map(|proof| proof.amount.to_u64()).sum()
}

/// A token of several proofs, and two parts of it.
fn two_parts(d: &StoreFixture, amount: u64) -> (String, Proofs, Proofs) {
    let swap = d.token(amount);
    d.run(&swap.id);
    let mut token = d.token_of(&swap.id);
    token.sort_by_key(|proof| proof.amount);
    let rest = token.split_off(1);
    assert!(!rest.is_empty(), "a token of one proof has no parts");
    (swap.id, token, rest)
}

fn figure(d: &StoreFixture, id: &str) -> (u64, u64) {
    d.store.entity(id).unwrap().token_figures().unwrap()
}

fn notes(d: &StoreFixture, id: &str) -> Vec<(String, Option<String>)> {
    let lines = d.store.journal_of(id).unwrap().into_iter();
    lines.map(|line| (line.event, line.note)).collect()
}

#[test]
fn a_token_claimed_in_part_stays_pending_with_the_figure() {
    on_both(|mut d| {
        d.fund(1_000);
        let (send, few, rest) = two_parts(&d, 100);
        let whole = sum(&few) + sum(&rest);
        d.claim_by_other(&rest);
        assert!(waits(&d.run(&send)));
        assert_eq!(d.state(&send), EntityState::Pending);
        assert_eq!(figure(&d, &send), (sum(&rest), whole));
        assert_eq!(d.held("home"), sum(&few), "what is left is held, and no more");
        let told = notes(&d, &send).pop().unwrap();
        let words = format!("{} of {whole} claimed", sum(&rest));
        assert_eq!(told, ("claimed_in_part".to_owned(), Some(words)));
        d.check();
        // A second look and another start tell nothing new.
        d.reopen();
        let lines = notes(&d, &send).len();
        assert!(waits(&d.run(&send)));
        assert_eq!((notes(&d, &send).len(), figure(&d, &send).0), (lines, sum(&rest)));
        d.claim_by_other(&few);
        d.run(&send);
        assert_eq!(d.state(&send), EntityState::Completed);
        assert_eq!(figure(&d, &send), (whole, whole));
        assert_eq!(d.held("home"), 0);
        d.check();
    });
}

#[test]
fn a_reversal_of_a_half_claimed_token_takes_back_what_is_left() {
    on_both(|d| {
        // Known before, or met by the reversal itself; also while answers are lost.
        for (is_known, how) in [
            (true, Luck::Good),
            (false, Luck::Good),
            (false, Luck::RequestLost),
            (false, Luck::AnswerLost),
            (false, Luck::Doubled),
        ] {
            d.fund(1_000);
            let (send, few, rest) = two_parts(&d, 100);
            let whole = sum(&few) + sum(&rest);
            d.claim_by_other(&few);
            if is_known {
                d.run(&send);
            }
            let (free, held) = (d.free("home"), d.held("home"));
            let back = d.create(reversal(&d, &send));
            d.run_with_lost(&back.id, "swap", how);
            assert_eq!(d.state(&back.id), EntityState::Completed, "{how:?}");
            let after = d.store.entity(&send).unwrap();
            assert_eq!(after.state, EntityState::Reversed);
            assert_eq!(after.transaction_state, TransactionState::Reversed);
            assert_eq!(figure(&d, &send), (sum(&few), whole));
            let fee = input_fee(rest.iter().map(|_| 100));
            assert_eq!((d.free("home"), d.held("home")), (free + sum(&rest) - fee, 0));
            assert!(held >= sum(&rest));
            let EntityDetails::ReceiveSwap(got) = d.store.entity(&back.id).unwrap().details else {
                panic!()
            };
            assert_eq!(got.gain(), sum(&rest) - fee);
            let lines = d.store.transactions(unspent_ecash::PageRequest::first(100)).unwrap();
            let line = lines.iter().find(|line| line.entity_id == back.id).unwrap();
            assert_eq!(line.amount, sum(&rest) - fee, "people see what came");
            d.check();
        }
    });
}

/// One proof after the other is claimed between the mint's word and our swap.
#[test]
fn a_reversal_that_is_outrun_again_and_again_takes_what_is_left_in_the_end() {
    on_both(|d| {
        d.fund(1_000);
        let swap = d.token(100);
        d.run(&swap.id);
        let token = d.token_of(&swap.id);
        assert!(token.len() > 2);
        let (last, others) = token.split_last().unwrap();
        let back = d.create(reversal(&d, &swap.id));
        let mut left: Vec<_> = others.to_vec();
        d.run_with(&back.id, |request| {
            if let FlowRequest::Swap { .. } = request {
                d.claim_by_other(&left.pop().into_iter().collect());
            }
            Luck::Good
        });
        assert_eq!(d.state(&swap.id), EntityState::Reversed);
        assert_eq!(figure(&d, &swap.id).0, sum(&others.to_vec()));
        assert_eq!(d.state(&back.id), EntityState::Completed);
        assert_eq!(d.held("home"), 0);
        let EntityDetails::ReceiveSwap(got) = d.store.entity(&back.id).unwrap().details else {
            panic!()
        };
        assert_eq!(got.gain(), last.amount.to_u64() - 1);
        d.check();
    });
}

/// What is left doesn't pay its own fee: nothing is called spent, and the token stays open.
#[test]
fn a_rest_that_is_not_worth_its_fee_leaves_the_token_pending() {
    on_both(|d| {
        d.fund(1_000);
        let swap = d.token(100);
        d.run(&swap.id);
        let token = d.token_of(&swap.id);
        let (small, others): (Proofs, Proofs) =
            token.into_iter().partition(|proof| proof.amount.to_u64() == 1);
        assert_eq!(small.len(), 1, "one proof of 1 is in the token");
        let back = d.create(reversal(&d, &swap.id));
        d.claim_by_other(&others);
        d.run(&back.id);
        assert_eq!(d.state(&back.id), EntityState::Failed);
        assert!(waits(&d.run(&swap.id)));
        assert_eq!(d.state(&swap.id), EntityState::Pending);
        assert_eq!((figure(&d, &swap.id).0, d.held("home")), (sum(&others), 1));
        d.check();
    });
}

/// A mint that calls an input spent, and then none of them, has proven nothing.
#[test]
fn no_proof_is_called_spent_without_the_mints_word_on_it() {
    on_both(|d| {
        d.fund(1_000);
        let swap = d.token(100);
        d.run(&swap.id);
        let token = d.token_of(&swap.id);
        let back = d.create(reversal(&d, &swap.id));
        let (mut flow, mut next) = d.flow(&back.id);
        for _ in 0..3 {
            let FlowStep::Ask(request) = &next else { panic!("{next:?}") };
            let answer = match request {
                FlowRequest::Swap { .. } => FlowAnswer::Fault(MintFault::AlreadySpent),
                other => d.ask(other, Luck::Good),
            };
            next = flow.answer(answer).unwrap();
        }
        assert!(waits(&next), "{next:?}");
        assert_eq!(d.state(&back.id), EntityState::Pending);
        assert_eq!(d.held("home"), sum(&token));
        d.run(&back.id);
        assert_eq!(d.state(&swap.id), EntityState::Reversed);
        d.check();
    });
}

#[test]
fn a_claim_of_a_half_spent_token_gets_the_rest() {
    on_both(|d| {
        d.fund(1_000);
        let (send, few, rest) = two_parts(&d, 100);
        let before = d.free("home");
        d.claim_by_other(&few);
        let whole: Proofs = few.iter().chain(&rest).cloned().collect();
        let claimed = d.create(claim(&d, whole.clone()));
        d.run(&claimed.id);
        assert_eq!(d.state(&claimed.id), EntityState::Completed);
        let fee = input_fee(rest.iter().map(|_| 100));
        assert_eq!(d.free("home"), before + sum(&rest) - fee);
        assert_eq!(figure(&d, &claimed.id), (sum(&few), sum(&whole)));
        d.run(&send);
        assert_eq!(d.state(&send), EntityState::Completed);
        d.check();
    });
}

#[test]
fn a_claim_that_people_give_up_ends_once_nothing_of_it_can_be_on_its_way() {
    on_both(|d| {
        d.fund(1_000);
        let (send, few, rest) = two_parts(&d, 100);
        let whole: Proofs = few.iter().chain(&rest).cloned().collect();
        let claimed = d.create(claim(&d, whole));
        let cancel = || d.apply(&claimed.id, PaymentEvent::new(EntityEvent::Cancel));
        assert!(!cancel().is_repeat && cancel().is_repeat);
        assert!(waits(&d.run(&claimed.id)), "a swap may be on its way");
        assert_eq!(d.state(&claimed.id), EntityState::Pending);
        d.wait_hours(1);
        d.run(&claimed.id);
        assert_eq!(d.state(&claimed.id), EntityState::Failed);
        assert_eq!(notes(&d, &claimed.id).pop().unwrap().1.as_deref(), Some("Given up."));
        assert_eq!(d.state(&send), EntityState::Pending);
        d.check();
    });
}

/// The swap had been made before anybody gave it up, and nobody had heard of it.
#[test]
fn a_claim_that_was_made_is_not_given_up() {
    on_both(|d| {
        d.fund(1_000);
        let (_, few, rest) = two_parts(&d, 100);
        let whole: Proofs = few.iter().chain(&rest).cloned().collect();
        let before = d.free("home");
        let claimed = d.create(claim(&d, whole));
        let (_, next) = d.flow(&claimed.id);
        let FlowStep::Ask(request) = next else { panic!("{next:?}") };
        d.ask(&request, Luck::AnswerLost);
        d.apply(&claimed.id, PaymentEvent::new(EntityEvent::Cancel));
        d.wait_hours(1);
        d.run(&claimed.id);
        assert_eq!(d.state(&claimed.id), EntityState::Completed);
        assert!(d.free("home") >= before + 100);
        d.run_open();
        d.check();
    });
}

/// A mint that takes few inputs at a time: Nutshell says 422 beyond a thousand.
#[test]
fn a_token_of_more_proofs_than_the_mint_takes_is_claimed_in_batches() {
    on_both(|d| {
        d.fund(1_000);
        let swap = d.token(250);
        d.run(&swap.id);
        let token = d.token_of(&swap.id);
        assert!(token.len() > 6, "{}", token.len());
        let before = d.free("home");
        let claimed = d.create(claim(&d, token.clone()));
        d.mint.borrow_mut().most_inputs = 3;
        // The second batch's answer is lost.
        let mut swaps = 0;
        d.run_with(&claimed.id, |request| {
            let is_batch = matches!(request, FlowRequest::Swap { request, .. }
                if request.inputs().len() <= 3);
            swaps += u32::from(is_batch);
            if is_batch && swaps == 2 { Luck::AnswerLost } else { Luck::Good }
        });
        assert_eq!(d.state(&claimed.id), EntityState::Completed);
        let EntityDetails::ReceiveSwap(got) = d.store.entity(&claimed.id).unwrap().details else {
            panic!()
        };
        assert_eq!(d.free("home"), before + got.gain());
        let batches = token.len().div_ceil(got.progress.batch.unwrap()) as u64;
        assert_eq!(got.gain(), sum(&token) - batches, "each batch costs 1");
        d.run_open();
        assert_eq!(d.state(&swap.id), EntityState::Completed);
        d.check();
    });
}

/// The mint has written the outputs down, and was gone before it signed them.
#[test]
fn outputs_that_a_mint_recorded_and_never_signed_are_replaced_after_an_hour() {
    on_both(|d| {
        d.fund(1_000);
        let record = |id: &str| {
            let FlowStep::Ask(FlowRequest::Swap { request, .. }) = d.flow(id).1 else { panic!() };
            let outputs = request.outputs().iter().map(|output| output.blinded_secret);
            d.mint.borrow_mut().recorded.extend(outputs);
        };
        let swap = d.token(100);
        record(&swap.id);
        assert!(waits(&d.run(&swap.id)));
        assert_eq!(d.state(&swap.id), EntityState::Draft, "it may still be signed");
        d.wait_hours(1);
        d.run(&swap.id);
        assert_eq!(d.state(&swap.id), EntityState::Pending);
        let back = d.create(reversal(&d, &swap.id));
        record(&back.id);
        d.run(&back.id);
        assert_eq!(d.state(&back.id), EntityState::Pending);
        d.wait_hours(1);
        d.run(&back.id);
        assert_eq!(d.state(&swap.id), EntityState::Reversed);
        d.check();
    });
}
