//! How many statements an operation takes on a server: each is a round trip. The figures are those
//! of PostgreSQL; on SQLite they cost no trip.

use unspent_txstore::{CreateTerms, NewTx, SpendOptions, TxSpends};

use crate::desk::*;

/// Statements that `work` sends.
fn sent<T>(d: &Desk, work: impl FnOnce(&Desk) -> T) -> u64 {
    let before = d.store.statements();
    work(d);
    d.store.statements() - before
}

fn at_most(what: &str, found: u64, most: u64) {
    assert!(found <= most, "{what} takes {found} statements, at most {most} are allowed");
}

#[test]
fn single_operations_take_a_handful_of_statements() {
    let Some(d) = Desk::postgres() else { return };
    let parents: Vec<NewTx> = (0..50).map(|_| d.fresh(2)).collect();
    let create = |d: &Desk| d.store.create(parents.clone(), CreateTerms::unmined(900)).unwrap();
    at_most("creating 50", sent(&d, create), 2);
    let names: Vec<_> = parents.iter().map(|new| new.txid).collect();
    let mine = |d: &Desk| d.store.set_mined(names.clone(), at(900)).unwrap();
    at_most("mining 50", sent(&d, mine), 3);
    let children: Vec<NewTx> =
        parents.iter().map(|new| tx(&[out(new, 0), out(new, 1)], 1)).collect();
    let spends: Vec<_> = children.iter().map(TxSpends::of).collect();
    let spend = |d: &Desk| d.store.spend(spends, 1000, SpendOptions::default()).unwrap();
    at_most("100 spends", sent(&d, spend), 3);
    let grandchildren: Vec<NewTx> = children.iter().map(|new| tx(&[out(new, 0)], 1)).collect();
    let both = [children, grandchildren].concat();
    let terms = CreateTerms::unmined(1001);
    let accept = |d: &Desk| d.store.accept(both, terms, SpendOptions::default()).unwrap();
    at_most("accepting 100", sent(&d, accept), 4);
    let freeze = |d: &Desk| d.store.set_locked(names.clone(), true, 1002).unwrap();
    at_most("locking 50", sent(&d, freeze), 3);
}

#[test]
fn a_block_takes_the_same_number_of_statements_whatever_it_holds() {
    let Some(d) = Desk::postgres() else { return };
    d.apply(700, 1, &[]);
    at_most("an empty block", sent(&d, |d| d.apply(701, 1, &[])), 9);
    let parents: Vec<NewTx> = (0..300).map(|_| d.fresh(3)).collect();
    d.apply(702, 1, &parents.iter().collect::<Vec<_>>());
    let known: Vec<NewTx> = parents[..150]
        .iter()
        .map(|new| d.child(&[out(new, 0), out(new, 1), out(new, 2)], 702))
        .collect();
    let new: Vec<NewTx> =
        parents[150..].iter().map(|new| tx(&[out(new, 0), out(new, 1), out(new, 2)], 2)).collect();
    let in_block: Vec<NewTx> = new.iter().map(|new| tx(&[out(new, 1)], 1)).collect();
    let txs: Vec<&NewTx> = known.iter().chain(&new).chain(&in_block).collect();
    at_most("450 transactions", sent(&d, |d| d.apply(703, 1, &txs)), 12);
    let undo = |d: &Desk| d.roll_back_to(702);
    at_most("undoing them", sent(&d, undo), 20);
}

#[test]
fn a_pass_reads_all_children_of_500_parents_at_once() {
    let Some(d) = Desk::postgres() else { return };
    let parents: Vec<NewTx> = (0..1000).map(|_| d.fresh(3)).collect();
    d.store.create(parents.clone(), CreateTerms::mined(at(900))).unwrap();
    let children: Vec<NewTx> =
        parents.iter().flat_map(|new| (0..3).map(|vout| tx(&[out(new, vout)], 1))).collect();
    let terms = CreateTerms::mined(at(1000));
    d.store.accept(children, terms, SpendOptions::default()).unwrap();
    d.store.set_height(1288).unwrap();
    let mut deleted = 0;
    let statements = sent(&d, |d| deleted = d.clean().deleted);
    assert_eq!(deleted, 1000);
    // Two chunks, and a look at the empty queue.
    at_most("a pass over 1,000 due records", statements, 2 * 9 + 2);
}
