//! Random histories: SQLite, PostgreSQL and a plain model agree on everything after each step,
//! and value is conserved.

use std::{
    cell::Cell,
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use bitcoin::{OutPoint, Transaction, Txid, hashes::Hash as _};
use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::StdRng};
use unspent_model::{Micros, Outpoint, TxId};
use unspent_testkit::wallet::model::{Model, ModelRefused, SeenHow, WorldTx};
use unspent_wallet::{
    TxBatch, TxSource, WalletError, history::TxListing, placed_block::PlacedBlock,
    prune::PruneRequest,
};

use crate::ledger::*;

/// Histories run per test; `make soak` raises it.
fn histories() -> u64 {
    std::env::var("UNSPENT_WALLET_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000)
}

const STEPS: usize = 60;
const WORLD: usize = 24;

fn wire(txid: Txid) -> TxId {
    TxId(txid.to_byte_array())
}

fn wire_out(outpoint: OutPoint) -> Outpoint {
    Outpoint::new(wire(outpoint.txid), outpoint.vout)
}

fn world_tx(tx: &Transaction, l: &Ledger) -> WorldTx {
    let ours: Vec<_> = (0..8).map(|n| l.ours(n)).collect();
    let is_coinbase = tx.is_coinbase();
    let inputs = tx.input.iter().map(|input| wire_out(input.previous_output));
    WorldTx {
        txid: wire(tx.compute_txid()),
        inputs: if is_coinbase { Vec::new() } else { inputs.collect() },
        outputs: tx
            .output
            .iter()
            .map(|o| (o.value.to_sat(), ours.contains(&o.script_pubkey)))
            .collect(),
        is_coinbase,
    }
}

/// A tangle of transactions: few foreign coins and much reuse, so that conflicts abound.
pub fn tangle(rng: &mut StdRng, l: &Ledger, coinbases: &[Transaction]) -> Vec<Transaction> {
    let mut made: Vec<Transaction> = Vec::new();
    while made.len() < WORLD {
        let mut inputs: Vec<OutPoint> = Vec::new();
        for _ in 0..rng.random_range(1..4) {
            let outpoint = match rng.random_range(0..10) {
                0..3 => foreign(rng.random_range(0..5)),
                3 if !coinbases.is_empty() => {
                    out(&coinbases[rng.random_range(0..coinbases.len())], 0)
                }
                _ if !made.is_empty() => {
                    let parent = &made[rng.random_range(0..made.len())];
                    out(parent, rng.random_range(0..parent.output.len() as u32))
                }
                _ => foreign(rng.random_range(0..5)),
            };
            if !inputs.contains(&outpoint) {
                inputs.push(outpoint);
            }
        }
        let scripts: Vec<_> = (0..rng.random_range(1..4))
            .map(|_| if rng.random_bool(0.6) { l.ours(rng.random_range(0..8)) } else { theirs(1) })
            .collect();
        let outputs: Vec<_> =
            scripts.iter().map(|script| (script, rng.random_range(0..50_000))).collect();
        made.push(tx(&inputs, &outputs));
    }
    made
}

struct Three {
    model: Model,
    rooms: Vec<Ledger>,
    now: i64,
    /// Model before each block, to know the height only; the chain is the ledgers' own.
    names: HashMap<TxId, Transaction>,
    checks: Cell<usize>,
}

/// The audit adds up a wallet's whole history, which takes as long as everything else together: it
/// runs after every so many steps and after the last.
const AUDIT_EVERY: usize = 5;

impl Three {
    fn snapshot(&self, l: &Ledger) -> Vec<String> {
        let mut lines = Vec::new();
        for found in l.room.txs(l.wallet, TxListing::Latest(None), 1_000).unwrap() {
            let name = wire(found.txid);
            lines.push(format!(
                "tx {name:?} {} {:?} own={} fee={:?}",
                found.status, found.height, found.is_own, found.fee
            ));
        }
        for (replaced, by) in l.edges() {
            lines.push(format!("edge {replaced:?} {by:?}"));
        }
        for coin in l.room.all_coins(l.wallet, 0, 1_000, Micros(self.now)).unwrap() {
            let name = wire(coin.outpoint.txid);
            let spender = coin.spent_by.map(wire);
            let lock = coin.lock.map(|lock| lock.as_bytes()[0]);
            let vout = coin.outpoint.vout;
            lines.push(format!("coin {name:?}:{vout} {} {spender:?} {lock:?}", coin.amount));
        }
        lines.sort();
        lines
    }

    fn audit(&self, what: &str, l: &Ledger) {
        let differences = l.room.audit(l.wallet).unwrap();
        assert!(differences.is_empty(), "{what} on {}: {differences:#?}", l.url);
    }

    fn check(&self, what: &str) {
        self.checks.set(self.checks.get() + 1);
        let expected = self.model.snapshot(self.now);
        for l in &self.rooms {
            let found = self.snapshot(l);
            if found != expected {
                let missing: Vec<_> = expected.iter().filter(|x| !found.contains(x)).collect();
                let extra: Vec<_> = found.iter().filter(|x| !expected.contains(x)).collect();
                panic!("{what} on {}:\nmodel {missing:#?}\nroom {extra:#?}", l.url);
            }
            if self.checks.get().is_multiple_of(AUDIT_EVERY) {
                self.audit(what, l);
            }
            let balance = l.room.balance(l.wallet, 1, Micros(self.now)).unwrap();
            let (unspent, ..) = self.model.value();
            assert_eq!(balance.total(), unspent, "{what}: value is conserved");
            let tip = l.room.wallets(None).unwrap()[0].scanned.map(|place| place.height);
            assert_eq!(tip, self.model.tip, "{what}");
        }
    }

    /// Does the same to all three; they must all agree on whether it may be done.
    fn all<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &str,
        model: Result<T, ModelRefused>,
        mut room: impl FnMut(&Ledger) -> Result<T, WalletError>,
    ) {
        for l in &self.rooms {
            let done = room(l);
            match (&model, &done) {
                (Ok(expected), Ok(found)) => assert_eq!(expected, found, "{what} on {}", l.url),
                (Err(_), Err(error)) => {
                    assert_eq!(error.kind(), unspent_wallet::Kind::Refused, "{what}: {error}");
                }
                _ => panic!("{what} on {}: the model says {model:?}, the room {done:?}", l.url),
            }
        }
        self.check(what);
    }

    fn coins(&self) -> Vec<OutPoint> {
        self.names
            .values()
            .filter(|tx| self.model.knows(wire(tx.compute_txid())))
            .flat_map(|tx| (0..tx.output.len() as u32).map(move |n| out(tx, n)))
            .collect()
    }
}

/// Runs one history; hands back the server's database, to be used again.
fn one_history(seed: u64, server: Option<Ledger>) -> Option<Ledger> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut rooms = vec![Ledger::sqlite()];
    rooms.extend(server.map(Ledger::emptied));
    let script = rooms[0].ours(0);
    let coinbases: Vec<_> = (0..6).map(|n| coinbase(&script, 1_000 + n, 900 + n)).collect();
    let world = tangle(&mut rng, &rooms[0], &coinbases);
    let names = world.iter().chain(&coinbases);
    let names = names.map(|tx| (wire(tx.compute_txid()), tx.clone())).collect();
    let mut three =
        Three { model: Model::default(), rooms, now: 1_000_000, names, checks: Cell::default() };
    let mut heights: Vec<u64> = Vec::new();
    for step in 0..STEPS {
        three.now += rng.random_range(1..5) * SECOND;
        let now = three.now;
        let picked = world[rng.random_range(0..world.len())].clone();
        let what = format!("seed {seed} step {step}");
        match rng.random_range(0..20) {
            0..8 => see(&mut three, &mut rng, &picked, &what),
            8..12 => mine(&mut three, &mut rng, &world, &coinbases, &mut heights, &what),
            12 | 13 => undo(&mut three, &mut rng, &mut heights, &what),
            14 => {
                let name = wire(picked.compute_txid());
                let expected = three.model.broadcast(name);
                three.all(&format!("{what} broadcast"), expected, |l| {
                    l.room.mark_broadcast(l.wallet, picked.compute_txid(), Micros(now))
                });
            }
            15 => {
                let name = wire(picked.compute_txid());
                let expected = three.model.withdraw(name);
                three.all(&format!("{what} withdraw"), expected, |l| {
                    l.room.invalidate(l.wallet, picked.compute_txid(), Micros(now))
                });
            }
            16 | 17 => lease(&mut three, &mut rng, &what),
            18 => {
                let gone = three.model.purge(now);
                three.all(&format!("{what} purge"), Ok(gone), |l| {
                    l.room.purge_leases(None, Micros(now))
                });
            }
            _ => {
                let top = heights.last().copied().unwrap_or(0);
                let gone = three.model.prune(top, 3).len();
                three.all(&format!("{what} prune"), Ok(gone), |l| {
                    let request = PruneRequest::UpTo(top);
                    l.room.prune(l.wallet, &request, 3, Micros(now)).map(|gone| gone.len())
                });
            }
        }
    }
    three.rooms.iter().for_each(|l| three.audit(&format!("seed {seed} at the end"), l));
    three.rooms.into_iter().nth(1)
}

fn see(three: &mut Three, rng: &mut StdRng, tx: &Transaction, what: &str) {
    let now = three.now;
    let (model_how, how) = match rng.random_range(0..3) {
        0 => (SeenHow::Created, TxSource::Created { lock: None, force: false }),
        1 => (SeenHow::Relayed, TxSource::Relayed),
        _ => (SeenHow::Mempool, TxSource::Mempool),
    };
    let world = world_tx(tx, &three.rooms[0]);
    let before = three.model.clone();
    let expected = three.model.see(&world, model_how, now);
    if expected.is_err() {
        three.model = before;
    }
    three.all(&format!("{what} {how:?}"), expected, |l| {
        l.room.record(&TxBatch::one(tx.clone(), how), Micros(now)).map(drop)
    });
}

fn mine(
    three: &mut Three,
    rng: &mut StdRng,
    world: &[Transaction],
    coinbases: &[Transaction],
    heights: &mut Vec<u64>,
    what: &str,
) {
    let now = three.now;
    let height = heights.last().map_or(FIRST, |last| last + 1);
    let reward = if rng.random_bool(0.5) {
        coinbases[rng.random_range(0..coinbases.len())].clone()
    } else {
        coinbase(&theirs(9), 50, rng.next_u64())
    };
    let mut txs = vec![reward];
    for _ in 0..rng.random_range(0..4) {
        let picked = &world[rng.random_range(0..world.len())];
        if !txs.contains(picked) {
            txs.push(picked.clone());
        }
    }
    // What the block concerns is decided for the block as a whole: a spend may stand before what it
    // spends. The model sees what concerns us until nothing is added.
    let before = three.model.clone();
    let mut expected = Ok(());
    let worlds: Vec<_> = txs.iter().map(|tx| world_tx(tx, &three.rooms[0])).collect();
    let relevant = relevant(&before, &worlds);
    for (world, is_relevant) in worlds.iter().zip(relevant) {
        if is_relevant && expected.is_ok() {
            expected = three.model.see_relevant(world, SeenHow::Block(height), now);
        }
    }
    match expected {
        Ok(()) => three.model.tip = Some(height),
        Err(_) => three.model = before,
    }
    let nonce = rng.next_u32();
    three.all(&format!("{what} mine"), expected, |l| {
        let placed = l.block_of(txs.clone());
        let mut block = bitcoin::Block::clone(&placed.block);
        block.header.nonce = nonce;
        let block = PlacedBlock::of(placed.height, block);
        let applied = l.room.apply_blocks(vec![block.clone()], Micros(now))?;
        if applied.stopped.contains(&l.wallet) {
            return Err(back_before(l, height, now));
        }
        l.chain.borrow_mut().push(block);
        Ok(())
    });
    if expected.is_ok() {
        heights.push(height);
    }
}

/// The wallet couldn't take a block that contradicts what it was told: it stood still by itself.
/// The block goes again, and the wallet goes on as if it had never been.
fn back_before(l: &Ledger, height: u64, now: i64) -> WalletError {
    let reason = l.room.wallet_info(l.wallet).unwrap().stopped.unwrap().reason;
    l.room.disconnect_above(Some(height - 1), Micros(now)).unwrap();
    l.room.resume_wallet(l.wallet).unwrap();
    WalletError::Argument(reason)
}

/// Which transactions of a block concern the wallet, when all of it is looked at together.
fn relevant(model: &Model, block: &[WorldTx]) -> Vec<bool> {
    let mut found: Vec<bool> = block.iter().map(|tx| model.concerns(tx)).collect();
    loop {
        let before = found.clone();
        for (at, tx) in block.iter().enumerate() {
            let touches = block.iter().enumerate().any(|(other, parent)| {
                other != at
                    && found[other]
                    && (tx.inputs.iter().any(|input| parent.inputs.contains(input))
                        || tx.inputs.iter().any(|input| {
                            input.tx == parent.txid
                                && parent.outputs.get(input.index as usize).is_some_and(|o| o.1)
                        }))
            });
            found[at] |= touches;
        }
        if found == before {
            return found;
        }
    }
}

fn undo(three: &mut Three, rng: &mut StdRng, heights: &mut Vec<u64>, what: &str) {
    if heights.is_empty() {
        return;
    }
    let count = rng.random_range(1..4).min(heights.len());
    let kept = heights.len() - count;
    let from = heights[kept];
    heights.truncate(kept);
    let first = three.model.disconnect_from(from);
    three.model.tip = heights.last().copied();
    let (keep, now) = (heights.last().copied(), three.now);
    if let Some(first) = first {
        TORN.fetch_add(1, Ordering::Relaxed);
        let blocks: Vec<PlacedBlock> = three.rooms[0].chain.borrow()[..kept].to_vec();
        let left = blocks.iter().filter(|block| block.height >= first);
        left.for_each(|block| read_again(three, block));
    }
    three.all(&format!("{what} undo {count}, read again from {first:?}"), Ok(()), |l| {
        l.chain.borrow_mut().truncate(kept);
        l.room.disconnect_above(keep, Micros(now))?;
        l.read_again();
        Ok(())
    });
}

/// A prune was undone: the model reads a block once more.
fn read_again(three: &mut Three, block: &PlacedBlock) {
    let txs = &block.block.txdata;
    let worlds: Vec<_> = txs.iter().map(|tx| world_tx(tx, &three.rooms[0])).collect();
    let relevant = relevant(&three.model, &worlds);
    for (world, _) in worlds.iter().zip(relevant).filter(|(_, is_relevant)| *is_relevant) {
        let how = SeenHow::Block(block.height);
        three.model.see_relevant(world, how, three.now).expect("it was there before");
    }
}

fn lease(three: &mut Three, rng: &mut StdRng, what: &str) {
    let now = three.now;
    let mut all = three.coins();
    all.sort_unstable();
    if all.is_empty() {
        return;
    }
    let coins: Vec<OutPoint> =
        (0..rng.random_range(1..3)).map(|_| all[rng.random_range(0..all.len())]).collect();
    let byte = rng.random_range(1..4);
    let duration = rng.random_range(1..30) * SECOND;
    let names: Vec<Outpoint> = coins.iter().map(|coin| wire_out(*coin)).collect();
    let expected = three.model.lease(&names, [byte; 32], now, now + duration);
    three.all(&format!("{what} lease"), expected, |l| {
        let mut terms = l.terms(byte);
        terms.duration = duration;
        l.room.lease(l.wallet, &coins, terms, Micros(now)).map(drop)
    });
}

/// Reorganisations deeper than a prune that were met.
static TORN: AtomicUsize = AtomicUsize::new(0);

fn run(seeds: std::ops::Range<u64>) {
    let count = seeds.end - seeds.start;
    seeds.fold(Ledger::postgres(), |server, seed| one_history(seed, server));
    let torn = TORN.load(Ordering::Relaxed);
    assert!(torn > 0 || count < 100, "{count} histories undid no prune: they test too little");
}

#[test]
fn both_databases_and_the_model_agree_on_random_histories_first_half() {
    run(0..histories() / 2);
}

#[test]
fn both_databases_and_the_model_agree_on_random_histories_second_half() {
    run(histories() / 2..histories());
}

/// Catching up block by block equals being there, and any cutting of the chain into batches.
#[test]
fn catching_up_equals_following_live() {
    on_both(|l| {
        let mut rng = StdRng::seed_from_u64(5);
        let world = tangle(&mut rng, &l, &[]);
        let mut used: Vec<OutPoint> = Vec::new();
        for pay in &world {
            let free = pay.input.iter().all(|input| !used.contains(&input.previous_output));
            if free {
                used.extend(pay.input.iter().map(|input| input.previous_output));
                l.mempool(pay);
                l.mine(&[pay]);
            }
        }
        let late = Ledger::sqlite();
        let blocks: Vec<PlacedBlock> = l.chain.borrow().clone();
        for part in blocks.chunks(7) {
            late.room.apply_blocks(part.to_vec(), Micros(5)).unwrap();
        }
        let coins = |l: &Ledger| {
            let mut all: Vec<_> = l
                .room
                .all_coins(l.wallet, 0, 1_000, Micros(0))
                .unwrap()
                .into_iter()
                .map(|coin| (coin.outpoint, coin.amount, coin.state, coin.height, coin.spent_by))
                .collect();
            all.sort_by_key(|coin| coin.0);
            all
        };
        assert_eq!(coins(&l), coins(&late));
        assert_eq!(l.balance(), late.balance());
        late.check();
    });
}
