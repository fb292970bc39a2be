//! Replacement, double spends, recursive invalidation and revival.

use unspent_model::{
    Micros,
    wallet::{CoinState, JournalCause, PlanRefusal, TxStatus},
};
use unspent_wallet::{TxBatch, TxSource, WalletError, labels::Label};

use crate::ledger::*;

const PUBLISHED: (TxStatus, Option<u64>) = (TxStatus::Published, None);
const REPLACED: (TxStatus, Option<u64>) = (TxStatus::Replaced, None);
const FAILED: (TxStatus, Option<u64>) = (TxStatus::Failed, None);

#[test]
fn a_second_unmined_spend_in_the_mempool_replaces_the_first_at_once() {
    on_both(|l| {
        let coin = l.fund(1, 5_000);
        let first = tx(&[out(&coin, 0)], &[(&l.ours(1), 4_500)]);
        let second = tx(&[out(&coin, 0)], &[(&l.ours(2), 4_000)]);
        l.mempool(&first);
        l.mempool(&second);
        assert_eq!((l.status(&first), l.status(&second)), (REPLACED, PUBLISHED));
        assert_eq!(l.replaced_by(&first), [second.compute_txid()]);
        assert_eq!(l.spender(&coin, 0), Some(second.compute_txid()));
        assert_eq!(l.coin(&first, 0), CoinState::DeadPermanent);
        assert_eq!(l.balance().total(), 4_000);
    });
}

#[test]
fn without_a_node_the_higher_fee_wins_and_an_unknown_one_does_not() {
    on_both(|l| {
        let coin = l.fund(1, 5_000);
        let first = tx(&[out(&coin, 0)], &[(&l.ours(1), 4_500)]);
        let better = tx(&[out(&coin, 0)], &[(&l.ours(2), 4_000)]);
        let worse = tx(&[out(&coin, 0)], &[(&l.ours(3), 4_900)]);
        l.relay(&first);
        l.relay(&worse);
        assert_eq!((l.status(&first), l.status(&worse)), (PUBLISHED, FAILED));
        assert_eq!(l.replaced_by(&worse), [first.compute_txid()]);
        l.relay(&better);
        assert_eq!((l.status(&first), l.status(&better)), (REPLACED, PUBLISHED));
        let unknown = tx(&[foreign(7)], &[(&l.ours(4), 100)]);
        let rival = tx(&[foreign(7)], &[(&l.ours(5), 90)]);
        l.relay(&unknown);
        l.relay(&rival);
        assert_eq!((l.status(&unknown), l.status(&rival)), (PUBLISHED, FAILED));
    });
}

#[test]
fn a_new_transaction_of_ours_replaces_only_by_paying_more() {
    on_both(|l| {
        let coin = l.fund(1, 5_000);
        let first = tx(&[out(&coin, 0)], &[(&theirs(1), 4_500)]);
        let cheap = tx(&[out(&coin, 0)], &[(&theirs(2), 4_600)]);
        let bump = tx(&[out(&coin, 0)], &[(&theirs(1), 4_000)]);
        l.create(&first);
        let refused = l.try_create(&cheap).unwrap_err();
        assert!(
            matches!(refused, WalletError::Refused(PlanRefusal::InputSpent { .. })),
            "{refused}"
        );
        assert!(!l.is_known(&cheap));
        l.create(&bump);
        assert_eq!(l.status(&first), FAILED, "it was never sent, so it was not replaced");
        assert_eq!(l.status(&bump), (TxStatus::Pending, None));
        l.mine(&[&bump]);
        let late = l.try_create(&cheap).unwrap_err();
        assert!(matches!(late, WalletError::Refused(PlanRefusal::InputSpent { .. })));
    });
}

#[test]
fn a_confirmed_double_spend_fails_the_loser_and_all_that_hangs_on_it() {
    on_both(|l| {
        let parent = tx(&[foreign(1)], &[(&l.ours(0), 5_000)]);
        let side = l.fund(2, 900);
        let child = tx(&[out(&parent, 0)], &[(&l.ours(1), 4_000)]);
        let grandchild = tx(&[out(&child, 0), out(&side, 0)], &[(&l.ours(2), 3_000)]);
        let winner = tx(&[out(&parent, 0)], &[(&theirs(1), 4_900)]);
        l.mempool(&parent);
        l.mempool(&child);
        l.mempool(&grandchild);
        let height = l.mine(&[&parent, &winner]);
        assert_eq!((l.status(&child), l.status(&grandchild)), (FAILED, FAILED));
        assert_eq!(l.status(&winner), (TxStatus::Published, Some(height)));
        assert_eq!(l.replaced_by(&child), [winner.compute_txid()]);
        assert!(l.replaced_by(&grandchild).is_empty());
        assert_eq!(l.unspent(), [(out(&side, 0), 900)], "the input shared with nothing is free");
    });
}

#[test]
fn a_conflict_on_an_input_that_is_not_ours_kills_the_credit() {
    on_both(|l| {
        let credit = tx(&[foreign(1)], &[(&l.ours(0), 4_000)]);
        let child = tx(&[out(&credit, 0)], &[(&l.ours(1), 3_000)]);
        let stranger = tx(&[foreign(1)], &[(&theirs(1), 3_900)]);
        l.mempool(&credit);
        l.mempool(&child);
        l.mine(&[&stranger]);
        assert_eq!((l.status(&credit), l.status(&child)), (FAILED, FAILED));
        assert_eq!(l.replaced_by(&credit), [stranger.compute_txid()]);
        assert_eq!(l.balance().total(), 0);
    });
}

#[test]
fn a_stored_rival_that_confirms_wins_by_its_own_row() {
    on_both(|l| {
        let coin = l.fund(1, 5_000);
        let loser = tx(&[out(&coin, 0)], &[(&l.ours(1), 4_500)]);
        let winner = tx(&[out(&coin, 0)], &[(&l.ours(2), 4_600)]);
        l.relay(&loser);
        l.relay(&winner);
        assert_eq!((l.status(&loser), l.status(&winner)), (PUBLISHED, FAILED));
        let height = l.mine(&[&winner]);
        assert_eq!(l.status(&winner), (TxStatus::Published, Some(height)));
        assert_eq!(l.status(&loser), FAILED);
        assert_eq!(l.replaced_by(&loser), [winner.compute_txid()]);
        assert_eq!(l.count_txs(), 3);
    });
}

#[test]
fn a_child_of_a_dead_parent_is_refused_from_us_and_kept_dead_from_others() {
    on_both(|l| {
        let coin = l.fund(1, 5_000);
        let b = tx(&[out(&coin, 0)], &[(&l.ours(1), 4_500)]);
        let b2 = tx(&[out(&coin, 0)], &[(&l.ours(2), 4_000)]);
        l.mempool(&b);
        l.mempool(&b2);
        let both = tx(&[out(&b, 0), out(&b2, 0)], &[(&l.ours(3), 8_000)]);
        let refused = l.try_create(&both).unwrap_err();
        assert!(matches!(refused, WalletError::Refused(PlanRefusal::InvalidParent { .. })));
        assert!(!l.is_known(&both));
        l.mempool(&both);
        assert_eq!(l.status(&both), FAILED);
        assert_eq!(l.unspent(), [(out(&b2, 0), 4_000)]);
        let child = tx(&[out(&b, 0)], &[(&l.ours(4), 4_400)]);
        l.relay(&child);
        assert_eq!(l.status(&child), FAILED, "hearsay proves nothing");
        l.mempool(&b);
        assert_eq!(
            (l.status(&b), l.status(&child)),
            (PUBLISHED, PUBLISHED),
            "it follows its parent"
        );
        assert_eq!(l.status(&both), FAILED);
    });
}

#[test]
fn a_child_in_the_mempool_revives_the_parent_that_was_called_replaced() {
    on_both(|l| {
        let coin = l.fund(1, 5_000);
        let parent = tx(&[out(&coin, 0)], &[(&l.ours(1), 4_500)]);
        let rival = tx(&[out(&coin, 0)], &[(&l.ours(2), 4_000)]);
        let of_rival = tx(&[out(&rival, 0)], &[(&l.ours(5), 3_900)]);
        l.mempool(&parent);
        l.mempool(&rival);
        l.mempool(&of_rival);
        assert_eq!(l.status(&parent), REPLACED);
        // Seen alone: the node would not hold it without its parent.
        let child = tx(&[out(&parent, 0)], &[(&l.ours(3), 4_400)]);
        l.mempool(&child);
        assert_eq!((l.status(&parent), l.status(&child)), (PUBLISHED, PUBLISHED));
        assert_eq!((l.status(&rival), l.status(&of_rival)), (REPLACED, FAILED));
        assert_eq!(l.unspent(), [(out(&child, 0), 4_400)]);
    });
}

#[test]
fn a_late_parent_is_spent_by_the_child_that_lives() {
    on_both(|l| {
        let parent = tx(&[foreign(1)], &[(&l.ours(0), 5_000)]);
        let one = tx(&[out(&parent, 0)], &[(&l.ours(1), 4_000)]);
        let two = tx(&[out(&parent, 0)], &[(&l.ours(2), 3_000)]);
        l.mempool(&one);
        l.mempool(&two);
        assert_eq!((l.status(&one), l.status(&two)), (REPLACED, PUBLISHED));
        l.mempool(&parent);
        assert_eq!(l.spender(&parent, 0), Some(two.compute_txid()));
        let parent = tx(&[foreign(2)], &[(&l.ours(3), 5_000)]);
        let one = tx(&[out(&parent, 0)], &[(&l.ours(4), 4_000)]);
        let two = tx(&[out(&parent, 0)], &[(&l.ours(5), 3_000)]);
        l.mempool(&two);
        l.mine(&[&one]);
        assert_eq!(l.status(&two), FAILED);
        l.mempool(&parent);
        assert_eq!(l.spender(&parent, 0), Some(one.compute_txid()));
    });
}

/// Cases 25 to 27.
#[test]
fn invalidating_a_pending_chain_fails_it_and_frees_its_coins() {
    on_both(|l| {
        let coin = l.fund(1, 5_000);
        let a = tx(&[out(&coin, 0)], &[(&l.ours(1), 4_000)]);
        let b = tx(&[out(&a, 0)], &[(&l.ours(2), 3_000)]);
        let c = tx(&[out(&b, 0)], &[(&l.ours(3), 2_000)]);
        for made in [&a, &b, &c] {
            l.create(made);
        }
        l.room.invalidate(l.wallet, a.compute_txid(), Micros(l.tick())).unwrap();
        l.check();
        assert_eq!([l.status(&a), l.status(&b), l.status(&c)], [FAILED; 3]);
        assert_eq!(l.unspent(), [(out(&coin, 0), 5_000)]);
        let shown = l.room.tx(l.wallet, a.compute_txid()).unwrap();
        assert_eq!(shown.inputs[0].amount, Some(5_000), "its detail still lists the owned input");
        let sent = tx(&[foreign(5)], &[(&l.ours(4), 10)]);
        l.mempool(&sent);
        for wrong in [&a, &coin, &sent] {
            let refused =
                l.room.invalidate(l.wallet, wrong.compute_txid(), Micros(l.tick())).unwrap_err();
            assert!(matches!(refused, WalletError::Refused(PlanRefusal::NotPending { .. })));
        }
        let missing = l.room.invalidate(l.wallet, foreign(9).txid, Micros(l.tick())).unwrap_err();
        assert!(matches!(missing, WalletError::Refused(PlanRefusal::Unknown(_))));
        let rival = tx(&[out(&coin, 0)], &[(&theirs(1), 4_999)]);
        l.create(&rival);
        l.room.invalidate(l.wallet, rival.compute_txid(), Micros(l.tick())).unwrap();
        assert_eq!(l.status(&a), FAILED, "what was taken back does not come back by itself");
        l.mempool(&a);
        assert_eq!(l.status(&a), PUBLISHED, "unless the network has it");
        assert_eq!(l.status(&b), (TxStatus::Pending, None), "and then its children are back too");
    });
}

#[test]
fn a_chain_of_replacements_keeps_every_edge() {
    on_both(|l| {
        let coin = l.fund(1, 5_000);
        let [a, b, c] = [4_500, 4_000, 3_500].map(|n| tx(&[out(&coin, 0)], &[(&l.ours(1), n)]));
        for made in [&a, &b, &c] {
            l.mempool(made);
        }
        assert_eq!([l.status(&a), l.status(&b), l.status(&c)], [REPLACED, REPLACED, PUBLISHED]);
        assert_eq!(l.replaced_by(&a), [b.compute_txid()]);
        assert_eq!(l.replaced_by(&b), [c.compute_txid()]);
        assert_eq!(l.spender(&coin, 0), Some(c.compute_txid()));
    });
}

#[test]
fn a_replacement_that_no_longer_conflicts_with_the_first_revives_the_first() {
    on_both(|l| {
        let (x, y) = (l.fund(1, 5_000), l.fund(2, 6_000));
        let a = tx(&[out(&x, 0)], &[(&l.ours(1), 4_900)]);
        let child = tx(&[out(&a, 0)], &[(&l.ours(4), 4_800)]);
        let b = tx(&[out(&x, 0), out(&y, 0)], &[(&l.ours(2), 10_000)]);
        let c = tx(&[out(&y, 0)], &[(&l.ours(3), 5_000)]);
        l.mempool(&a);
        l.mempool(&child);
        l.mempool(&b);
        assert_eq!((l.status(&a), l.status(&child)), (REPLACED, FAILED));
        l.mempool(&c);
        assert_eq!((l.status(&a), l.status(&child)), (PUBLISHED, PUBLISHED));
        assert_eq!((l.status(&b), l.status(&c)), (REPLACED, PUBLISHED));
        assert_eq!(l.spender(&x, 0), Some(a.compute_txid()));
        let lines = l.room.journal(l.wallet, Some(a.compute_txid()), 0, 10).unwrap();
        let causes: Vec<JournalCause> = lines.iter().map(|line| line.cause).collect();
        assert_eq!(causes, [JournalCause::Mempool, JournalCause::Replaced, JournalCause::Revived]);
    });
}

#[test]
fn the_loser_that_a_reorganisation_confirms_comes_back_and_beats_the_winner() {
    on_both(|l| {
        let coin = l.fund(1, 5_000);
        let loser = tx(&[out(&coin, 0)], &[(&l.ours(1), 4_500)]);
        let winner = tx(&[out(&coin, 0)], &[(&l.ours(2), 4_000)]);
        let child = tx(&[out(&winner, 0)], &[(&l.ours(3), 3_900)]);
        l.mempool(&loser);
        l.mine(&[&winner]);
        l.mempool(&child);
        assert_eq!(l.status(&loser), FAILED);
        l.undo(1);
        let height = l.mine(&[&loser]);
        assert_eq!(l.status(&loser), (TxStatus::Published, Some(height)));
        assert_eq!((l.status(&winner), l.status(&child)), (FAILED, FAILED));
        assert_eq!(l.replaced_by(&loser), [winner.compute_txid()], "the edge stays as history");
        assert_eq!(l.replaced_by(&winner), [loser.compute_txid()]);
        assert_eq!(l.unspent(), [(out(&loser, 0), 4_500)]);
    });
}

#[test]
fn a_winner_that_loses_its_block_stays_the_winner_until_the_chain_says_otherwise() {
    on_both(|l| {
        let coin = l.fund(1, 5_000);
        let loser = tx(&[out(&coin, 0)], &[(&l.ours(1), 4_500)]);
        let winner = tx(&[out(&coin, 0)], &[(&l.ours(2), 4_000)]);
        l.mempool(&loser);
        l.mine(&[&winner]);
        l.undo(1);
        assert_eq!((l.status(&winner), l.status(&loser)), (PUBLISHED, FAILED));
        l.mempool(&loser);
        assert_eq!((l.status(&winner), l.status(&loser)), (REPLACED, PUBLISHED));
    });
}

#[test]
fn a_descendant_of_two_dead_ancestors_needs_both_back() {
    on_both(|l| {
        let (x, y) = (l.fund(1, 5_000), l.fund(2, 6_000));
        let a = tx(&[out(&x, 0)], &[(&l.ours(1), 4_000)]);
        let b = tx(&[out(&y, 0)], &[(&l.ours(2), 5_000)]);
        let both = tx(&[out(&a, 0), out(&b, 0)], &[(&l.ours(3), 8_000)]);
        for made in [&a, &b, &both] {
            l.mempool(made);
        }
        let (ra, rb) =
            (tx(&[out(&x, 0)], &[(&theirs(1), 3_000)]), tx(&[out(&y, 0)], &[(&theirs(2), 4_000)]));
        l.mempool(&ra);
        l.mempool(&rb);
        assert_eq!(l.status(&both), FAILED);
        l.mempool(&a);
        assert_eq!((l.status(&a), l.status(&both)), (PUBLISHED, FAILED));
        l.mempool(&b);
        assert_eq!((l.status(&b), l.status(&both)), (PUBLISHED, PUBLISHED));
    });
}

#[test]
fn a_confirmed_descendant_proves_its_dead_ancestor_and_is_never_failed() {
    on_both(|l| {
        let coin = l.fund(1, 5_000);
        let parent = tx(&[out(&coin, 0)], &[(&l.ours(1), 4_500)]);
        let rival = tx(&[out(&coin, 0)], &[(&l.ours(2), 4_000)]);
        let child = tx(&[out(&parent, 0)], &[(&l.ours(3), 4_400)]);
        l.mempool(&parent);
        l.mempool(&rival);
        assert_eq!(l.status(&parent), REPLACED);
        let height = l.mine(&[&child]);
        assert_eq!(l.status(&child), (TxStatus::Published, Some(height)));
        assert_eq!((l.status(&parent), l.status(&rival)), (PUBLISHED, FAILED));
        l.mempool(&rival);
        assert_eq!((l.status(&parent), l.status(&rival)), (PUBLISHED, FAILED), "the chain judges");
        let stranger = tx(&[out(&coin, 0)], &[(&theirs(1), 1)]);
        let applied = l.try_apply(l.block(&[&stranger])).unwrap();
        assert!(applied.stopped.contains(&l.wallet) && applied.moved.is_empty());
        assert!(!l.is_known(&stranger));
        let info = l.room.wallet_info(l.wallet).unwrap();
        assert_eq!(info.scanned.unwrap().height, height, "the wallet took nothing of the block");
        let stopped = info.stopped.unwrap();
        assert_eq!(stopped.height, Some(height + 1));
        assert!(stopped.reason.contains("conflicts with"), "{}", stopped.reason);
    });
}

#[test]
fn a_diamond_falls_and_rises_once() {
    on_both(|l| {
        let coin = l.fund(1, 9_000);
        let top = tx(&[out(&coin, 0)], &[(&l.ours(1), 4_000), (&l.ours(2), 4_000)]);
        let left = tx(&[out(&top, 0)], &[(&l.ours(3), 3_900)]);
        let right = tx(&[out(&top, 1)], &[(&l.ours(4), 3_900)]);
        let bottom = tx(&[out(&left, 0), out(&right, 0)], &[(&l.ours(5), 7_000)]);
        let all = [&top, &left, &right, &bottom];
        all.iter().for_each(|made| drop(l.mempool(made)));
        let rival = tx(&[out(&coin, 0)], &[(&theirs(1), 1)]);
        l.mempool(&rival);
        assert_eq!(all.map(|made| l.status(made)), [REPLACED, FAILED, FAILED, FAILED]);
        let lines = l.room.journal(l.wallet, Some(bottom.compute_txid()), 0, 10).unwrap();
        assert_eq!(lines.len(), 2, "seen and failed, each once");
        l.mempool(&top);
        assert_eq!(all.map(|made| l.status(made)), [PUBLISHED; 4]);
    });
}

/// Depth.
#[test]
fn a_deep_chain_falls_and_rises_in_one_pass() {
    on_both(|l| {
        let depth = 1_000_u32;
        let coin = l.fund(1, 1_000_000_000);
        let script = l.ours(1);
        let mut chain = vec![tx(&[out(&coin, 0)], &[(&script, 999_999_999)])];
        for n in 1..depth {
            let last = chain.last().unwrap();
            chain.push(tx(&[out(last, 0)], &[(&script, 999_999_999 - u64::from(n))]));
        }
        let txs = chain.iter().map(|made| observed(made, TxSource::Mempool)).collect();
        l.room.record(&TxBatch { txs, ..TxBatch::default() }, Micros(l.tick())).unwrap();
        l.check();
        let rival = tx(&[out(&coin, 0)], &[(&theirs(1), 1)]);
        let done = l.mempool(&rival);
        assert_eq!(done.changed_txs, depth as usize);
        assert_eq!(l.status(chain.last().unwrap()), FAILED);
        assert_eq!(l.balance().total(), 0);
        l.mempool(&chain[0]);
        assert_eq!(l.status(chain.last().unwrap()), PUBLISHED);
    });
}

#[test]
fn eviction_is_noted_and_changes_no_status() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500)]);
        l.mempool(&pay);
        let txid = pay.compute_txid();
        l.room.mark_evicted(l.wallet, txid, Micros(l.tick())).unwrap();
        let at = l.now.get();
        l.room.mark_evicted(l.wallet, txid, Micros(l.tick())).unwrap();
        assert_eq!(l.status(&pay), PUBLISHED);
        let shown = || l.room.tx(l.wallet, txid).unwrap().summary.evicted_at;
        assert_eq!(shown(), Some(Micros(at)));
        l.mempool(&pay);
        assert_eq!(shown(), None, "seen again");
    });
}

#[test]
fn change_of_a_replaced_transaction_dies_with_it() {
    on_both(|l| {
        let coin = l.fund(1, 9_000);
        let pay = tx(&[out(&coin, 0)], &[(&theirs(1), 4_000), (&l.change(0), 4_900)]);
        let spend = tx(&[out(&pay, 1)], &[(&theirs(2), 4_800)]);
        l.mempool(&pay);
        l.mempool(&spend);
        let bump = tx(&[out(&coin, 0)], &[(&theirs(1), 4_000), (&l.change(0), 4_000)]);
        l.mempool(&bump);
        assert_eq!((l.status(&pay), l.status(&spend)), (REPLACED, FAILED));
        assert_eq!(l.unspent(), [(out(&bump, 1), 4_000)]);
    });
}

#[test]
fn a_clone_with_another_name_that_confirms_takes_the_place() {
    on_both(|l| {
        let coin = l.fund(1, 9_000);
        let pay = tx(&[out(&coin, 0)], &[(&theirs(1), 4_000), (&l.change(0), 4_900)]);
        let mut clone = pay.clone();
        clone.input[0].script_sig = bitcoin::ScriptBuf::from_bytes(vec![1, 7]);
        l.mempool(&pay);
        let label = |kind: &str, reference: String, text: &str| {
            let label = Label { kind: kind.into(), reference, label: text.into() };
            l.room.set_label(l.wallet, &label).unwrap();
        };
        label("tx", pay.compute_txid().to_string(), "rent");
        label("output", out(&pay, 1).to_string(), "change");
        l.mine(&[&clone]);
        assert_eq!(l.status(&pay), FAILED);
        assert_eq!(l.replaced_by(&pay), [clone.compute_txid()]);
        assert_eq!(l.balance().confirmed.sats, 4_900);
        let labels = l.room.export_labels(l.wallet).unwrap();
        for named in [clone.compute_txid().to_string(), out(&clone, 1).to_string()] {
            assert!(labels.contains(&named), "{labels}");
        }
        let shown = l.room.tx(l.wallet, clone.compute_txid()).unwrap().summary.label;
        assert_eq!(shown.as_deref(), Some("rent"));
    });
}

/// A rival that says something else is another payment: what was written about the first stays.
#[test]
fn a_label_does_not_follow_a_rival_that_pays_somebody_else() {
    on_both(|l| {
        let coin = l.fund(1, 9_000);
        let pay = tx(&[out(&coin, 0)], &[(&theirs(1), 4_000), (&l.change(0), 4_900)]);
        let rival = tx(&[out(&coin, 0)], &[(&theirs(2), 4_000), (&l.change(0), 4_900)]);
        l.mempool(&pay);
        let reference = pay.compute_txid().to_string();
        let label = Label { kind: "tx".into(), reference, label: "rent".into() };
        l.room.set_label(l.wallet, &label).unwrap();
        l.mine(&[&rival]);
        assert_eq!(l.room.tx(l.wallet, rival.compute_txid()).unwrap().summary.label, None);
    });
}

#[test]
fn a_confirmed_coin_spent_only_by_an_unconfirmed_transaction_is_told_apart() {
    on_both(|l| {
        let coin = l.fund(1, 9_000);
        let claim = tx(&[out(&coin, 0)], &[(&theirs(1), 8_000)]);
        l.relay(&claim);
        let balance = l.balance();
        assert_eq!((balance.total(), balance.leaving.sats), (0, 9_000));
    });
}
