//! Random histories of blocks, forks, unmined transactions, rivals, preservations and passes of the
//! cleaner, beside the reference model: after every step the store holds what the model holds.
//!
//! `UNSPENT_TXSTORE_HISTORIES` sets how many are lived through.

use std::collections::BTreeSet;

use unspent_model::{Outpoint, Point, TxId, txstore::Spender};
use unspent_testkit::crash::Rng;
use unspent_txstore::{AcceptOutcome, CleanLimits, NewBlock, NewTx};

use crate::{desk::*, reference::Reference};

const WINDOW: u64 = 4;
const STEPS: u64 = 70;
const FIRST: u64 = 100;

struct World<'d> {
    d: &'d Desk,
    rng: Rng,
    truth: Reference,
    points: Vec<Point>,
    highest: u64,
    branch: u8,
}

impl World<'_> {
    fn step(&mut self) {
        match self.rng.below(100) {
            0..=37 => self.block(),
            38..=62 => self.unmined(),
            63..=68 => self.fork(),
            69..=72 => self.preserve(),
            73..=75 => self.ghost(),
            76..=78 => self.drop_leaf(),
            79..=81 => self.resolve(),
            _ => self.clean(),
        }
        self.check();
    }

    fn check(&self) {
        let names: Vec<TxId> = self.truth.txs.keys().copied().collect();
        let stored = self.d.store.records(names.clone()).unwrap();
        for (txid, record) in names.iter().zip(&stored) {
            self.truth.check(*txid, record.as_ref());
        }
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(self.rng.below(all.len() as u64) as usize).copied()
    }

    /// Outputs in the store that pass a test.
    fn coins(&self, is_wanted: impl Fn(&crate::reference::Known, usize) -> bool) -> Vec<Outpoint> {
        let there = self.truth.txs.values().filter(|known| known.is_there);
        let coins = there.flat_map(|known| {
            let places = (0..known.spent.len()).filter(|at| known.new.spendable[*at]);
            places.map(move |at| (known, at))
        });
        let wanted = coins.filter(|(known, at)| is_wanted(known, *at));
        wanted.map(|(known, at)| Outpoint::new(known.new.txid, at as u32)).collect()
    }

    fn make(&mut self, coins: &[Outpoint]) -> Option<NewTx> {
        let mut inputs = BTreeSet::new();
        for _ in 0..1 + self.rng.below(2) {
            inputs.extend(self.pick(coins));
        }
        if inputs.is_empty() {
            return None;
        }
        let inputs: Vec<_> = inputs.into_iter().collect();
        let outputs: Vec<bool> =
            (0..1 + self.rng.below(3)).map(|_| self.rng.below(6) > 0).collect();
        Some(NewTx::from_tx(&raw(&inputs, &outputs, self.d.new_salt())))
    }

    fn unmined(&mut self) {
        let free = self.coins(|known, at| {
            known.spent[at].is_none() && !known.is_conflicting && !known.new.is_coinbase
        });
        let Some(new) = self.make(&free) else { return };
        let height = self.truth.height().max(1);
        assert!(matches!(self.d.accept(&new, height), AcceptOutcome::Accepted(_)));
        self.truth.accept(&new, height);
    }

    /// A spend by somebody who never comes, or comes late in a block.
    fn ghost(&mut self) {
        let free = self.coins(|known, at| {
            known.spent[at].is_none() && !known.is_conflicting && !known.new.is_coinbase
        });
        let Some(coin) = self.pick(&free) else { return };
        let by = Spender { tx: TxId(self.rng.hash()), vin: 0 };
        let height = self.truth.height().max(1);
        self.d.spend(coin, by, height).unwrap();
        self.truth.spend(coin, by, height);
    }

    /// Known transactions whose parents are all mined, in an order in which a block may hold them.
    fn candidates(&mut self) -> Vec<NewTx> {
        let unmined = self.truth.txs.values().filter(|known| known.mined.is_none());
        let unmined = unmined.filter(|known| !known.new.is_coinbase);
        let mut left: Vec<NewTx> = unmined.map(|known| known.new.clone()).collect();
        let mut chosen: Vec<NewTx> = Vec::new();
        let mut taken: BTreeSet<Outpoint> = BTreeSet::new();
        loop {
            let is_fit = |new: &NewTx| {
                new.inputs.iter().all(|coin| {
                    let parent = self.truth.txs.get(&coin.tx);
                    let is_mined = parent.is_none_or(|parent| parent.mined.is_some())
                        || chosen.iter().any(|other| other.txid == coin.tx);
                    is_mined && !taken.contains(coin) && !self.is_spent_in_chain(*coin)
                })
            };
            let Some(at) = left.iter().position(is_fit) else { return chosen };
            let new = left.remove(at);
            if self.rng.below(3) > 0 {
                taken.extend(new.inputs.iter().copied());
                chosen.push(new);
            }
        }
    }

    fn is_spent_in_chain(&self, coin: Outpoint) -> bool {
        let mined = self.truth.txs.values().filter(|known| known.mined.is_some());
        mined.into_iter().any(|known| known.new.inputs.contains(&coin))
    }

    fn block(&mut self) {
        let mut txs = self.candidates();
        let mut taken: BTreeSet<Outpoint> =
            txs.iter().flat_map(|new| new.inputs.iter().copied()).collect();
        // New ones, some of them against unmined rivals.
        for _ in 0..self.rng.below(3) {
            let mined = self.coins(|known, _| known.mined.is_some());
            let free: Vec<_> = mined
                .into_iter()
                .filter(|coin| !taken.contains(coin) && !self.is_spent_in_chain(*coin))
                .collect();
            let Some(new) = self.make(&free) else { break };
            taken.extend(new.inputs.iter().copied());
            txs.push(new);
        }
        self.apply(txs);
    }

    fn apply(&mut self, txs: Vec<NewTx>) {
        let height = self.points.last().map_or(FIRST, |point| point.height + 1);
        let mut all = vec![coinbase(self.d.new_salt(), 1 + self.rng.below(3) as usize)];
        if self.rng.below(2) == 0 {
            all.push(self.d.fresh(1 + self.rng.below(3) as usize));
        }
        all.extend(txs);
        let point = Point { height, slot: height, hash: block_hash(height, self.branch) };
        let parent = self.points.last().map(|point| point.hash);
        self.d.store.apply_block(NewBlock { point, parent, txs: all.clone() }).unwrap();
        self.points.push(point);
        self.highest = self.highest.max(height);
        self.truth.apply(height, &all);
    }

    fn fork(&mut self) {
        let possible = self.truth.height().saturating_sub(self.highest.saturating_sub(WINDOW));
        let possible = possible.min(self.points.len().saturating_sub(1) as u64);
        let depth = self.rng.below(possible + 1);
        for _ in 0..depth {
            self.points.pop();
            self.truth.undo();
        }
        let to = *self.points.last().unwrap();
        assert_eq!(self.d.store.roll_back(Some(to)).unwrap().blocks as u64, depth);
        self.branch = self.branch.wrapping_add(1);
    }

    fn preserve(&mut self) {
        let there: Vec<TxId> =
            self.truth.txs.values().filter(|k| k.is_there).map(|k| k.new.txid).collect();
        let Some(txid) = self.pick(&there) else { return };
        let until = self.truth.height() + self.rng.below(8);
        self.d.store.preserve(vec![txid], until).unwrap();
        self.truth.preserve(txid, until);
    }

    fn drop_leaf(&mut self) {
        let leaves = self
            .truth
            .txs
            .values()
            .filter(|k| k.is_there && k.mined.is_none() && k.spent.iter().all(Option::is_none));
        let leaves: Vec<TxId> = leaves.map(|known| known.new.txid).collect();
        let Some(txid) = self.pick(&leaves) else { return };
        self.d.store.drop_unmined(txid).unwrap();
        self.truth.drop_unmined(txid);
    }

    /// An unmined transaction loses by word of an operator.
    fn resolve(&mut self) {
        let unmined = self.truth.txs.values().filter(|k| k.is_there && k.mined.is_none());
        let unmined: Vec<TxId> = unmined.map(|known| known.new.txid).collect();
        let Some(txid) = self.pick(&unmined) else { return };
        let height = self.truth.height().max(1);
        let losers = self.d.store.set_conflicting(vec![txid], height).unwrap();
        assert_eq!(losers, self.truth.descendants(BTreeSet::from([txid])));
        self.truth.condemn(BTreeSet::from([txid]), height);
    }

    fn clean(&mut self) {
        let before = self.truth.deleted;
        let chunk = 1 + self.rng.below(6) as usize;
        let report = self.d.store.clean(CleanLimits { chunk, most: usize::MAX }).unwrap();
        self.truth.clean();
        assert_eq!(report.deleted, self.truth.deleted - before, "{report:?}");
        assert_eq!(self.d.store.status().unwrap().due_backlog, 0);
    }
}

fn live_through(d: Desk, seed: u64) -> (Desk, usize) {
    let d = d.with(windows(WINDOW));
    let truth = Reference::new(WINDOW);
    let (rng, points) = (Rng::new(seed), Vec::new());
    eprintln!("seed {seed}");
    let mut world = World { d: &d, rng, truth, points, highest: 0, branch: 1 };
    world.apply(Vec::new());
    for _ in 0..STEPS {
        world.step();
    }
    // Whatever is stable goes once the chain has grown, and nothing else.
    for _ in 0..2 * WINDOW + 1 {
        world.apply(Vec::new());
    }
    world.clean();
    world.check();
    let deleted = world.truth.deleted;
    (d, deleted)
}

fn histories(usual: u64) -> u64 {
    let asked = std::env::var("UNSPENT_TXSTORE_HISTORIES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn random_histories_equal_the_reference_on_sqlite() {
    let deleted: usize = (0..histories(60)).map(|seed| live_through(Desk::sqlite(), seed).1).sum();
    assert!(deleted > 500, "only {deleted} were deleted");
}

#[test]
fn random_histories_equal_the_reference_on_postgresql() {
    let mut deleted = 0;
    for seed in 0..histories(12) {
        let Some(d) = Desk::postgres() else { return };
        deleted += live_through(d, 1_000_000 + seed).1;
    }
    assert!(deleted > 100, "only {deleted} were deleted");
}
