//! The databases use the indexes, and a step takes a known number of statements.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use unspent_ecash::{InputChoice, NewEntity, PageRequest, PaymentEvent, TimePlace};
use unspent_model::{
    Micros,
    ecash::{EntityEvent, EntityKind, ProofState},
};
use unspent_sql::{Backend, Options, SqlError};

use crate::{fixture::*, mint::Payment};

/// Tables that grow, by their names and by what statements call them.
const LONG: [&str; 7] = ["proofs", "entities", "transactions", "journal", "p", "e", "t"];

static SEEN: Mutex<BTreeMap<&'static str, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

fn keep(sql: &'static str, plan: &str) {
    SEEN.lock().unwrap().entry(sql).or_default().insert(plan.to_owned());
}

fn after<P>(place: P) -> PageRequest<P> {
    PageRequest { after: Some(place), limit: 10 }
}

fn place(id: &str) -> TimePlace {
    TimePlace { at: Micros(5), id: id.into() }
}

/// Everything that a store can be asked for.
fn everything(d: &StoreFixture) {
    d.fund(3_000);
    let quote = d.melt(100, None);
    d.run(&quote.id);
    d.mint.borrow_mut().payment = Payment::Fails;
    let quote = d.melt(100, None);
    d.run(&quote.id);
    d.mint.borrow_mut().payment = Payment::Succeeds;
    let swap = d.token(50);
    d.run(&swap.id);
    let keyset = d.mint.borrow().output_keyset();
    let back = d.create(NewEntity::Reversal { send_swap: swap.id.clone(), keyset });
    d.run(&back.id);
    d.run(&swap.id);
    let free = d.store.proofs("home", ProofState::Unspent, PageRequest::first(10)).unwrap();
    d.store.proofs("home", ProofState::Unspent, after(free[0].y.as_str())).unwrap();
    let names = vec![hex::decode(&free[0].y).unwrap().try_into().unwrap()];
    d.try_melt(u64::MAX / 4, None, InputChoice::These(names)).unwrap_err();
    d.try_melt(u64::MAX / 4, None, InputChoice::Select).unwrap_err();
    d.store.open_entities(PageRequest::first(10)).unwrap();
    d.store.entities(EntityKind::CashuSendQuote, after(place("e"))).unwrap();
    d.store.transactions(after(place("t"))).unwrap();
    let own = EntityKind::CashuSendQuote;
    d.store.entities_of("home", own, after(place("e"))).unwrap();
    d.store.transactions_of("home", own, after(place("t"))).unwrap();
    d.store.journal(after(3)).unwrap();
    d.store.journal_of(&swap.id).unwrap();
    d.store.balance("home").unwrap();
}

fn walks(backend: Backend, plan: &str) -> Vec<String> {
    let walk = |line: &&str| match backend {
        Backend::Sqlite => {
            let mut words = line.split_whitespace();
            let is_scan = words.next() == Some("SCAN");
            let table = words.next().unwrap_or_default();
            // By an index it is a walk too, unless something bounds it: then it says SEARCH.
            is_scan && LONG.contains(&table)
        }
        Backend::Postgres => ["proofs", "entities", "transactions", "journal"]
            .iter()
            .any(|table| line.contains(&format!("Seq Scan on {table}"))),
    };
    plan.lines().filter(walk).map(str::to_owned).collect()
}

fn check_all(mut d: StoreFixture, what: &str) {
    d.store = open(&d.url, Options { on_plan: Some(keep), ..Options::default() });
    SEEN.lock().unwrap().clear();
    everything(&d);
    let seen = SEEN.lock().unwrap().clone();
    assert!(seen.len() > 25, "only {} statements passed", seen.len());
    let mut found = String::new();
    for (sql, plans) in seen {
        for plan in plans {
            let walks = walks(d.url.backend(), &plan);
            if !walks.is_empty() {
                found += &format!("\n---- {sql}\n{}\n  in\n{plan}\n", walks.join("\n"));
            }
        }
    }
    assert!(found.is_empty(), "{what}: {found}");
}

/// Rows that only make tables long.
fn fill(d: &StoreFixture) {
    const SQLITE: [&str; 4] = [
        "INSERT INTO proofs (account_id, y, keyset_id, amount, state, version, sealed, added_by,
            held_by, added_at)
        SELECT 'full', CAST(printf('%033d', value) AS BLOB), 'k', 1, 'UNSPENT', 0, x'00', 'x' ||
            value, 'x' || value, 1
        FROM (WITH RECURSIVE s (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM s
            WHERE value < 20000) SELECT value FROM s)",
        "INSERT INTO entities (id, kind, variant, state, version, account_id, transaction_id,
            claim, is_open, melt_initiated, alarm, created_at, updated_at, outputs,
            sealed_details)
        SELECT 'x' || added_by, 'X', 'X', 'PAID', 0, 'full', 'x' || added_by, added_by, 0, 0, 0,
            1, 1, '[]', x'00' FROM proofs WHERE account_id = 'full'",
        "INSERT INTO transactions (id, entity_id, account_id, kind, direction, state, version,
            amount, created_at)
        SELECT 'x' || added_by, 'x' || added_by, 'full', 'CASHU_TOKEN', 'SEND', 'COMPLETED', 0,
            1, 1
        FROM proofs WHERE account_id = 'full'",
        "INSERT INTO journal (number, entity_id, kind, event, to_state, version, account_id,
            transaction_state, at)
        SELECT 1000000 + amount + row_number() OVER (), 'x', 'CASHU_SEND_SWAP', 'x', 'X', 0,
            'full', 'COMPLETED', 1
        FROM proofs WHERE account_id = 'full'",
    ];
    const POSTGRES: [&str; 4] = [
        "INSERT INTO proofs (account_id, y, keyset_id, amount, state, version, sealed, added_by,
            held_by, added_at)
        SELECT 'full', convert_to(lpad(value::text, 33, '0'), 'UTF8'), 'k', 1, 'UNSPENT', 0,
            '\\x00', 'x' || value, 'x' || value, 1 FROM generate_series(1, 20000) s (value)",
        "INSERT INTO entities (id, kind, variant, state, version, account_id, transaction_id,
            claim, is_open, melt_initiated, alarm, created_at, updated_at, outputs,
            sealed_details)
        SELECT 'x' || added_by, 'X', 'X', 'PAID', 0, 'full', 'x' || added_by, added_by, false,
            false, false, 1, 1, '[]', '\\x00' FROM proofs WHERE account_id = 'full'",
        SQLITE[2],
        SQLITE[3],
    ];
    let backend = d.url.backend();
    d.own_door()
        .write(move |tx| -> Result<(), SqlError> {
            let texts = if backend == Backend::Sqlite { SQLITE } else { POSTGRES };
            texts.into_iter().try_for_each(|text| tx.execute(text, &[]).map(|_| ()))
        })
        .unwrap();
}

fn analyze(d: &StoreFixture) {
    d.own_door().write(|tx| -> Result<(), SqlError> { tx.script("ANALYZE") }).unwrap();
}

#[test]
fn no_statement_walks_a_table_on_sqlite() {
    check_all(StoreFixture::sqlite(), "empty");
    let d = StoreFixture::sqlite();
    fill(&d);
    check_all(d, "long");
    let d = StoreFixture::sqlite();
    fill(&d);
    analyze(&d);
    check_all(d, "long, analysed");
}

#[test]
fn no_statement_walks_a_table_on_postgresql() {
    let Some(d) = StoreFixture::postgres() else { return };
    fill(&d);
    check_all(d, "long, without statistics");
    let Some(d) = StoreFixture::postgres() else { return };
    fill(&d);
    analyze(&d);
    check_all(d, "long, analysed");
}

/// A statement is a round trip on a server.
#[test]
fn a_step_takes_a_handful_of_statements() {
    on_both(|d| {
        d.fund(1_000);
        let sent = |work: &dyn Fn()| {
            let before = d.store.statements();
            work();
            d.store.statements() - before
        };
        let at_most = |what: &str, found: u64, most: u64| {
            assert!(found <= most, "{what} takes {found} statements, at most {most} are allowed");
        };
        let quote = std::cell::RefCell::new(None);
        let begin = sent(&|| *quote.borrow_mut() = Some(d.melt(100, None)));
        at_most("beginning a payment", begin, 11);
        let id = quote.borrow().as_ref().unwrap().id.clone();
        let mark = sent(&|| drop(d.apply(&id, PaymentEvent::new(EntityEvent::MarkPending))));
        at_most("marking", mark, 4);
        let repeat = sent(&|| drop(d.apply(&id, PaymentEvent::new(EntityEvent::MarkPending))));
        at_most("a repetition", repeat, 1);
        let complete = sent(&|| drop(d.apply(&id, PaymentEvent::new(EntityEvent::Complete))));
        at_most("completing", complete, 7);
    });
}
