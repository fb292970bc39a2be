//! Accounts at real mints: a keyset that two list, a mint that has moved, slow mints.

use std::time::{Duration, Instant};

use serde_json::json;
use unspent_ecash_room::{
    mint::{MintOptions, check::MintBlocklist},
    work::EcashWorkError,
};
use unspent_model::ecash::EntityState;
use unspent_testkit::ecash::{Fault, FaultProxy, MintSettings, Nutshell};

use crate::{
    purse::options,
    wallet::{Setup, Wallet, asked, plain},
};

/// A mint that lists the public keysets of an honest one, and signs with other keys.
#[test]
fn a_mint_that_copies_anothers_keysets_is_no_obstacle_to_that_one() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let hostile = FaultProxy::start(&mint.url());
    hostile.edit("/v1/mint/bolt11", |answer| {
        for signature in answer["signatures"].as_array_mut().into_iter().flatten() {
            signature["dleq"]["e"] = json!("01".repeat(32));
        }
    });
    hostile.edit("/v1/restore", |answer| {
        *answer = json!({ "outputs": [], "signatures": [] });
    });
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let bad = wallet.account(&hostile.url());
    let lost = wallet.executor.receive(&bad.id, 64, &asked()).unwrap();
    wallet.work_until(&lost.id, EntityState::Paid);
    let good = wallet.account(&mint.url());
    assert_ne!(good.id, bad.id);
    wallet.earn(&good, 100);
    let (send, _) = wallet.token(&good, 30);
    let back = wallet.executor.reverse(&send, &asked()).unwrap();
    wallet.work_until(&back.id, EntityState::Completed);
    let (free, held) = wallet.balance(&good);
    assert!(held == 0 && free > 95, "{free}");
    wallet.audit(&[&good]);
    assert_eq!(wallet.balance(&bad), (0, 0));
}

#[test]
fn an_account_moves_to_where_its_mint_shows_that_it_is_the_same() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let extra = vec![("MINT_PRIVATE_KEY".to_owned(), "another".to_owned())];
    let Some(other) = Nutshell::start(MintSettings { extra, ..plain() }) else { return };
    let (old, new) = (FaultProxy::start(&mint.url()), FaultProxy::start(&mint.url()));
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&old.url());
    wallet.earn(&account, 100);
    let list = MintBlocklist::default();
    let to = |url: &str| wallet.executor.move_account(&account.id, url, &list);
    let refused = to(&other.url()).unwrap_err().to_string();
    assert!(refused.contains("doesn't list keyset"), "{refused}");
    // Lists the keysets, but has none of the signatures.
    new.edit("/v1/restore", |answer| *answer = json!({ "outputs": [], "signatures": [] }));
    let refused = to(&new.url()).unwrap_err().to_string();
    assert!(refused.contains("no signature of ours"), "{refused}");
    new.edit("/v1/restore", |_| {});
    new.edit("/v1/checkstate", |answer| answer["states"][0]["state"] = json!("SPENT"));
    let refused = to(&new.url()).unwrap_err().to_string();
    assert!(refused.contains("spent"), "{refused}");
    new.edit("/v1/checkstate", |_| {});
    let moved = to(&new.url()).unwrap();
    assert_eq!(moved.mint_url.as_ref().unwrap().to_string(), new.url());
    assert_eq!(wallet.executor.store.accounts().unwrap().len(), 1);
    drop(old);
    wallet.earn(&moved, 28);
    let (free, _) = wallet.balance(&moved);
    assert_eq!(free, 128);
    wallet.audit(&[&moved]);
}

#[test]
fn the_second_address_of_a_mint_is_a_whole_account_or_none() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let second = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let first = wallet.account(&mint.url());
    second.script("/v1/keys", [Fault::DropAnswer]);
    let list = MintBlocklist::default();
    let add = |wallet: &Wallet| wallet.executor.add_account(&second.url(), "sat", "two", &list);
    add(&wallet).unwrap_err();
    assert_eq!(wallet.executor.store.accounts().unwrap().len(), 1);
    let two = add(&wallet).unwrap();
    assert!(!wallet.executor.store.keysets(&two.id).unwrap().is_empty());
    wallet.earn(&first, 10);
    wallet.earn(&two, 20);
    wallet.audit(&[&first, &two]);
    wallet.executor.store.rename_account(&two.id, "test").unwrap_err();
    let refused = wallet.executor.remove_account(&two.id, Duration::ZERO).unwrap_err();
    assert!(refused.to_string().contains("20 free"), "{refused}");
}

#[test]
fn a_slow_mint_holds_up_an_account_for_one_deadline_and_no_other_mint() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let slow = FaultProxy::start(&mint.url());
    let each = Duration::from_secs(3);
    slow.script("/v1/", std::iter::repeat_n(Fault::DelayAnswer(each), 60));
    let folder = tempfile::tempdir().unwrap();
    let mints = MintOptions { visit_deadline: Duration::from_secs(5), ..options() };
    let wallet = Wallet::with(folder.path(), Setup { mints, ..Setup::default() });
    let list = MintBlocklist::default();
    let add = |url: &str| wallet.executor.add_account(url, "sat", "x", &list);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let begin = |_| {
            scope.spawn(|| {
                let begun = Instant::now();
                (add(&slow.url()), begun.elapsed())
            })
        };
        let threads: Vec<_> = (0..12).map(begin).collect();
        std::thread::sleep(Duration::from_millis(300));
        add(&mint.url()).unwrap();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let is_crowded =
        |answer: &Result<_, EcashWorkError>| matches!(answer, Err(EcashWorkError::Crowded { .. }));
    let (crowded, waited): (Vec<_>, Vec<_>) =
        answers.iter().partition(|(answer, _)| is_crowded(answer));
    assert_eq!((crowded.len(), waited.len()), (8, 4), "{answers:?}");
    assert!(waited.iter().all(|(answer, _)| answer.is_err()), "{waited:?}");
    assert_eq!(wallet.executor.store.accounts().unwrap().len(), 1, "the honest one alone");
    // Two answers of it don't fit into the deadline; a third was not asked for.
    assert!(slow.count("/v1/") <= 8, "{}", slow.count("/v1/"));
}

#[test]
fn keys_of_active_keysets_are_one_question_and_others_are_asked_when_needed() {
    let Some(mint) = Nutshell::start(MintSettings { rotates: true, ..plain() }) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let first = wallet.account(&proxy.url());
    let quote = wallet.executor.receive(&first.id, 21, &asked()).unwrap();
    proxy.script("/v1/mint/bolt11", [Fault::DropAnswer, Fault::DropRequest, Fault::DropRequest]);
    // What was signed isn't read before the keyset is retired.
    proxy.script("/v1/restore", [Fault::DropRequest, Fault::DropRequest]);
    wallet.work_until(&quote.id, EntityState::Paid);
    wallet.work_for(Duration::from_millis(500));
    drop(wallet);
    for _ in 0..4 {
        mint.rotate("sat");
    }
    let mut wallet = Wallet::open(folder.path());
    // Its outputs are on a keyset that is retired by now.
    wallet.work_until(&quote.id, EntityState::Completed);
    wallet.audit(&[&first]);
    let others = tempfile::tempdir().unwrap();
    let before = proxy.count("/v1/keys");
    Wallet::open(others.path()).account(&proxy.url());
    assert_eq!(proxy.count("/v1/keys") - before, 2, "the list, and the active ones");
}
