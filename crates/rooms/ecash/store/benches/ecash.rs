//! What a step costs on both databases: transitions per second, reservation out of purses of 10,000
//! and 100,000 proofs (with statistics and without), the balance beside a long history, and reading
//! 1,000 open entities after a start. Figures go to stdout. The PostgreSQL server is that of the
//! tests, which doesn't wait for the disk.
//!
//! `-- beside` does the work that `bench-peers/src/bin/cdk.rs` gives to cdk's wallet store, and
//! prints what it took.
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
    AccountKind, EcashAccount, EcashStore, FreshProof, InputChoice, KeySource, KeysetInfo,
    NewEntity, NewTerms, OutputKeyset, PageRequest, PaymentEvent, RangeAsk, schema::SCHEMA,
};
use unspent_model::{Micros, ecash::EntityEvent};
use unspent_sql::{Arg, Backend, Door, Options, SqlError, Url};
use unspent_testkit::wallet::postgres;

const KEYSET: &str = "009a1f293253e41e";
const STEPS: usize = 500;
const RESERVATIONS: usize = 100;
const OPEN: usize = 1_000;
const BALANCES: usize = 50;

/// Rows of proofs that nobody can open: a reservation reads no secret.
const FILL_SQLITE: &str = "INSERT INTO proofs (account_id, y, keyset_id, amount, state, version,
        sealed, added_by, added_at)
    SELECT 'a', CAST(printf('%033d', value) AS BLOB), $1, 1 << (value % 16), $4, 0, x'00', 'x', 1
    FROM (WITH RECURSIVE s (value) AS (SELECT $2 UNION ALL SELECT value + 1 FROM s
        WHERE value < $3) SELECT value FROM s)";
const FILL_POSTGRES: &str = "INSERT INTO proofs (account_id, y, keyset_id, amount, state, version,
        sealed, added_by, added_at)
    SELECT 'a', convert_to(lpad(value::text, 33, '0'), 'UTF8'), $1, 1::bigint << (value % 16)::int,
        $4, 0, '\\x00', 'x', 1 FROM generate_series($2::bigint, $3::bigint) s (value)";

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
        let store = EcashStore::open(&url, &key, Some([7; 64].into()), Options::default()).unwrap();
        let account = EcashAccount {
            id: "a".into(),
            kind: AccountKind::Cashu,
            name: "a".into(),
            mint_url: Some("http://127.0.0.1:1".parse().unwrap()),
            unit: "sat".into(),
            version: 0,
        };
        store.add_account(account, Micros(1)).unwrap();
        let keyset = KeysetInfo { keyset_id: KEYSET.into(), is_active: true, fee_ppk: 100 };
        store.put_keysets("a", vec![keyset]).unwrap();
        Self { store, url, _folder: folder }
    }

    /// Proofs from one number to another.
    fn fill(&self, from: i64, to: i64, state: &'static str) {
        let sql = match self.url.backend() {
            Backend::Sqlite => FILL_SQLITE,
            Backend::Postgres => FILL_POSTGRES,
        };
        let args = move || [Arg::Text(KEYSET), Arg::Int(from), Arg::Int(to), Arg::Text(state)];
        self.door().write(move |tx| tx.execute(sql, &args())).unwrap();
    }

    fn analyze(&self) {
        self.door().write(|tx| -> Result<(), SqlError> { tx.script("ANALYZE") }).unwrap();
    }

    fn door(&self) -> Door {
        Door::open(&self.url, &SCHEMA, Options::default()).unwrap()
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
        now: Micros(1),
        expires_at: None,
    }
}

fn keyset() -> OutputKeyset {
    let amounts = (0..20).map(|bit| 1 << bit).collect();
    OutputKeyset { keyset_id: KEYSET.into(), fee_ppk: 100, amounts }
}

fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// One connection, one after the other: each is a commit of its own.
fn transitions(place: &Place) -> f64 {
    place.invoices(STEPS);
    let range = RangeAsk { keyset_id: KEYSET.into(), amounts: vec![4, 2, 1], send_count: 0 };
    let paid = PaymentEvent::new(EntityEvent::ProcessPayment).with_range(range);
    let start = Instant::now();
    for at in 0..STEPS {
        place.store.apply(&format!("e{at}"), paid.clone(), Micros(2)).unwrap();
    }
    per_second(STEPS, start.elapsed())
}

fn reservations(place: &Place, proofs: i64, analyzed: bool) -> f64 {
    place.fill(1, proofs, "UNSPENT");
    if analyzed {
        place.analyze();
    }
    let start = Instant::now();
    for at in 0..RESERVATIONS {
        let (inputs, keyset) = (InputChoice::Select, keyset());
        let new = NewEntity::SendSwap { amount: 5_000, inputs, keyset };
        place.store.create(new, terms(at)).unwrap();
    }
    per_second(RESERVATIONS, start.elapsed())
}

/// The balance of 1,000 free proofs beside so many that are spent.
fn balance(place: &Place, history: i64) -> Duration {
    place.fill(1, 1_000, "UNSPENT");
    place.fill(1_001, 1_000 + history, "SPENT");
    place.analyze();
    let start = Instant::now();
    for _ in 0..BALANCES {
        assert!(place.store.balance("a").unwrap().unspent > 0);
    }
    start.elapsed() / u32::try_from(BALANCES).unwrap()
}

fn recovery(place: &Place) -> Duration {
    place.invoices(OPEN);
    let start = Instant::now();
    let open = place.store.open_entities(PageRequest::first(10_000)).unwrap();
    assert_eq!(open.len(), OPEN);
    for entity in &open {
        place.store.open_entity(&entity.id).unwrap();
    }
    start.elapsed()
}

fn measure(name: &str, fresh: &dyn Fn() -> Option<Place>) {
    let Some(place) = fresh() else { return };
    println!("{name}: {:.0} transitions per second", transitions(&place));
    for analyzed in [true, false] {
        for proofs in [10_000, 100_000] {
            let Some(place) = fresh() else { return };
            let found = reservations(&place, proofs, analyzed);
            let how = if analyzed { "with" } else { "without" };
            let what = format!("out of {proofs} proofs, {how} statistics");
            println!("{name}: {found:.0} reservations per second {what}");
        }
    }
    for history in [1_000, 100_000] {
        let Some(place) = fresh() else { return };
        let took = balance(&place, history);
        println!("{name}: balance of 1000 proofs beside {history} spent ones in {took:?}");
    }
    let Some(place) = fresh() else { return };
    println!("{name}: {OPEN} open entities read in {:?}", recovery(&place));
}

/// Work of the comparison; `bench-peers/src/bin/cdk.rs` has the same numbers.
const PURSE: u64 = 10_000;
const PAYMENTS: u64 = 50;
const AMOUNT: u64 = 5_000;
const FEE_RESERVE: u64 = 50;

/// The proof of a number: secrets are the same in every run.
fn fresh(number: u64, amount: u64) -> FreshProof {
    let secret = cashu::secret::Secret::new(format!("{number:064x}"));
    let point = cashu::SecretKey::from_slice(&[7; 32]).unwrap().public_key();
    cashu::Proof::new(amount.into(), KEYSET.parse().unwrap(), secret, point).into()
}

/// A purse as receiving fills it: sealed proofs.
fn fill_purse(store: &EcashStore) {
    for part in 0..PURSE / 1_000 {
        let numbers = part * 1_000..(part + 1) * 1_000;
        let proofs: Vec<FreshProof> = numbers.map(|n| fresh(n, 1 << (n % 16))).collect();
        let amounts: Vec<u64> = proofs.iter().map(|fresh| fresh.proof.amount.to_u64()).collect();
        let (amount, id) = (amounts.iter().sum(), format!("fill{part}"));
        let quote_id = format!("q{id}");
        let invoice = "lnbc1".to_owned();
        let new =
            NewEntity::ReceiveQuote { quote_id, invoice, amount, lock_index: 0, source: None };
        let transaction_id = format!("t{id}");
        store.create(new, NewTerms { id: id.clone(), transaction_id, ..terms(0) }).unwrap();
        let range = RangeAsk { keyset_id: KEYSET.into(), amounts, send_count: 0 };
        let paid = PaymentEvent::new(EntityEvent::ProcessPayment).with_range(range);
        store.apply(&id, paid, Micros(1)).unwrap();
        store
            .apply(&id, PaymentEvent::new(EntityEvent::Complete).with_proofs(proofs), Micros(1))
            .unwrap();
    }
}

/// Processor time of this process so far, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).map(|t| t.parse::<u64>().unwrap()).sum();
    ticks as f64 / 100.0
}

/// Reserve, read the inputs, mark the melt, complete with change: one payment after the other.
fn beside() {
    let place = Place::sqlite();
    fill_purse(&place.store);
    let store = &place.store;
    let change: Vec<Vec<FreshProof>> = (0..PAYMENTS)
        .map(|at| (0..3).map(|bit| fresh(PURSE + at * 3 + bit, 1 << bit)).collect())
        .collect();
    let (start, before) = (Instant::now(), cpu());
    for (at, change) in (0..).zip(change) {
        let new = NewEntity::SendQuote {
            quote_id: format!("melt{at}"),
            invoice: "lnbc1".into(),
            amount: AMOUNT,
            fee_reserve: FEE_RESERVE,
            inputs: InputChoice::Select,
            keyset: keyset(),
        };
        let id = store.create(new, terms(at)).unwrap().entity.id;
        assert!(!store.open_entity(&id).unwrap().held.is_empty());
        store.apply(&id, PaymentEvent::new(EntityEvent::MarkMeltInitiated), Micros(2)).unwrap();
        store
            .apply(&id, PaymentEvent::new(EntityEvent::Complete).with_proofs(change), Micros(3))
            .unwrap();
    }
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu() - before);
    println!("beside {PAYMENTS} {wall} {cpu}");
}

fn main() {
    if std::env::args().any(|arg| arg == "beside") {
        return beside();
    }
    measure("SQLite", &|| Some(Place::sqlite()));
    measure("PostgreSQL", &Place::postgres);
}
