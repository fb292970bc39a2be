//! What a wallet is asked: balances by class, account and height, lists of coins and transactions.

use std::sync::atomic::{AtomicUsize, Ordering};

use unspent_model::{Kind, Micros, wallet::CoinState};
use unspent_sql::{Door, Options, SqlError};
use unspent_wallet::{
    NewAccount, WalletError, WalletStore,
    balance::AccountBalance,
    coins::{CoinFilter, CoinInfo},
    history::TxListing,
    labels::Label,
    lease::LeaseTerms,
    prune::PruneRequest,
    schema::SCHEMA,
    statement::{StatementHeights, StatementPage},
};

use crate::ledger::*;

/// Changes the database behind the room's back.
fn run(l: &Ledger, sql: String) {
    let sql: &'static str = Box::leak(sql.into_boxed_str());
    let door = Door::open(&l.url, &SCHEMA, Options::default()).unwrap();
    door.write(move |tx| -> Result<_, SqlError> { tx.execute(sql, &[]) }).unwrap();
}

#[test]
fn a_payment_that_the_node_dropped_has_a_class_of_its_own() {
    on_both(|l| {
        let funding = l.fund(1, 9_000);
        let own = tx(&[out(&funding, 0)], &[(&l.change(0), 8_000)]);
        let incoming = tx(&[foreign(2)], &[(&l.ours(1), 700)]);
        l.mempool(&own);
        l.mempool(&incoming);
        for sent in [&own, &incoming] {
            l.room.mark_evicted(l.wallet, sent.compute_txid(), Micros(l.tick())).unwrap();
        }
        let balance = l.balance();
        assert_eq!((balance.dropped.sats, balance.dropped.coins), (8_700, 2));
        assert_eq!((balance.unconfirmed_own.sats, balance.unconfirmed_foreign.sats), (0, 0));
        assert_eq!((balance.total(), balance.leaving.sats), (8_700, 9_000));
        assert_eq!(l.coin(&own, 0), CoinState::Dropped);
        l.mempool(&own);
        assert_eq!(l.coin(&own, 0), CoinState::Unconfirmed, "the node has it again");
        l.mine(&[&own, &incoming]);
        assert_eq!(l.balance().confirmed.sats, 8_700);
    });
}

#[test]
fn the_balances_of_accounts_sum_up_to_the_wallets() {
    on_both(|l| {
        let second = NewAccount { name: "second".into(), receive: descriptor(5), change: None };
        l.room.add_account(l.wallet, &second).unwrap();
        let of = |name: &str| {
            let all = l.room.addresses(l.wallet, 0, 1_000).unwrap();
            all.into_iter().find(|address| address.account == name).unwrap().script
        };
        let (main, other) = (of("main"), of("second"));
        let both = tx(&[foreign(1)], &[(&main, 5_000), (&other, 7_000)]);
        l.mine(&[&both]);
        l.mempool(&tx(&[foreign(2)], &[(&other, 300)]));
        l.mempool(&tx(&[out(&both, 1)], &[(&theirs(1), 6_000), (&main, 900)]));
        l.room.lease(l.wallet, &[out(&both, 0)], l.terms(1), Micros(l.now.get())).unwrap();
        let found = l.room.balance_by_account(l.wallet, 1, Micros(l.now.get())).unwrap();
        let [AccountBalance { account, balance: first }, rest] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((account.as_str(), rest.account.as_str()), ("main", "second"));
        assert_eq!((first.leased.sats, first.unconfirmed_own.sats), (5_000, 900));
        assert_eq!(
            (rest.balance.unconfirmed_foreign.sats, rest.balance.leaving.sats),
            (300, 7_000)
        );
        let whole = l.balance();
        assert_eq!(first.total() + rest.balance.total(), whole.total());
        for (at, (name, sum)) in whole.classes().iter().enumerate() {
            let parts = first.classes()[at].1.sats + rest.balance.classes()[at].1.sats;
            assert_eq!(parts, sum.sats, "{name}");
        }
    });
}

static STATEMENTS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_balance_takes_two_statements_whatever_the_wallet_holds() {
    on_both(|l| {
        let funding = l.fund(1, 9_000);
        l.mempool(&tx(&[out(&funding, 0)], &[(&l.change(0), 8_000)]));
        let count = |_: &'static str, _: &str| {
            STATEMENTS.fetch_add(1, Ordering::Relaxed);
        };
        let options = Options { on_plan: Some(count), ..Options::default() };
        let room = WalletStore::open(&l.url, l.room.network(), options).unwrap();
        STATEMENTS.store(0, Ordering::Relaxed);
        room.balance(l.wallet, 1, Micros(l.now.get())).unwrap();
        assert_eq!(STATEMENTS.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn past_balances_are_refused_where_a_prune_took_what_it_takes_to_know() {
    on_both(|l| {
        let funding = l.fund(1, 9_000);
        let spend = tx(&[out(&funding, 0)], &[(&l.ours(1), 8_000), (&theirs(1), 900)]);
        let height = l.mine(&[&spend]);
        l.mine_empty(5);
        assert_eq!(l.room.balance_as_of(l.wallet, FIRST).unwrap().sats, 9_000);
        let (before, fee) = {
            let found = l.room.tx(l.wallet, spend.compute_txid()).unwrap().summary;
            (found.net(), found.fee)
        };
        let name = vec![funding.compute_txid()];
        l.room.prune(l.wallet, &PruneRequest::Exactly(name), 2, Micros(l.tick())).unwrap();
        run(&l, format!("UPDATE wallets SET history_from = {height}"));
        run(&l, "UPDATE tx_inputs SET pruned_amount = 9000".into());
        let after = l.room.tx(l.wallet, spend.compute_txid()).unwrap();
        assert_eq!((after.summary.net(), after.summary.fee), (before, fee));
        assert_eq!(after.inputs[0].amount, Some(9_000));
        l.check();
        let refused = l.room.balance_as_of(l.wallet, FIRST).unwrap_err();
        let told = WalletError::HistoryPruned { height: FIRST, known_from: height };
        assert_eq!((refused.to_string(), refused.kind()), (told.to_string(), Kind::Refused));
        assert_eq!(l.room.balance_as_of(l.wallet, height).unwrap().sats, 8_000);
        run(&l, format!("UPDATE wallets SET history_from = {FIRST}"));
        assert_eq!(l.room.balance_as_of(l.wallet, FIRST).unwrap().sats, 9_000, "by its spender");
        run(&l, "UPDATE tx_inputs SET pruned_amount = 9001".into());
        let found = l.room.audit(l.wallet).unwrap();
        assert!(found.iter().any(|line| line.contains("its fee")), "{found:?}");
        run(&l, "UPDATE utxos SET amount = amount - 1".into());
        let found = l.room.audit(l.wallet).unwrap();
        assert!(found.iter().any(|line| line.contains("its history adds up to")), "{found:?}");
    });
}

#[test]
fn transactions_of_blocks_come_in_pages_with_their_times() {
    on_both(|l| {
        for block in 0..3 {
            let paid: Vec<_> =
                (0..4).map(|n| tx(&[foreign(10 * block + n)], &[(&l.ours(n), 1_000)])).collect();
            l.mine(&paid.iter().collect::<Vec<_>>());
        }
        let top = l.height();
        let whole = l.room.txs(l.wallet, TxListing::Blocks(FIRST, top), 100).unwrap();
        assert_eq!(whole.len(), 12);
        let (mut pages, mut listing) = (Vec::new(), TxListing::Blocks(FIRST, top));
        loop {
            let page = l.room.txs(l.wallet, listing, 5).unwrap();
            let Some(last) = page.last() else { break };
            listing = TxListing::BlocksAfter(last.cursor().unwrap(), top);
            pages.extend(page);
        }
        assert_eq!(pages, whole);
        let told = (whole[0].block_time, whole[0].confirmations, whole[11].confirmations);
        assert_eq!(told, (Some(1_600_000_000), 3, 1));
        let open = tx(&[foreign(99)], &[(&l.ours(0), 5)]);
        l.mempool(&open);
        let found = l.room.tx(l.wallet, open.compute_txid()).unwrap().summary;
        assert_eq!((found.block_time, found.confirmations), (None, 0));
    });
}

#[test]
fn frozen_coins_stay_frozen_until_they_are_unfrozen() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 5_000), (&l.ours(1), 6_000)]);
        l.mempool(&pay);
        let coin = out(&pay, 0);
        assert_eq!(l.room.freeze(l.wallet, &[coin], Micros(l.tick())).unwrap(), 1);
        assert_eq!(
            l.room.freeze(l.wallet, &[coin], Micros(l.tick())).unwrap(),
            0,
            "frozen already"
        );
        let stranger = l.room.freeze(l.wallet, &[out(&pay, 1), foreign(5)], Micros(l.tick()));
        assert!(matches!(stranger, Err(WalletError::CoinNotFound(name)) if name == foreign(5)));
        l.mine(&[&pay]);
        assert_eq!((l.coin(&pay, 0), l.coin(&pay, 1)), (CoinState::Frozen, CoinState::Confirmed));
        let balance = l.balance();
        assert_eq!((balance.frozen.sats, balance.confirmed.sats), (5_000, 6_000));
        l.undo(1);
        assert_eq!(l.coin(&pay, 0), CoinState::Frozen, "a reorganisation changes nothing");
        assert_eq!(l.room.thaw(l.wallet, &[coin]).unwrap(), 1);
        assert_eq!(l.room.thaw(l.wallet, &[coin]).unwrap(), 0);
        assert_eq!((l.coin(&pay, 0), l.balance().frozen.coins), (CoinState::Unconfirmed, 0));
    });
}

#[test]
fn coins_are_listed_by_address_account_amount_label_and_state() {
    on_both(|l| {
        for n in 0..10_u32 {
            let amount = 1_000 + u64::from(n);
            l.mine(&[&tx(&[foreign(n)], &[(&l.ours(n % 3), amount)])]);
        }
        let open = tx(&[foreign(50)], &[(&l.ours(0), 500)]);
        l.mempool(&open);
        let reference = out(&open, 0).to_string();
        let label = Label { kind: "output".into(), reference, label: "Rent of May".into() };
        l.room.set_label(l.wallet, &label).unwrap();
        let listed = |filter: CoinFilter| -> Vec<u64> {
            let page =
                l.room.coins_where(l.wallet, &filter, None, 100, Micros(l.now.get())).unwrap();
            assert_eq!(page.next, None);
            page.coins.iter().map(|coin| coin.amount).collect()
        };
        let all = CoinFilter::default;
        let of_address = CoinFilter { script: Some(l.ours(1)), ..all() };
        assert_eq!(listed(of_address.clone()), [1_001, 1_004, 1_007]);
        assert_eq!(listed(CoinFilter { min: Some(1_002), ..of_address }), [1_004, 1_007]);
        assert_eq!(
            listed(CoinFilter { min: Some(1_003), max: Some(1_004), ..all() }),
            [1_003, 1_004]
        );
        assert_eq!(listed(CoinFilter { label: Some("rent".into()), ..all() }), [500]);
        assert_eq!(listed(CoinFilter { state: Some(CoinState::Unconfirmed), ..all() }), [500]);
        assert_eq!(listed(CoinFilter { account: Some("main".into()), ..all() }).len(), 11);
        assert!(listed(CoinFilter { account: Some("other".into()), ..all() }).is_empty());
        let (mut seen, mut after) = (Vec::new(), None);
        let confirmed = CoinFilter { state: Some(CoinState::Confirmed), ..all() };
        loop {
            let page =
                l.room.coins_where(l.wallet, &confirmed, after, 3, Micros(l.now.get())).unwrap();
            seen.extend(page.coins.iter().map(|coin: &CoinInfo| coin.amount));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, (1_000..1_010).collect::<Vec<_>>());
        // A page of none has none, and is there at once.
        for filter in [all(), confirmed] {
            let now = Micros(l.now.get());
            let unspent = l.room.coins_where(l.wallet, &filter, None, 0, now).unwrap();
            let ever = l.room.all_coins_where(l.wallet, &filter, 0, 0, now).unwrap();
            assert_eq!((unspent.coins.len(), unspent.next), (0, None));
            assert_eq!((ever.coins.len(), ever.next), (0, None));
        }
    });
}

#[test]
fn a_statement_tells_what_was_held_after_each_transaction() {
    on_both(|l| {
        let first = l.fund(1, 5_000);
        let second = l.fund(2, 7_000);
        let spend = tx(&[out(&first, 0)], &[(&theirs(1), 3_000), (&l.change(0), 1_500)]);
        l.mine(&[&spend]);
        l.mempool(&tx(&[out(&second, 0)], &[(&theirs(2), 6_000)]));
        let page = |from, after, limit| {
            let heights = StatementHeights { from, to: None };
            l.room.statement(l.wallet, heights, after, limit).unwrap()
        };
        let told = |page: &StatementPage| -> Vec<(i128, i128)> {
            page.lines.iter().map(|line| (line.tx.net(), line.balance)).collect()
        };
        let whole = page(None, None, 100);
        assert_eq!(told(&whole), [(5_000, 5_000), (7_000, 12_000), (-3_500, 8_500)]);
        assert_eq!(whole.next, None);
        let start = page(None, None, 2);
        let rest = page(None, start.next, 2);
        assert_eq!((told(&rest), rest.next), (vec![(-3_500, 8_500)], None));
        assert_eq!(told(&page(Some(FIRST + 2), None, 9)), [(-3_500, 8_500)]);
        let end = l.room.balance_as_of(l.wallet, l.height()).unwrap();
        assert_eq!(end.sats, 8_500, "the last line is the balance as of the tip");
    });
}

#[test]
fn an_address_is_found_with_its_keys_or_is_somebody_elses() {
    on_both(|l| {
        let pay = l.fund(1, 5_000);
        let script = &pay.output[0].script_pubkey;
        let found = l.room.own_address(l.wallet, script).unwrap().unwrap();
        assert_eq!((found.info.account.as_str(), found.info.index), ("main", 0));
        assert!(found.info.is_used);
        assert!(found.keys[0].ends_with("/84'/1'/0'/0/0]"), "{:?}", found.keys);
        let later = l.room.own_address(l.wallet, &l.change(7)).unwrap().unwrap();
        assert_eq!((later.info.index, later.info.is_used), (7, false));
        assert!(later.keys[0].ends_with("/84'/1'/0'/1/7]"), "{:?}", later.keys);
        assert_eq!(l.room.own_address(l.wallet, &theirs(1)).unwrap(), None);
        l.room.import_script(l.wallet, &theirs(1)).unwrap();
        let imported = l.room.own_address(l.wallet, &theirs(1)).unwrap().unwrap();
        assert!(imported.keys.is_empty());
    });
}

/// A lease that is held until its spend is deep waits for blocks, not for the purge.
#[test]
fn leases_that_are_held_by_confirmations_are_not_expired() {
    on_both(|l| {
        let pay = l.fund(1, 9_000);
        let terms = LeaseTerms { hold_confirmations: Some(3), ..l.terms(1) };
        l.room.lease(l.wallet, &[out(&pay, 0)], terms, Micros(l.now.get())).unwrap();
        let late = l.now.get() + 700 * SECOND;
        let spend = tx(&[out(&pay, 0)], &[(&theirs(1), 8_000)]);
        l.mempool(&spend);
        let held = l.room.metrics(Micros(late)).unwrap();
        assert_eq!((held.expired_leases, held.purge_latency), (0, 0));
        l.mine(&[&spend]);
        assert_eq!(l.room.metrics(Micros(late)).unwrap().expired_leases, 0, "one confirmation");
    });
}
