//! Lists, details, labels, past balances, pruning and the audit.

use unspent_model::{
    Micros,
    wallet::{JournalCause, TxStatus, prune::PruneRefusal},
};
use unspent_wallet::{
    TxSource, WalletError, coins::CoinCursor, history::TxListing, labels::Label,
    prune::PruneRequest,
};

use crate::ledger::*;

#[test]
fn a_transaction_and_a_coin_are_found_in_every_wallet_that_knows_them() {
    on_both(|l| {
        let (other, third) = (l.other_wallet("other", 2), l.other_wallet("third", 3));
        let theirs_too = l.room.addresses(other, 0, 1).unwrap().remove(0).script;
        l.room.import_script(third, &l.ours(0)).unwrap();
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 500), (&theirs_too, 700)]);
        l.mine(&[&pay]);
        let terms = l.terms(1);
        l.room.lease(l.wallet, &[out(&pay, 0)], terms, Micros(l.tick())).unwrap();
        let named = |id, name: &str| (id, name.to_owned());
        let all = [named(l.wallet, "ours"), named(other, "other"), named(third, "third")];
        assert_eq!(l.room.wallets_of_tx(pay.compute_txid()).unwrap(), all);
        assert_eq!(l.room.wallets_of_tx(foreign(1).txid).unwrap(), []);
        for vout in 0..2 {
            let found = l.room.coins_at(out(&pay, vout), Micros(l.now.get())).unwrap();
            let known = [l.wallet, other, third].into_iter().filter_map(|wallet| {
                Some((wallet, l.room.coin(wallet, out(&pay, vout), Micros(l.now.get())).ok()?))
            });
            assert!(found.iter().map(|at| (at.wallet, at.coin.clone())).eq(known));
            assert_eq!(found.len(), if vout == 0 { 2 } else { 1 });
        }
        let found = l.room.coins_at(out(&pay, 0), Micros(l.now.get())).unwrap();
        assert_eq!((found[0].name.as_str(), found[1].name.as_str()), ("ours", "third"));
        assert_eq!(found[0].coin.lock, Some(lock(1)), "a lease is the wallet's own");
        assert_eq!(found[1].coin.lock, None);
        assert!(l.room.coins_at(out(&pay, 2), Micros(l.now.get())).unwrap().is_empty());
    });
}

#[test]
fn lists_by_block_leave_out_the_unmined_and_the_other_way_round() {
    on_both(|l| {
        let mined = l.fund(1, 500);
        let loser = tx(&[foreign(2)], &[(&l.ours(1), 600)]);
        let winner = tx(&[foreign(2)], &[(&l.ours(2), 500)]);
        l.mempool(&loser);
        l.mempool(&winner);
        let names = |listing| -> Vec<_> {
            l.room.txs(l.wallet, listing, 10).unwrap().iter().map(|tx| tx.txid).collect()
        };
        assert_eq!(names(TxListing::Blocks(0, u64::MAX >> 1)), [mined.compute_txid()]);
        let unmined = [loser.compute_txid(), winner.compute_txid()];
        assert_eq!(names(TxListing::Unconfirmed(0)), unmined, "the dead ones are listed too");
    });
}

#[test]
fn pages_by_cursor_show_each_thing_once() {
    on_both(|l| {
        for n in 0..25_u32 {
            l.mempool(&tx(&[foreign(n)], &[(&l.ours(n % 20), 1_000 + u64::from(n % 3))]));
        }
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = l.room.txs(l.wallet, TxListing::Latest(after), 7).unwrap();
            let Some(last) = page.last() else { break };
            after = Some((last.received, last.id));
            seen.extend(page.iter().map(|tx| tx.txid));
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!((count, seen.len()), (25, 25));
        let (mut coins, mut after) = (Vec::new(), None);
        loop {
            let page = l.room.coins(l.wallet, after, 4, Micros(0)).unwrap();
            let Some(last) = page.last() else { break };
            after = Some(CoinCursor { amount: last.amount, id: last.id });
            coins.extend(page.iter().map(|coin| (coin.amount, coin.id)));
        }
        assert_eq!(coins.len(), 25);
        assert!(coins.windows(2).all(|pair| pair[0] < pair[1]));
    });
}

#[test]
fn labels_have_500_characters_at_most_and_an_empty_one_clears() {
    on_both(|l| {
        let pay = l.fund(1, 500);
        let label = |text: &str| Label {
            kind: "tx".into(),
            reference: pay.compute_txid().to_string(),
            label: text.into(),
        };
        let shown = || l.room.tx(l.wallet, pay.compute_txid()).unwrap().summary.label;
        let long = "é".repeat(500);
        l.room.set_label(l.wallet, &label(&long)).unwrap();
        assert_eq!(shown(), Some(long.clone()));
        let longer = l.room.set_label(l.wallet, &label(&format!("{long}x"))).unwrap_err();
        assert!(matches!(longer, WalletError::LabelTooLong(501)));
        assert_eq!(shown(), Some(long));
        l.room.set_label(l.wallet, &label("")).unwrap();
        assert_eq!(shown(), None);
        let odd = Label { kind: "coin".into(), ..label("x") };
        assert!(matches!(l.room.set_label(l.wallet, &odd), Err(WalletError::Argument(_))));
    });
}

#[test]
fn balances_of_the_past_come_from_the_coins_own_heights() {
    on_both(|l| {
        let first = l.fund(1, 5_000);
        let second = l.fund(2, 7_000);
        let spend = tx(&[out(&first, 0)], &[(&l.ours(3), 4_000)]);
        l.mine(&[&spend]);
        let leaving = tx(&[out(&second, 0)], &[(&theirs(1), 6_000)]);
        l.mempool(&leaving);
        let at = |height| l.room.balance_as_of(l.wallet, height).unwrap().sats;
        assert_eq!([at(FIRST), at(FIRST + 1), at(FIRST + 2)], [5_000, 12_000, 11_000]);
        assert_eq!(at(FIRST - 1), 0);
        assert!(l.room.balance_as_of(l.wallet, FIRST + 3).is_err());
    });
}

#[test]
fn pruning_takes_what_is_finished_keeps_the_audit_and_makes_no_coin_unspent() {
    on_both(|l| {
        let funding = l.fund(1, 9_000);
        let loser = tx(&[out(&funding, 0)], &[(&l.ours(1), 8_900)]);
        let spend = tx(&[out(&funding, 0)], &[(&theirs(1), 4_000), (&l.change(0), 4_900)]);
        l.mempool(&loser);
        l.mempool(&spend);
        l.mine(&[&spend]);
        let last = tx(&[out(&spend, 1)], &[(&theirs(2), 4_800)]);
        l.mine(&[&last]);
        let prune = |txs: &[&bitcoin::Transaction]| {
            let names = txs.iter().map(|tx| tx.compute_txid()).collect();
            l.room.prune(l.wallet, &PruneRequest::Exactly(names), 10, Micros(l.tick()))
        };
        let shallow = prune(&[&funding]).unwrap_err();
        let why = matches!(shallow, WalletError::Prune(PruneRefusal::Shallow { .. }));
        assert!(why, "{shallow}");
        let open = tx(&[foreign(7)], &[(&l.ours(4), 100)]);
        l.mempool(&open);
        let unconfirmed = prune(&[&open]).unwrap_err();
        assert!(matches!(unconfirmed, WalletError::Prune(PruneRefusal::Unconfirmed(_))));
        let held = l.fund(8, 300);
        l.mine_empty(20);
        let unspent = prune(&[&held]).unwrap_err();
        assert!(matches!(unspent, WalletError::Prune(PruneRefusal::CoinUnspent(_))));
        let parent_stays = prune(&[&spend]).unwrap_err();
        assert!(matches!(parent_stays, WalletError::Prune(PruneRefusal::ParentStays { .. })));
        assert!(matches!(prune(&[&l.block(&[]).block.txdata[0]]), Err(WalletError::Prune(_))));
        let gone = prune(&[&funding, &spend]).unwrap();
        assert_eq!(gone.len(), 3, "the dead rival goes with the winner");
        l.check();
        assert!(!l.is_known(&funding) && !l.is_known(&spend) && !l.is_known(&loser));
        assert!(l.is_known(&last), "a later spender may stay");
        let lines = l.room.journal(l.wallet, Some(loser.compute_txid()), 0, 20).unwrap();
        assert!(lines.iter().any(|line| line.cause == JournalCause::PrunedEdge
            && line.other == Some(spend.compute_txid())));
        let kept = l.room.journal(l.wallet, Some(spend.compute_txid()), 0, 20).unwrap();
        let pruned = kept.iter().find(|line| line.cause == JournalCause::Pruned).unwrap();
        assert_eq!(pruned.from, Some(TxStatus::Published));
        assert_eq!(l.balance().confirmed.sats, 300);
        let rest =
            l.room.prune(l.wallet, &PruneRequest::UpTo(l.height()), 10, Micros(l.tick())).unwrap();
        assert_eq!(rest, [last.compute_txid()]);
        l.check();
        assert_eq!(l.balance().total(), 400);
    });
}

/// A teller that comes late, or twice, must not make a spent coin of the past spendable.
#[test]
fn what_was_pruned_stays_settled_until_its_block_goes() {
    on_both(|l| {
        let funding = l.fund(1, 9_000);
        let loser = tx(&[foreign(2)], &[(&l.ours(1), 700)]);
        let spend = tx(&[out(&funding, 0), foreign(2)], &[(&theirs(1), 8_000)]);
        l.mempool(&loser);
        let block = l.block(&[&spend]);
        l.try_apply(block.clone()).unwrap();
        l.mine_empty(10);
        let names = [&funding, &spend].map(|tx| tx.compute_txid()).to_vec();
        l.room.prune(l.wallet, &PruneRequest::Exactly(names), 10, Micros(l.tick())).unwrap();
        for again in [&funding, &spend, &loser] {
            for how in [
                TxSource::Mempool,
                TxSource::Relayed,
                TxSource::Created { lock: None, force: false },
            ] {
                assert_eq!(l.see(again, how).unwrap().new_txs, 0);
            }
        }
        assert_eq!(l.see(&spend, in_block(&block, 1)).unwrap().new_txs, 0);
        assert_eq!((l.count_txs(), l.balance().total()), (0, 0));
        l.check();
        // A reorganisation as deep as that opens the matter again.
        let gone = l.undo(11);
        l.mempool(&loser);
        assert_eq!(l.balance().total(), 700);
        for block in gone {
            l.try_apply(block).unwrap();
        }
        assert!(l.is_known(&spend) && !l.is_known(&funding));
        l.read_again();
        assert!(l.is_known(&spend) && l.is_known(&funding));
        assert_eq!(l.balance().total(), 0, "the loser lost again");
        l.check();
    });
}

/// A coin and its spend are pruned; a reorganisation undoes the spend, and it never comes back.
#[test]
fn a_reorganisation_deeper_than_a_prune_brings_the_coin_back() {
    on_both(|l| {
        l.mine_empty(2);
        let funding = l.fund(1, 9_000);
        let funded_at = l.height();
        l.mine_empty(2);
        let spend = tx(&[out(&funding, 0)], &[(&theirs(1), 8_000)]);
        let spent_at = l.mine(&[&spend]);
        l.mine_empty(10);
        let gone =
            l.room.prune(l.wallet, &PruneRequest::UpTo(spent_at), 10, Micros(l.tick())).unwrap();
        assert_eq!(gone.len(), 2);
        // Less deep than the spend: nothing is in doubt.
        let told = || l.room.wallet_info(l.wallet).unwrap();
        l.undo(10);
        assert_eq!((told().backfill, told().history_from), (None, Some(spent_at)));
        // The spend itself: the coin is money again, and the wallet says that it doesn't know it.
        l.undo(1);
        let left = told().backfill.expect("its history isn't whole");
        assert_eq!((left.next, left.end), (funded_at, spent_at - 1));
        assert!(l.room.balance_as_of(l.wallet, funded_at).is_err(), "never a wrong number");
        l.mine_empty(3);
        l.read_again();
        assert_eq!((l.balance().confirmed.sats, told().history_from), (9_000, None));
        assert_eq!(l.room.balance_as_of(l.wallet, funded_at).unwrap().sats, 9_000);
        assert_eq!(l.status(&funding).1, Some(funded_at));
        assert!(!l.is_known(&spend));
        l.check();
    });
}

/// The spender stayed, because it holds money; its block goes, and another spend takes its place.
#[test]
fn a_pruned_coin_whose_spender_is_undone_comes_back() {
    on_both(|l| {
        let funding = l.fund(1, 9_000);
        let spend = tx(&[out(&funding, 0), foreign(2)], &[(&l.ours(1), 8_000)]);
        l.mine(&[&spend]);
        l.mine_empty(10);
        let names = vec![funding.compute_txid()];
        l.room.prune(l.wallet, &PruneRequest::Exactly(names), 10, Micros(l.tick())).unwrap();
        l.undo(11);
        // The foreign input is spent by somebody else: ours can never be mined again.
        l.mine(&[&tx(&[foreign(2)], &[(&theirs(1), 5)])]);
        l.read_again();
        assert_eq!(l.balance().confirmed.sats, 9_000);
        l.check();
    });
}

#[test]
fn a_rewind_below_a_prune_ends_with_the_whole_history() {
    on_both(|l| {
        let funding = l.fund(1, 9_000);
        let spend = tx(&[out(&funding, 0)], &[(&theirs(1), 8_000)]);
        let spent_at = l.mine(&[&spend]);
        l.mine_empty(10);
        l.room.prune(l.wallet, &PruneRequest::UpTo(spent_at), 10, Micros(l.tick())).unwrap();
        l.room.rewind(l.wallet, Some(spent_at - 1), Micros(l.tick())).unwrap();
        l.read_again();
        let blocks = l.chain.borrow().clone();
        l.room.apply_blocks(blocks, Micros(l.tick())).unwrap();
        let told = l.room.wallet_info(l.wallet).unwrap();
        assert_eq!((told.backfill, told.history_from), (None, None));
        assert_eq!(l.spender(&funding, 0), Some(spend.compute_txid()));
        assert_eq!(l.room.tx(l.wallet, spend.compute_txid()).unwrap().summary.net(), -9_000);
        l.check();
    });
}

#[test]
fn the_audit_names_what_was_tampered_with() {
    let l = Ledger::sqlite();
    let funding = l.fund(1, 9_000);
    let spend = tx(&[out(&funding, 0)], &[(&l.ours(1), 8_900)]);
    l.mempool(&spend);
    let unspent_sql::Url::Sqlite(path) = &l.url else { panic!("a file") };
    let tamper = |sql: &'static str| {
        let door = unspent_sql::Door::open(
            &l.url,
            &unspent_wallet::schema::SCHEMA,
            unspent_sql::Options::default(),
        );
        door.unwrap().write(move |tx| tx.execute(sql, &[])).unwrap();
    };
    assert!(path.exists());
    let wrongs = [
        ("UPDATE utxos SET spent_by_tx_id = NULL, spent_input_index = NULL", "its spender"),
        ("UPDATE wallets SET confirmed_amount = 17", "the stored confirmed total"),
        ("UPDATE utxos SET amount = amount + 1", "its amount"),
        ("UPDATE tx_inputs SET prev_output_index = 9", "its stored inputs"),
        ("UPDATE transactions SET raw_tx = x'00'", "its raw bytes"),
    ];
    for (sql, told) in wrongs {
        tamper(sql);
        let found = l.room.audit(l.wallet).unwrap();
        assert!(found.iter().any(|line| line.contains(told)), "{sql}: {found:?}");
    }
}

#[test]
fn a_kept_sum_that_holds_less_than_the_coins_is_damage_and_no_balance() {
    let l = Ledger::sqlite();
    let pay = l.fund(1, 9_000);
    l.room.lease(l.wallet, &[out(&pay, 0)], l.terms(1), Micros(l.now.get())).unwrap();
    let schema = &unspent_wallet::schema::SCHEMA;
    let door = unspent_sql::Door::open(&l.url, schema, unspent_sql::Options::default()).unwrap();
    let tamper = "UPDATE wallets SET confirmed_amount = 17";
    door.write(move |tx| tx.execute(tamper, &[])).unwrap();
    let balance = l.room.balance(l.wallet, 1, Micros(l.now.get())).unwrap_err();
    let before = l.room.balance_as_of(l.wallet, 0).unwrap_err();
    for error in [balance, before] {
        assert_eq!(error.kind(), unspent_wallet::Kind::Corrupt, "{error}");
        assert!(error.to_string().contains("the stored sum of confirmed coins"), "{error}");
    }
}

#[test]
fn metrics_tell_rows_bytes_and_leases() {
    on_both(|l| {
        let pay = l.fund(1, 9_000);
        l.room.lease(l.wallet, &[out(&pay, 0)], l.terms(1), Micros(l.now.get())).unwrap();
        let found = l.room.metrics(Micros(l.now.get())).unwrap();
        let table = |name| found.tables.iter().find(|table| table.name == name).unwrap();
        assert_eq!((table("utxos").rows, table("transactions").rows), (1, 1));
        assert!(found.tables.iter().all(|table| table.rows == 0 || table.bytes > 0), "{found:?}");
        assert_eq!((found.active_leases, found.expired_leases, found.purge_latency), (1, 0, 0));
        let late = l.room.metrics(Micros(l.now.get() + 700 * SECOND)).unwrap();
        assert_eq!((late.expired_leases, late.purge_latency), (1, 100 * SECOND));
    });
}

#[test]
fn a_prune_keeps_net_and_fee_of_what_stays() {
    on_both(|l| {
        let parent = l.fund(1, 10_000);
        let spent_at = l.mine(&[&tx(&[foreign(2)], &[(&l.ours(2), 5)])]) + 1;
        let child = tx(&[out(&parent, 0)], &[(&theirs(1), 6_000), (&l.change(0), 3_500)]);
        l.mine(&[&child]);
        l.mine_empty(12);
        let told = |l: &Ledger| {
            let detail = l.room.tx(l.wallet, child.compute_txid()).unwrap();
            (detail.summary.net(), detail.summary.fee, detail.inputs[0].amount)
        };
        let before = told(&l);
        assert_eq!(before, (-6_500, Some(500), Some(10_000)));
        let at = |height| l.room.balance_as_of(l.wallet, height);
        assert_eq!((at(FIRST).unwrap().sats, at(spent_at).unwrap().sats), (10_000, 3_505));
        // The parent goes; its child stays, because it still holds money.
        let gone =
            l.room.prune(l.wallet, &PruneRequest::UpTo(l.height()), 10, Micros(l.tick())).unwrap();
        assert_eq!(gone, [parent.compute_txid()]);
        l.check();
        assert_eq!(told(&l), before);
        let refused = at(FIRST).unwrap_err().to_string();
        assert!(refused.contains(&spent_at.to_string()), "{refused}");
        assert_eq!(at(spent_at).unwrap().sats, 3_505);
        assert_eq!(l.room.wallet_info(l.wallet).unwrap().history_from, Some(spent_at));
    });
}
