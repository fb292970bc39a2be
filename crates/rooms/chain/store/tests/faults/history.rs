//! A scripted history from a seed: a tree of blocks, the steps through it, and what must be true.
//!
//! What must be true is worked out here with plain maps, without the code under test; only the form
//! of the fingerprint is the documented one.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use unspent_chain::{Options, SetDigest, StoreKind};
use unspent_model::{
    BlockHash, Network, Outpoint, Point, TxId,
    chain::{Asset, Block, Era, Header, Output, Tx, Work},
};
use unspent_testkit::crash::Rng;

pub const NETWORK: Network = Network::CardanoPreview;

/// A block of the tree, by its place in [`History::blocks`].
pub type BlockId = usize;

/// The coins as of a block.
type Coins = BTreeMap<Outpoint, Output>;

pub struct Node {
    pub block: Block<Output>,
    pub parent: Option<BlockId>,
    coins: Coins,
}

/// One step of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Close and open again, keeping this many blocks from now on.
    Open { window: u64 },
    /// Catch up with these blocks.
    Bulk(Vec<BlockId>),
    /// One block, near the tip.
    Apply(BlockId),
    /// Back to this block.
    Rollback(BlockId),
    /// One pruning pass.
    Prune,
}

/// What the worker notes while it is at a step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    Idle = 0,
    Open = 1,
    Bulk = 2,
    Apply = 3,
    Rollback = 4,
    Prune = 5,
}

impl Phase {
    pub const ALL: [Self; 6] =
        [Self::Idle, Self::Open, Self::Bulk, Self::Apply, Self::Rollback, Self::Prune];

    pub fn from_number(number: u64) -> Self {
        Self::ALL[number as usize]
    }
}

impl Step {
    pub fn phase(&self) -> Phase {
        match self {
            Self::Open { .. } => Phase::Open,
            Self::Bulk(_) => Phase::Bulk,
            Self::Apply(_) => Phase::Apply,
            Self::Rollback(_) => Phase::Rollback,
            Self::Prune => Phase::Prune,
        }
    }
}

/// How large a history is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub self_contained: bool,
    pub txs_per_block: u64,
    pub bulk_blocks: usize,
}

/// A tree of blocks and the way through it.
pub struct History {
    pub nodes: Vec<Node>,
    pub steps: Vec<Step>,
    pub shape: Shape,
    pub store: StoreKind,
    rng: Rng,
    /// Where the script stands while it is being written.
    at: Option<BlockId>,
}

impl History {
    fn new(seed: u64, shape: Shape) -> Self {
        let (nodes, steps, store) = (Vec::new(), Vec::new(), StoreKind::Classic);
        Self { nodes, steps, shape, store, rng: Rng::new(seed), at: None }
    }

    /// The same on another kind of store.
    pub fn on(self, store: StoreKind) -> Self {
        Self { store, ..self }
    }

    /// Everything at length: bulk with several flushes, blocks, rollbacks of several depths onto
    /// other branches, pruning behind a window that became smaller, reopening, bulk again.
    pub fn long(seed: u64, self_contained: bool) -> Self {
        let shape = Shape { self_contained, txs_per_block: 24, bulk_blocks: 5 };
        let mut history = Self::new(seed, shape);
        history.open(30).bulk(24).apply(6).rollback(3).apply(4).open(9);
        for _ in 0..8 {
            history.prune().apply(1);
        }
        history.rollback(7).apply(9).open(9).prune().bulk(12).rollback(2).apply(3);
        history.rollback(5).apply(2).open(4).prune().prune().prune().apply(2).prune();
        history
    }

    /// Each kind of step at least once, in as few writes as possible.
    pub fn short(seed: u64, self_contained: bool) -> Self {
        let shape = Shape { self_contained, txs_per_block: 4, bulk_blocks: 2 };
        let mut history = Self::new(seed, shape);
        history.open(6).bulk(4).apply(4).rollback(2).apply(1).open(2).prune().apply(1).rollback(1);
        history.apply(1);
        history
    }

    /// A store worth damaging: tables on disk, then blocks that are in the log only.
    pub fn stored(seed: u64, self_contained: bool) -> Self {
        let shape = Shape { self_contained, txs_per_block: 8, bulk_blocks: 5 };
        let mut history = Self::new(seed, shape);
        history.open(30).bulk(10).open(30).apply(6);
        history
    }

    fn open(&mut self, window: u64) -> &mut Self {
        self.steps.push(Step::Open { window });
        self
    }

    fn prune(&mut self) -> &mut Self {
        self.steps.push(Step::Prune);
        self
    }

    fn bulk(&mut self, blocks: usize) -> &mut Self {
        let blocks = (0..blocks).map(|_| self.grow()).collect();
        self.steps.push(Step::Bulk(blocks));
        self
    }

    fn apply(&mut self, blocks: usize) -> &mut Self {
        for _ in 0..blocks {
            let block = self.grow();
            self.steps.push(Step::Apply(block));
        }
        self
    }

    fn rollback(&mut self, depth: usize) -> &mut Self {
        for _ in 0..depth {
            self.at = self.nodes[self.at.unwrap()].parent;
        }
        self.steps.push(Step::Rollback(self.at.unwrap()));
        self
    }

    /// Puts a new block on top of where the script stands.
    fn grow(&mut self) -> BlockId {
        let parent = self.at;
        let before = parent.map(|parent| &self.nodes[parent]);
        let height = before.map_or(0, |node| node.block.header.point.height + 1);
        let slot = before.map_or(0, |node| node.block.header.point.slot + 1 + self.rng.below(40));
        let mut coins = before.map_or_else(Coins::new, |node| node.coins.clone());
        let header = Header {
            point: Point { height, slot, hash: BlockHash(self.rng.hash()) },
            parent: before.map_or(BlockHash([0; 32]), |node| node.block.header.point.hash),
            era: Era::Conway,
            is_boundary: false,
            epoch: Some(slot / 100),
            time: 1_700_000_000 + slot,
            work: Work::default(),
        };
        let count = 2 + self.rng.below(self.shape.txs_per_block);
        let txs = (0..count).map(|at| self.transaction(at == 0, &mut coins)).collect();
        self.nodes.push(Node { block: Block { header, txs }, parent, coins });
        self.at = Some(self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Spends coins of the set, which holds those of the same block too, and creates others.
    fn transaction(&mut self, mints: bool, coins: &mut Coins) -> Tx<Output> {
        let id = TxId(self.rng.hash());
        let mut spends = Vec::new();
        let wanted = if mints { 0 } else { self.rng.below(4) };
        for _ in 0..wanted {
            let from = Outpoint::new(TxId(self.rng.hash()), 0);
            // Any coin: the next at or after a random place.
            let found = coins.range(from..).next().or_else(|| coins.iter().next());
            let Some(outpoint) = found.map(|(outpoint, _)| *outpoint) else { break };
            coins.remove(&outpoint);
            spends.push(outpoint);
        }
        let is_invalid = !spends.is_empty() && self.rng.below(12) == 0;
        let outputs = if is_invalid { 1 } else { 1 + self.rng.below(4) as u32 };
        let creates: Vec<_> = (0..outputs).map(|index| (index, self.output(is_invalid))).collect();
        for (index, output) in &creates {
            coins.insert(Outpoint::new(id, *index), output.clone());
        }
        Tx { id, spends, creates, is_invalid, is_coinbase: false }
    }

    fn output(&mut self, is_collateral_return: bool) -> Output {
        let owner = self.rng.below(12) as u8;
        let assets = (0..self.rng.below(3) as u8).map(|n| Asset {
            policy: [n; 28],
            name: vec![n; usize::from(n)],
            quantity: 1 + self.rng.below(1 << 40),
        });
        let assets = assets.collect();
        Output {
            addr: vec![owner; 29],
            value: 1 + self.rng.below(1 << 45),
            assets,
            inline_datum: (self.rng.below(3) == 0).then(|| self.rng.hash().to_vec()),
            is_collateral_return,
            payment_credential: (owner < 8).then_some([owner; 28]),
            ..Output::default()
        }
    }

    /// The options in force when `window` blocks are kept.
    pub fn options(&self, window: u64) -> Options {
        Options {
            prune_depth: if self.shape.self_contained { window / 2 } else { window },
            rollback_window: window,
            prune_batch_size: 1,
            self_contained: self.shape.self_contained,
            block_cache: 4 << 20,
            write_buffer: 4 << 20,
            bulk_blocks: self.shape.bulk_blocks,
            store: self.store,
            ..Options::for_network(NETWORK)
        }
    }

    /// The window in force once `done` steps are finished and the next begins.
    pub fn window(&self, done: usize) -> u64 {
        let opened = self.steps.iter().take(done + 1).rev();
        let mut opened = opened.filter_map(|step| match step {
            Step::Open { window } => Some(*window),
            _ => None,
        });
        opened.next().unwrap()
    }

    pub fn point(&self, at: BlockId) -> Point {
        self.nodes[at].block.header.point
    }

    /// The block with this point.
    pub fn find(&self, point: Point) -> Option<BlockId> {
        self.nodes.iter().position(|node| node.block.header.point == point)
    }

    /// Where the chain stands after `done` steps.
    pub fn tip_after(&self, done: usize) -> Option<BlockId> {
        self.steps.iter().take(done).fold(None, |at, step| match step {
            Step::Bulk(blocks) => blocks.last().copied().or(at),
            Step::Apply(block) | Step::Rollback(block) => Some(*block),
            Step::Open { .. } | Step::Prune => at,
        })
    }

    /// Every tip that a crash may leave when `done` steps were acknowledged: the one before the step
    /// under way, the one after it, and the block boundaries between.
    pub fn possible_tips(&self, done: usize) -> Vec<Option<BlockId>> {
        let before = self.tip_after(done);
        let mut tips = vec![before];
        match self.steps.get(done) {
            Some(Step::Bulk(blocks)) => tips.extend(blocks.iter().map(|block| Some(*block))),
            Some(Step::Apply(block)) => tips.push(Some(*block)),
            Some(Step::Rollback(target)) => {
                let mut at = before;
                while at != Some(*target) {
                    at = self.nodes[at.unwrap()].parent;
                    tips.push(at);
                }
            }
            Some(Step::Open { .. } | Step::Prune) | None => {}
        }
        tips
    }

    /// The fingerprint that the set must have at `tip`.
    pub fn digest(&self, tip: Option<BlockId>) -> SetDigest {
        let empty = Coins::new();
        let coins = tip.map_or(&empty, |tip| &self.nodes[tip].coins);
        let mut hash = Sha256::new();
        let (mut value, mut asset_entries) = (0, 0);
        for (outpoint, output) in coins {
            value += u128::from(output.value);
            asset_entries += output.assets.len() as u64;
            hash.update(outpoint.tx.0);
            hash.update((outpoint.index as u16).to_be_bytes());
            hash.update((output.addr.len() as u16).to_be_bytes());
            hash.update(&output.addr);
            hash.update(output.value.to_be_bytes());
            for asset in &output.assets {
                hash.update(((28 + asset.name.len()) as u16).to_be_bytes());
                hash.update(asset.policy);
                hash.update(&asset.name);
                hash.update(asset.quantity.to_be_bytes());
            }
        }
        let coins = coins.len() as u64;
        let at = tip.map(|tip| self.point(tip));
        SetDigest { at, coins, value, asset_entries, sha256: hash.finalize().into() }
    }
}
