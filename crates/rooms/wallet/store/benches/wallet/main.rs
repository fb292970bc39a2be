//! How the cost of each thing grows with size, on both databases. Prints a table.
//!
//! `UNSPENT_BENCH=full` takes the sizes of the release figures; without it a run lasts
//! some minutes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    missing_docs
)]

mod world;

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use bitcoin::{BlockHash, OutPoint, ScriptBuf, consensus::encode::deserialize, hashes::Hash as _};
use unspent_model::{
    Micros, Network,
    wallet::{
        LockId,
        select::{ChangePolicy, FeePerWeight},
    },
};
use unspent_sim::shape::{ModernChain, Shape};
use unspent_sql::{Arg, BulkStatement, Column, Door, Options, SqlError, Url};
use unspent_wallet::{
    NewWallet, ObservedTx, TxBatch, TxSource, WalletId, WalletStore,
    choose::{CoinPolicy, SelectionTarget},
    descriptor::{Keychain, script_hash},
    history::TxListing,
    lease::LeaseTerms,
    placed_block::PlacedBlock,
    schema::SCHEMA,
    wallet_info::KeychainPurpose,
};

use world::*;

/// Recording one transaction, beside more and more history.
fn recording() {
    let sizes: &[usize] =
        if is_full() { &[1_000, 30_000, 1_000_000] } else { &[1_000, 10_000, 50_000] };
    World::all("record a transaction", |world, name| {
        let mut size = 0;
        for target in sizes {
            world.grow(size, *target);
            size = *target;
            let taken = timed(200, || {
                let pay = world.payment(777);
                world.room.record(&TxBatch::one(pay, TxSource::Mempool), Micros(5)).unwrap();
            });
            size += 200;
            say(name, *target, median(&taken), "ms");
        }
    });
}

/// The balance of a wallet, alone and beside a larger one.
fn balances() {
    let (mine, other) = if is_full() { (100_000, 1_000_000) } else { (100_000, 200_000) };
    World::all("balance", |world, name| {
        let per_tx = 1_000;
        let wide = |world: &mut World, scripts: &[ScriptBuf], coins: usize| {
            for _ in 0..coins / per_tx {
                let n = world.fresh();
                let outputs: Vec<_> =
                    (0..per_tx).map(|at| (scripts[at % scripts.len()].clone(), 1_000)).collect();
                let pay = tx(&[foreign(n)], &outputs);
                world.mine(vec![pay]);
            }
        };
        let scripts = world.scripts.clone();
        wide(world, &scripts, mine);
        world.unconfirmed(20);
        let measure = |world: &World, label: &str| {
            let kept = timed(50, || {
                std::hint::black_box(world.room.balance(world.wallet, 1, Micros(9)).unwrap());
            });
            let plain = timed(15, || {
                std::hint::black_box(world.room.plain_sum(world.wallet).unwrap());
            });
            let page =
                timed(30, || drop(world.room.coins(world.wallet, None, 100, Micros(9)).unwrap()));
            say(&format!("{name}, {label}"), mine, median(&kept), "ms");
            say(&format!("{name} by plain SUM, {label}"), mine, median(&plain), "ms");
            say(&format!("{name}: page of 100 coins, {label}"), mine, median(&page), "ms");
            say(&format!("{name}: SUM / kept, {label}"), mine, median(&plain) / median(&kept), "x");
        };
        measure(world, "alone");
        new_wallet(&world.room, "second", 2);
        let keys = Keychain::parse(&descriptor(2), bitcoin::Network::Regtest).unwrap();
        let theirs: Vec<_> = (0..20).map(|n| keys[0].script(n).unwrap()).collect();
        wide(world, &theirs, other);
        measure(world, &format!("beside {other}"));
    });
}

fn wanted() -> SelectionTarget {
    SelectionTarget::new(
        25_000,
        200,
        FeePerWeight { sat_per_kwu: 250 },
        ChangePolicy { weight: 124, spend_weight: 272, min: 294 },
    )
}

/// Runs in a process of its own: selects and leases, and prints how long each took.
fn select_worker(url: &str, id: u8, times: usize) {
    let url: Url = url.parse().unwrap();
    let room = WalletStore::open(&url, Network::BitcoinRegtest, Options::default()).unwrap();
    for n in 0..times {
        let (taken, is_done) = select_once(&room, id, n);
        println!("TOOK {} {is_done}", taken.as_micros());
    }
}

/// Selects and leases once, each time under another lock and after the last lease ran out.
fn select_once(room: &WalletStore, id: u8, n: usize) -> (Duration, bool) {
    let mut lock = [id + 1; 32];
    lock[..8].copy_from_slice(&(n as u64).to_le_bytes());
    let lock = LockId::new(&lock).unwrap();
    let terms = LeaseTerms { lock, duration: SECOND, hold_confirmations: None };
    let policy = CoinPolicy { seed: n as u64, ..CoinPolicy::default() };
    let now = (n as i64 + 1) * 10 * SECOND;
    let start = Instant::now();
    let done = room.select_and_lease(WalletId(1), wanted(), &policy, terms, Micros(now));
    (start.elapsed(), done.is_ok())
}

/// A rate, and how long the slowest hundredth took; from microseconds.
fn say_rates(name: &str, label: &str, mut taken: Vec<u64>, all: Duration) {
    taken.sort_unstable();
    let p99 = taken[taken.len() * 99 / 100] as f64 / 1e3;
    let rate = taken.len() as f64 / all.as_secs_f64();
    say(&format!("{name} per second"), label, rate, "/s");
    say(&format!("{name} p99"), label, p99, "ms");
}

/// Clients of one daemon: threads that share one room.
fn clients() {
    World::all("8 clients select and lease", |world, name| {
        world.grow(0, 5_000);
        world.unconfirmed(20);
        let (room, times) = (&world.room, 200_usize);
        let start = Instant::now();
        let taken: Vec<u64> = std::thread::scope(|scope| {
            let client = |id: u8| {
                scope.spawn(move || {
                    let once = |n: usize| {
                        let (taken, is_done) = select_once(room, id, n);
                        assert!(is_done);
                        taken.as_micros() as u64
                    };
                    (0..times).map(once).collect::<Vec<_>>()
                })
            };
            let all: Vec<_> = (0..8).map(client).collect();
            all.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        say_rates(name, "one room", taken, start.elapsed());
    });
}

/// What a user asks of a wallet with a long history and some unconfirmed payments.
fn questions() {
    World::all("32,000 transactions", |world, name| {
        world.grow(0, 32_000);
        world.unconfirmed(20);
        let (room, wallet, middle) = (&world.room, world.wallet, world.height / 2);
        let ask = |what: &str, run: &dyn Fn()| {
            say(&format!("{name}: {what}"), 32_000, median(&timed(20, run)), "ms");
        };
        ask("balance", &|| {
            std::hint::black_box(room.balance(wallet, 1, Micros(9)).unwrap());
        });
        ask("balance in the past", &|| {
            std::hint::black_box(room.balance_as_of(wallet, middle).unwrap());
        });
        ask("page of 100 transactions", &|| {
            drop(room.txs(wallet, TxListing::Latest(None), 100).unwrap());
        });
        ask("page of 100 coins", &|| drop(room.coins(wallet, None, 100, Micros(9)).unwrap()));
        ask("next address", &|| {
            drop(room.next_address(wallet, None, KeychainPurpose::Receive).unwrap());
        });
    });
}

/// A million watched scripts in few and in many wallets: what a block costs at the tip.
fn many_wallets() {
    let addresses = if is_full() { 1_000_000 } else { 100_000_usize };
    for wallets in [10_usize, 10_000] {
        World::all(&format!("block at the tip, {wallets} wallets"), |world, name| {
            for at in 0..wallets {
                let script = |n: usize| theirs(1_000_000 + (at * addresses + n) as u64);
                let scripts: Vec<_> = (0..addresses / wallets).map(script).collect();
                let new = NewWallet {
                    name: format!("wallet {at}"),
                    accounts: Vec::new(),
                    birthday: 0,
                    gap_limit: 20,
                };
                world.room.create_wallet_with(&new, &scripts, Micros(1)).unwrap();
            }
            world.mine(Vec::new());
            let taken: Vec<Duration> = (0..50)
                .map(|_| {
                    let pays = (0..20).map(|n| world.payment(1_000 + n)).collect();
                    world.mine(pays)
                })
                .collect();
            say(name, addresses, median(&taken), "ms");
        });
    }
}

fn selecting() {
    World::all("select and lease", |world, name| {
        world.grow(0, 5_000);
        world.unconfirmed(20);
        let times = 150;
        for processes in [1_usize, 8] {
            let start = Instant::now();
            let spawn = |id: usize| {
                Command::new(std::env::current_exe().unwrap())
                    .env("UNSPENT_BENCH_SELECT", &world.url)
                    .env("UNSPENT_BENCH_ID", id.to_string())
                    .env("UNSPENT_BENCH_TIMES", times.to_string())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap()
            };
            let children: Vec<_> = (0..processes).map(spawn).collect();
            let mut taken: Vec<u64> = Vec::new();
            for child in children {
                let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
                let lines = text.lines().filter_map(|line| line.strip_prefix("TOOK "));
                taken.extend(lines.map(|l| l.split(' ').next().unwrap().parse::<u64>().unwrap()));
            }
            say_rates(name, &format!("{processes} process(es)"), taken, start.elapsed());
        }
    });
}

/// A block of 4,000 transactions against many watched scripts.
fn block() {
    let sizes: &[usize] = if is_full() { &[1_000, 100_000, 1_000_000] } else { &[1_000, 100_000] };
    const INSERT: BulkStatement = BulkStatement {
        sqlite: "INSERT INTO addresses (wallet_id, keychain_id, is_used, id, address_index,
            script_hash, script_pub_key) VALUES (1, 2, FALSE, $1, $2, $3, $3)",
        postgres: "INSERT INTO addresses (wallet_id, keychain_id, is_used, id, address_index,
            script_hash, script_pub_key)
            SELECT 1, 2, FALSE, k.id, k.n, k.h, k.h
            FROM UNNEST($1::bigint[], $2::bigint[], $3::bytea[]) k (id, n, h)",
    };
    const READ_NEXT_ID: &str = "SELECT next_id FROM wallets WHERE id = 1";
    const NEXT_ID: &str = "UPDATE wallets SET next_id = $1 WHERE id = 1";
    World::all("block of 4,000 transactions", |world, name| {
        let mut watched: usize = 0;
        for target in sizes {
            let door =
                Door::open(&world.url.parse().unwrap(), &SCHEMA, Options::default()).unwrap();
            while watched < *target {
                let (from, to) = (watched, (watched + 20_000).min(*target));
                door.write(move |tx| -> Result<u64, SqlError> {
                    let first = tx.one(READ_NEXT_ID, &[])?.int("next_id")?;
                    let next = first + (to - from) as i64;
                    let ids = Column::ints(first..next);
                    let places = Column::ints((from..to).map(|n| 1_000_000 + n as i64));
                    let hashes = (from..to).map(|n| script_hash(&theirs(1_000_000_000 + n as u64)));
                    tx.execute_set(INSERT, &[], &[ids, places, Column::blobs(hashes)])?;
                    tx.execute(NEXT_ID, &[Arg::Int(next)])
                })
                .unwrap();
                watched = to;
            }
            drop(door);
            let mut taken = Vec::new();
            for _ in 0..5 {
                let mut txs: Vec<_> = (0..3_990)
                    .map(|_| {
                        let n = world.fresh();
                        let outputs = [(theirs(n), 5), (theirs(n + 1), 6)];
                        tx(&[foreign(n), foreign(n + 500_000_000)], &outputs)
                    })
                    .collect();
                txs.extend((0..10).map(|n| world.payment(n)));
                taken.push(world.mine(txs));
            }
            taken.sort();
            say(name, format!("{target} scripts"), median(&taken), "ms");
        }
    });
}

/// Nanoseconds that all threads of this process have run, where the system tells.
fn cpu() -> Option<u64> {
    let run = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    std::fs::read_dir("/proc/self/task").ok()?.map(run).sum()
}

/// Catching up through blocks of modern shape that hold nothing of ours, in batches and alone.
fn strangers() {
    let count = if is_full() { 400 } else { 100 };
    let shape = Shape { start_coins: 50_000, transactions: 1_000 };
    let modern = ModernChain::new(1, shape).filter(|block| block.stats.is_modern()).take(count);
    let blocks: Vec<PlacedBlock> = modern
        .map(|raw| PlacedBlock::of(raw.height.into(), deserialize(&raw.bytes).unwrap()))
        .collect();
    World::all("block of strangers", |world, name| {
        for at_once in [50, 1] {
            world.room.disconnect_above(None, Micros(1)).unwrap();
            let (start, before) = (Instant::now(), cpu());
            for batch in blocks.chunks(at_once) {
                world.room.apply_blocks(batch.to_vec(), Micros(1)).unwrap();
            }
            let each = |nanos: f64| nanos / 1e6 / count as f64;
            let size = format!("{at_once} at once");
            say(name, &size, each(start.elapsed().as_nanos() as f64), "ms");
            if let (Some(before), Some(after)) = (before, cpu()) {
                say(&format!("{name}, processor"), &size, each((after - before) as f64), "ms");
            }
        }
    });
}

/// A chain of unconfirmed transactions whose first one loses.
fn invalidation() {
    World::all("invalidate a chain", |world, name| {
        for depth in [100_usize, 1_000, 10_000] {
            let funding = world.payment(100_000_000);
            world.mine(vec![funding.clone()]);
            let script = world.scripts[1].clone();
            let mut last = OutPoint::new(funding.compute_txid(), 0);
            let mut txs = Vec::with_capacity(depth);
            for n in 0..depth {
                let next = tx(&[last], &[(script.clone(), 99_999_999 - n as u64)]);
                last = OutPoint::new(next.compute_txid(), 0);
                txs.push(ObservedTx::new(next, TxSource::Mempool));
            }
            for part in txs.chunks(2_000) {
                let batch = TxBatch { txs: part.to_vec(), ..TxBatch::default() };
                world.room.record(&batch, Micros(3)).unwrap();
            }
            let coin = OutPoint::new(funding.compute_txid(), 0);
            let rival = TxBatch::one(tx(&[coin], &[(theirs(3), 1)]), TxSource::Mempool);
            let start = Instant::now();
            let done = world.room.record(&rival, Micros(4)).unwrap();
            assert_eq!(done.changed_txs, depth);
            say(name, format!("{depth} deep"), start.elapsed().as_secs_f64() * 1e3, "ms");
        }
    });
}

/// Disconnecting many blocks, each with transactions of ours.
fn disconnect() {
    World::all("disconnect blocks", |world, name| {
        for count in [10_u64, 100, 1_000] {
            let keep = world.height;
            for _ in 0..=count {
                let txs = (0..5).map(|n| world.payment(n + 1)).collect();
                world.mine(txs);
            }
            let start = Instant::now();
            let done = world.room.disconnect_above(Some(keep), Micros(5)).unwrap();
            assert_eq!(done.blocks, count);
            let taken = start.elapsed().as_secs_f64() * 1e3;
            say(name, format!("{count} blocks"), taken, "ms");
            // The chain goes on from where it was cut.
            world.height = keep + 1;
            let tip = world.room.tip().unwrap().unwrap().hash;
            world.tip = BlockHash::from_byte_array(tip.0);
        }
    });
}

/// The history that the peers' benchmark runs too: blocks of payments, balance, reopening.
fn beside_peers() {
    let (blocks, per_block) = (200_u32, 50_u64);
    World::all("peers' history", |world, name| {
        let start = Instant::now();
        for _ in 0..blocks {
            let txs = (0..per_block).map(|n| world.payment(1_000 + n)).collect();
            world.mine(txs);
        }
        let each = start.elapsed().as_secs_f64() * 1e3 / f64::from(blocks);
        say(&format!("{name}: block of {per_block}, persisted"), blocks, each, "ms");
        let taken = timed(20, || {
            std::hint::black_box(world.room.balance(world.wallet, 1, Micros(5)).unwrap());
        });
        say(&format!("{name}: balance"), u64::from(blocks) * per_block, median(&taken), "ms");
        let url: Url = world.url.parse().unwrap();
        let taken = timed(5, || {
            let room = WalletStore::open_existing(&url, Options::default()).unwrap();
            room.balance(world.wallet, 1, Micros(5)).unwrap();
        });
        say(&format!("{name}: open and balance"), blocks, median(&taken), "ms");
    });
}

fn main() {
    if let Ok(url) = std::env::var("UNSPENT_BENCH_SELECT") {
        let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
        return select_worker(
            &url,
            number("UNSPENT_BENCH_ID") as u8,
            number("UNSPENT_BENCH_TIMES"),
        );
    }
    println!("{:<42} {:>12} {:>12}", "what", "size", "median");
    let only = std::env::var("UNSPENT_BENCH_ONLY").unwrap_or_default();
    let all: [(&str, fn()); 11] = [
        ("recording", recording),
        ("balances", balances),
        ("selecting", selecting),
        ("clients", clients),
        ("questions", questions),
        ("wallets", many_wallets),
        ("block", block),
        ("strangers", strangers),
        ("invalidation", invalidation),
        ("disconnect", disconnect),
        ("peers", beside_peers),
    ];
    for (name, run) in all {
        if only.is_empty() || only == name {
            run();
        }
    }
}
