//! Cleaners that are killed: whatever the moment, no child is orphaned, nothing is named that is
//! gone without a mark, and the next one finishes the work.

use std::{collections::BTreeSet, process::Stdio, time::Duration};

use unspent_model::{TxId, txstore::Slot};
use unspent_sql::{Options, Url};
use unspent_testkit::crash::{self, Rng};
use unspent_txstore::{CleanLimits, CreateTerms, NewTx, SpendOptions};

use crate::desk::*;

const FAMILIES: usize = 400;
const KILLS: usize = 12;

/// The process that gets killed: cleans in small steps until nothing is due.
#[test]
fn cleaner_that_is_killed_does_nothing_unless_asked() {
    let Some((url, _)) = crash::role() else { return };
    let store = open(&url.parse().unwrap(), windows(288), Options::default());
    loop {
        let report = store.clean(CleanLimits { chunk: 3, most: 3 }).unwrap();
        if report.looked_at == 0 {
            return;
        }
    }
}

/// Families of a grandparent with a coin, a parent and children; every fifth has a child that was
/// never mined.
fn fill(d: &Desk) -> (Vec<NewTx>, BTreeSet<TxId>) {
    let (mut all, mut kept) = (Vec::new(), BTreeSet::new());
    let (mut old, mut deep, mut unmined) = (Vec::new(), Vec::new(), Vec::new());
    for family in 0..FAMILIES {
        let grandparent = d.fresh(2);
        let parent = tx(&[out(&grandparent, 0)], 2);
        let (a, b) = (tx(&[out(&parent, 0)], 1), tx(&[out(&parent, 1)], 1));
        kept.extend([grandparent.txid, a.txid, b.txid]);
        if family % 5 == 0 {
            kept.insert(parent.txid);
        }
        all.extend([grandparent.clone(), parent.clone(), a.clone(), b.clone()]);
        old.push(grandparent);
        deep.extend([parent, a]);
        if family % 5 == 0 { &mut unmined } else { &mut deep }.push(b);
    }
    let options = SpendOptions { allow_absent: true, ..SpendOptions::default() };
    d.store.create(old, CreateTerms::mined(at(900))).unwrap();
    d.store.accept(deep, CreateTerms::mined(at(1000)), options).unwrap();
    d.store.accept(unmined, CreateTerms::unmined(1000), options).unwrap();
    d.store.set_height(1288).unwrap();
    (all, kept)
}

fn there(d: &Desk, all: &[NewTx]) -> BTreeSet<TxId> {
    let names: Vec<TxId> = all.iter().map(|new| new.txid).collect();
    d.store.records(names).unwrap().into_iter().flatten().map(|record| record.txid).collect()
}

fn check(d: &Desk, all: &[NewTx], kept: &BTreeSet<TxId>) -> usize {
    let there = there(d, all);
    assert!(kept.is_subset(&there), "something went that had to stay");
    let records = d.store.records(there.iter().copied().collect()).unwrap();
    for record in records.into_iter().flatten() {
        for (_, slot) in record.slots.iter() {
            let by = slot.spender().map(|by| by.tx);
            match slot {
                Slot::Spent(_) => assert!(by.is_some_and(|by| there.contains(&by))),
                Slot::SpentPruned(_) => assert!(by.is_some_and(|by| !kept.contains(&by))),
                _ => {}
            }
        }
    }
    there.len()
}

fn text_of(url: &Url) -> String {
    match url {
        Url::Sqlite(path) => format!("sqlite:{}", path.display()),
        Url::Postgres(text) => text.clone(),
    }
}

#[test]
fn a_cleaner_may_be_killed_anywhere() {
    on_both(|d| {
        let (all, kept) = fill(&d);
        let folder = tempfile::tempdir().unwrap();
        let mut rng = Rng::new(5);
        let (mut midway, mut left) = (0, all.len());
        for _ in 0..KILLS {
            let name = "crashes::cleaner_that_is_killed_does_nothing_unless_asked";
            let mut command = crash::worker(name, &text_of(&d.url), folder.path()).unwrap();
            let mut child = command.stderr(Stdio::null()).spawn().unwrap();
            // Until it has begun, then a moment inside one of its steps.
            while there(&d, &all).len() == left && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_micros(rng.below(8_000)));
            child.kill().unwrap();
            let status = child.wait().unwrap();
            midway += usize::from(crash::was_killed(status));
            if matches!(d.url, Url::Postgres(_)) {
                // What the dead client sent last may still be under way.
                std::thread::sleep(Duration::from_millis(100));
            }
            left = check(&d, &all, &kept);
            if left == kept.len() {
                break;
            }
        }
        eprintln!("{midway} of {KILLS} kills hit a cleaner; {left} of {} left", all.len());
        assert!(midway > 0, "some kill must hit a cleaner at work");
        d.clean();
        assert_eq!(there(&d, &all), kept);
        assert_eq!(d.clean().looked_at, 0);
        assert!(d.store.unknown_spenders(None, 10_000).unwrap().found.is_empty());
    });
}
