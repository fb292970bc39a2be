//! Mints that say what isn't so while paying: answers about another quote, payments that weren't
//! made, invoices over other sums, change that is missing or can't be read. Each lies for a while
//! and is honest then.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use cashu::SwapRequest;
use serde_json::{Value, json};
use unspent_ecash::{EcashAccount, EcashEntity, EntityDetails, PageRequest};
use unspent_ecash_room::work::payments::InvoiceOrder;
use unspent_model::ecash::{EntityKind, EntityState};
use unspent_testkit::ecash::{Fault, FaultProxy, Nutshell};

use crate::{
    purse::Purse,
    wallet::{Wallet, asked, plain},
};

const MELT: &str = "/v1/melt/bolt11";
const MELT_QUOTE: &str = "/v1/melt/quote/bolt11";
const READ_MELT: &str = "/v1/melt/quote/bolt11/";
const RESTORE: &str = "/v1/restore";

/// A mint that pays invoices of another one, with a line to it that lies as long as it is told to.
struct Liar {
    mint: Nutshell,
    other: Nutshell,
    proxy: FaultProxy,
    lies: Arc<AtomicBool>,
    folder: tempfile::TempDir,
}

impl Liar {
    fn start() -> Option<Self> {
        let (mint, other) = (Nutshell::start(plain())?, Nutshell::start(plain())?);
        let proxy = FaultProxy::start(&mint.url());
        let lies = Arc::new(AtomicBool::new(true));
        Some(Self { mint, other, proxy, lies, folder: tempfile::tempdir().unwrap() })
    }

    fn wallet(&self, amount: u64) -> (Wallet, EcashAccount) {
        let mut wallet = Wallet::open(self.folder.path());
        let account = wallet.account(&self.proxy.url());
        wallet.earn(&account, amount);
        (wallet, account)
    }

    fn edit(&self, path: &str, lie: impl Fn(&mut Value) + Send + Sync + 'static) {
        let lies = self.lies.clone();
        self.proxy.edit(path, move |answer| {
            if lies.load(Ordering::SeqCst) {
                lie(answer);
            }
        });
    }

    fn becomes_honest(&self) {
        self.lies.store(false, Ordering::SeqCst);
    }

    fn pay(&self, wallet: &Wallet, account: &EcashAccount, amount: u64) -> EcashEntity {
        wallet.executor.pay(&account.id, &self.other.invoice(amount).0, &asked()).unwrap()
    }
}

fn quote_id(entity: &EcashEntity) -> String {
    let EntityDetails::SendQuote(quote) = &entity.details else { panic!("it is a send quote") };
    quote.quote_id.clone()
}

#[test]
fn an_answer_about_another_quote_is_not_believed() {
    let Some(liar) = Liar::start() else { return };
    let (mut wallet, account) = liar.wallet(1_000);
    let paid = liar.pay(&wallet, &account, 100);
    wallet.work_until(&paid.id, EntityState::Paid);
    // What a cache on the way would answer.
    let cached = liar.mint.get(&format!("{READ_MELT}{}", quote_id(&paid)));
    assert_eq!(cached["state"], "PAID");
    liar.edit(READ_MELT, move |quote| *quote = cached.clone());
    let before = wallet.balance(&account);
    let begun = liar.pay(&wallet, &account, 256);
    wallet.work_for(Duration::from_secs(4));
    assert_eq!(wallet.entity(&begun.id).state, EntityState::Unpaid);
    let (free, held) = wallet.balance(&account);
    assert_eq!((free + held, before.1), (before.0, 0), "nothing is gone");
    wallet.audit(&[&account]);
    liar.becomes_honest();
    wallet.work_until(&begun.id, EntityState::Paid);
    wallet.audit(&[&account]);
}

#[test]
fn paid_is_believed_with_the_preimage_or_with_spent_inputs() {
    let Some(liar) = Liar::start() else { return };
    let (mut wallet, account) = liar.wallet(1_000);
    liar.edit(READ_MELT, |quote| {
        quote["state"] = json!("PAID");
        quote["payment_preimage"] = json!("ab".repeat(32));
    });
    let begun = liar.pay(&wallet, &account, 100);
    wallet.work_for(Duration::from_secs(4));
    assert_eq!(wallet.entity(&begun.id).state, EntityState::Unpaid);
    wallet.audit(&[&account]);
    liar.becomes_honest();
    wallet.work_until(&begun.id, EntityState::Paid);
    // This mint's pretended Lightning side gives a preimage that proves nothing.
    let after = wallet.entity(&begun.id);
    let EntityDetails::SendQuote(quote) = &after.details else { panic!("{after:?}") };
    assert_eq!(quote.preimage, None);
    wallet.audit(&[&account]);
}

#[test]
fn an_invoice_over_another_amount_than_asked_is_refused() {
    let Some(liar) = Liar::start() else { return };
    let (wallet, account) = liar.wallet(100);
    let large = liar.other.invoice(5_000).0;
    liar.edit("/v1/mint/quote/bolt11", move |quote| quote["request"] = json!(large));
    let error = wallet.executor.receive(&account.id, 50, &asked()).unwrap_err().to_string();
    assert!(error.contains("5000") && error.contains("50 "), "{error}");
    let page = PageRequest::first(10);
    let kept = wallet.executor.store.entities(EntityKind::CashuReceiveQuote, page).unwrap();
    assert_eq!(kept.len(), 1, "nothing is stored beside the first");
    liar.becomes_honest();
    wallet.executor.receive(&account.id, 50, &asked()).unwrap();
}

#[test]
fn inputs_that_were_spent_elsewhere_end_a_payment_at_once() {
    let Some(liar) = Liar::start() else { return };
    let (mut wallet, account) = liar.wallet(1_000);
    let begun = liar.pay(&wallet, &account, 100);
    let held = wallet.executor.store.open_entity(&begun.id).unwrap().held;
    let (before, reserved) = wallet.balance(&account);
    // Somebody who has a copy of the seed.
    let purse = Purse::new(&liar.mint.url());
    let (gone, free) = held.split_at(1);
    let worth = u64::from(gone[0].amount);
    let outputs = purse.outputs(worth - 1).blinded_messages();
    purse.client.swap(&SwapRequest::new(gone.to_vec(), outputs)).unwrap();
    wallet.work_until(&begun.id, EntityState::Failed);
    let free: u64 = free.iter().map(|proof| u64::from(proof.amount)).sum();
    assert_eq!(reserved, worth + free);
    assert_eq!(wallet.balance(&account), (before + free, 0), "the others are free again");
    let note = wallet.last_note(&begun.id);
    assert!(note.contains("spent elsewhere"), "{note}");
    wallet.audit(&[&account]);
}

/// The mint has paid; the answer is lost, and neither the quote nor a restore brings change.
fn hide_change(liar: &Liar) {
    liar.proxy.script(MELT, [Fault::DropAnswer]);
    liar.edit(READ_MELT, |quote| quote["change"] = Value::Null);
    liar.edit(RESTORE, |found| {
        *found = json!({ "outputs": [], "signatures": [] });
    });
}

fn spent(entity: &EcashEntity) -> u64 {
    let EntityDetails::SendQuote(quote) = &entity.details else { panic!("it is a send quote") };
    quote.spent.unwrap()
}

#[test]
fn change_that_is_hidden_once_comes_later_also_after_a_restart() {
    let Some(liar) = Liar::start() else { return };
    let (mut wallet, account) = liar.wallet(512);
    hide_change(&liar);
    let begun = liar.pay(&wallet, &account, 100);
    wallet.work_until(&begun.id, EntityState::Paid);
    wallet.work_for(Duration::from_secs(2));
    let after = wallet.entity(&begun.id);
    assert!(after.is_open() && !after.alarm, "change may still come: {after:?}");
    assert_eq!(wallet.balance(&account).1, 0);
    drop(wallet);
    liar.becomes_honest();
    let mut wallet = Wallet::open(liar.folder.path());
    wallet.work_while(&begun.id, |entity| !entity.is_open());
    let (left, held) = wallet.balance(&account);
    assert!(held == 0 && (400..412).contains(&left), "{left}");
    assert_eq!(spent(&wallet.entity(&begun.id)), 512 - left);
    wallet.audit(&[&account]);
}

/// Lets the largest of the signatures be spoilt, in both places where they are told.
fn spoil_largest(liar: &Liar, spoil: fn(&mut Vec<Value>, usize) -> bool) {
    let largest = |signed: &[Value]| {
        let worth = |signature: &Value| signature["amount"].as_u64().unwrap();
        (0..signed.len()).max_by_key(|at| worth(&signed[*at]))
    };
    liar.edit(MELT, move |quote| {
        if let Some(change) = quote["change"].as_array_mut()
            && let Some(at) = largest(change)
        {
            spoil(change, at);
        }
    });
    liar.edit(READ_MELT, |quote| quote["change"] = Value::Null);
    liar.edit(RESTORE, move |found| {
        let signed = found["signatures"].as_array_mut().unwrap();
        if let Some(at) = largest(signed)
            && spoil(signed, at)
        {
            found["outputs"].as_array_mut().unwrap().remove(at);
        }
    });
}

fn part_of_the_change_is_told_and_taken_later(spoil: fn(&mut Vec<Value>, usize) -> bool) {
    let Some(liar) = Liar::start() else { return };
    let (mut wallet, account) = liar.wallet(512);
    spoil_largest(&liar, spoil);
    let begun = liar.pay(&wallet, &account, 100);
    wallet.work_while(&begun.id, |entity| entity.alarm);
    let after = wallet.entity(&begun.id);
    assert!(after.state == EntityState::Paid && after.is_open(), "{after:?}");
    let (left, _) = wallet.balance(&account);
    assert!((100..200).contains(&left), "what can be read is there: {left}");
    let note = wallet.last_note(&begun.id);
    let short: u64 = note.split(' ').find_map(|word| word.parse().ok()).expect("a sum");
    assert!((240..=256).contains(&short), "{note}");
    wallet.audit(&[&account]);
    liar.becomes_honest();
    wallet.work_while(&begun.id, |entity| !entity.is_open());
    let (left, held) = wallet.balance(&account);
    assert!(held == 0 && (400..412).contains(&left), "{left}");
    assert_eq!(spent(&wallet.entity(&begun.id)), 512 - left);
    wallet.audit(&[&account]);
}

#[test]
fn a_signature_that_is_left_out_is_told_and_taken_later() {
    part_of_the_change_is_told_and_taken_later(|signed, at| {
        signed.remove(at);
        true
    });
}

#[test]
fn a_signature_that_does_not_verify_is_told_and_taken_later() {
    part_of_the_change_is_told_and_taken_later(|signed, at| {
        let from = signed[at]["dleq"]["e"].clone();
        signed[at]["dleq"]["s"] = from;
        false
    });
}

#[test]
fn change_under_a_keyset_that_is_not_loaded_has_the_keysets_loaded() {
    let Some(liar) = Liar::start() else { return };
    let (mut wallet, account) = liar.wallet(512);
    let keysets = || liar.proxy.count("/v1/keysets");
    let unheard = |signed: &mut Value| {
        for signature in signed.as_array_mut().into_iter().flatten() {
            signature["id"] = json!("00ffffffffffffff");
        }
    };
    liar.edit(MELT, move |quote| unheard(&mut quote["change"]));
    liar.edit(READ_MELT, move |quote| unheard(&mut quote["change"]));
    liar.edit(RESTORE, move |found| unheard(&mut found["signatures"]));
    let begun = liar.pay(&wallet, &account, 100);
    wallet.work_until(&begun.id, EntityState::Paid);
    let before = keysets();
    wallet.work_while(&begun.id, |entity| entity.is_open() && keysets() > before + 1);
    liar.becomes_honest();
    wallet.work_while(&begun.id, |entity| !entity.is_open());
    let (left, held) = wallet.balance(&account);
    assert!(held == 0 && (400..412).contains(&left), "{left}");
    wallet.audit(&[&account]);
}

#[test]
fn a_quote_over_another_amount_than_the_invoice_is_refused() {
    let Some(liar) = Liar::start() else { return };
    let (wallet, account) = liar.wallet(500);
    liar.edit(MELT_QUOTE, |quote| quote["amount"] = json!(300));
    let pay = || wallet.executor.pay(&account.id, &liar.other.invoice(50).0, &asked());
    let error = pay().unwrap_err().to_string();
    assert!(error.contains("300") && error.contains("50 "), "{error}");
    assert_eq!(wallet.balance(&account), (500, 0));
    liar.becomes_honest();
    pay().unwrap();
}

#[test]
fn a_reserve_beyond_the_limit_is_refused_and_can_be_looked_at_first() {
    let Some(liar) = Liar::start() else { return };
    let (mut wallet, account) = liar.wallet(500);
    liar.edit(MELT_QUOTE, |quote| quote["fee_reserve"] = json!(100));
    let invoice = liar.other.invoice(50).0;
    let order = |max_fee| InvoiceOrder { account: &account.id, invoice: &invoice, max_fee };
    let price = wallet.executor.price(order(None)).unwrap();
    let told = (price.amount, price.fee_reserve, price.max_fee, price.most());
    assert_eq!(told, (50, 100, 10, 150 + price.input_fee));
    assert_eq!(wallet.balance(&account), (500, 0), "a look reserves nothing");
    let error = wallet.executor.pay_within(order(None), &asked()).unwrap_err().to_string();
    assert!(error.contains("100 sat") && error.contains("10 sat"), "{error}");
    assert_eq!(wallet.balance(&account), (500, 0));
    let page = PageRequest::first(10);
    let kept = wallet.executor.store.entities(EntityKind::CashuSendQuote, page).unwrap();
    assert_eq!(kept, []);
    let begun = wallet.executor.pay_within(order(Some(100)), &asked()).unwrap();
    wallet.work_until(&begun.id, EntityState::Paid);
    let (left, held) = wallet.balance(&account);
    assert!(held == 0 && left >= 445, "what wasn't needed is back: {left}");
    wallet.audit(&[&account]);
}
