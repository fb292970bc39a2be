//! Creates, spends and deletes beside the reference's one row per output, on both databases; the
//! check of children; a pass with few due records; how costs grow. Prints tables.
//!
//! Fixed seed, no `ANALYZE` by hand, every commit durable. Sizes come from the environment:
//! `UNSPENT_BENCH_ONLY` (one table), `UNSPENT_BENCH_ON` (`sqlite` or `postgres`),
//! `UNSPENT_BENCH_RECORDS` (of the first table), `UNSPENT_BENCH_PASS` (records of the pass, 1 %
//! due) and `UNSPENT_BENCH_SIZES` (a list, for growth). `UNSPENT_BENCH_POSTGRES` names an empty
//! database of a server that is set up as in production; without it the server of the tests is
//! used, which doesn't wait for the disk, and the tables say so. Processor time is that of this
//! process and of the server's.
//!
//! Each call is what a block is: many transactions at a height of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    unreachable_pub,
    missing_docs
)]

mod baseline;

use std::{path::PathBuf, sync::Mutex, time::Instant};

use baseline::Baseline;
use bitcoin::{
    Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness,
    absolute::LockTime, hashes::Hash as _, transaction::Version,
};
use unspent_model::{BlockHash, Network, txstore::MinedIn};
use unspent_sql::{Options, Url};
use unspent_testkit::wallet::postgres;
use unspent_txstore::{CleanLimits, CreateTerms, NewTx, Settings, SpendOptions, TxSpends, TxStore};

/// Transactions of one call.
const BATCH: usize = 500;
/// Transactions that growth is measured with: enough for SQLite to carry its log over some times.
const MORE: usize = 20_000;
/// Transactions that are held in memory at once while a store is filled.
const FILL: usize = 50_000;
const RETENTION: u64 = 288;

fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn sizes() -> Vec<usize> {
    let asked = std::env::var("UNSPENT_BENCH_SIZES").unwrap_or("5000,20000".into());
    asked.split(',').map(|text| text.trim().parse().expect("a list of numbers")).collect()
}

fn run(path: PathBuf) -> Option<u64> {
    let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Nanoseconds that this process has run.
fn own_cpu() -> u64 {
    let own = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    own.filter_map(|task| run(task.path())).sum()
}

/// The folder below which the server runs that is measured; nothing for SQLite.
static SERVER: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Nanoseconds that the processes of that server have run; others may serve other tests.
fn server_cpu() -> u64 {
    let Some(folder) = SERVER.lock().unwrap().clone() else { return 0 };
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let servers = all.filter(|path| {
        let name = std::fs::read_to_string(path.join("comm"));
        let is_postgres = name.is_ok_and(|name| name.trim() == "postgres");
        is_postgres && std::fs::read_link(path.join("cwd")).is_ok_and(|at| at.starts_with(&folder))
    });
    servers.filter_map(run).sum()
}

/// A server that was started for this run has its socket in its folder; any other is taken to be
/// the only one.
fn folder_of(url: &Url) -> Option<PathBuf> {
    let Url::Postgres(text) = url else { return None };
    let socket = text.split_once("?host=").map(|(_, host)| host.replace("%2F", "/"));
    Some(socket.map_or(PathBuf::from("/"), PathBuf::from))
}

struct Taken {
    wall: f64,
    cpu: f64,
}

impl std::iter::Sum for Taken {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let nothing = Self { wall: 0.0, cpu: 0.0 };
        all.fold(nothing, |a, b| Self { wall: a.wall + b.wall, cpu: a.cpu + b.cpu })
    }
}

/// Looking for servers takes time of its own, which isn't counted.
fn timed(work: impl FnOnce()) -> Taken {
    let server = server_cpu();
    let (own, start) = (own_cpu(), Instant::now());
    work();
    let (wall, own) = (start.elapsed().as_secs_f64(), own_cpu() - own);
    let cpu = (own + server_cpu().saturating_sub(server)) as f64 / 1e9;
    Taken { wall, cpu }
}

fn rate(what: &str, count: usize, taken: &Taken) {
    let (wall, cpu) = (count as f64 / taken.wall, count as f64 / taken.cpu);
    println!("  {what:<42} {wall:>10.0} /s {cpu:>10.0} per CPU second");
}

fn tx(inputs: &[OutPoint], outputs: usize, salt: u64) -> NewTx {
    let input = |coin: &OutPoint| TxIn {
        previous_output: *coin,
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::from_slice(&[vec![7_u8; 71], vec![2_u8; 33]]),
    };
    let output = |at: usize| TxOut {
        value: Amount::from_sat(salt * 1_000 + at as u64),
        script_pubkey: ScriptBuf::from_bytes([&[0_u8, 20][..], &[9; 20]].concat()),
    };
    NewTx::from_tx(&Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: inputs.iter().map(input).collect(),
        output: (0..outputs).map(output).collect(),
    })
}

fn foreign(n: u64) -> OutPoint {
    OutPoint::new(Txid::hash(&n.to_le_bytes()), 0)
}

fn coin(of: &NewTx, vout: usize) -> OutPoint {
    OutPoint::new(Txid::from_byte_array(of.txid.0), vout as u32)
}

fn parents(from: usize, count: usize, outputs: usize) -> Vec<NewTx> {
    let salts = (from..from + count).map(|n| n as u64);
    salts.map(|n| tx(&[foreign(2 * n), foreign(2 * n + 1)], outputs, n)).collect()
}

/// Each child spends an output of two parents; together they spend all.
fn children(parents: &[NewTx]) -> Vec<NewTx> {
    let next = |at: usize| &parents[(at + 1) % parents.len()];
    let pairs = parents.iter().enumerate();
    pairs.map(|(at, parent)| tx(&[coin(parent, 0), coin(next(at), 1)], 2, at as u64)).collect()
}

fn at(height: u64) -> MinedIn {
    MinedIn { height, hash: BlockHash([1; 32]), on_best_chain: true }
}

struct Place {
    name: String,
    url: Url,
    other: Url,
    _folder: Option<tempfile::TempDir>,
}

/// Both databases, each with a place for ours and one for the baseline.
fn places() -> Vec<Place> {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| Url::Sqlite(folder.path().join(name));
    let (url, other) = (file("ours.db"), file("baseline.db"));
    let on = std::env::var("UNSPENT_BENCH_ON").ok();
    let is_wanted = |name: &str| on.as_ref().is_none_or(|on| on == name);
    let mut found = Vec::new();
    if is_wanted("sqlite") {
        found.push(Place { name: "SQLite".into(), url, other, _folder: Some(folder) });
    }
    if !is_wanted("postgres") {
        return found;
    }
    if let Ok(url) = std::env::var("UNSPENT_BENCH_POSTGRES") {
        let url: Url = url.parse().unwrap();
        let name = "PostgreSQL".into();
        found.push(Place { name, url: url.clone(), other: url, _folder: None });
    } else if let (Some(url), Some(other)) = (postgres::database(), postgres::database()) {
        let (url, other) = (url.parse().unwrap(), other.parse().unwrap());
        let name = "PostgreSQL (not waiting for the disk)".into();
        found.push(Place { name, url, other, _folder: None });
    }
    found
}

fn open(url: &Url) -> TxStore {
    let (settings, options) = (Settings::default(), Options::default());
    TxStore::open(url, Network::BitcoinRegtest, settings, options).unwrap()
}

/// Heights that so many transactions take up.
fn calls(count: usize) -> u64 {
    count.div_ceil(BATCH) as u64
}

/// Calls of [`BATCH`], each with its height.
fn batches(txs: &[NewTx], first: u64) -> impl Iterator<Item = (&[NewTx], u64)> {
    txs.chunks(BATCH).zip(first..)
}

fn create(store: &TxStore, txs: &[NewTx], height: u64) {
    for (batch, height) in batches(txs, height) {
        store.create(batch.to_vec(), CreateTerms::mined(at(height))).unwrap();
    }
}

fn spend(store: &TxStore, children: &[NewTx], height: u64) {
    for (batch, height) in batches(children, height) {
        let spends = batch.iter().map(TxSpends::of).collect();
        let done = store.spend(spends, height, SpendOptions::default()).unwrap();
        assert!(done.iter().all(|outcome| outcome.is_done()));
    }
}

fn clean(store: &TxStore, height: u64) -> usize {
    store.set_height(height).unwrap();
    store.clean(CleanLimits::default()).unwrap().deleted
}

/// The same transactions for both: parents, their children, and the heights they come at.
struct Family {
    parents: Vec<NewTx>,
    children: Vec<NewTx>,
    mined: u64,
}

impl Family {
    const FIRST: u64 = 900;

    fn new(count: usize) -> Self {
        let parents = parents(0, count, 2);
        let children = children(&parents);
        Self { parents, children, mined: Self::FIRST + calls(count) }
    }

    /// Heights at which the first half of the parents fall due.
    fn due_early(&self) -> impl Iterator<Item = u64> {
        let half = calls(self.parents.len()) / 2;
        (self.mined..self.mined + half).map(|height| height + RETENTION)
    }

    /// The height at which all are due.
    fn due_last(&self) -> u64 {
        self.mined + calls(self.parents.len()) + RETENTION
    }
}

fn bytes_line(what: &str, bytes: u64, records: usize) {
    println!("  {what:<42} {:>10} bytes", bytes / records as u64);
}

fn beside_the_baseline(place: &Place) {
    let count = number("UNSPENT_BENCH_RECORDS", 10_000);
    let family = Family::new(count);
    println!("\n{}: {count} parents and as many children, {BATCH} in a call", place.name);
    ours(&open(&place.url), &family);
    theirs(Baseline::open(&place.other), &family);
}

fn ours(store: &TxStore, family: &Family) {
    let Family { parents, children, mined } = family;
    let count = parents.len();
    rate("create", count, &timed(|| create(store, parents, Family::FIRST)));
    bytes_line("bytes per record", store.status().unwrap().bytes, count);
    create(store, children, *mined);
    rate("spend", 2 * count, &timed(|| spend(store, children, *mined)));
    bytes_line("bytes per record afterwards", store.status().unwrap().bytes, 2 * count);
    let (mut by_block, mut at_once) = (0, 0);
    let taken = family.due_early().map(|height| {
        store.set_height(height).unwrap();
        timed(|| by_block += store.clean(CleanLimits::default()).unwrap().deleted)
    });
    let taken = taken.sum();
    rate("delete, a pass for each block", by_block, &taken);
    let taken = timed(|| at_once = clean(store, family.due_last()));
    rate("delete, one pass for the rest", at_once, &taken);
    assert_eq!(by_block + at_once, count);
}

fn theirs(mut base: Baseline, family: &Family) {
    let Family { parents, children, mined } = family;
    let count = parents.len();
    let fill = |base: &mut Baseline, txs: &[NewTx], first: u64| {
        batches(txs, first).for_each(|(batch, height)| base.create(batch, height));
    };
    let taken = timed(|| fill(&mut base, parents, Family::FIRST));
    rate("baseline: create", count, &taken);
    bytes_line("baseline: bytes per record", base.bytes(), count);
    fill(&mut base, children, *mined);
    let taken = timed(|| {
        batches(children, *mined).for_each(|(batch, height)| base.spend(batch, height));
    });
    rate("baseline: spend", 2 * count, &taken);
    bytes_line("baseline: bytes per record afterwards", base.bytes(), 2 * count);
    let (mut by_block, mut at_once) = (0, 0);
    let taken = timed(|| family.due_early().for_each(|height| by_block += base.clean(height)));
    rate("baseline: delete, a pass for each block", by_block as usize, &taken);
    let taken = timed(|| at_once = base.clean(family.due_last()));
    rate("baseline: delete, one pass for the rest", at_once as usize, &taken);
    assert_eq!(by_block + at_once, count as u64);
}

/// What a deletion costs whose parent has many children.
fn child_check(place: &Place) {
    println!("\n{}: deleting a parent by its number of children", place.name);
    let store = open(&place.url);
    let mut height = 10_000;
    for (round, count) in [2_usize, 10, 100].into_iter().enumerate() {
        let rows = 20_000 / count.max(10);
        let parents = parents(10_000_000 * (round + 1), rows, count);
        let spends = |parent: &NewTx| {
            (0..count).map(|vout| tx(&[coin(parent, vout)], 1, 0)).collect::<Vec<_>>()
        };
        let children: Vec<NewTx> = parents.iter().flat_map(spends).collect();
        create(&store, &parents, height);
        create(&store, &children, height);
        spend(&store, &children, height);
        height += calls(children.len()) + RETENTION;
        let taken = timed(|| assert_eq!(clean(&store, height), rows));
        rate(&format!("{count} children"), rows, &taken);
        height += RETENTION;
    }
}

fn few_due(place: &Place) {
    let count = number("UNSPENT_BENCH_PASS", 20_000);
    let store = open(&place.url);
    let all = parents(100_000_000, count, 2);
    create(&store, &all, 50_000);
    let due = children(&all[..count / 100]);
    let mined = 50_000 + calls(count);
    create(&store, &due, mined);
    spend(&store, &due, mined);
    let done = mined + calls(due.len()) + RETENTION;
    println!("\n{}: a pass over {count} records, 1 % of them due", place.name);
    let taken = timed(|| assert_eq!(clean(&store, done), count / 100));
    rate("delete", count / 100, &taken);
    let taken = timed(|| assert_eq!(clean(&store, done), 0));
    println!("  {:<42} {:>10.3} ms", "a pass with nothing due", taken.wall * 1e3);
}

fn growth(place: &Place) {
    println!("\n{}: {MORE} more beside so many", place.name);
    let store = open(&place.url);
    let (mut size, mut height) = (0, 100_000);
    for target in sizes() {
        while size < target {
            let more = (target - size).min(FILL);
            create(&store, &parents(200_000_000 + size, more, 2), height);
            (size, height) = (size + more, height + calls(more));
        }
        let parents = parents(900_000_000 + target, MORE, 2);
        let children = children(&parents);
        rate(&format!("create at {target}"), MORE, &timed(|| create(&store, &parents, height)));
        create(&store, &children, height);
        rate(&format!("spend at {target}"), 2 * MORE, &timed(|| spend(&store, &children, height)));
        height += calls(MORE) + RETENTION;
        let taken = timed(|| assert_eq!(clean(&store, height), MORE));
        rate(&format!("delete at {target}"), MORE, &taken);
        let taken = timed(|| assert!(store.status().unwrap().records >= target as u64));
        println!("  {:<42} {:>10.3} ms", format!("status at {target}"), taken.wall * 1e3);
    }
}

/// One by one spends of a large transaction: what its pages cost.
fn large(place: &Place) {
    let outputs = number("UNSPENT_BENCH_OUTPUTS", 2_000);
    println!("\n{}: spends of one transaction with {outputs} outputs", place.name);
    let store = open(&place.url);
    let big = parents(2_000_000_000, 1, outputs).remove(0);
    create(&store, std::slice::from_ref(&big), 500_000);
    let spends: Vec<NewTx> = (0..outputs).map(|vout| tx(&[coin(&big, vout)], 1, 0)).collect();
    let taken = timed(|| {
        for child in spends.iter().take(500) {
            spend(&store, std::slice::from_ref(child), 500_000);
        }
    });
    rate("spend, one in a call", 500, &taken);
    let taken = timed(|| spend(&store, &spends, 500_000));
    rate("spend, 500 in a call", outputs, &taken);
}

/// A table by its name.
type Table = (&'static str, fn(&Place));

const TABLES: [Table; 5] = [
    ("baseline", beside_the_baseline),
    ("children", child_check),
    ("pass", few_due),
    ("growth", growth),
    ("large", large),
];

fn main() {
    let only = std::env::var("UNSPENT_BENCH_ONLY").ok();
    for place in places() {
        *SERVER.lock().unwrap() = folder_of(&place.url);
        let wanted = TABLES.iter().filter(|(name, _)| only.as_ref().is_none_or(|o| o == name));
        wanted.for_each(|(_, run)| run(&place));
    }
}
