//! Many at once.

use std::{collections::BTreeSet, sync::Barrier};

use unspent_ecash::{
    EcashError, EcashStore, InputChoice, Kind, NewEntity, NewTerms, PageRequest, PaymentEvent,
    RangeAsk, proof_name,
};
use unspent_model::{
    Micros,
    ecash::{EntityEvent, ProofState},
};
use unspent_sql::Options;

use crate::fixture::*;

const CONNECTIONS: usize = 12;

fn stores(d: &StoreFixture) -> Vec<EcashStore> {
    let options = Options { readers: 1, writers: 1, ..Options::default() };
    (0..CONNECTIONS).map(|_| open(&d.url, options)).collect()
}

/// Runs one closure per connection, all at once.
fn at_once<T: Send>(d: &StoreFixture, work: impl Fn(usize, &EcashStore) -> T + Sync) -> Vec<T> {
    let (stores, gate) = (stores(d), Barrier::new(CONNECTIONS));
    std::thread::scope(|scope| {
        let threads: Vec<_> = stores
            .iter()
            .enumerate()
            .map(|(at, store)| {
                let (gate, work) = (&gate, &work);
                scope.spawn(move || {
                    gate.wait();
                    work(at, store)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn terms(at: usize, round: usize) -> NewTerms {
    NewTerms {
        id: format!("r{at}-{round}"),
        transaction_id: format!("rt{at}-{round}"),
        idempotency_key: None,
        account_id: "home".into(),
        now: Micros(5),
        expires_at: None,
    }
}

#[test]
fn of_twelve_who_want_the_same_proofs_one_gets_them() {
    on_both(|d| {
        d.fund(1_000);
        let before = d.store.keysets("home").unwrap()[0].1;
        let all = d.store.proofs("home", ProofState::Unspent, PageRequest::first(100)).unwrap();
        let names: Vec<_> =
            all.iter().map(|proof| hex::decode(&proof.y).unwrap().try_into().unwrap()).collect();
        let keyset = d.mint.borrow().output_keyset();
        let outcomes = at_once(&d, |at, store| {
            let new = NewEntity::SendQuote {
                quote_id: format!("q{at}"),
                invoice: "lnbc1".into(),
                amount: 900,
                fee_reserve: 5,
                inputs: InputChoice::These(names.clone()),
                keyset: keyset.clone(),
            };
            store.create(new, terms(at, 0))
        });
        let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(won, 1);
        for lost in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert!(matches!(lost, EcashError::ProofsTaken { .. }), "{lost}");
            assert_eq!(lost.kind(), Kind::Busy);
        }
        // One range of blanks, and no gap.
        let range = outcomes.iter().find_map(|outcome| outcome.as_ref().ok()).unwrap();
        let count = range.entity.details.range().unwrap().amounts.len() as u32;
        assert_eq!(d.store.keysets("home").unwrap()[0].1, before + count);
    });
}

#[test]
fn ranges_of_outputs_never_overlap() {
    on_both(|d| {
        let ids: Vec<Vec<String>> = (0..CONNECTIONS)
            .map(|_| (0..5).map(|_| d.invoice("home", 7, None)).collect())
            .collect();
        let keyset_id = d.mint.borrow().active().id.to_string();
        at_once(&d, |at, store| {
            for id in &ids[at] {
                let amounts = vec![4, 2, 1];
                let range = RangeAsk { keyset_id: keyset_id.clone(), amounts, send_count: 0 };
                let paid = PaymentEvent::new(EntityEvent::ProcessPayment).with_range(range);
                assert!(!store.apply(id, paid.clone(), Micros(9)).unwrap().is_repeat);
                // Told twice, by the socket and by the poll.
                assert!(store.apply(id, paid, Micros(9)).unwrap().is_repeat);
            }
        });
        let mut seen = BTreeSet::new();
        for id in ids.iter().flatten() {
            let entity = d.store.entity(id).unwrap();
            let range = entity.details.range().unwrap();
            for counter in range.start..range.start + 3 {
                assert!(seen.insert(counter), "{counter} was taken twice");
            }
        }
        let count = (CONNECTIONS * 5 * 3) as u32;
        assert_eq!(d.store.keysets("home").unwrap()[0].1, count);
        assert_eq!(seen, (0..count).collect());
        let numbers: Vec<u64> = d
            .store
            .journal(PageRequest::first(1_000))
            .unwrap()
            .iter()
            .map(|line| line.number)
            .collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no gaps");
    });
}

#[test]
fn twelve_payments_out_of_one_purse_take_different_proofs() {
    on_both(|d| {
        for _ in 0..CONNECTIONS {
            d.fund(127);
        }
        let keyset = d.mint.borrow().output_keyset();
        let outcomes = at_once(&d, |at, store| {
            let keyset = keyset.clone();
            let new = NewEntity::SendSwap { amount: 40, inputs: InputChoice::Select, keyset };
            store.create(new, terms(at, 1)).map(|done| done.entity.id)
        });
        let mut seen = BTreeSet::new();
        for outcome in outcomes {
            for proof in d.token_of(&outcome.unwrap()) {
                assert!(seen.insert(proof_name(&proof).unwrap()), "a proof is held twice");
            }
        }
        assert_eq!(d.free("home") + d.held("home"), 127 * CONNECTIONS as u64);
    });
}

#[test]
fn one_worker_leads_until_its_lease_is_over() {
    on_both(|d| {
        let won = at_once(&d, |at, store| {
            store.take_lease(&format!("w{at}"), Micros(100), Micros(106)).unwrap()
        });
        assert_eq!(won.iter().filter(|won| **won).count(), 1);
        let leader = format!("w{}", won.iter().position(|won| *won).unwrap());
        assert!(
            d.store.take_lease(&leader, Micros(105), Micros(111)).unwrap(),
            "the leader goes on"
        );
        assert!(!d.store.take_lease("late", Micros(110), Micros(116)).unwrap());
        assert!(d.store.take_lease("late", Micros(111), Micros(117)).unwrap());
        assert!(!d.store.take_lease(&leader, Micros(112), Micros(118)).unwrap());
    });
}
