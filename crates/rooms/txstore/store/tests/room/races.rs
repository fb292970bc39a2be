//! Many at once on PostgreSQL: 16 writers and 2 cleaners, in stores of their own, while blocks are
//! added and undone. Bounded in time; `UNSPENT_TXSTORE_RACE_SECONDS` sets it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use unspent_model::{Outpoint, Point, TxId, txstore::Slot};
use unspent_sql::Options;
use unspent_testkit::crash::Rng;
use unspent_txstore::{
    AcceptOutcome, CleanLimits, CreateTerms, Kind, NewBlock, NewTx, SpendOptions, TxStore,
};

use crate::desk::*;

const WRITERS: u64 = 16;
const CLEANERS: usize = 2;
const WINDOW: u64 = 6;

fn seconds() -> u64 {
    let asked = std::env::var("UNSPENT_TXSTORE_RACE_SECONDS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// What all threads share.
struct Race {
    is_over: AtomicBool,
    /// Coins that somebody may want to spend; several may want the same.
    coins: Mutex<Vec<Outpoint>>,
    /// Accepted and not yet in a block.
    waiting: Mutex<Vec<NewTx>>,
    all: Mutex<BTreeMap<TxId, NewTx>>,
    salt: AtomicU64,
    refused: AtomicU64,
    deleted: AtomicU64,
}

fn store(d: &Desk) -> TxStore {
    let options = Options { readers: 1, writers: 1, ..Options::default() };
    open(&d.url, windows(WINDOW), options)
}

fn write(d: &Desk, race: &Race, seed: u64) {
    let (store, mut rng) = (store(d), Rng::new(seed));
    while !race.is_over.load(Ordering::Relaxed) {
        let coins: Vec<Outpoint> = {
            let known = race.coins.lock().unwrap();
            let pick = |rng: &mut Rng| known.get(rng.below(known.len() as u64) as usize).copied();
            let picked: BTreeSet<_> =
                (0..1 + rng.below(2)).filter_map(|_| pick(&mut rng)).collect();
            picked.into_iter().collect()
        };
        if coins.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        let salt = race.salt.fetch_add(1, Ordering::Relaxed);
        let outputs = vec![true; 1 + rng.below(3) as usize];
        let new = NewTx::from_tx(&raw(&coins, &outputs, salt));
        let height = store.height().unwrap().unwrap();
        let terms = CreateTerms::unmined(height);
        let done = store.accept(vec![new.clone()], terms, SpendOptions::default()).unwrap();
        if !matches!(done[..], [AcceptOutcome::Accepted(_)]) {
            race.refused.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        race.all.lock().unwrap().insert(new.txid, new.clone());
        let outputs = (0..outputs.len() as u32).map(|vout| out(&new, vout));
        race.coins.lock().unwrap().extend(outputs);
        race.waiting.lock().unwrap().push(new);
    }
}

fn clean(d: &Desk, race: &Race) {
    let store = store(d);
    while !race.is_over.load(Ordering::Relaxed) {
        let report = store.clean(CleanLimits { chunk: 50, most: 500 }).unwrap();
        race.deleted.fetch_add(report.deleted as u64, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Adds blocks, and now and then undoes some and adds them again in another shape.
fn follow(d: &Desk, race: &Race, until: Instant) {
    let (store, mut rng) = (store(d), Rng::new(77));
    let mut branch = 1;
    while Instant::now() < until {
        if rng.below(6) == 0 {
            let tip = store.tip().unwrap().unwrap();
            let to = store.stored_at(tip.height - rng.below(3)).unwrap().unwrap();
            match store.roll_back(Some(to)) {
                Ok(_) => branch += 1,
                Err(error) => assert_eq!(error.kind(), Kind::Refused, "{error}"),
            }
        }
        let tip = store.tip().unwrap();
        let height = tip.map_or(100, |tip| tip.height + 1);
        let point = Point { height, slot: height, hash: block_hash(height, branch) };
        let mut txs = vec![coinbase(height * 256 + u64::from(branch), 1)];
        let fresh = d_fresh(race, 4);
        race.all.lock().unwrap().insert(fresh.txid, fresh.clone());
        txs.push(fresh.clone());
        txs.extend(minable(&store, race));
        store.apply_block(NewBlock { point, parent: tip.map(|tip| tip.hash), txs }).unwrap();
        race.coins.lock().unwrap().extend((0..4).map(|vout| out(&fresh, vout)));
        std::thread::sleep(Duration::from_millis(10));
    }
    race.is_over.store(true, Ordering::Relaxed);
}

fn d_fresh(race: &Race, outputs: usize) -> NewTx {
    let salt = race.salt.fetch_add(1, Ordering::Relaxed);
    tx(&[foreign(1_000_000 + salt)], outputs)
}

/// Unmined transactions of the store in an order in which a block may hold them.
fn minable(store: &TxStore, race: &Race) -> Vec<NewTx> {
    let unmined = store.unmined(None, None, 10_000).unwrap();
    let names: BTreeSet<TxId> = unmined.iter().map(|one| one.txid).collect();
    let records = store.records(names.iter().copied().collect()).unwrap();
    let live = records.into_iter().flatten().filter(|record| !record.is_conflicting);
    let all = race.all.lock().unwrap();
    let live: Vec<NewTx> = live.filter_map(|record| all.get(&record.txid).cloned()).collect();
    let mut left = live;
    let mut chosen: Vec<NewTx> = Vec::new();
    let mut inside: BTreeSet<TxId> = BTreeSet::new();
    while let Some(at) = left.iter().position(|new| {
        new.inputs.iter().all(|coin| !names.contains(&coin.tx) || inside.contains(&coin.tx))
    }) {
        let new = left.remove(at);
        inside.insert(new.txid);
        chosen.push(new);
        if chosen.len() > 200 {
            break;
        }
    }
    chosen
}

/// What must hold whenever nobody is at work.
fn check(d: &Desk, race: &Race) {
    let all: BTreeMap<TxId, NewTx> = race.all.lock().unwrap().clone();
    let names: Vec<TxId> = all.keys().copied().collect();
    let found = d.store.records(names.clone()).unwrap();
    let there: BTreeMap<TxId, _> =
        names.iter().zip(found).filter_map(|(name, record)| Some((*name, record?))).collect();
    for record in there.values() {
        for (vout, slot) in record.slots.iter() {
            let coin = Outpoint::new(record.txid, vout);
            if let Slot::Spent(by) = slot {
                let child = there.get(&by.tx);
                assert!(child.is_some(), "{coin:?} names {by:?}, which is gone without a mark");
                assert_eq!(all[&by.tx].inputs[by.vin as usize], coin);
            }
        }
        // No live transaction has lost its parent before its own time.
        if !record.is_mined() && !record.is_conflicting {
            for coin in &all[&record.txid].inputs {
                let parent = there.get(&coin.tx);
                assert!(parent.is_some() || !all.contains_key(&coin.tx), "an orphan: {record:?}");
                if let Some(parent) = parent {
                    let by = parent.slots.get(coin.index).and_then(Slot::spender);
                    assert_eq!(by.map(|by| by.tx), Some(record.txid), "{parent:?}");
                }
            }
        }
    }
    assert!(d.store.unknown_spenders(None, 100_000).unwrap().found.is_empty());
}

#[test]
fn sixteen_writers_two_cleaners_and_a_follower() {
    let Some(d) = Desk::postgres() else { return };
    let d = d.with(windows(WINDOW));
    let race = Race {
        is_over: AtomicBool::new(false),
        coins: Mutex::default(),
        waiting: Mutex::default(),
        all: Mutex::default(),
        salt: AtomicU64::new(1),
        refused: AtomicU64::new(0),
        deleted: AtomicU64::new(0),
    };
    d.apply(99, 1, &[]);
    let until = Instant::now() + Duration::from_secs(seconds());
    std::thread::scope(|scope| {
        let (d, race) = (&d, &race);
        (0..WRITERS).for_each(|seed| {
            scope.spawn(move || write(d, race, seed));
        });
        (0..CLEANERS).for_each(|_| {
            scope.spawn(move || clean(d, race));
        });
        scope.spawn(move || follow(d, race, until));
    });
    check(&d, &race);
    let accepted = race.all.lock().unwrap().len();
    let (deleted, refused) = (race.deleted.into_inner(), race.refused.into_inner());
    eprintln!("{accepted} accepted, {refused} refused, {deleted} deleted");
    assert!(accepted > 200 && refused > 0, "{accepted} accepted, {refused} refused");
    assert!(deleted > 20, "{deleted} deleted");
}
