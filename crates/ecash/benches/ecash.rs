//! What a step costs on both databases: transitions per second, reservation out of purses of 10,000
//! and 100,000 proofs, and reading 1,000 open entities after a start. Figures go to stdout. The
//! PostgreSQL server is that of the tests, which doesn't wait for the disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    missing_docs
)]

use std::time::{Duration, Instant};

use unspent_ecash::{
    Account, AccountKind, EcashStore, Event, Inputs, KeySource, KeysetInfo, NewEntity, NewTerms,
    OutputKeyset, RangeAsk, schema::SCHEMA,
};
use unspent_model::ecash::EntityEvent;
use unspent_sql::{Arg, Backend, Door, Options, SqlError, Url};
use unspent_testkit::wallet::postgres;

const KEYSET: &str = "009a1f293253e41e";
const STEPS: usize = 500;
const RESERVATIONS: usize = 100;
const OPEN: usize = 1_000;

/// Rows of proofs that nobody can open: a reservation reads no secret.
const FILL_SQLITE: &str = "INSERT INTO proofs (account_id, y, keyset_id, amount, state, version,
        sealed, added_by, added_at)
    SELECT 'a', CAST(printf('%033d', value) AS BLOB), $1, 1 << (value % 16), 'UNSPENT', 0, x'00',
        'x', 1
    FROM (WITH RECURSIVE s (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM s
        WHERE value < $2) SELECT value FROM s)";
const FILL_POSTGRES: &str = "INSERT INTO proofs (account_id, y, keyset_id, amount, state, version,
        sealed, added_by, added_at)
    SELECT 'a', convert_to(lpad(value::text, 33, '0'), 'UTF8'), $1, 1::bigint << (value % 16)::int,
        'UNSPENT', 0, '\\x00', 'x', 1 FROM generate_series(1, $2::bigint) s (value)";

struct Place {
    store: EcashStore,
    url: Url,
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("ecash.db").display());
        Self::open(url.parse().unwrap(), Some(folder))
    }

    fn postgres() -> Option<Self> {
        Some(Self::open(postgres::database()?.parse().unwrap(), None))
    }

    fn open(url: Url, folder: Option<tempfile::TempDir>) -> Self {
        let key = KeySource::KeyFile(vec![7; 32].into());
        let store = EcashStore::open(&url, &key, None, Options::default()).unwrap();
        let account = Account {
            id: "a".into(),
            kind: AccountKind::Cashu,
            name: "a".into(),
            mint_url: Some("http://127.0.0.1:1".parse().unwrap()),
            unit: "sat".into(),
            version: 0,
        };
        store.add_account(account, 1).unwrap();
        let keyset = KeysetInfo { keyset_id: KEYSET.into(), is_active: true, fee_ppk: 100 };
        store.put_keysets("a", vec![keyset]).unwrap();
        Self { store, url, _folder: folder }
    }

    fn fill(&self, proofs: i64) {
        let sql = match self.url.backend() {
            Backend::Sqlite => FILL_SQLITE,
            Backend::Postgres => FILL_POSTGRES,
        };
        let door = Door::open(&self.url, &SCHEMA, Options::default()).unwrap();
        door.write(move |tx| -> Result<(), SqlError> {
            tx.execute(sql, &[Arg::Text(KEYSET), Arg::Int(proofs)])?;
            tx.script("ANALYZE")
        })
        .unwrap();
    }

    fn invoices(&self, count: usize) {
        for at in 0..count {
            let new = NewEntity::ReceiveQuote {
                quote_id: format!("q{at}"),
                invoice: "lnbc1".into(),
                amount: 7,
                lock_index: 0,
                source: None,
            };
            self.store.create(new, terms(at)).unwrap();
        }
    }
}

fn terms(at: usize) -> NewTerms {
    NewTerms {
        id: format!("e{at}"),
        transaction_id: format!("t{at}"),
        idempotency_key: None,
        account_id: "a".into(),
        now: 1,
        expires_at: None,
    }
}

fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// One connection, one after the other: each is a commit of its own.
fn transitions(place: &Place) -> f64 {
    place.invoices(STEPS);
    let range = RangeAsk { keyset_id: KEYSET.into(), amounts: vec![4, 2, 1], send_count: 0 };
    let paid = Event::new(EntityEvent::ProcessPayment).with_range(range);
    let start = Instant::now();
    for at in 0..STEPS {
        place.store.apply(&format!("e{at}"), paid.clone(), 2).unwrap();
    }
    per_second(STEPS, start.elapsed())
}

fn reservations(place: &Place, proofs: i64) -> f64 {
    place.fill(proofs);
    let amounts: Vec<u64> = (0..20).map(|bit| 1 << bit).collect();
    let keyset = OutputKeyset { keyset_id: KEYSET.into(), fee_ppk: 100, amounts };
    let start = Instant::now();
    for at in 0..RESERVATIONS {
        let (inputs, keyset) = (Inputs::Select, keyset.clone());
        place
            .store
            .create(NewEntity::SendSwap { amount: 5_000, inputs, keyset }, terms(at))
            .unwrap();
    }
    per_second(RESERVATIONS, start.elapsed())
}

fn recovery(place: &Place) -> Duration {
    place.invoices(OPEN);
    let start = Instant::now();
    let open = place.store.open_entities("", 10_000).unwrap();
    assert_eq!(open.len(), OPEN);
    for entity in &open {
        place.store.open_entity(&entity.id).unwrap();
    }
    start.elapsed()
}

fn measure(name: &str, fresh: &dyn Fn() -> Option<Place>) {
    let Some(place) = fresh() else { return };
    println!("{name}: {:.0} transitions per second", transitions(&place));
    for proofs in [10_000, 100_000] {
        let Some(place) = fresh() else { return };
        let found = reservations(&place, proofs);
        println!("{name}: {found:.0} reservations per second out of {proofs} proofs");
    }
    let Some(place) = fresh() else { return };
    println!("{name}: {OPEN} open entities read in {:?}", recovery(&place));
}

fn main() {
    measure("SQLite", &|| Some(Place::sqlite()));
    measure("PostgreSQL", &Place::postgres);
}
