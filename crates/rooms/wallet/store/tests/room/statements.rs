//! How many statements an operation takes on a server: each is a round trip. The figures are those
//! of PostgreSQL; on SQLite they cost no trip.

use unspent_wallet::wallet_info::KeychainPurpose;

use crate::ledger::*;

/// Statements that `work` sends, everything prepared.
fn sent<T>(l: &Ledger, work: impl FnOnce(&Ledger) -> T) -> (u64, T) {
    let before = l.room.statements();
    let done = work(l);
    (l.room.statements() - before, done)
}

fn at_most(what: &str, found: u64, most: u64) {
    assert!(found <= most, "{what} takes {found} statements, at most {most} are allowed");
}

#[test]
fn recording_a_transaction_takes_at_most_eight_statements() {
    let Some(l) = Ledger::postgres() else { return };
    l.fund(1, 5_000);
    let paid = tx(&[foreign(2)], &[(&l.ours(3), 700)]);
    let (count, _) = sent(&l, |l| l.see(&paid, unspent_wallet::TxSource::Mempool).unwrap());
    at_most("a payment received", count, 8);
    let (count, _) = sent(&l, |l| l.see(&paid, unspent_wallet::TxSource::Mempool).unwrap());
    at_most("the same again", count, 8);
    let spend = tx(&[out(&paid, 0)], &[(&theirs(1), 300), (&l.change(0), 300)]);
    let (count, _) = sent(&l, |l| l.try_create(&spend).unwrap());
    at_most("a payment made", count, 8);
    let rival = tx(&[out(&paid, 0)], &[(&theirs(1), 200), (&l.change(1), 200)]);
    let (count, _) = sent(&l, |l| l.see(&rival, unspent_wallet::TxSource::Mempool).unwrap());
    at_most("a replacement", count, 12);
    l.check();
}

#[test]
fn a_block_takes_at_most_twenty_statements_whatever_it_holds() {
    let Some(l) = Ledger::postgres() else { return };
    let others: Vec<_> = (2..12)
        .map(|seed| {
            let wallet = l.other_wallet(&format!("other {seed}"), seed);
            l.room.next_address(wallet, None, KeychainPurpose::Receive).unwrap().script
        })
        .collect();
    l.mine_empty(2);
    let empty = l.block(&[]);
    let (count, _) = sent(&l, |l| l.try_apply(empty).unwrap());
    at_most("an empty block", count, 12);
    let pays: Vec<_> = (0..50_u32)
        .map(|n| {
            let script = &others[n as usize % others.len()];
            tx(&[foreign(100 + n)], &[(script, 1_000), (&l.ours(n % 18), 500)])
        })
        .collect();
    let block = l.block(&pays.iter().collect::<Vec<_>>());
    let (count, _) = sent(&l, |l| l.try_apply(block).unwrap());
    at_most("50 payments to 11 wallets", count, 20);
    // Half of them spent again in the mempool, then all of it confirmed.
    let spends: Vec<_> = pays
        .iter()
        .map(|pay| tx(&[out(pay, 1)], &[(&theirs(3), 100), (&l.change(2), 300)]))
        .collect();
    for spend in spends.iter().step_by(2) {
        l.mempool(spend);
    }
    let block = l.block(&spends.iter().collect::<Vec<_>>());
    let (count, _) = sent(&l, |l| l.try_apply(block).unwrap());
    at_most("50 spends, half of them known", count, 20);
    l.check();
}

#[test]
fn an_address_takes_at_most_three_statements() {
    let Some(l) = Ledger::postgres() else { return };
    l.room.next_address(l.wallet, None, KeychainPurpose::Receive).unwrap();
    let (count, _) =
        sent(&l, |l| l.room.next_address(l.wallet, None, KeychainPurpose::Receive).unwrap());
    at_most("the next address", count, 3);
}

#[test]
fn a_balance_takes_at_most_three_statements() {
    let Some(l) = Ledger::postgres() else { return };
    l.fund(1, 500);
    l.mempool(&tx(&[foreign(2)], &[(&l.ours(1), 7)]));
    let (count, balance) = sent(&l, Ledger::balance);
    assert_eq!(balance.total(), 507);
    at_most("a balance", count, 3);
}
