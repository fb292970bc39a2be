//! Reorganisations: competing branches that are coherent by construction.
//!
//! A new branch is made by going back to the fork point and mining again through the mempool's own
//! checks, so it can hold nothing invalid. Afterwards what was disconnected and what waited before
//! is offered to the mempool again, as a node does.

use bitcoin::{Amount, BlockHash, Transaction, Txid};
use rand::RngExt;

use crate::chain::{ChainSim, SimBlock};
use crate::coins::ConnectError;

/// Why no branch was made. Nothing has changed, except where a variant says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The fork point would lie below genesis.
    #[error("a fork of depth {depth} is impossible at height {height}")]
    TooDeep {
        /// Blocks to be taken back.
        depth: u32,
        /// Height of the active tip.
        height: u32,
    },
    /// No block has this hash.
    #[error("block {0} is not in the tree")]
    UnknownBlock(BlockHash),
    /// A block of the tree didn't connect: a defect of the simulator itself.
    #[error("a stored block didn't connect; the simulation can't continue: {0}")]
    Connect(#[from] ConnectError),
}

/// What a change of branch did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reorg {
    /// Height of the last common block.
    pub ancestor: u32,
    /// Blocks of the branch that was active before, lowest first.
    pub old: Vec<BlockHash>,
    /// Blocks of the other branch, lowest first.
    pub new: Vec<BlockHash>,
    /// Transactions of the old branch that the new one holds too.
    pub kept: Vec<Txid>,
    /// Transactions of the old branch beside those that spend the same coin in the new one.
    pub double_spent: Vec<(Txid, Txid)>,
    /// Transactions that only the new branch holds, double spends apart.
    pub fresh: Vec<Txid>,
}

impl ChainSim {
    /// Replaces the top `depth` blocks by `depth + 1` others, which becomes the active branch.
    pub fn fork(&mut self, depth: u32) -> Result<Reorg, ForkError> {
        self.fork_of_length(depth, depth.saturating_add(1))
    }

    /// Mines a branch of `length` blocks from `depth` below the tip. It holds some of the old
    /// branch's transactions, double spends of others and new ones. It becomes active only when
    /// `length > depth`; otherwise it stays aside and the world is as before.
    pub fn fork_of_length(&mut self, depth: u32, length: u32) -> Result<Reorg, ForkError> {
        let height = self.height();
        if depth > height {
            return Err(ForkError::TooDeep { depth, height });
        }
        let waiting = self.mempool.drain();
        // After the mempool was emptied: what waits may spend coins of the blocks that go.
        let old = self.take_back(depth);
        let mut reorg = Reorg { ancestor: self.height(), ..Reorg::default() };
        reorg.old = old.iter().map(|block| block.hash).collect();
        self.mine_branch(&transactions(&old), length, &mut reorg)?;
        // As nodes have it: of two branches of one length the first seen stays.
        if length > depth {
            self.refill(transactions(&old).into_iter().chain(waiting));
        } else {
            // What the side branch left over spends coins that exist there alone.
            self.mempool.drain();
            self.take_back(length);
            self.connect_all(old)?;
            self.refill(waiting);
        }
        Ok(reorg)
    }

    /// Makes the branch of `tip` win again by mining on it until it is the longest.
    pub fn revive(&mut self, tip: &BlockHash) -> Result<Reorg, ForkError> {
        let branch = self.path_from_active(tip)?;
        let ancestor = branch.first().map_or(self.height(), |b| b.height.saturating_sub(1));
        let target = self.height().saturating_add(u32::from(!branch.is_empty()));
        let waiting = self.mempool.drain();
        let old = self.take_back(self.height().saturating_sub(ancestor));
        let mut reorg = Reorg { ancestor, ..Reorg::default() };
        reorg.old = old.iter().map(|block| block.hash).collect();
        reorg.new = branch.iter().map(|block| block.hash).collect();
        self.connect_all(branch)?;
        // On equal length the other branch, seen first, would stay: it takes one block more.
        while self.height() < target {
            reorg.new.push(self.mine_with(Vec::new())?);
        }
        self.refill(transactions(&old).into_iter().chain(waiting));
        Ok(reorg)
    }

    /// Blocks from the active branch, which is left out, up to `tip`, lowest first.
    fn path_from_active(&self, tip: &BlockHash) -> Result<Vec<SimBlock>, ForkError> {
        let mut path = Vec::new();
        let mut hash = *tip;
        loop {
            let block = self.block(&hash).ok_or(ForkError::UnknownBlock(hash))?;
            if self.block_at(block.height).is_some_and(|active| active.hash == hash) {
                path.reverse();
                return Ok(path);
            }
            hash = block.block.header.prev_blockhash;
            path.push(block.clone());
        }
    }

    /// Disconnects `depth` blocks and returns them, lowest first.
    fn take_back(&mut self, depth: u32) -> Vec<SimBlock> {
        let mut blocks: Vec<_> = (0..depth).map_while(|_| self.disconnect()).collect();
        blocks.reverse();
        blocks
    }

    fn connect_all(&mut self, blocks: Vec<SimBlock>) -> Result<(), ForkError> {
        blocks.into_iter().try_for_each(|block| Ok(self.connect(block)?))
    }

    fn refill(&mut self, candidates: impl IntoIterator<Item = Transaction>) {
        for tx in candidates {
            self.offer(tx);
        }
    }

    /// Spreads the old transactions over the new blocks: of four, two stay, one is double spent,
    /// one is left out. Those that need something left out can't enter, by the mempool's checks.
    fn mine_branch(
        &mut self,
        old: &[Transaction],
        length: u32,
        reorg: &mut Reorg,
    ) -> Result<(), ForkError> {
        let per_block = old.len().div_ceil(usize::try_from(length.max(1)).unwrap_or(1)).max(1);
        let mut groups = old.chunks(per_block);
        let mut turn: u8 = self.rng.random_range(0..4);
        for _ in 0..length {
            for tx in groups.next().unwrap_or_default() {
                match turn {
                    0 | 1 => self.keep(tx, reorg),
                    2 => self.contradict(tx, reorg),
                    _ => {}
                }
                turn = (turn + 1) % 4;
            }
            self.add_fresh(reorg);
            reorg.new.push(self.mine_block_from_mempool()?);
        }
        Ok(())
    }

    fn keep(&mut self, tx: &Transaction, reorg: &mut Reorg) {
        if self.offer(tx.clone()) {
            reorg.kept.push(tx.compute_txid());
        }
    }

    fn contradict(&mut self, tx: &Transaction, reorg: &mut Reorg) {
        let fee = Amount::from_sat(self.rng.random_range(200..2_000));
        let Ok(rival) = self.double_spend(tx, fee) else { return };
        let rival_id = rival.compute_txid();
        if self.offer(rival) {
            reorg.double_spent.push((tx.compute_txid(), rival_id));
        }
    }

    fn add_fresh(&mut self, reorg: &mut Reorg) {
        let Some(tx) = self.random_payment() else { return };
        let txid = tx.compute_txid();
        if self.offer(tx) {
            reorg.fresh.push(txid);
        }
    }
}

/// All transactions but the coinbases, in chain order.
fn transactions(blocks: &[SimBlock]) -> Vec<Transaction> {
    blocks.iter().flat_map(|b| b.block.txdata.iter().skip(1)).cloned().collect()
}
