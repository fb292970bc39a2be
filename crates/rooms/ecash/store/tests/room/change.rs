//! Change of a melt that isn't there when the payment is.

use unspent_ecash::{
    EntityDetails, NewEntity, NewSource,
    details::{ChangeBounds, OwedChange, SendQuoteDetails},
    flow::{FlowStep, WaitReason},
};
use unspent_model::ecash::EntityState;

use crate::fixture::*;

fn details(d: &StoreFixture, id: &str) -> SendQuoteDetails {
    let EntityDetails::SendQuote(quote) = d.store.entity(id).unwrap().details else { panic!() };
    quote
}

fn owed(d: &StoreFixture, id: &str) -> OwedChange {
    details(d, id).owed.unwrap()
}

fn hide(d: &StoreFixture, amounts: &[u64]) {
    d.mint.borrow_mut().hides = amounts.iter().copied().collect();
}

fn all() -> Vec<u64> {
    (0..20).map(|bit| 1 << bit).collect()
}

fn is_retry(next: &FlowStep) -> bool {
    matches!(next, FlowStep::Wait(WaitReason::Retry(_)))
}

fn notes(d: &StoreFixture, id: &str) -> Vec<(String, String)> {
    let journal = d.store.journal_of(id).unwrap().into_iter();
    journal.filter_map(|line| Some((line.event, line.note?))).collect()
}

/// 512 for 100: the mint owes 406 to 411, and gives 256, 128, 16, 8 and 2.
fn paid(d: &StoreFixture) -> String {
    d.fund(512);
    let quote = d.melt(100, None);
    assert_eq!(details(d, &quote.id).change_bounds(), Some(ChangeBounds { least: 406, most: 411 }));
    assert!(is_retry(&d.run(&quote.id)));
    assert_eq!(d.state(&quote.id), EntityState::Paid);
    quote.id
}

#[test]
fn nothing_is_waited_for_quietly_and_given_up_after_the_grace_time() {
    on_both(|mut d| {
        hide(&d, &all());
        let id = paid(&d);
        assert_eq!((d.free("home"), d.held("home")), (0, 0));
        assert_eq!(details(&d, &id).spent, Some(512));
        d.wait_hours(23);
        d.reopen();
        assert!(is_retry(&d.run(&id)));
        let before = d.store.entity(&id).unwrap();
        assert!(before.is_open() && !before.alarm);
        d.check();
        d.wait_hours(1);
        assert_eq!(d.run(&id), FlowStep::Done);
        let after = d.store.entity(&id).unwrap();
        // More than the reserve is missing, which no mint may keep.
        assert!(!after.is_open() && after.alarm);
        let told = notes(&d, &id);
        assert!(told[0].0 == "miss_change" && told[0].1.contains("406 sat"), "{told:?}");
        assert!(told[1].0 == "close_change" && told[1].1.contains("kept 411 sat"), "{told:?}");
        assert_eq!(owed(&d, &id).kept, Some(411));
        d.check();
    });
}

#[test]
fn a_mint_may_keep_its_whole_reserve() {
    on_both(|d| {
        d.fund(64);
        d.mint.borrow_mut().lightning_fee = 5;
        // 58 + 5 + 1 for the input = 64.
        let quote = d.melt(58, None);
        assert!(is_retry(&d.run(&quote.id)));
        assert_eq!(d.state(&quote.id), EntityState::Paid);
        d.wait_hours(24);
        assert_eq!(d.run(&quote.id), FlowStep::Done);
        let after = d.store.entity(&quote.id).unwrap();
        assert!(!after.is_open() && !after.alarm);
        let told = notes(&d, &quote.id);
        assert!(told[0].1.contains("kept 5 sat") && told.len() == 1, "{told:?}");
        d.check();
    });
}

#[test]
fn parts_are_taken_as_they_come_and_the_rest_is_told_once() {
    on_both(|mut d| {
        hide(&d, &[256, 128]);
        let id = paid(&d);
        assert_eq!(d.free("home"), 26);
        assert!(d.store.entity(&id).unwrap().alarm);
        assert!(notes(&d, &id)[0].1.contains("380 sat"));
        d.check();
        hide(&d, &[256]);
        d.reopen();
        assert!(is_retry(&d.run(&id)));
        assert_eq!((d.free("home"), owed(&d, &id).came), (154, 154));
        d.check();
        hide(&d, &[]);
        assert_eq!(d.run(&id), FlowStep::Done);
        assert_eq!((d.free("home"), details(&d, &id).spent), (410, Some(102)));
        let after = owed(&d, &id);
        assert!(after.is_closed && after.kept.is_none() && after.taken.len() == 5, "{after:?}");
        assert_eq!(notes(&d, &id).len(), 1, "told once");
        d.check();
    });
}

#[test]
fn more_change_than_expected_is_taken() {
    on_both(|d| {
        d.fund(512);
        d.mint.borrow_mut().gift = 200;
        let quote = d.melt(100, None);
        assert_eq!(d.run(&quote.id), FlowStep::Done);
        assert_eq!((d.state(&quote.id), d.free("home")), (EntityState::Paid, 610));
        assert_eq!(details(&d, &quote.id).spent, Some(0));
        d.check();
    });
}

/// A token of `home` that pays an invoice of `away`; its change goes to `home`.
#[test]
fn change_of_a_token_that_pays_elsewhere_is_owed_too() {
    on_both(|d| {
        d.fund(512);
        let token = d.token(200);
        d.run(&token.id);
        let proofs = d.token_of(&token.id);
        let worth: u64 = proofs.iter().map(|proof| proof.amount.to_u64()).sum();
        let input_fee = 1;
        d.mint.borrow_mut().offer_melt("cross", 100);
        let keyset = d.mint.borrow().output_keyset();
        let source = NewSource {
            mint_url: d.mint.borrow().url.to_string(),
            melt_quote_id: "cross".into(),
            proofs,
            input_fee,
            amount: 100,
            fee_reserve: 5,
            account: Some(("home".into(), keyset)),
        };
        let terms = d.terms("away");
        let quote_id = format!("mint-{}", terms.id);
        let unpaid = cashu::MintQuoteState::Unpaid;
        d.other.borrow_mut().quotes.insert(quote_id.clone(), (100, unpaid));
        let invoice = INVOICE.to_owned();
        let new = NewEntity::ReceiveQuote {
            quote_id,
            invoice,
            amount: 100,
            lock_index: 3,
            source: Some(source),
        };
        let id = d.begin(new, terms).unwrap().entity.id;
        let before = d.free("home");
        hide(&d, &[64]);
        assert!(is_retry(&d.run(&id)));
        let change = worth - input_fee - 101;
        assert_eq!(d.free("home"), before + change - 64);
        assert!(d.store.entity(&id).unwrap().alarm);
        d.pay_invoice("away", &id);
        assert!(is_retry(&d.run(&id)));
        assert_eq!(d.state(&id), EntityState::Completed);
        assert!(d.store.entity(&id).unwrap().is_open());
        hide(&d, &[]);
        assert_eq!(d.run(&id), FlowStep::Done);
        assert_eq!((d.free("home"), d.free("away")), (before + change, 100));
        assert!(!d.store.entity(&id).unwrap().is_open());
        d.run(&token.id);
        d.check();
    });
}
