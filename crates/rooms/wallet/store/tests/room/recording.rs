//! Recording: any order, any source, as often as the teller likes.

use bitcoin::Amount;
use unspent_model::{
    Micros, Point,
    wallet::{CoinState, PlanRefusal, TxStatus},
};
use unspent_wallet::{ObservedTx, TxBatch, TxSource, WalletError, history::TxListing};

use crate::ledger::*;

#[test]
fn an_unmined_payment_is_stored_with_its_coin_and_coins_are_listed_by_amount() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&theirs(1), 9), (&l.ours(0), 7_000), (&l.ours(1), 3_000)]);
        l.mempool(&pay);
        assert_eq!(l.status(&pay), (TxStatus::Published, None));
        assert_eq!(l.unspent(), [(out(&pay, 2), 3_000), (out(&pay, 1), 7_000)]);
        assert_eq!(l.coin(&pay, 1), CoinState::Unconfirmed);
        assert_eq!(l.balance().unconfirmed_foreign.sats, 10_000);
    });
}

#[test]
fn a_coinbase_is_known_from_a_block_and_from_nowhere_else() {
    on_both(|l| {
        let mined = l.mine_to(&l.ours(0), 50);
        assert_eq!(l.status(&mined), (TxStatus::Published, Some(FIRST)));
        assert_eq!(l.coin(&mined, 0), CoinState::Immature);
        let loose = coinbase(&l.ours(1), 50, 99);
        for how in
            [TxSource::Mempool, TxSource::Relayed, TxSource::Created { lock: None, force: false }]
        {
            let refused = l.see(&loose, how).unwrap_err();
            assert!(
                matches!(refused, WalletError::Refused(PlanRefusal::LooseCoinbase)),
                "{refused}"
            );
        }
        assert_eq!(l.count_txs(), 1);
    });
}

/// Cases 3, 4 and 57: credits are found by script, so none can be claimed wrongly.
#[test]
fn a_transaction_that_concerns_nobody_is_not_stored_and_refused_for_a_named_wallet() {
    on_both(|l| {
        let stranger = tx(&[foreign(1)], &[(&theirs(1), 500)]);
        assert!(l.mempool(&stranger).wallets.is_empty());
        let batch = TxBatch::one(stranger.clone(), TxSource::Mempool);
        let refused = l.room.record_for(l.wallet, &batch, Micros(l.tick())).unwrap_err();
        assert!(matches!(refused, WalletError::NotOurs(_)), "{refused}");
        assert_eq!(l.count_txs(), 0);
    });
}

#[test]
fn a_transaction_that_spends_an_output_twice_is_refused() {
    on_both(|l| {
        let twice = tx(&[foreign(1), foreign(1)], &[(&l.ours(0), 500)]);
        let refused = l.see(&twice, TxSource::Mempool).unwrap_err();
        assert!(matches!(refused, WalletError::Refused(PlanRefusal::DuplicateInput { .. })));
        let no_inputs = tx(&[], &[(&l.ours(0), 500)]);
        let refused = l.see(&no_inputs, TxSource::Mempool).unwrap_err();
        assert!(matches!(refused, WalletError::Refused(PlanRefusal::NoInputs(_))));
        assert_eq!(l.count_txs(), 0);
    });
}

/// Case 6: a status can't be claimed at all; it follows from where a transaction was seen.
#[test]
fn the_status_follows_from_the_sighting() {
    on_both(|l| {
        let made = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        let heard = tx(&[foreign(2)], &[(&l.ours(0), 500)]);
        let mined = tx(&[foreign(3)], &[(&l.ours(0), 500)]);
        l.create(&made);
        l.relay(&heard);
        let height = l.mine(&[&mined]);
        assert_eq!(l.status(&made), (TxStatus::Pending, None));
        assert_eq!(l.status(&heard), (TxStatus::Published, None));
        assert_eq!(l.status(&mined), (TxStatus::Published, Some(height)));
    });
}

#[test]
fn the_same_again_changes_nothing() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        l.mempool(&pay);
        let again = l.mempool(&pay);
        assert_eq!((again.new_txs, again.changed_txs, again.new_coins), (0, 0, 0));
        l.mine(&[&pay]);
        let lines = l.room.journal(l.wallet, None, 0, 100).unwrap();
        let block = l.chain.borrow().last().unwrap().clone();
        let applied = l.room.apply_blocks(vec![block.clone()], Micros(l.tick())).unwrap();
        assert!(applied.moved.is_empty());
        let again = l.see(&pay, in_block(&block, 1)).unwrap();
        assert_eq!((again.new_txs, again.changed_txs, again.new_coins), (0, 0, 0));
        assert_eq!(l.count_txs(), 1);
        assert_eq!(l.room.journal(l.wallet, None, 0, 100).unwrap(), lines);
        // Newest first it is the same, page by page.
        let mut newest = l.room.newest_journal(l.wallet, None, i64::MAX, 1).unwrap();
        newest.extend(l.room.newest_journal(l.wallet, None, newest[0].id, 100).unwrap());
        newest.reverse();
        assert_eq!(newest, lines);
        assert_eq!(lines.len(), 2, "seen, confirmed");
    });
}

#[test]
fn another_label_in_a_batch_refuses_the_batch_and_the_tip_stays() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        let labelled = |label: &str| ObservedTx {
            label: Some(label.into()),
            ..ObservedTx::new(pay.clone(), TxSource::Mempool)
        };
        let batch = TxBatch { txs: vec![labelled("rent")], ..TxBatch::default() };
        l.room.record_for(l.wallet, &batch, Micros(l.tick())).unwrap();
        l.room.record_for(l.wallet, &batch, Micros(l.tick())).unwrap();
        let block = block_ref(7, 7);
        let other = TxBatch { txs: vec![labelled("food")], blocks: vec![block], tip: Some(block) };
        let refused = l.room.record_for(l.wallet, &other, Micros(l.tick())).unwrap_err();
        assert!(matches!(refused, WalletError::LabelDiffers(_)));
        assert_eq!(l.room.wallets(None).unwrap()[0].scanned, None);
        let found = l.room.tx(l.wallet, pay.compute_txid()).unwrap();
        assert_eq!(found.summary.label.as_deref(), Some("rent"));
    });
}

#[test]
fn an_output_that_turns_out_to_be_ours_is_added_and_shows_its_spender() {
    on_both(|l| {
        let late = theirs(9);
        let parent = tx(&[foreign(1)], &[(&l.ours(0), 500), (&late, 800)]);
        l.mine(&[&parent]);
        let child = tx(&[out(&parent, 1)], &[(&l.ours(1), 700)]);
        l.mempool(&child);
        l.room.import_script(l.wallet, &late).unwrap();
        let block = l.chain.borrow()[0].clone();
        assert_eq!(l.see(&parent, in_block(&block, 1)).unwrap().new_coins, 1);
        l.check();
        assert_eq!(l.spender(&parent, 1), Some(child.compute_txid()));
        assert_eq!(l.room.tx(l.wallet, child.compute_txid()).unwrap().summary.fee, Some(100));
    });
}

#[test]
fn an_unmined_sighting_leaves_a_confirmed_transaction_confirmed() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        let height = l.mine(&[&pay]);
        let spend = tx(&[out(&pay, 0)], &[(&theirs(1), 400)]);
        l.mine(&[&spend]);
        l.mempool(&pay);
        l.relay(&pay);
        l.mempool(&spend);
        assert_eq!(l.status(&pay), (TxStatus::Published, Some(height)));
        assert_eq!(l.status(&spend), (TxStatus::Published, Some(height + 1)));
        assert!(l.unspent().is_empty());
    });
}

#[test]
fn a_pending_transaction_is_published_by_mempool_broadcast_or_block_and_keeps_its_label() {
    on_both(|l| {
        let made: Vec<_> = (1..4).map(|n| tx(&[foreign(n)], &[(&l.ours(n), 500)])).collect();
        for made in &made {
            let labelled = ObservedTx {
                label: Some("mine".into()),
                ..observed(made, TxSource::Created { lock: None, force: false })
            };
            let batch = TxBatch { txs: vec![labelled], ..TxBatch::default() };
            l.room.record(&batch, Micros(l.tick())).unwrap();
            assert_eq!(l.status(made), (TxStatus::Pending, None));
            assert_eq!(l.coin(made, 0), CoinState::Pending);
        }
        assert_eq!(l.balance().pending.sats, 1_500);
        l.mempool(&made[0]);
        l.room.mark_broadcast(l.wallet, made[1].compute_txid(), Micros(l.tick())).unwrap();
        let height = l.mine(&[&made[2]]);
        assert_eq!(l.status(&made[0]), (TxStatus::Published, None));
        assert_eq!(l.status(&made[1]), (TxStatus::Published, None));
        assert_eq!(l.status(&made[2]), (TxStatus::Published, Some(height)));
        for made in &made {
            let found = l.room.tx(l.wallet, made.compute_txid()).unwrap();
            assert_eq!(found.summary.label.as_deref(), Some("mine"));
        }
        assert_eq!(l.count_txs(), 3);
    });
}

#[test]
fn a_child_before_its_parent_ends_as_a_child_after_it() {
    on_both(|l| {
        let parent = tx(&[foreign(1)], &[(&l.ours(0), 5_000)]);
        let child = tx(&[out(&parent, 0)], &[(&l.ours(1), 4_000)]);
        l.mempool(&child);
        l.mempool(&parent);
        assert_eq!(l.spender(&parent, 0), Some(child.compute_txid()));
        assert_eq!(l.unspent(), [(out(&child, 0), 4_000)]);
        assert_eq!(l.balance().unconfirmed_own.sats, 4_000, "the child is ours alone");
        let (parent2, child2) = {
            let parent = tx(&[foreign(2)], &[(&l.ours(2), 5_000)]);
            let child = tx(&[out(&parent, 0)], &[(&theirs(1), 4_000)]);
            (parent, child)
        };
        let txs = vec![observed(&child2, TxSource::Mempool), observed(&parent2, TxSource::Mempool)];
        l.room.record(&TxBatch { txs, ..TxBatch::default() }, Micros(l.tick())).unwrap();
        l.check();
        assert_eq!(l.spender(&parent2, 0), Some(child2.compute_txid()));
    });
}

#[test]
fn a_batch_with_one_bad_transaction_is_refused_whole() {
    on_both(|l| {
        let other = l.other_wallet("other", 2);
        let good = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        let bad = tx(&[foreign(2), foreign(2)], &[(&l.ours(1), 500)]);
        let stranger = tx(&[foreign(3)], &[(&theirs(4), 500)]);
        let block = block_ref(5, 5);
        for wrong in [&bad, &stranger] {
            let txs = vec![observed(&good, TxSource::Mempool), observed(wrong, TxSource::Mempool)];
            let batch = TxBatch { txs, blocks: vec![block], tip: Some(block) };
            assert!(l.room.record_for(l.wallet, &batch, Micros(l.tick())).is_err());
        }
        let for_other = TxBatch::one(good, TxSource::Mempool);
        assert!(l.room.record_for(other, &for_other, Micros(l.tick())).is_err());
        assert_eq!(l.count_txs(), 0);
        assert_eq!(l.room.tip().unwrap(), None);
        assert!(l.room.wallets(None).unwrap().iter().all(|info| info.scanned.is_none()));
    });
}

#[test]
fn a_batch_may_bring_its_block_and_moves_the_tip_only_when_told() {
    on_both(|l| {
        let block = block_ref(5, 5);
        let first = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        let txs = vec![observed(&first, TxSource::Block(block, 1))];
        let batch = TxBatch { txs, blocks: vec![block], tip: None };
        l.room.record_for(l.wallet, &batch, Micros(l.tick())).unwrap();
        assert_eq!(l.status(&first), (TxStatus::Published, Some(5)));
        assert_eq!(l.room.wallets(None).unwrap()[0].scanned, None);
        let with_tip = TxBatch { tip: Some(block), ..batch };
        l.room.record_for(l.wallet, &with_tip, Micros(l.tick())).unwrap();
        assert_eq!(l.room.wallets(None).unwrap()[0].scanned, Some(Point::at_height(5, block.hash)));
        let anywhere = l.room.record(&with_tip, Micros(l.tick())).unwrap_err();
        assert!(matches!(anywhere, WalletError::Argument(_)));
    });
}

#[test]
fn a_block_that_is_unknown_or_differs_is_refused_and_the_transaction_stays_as_it_was() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        l.mempool(&pay);
        l.mine(&[]);
        let stored = l.chain.borrow()[0].reference();
        let unknown = l.see(&pay, TxSource::Block(block_ref(77, 1), 0)).unwrap_err();
        assert!(matches!(unknown, WalletError::BlockNotFound { height: 77 }));
        let mut other_hash = stored;
        other_hash.hash = unspent_model::BlockHash([1; 32]);
        let mut other_time = stored;
        other_time.time += 1;
        for wrong in [other_hash, other_time] {
            let refused = l.see(&pay, TxSource::Block(wrong, 0)).unwrap_err();
            assert!(matches!(refused, WalletError::BlockMismatch { .. }));
        }
        assert_eq!(l.status(&pay), (TxStatus::Published, None));
    });
}

#[test]
fn a_chain_mined_in_one_block_is_confirmed_whole_and_counted_right() {
    on_both(|l| {
        let a = tx(&[foreign(1)], &[(&l.ours(0), 5_000)]);
        let b = tx(&[out(&a, 0)], &[(&l.ours(1), 4_000), (&theirs(1), 900)]);
        let c = tx(&[out(&b, 0)], &[(&l.ours(2), 3_900)]);
        l.mempool(&b);
        let height = l.mine(&[&a, &b, &c]);
        for tx in [&a, &b, &c] {
            assert_eq!(l.status(tx), (TxStatus::Published, Some(height)));
        }
        assert_eq!(l.balance().confirmed.sats, 3_900);
        assert_eq!(l.room.balance(l.wallet, 2, Micros(0)).unwrap().confirmed.sats, 0);
        assert_eq!(l.room.balance(l.wallet, 2, Micros(0)).unwrap().unconfirmed_own.sats, 3_900);
    });
}

#[test]
fn a_credit_seen_again_after_confirmation_stays_one_coin() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        l.mempool(&pay);
        l.mine(&[&pay]);
        l.mempool(&pay);
        assert_eq!(l.unspent().len(), 1);
    });
}

#[test]
fn a_self_transfer_costs_its_fee_and_nothing_else() {
    on_both(|l| {
        let funding = l.fund(1, 10_000);
        let around = tx(&[out(&funding, 0)], &[(&l.ours(1), 6_000), (&l.change(0), 3_800)]);
        l.mempool(&around);
        let found = l.room.tx(l.wallet, around.compute_txid()).unwrap().summary;
        assert_eq!((found.net(), found.fee, found.is_own), (-200, Some(200), true));
        let balance = l.balance();
        assert_eq!((balance.confirmed.sats, balance.unconfirmed_own.sats), (0, 9_800));
        assert_eq!(balance.leaving.sats, 10_000);
        l.mine(&[&around]);
        assert_eq!(l.balance().confirmed.sats, 9_800);
    });
}

#[test]
fn payer_and_payee_in_one_database_have_rows_of_their_own() {
    on_both(|l| {
        let other = l.other_wallet("other", 2);
        let to =
            l.room.next_address(other, None, unspent_wallet::wallet_info::KeychainPurpose::Receive);
        let funding = l.fund(1, 10_000);
        let pay = tx(&[out(&funding, 0)], &[(&to.unwrap().script, 6_000), (&l.change(0), 3_000)]);
        assert_eq!(l.mempool(&pay).wallets.len(), 2);
        let txid = pay.compute_txid();
        assert_eq!(l.room.tx(l.wallet, txid).unwrap().summary.net(), -7_000);
        assert_eq!(l.room.tx(other, txid).unwrap().summary.net(), 6_000);
        assert!(l.room.tx(other, txid).unwrap().summary.fee.is_none());
        l.mine(&[&pay]);
        assert_eq!(l.room.balance(other, 1, Micros(0)).unwrap().confirmed.sats, 6_000);
        assert!(l.room.audit(other).unwrap().is_empty());
        assert!(
            l.room.coin(other, out(&funding, 0), Micros(0)).is_err(),
            "no coin of another wallet"
        );
    });
}

#[test]
fn extremes_are_stored_as_they_are() {
    on_both(|l| {
        let max = 21_000_000 * 100_000_000;
        let rich = tx(&[foreign(1)], &[(&l.ours(0), max)]);
        l.mempool(&rich);
        let nothing = tx(&[foreign(2)], &[(&l.ours(1), 0)]);
        l.mempool(&nothing);
        assert_eq!(l.coin(&nothing, 0), CoinState::Unconfirmed);
        let mut too_rich = tx(&[foreign(3)], &[(&l.ours(0), max), (&l.ours(1), 1)]);
        assert!(matches!(l.see(&too_rich, TxSource::Mempool), Err(WalletError::TooMuchMoney(_))));
        too_rich.output[0].value = Amount::from_sat(u64::MAX);
        assert!(matches!(l.see(&too_rich, TxSource::Mempool), Err(WalletError::TooMuchMoney(_))));
        let script = l.ours(3);
        let wide = tx(&[foreign(4)], &vec![(&script, 10); 10_000]);
        assert_eq!(l.mempool(&wide).new_coins, 10_000);
        let second = tx(&[foreign(5)], &[(&l.ours(0), max)]);
        l.mempool(&second);
        assert_eq!(l.balance().total(), 2 * u128::from(max) + 100_000);
    });
}

#[test]
fn the_highest_output_index_is_simply_not_found() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        l.mempool(&pay);
        let missing = l.room.coin(l.wallet, out(&pay, u32::MAX), Micros(0));
        assert!(matches!(missing, Err(WalletError::CoinNotFound(_))));
        let spends_it = tx(&[out(&pay, u32::MAX)], &[(&l.ours(1), 5)]);
        l.mempool(&spends_it);
        let leased = l.room.lease(l.wallet, &[out(&pay, u32::MAX)], l.terms(1), Micros(0));
        assert!(matches!(leased, Err(WalletError::CoinNotFound(_))));
    });
}

#[test]
fn one_transaction_may_spend_several_outputs_of_one_parent_and_address() {
    on_both(|l| {
        let parent = tx(&[foreign(1)], &[(&l.ours(0), 500), (&l.ours(0), 600)]);
        l.mine(&[&parent]);
        let child = tx(&[out(&parent, 1), out(&parent, 0)], &[(&theirs(1), 1_000)]);
        l.mempool(&child);
        assert!(l.unspent().is_empty());
        let found = l.room.tx(l.wallet, child.compute_txid()).unwrap();
        assert_eq!(
            found.inputs.iter().map(|i| i.amount).collect::<Vec<_>>(),
            [Some(600), Some(500)]
        );
    });
}

#[test]
fn the_bytes_that_a_block_holds_are_kept() {
    on_both(|l| {
        let mut pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        l.mempool(&pay);
        pay.input[0].witness = bitcoin::Witness::from_slice(&[[9_u8; 64]]);
        l.mine(&[&pay]);
        assert_eq!(l.room.tx(l.wallet, pay.compute_txid()).unwrap().tx, pay);
        assert_eq!(l.count_txs(), 1);
    });
}

#[test]
fn transactions_of_a_block_are_listed_in_its_order_and_not_in_ours() {
    on_both(|l| {
        let a = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        let b = tx(&[foreign(2)], &[(&l.ours(1), 500)]);
        l.mempool(&a);
        l.mempool(&b);
        let height = l.mine(&[&b, &a]);
        let listed = l.room.txs(l.wallet, TxListing::Blocks(height, height), 10).unwrap();
        let names: Vec<_> = listed.iter().map(|tx| tx.txid).collect();
        assert_eq!(names, [b.compute_txid(), a.compute_txid()]);
    });
}

/// A payment far beyond the gap is found in the block that leads to it.
#[test]
fn a_used_address_moves_the_gap_limit_on_within_the_block() {
    on_both(|l| {
        let far = [19, 38, 57].map(|n| l.ours(n));
        let txs: Vec<_> =
            (0..3_u32).map(|n| tx(&[foreign(n)], &[(&far[n as usize], 100)])).rev().collect();
        l.mine(&[&txs[0], &txs[1], &txs[2]]);
        assert_eq!(l.balance().confirmed.sats, 300);
        let chain = &l.room.keychains(l.wallet).unwrap()[0];
        assert_eq!((chain.last_used, chain.next_index, chain.derived_to), (Some(57), 58, 78));
        let beyond = tx(&[foreign(9)], &[(&l.ours(78), 100)]);
        assert!(l.mempool(&beyond).wallets.is_empty());
    });
}

#[test]
fn a_wallet_that_knows_a_transaction_keeps_its_view_while_others_are_told() {
    on_both(|l| {
        let other = l.other_wallet("other", 2);
        let coin = l.fund(1, 9_000);
        let to = l.room.addresses(other, 0, 1).unwrap()[0].script.clone();
        let first = tx(&[out(&coin, 0)], &[(&to, 8_000)]);
        let bump = tx(&[out(&coin, 0)], &[(&to, 7_000)]);
        let created = TxSource::Created { lock: None, force: false };
        for (tx, how) in [(&first, TxSource::Mempool), (&bump, created)] {
            l.room.record_for(l.wallet, &TxBatch::one(tx.clone(), how), Micros(l.tick())).unwrap();
        }
        assert_eq!(l.status(&first).0, TxStatus::Replaced);
        let known = ObservedTx { known_to: vec![l.wallet], ..observed(&first, TxSource::Mempool) };
        let batch = TxBatch { txs: vec![known], ..TxBatch::default() };
        let done = l.room.record(&batch, Micros(l.tick())).unwrap();
        assert_eq!(done.wallets, [other].into());
        assert_eq!(
            (l.status(&first).0, l.status(&bump).0),
            (TxStatus::Replaced, TxStatus::Pending)
        );
        let there = l.room.tx(other, first.compute_txid()).unwrap().summary.status;
        assert_eq!(there, TxStatus::Published);
        l.check();
    });
}
