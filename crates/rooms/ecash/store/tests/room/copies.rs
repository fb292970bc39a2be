//! Older copies of a database: counters that the mint has seen used, and money that only it knows.

use std::collections::BTreeSet;

use cashu::{MintQuoteState, State};
use unspent_ecash::{EcashStore, PageRequest};
use unspent_model::ecash::{EntityState, ProofState};
use unspent_sql::{Options, Url};

use crate::fixture::*;

/// The database as it is now, to be put back later.
struct Copy(tempfile::TempDir);

fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.is_file()).collect()
}

impl Copy {
    fn of(d: &StoreFixture) -> Self {
        let copy = tempfile::tempdir().unwrap();
        for file in files(d.folder().unwrap()) {
            std::fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
        }
        Self(copy)
    }

    fn url(&self) -> Url {
        Url::Sqlite(self.0.path().join("ecash.db"))
    }

    fn open(&self) -> EcashStore {
        open(&self.url(), Options::default())
    }
}

/// Puts an older state in the place of what a fixture has.
fn put_back(d: &mut StoreFixture, copy: &Copy) {
    d.url = copy.url();
    d.store = copy.open();
}

/// Money of ours that the mint calls unspent.
fn good(d: &StoreFixture) -> u64 {
    let of = |state| d.store.proofs("home", state, PageRequest::first(10_000)).unwrap();
    let mint = d.mint.borrow();
    let ours = of(ProofState::Unspent).into_iter().chain(of(ProofState::Reserved));
    let is_good = |y: &str| mint.state(&cashu::PublicKey::from_hex(y).unwrap()) == State::Unspent;
    ours.filter(|proof| is_good(&proof.y)).map(|proof| proof.amount).sum()
}

fn total(d: &StoreFixture) -> u64 {
    d.free("home") + d.held("home")
}

#[test]
fn what_was_received_after_a_copy_comes_back_with_the_first_answer_that_shows_it() {
    let mut d = StoreFixture::sqlite();
    d.fund(8);
    let copy = Copy::of(&d);
    d.fund(64);
    put_back(&mut d, &copy);
    assert_eq!(total(&d), 8);
    // The same counters, the same sum: the mint has signed these outputs for the other invoice.
    d.fund(64);
    assert_eq!(total(&d), 72, "the new ones");
    d.scan();
    assert_eq!(total(&d), 136, "and the old ones");
    let scans = d.store.scans(10).unwrap();
    assert!(scans.iter().any(|scan| scan.amount == 64 && scan.ended_at.is_some()), "{scans:?}");
    d.check();
    // Nothing is found twice.
    d.store.scan_account("home").unwrap();
    d.scan();
    assert_eq!(total(&d), 136);
    d.check();
}

#[test]
fn other_sums_do_not_hold_a_payment_up() {
    let mut d = StoreFixture::sqlite();
    d.fund(1_000);
    let copy = Copy::of(&d);
    d.fund(63);
    let token = d.token(100);
    d.run(&token.id);
    let given = d.token_of(&token.id);
    d.claim_by_other(&given);
    d.run(&token.id);
    let left = total(&d);
    put_back(&mut d, &copy);
    let invoice = d.invoice("home", 5, None);
    d.pay_invoice("home", &invoice);
    d.run(&invoice);
    assert_eq!(d.state(&invoice), EntityState::Completed);
    d.scan();
    assert_eq!(good(&d), left + 5, "all that the mint gives, and the new invoice");
    // Proofs that are spent in the other life are met sooner or later: the payment fails, and the
    // others go free.
    let sends: Vec<_> = (0..8).filter_map(|_| d.try_token(77).ok()).collect();
    for send in &sends {
        d.run(&send.id);
        d.scan();
        d.run_open();
        assert_ne!(d.state(&send.id), EntityState::Draft, "it is not stuck");
    }
    d.scan();
    let lost = left + 5 - good(&d);
    assert!(lost < 20, "nothing but fees: {lost}");
}

#[test]
fn a_send_whose_outputs_were_signed_elsewhere_takes_others() {
    let mut d = StoreFixture::sqlite();
    d.fund(512);
    d.fund(1_024);
    let copy = Copy::of(&d);
    // The copy swaps other proofs than this one will, on the same counters.
    d.fund(300);
    let before = total(&d);
    put_back(&mut d, &copy);
    let send = d.token(100);
    d.run(&send.id);
    assert_eq!(d.state(&send.id), EntityState::Pending);
    d.scan();
    assert!(total(&d) >= before - 2, "{} of {before}", total(&d));
    d.check();
}

#[test]
fn a_melt_whose_blank_outputs_were_signed_elsewhere_takes_others() {
    let mut d = StoreFixture::sqlite();
    d.fund(1_024);
    let copy = Copy::of(&d);
    d.fund(300);
    put_back(&mut d, &copy);
    let paid = d.melt(100, None);
    d.run(&paid.id);
    d.run_open();
    assert_eq!(d.state(&paid.id), EntityState::Paid);
    d.scan();
    assert!(total(&d) > 1_024 + 300 - 100 - 8, "{}", total(&d));
    d.check();
}

#[test]
fn a_quote_that_a_copy_had_issued_ends() {
    let mut d = StoreFixture::sqlite();
    let waiting = d.invoice("home", 40, None);
    let copy = Copy::of(&d);
    d.fund(7);
    d.pay_invoice("home", &waiting);
    d.run(&waiting);
    assert_eq!(total(&d), 47);
    let used = d.store.counters().unwrap();
    put_back(&mut d, &copy);
    // A high-water mark: the counters are not used again.
    assert_eq!(d.store.catch_up(used.clone()).unwrap(), 1);
    assert_eq!(d.store.catch_up(used).unwrap(), 0);
    d.run(&waiting);
    assert_eq!(d.state(&waiting), EntityState::Paid);
    d.scan();
    assert_eq!(total(&d), 47, "all that the mint gives");
    d.wait_hours(2);
    d.run(&waiting);
    assert_eq!(d.state(&waiting), EntityState::Failed);
    assert_eq!(d.mint.borrow().quotes[&format!("mint-{waiting}")].1, MintQuoteState::Issued);
    d.run(&waiting);
    assert_eq!(d.state(&waiting), EntityState::Failed, "it doesn't come back");
    d.scan();
    assert_eq!(total(&d), 47);
    d.check();
}

#[test]
fn two_copies_side_by_side_count_nothing_twice() {
    let mut a = StoreFixture::sqlite();
    a.fund(1_000);
    let copy = Copy::of(&a);
    let (own_url, copy_url) = (a.url.clone(), copy.url());
    let at = |a: &mut StoreFixture, url: &Url| {
        a.url = url.clone();
        a.store = open(url, Options::default());
    };
    for round in 0..6_u64 {
        let url = if round % 2 == 0 { &own_url } else { &copy_url };
        at(&mut a, url);
        a.fund(10 + round * 7);
        if let Ok(token) = a.try_token(20 + round) {
            a.run(&token.id);
        }
        a.run_open();
        a.scan();
        a.run_open();
    }
    let mut known = BTreeSet::new();
    for url in [&own_url, &copy_url] {
        at(&mut a, url);
        a.store.scan_account("home").unwrap();
        a.scan();
        a.run_open();
        let page = PageRequest::first(10_000);
        let all = [ProofState::Unspent, ProofState::Reserved, ProofState::Spent];
        let all = all.map(|state| a.store.proofs("home", state, page).unwrap());
        known.extend(all.into_iter().flatten().map(|proof| proof.y));
    }
    // Whatever the mint has signed for our seed and calls unspent is in the one or the other.
    let signed = a.mint.borrow().unspent_of(a.store.seed());
    let missing: Vec<_> = signed.iter().filter(|(y, _)| !known.contains(y)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
