//! A stream of raw blocks of modern Bitcoin's shape, for benchmarks.
//!
//! First come genesis and a hundred empty blocks, so that coinbases mature; then fan-out blocks,
//! until the coins to start with exist; then, without end, blocks of the mixture in `mix`. Blocks
//! are not kept: only what is needed to pick coins is, 56 bytes for each unspent one.
//!
//! Invariants: every block is valid on the one before it; no output but OP_RETURN is worth
//! nothing. Deliberately absent: forks, unconfirmed transactions and every script but P2WSH of the
//! simulator's own addresses and OP_RETURN. While the chain is younger than an age that the
//! mixture asks for, the fan-out's coins stand in for older ones.
//!
//! ```
//! use unspent_sim::shape::{ModernChain, Shape};
//!
//! let shape = Shape { start_coins: 2_000, transactions: 100 };
//! let block = ModernChain::new(1, shape).find(|block| block.stats.is_modern()).unwrap();
//! assert!(block.stats.inputs > 100 && block.bytes.len() > 10_000);
//! ```

mod build;
mod mix;
mod pool;

use std::collections::{HashSet, VecDeque};

use bitcoin::{Amount, BlockHash, ScriptBuf, Transaction, Txid, consensus};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::block::{self, COINBASE_MATURITY, Draft, WEIGHT_FOR_TRANSACTIONS, subsidy};
use crate::script::address_script;
use pool::{Pool, PoolCoin};

/// How large the chain is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Coins that exist before the first block of the mixture. Halvings leave enough for more than
    /// 60 million; when they don't, the stream goes on with fewer.
    pub start_coins: u32,
    /// Mean number of transactions in a block of the mixture.
    pub transactions: u32,
}

impl Default for Shape {
    /// Five million coins, then blocks of 3,864 transactions.
    fn default() -> Self {
        Self { start_coins: 5_000_000, transactions: 3_864 }
    }
}

/// What a block of the stream is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Genesis and the empty blocks that let coinbases mature.
    #[default]
    Empty,
    /// Making the coins to start with.
    FanOut,
    /// The mixture.
    Modern,
}

/// What a block really holds, the coinbase's inputs and outputs left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// What the block is for.
    pub phase: Phase,
    /// Transactions without the coinbase.
    pub transactions: u32,
    /// Their inputs.
    pub inputs: u32,
    /// Their outputs, OP_RETURN included.
    pub outputs: u32,
    /// Of those, OP_RETURN outputs.
    pub op_returns: u32,
    /// Different scripts among the spendable outputs.
    pub distinct_scripts: u32,
    /// Inputs by age in blocks: the same block, 1-10, 11-144, 145-2016, older.
    pub spent_by_age: [u32; 5],
}

impl Stats {
    /// Whether this is a block of the mixture.
    pub fn is_modern(&self) -> bool {
        self.phase == Phase::Modern
    }

    /// Inputs that spend an output of the same block.
    pub fn same_block_spends(&self) -> u32 {
        let [same_block, ..] = self.spent_by_age;
        same_block
    }

    fn count_spend(&mut self, age: u32) {
        let [same_block, rest @ ..] = &mut self.spent_by_age;
        let class = mix::AGE_LIMITS.iter().position(|limit| age <= *limit).unwrap_or(3);
        let slot = if age == 0 { Some(same_block) } else { rest.get_mut(class) };
        if let Some(slot) = slot {
            *slot = slot.saturating_add(1);
        }
        self.inputs = self.inputs.saturating_add(1);
    }

    fn count_outputs(&mut self, outputs: usize, note: bool) {
        let outputs = u32::try_from(outputs).unwrap_or(u32::MAX);
        self.transactions = self.transactions.saturating_add(1);
        self.outputs = self.outputs.saturating_add(outputs);
        self.op_returns = self.op_returns.saturating_add(u32::from(note));
    }
}

/// One block of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawBlock {
    /// Its height, genesis being at 0.
    pub height: u32,
    /// Hash of its header.
    pub hash: BlockHash,
    /// The block in consensus encoding.
    pub bytes: Vec<u8>,
    /// What it holds.
    pub stats: Stats,
}

/// The stream: an endless iterator of blocks, genesis first.
#[derive(Debug)]
pub struct ModernChain {
    rng: ChaCha8Rng,
    shape: Shape,
    height: u32,
    tip: Option<BlockHash>,
    genesis_time: u32,
    pool: Pool,
    /// Coinbases that aren't in the pool yet, and what the fan-out left of some, with their
    /// heights, oldest first.
    coinbases: VecDeque<(u32, PoolCoin)>,
    first_nonce: u64,
    next_nonce: u64,
    /// What the fan-out has yet to make.
    missing_coins: u32,
    making: Making,
}

/// The block in the making.
#[derive(Debug, Default)]
struct Making {
    transactions: Vec<Transaction>,
    txids: Vec<Txid>,
    weight: u64,
    fees: u64,
    stats: Stats,
    scripts: HashSet<u64>,
}

impl ModernChain {
    /// A new stream, at genesis.
    pub fn new(seed: u64, shape: Shape) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let first_nonce: u64 = rng.random();
        Self {
            rng,
            shape,
            height: 0,
            tip: None,
            genesis_time: block::genesis().header.time,
            pool: Pool::default(),
            coinbases: VecDeque::new(),
            first_nonce,
            next_nonce: first_nonce.wrapping_add(u64::from(mix::HOT_ADDRESSES)),
            missing_coins: shape.start_coins,
            making: Making::default(),
        }
    }

    /// The script of the hot address of this rank, from 0 (which gets 1.9 % of all spendable
    /// outputs) to 999.
    pub fn hot_script(&self, rank: u32) -> ScriptBuf {
        address_script(self.hot_nonce(rank))
    }

    /// How many coins the stream could spend in its next block or later, immature ones left out.
    pub fn coins(&self) -> usize {
        self.pool.len()
    }

    fn hot_nonce(&self, rank: u32) -> u64 {
        self.first_nonce.wrapping_add(u64::from(rank))
    }

    fn is_hot(&self, nonce: u64) -> bool {
        nonce.wrapping_sub(self.first_nonce) < u64::from(mix::HOT_ADDRESSES)
    }

    fn new_nonce(&mut self) -> u64 {
        let nonce = self.next_nonce;
        self.next_nonce = nonce.wrapping_add(1);
        nonce
    }

    fn genesis(&mut self) -> RawBlock {
        let genesis = block::genesis();
        let hash = genesis.block_hash();
        self.tip = Some(hash);
        self.pool.shelve();
        let bytes = consensus::serialize(&genesis);
        RawBlock { height: 0, hash, bytes, stats: Stats::default() }
    }

    fn next_block(&mut self, parent: BlockHash) -> RawBlock {
        self.height = self.height.saturating_add(1);
        let phase = self.phase();
        match phase {
            Phase::Empty => {}
            Phase::FanOut => self.fan_out(),
            Phase::Modern => self.fill(),
        }
        self.making.stats.phase = phase;
        let block = self.finish(parent);
        if phase == Phase::FanOut {
            self.pool.mark_fan_out(self.height);
        }
        block
    }

    fn phase(&self) -> Phase {
        if self.height <= COINBASE_MATURITY {
            Phase::Empty
        } else if self.missing_coins > 0 {
            Phase::FanOut
        } else {
            Phase::Modern
        }
    }

    /// Fills a block with transactions of the mixture, a quarter more or less than the mean.
    fn fill(&mut self) {
        self.release_coinbases();
        let spread = self.shape.transactions / 4;
        let fewest = self.shape.transactions.saturating_sub(spread);
        let most = self.shape.transactions.saturating_add(spread);
        let wanted = self.rng.random_range(fewest..=most);
        // How heavy the next one is shows only once it is made, and its coins are taken then.
        let limit = WEIGHT_FOR_TRANSACTIONS - build::HEAVIEST_TRANSACTION;
        for _ in 0..wanted {
            if self.making.weight > limit || !self.modern_transaction() {
                break;
            }
        }
    }

    /// Mature coinbases that the fan-out left over become coins like any other.
    fn release_coinbases(&mut self) {
        let mature = self.height.saturating_sub(COINBASE_MATURITY);
        while let Some(&(height, coin)) = self.coinbases.front().filter(|(at, _)| *at <= mature) {
            self.coinbases.pop_front();
            self.pool.add_at(height, coin);
        }
    }

    /// Turns what was made into a block and starts afresh.
    fn finish(&mut self, parent: BlockHash) -> RawBlock {
        let mut made = std::mem::take(&mut self.making);
        let nonce = self.new_nonce();
        let reward = subsidy(self.height).to_sat().saturating_add(made.fees);
        let draft = Draft {
            parent,
            height: self.height,
            time: block::time_at(self.genesis_time, self.height),
            payout: address_script(nonce),
            reward: Amount::from_sat(reward),
            extra_nonce: nonce,
        };
        let block = block::assemble(draft, made.transactions, &made.txids);
        let hash = block.block_hash();
        if let Some(coinbase) = block.txdata.first() {
            let txid = coinbase.compute_txid();
            let coin = PoolCoin { txid, vout: 0, sats: reward, nonce };
            self.coinbases.push_back((self.height, coin));
        }
        self.tip = Some(hash);
        self.pool.shelve();
        made.stats.distinct_scripts = u32::try_from(made.scripts.len()).unwrap_or(u32::MAX);
        let bytes = consensus::serialize(&block);
        RawBlock { height: self.height, hash, bytes, stats: made.stats }
    }
}

impl Iterator for ModernChain {
    type Item = RawBlock;

    fn next(&mut self) -> Option<RawBlock> {
        Some(match self.tip {
            None => self.genesis(),
            Some(parent) => self.next_block(parent),
        })
    }
}
