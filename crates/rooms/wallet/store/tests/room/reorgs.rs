//! Blocks that come, go and come again.

use unspent_model::{
    Micros,
    wallet::{CoinState, TxStatus},
};
use unspent_wallet::{
    TxBatch, TxSource, WalletError, placed_block::PlacedBlock, reorg::ChainComparison,
};

use crate::ledger::*;

const PUBLISHED: (TxStatus, Option<u64>) = (TxStatus::Published, None);
const FAILED: (TxStatus, Option<u64>) = (TxStatus::Failed, None);
const ORPHANED: (TxStatus, Option<u64>) = (TxStatus::Orphaned, None);

#[test]
fn a_disconnected_transaction_is_unconfirmed_and_confirms_again_elsewhere() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        l.mine(&[]);
        let height = l.mine(&[&pay]);
        l.undo(1);
        assert_eq!(l.status(&pay), PUBLISHED);
        assert_eq!(l.balance().confirmed.sats, 0);
        l.mine(&[]);
        assert_eq!(l.mine(&[&pay]), height + 1);
        assert_eq!(l.status(&pay), (TxStatus::Published, Some(height + 1)));
    });
}

#[test]
fn an_orphaned_coinbase_takes_its_descendants_along() {
    on_both(|l| {
        l.mine(&[]);
        let mined = l.mine_to(&l.ours(0), 5_000);
        let child = tx(&[out(&mined, 0)], &[(&l.ours(1), 4_000)]);
        let grandchild = tx(&[out(&child, 0)], &[(&l.ours(2), 3_000)]);
        l.mine(&[&child]);
        l.mempool(&grandchild);
        l.undo(2);
        assert_eq!(l.status(&mined), ORPHANED);
        assert_eq!((l.status(&child), l.status(&grandchild)), (FAILED, FAILED));
        assert_eq!(l.coin(&mined, 0), CoinState::DeadRecoverable);
        assert_eq!(l.spender(&mined, 0), None);
        assert_eq!(l.room.tip().unwrap().unwrap().height, FIRST);
        assert_eq!(l.balance().total(), 0);
    });
}

#[test]
fn an_orphaned_coinbase_that_returns_is_immature_from_its_new_height_and_brings_its_children() {
    on_both(|l| {
        l.mine(&[]);
        let mined = l.mine_to(&l.ours(0), 5_000);
        let child = tx(&[out(&mined, 0)], &[(&l.ours(1), 4_000)]);
        l.mempool(&child);
        l.undo(1);
        assert_eq!(l.status(&child), FAILED);
        l.mine(&[]);
        l.try_apply(l.block_of(vec![mined.clone()])).unwrap();
        l.check();
        assert_eq!(l.status(&mined), (TxStatus::Published, Some(FIRST + 2)));
        assert_eq!(l.status(&child), PUBLISHED, "all its inputs are live again");
        assert_eq!(l.spender(&mined, 0), Some(child.compute_txid()));
        let rival = tx(&[out(&mined, 0)], &[(&theirs(1), 1)]);
        l.mempool(&rival);
        assert_eq!(l.coin(&mined, 0), CoinState::Spent);
        l.undo(1);
        assert_eq!([l.status(&rival), l.status(&child)], [FAILED, (TxStatus::Replaced, None)]);
    });
}

#[test]
fn sparse_blocks_take_the_tip_to_the_greatest_one_below_or_to_none() {
    on_both(|l| {
        for height in [10, 50, 90] {
            let block = block_ref(height, height as u8);
            let pay = tx(&[foreign(height as u32)], &[(&l.ours(0), 500)]);
            let txs = vec![observed(&pay, TxSource::Block(block, 0))];
            let batch = TxBatch { txs, blocks: vec![block], tip: Some(block) };
            l.room.record_for(l.wallet, &batch, Micros(l.tick())).unwrap();
        }
        let tip = || l.room.wallets(None).unwrap()[0].scanned.map(|place| place.height);
        l.room.disconnect_above(Some(70), Micros(l.tick())).unwrap();
        assert_eq!(tip(), Some(50));
        l.room.disconnect_above(Some(49), Micros(l.tick())).unwrap();
        assert_eq!(tip(), Some(10));
        assert_eq!(l.balance().confirmed.sats, 500);
        l.room.disconnect_above(None, Micros(l.tick())).unwrap();
        assert_eq!((tip(), l.room.tip().unwrap()), (None, None));
        l.room.disconnect_above(None, Micros(l.tick())).unwrap();
        l.check();
        assert_eq!(l.balance().unconfirmed_foreign.sats, 1_500);
    });
}

#[test]
fn rewinding_one_wallet_leaves_the_others_alone_and_a_scan_brings_it_back() {
    on_both(|l| {
        let other = l.other_wallet("other", 2);
        let to =
            l.room.next_address(other, None, unspent_wallet::wallet_info::KeychainPurpose::Receive);
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500), (&to.unwrap().script, 700)]);
        l.mine(&[]);
        l.mine(&[&pay]);
        l.mine(&[]);
        l.room.rewind(l.wallet, Some(FIRST), Micros(l.tick())).unwrap();
        l.check();
        assert_eq!(l.status(&pay), PUBLISHED);
        assert_eq!(l.balance().confirmed.sats, 0);
        assert_eq!(l.room.balance(other, 1, Micros(0)).unwrap().confirmed.sats, 700);
        assert_eq!(l.room.tip().unwrap().unwrap().height, FIRST + 2);
        let blocks = l.chain.borrow().clone();
        let applied = l.room.apply_blocks(blocks, Micros(l.tick())).unwrap();
        assert_eq!(applied.moved.into_iter().collect::<Vec<_>>(), [l.wallet]);
        assert_eq!(l.balance().confirmed.sats, 500);
        l.check();
        assert!(l.room.audit(other).unwrap().is_empty());
    });
}

#[test]
fn a_block_above_a_wallets_tip_counts_as_unconfirmed() {
    on_both(|l| {
        l.mine(&[]);
        let ahead = block_ref(FIRST + 5, 5);
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        let txs = vec![observed(&pay, TxSource::Block(ahead, 0))];
        let batch = TxBatch { txs, blocks: vec![ahead], tip: None };
        l.room.record_for(l.wallet, &batch, Micros(l.tick())).unwrap();
        assert_eq!(l.coin(&pay, 0), CoinState::Unconfirmed);
        let balance = l.balance();
        assert_eq!((balance.confirmed.sats, balance.unconfirmed_foreign.sats), (0, 500));
    });
}

/// The same coinbase twice, as before BIP 30.
#[test]
fn a_repeated_coinbase_counts_once_at_its_later_height() {
    on_both(|l| {
        let mined = l.mine_to(&l.ours(0), 5_000);
        l.mine(&[]);
        l.try_apply(l.block_of(vec![mined.clone()])).unwrap();
        l.check();
        assert_eq!(l.status(&mined), (TxStatus::Published, Some(FIRST + 2)));
        assert_eq!(l.balance().immature.sats, 5_000);
        l.undo(1);
        assert_eq!(l.status(&mined), ORPHANED, "the earlier one is not brought back silently");
    });
}

#[test]
fn another_block_at_the_same_height_is_refused_until_the_first_is_disconnected() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        l.mine(&[]);
        l.mine(&[&pay]);
        let held = l.chain.borrow_mut().pop().unwrap();
        let rival = l.block(&[]);
        let refused = l.room.apply_blocks(vec![rival.clone()], Micros(l.tick())).unwrap_err();
        assert!(matches!(refused, WalletError::BlockMismatch { .. }), "{refused}");
        l.chain.borrow_mut().push(held);
        l.undo(1);
        l.try_apply(rival).unwrap();
        assert_eq!(l.status(&pay), PUBLISHED, "the new block does not hold it");
        let mut gap = l.block(&[]);
        gap.height += 3;
        let refused = l.room.apply_blocks(vec![gap], Micros(l.tick())).unwrap_err();
        assert!(matches!(refused, WalletError::Gap { .. }), "{refused}");
        let next = l.block(&[]);
        let mut wrong = bitcoin::Block::clone(&next.block);
        wrong.header.prev_blockhash = bitcoin::hashes::Hash::all_zeros();
        let wrong = PlacedBlock::of(next.height, wrong);
        let refused = l.room.apply_blocks(vec![wrong], Micros(l.tick())).unwrap_err();
        assert!(matches!(refused, WalletError::WrongParent { .. }), "{refused}");
    });
}

#[test]
fn a_missed_disconnect_is_found_by_comparing_with_the_source() {
    on_both(|l| {
        assert_eq!(l.room.compare(|_| Ok(None)).unwrap(), ChainComparison::Agrees);
        l.mine_empty(5);
        let ours = l.chain.borrow().clone();
        let at = |height: u64| {
            ours.iter().find(|block| block.height == height).map(|block| block.reference().hash)
        };
        assert_eq!(l.room.compare(|height| Ok(at(height))).unwrap(), ChainComparison::Agrees);
        let forked = |height: u64| Ok(at(height).filter(|_| height <= FIRST + 2));
        let differs = ChainComparison::Differs { last_common: Some(FIRST + 2) };
        assert_eq!(l.room.compare(forked).unwrap(), differs);
        let none = ChainComparison::Differs { last_common: None };
        assert_eq!(l.room.compare(|_| Ok(None)).unwrap(), none);
    });
}

#[test]
fn maturity_turns_at_the_hundredth_block_above_and_back_with_a_reorganisation() {
    on_both(|l| {
        let mined = l.mine_to(&l.ours(0), 5_000);
        l.mine_empty(99);
        assert_eq!(l.coin(&mined, 0), CoinState::Immature);
        assert_eq!(l.balance().immature.sats, 5_000);
        l.mine_empty(1);
        assert_eq!(l.coin(&mined, 0), CoinState::Confirmed);
        assert_eq!(l.balance().confirmed.sats, 5_000);
        let spend = tx(&[out(&mined, 0)], &[(&theirs(1), 4_000)]);
        l.create(&spend);
        l.undo(1);
        assert_eq!(l.status(&spend), (TxStatus::Pending, None));
        l.room.invalidate(l.wallet, spend.compute_txid(), Micros(l.tick())).unwrap();
        assert_eq!(l.coin(&mined, 0), CoinState::Immature);
    });
}

#[test]
fn hundreds_of_blocks_go_in_bounded_steps() {
    on_both(|l| {
        let pays: Vec<_> = (0..250).map(|n| tx(&[foreign(n)], &[(&l.ours(n % 20), 500)])).collect();
        l.mine(&[]);
        for pay in &pays {
            l.try_apply(l.block(&[pay])).unwrap();
        }
        assert_eq!(l.balance().confirmed.sats, 125_000);
        let done = l.room.disconnect_above(Some(FIRST), Micros(l.tick())).unwrap();
        assert_eq!((done.blocks, done.txs, done.steps), (250, 250, 3));
        l.check();
        assert_eq!(l.balance().unconfirmed_foreign.sats, 125_000);
        let kept: Vec<_> = l.chain.borrow_mut().drain(1..).collect();
        l.room.apply_blocks(kept, Micros(l.tick())).unwrap();
        l.check();
        assert_eq!(l.balance().confirmed.sats, 125_000);
    });
}

#[test]
fn a_new_wallet_is_scanned_apart_and_joins_the_others() {
    on_both(|l| {
        let later = |seed| {
            unspent_wallet::descriptor::Keychain::parse(
                &descriptor(seed),
                bitcoin::Network::Regtest,
            )
        };
        let script = later(3).unwrap()[0].script(0).unwrap();
        let pay = tx(&[foreign(1)], &[(&script, 900)]);
        l.mine(&[]);
        l.mine(&[&pay]);
        l.mine(&[]);
        let mut new = new_wallet("late", 3);
        new.birthday = FIRST;
        let late = l.room.create_wallet(&new, Micros(1)).unwrap();
        l.mine(&[]);
        assert_eq!(
            l.room.balance(late, 1, Micros(0)).unwrap().total(),
            0,
            "it waits for its birthday"
        );
        let blocks = l.chain.borrow().clone();
        l.room.apply_blocks(blocks, Micros(l.tick())).unwrap();
        assert_eq!(l.room.balance(late, 1, Micros(0)).unwrap().confirmed.sats, 900);
        l.mine(&[]);
        let tips: Vec<_> = l.room.wallets(None).unwrap().iter().map(|w| w.scanned).collect();
        assert_eq!(tips[0], tips[1]);
    });
}

/// Leases and cursors survive because nothing is kept in memory.
#[test]
fn another_process_sees_the_same_at_once() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        l.mine(&[&pay]);
        let again = l.another_room();
        assert_eq!(again.balance(l.wallet, 1, Micros(0)).unwrap(), l.balance());
        assert_eq!(again.wallets(None).unwrap(), l.room.wallets(None).unwrap());
    });
}
