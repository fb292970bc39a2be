//! The databases use the indexes: of all statements that the store runs, none walks a table.
//!
//! Every plan is the one of the statement that runs, told by the door at the moment it runs: in an
//! empty store, a small one and a large one, with and without statistics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use unspent_sql::{Backend, Options, SqlError};
use unspent_txstore::{CleanLimits, CreateTerms, NewTx, SpendOptions, Unspend};

use crate::desk::*;

/// Tables that grow.
const LONG: [&str; 5] = ["transactions", "parts", "due", "awaited", "blocks"];

/// Statements that are meant to see everything: the figures, the search for lost spenders.
const MEANT_TO_WALK: [&str; 7] = [
    "SELECT COUNT(*) AS rows FROM transactions",
    "COALESCE(SUM(CASE WHEN is_known",
    "SELECT COUNT(*) AS rows, MIN(height) AS oldest FROM due",
    "SELECT COUNT(*) AS rows FROM due",
    // The first row of an index.
    "SELECT height FROM blocks ORDER BY height LIMIT 1",
    "SELECT txid FROM awaited ORDER BY txid LIMIT 1",
    "pg_total_relation_size",
];

static SEEN: Mutex<BTreeMap<&'static str, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

fn keep(sql: &'static str, plan: &str) {
    SEEN.lock().unwrap().entry(sql).or_default().insert(plan.to_owned());
}

/// Everything that a store can be asked for, once.
fn everything(d: &Desk) {
    let parent = d.fresh(200);
    let long: Vec<_> = (0..200).map(|vout| out(&parent, vout)).collect();
    let ancestor = d.fresh(3);
    d.apply(1000, 1, &[&ancestor, &parent]);
    let rival = d.child(&[out(&ancestor, 0)], 1000);
    d.child(&[out(&rival, 0)], 1000);
    let winner = tx(&[out(&ancestor, 0)], 2);
    let many = tx(&long, 1);
    d.accept(&many, 1000);
    d.apply(1001, 1, &[&winner, &many]);
    let late = d.child(&[out(&ancestor, 1), out(&ancestor, 2)], 1001);
    d.apply(1002, 1, &[]);
    d.roll_back_to(1000);
    d.apply(1001, 2, &[&rival]);
    ask(d, &parent, &rival);
    d.store.preserve(vec![parent.txid], 1003).unwrap();
    d.mine_to(1010, 2);
    d.clean();
    d.apply(1011, 2, &[&late, &many]);
    d.mine_to(1030, 2);
    d.clean();
    operate(d);
}

fn ask(d: &Desk, parent: &NewTx, rival: &NewTx) {
    d.store.get(parent.txid).unwrap().unwrap();
    d.store.why(parent.txid).unwrap().unwrap();
    d.store.output_status(vec![out(parent, 150)], 1001).unwrap();
    let first = d.store.unmined(None, None, 1).unwrap();
    d.store.unmined(Some(5_000), first.first().copied(), 10).unwrap();
    d.store.counter_conflicting(rival.txid).unwrap();
    d.store.descendants(parent.txid).unwrap();
    d.store.unknown_spenders(Some(parent.txid), 10).unwrap();
    d.store.status().unwrap();
    d.store.blocks_up_to(1001, 10).unwrap();
    d.store.tip().unwrap();
}

fn operate(d: &Desk) {
    let parent = d.parent(100, 1030);
    let coin = out(&parent, 90);
    d.store.freeze(vec![coin]).unwrap();
    let hash = hash_of(&parent, 90);
    d.store.reassign(coin, hash, hash, 1030).unwrap().unwrap();
    d.store.set_locked(vec![parent.txid], true, 1030).unwrap();
    d.store.set_locked(vec![parent.txid], false, 1030).unwrap();
    let child = d.child(&[out(&parent, 1)], 1030);
    d.store.mark_longest_chain(vec![parent.txid], false, 1030).unwrap();
    d.store.mark_longest_chain(vec![parent.txid], true, 1030).unwrap();
    let spend = Unspend { coin: out(&parent, 1), by: by(&child, 0) };
    d.store.unspend(vec![spend], 1030).unwrap();
    d.spend(out(&parent, 1), by(&child, 0), 1030).unwrap();
    d.mine(&child, 1030);
    d.store.unset_mined(vec![child.txid], at(1030).hash, 1030).unwrap();
    d.store.drop_unmined(child.txid).unwrap();
    let ghost = d.fresh(1);
    d.spend(out(&parent, 2), by(&ghost, 0), 1030).unwrap();
    let mut after = None;
    loop {
        let page = d.store.unknown_spenders(after, 200).unwrap();
        d.store.repair(page.found).unwrap();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let (a, b) = (d.child(&[out(&parent, 3)], 1030), tx(&[out(&parent, 3)], 2));
    d.create(&b, CreateTerms { is_conflicting: true, ..CreateTerms::unmined(1030) });
    d.store.resolve_conflict(b.txid, 1030).unwrap();
    d.store.set_conflicting(vec![b.txid], 1030).unwrap();
    d.store.resolve_conflict(a.txid, 1030).unwrap();
    d.store.clean(CleanLimits { chunk: 2, most: 4 }).unwrap();
}

/// The steps of a plan that walk through a table.
fn walks_on_sqlite(plan: &str) -> Vec<String> {
    let walk = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next() == Some("SCAN") && words.next().is_some_and(|table| LONG.contains(&table))
    };
    plan.lines().filter(walk).map(str::to_owned).collect()
}

/// Only the largest table is long in these tests: the server rightly reads the others whole.
fn walks_on_postgres(plan: &str) -> Vec<String> {
    let walk = |line: &&str| line.contains("Seq Scan on transactions");
    plan.lines().filter(walk).map(str::to_owned).collect()
}

fn check_all(d: Desk, what: &str) {
    let options = Options { on_plan: Some(keep), ..Options::default() };
    let mut d = d;
    d.store = open(&d.url, windows(8), options);
    SEEN.lock().unwrap().clear();
    everything(&d);
    let seen = SEEN.lock().unwrap().clone();
    assert!(seen.len() > 35, "only {} statements passed", seen.len());
    let mut walks = String::new();
    for (sql, plans) in seen {
        if MEANT_TO_WALK.iter().any(|text| sql.contains(text)) {
            continue;
        }
        for plan in plans {
            let found = match d.url.backend() {
                Backend::Sqlite => walks_on_sqlite(&plan),
                Backend::Postgres => walks_on_postgres(&plan),
            };
            if !found.is_empty() {
                let plan: Vec<String> =
                    plan.lines().map(|line| line.chars().take(200).collect()).collect();
                let plan = plan.join("\n");
                walks += &format!("\n---- {sql}\n{}\n  in\n{plan}\n", found.join("\n"));
            }
        }
    }
    assert!(walks.is_empty(), "{what}: {walks}");
}

fn fill(d: &Desk, parents: usize) {
    let made: Vec<NewTx> = (0..parents).map(|_| d.fresh(2)).collect();
    d.store.create(made.clone(), CreateTerms::mined(at(10))).unwrap();
    let children: Vec<NewTx> = made.iter().map(|new| tx(&[out(new, 0)], 1)).collect();
    let terms = CreateTerms::mined(at(11));
    d.store.accept(children, terms, SpendOptions::default()).unwrap();
}

fn analyze(d: &Desk) {
    d.own_door().write(|tx| -> Result<(), SqlError> { tx.script("ANALYZE") }).unwrap();
}

#[test]
fn no_statement_walks_a_table_on_sqlite() {
    check_all(Desk::sqlite(), "empty");
    let d = Desk::sqlite();
    analyze(&d);
    check_all(d, "empty, analysed");
    let d = Desk::sqlite();
    fill(&d, 20);
    analyze(&d);
    check_all(d, "small, analysed");
    let d = Desk::sqlite();
    fill(&d, 5_000);
    check_all(d, "large");
    let d = Desk::sqlite();
    fill(&d, 5_000);
    analyze(&d);
    check_all(d, "large, analysed");
}

#[test]
fn no_statement_walks_a_table_on_postgresql() {
    let Some(d) = Desk::postgres() else { return };
    fill(&d, 10_000);
    check_all(d, "large");
    let Some(d) = Desk::postgres() else { return };
    fill(&d, 10_000);
    analyze(&d);
    check_all(d, "large, analysed");
}
