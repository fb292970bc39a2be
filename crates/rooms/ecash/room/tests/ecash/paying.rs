//! Payments of the room against real mints, on a good line and on a bad one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cashu::Token;
use unspent_model::ecash::EntityState;
use unspent_testkit::ecash::{Fault, FaultProxy, Lightning, MintSettings, Nutshell};

use crate::wallet::{Wallet, asked, plain};

#[test]
fn a_token_is_sent_claimed_and_taken_back() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut alice, mut bob) = (Wallet::open(ours.path()), Wallet::open(theirs.path()));
    let (from, to) = (alice.account(&mint.url()), bob.account(&mint.url()));
    alice.earn(&from, 1_000);
    assert_eq!(alice.balance(&from), (1_000, 0));

    let send = alice.executor.send(&from.id, 100, &asked()).unwrap();
    alice.work_until(&send.id, EntityState::Pending);
    let token: Token = alice.executor.token(&send.id).unwrap().to_string().parse().unwrap();
    let claim = bob.executor.claim(&token, &to.id, &asked()).unwrap();
    bob.work_until(&claim.id, EntityState::Completed);
    assert_eq!(bob.balance(&to), (100, 0), "the sender pays for the claim");
    alice.work_until(&send.id, EntityState::Completed);
    assert_eq!(alice.balance(&from).1, 0);
    assert!(alice.executor.token(&send.id).is_err());
    // A second claim is told so, and brings nothing.
    assert!(bob.executor.claim(&token, &to.id, &asked()).is_err());

    let before = alice.balance(&from).0;
    let back = alice.executor.send(&from.id, 200, &asked()).unwrap();
    alice.work_until(&back.id, EntityState::Pending);
    let token = alice.executor.token(&back.id).unwrap();
    let reversal = alice.executor.reverse(&back.id, &asked()).unwrap();
    alice.work_until(&reversal.id, EntityState::Completed);
    assert_eq!(alice.entity(&back.id).state, EntityState::Reversed);
    let (left, reserved) = alice.balance(&from);
    assert!(reserved == 0 && left <= before && left > before - 5, "{left} of {before}");
    let late = bob.executor.claim(&token, &to.id, &asked()).unwrap();
    bob.work_until(&late.id, EntityState::Failed);
    alice.audit(&[&from]);
    bob.audit(&[&to]);
}

#[test]
fn lost_answers_cost_nothing() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&proxy.url());
    proxy.script("/v1/mint/bolt11", [Fault::DropRequest, Fault::TooMany(1), Fault::DropAnswer]);
    wallet.earn(&account, 512);
    assert_eq!(wallet.balance(&account), (512, 0));

    proxy.script("/v1/swap", [Fault::DropRequest, Fault::DropAnswer]);
    let send = wallet.executor.send(&account.id, 50, &asked()).unwrap();
    wallet.work_until(&send.id, EntityState::Pending);
    let token = wallet.executor.token(&send.id).unwrap();
    assert_eq!(u64::from(token.value().unwrap()), wallet.balance(&account).1);
    proxy.script("/v1/swap", [Fault::CutAnswer]);
    let reversal = wallet.executor.reverse(&send.id, &asked()).unwrap();
    wallet.work_until(&reversal.id, EntityState::Completed);
    wallet.audit(&[&account]);
    let (left, reserved) = wallet.balance(&account);
    assert!(reserved == 0 && left > 505, "{left}");
}

#[test]
fn invoices_are_paid_fail_and_stay_under_way() {
    let slow = MintSettings { outgoing_delay: Duration::from_secs(1), ..plain() };
    let Some(mut mint) = Nutshell::start(slow) else { return };
    let Some(other) = Nutshell::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&mint.url());
    wallet.earn(&account, 1_000);
    let paid = wallet.executor.pay(&account.id, &other.invoice(100).0, &asked()).unwrap();
    assert_eq!(wallet.balance(&account).0 + wallet.balance(&account).1, 1_000);
    wallet.work_until(&paid.id, EntityState::Paid);
    let (left, reserved) = wallet.balance(&account);
    assert!(reserved == 0 && (890..900).contains(&left), "change came back: {left}");
    wallet.audit(&[&account]);

    let failing =
        MintSettings { paid_at_once: Lightning::Failed, asked_later: Lightning::Failed, ..plain() };
    mint.restart(failing.clone());
    let failed = wallet.executor.pay(&account.id, &other.invoice(100).0, &asked()).unwrap();
    wallet.work_until(&failed.id, EntityState::Failed);
    assert_eq!(wallet.balance(&account), (left, 0));
    wallet.audit(&[&account]);

    let forever = MintSettings {
        paid_at_once: Lightning::Pending,
        asked_later: Lightning::Pending,
        ..plain()
    };
    mint.restart(forever.clone());
    let open = wallet.executor.pay(&account.id, &other.invoice(100).0, &asked()).unwrap();
    wallet.work_until(&open.id, EntityState::Pending);
    assert!(wallet.balance(&account).1 > 100);
    drop(wallet);
    mint.restart(MintSettings { asked_later: Lightning::Settled, ..forever.clone() });
    let mut wallet = Wallet::open(folder.path());
    wallet.work_until(&open.id, EntityState::Paid);
    assert_eq!(wallet.balance(&account).1, 0);
    wallet.audit(&[&account]);

    mint.restart(forever);
    let back = wallet.executor.pay(&account.id, &other.invoice(100).0, &asked()).unwrap();
    let before = wallet.balance(&account);
    wallet.work_until(&back.id, EntityState::Pending);
    mint.restart(failing);
    wallet.work_until(&back.id, EntityState::Failed);
    assert_eq!(wallet.balance(&account), (before.0 + before.1, 0));
    wallet.audit(&[&account]);
}

#[test]
fn a_token_of_one_mint_becomes_money_at_another() {
    let Some(one) = Nutshell::start(plain()) else { return };
    let Some(two) = Nutshell::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let (from, to) = (wallet.account(&one.url()), wallet.account(&two.url()));
    wallet.earn(&from, 1_000);
    let send = wallet.executor.send(&from.id, 300, &asked()).unwrap();
    wallet.work_until(&send.id, EntityState::Pending);
    let token = wallet.executor.token(&send.id).unwrap();
    let claim = wallet.executor.claim(&token, &to.id, &asked()).unwrap();
    wallet.work_until(&claim.id, EntityState::Completed);
    let (got, _) = wallet.balance(&to);
    assert!((280..=300).contains(&got), "{got}");
    wallet.audit(&[&from, &to]);
}

#[test]
fn money_that_comes_after_the_end_of_a_quote_is_not_lost() {
    let unpaid = MintSettings { invoices_are_paid: false, ..plain() };
    let Some(mut mint) = Nutshell::start(unpaid) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    proxy.edit("/v1/mint/quote/bolt11", move |quote| quote["expiry"] = (now + 2).into());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&proxy.url());
    let quote = wallet.executor.receive(&account.id, 64, &asked()).unwrap();
    wallet.work_until(&quote.id, EntityState::Expired);
    drop(wallet);
    mint.restart(plain());
    let mut wallet = Wallet::open(folder.path());
    wallet.work_until(&quote.id, EntityState::Completed);
    assert_eq!(wallet.balance(&account), (64, 0));
    wallet.audit(&[&account]);
}
