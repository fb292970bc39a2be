//! Blocks that are large beside the wallet: what it knows is read once for the batch, and nothing
//! that concerns it may be missed by that.

use bitcoin::{OutPoint, Transaction};
use unspent_model::{
    Micros,
    wallet::{CoinState, TxStatus},
};
use unspent_wallet::{WalletError, WalletId, placed_block::PlacedBlock};

use crate::ledger::*;

/// Strangers' transactions in each block: enough for the room to read first and ask later.
const STRANGERS: u32 = 200;

/// A block after the ledger's last one, not applied yet, with ours among strangers.
fn crowded(l: &Ledger, ours: &[&Transaction]) -> PlacedBlock {
    let salt = l.new_salt();
    let stranger = |n: u32| {
        let n = 1_000_000 + salt as u32 * STRANGERS + n;
        tx(&[foreign(n)], &[(&theirs((n % 200) as u8), 7)])
    };
    let mut txs = vec![coinbase(&theirs(250), 5_000_000_000, salt)];
    txs.extend((0..STRANGERS / 2).map(stranger));
    txs.extend(ours.iter().map(|tx| (*tx).clone()));
    txs.extend((STRANGERS / 2..STRANGERS).map(stranger));
    let block = l.block_of(txs);
    l.chain.borrow_mut().push(block.clone());
    block
}

fn coins(l: &Ledger, wallet: WalletId) -> Vec<(OutPoint, u64, CoinState, Option<u64>)> {
    let all = l.room.all_coins(wallet, 0, 1_000, Micros(0)).unwrap();
    let shown = all.into_iter().map(|coin| (coin.outpoint, coin.amount, coin.state, coin.height));
    let mut shown: Vec<_> = shown.collect();
    shown.sort_by_key(|coin| coin.0);
    shown
}

/// One batch of crowded blocks finds what lonely blocks, one by one, find.
fn finds_the_same(l: &Ledger, contents: &[Vec<&Transaction>]) {
    let alone = Ledger::sqlite();
    for ours in contents {
        alone.mine(ours);
    }
    let batch: Vec<PlacedBlock> = contents.iter().map(|ours| crowded(l, ours)).collect();
    l.room.apply_blocks(batch, Micros(l.tick())).unwrap();
    assert_eq!(coins(l, l.wallet), coins(&alone, alone.wallet));
    assert_eq!(l.balance(), alone.balance());
    l.check();
}

#[test]
fn a_coin_found_in_one_block_is_seen_spent_in_a_later_one_of_the_batch() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&theirs(1), 9), (&l.ours(0), 500)]);
        let spend = tx(&[out(&pay, 1)], &[(&theirs(2), 300), (&l.change(0), 200)]);
        let gone = tx(&[out(&spend, 1)], &[(&theirs(3), 200)]);
        finds_the_same(&l, &[vec![&pay], vec![], vec![&spend], vec![&gone]]);
        assert_eq!(l.balance().total(), 0);
    });
}

#[test]
fn a_coin_made_and_spent_in_one_block_is_seen() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        let gone = tx(&[out(&pay, 0)], &[(&theirs(3), 500)]);
        finds_the_same(&l, &[vec![], vec![&pay, &gone]]);
        assert_eq!(coins(&l, l.wallet).len(), 1);
    });
}

#[test]
fn scripts_that_the_batch_derives_are_watched_in_its_later_blocks() {
    on_both(|l| {
        let far = |n: u32| tx(&[foreign(n)], &[(&l.ours(n), 500)]);
        let (first, second, third, fourth) = (far(19), far(39), far(59), far(45));
        // The third is in reach only once the second is known, in the same block and after it.
        finds_the_same(&l, &[vec![&first], vec![&third, &second], vec![], vec![&fourth]]);
        assert_eq!(l.balance().confirmed.sats, 2_000);
    });
}

#[test]
fn a_conflict_on_an_output_of_nobody_here_is_seen() {
    on_both(|l| {
        let ours = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        l.mempool(&ours);
        let rival = tx(&[foreign(1)], &[(&theirs(4), 500)]);
        let batch = vec![crowded(&l, &[]), crowded(&l, &[&rival])];
        l.room.apply_blocks(batch, Micros(l.tick())).unwrap();
        assert_eq!(l.status(&ours).0, TxStatus::Failed);
        l.check();
    });
}

#[test]
fn a_wallet_that_joins_in_the_middle_of_a_batch_misses_nothing() {
    on_both(|l| {
        let other = l.other_wallet("other", 2);
        let script = l.room.addresses(other, 0, 1).unwrap().remove(0).script;
        let batch: Vec<PlacedBlock> = (0..3).map(|_| crowded(&l, &[])).collect();
        l.room.apply_blocks(batch.clone(), Micros(l.tick())).unwrap();
        l.room.rewind(l.wallet, Some(FIRST), Micros(l.tick())).unwrap();
        let both = tx(&[foreign(1)], &[(&l.ours(0), 500), (&script, 700)]);
        let again: Vec<PlacedBlock> = batch.into_iter().chain([crowded(&l, &[&both])]).collect();
        let applied = l.room.apply_blocks(again, Micros(l.tick())).unwrap();
        assert_eq!(applied.moved.len(), 2);
        assert_eq!((coins(&l, l.wallet).len(), coins(&l, other).len()), (1, 1));
        l.check();
    });
}

#[test]
fn a_block_with_a_name_too_few_is_refused() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        let mut block = l.block(&[&pay]);
        block.txids = block.txids[..1].into();
        let refused = l.room.apply_blocks(vec![block], Micros(l.tick())).unwrap_err();
        assert!(matches!(refused, WalletError::Argument(_)), "{refused}");
        assert_eq!(l.room.tip().unwrap(), None);
    });
}
