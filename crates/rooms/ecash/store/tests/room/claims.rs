//! Claims across accounts: a token of one mint pays an invoice of another.

use unspent_ecash::{EntityDetails, NewEntity, NewSource, flow::FlowStep};
use unspent_model::ecash::{EntityState, TransactionState, input_fee};

use crate::{fixture::*, mint::Payment};

/// A token of the home mint that is to pay an invoice of the other one.
fn cross(d: &StoreFixture, amount: u64, has_account: bool) -> String {
    let swap = d.token(amount + 20);
    d.run(&swap.id);
    let proofs = d.token_of(&swap.id);
    let terms = d.terms("away");
    let (mint_quote, melt_quote) = (format!("mint-{}", terms.id), format!("melt-{}", terms.id));
    let unpaid = cashu::MintQuoteState::Unpaid;
    d.other.borrow_mut().quotes.insert(mint_quote.clone(), (amount, unpaid));
    d.mint.borrow_mut().offer_melt(&melt_quote, amount);
    let fee = d.mint.borrow().active().fee_ppk;
    let keyset = d.mint.borrow().output_keyset();
    let source = NewSource {
        mint_url: d.mint.borrow().url.to_string(),
        melt_quote_id: melt_quote,
        input_fee: input_fee(proofs.iter().map(|_| fee)),
        proofs,
        amount,
        fee_reserve: 5,
        account: has_account.then(|| ("home".to_owned(), keyset)),
    };
    let new = NewEntity::ReceiveQuote {
        quote_id: mint_quote,
        invoice: "lnbc1".into(),
        amount,
        lock_index: 8,
        source: Some(source),
    };
    d.store.create(new, terms).unwrap().entity.id
}

/// The invoice of the other mint is paid when the melt is.
fn arrives(d: &StoreFixture, id: &str) {
    let paid = d.mint.borrow().melts[&format!("melt-{id}")].payments == 1;
    assert!(paid);
    d.pay_invoice("away", id);
}

#[test]
fn a_token_pays_an_invoice_elsewhere_and_its_change_comes_home() {
    on_both(|d| {
        d.fund(1_000);
        for how in [Luck::Good, Luck::RequestLost, Luck::AnswerLost, Luck::Doubled] {
            let (home, away) = (d.free("home"), d.free("away"));
            let id = cross(&d, 100, true);
            let begun = d.store.entity(&id).unwrap();
            assert_eq!(begun.transaction_state, TransactionState::Pending);
            assert!(!begun.melt_initiated);
            d.run_with_lost(&id, "melt", how);
            let melted = d.store.entity(&id).unwrap();
            assert_eq!(melted.state, EntityState::Unpaid);
            assert!(melted.melt_initiated, "{how:?}");
            arrives(&d, &id);
            assert_eq!(d.run(&id), FlowStep::Done);
            assert_eq!(d.state(&id), EntityState::Completed);
            assert_eq!(d.free("away"), away + 100);
            let EntityDetails::ReceiveQuote(details) = d.store.entity(&id).unwrap().details else {
                panic!()
            };
            assert!(details.source.unwrap().change_stored);
            // The token was ours too, so all but what was paid and its fees is still at home.
            assert!(d.free("home") > home - 150, "{} of {home}", d.free("home"));
            d.run_open();
            d.check();
        }
    });
}

#[test]
fn a_melt_that_fails_leaves_the_token_alone() {
    on_both(|d| {
        d.fund(1_000);
        d.mint.borrow_mut().payment = Payment::Fails;
        let id = cross(&d, 100, false);
        d.run(&id);
        let after = d.store.entity(&id).unwrap();
        assert_eq!((after.state, after.transaction_state), {
            (EntityState::Failed, TransactionState::Failed)
        });
        // Seen under way first, then unpaid again.
        d.mint.borrow_mut().payment = Payment::Hangs;
        let id = cross(&d, 100, false);
        d.run(&id);
        assert!(d.store.entity(&id).unwrap().melt_initiated);
        d.mint.borrow_mut().give_back(&format!("melt-{id}"));
        d.run(&id);
        assert_eq!(d.state(&id), EntityState::Failed);
        let note = d.store.journal_of(&id).unwrap().pop().unwrap().note;
        assert_eq!(note.as_deref(), Some("Cashu token melt failed."));
        d.check();
        // The mint pays after all: the money is ours and is fetched.
        d.mint.borrow_mut().settle(&format!("melt-{id}"));
        arrives(&d, &id);
        assert_eq!(d.run(&id), FlowStep::Done);
        assert_eq!(d.state(&id), EntityState::Completed);
        assert_eq!(d.free("away"), 100);
        d.run_open();
        d.check();
    });
}
