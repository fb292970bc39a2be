//! The databases use the indexes: of all statements that the room runs, none walks a history.
//!
//! Every plan is the one of the statement that runs, told by the door at the moment it runs. What
//! grows with a wallet's age must be found by more than the wallet: an index that is searched by
//! `wallet_id` alone is a walk through all that the wallet ever did.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use unspent_model::Micros;
use unspent_sql::{Backend, Options};
use unspent_wallet::{
    NewAccount, TxSource, WalletId, WalletStore,
    additions::WatchAdditions,
    choose::CoinPolicy,
    coins::CoinFilter,
    history::{ChainCursor, TxListing},
    import::{AccountImport, CoinClaim, LeaseImport, TxImport, WalletImport},
    labels::Label,
    pay::{CpfpRequest, FeeBump},
    prune::PruneRequest,
    statement::StatementHeights,
    wallet_info::KeychainPurpose,
};

use crate::{
    big_wallet::{analyze, fill},
    ledger::*,
    paying::{payment, wanted},
};

/// Tables that grow with the age of a wallet.
const HISTORY: [&str; 10] = [
    "wallets",
    "transactions",
    "tx_inputs",
    "utxos",
    "journal",
    "blocks",
    "labels",
    "addresses",
    "tx_replacements",
    "pruned_txs",
];

/// Those of them that are long in a big wallet's fill.
const LONG: [&str; 5] = ["transactions", "tx_inputs", "utxos", "journal", "labels"];

/// Indexes that hold few rows of a wallet, however old it is.
const SHORT_INDEXES: [&str; 1] = ["idx_transactions_unconfirmed"];

/// Statements that are meant to see everything (the audit, the figures, the sums of accounts, and
/// the slow sum that benchmarks compare with), or take no more than a row.
const MEANT_TO_WALK: [&str; 9] = [
    // An import compares every coin with what the other program says.
    "SELECT u.id, t.tx_hash, u.output_index, u.amount, u.spent_by_tx_id, t.status,",
    // Both sides of an edge: there are few edges.
    "(r.replaced_tx_id = k.id OR r.replacement_tx_id = k.id)",
    // The first rows of an index.
    "WHERE follows_tip ORDER BY id LIMIT $1",
    "SELECT block_height, header_hash FROM blocks ORDER BY block_height DESC LIMIT 1",
    "SELECT 1 FROM labels WHERE wallet_id = $1 LIMIT 1",
    "GROUP BY k.account_id",
    "SELECT COUNT(*) AS rows FROM",
    "FROM spendable_utxos WHERE wallet_id = $1 AND block_height IS NOT NULL",
    "AND NOT EXISTS (SELECT 1 FROM blocks b",
];

static SEEN: Mutex<BTreeMap<&'static str, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

fn keep(sql: &'static str, plan: &str) {
    SEEN.lock().unwrap().entry(sql).or_default().insert(plan.to_owned());
}

fn explained(mut l: Ledger) -> Ledger {
    let options = Options { on_plan: Some(keep), ..Options::default() };
    l.room = WalletStore::open(&l.url, l.room.network(), options).unwrap();
    l
}

/// Everything that a room can be asked for, once.
fn everything(l: &Ledger) {
    make_history(l);
    pay_and_lease(l);
    ask(l);
    label(l);
    manage(l);
    take_in(l);
    take_back(l);
}

fn see(l: &Ledger, tx: &bitcoin::Transaction, how: TxSource) {
    l.see(tx, how).unwrap();
}

/// Pays somebody from the coin that `foreign(10)` funds.
fn own_payment(l: &Ledger) -> bitcoin::Transaction {
    let funding = tx(&[foreign(10)], &[(&l.ours(10), 100_000)]);
    tx(&[out(&funding, 0)], &[(&theirs(4), 50_000), (&l.change(2), 40_000)])
}

fn make_history(l: &Ledger) {
    let funding: Vec<_> =
        (0..30).map(|n| tx(&[foreign(n)], &[(&l.ours(n % 20), 100_000)])).collect();
    l.try_apply(l.block(&funding.iter().collect::<Vec<_>>())).unwrap();
    for funded in &funding[..10] {
        let spend = tx(&[out(funded, 0)], &[(&l.change(0), 50_000), (&theirs(1), 40_000)]);
        let rival = tx(&[out(funded, 0)], &[(&l.change(1), 60_000), (&theirs(1), 20_000)]);
        let child = tx(&[out(&spend, 0)], &[(&l.ours(3), 40_000)]);
        see(l, &spend, TxSource::Mempool);
        see(l, &child, TxSource::Relayed);
        see(l, &rival, TxSource::Mempool);
        l.room.mark_evicted(l.wallet, rival.compute_txid(), Micros(l.tick())).unwrap();
    }
    let pending = own_payment(l);
    see(l, &pending, TxSource::Created { lock: None, force: false });
    l.room.mark_broadcast(l.wallet, pending.compute_txid(), Micros(l.tick())).unwrap();
    let unsent = tx(&[out(&funding[11], 0)], &[(&l.change(3), 90_000)]);
    see(l, &unsent, TxSource::Created { lock: None, force: false });
    l.room.invalidate(l.wallet, unsent.compute_txid(), Micros(l.tick())).unwrap();
    let spend = tx(&[out(&funding[12], 0)], &[(&theirs(1), 90_000)]);
    l.try_apply(l.block(&[&spend])).unwrap();
    let made = coinbase(&l.ours(4), 5_000, l.new_salt());
    l.try_apply(l.block_of(vec![made])).unwrap();
}

fn pay_and_lease(l: &Ledger) {
    let coin = out(&tx(&[foreign(20)], &[(&l.ours(0), 100_000)]), 0);
    let (terms, policy) = (l.terms(9), CoinPolicy::default());
    l.room.lease(l.wallet, &[coin], terms, Micros(l.tick())).unwrap();
    l.room.leases(l.wallet, Micros(l.now.get())).unwrap();
    l.room.release(l.wallet, &[coin], lock(9), Micros(l.tick())).unwrap();
    l.room.preview_selection(l.wallet, wanted(70_000), &policy, Micros(l.now.get())).unwrap();
    let by_address = CoinPolicy { by_address: true, ..CoinPolicy::default() };
    l.room.preview_selection(l.wallet, wanted(70_000), &by_address, Micros(l.now.get())).unwrap();
    let named = CoinPolicy { require: vec![coin], ..CoinPolicy::default() };
    l.room
        .select_and_lease(l.wallet, wanted(70_000), &named, l.terms(8), Micros(l.tick()))
        .unwrap();
    l.room.build_payment(l.wallet, &payment(l, &[(theirs(3), 30_000)]), Micros(l.tick())).unwrap();
    let bump = FeeBump {
        tx: own_payment(l).compute_txid(),
        rate: unspent_model::wallet::select::FeePerWeight { sat_per_kwu: 25_000 },
        subtract_fee: false,
        allow_high_fee: true,
        policy,
        terms: l.terms(7),
    };
    l.room.build_payment(l.wallet, &bump, Micros(l.tick())).unwrap();
    l.room.purge_leases(Some(l.wallet), Micros(l.now.get() + 9_000 * SECOND)).unwrap();
    l.room.purge_leases(None, Micros(l.now.get() + 9_000 * SECOND)).unwrap();
}

fn ask(l: &Ledger) {
    let (room, wallet, now) = (&l.room, l.wallet, l.now.get());
    let funding = tx(&[foreign(1)], &[(&l.ours(1), 100_000)]);
    for minconf in [1, 3] {
        room.balance(wallet, minconf, Micros(now)).unwrap();
    }
    room.balance_by_account(wallet, 1, Micros(now)).unwrap();
    let heights = StatementHeights { from: Some(FIRST), to: None };
    room.statement(wallet, heights, None, 100).unwrap();
    room.own_address(wallet, &l.ours(1)).unwrap();
    let filter = CoinFilter { script: Some(l.ours(1)), min: Some(5), ..CoinFilter::default() };
    room.coins_where(wallet, &filter, None, 100, Micros(now)).unwrap();
    room.freeze(wallet, &[out(&funding, 0)], Micros(now)).unwrap();
    room.balance(wallet, 1, Micros(now)).unwrap();
    room.export_labels(wallet).unwrap();
    room.thaw(wallet, &[out(&funding, 0)]).unwrap();
    room.balance_as_of(wallet, FIRST).unwrap();
    room.plain_sum(wallet).unwrap();
    room.coins(wallet, None, 100, Micros(now)).unwrap();
    room.all_coins(wallet, 0, 100, Micros(now)).unwrap();
    room.coin(wallet, out(&funding, 0), Micros(now)).unwrap();
    room.coins_at(out(&funding, 0), Micros(now)).unwrap();
    let place = ChainCursor { height: FIRST, position: 1, id: 1 };
    let listings = [
        TxListing::Latest(None),
        TxListing::Blocks(0, FIRST),
        TxListing::BlocksAfter(place, FIRST),
        TxListing::Unconfirmed(0),
    ];
    for listing in listings {
        room.txs(wallet, listing, 100).unwrap();
    }
    room.tx(wallet, funding.compute_txid()).unwrap();
    room.wallets_of_tx(funding.compute_txid()).unwrap();
    room.journal(wallet, None, 0, 100).unwrap();
    room.newest_journal(wallet, None, i64::MAX, 100).unwrap();
    room.newest_journal(wallet, Some(funding.compute_txid()), i64::MAX, 100).unwrap();
    room.journal(wallet, Some(funding.compute_txid()), 0, 100).unwrap();
    room.metrics(Micros(now)).unwrap();
    room.tip().unwrap();
    room.blocks_below(FIRST + 2, 10).unwrap();
    room.compare(|_| Ok(None)).unwrap();
}

fn label(l: &Ledger) {
    let txid = tx(&[foreign(1)], &[(&l.ours(1), 100_000)]).compute_txid();
    let label = Label { kind: "tx".into(), reference: txid.to_string(), label: "rent".into() };
    l.room.set_label(l.wallet, &label).unwrap();
    l.room.labels(l.wallet, Some(&label)).unwrap();
    let lines = l.room.export_labels(l.wallet).unwrap();
    l.room.import_labels(l.wallet, &lines, Micros(l.tick())).unwrap();
    l.room.set_label(l.wallet, &Label { label: String::new(), ..label }).unwrap();
}

fn manage(l: &Ledger) {
    let (room, wallet) = (&l.room, l.wallet);
    let other: WalletId = l.other_wallet("other", 2);
    let account = NewAccount { name: "second".into(), receive: descriptor(3), change: None };
    room.add_account(other, &account).unwrap();
    room.import_script(other, &theirs(9)).unwrap();
    room.all_wallets().unwrap();
    room.wallet("other").unwrap();
    room.wallet_info(wallet).unwrap();
    room.keychains(wallet).unwrap();
    room.next_address(wallet, None, KeychainPurpose::Receive).unwrap();
    room.addresses(wallet, 0, 100).unwrap();
    room.start_unscanned_at(1_000_001).unwrap();
}

/// What comes from other programs, from late scripts, and from dates.
fn take_in(l: &Ledger) {
    // Into the wallet whose history is long, as a later copy of another program's file.
    let paid = tx(&[foreign(500)], &[(&l.ours(2), 70_000)]);
    let waiting = tx(&[out(&paid, 0)], &[(&theirs(6), 60_000)]);
    let block = l.chain.borrow()[0].reference();
    let taken =
        |tx: &bitcoin::Transaction, block| TxImport { tx: tx.clone(), received: Micros(5), block };
    let import = || WalletImport {
        name: "ours".into(),
        birthday: FIRST,
        gap_limit: 20,
        accounts: vec![AccountImport {
            account: NewAccount { name: "main".into(), receive: descriptor(1), change: None },
            next: [2, 0],
            used: vec![(KeychainPurpose::Receive, 1)],
        }],
        scripts: vec![theirs(8)],
        txs: vec![taken(&paid, Some((block, 1))), taken(&waiting, None)],
        tip: Some(block),
        labels: vec![(paid.compute_txid(), "rent".into())],
        leases: vec![LeaseImport {
            coin: out(&paid, 0),
            lock: lock(3),
            expires_at: Micros(l.now.get() + 9_000 * SECOND),
        }],
        coins: vec![CoinClaim { coin: out(&paid, 0), amount: 70_000, is_spent: true }],
        ..WalletImport::default()
    };
    for dry_run in [true, false, false] {
        l.room.import(import(), dry_run, Micros(l.tick())).unwrap();
    }
    l.room.height_before(1_600_007_205).unwrap();
    let parent = own_payment(l).compute_txid();
    let lift = CpfpRequest {
        tx: parent,
        parent_fee: None,
        pool: Vec::new(),
        rate: unspent_model::wallet::select::FeePerWeight { sat_per_kwu: 500 },
        allow_high_fee: false,
        policy: CoinPolicy::default(),
        terms: l.terms(6),
    };
    l.room.build_payment(l.wallet, &lift, Micros(l.tick())).unwrap();
    let new = new_wallet("dated", 6);
    let dated =
        l.room.create_wallet_born(&new, &[], Some(1_600_000_000), Micros(l.tick())).unwrap();
    l.room.open_birthdays().unwrap();
    l.room.settle_birthday(dated, FIRST).unwrap();
    let additions = WatchAdditions { scripts: vec![theirs(12)], ..WatchAdditions::default() };
    l.room.extend_wallet(l.wallet, &additions, Some(FIRST)).unwrap();
    let first = l.chain.borrow()[0].clone();
    l.room.backfill(l.wallet, vec![first], Micros(l.tick())).unwrap();
    l.room.backfilling().unwrap();
    l.room.behind(FIRST + 9, 10).unwrap();
}

fn take_back(l: &Ledger) {
    for _ in 0..3 {
        l.try_apply(l.block(&[])).unwrap();
    }
    let spend =
        tx(&[out(&tx(&[foreign(12)], &[(&l.ours(12), 100_000)]), 0)], &[(&theirs(1), 90_000)]);
    let funding = tx(&[foreign(12)], &[(&l.ours(12), 100_000)]);
    let names = vec![funding.compute_txid(), spend.compute_txid()];
    l.room.prune(l.wallet, &PruneRequest::Exactly(names), 2, Micros(l.tick())).unwrap();
    l.room.prune(l.wallet, &PruneRequest::UpTo(0), 2, Micros(l.tick())).unwrap();
    l.room.rewind(l.wallet, Some(FIRST + 3), Micros(l.tick())).unwrap();
    l.room.disconnect_above(Some(FIRST + 2), Micros(l.tick())).unwrap();
}

/// The table behind a name in a plan.
fn table_of<'a>(sql: &'a str, shown: &'a str) -> &'a str {
    let words: Vec<&str> =
        sql.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
    let alias = words.windows(2).find(|pair| pair[1] == shown && HISTORY.contains(&pair[0]));
    alias.map_or(shown, |pair| pair[0])
}

/// Whether conditions of an index name more than the wallet.
fn narrows(conditions: &str, index: &str) -> bool {
    SHORT_INDEXES.contains(&index)
        || conditions
            .split(" AND ")
            .any(|part| !part.trim_matches(['(', ')']).starts_with("wallet_id"))
}

/// The steps of a plan that walk through a history.
fn walks_on_sqlite(sql: &str, plan: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in plan.lines() {
        let mut words = line.split_whitespace();
        let (step, shown) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        if !["SCAN", "SEARCH"].contains(&step) || !HISTORY.contains(&table_of(sql, shown)) {
            continue;
        }
        let index = line.split("INDEX ").nth(1).and_then(|rest| rest.split(' ').next());
        let conditions = line.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
        if step == "SCAN" || !narrows(conditions, index.unwrap_or("")) {
            found.push(line.to_owned());
        }
    }
    found
}

/// The table of a step of a PostgreSQL plan, and the index that leads to it.
fn step(line: &str) -> Option<(&str, &str)> {
    let after = |word: &str| line.split_once(word)?.1.split_whitespace().next();
    if line.contains("Bitmap Heap Scan on ") || line.contains("Seq Scan on ") {
        return Some((after(" Scan on ")?, ""));
    }
    Some((after(" on ")?, after(" using ")?))
}

fn walks_on_postgres(plan: &str) -> Vec<String> {
    let lines: Vec<&str> = plan.lines().collect();
    let (mut found, mut heap) = (Vec::new(), "");
    for (at, line) in lines.iter().enumerate() {
        let next = lines.get(at + 1).map_or("", |next| next.trim());
        let (table, index) = match (step(line), line.split_once("Bitmap Index Scan on ")) {
            (_, Some((_, index))) => (heap, index),
            (Some(step), None) => step,
            (None, None) => continue,
        };
        heap = table;
        // Without a condition an index is read in its order, up to a limit.
        let conditions = next.strip_prefix("Index Cond: ");
        let is_walk = line.contains("Seq Scan")
            || conditions.is_some_and(|conditions| !narrows(conditions, index));
        if LONG.contains(&table) && is_walk {
            found.push(format!("{line} {next}"));
        }
    }
    found
}

/// Runs everything and names each statement that walks.
fn check_all(l: Ledger, what: &str) {
    let backend = l.url.backend();
    let l = explained(l);
    SEEN.lock().unwrap().clear();
    everything(&l);
    let seen = SEEN.lock().unwrap().clone();
    assert!(seen.len() > 100, "only {} statements passed", seen.len());
    let mut walks = String::new();
    for (sql, plans) in seen {
        if MEANT_TO_WALK.iter().any(|text| sql.contains(text)) {
            continue;
        }
        for plan in plans {
            let found = match backend {
                Backend::Sqlite => walks_on_sqlite(sql, &plan),
                Backend::Postgres => walks_on_postgres(&plan),
            };
            if !found.is_empty() {
                walks += &format!("\n---- {sql}\n{}\n  in\n{plan}\n", found.join("\n"));
            }
        }
    }
    assert!(walks.is_empty(), "{what}: {walks}");
}

#[test]
fn no_statement_walks_a_history_on_sqlite_without_statistics() {
    check_all(Ledger::sqlite(), "a new wallet");
    let l = Ledger::sqlite();
    fill(&l);
    check_all(l, "a big wallet");
}

#[test]
fn no_statement_walks_a_history_on_sqlite_with_statistics() {
    let l = Ledger::sqlite();
    l.fund(1_000, 5_000);
    analyze(&l);
    check_all(l, "a small wallet, analysed");
    let l = Ledger::sqlite();
    fill(&l);
    analyze(&l);
    check_all(l, "a big wallet, analysed");
}

/// Short tables are read whole there, and rightly: what is planned counts once they are long. Until
/// then plans are thrown away and made anew as a connection's work doubles.
#[test]
fn no_statement_walks_a_history_on_postgresql_without_statistics() {
    let Some(l) = Ledger::postgres() else { return };
    fill(&l);
    check_all(l, "a big wallet");
}

#[test]
fn no_statement_walks_a_history_on_postgresql_with_statistics() {
    let Some(l) = Ledger::postgres() else { return };
    fill(&l);
    analyze(&l);
    check_all(l, "a big wallet, analysed");
}
