//! Leases: taken, renewed, stolen, released, kept through everything that happens to a coin.

use unspent_model::{
    Micros,
    wallet::{CoinState, JournalCause, PlanRefusal, TxStatus},
};
use unspent_wallet::{TxSource, WalletError, choose::CoinPolicy, lease::LeaseTerms};

use crate::{ledger::*, paying::wanted};

const MINUTE: i64 = 60 * SECOND;

#[test]
fn a_leased_coin_is_its_own_class_and_still_listed() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 24_000), (&l.ours(1), 26_000)]);
        l.mine(&[&pay]);
        let end = l.room.lease(l.wallet, &[out(&pay, 0)], l.terms(1), Micros(l.now.get())).unwrap();
        assert_eq!(end, Micros(l.now.get() + 10 * MINUTE));
        let balance = l.balance();
        assert_eq!((balance.total(), balance.leased.sats), (50_000, 24_000));
        assert_eq!(balance.confirmed.sats, 26_000);
        assert_eq!(l.unspent().len(), 2);
        assert_eq!((l.coin(&pay, 0), l.coin(&pay, 1)), (CoinState::Leased, CoinState::Confirmed));
        let listed = l.room.leases(l.wallet, Micros(l.now.get())).unwrap();
        assert_eq!((listed.len(), listed[0].amount), (1, 24_000));
        assert_eq!((listed[0].script.clone(), listed[0].lock), (l.ours(0), lock(1)));
    });
}

#[test]
fn only_the_holder_renews_and_releases() {
    on_both(|l| {
        let pay = l.fund(1, 5_000);
        let (coin, now) = ([out(&pay, 0)], l.now.get());
        let first = l.room.lease(l.wallet, &coin, l.terms(1), Micros(now)).unwrap();
        let refused = l.room.lease(l.wallet, &coin, l.terms(2), Micros(now + SECOND)).unwrap_err();
        let told = matches!(refused, WalletError::AlreadyLeased { holder, expires_at, .. }
            if holder == lock(1) && expires_at == first);
        assert!(told, "{refused}");
        let later = l.room.lease(l.wallet, &coin, l.terms(1), Micros(now + SECOND)).unwrap();
        assert_eq!(later, Micros(first.0 + SECOND));
        let shorter = LeaseTerms { duration: SECOND, ..l.terms(1) };
        let sooner = l.room.lease(l.wallet, &coin, shorter, Micros(now + SECOND)).unwrap();
        assert_eq!(sooner, Micros(now + 2 * SECOND));
        let wrong = l.room.release(l.wallet, &coin, lock(2), Micros(now + SECOND)).unwrap_err();
        assert!(matches!(wrong, WalletError::NotYourLease(_)));
        l.room.release(l.wallet, &coin, lock(1), Micros(now + SECOND)).unwrap();
        l.room.release(l.wallet, &coin, lock(1), Micros(now + SECOND)).unwrap();
        let missing = l.room.lease(l.wallet, &[foreign(5)], l.terms(1), Micros(now)).unwrap_err();
        assert!(matches!(missing, WalletError::CoinNotFound(_)));
        for duration in [0, -5, i64::MAX] {
            let terms = LeaseTerms { duration, ..l.terms(1) };
            let refused = l.room.lease(l.wallet, &coin, terms, Micros(now)).unwrap_err();
            assert!(matches!(refused, WalletError::BadDuration));
        }
    });
}

#[test]
fn a_frozen_coin_is_not_leased_by_name() {
    on_both(|l| {
        let (pay, other) = (l.fund(1, 5_000), l.fund(2, 6_000));
        let (frozen, free, now) = (out(&pay, 0), out(&other, 0), l.now.get());
        l.room.freeze(l.wallet, &[frozen], Micros(now)).unwrap();
        let refused = l.room.lease(l.wallet, &[free, frozen], l.terms(1), Micros(now)).unwrap_err();
        assert!(matches!(refused, WalletError::CoinFrozen(coin) if coin == frozen), "{refused}");
        assert!(l.room.leases(l.wallet, Micros(now)).unwrap().is_empty(), "sets are taken whole");
        let policy = CoinPolicy { require: vec![frozen], ..CoinPolicy::default() };
        let chosen =
            l.room.select_and_lease(l.wallet, wanted(1_000), &policy, l.terms(1), Micros(now));
        assert_eq!(chosen.unwrap_err().to_string(), refused.to_string(), "the same words");
        l.room.thaw(l.wallet, &[frozen]).unwrap();
        l.room.lease(l.wallet, &[free, frozen], l.terms(1), Micros(now)).unwrap();
        // A freeze that comes later ends no lease, but it can't be renewed.
        l.room.freeze(l.wallet, &[frozen], Micros(now)).unwrap();
        assert_eq!(l.room.leases(l.wallet, Micros(now)).unwrap().len(), 2);
        assert!(l.room.lease(l.wallet, &[frozen], l.terms(1), Micros(now)).is_err());
    });
}

#[test]
fn a_lease_ends_at_the_moment_of_its_expiry_and_another_may_follow() {
    on_both(|l| {
        let pay = l.fund(1, 5_000);
        let (coin, now) = ([out(&pay, 0)], l.now.get());
        let end = l.room.lease(l.wallet, &coin, l.terms(1), Micros(now)).unwrap();
        let leased = |at| l.room.balance(l.wallet, 1, at).unwrap().leased.sats;
        assert_eq!((leased(Micros(end.0 - 1)), leased(end)), (5_000, 0));
        assert!(l.room.leases(l.wallet, end).unwrap().is_empty());
        let metrics = l.room.metrics(end).unwrap();
        assert_eq!((metrics.active_leases, metrics.expired_leases), (0, 1), "the row remains");
        let refused = l.room.lease(l.wallet, &coin, l.terms(2), Micros(end.0 - 1));
        assert!(refused.is_err());
        l.room.lease(l.wallet, &coin, l.terms(2), end).unwrap();
        let late = l.room.lease(l.wallet, &coin, l.terms(1), end);
        assert!(late.is_err(), "stolen is stolen");
        assert_eq!(l.room.purge_leases(None, end).unwrap(), 0);
        assert_eq!(l.room.purge_leases(None, Micros(end.0 + 10 * MINUTE)).unwrap(), 1);
        assert_eq!(leased(Micros(now)), 0, "a clock that jumps back revives no purged lease");
    });
}

#[test]
fn a_confirmed_spend_by_another_ends_the_lease_and_is_journalled_as_forced() {
    on_both(|l| {
        let pay = l.fund(1, 5_000);
        let spend = tx(&[out(&pay, 0)], &[(&theirs(1), 4_000)]);
        l.room.lease(l.wallet, &[out(&pay, 0)], l.terms(1), Micros(l.now.get())).unwrap();
        l.mine(&[&spend]);
        assert!(l.room.leases(l.wallet, Micros(l.now.get())).unwrap().is_empty());
        assert_eq!(l.balance().leased.sats, 0);
        let lines = l.room.journal(l.wallet, Some(spend.compute_txid()), 0, 10).unwrap();
        let forced = lines.iter().find(|line| line.cause == JournalCause::ForcedSpend).unwrap();
        assert_eq!((forced.lock, forced.output), (Some(lock(1)), Some(out(&pay, 0))));
    });
}

#[test]
fn a_purge_of_one_wallet_leaves_the_others_and_the_active_ones() {
    on_both(|l| {
        let other = l.other_wallet("other", 2);
        let to =
            l.room.next_address(other, None, unspent_wallet::wallet_info::KeychainPurpose::Receive);
        let pay =
            tx(&[foreign(1)], &[(&l.ours(0), 500), (&l.ours(1), 600), (&to.unwrap().script, 700)]);
        l.mine(&[&pay]);
        let now = l.now.get();
        let short = LeaseTerms { duration: SECOND, ..l.terms(1) };
        l.room.lease(l.wallet, &[out(&pay, 0)], short, Micros(now)).unwrap();
        l.room.lease(l.wallet, &[out(&pay, 1)], l.terms(1), Micros(now)).unwrap();
        l.room.lease(other, &[out(&pay, 2)], short, Micros(now)).unwrap();
        assert_eq!(l.room.purge_leases(Some(l.wallet), Micros(now + SECOND)).unwrap(), 1);
        let left: u64 = l.room.metrics(Micros(now)).unwrap().active_leases;
        assert_eq!(left, 2);
    });
}

#[test]
fn a_coin_that_dies_and_comes_back_keeps_its_lease() {
    on_both(|l| {
        let funding = l.fund(1, 5_000);
        let made = tx(&[out(&funding, 0)], &[(&l.ours(1), 4_000)]);
        let rival = tx(&[out(&funding, 0)], &[(&l.ours(2), 3_000)]);
        l.mempool(&made);
        l.room.lease(l.wallet, &[out(&made, 0)], l.terms(1), Micros(l.now.get())).unwrap();
        l.mempool(&rival);
        assert!(l.room.leases(l.wallet, Micros(l.now.get())).unwrap().is_empty());
        assert_eq!(l.balance().leased.sats, 0);
        let dead = l.room.lease(l.wallet, &[out(&made, 0)], l.terms(2), Micros(l.now.get()));
        assert!(matches!(dead, Err(WalletError::CoinNotFound(_))));
        l.mempool(&made);
        assert_eq!(l.coin(&made, 0), CoinState::Leased);
        assert_eq!(l.room.leases(l.wallet, Micros(l.now.get())).unwrap().len(), 1);
    });
}

#[test]
fn a_lease_reappears_when_the_spend_is_replaced_without_the_coin() {
    on_both(|l| {
        let (x, y) = (l.fund(1, 5_000), l.fund(2, 6_000));
        l.room.lease(l.wallet, &[out(&x, 0)], l.terms(1), Micros(l.now.get())).unwrap();
        let spend = tx(&[out(&x, 0), out(&y, 0)], &[(&theirs(1), 10_000)]);
        let how = TxSource::Created { lock: Some(lock(1)), force: false };
        l.see(&spend, how).unwrap();
        l.mempool(&spend);
        assert_eq!(l.coin(&x, 0), CoinState::Spent);
        let lines = l.room.journal(l.wallet, Some(spend.compute_txid()), 0, 10).unwrap();
        assert!(
            lines.iter().all(|line| line.cause != JournalCause::ForcedSpend),
            "the holder spent it"
        );
        let without = tx(&[out(&y, 0)], &[(&theirs(1), 5_000)]);
        l.mempool(&without);
        assert_eq!(l.coin(&x, 0), CoinState::Leased);
    });
}

#[test]
fn a_created_transaction_needs_the_lease_or_force() {
    on_both(|l| {
        let pay = l.fund(1, 5_000);
        l.room.lease(l.wallet, &[out(&pay, 0)], l.terms(1), Micros(l.now.get())).unwrap();
        let spend = tx(&[out(&pay, 0)], &[(&theirs(1), 4_000)]);
        let other = TxSource::Created { lock: Some(lock(2)), force: false };
        let refused = l.see(&spend, other).unwrap_err();
        assert!(matches!(refused, WalletError::Refused(PlanRefusal::Leased { .. })), "{refused}");
        assert!(!l.is_known(&spend));
        l.see(&spend, TxSource::Created { lock: Some(lock(2)), force: true }).unwrap();
        assert_eq!(l.status(&spend), (TxStatus::Pending, None));
        let lines = l.room.journal(l.wallet, Some(spend.compute_txid()), 0, 10).unwrap();
        assert!(lines.iter().any(|line| line.cause == JournalCause::ForcedSpend));
    });
}

#[test]
fn coins_are_leased_all_or_none() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 1), (&l.ours(1), 2), (&l.ours(2), 3)]);
        l.mine(&[&pay]);
        let now = l.now.get();
        l.room.lease(l.wallet, &[out(&pay, 1)], l.terms(1), Micros(now)).unwrap();
        let all = [out(&pay, 2), out(&pay, 1), out(&pay, 0)];
        let refused = l.room.lease(l.wallet, &all, l.terms(2), Micros(now)).unwrap_err();
        assert!(matches!(refused, WalletError::AlreadyLeased { .. }));
        assert_eq!(l.balance().leased.coins, 1);
        let partly = [out(&pay, 0), foreign(9)];
        assert!(l.room.lease(l.wallet, &partly, l.terms(2), Micros(now)).is_err());
        assert_eq!(l.balance().leased.coins, 1);
        l.room.lease(l.wallet, &all, l.terms(1), Micros(now)).unwrap();
        assert_eq!(l.balance().leased.coins, 3);
    });
}

#[test]
fn a_held_lease_outlasts_the_clock_until_its_spend_is_deep_enough() {
    on_both(|l| {
        let pay = l.fund(1, 5_000);
        let terms = LeaseTerms { hold_confirmations: Some(2), duration: SECOND, ..l.terms(1) };
        l.room.lease(l.wallet, &[out(&pay, 0)], terms, Micros(l.now.get())).unwrap();
        let spend = tx(&[out(&pay, 0)], &[(&theirs(1), 4_000)]);
        l.see(&spend, TxSource::Created { lock: Some(lock(1)), force: false }).unwrap();
        let held = || l.room.leases(l.wallet, Micros(l.now.get() + MINUTE)).unwrap().len();
        let purge = || l.room.purge_leases(None, Micros(l.now.get() + MINUTE)).unwrap();
        assert_eq!((held(), purge()), (1, 0));
        l.mine(&[&spend]);
        assert_eq!((held(), purge()), (1, 0));
        l.undo(1);
        assert_eq!((held(), purge()), (1, 0), "a shallow reorganisation does not end it");
        l.mine(&[&spend]);
        l.mine(&[]);
        assert_eq!((held(), purge()), (0, 1));
    });
}

#[test]
fn holding_for_no_confirmation_is_refused() {
    on_both(|l| {
        let pay = l.fund(1, 5_000);
        let terms = LeaseTerms { hold_confirmations: Some(0), ..l.terms(1) };
        let refused =
            l.room.lease(l.wallet, &[out(&pay, 0)], terms, Micros(l.now.get())).unwrap_err();
        assert!(matches!(refused, WalletError::BadHold), "{refused}");
        assert_eq!(refused.kind(), unspent_wallet::Kind::Refused);
    });
}

#[test]
fn leases_survive_a_restart() {
    on_both(|l| {
        let pay = l.fund(1, 5_000);
        l.room.lease(l.wallet, &[out(&pay, 0)], l.terms(1), Micros(l.now.get())).unwrap();
        let again = l.another_room();
        assert_eq!(again.leases(l.wallet, Micros(l.now.get())).unwrap().len(), 1);
        assert!(again.lease(l.wallet, &[out(&pay, 0)], l.terms(2), Micros(l.now.get())).is_err());
    });
}
