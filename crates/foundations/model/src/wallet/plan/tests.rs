//! The planner against a store that is a pair of maps.

use std::collections::HashMap;

use super::*;
use crate::wallet::{
    TxStatus,
    facts::{Coin, StoredTx},
};

#[derive(Default)]
struct Store {
    txs: HashMap<TxId, StoredTx>,
    coins: HashMap<Outpoint, Coin>,
}

impl Store {
    /// Answers what a plan asks for, as the shell does with its set reads.
    fn load(&self, needs: &NeededFacts, into: &mut KnownFacts) {
        let spends = |input: Outpoint| {
            let found = self.txs.values().filter(move |tx| tx.inputs.contains(&input));
            found.map(|tx| tx.txid).collect::<Vec<_>>()
        };
        for txid in &needs.txs {
            into.txs.insert(*txid, self.txs.get(txid).cloned());
        }
        for input in &needs.spenders {
            into.spenders.insert(*input, spends(*input));
        }
        let mut open: Vec<TxId> = needs.children.iter().copied().collect();
        while let Some(txid) = open.pop() {
            let children: Vec<TxId> = self
                .txs
                .values()
                .filter(|tx| tx.inputs.iter().any(|input| input.tx == txid))
                .map(|tx| tx.txid)
                .collect();
            open.extend(children.iter().filter(|child| !into.children.contains_key(child)));
            into.children.insert(txid, children);
        }
        for coin in &needs.coins {
            into.coins.insert(*coin, self.coins.get(coin).copied());
        }
        for txid in &needs.credits {
            let mine = self.coins.iter().filter(|(coin, _)| coin.tx == *txid);
            let found: Vec<_> = mine.map(|(outpoint, coin)| (*outpoint, *coin)).collect();
            into.credits.insert(*txid, found.iter().map(|(outpoint, _)| outpoint.index).collect());
            into.coins.extend(found.into_iter().map(|(outpoint, coin)| (outpoint, Some(coin))));
        }
    }

    fn feed(&mut self, event: WalletEvent) -> Result<(WalletPlan, usize), PlanRefusal> {
        let mut facts = KnownFacts::default();
        let events = [event];
        for round in 0..1_000 {
            match plan(&facts, &events, Micros(7))? {
                PlanOutcome::NeedMore(needs) => self.load(&needs, &mut facts),
                PlanOutcome::Ready(plan) => {
                    self.apply(&plan);
                    return Ok((plan, round));
                }
            }
        }
        panic!("never enough")
    }

    fn apply(&mut self, plan: &WalletPlan) {
        for tx in plan.new_txs.iter().chain(plan.changed_txs.iter().map(|change| &change.now)) {
            self.txs.insert(tx.txid, tx.clone());
        }
        for new in &plan.new_coins {
            self.coins.insert(new.outpoint, new.coin);
        }
        for spend in &plan.spends {
            self.coins.get_mut(&spend.outpoint).unwrap().spent_by = spend.by;
        }
    }

    fn status(&self, n: u32) -> TxStatus {
        self.txs[&id(n)].status
    }
}

fn id(n: u32) -> TxId {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    TxId(bytes)
}

/// Transaction `n` spends output 0 of each input and pays us 100.
fn seen(n: u32, inputs: &[u32], how: SightingPlace) -> WalletEvent {
    WalletEvent::Seen(Box::new(TxSighting {
        txid: id(n),
        inputs: inputs.iter().map(|input| Outpoint::new(id(*input), 0)).collect(),
        output_total: 100,
        fee: None,
        is_coinbase: false,
        credits: vec![(0, 100, AddressId(1))],
        how,
        lock: None,
        force: false,
    }))
}

const BLOCK: SightingPlace = SightingPlace::Block(Confirmation { height: 5, position: 1 });

#[test]
fn the_same_event_again_has_an_empty_plan() {
    for how in [SightingPlace::Created, SightingPlace::Relayed, SightingPlace::Mempool, BLOCK] {
        let mut store = Store::default();
        store.feed(seen(2, &[1], how)).unwrap();
        let (again, _) = store.feed(seen(2, &[1], how)).unwrap();
        assert!(again.is_empty(), "{how:?}: {again:?}");
    }
}

#[test]
fn a_plan_is_the_difference_and_nothing_more() {
    let mut store = Store::default();
    store.feed(seen(2, &[1], BLOCK)).unwrap();
    let (plan, _) = store.feed(seen(3, &[2], SightingPlace::Mempool)).unwrap();
    assert_eq!((plan.new_txs.len(), plan.changed_txs.len(), plan.spends.len()), (1, 0, 1));
    assert_eq!((plan.confirmed_sats, plan.confirmed_coins), (-100, -1));
    let (plan, _) = store.feed(seen(4, &[2], BLOCK)).unwrap();
    assert_eq!((plan.changed_txs.len(), plan.spends.len(), plan.edges.len()), (1, 1, 1));
    assert_eq!((plan.confirmed_sats, plan.confirmed_coins), (100, 1));
    assert_eq!(store.status(3), TxStatus::Failed);
}

#[test]
fn a_deep_family_is_loaded_and_planned_in_a_few_rounds() {
    let mut store = Store::default();
    store.feed(seen(2, &[1], BLOCK)).unwrap();
    for n in 3..400 {
        store.feed(seen(n, &[n - 1], SightingPlace::Mempool)).unwrap();
    }
    let (plan, rounds) = store.feed(seen(1_000, &[2], SightingPlace::Mempool)).unwrap();
    assert_eq!(plan.changed_txs.len(), 397);
    assert!(rounds < 8, "{rounds} rounds");
    let (plan, rounds) = store.feed(seen(3, &[2], SightingPlace::Mempool)).unwrap();
    assert_eq!(plan.changed_txs.len(), 398);
    assert!(rounds < 10, "{rounds} rounds");
}

#[test]
fn a_transaction_that_descends_from_its_own_rival_is_never_valid() {
    let mut store = Store::default();
    store.feed(seen(2, &[1], SightingPlace::Mempool)).unwrap();
    store.feed(seen(3, &[2], SightingPlace::Mempool)).unwrap();
    store.feed(seen(4, &[1, 3], SightingPlace::Mempool)).unwrap();
    assert_eq!(store.status(4), TxStatus::Failed);
    assert_eq!((store.status(2), store.status(3)), (TxStatus::Published, TxStatus::Published));
    let refused = store.feed(seen(4, &[1, 3], BLOCK)).unwrap_err();
    assert!(matches!(refused, PlanRefusal::ConflictsWithConfirmed { .. }));
}

#[test]
fn a_parent_that_arrives_dead_takes_its_early_child_along() {
    let mut store = Store::default();
    store.feed(seen(2, &[1], BLOCK)).unwrap();
    store.feed(seen(9, &[8], SightingPlace::Mempool)).unwrap();
    store.feed(seen(8, &[1], SightingPlace::Mempool)).unwrap();
    assert_eq!((store.status(8), store.status(9)), (TxStatus::Failed, TxStatus::Failed));
}

#[test]
fn a_child_in_the_mempool_revives_its_parents() {
    let mut store = Store::default();
    store.feed(seen(2, &[1], SightingPlace::Mempool)).unwrap();
    store.feed(seen(3, &[2], SightingPlace::Mempool)).unwrap();
    store.feed(seen(9, &[1], SightingPlace::Mempool)).unwrap();
    store.feed(seen(10, &[9], SightingPlace::Mempool)).unwrap();
    assert_eq!((store.status(2), store.status(3)), (TxStatus::Replaced, TxStatus::Failed));
    // Nothing is heard of 2 and 3 themselves, only of what hangs on them.
    store.feed(seen(4, &[3], SightingPlace::Mempool)).unwrap();
    for live in [2, 3, 4] {
        assert_eq!(store.status(live), TxStatus::Published, "{live}");
    }
    assert_eq!((store.status(9), store.status(10)), (TxStatus::Replaced, TxStatus::Failed));
}

#[test]
fn a_relayed_child_revives_no_parent() {
    let mut store = Store::default();
    store.feed(seen(2, &[1], SightingPlace::Mempool)).unwrap();
    store.feed(seen(9, &[1], SightingPlace::Mempool)).unwrap();
    store.feed(seen(4, &[2], SightingPlace::Relayed)).unwrap();
    assert_eq!((store.status(2), store.status(4)), (TxStatus::Replaced, TxStatus::Failed));
}

#[test]
fn a_child_in_the_mempool_revives_no_parent_that_a_block_beat() {
    let mut store = Store::default();
    store.feed(seen(2, &[1], SightingPlace::Mempool)).unwrap();
    store.feed(seen(9, &[1], BLOCK)).unwrap();
    store.feed(seen(4, &[2], SightingPlace::Mempool)).unwrap();
    assert_eq!((store.status(2), store.status(4)), (TxStatus::Failed, TxStatus::Failed));
}

#[test]
fn parents_that_exclude_each_other_stay_dead() {
    let mut store = Store::default();
    store.feed(seen(2, &[1], SightingPlace::Mempool)).unwrap();
    store.feed(seen(3, &[1], SightingPlace::Mempool)).unwrap();
    store.feed(seen(9, &[1], SightingPlace::Mempool)).unwrap();
    store.feed(seen(4, &[2, 3], SightingPlace::Mempool)).unwrap();
    assert_eq!(store.status(4), TxStatus::Failed);
    assert_eq!(store.status(9), TxStatus::Published);
    // It would need 9 and 2, which spend the same.
    store.feed(seen(5, &[2, 9], SightingPlace::Mempool)).unwrap();
    assert_eq!((store.status(5), store.status(9)), (TxStatus::Failed, TxStatus::Published));
}
