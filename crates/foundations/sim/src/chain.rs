//! A small world: a tree of valid blocks, one active branch, its coins and its mempool.
//!
//! Invariants: `coins` is always the unspent set of the active branch; every block in the tree was
//! valid on its parent; the active branch is a longest one, the first seen among equals. Scripts
//! are not run: a coin of a simulated address needs its own witness, any other script is taken on
//! trust, so that wallets outside may send signed transactions. Relative lock times aren't
//! modelled.

use std::collections::{BTreeMap, HashMap, HashSet};

use bitcoin::{Amount, Block, BlockHash, OutPoint, ScriptBuf, Transaction, Txid};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::block::{self, Draft, WEIGHT_FOR_TRANSACTIONS, subsidy};
use crate::coins::{self, Coin, Coins, ConnectError, TxError, Undo};
use crate::mempool::{Mempool, Unconfirmed};
use crate::script::{address_script, unlocking_witness};

/// A block and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimBlock {
    /// The block itself.
    pub block: Block,
    /// Hash of its header.
    pub hash: BlockHash,
    /// Blocks below it, genesis being at 0.
    pub height: u32,
}

/// A block without children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tip {
    /// Hash of its header.
    pub hash: BlockHash,
    /// Blocks below it: genesis is at 0.
    pub height: u32,
    /// Whether it is the tip of the active branch.
    pub active: bool,
}

/// What a transaction pushed out when it entered the mempool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The transaction that entered.
    pub txid: Txid,
    /// Those that it replaced, with their descendants, in order of arrival.
    pub replaced: Vec<Unconfirmed>,
}

/// Why a transaction didn't enter the mempool. The mempool is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// It waits there already.
    #[error("the transaction is already in the mempool")]
    AlreadyKnown,
    /// It can't be in the next block.
    #[error("the transaction can't be mined: {0}")]
    Invalid(#[from] TxError),
    /// It spends what others spend, without paying more than all of them together.
    #[error("it conflicts with the mempool; pay a fee above {to_beat} to replace what is there")]
    FeeTooLow {
        /// Fees of all transactions that would go.
        to_beat: Amount,
    },
}

/// The simulated chain. See the crate's front page for an example.
#[derive(Debug)]
pub struct ChainSim {
    pub(crate) rng: ChaCha8Rng,
    pub(crate) mempool: Mempool,
    coins: Coins,
    tree: HashMap<BlockHash, SimBlock>,
    arrivals: Vec<BlockHash>,
    active: Vec<BlockHash>,
    undos: Vec<Undo>,
    nonces: BTreeMap<ScriptBuf, u64>,
    next_nonce: u64,
    genesis_time: u32,
}

impl ChainSim {
    /// A chain that holds regtest's genesis only.
    pub fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // From the seed: chains of different seeds share no address.
        let next_nonce = rng.random();
        let block = block::genesis();
        let (hash, genesis_time) = (block.block_hash(), block.header.time);
        Self {
            rng,
            mempool: Mempool::default(),
            coins: Coins::new(),
            tree: HashMap::from([(hash, SimBlock { block, hash, height: 0 })]),
            arrivals: vec![hash],
            active: vec![hash],
            undos: Vec::new(),
            nonces: BTreeMap::new(),
            next_nonce,
            genesis_time,
        }
    }

    /// Height of the active tip.
    pub fn height(&self) -> u32 {
        u32::try_from(self.undos.len()).unwrap_or(u32::MAX)
    }

    /// Hash of the active tip.
    pub fn tip(&self) -> BlockHash {
        self.active.last().copied().unwrap_or_else(|| block::genesis().block_hash())
    }

    /// The active block at `height`.
    pub fn block_at(&self, height: u32) -> Option<&SimBlock> {
        self.tree.get(self.active.get(usize::try_from(height).ok()?)?)
    }

    /// Any block of the tree, on whichever branch.
    pub fn block(&self, hash: &BlockHash) -> Option<&SimBlock> {
        self.tree.get(hash)
    }

    /// The active branch, genesis first.
    pub fn active_blocks(&self) -> impl Iterator<Item = &SimBlock> {
        self.active.iter().filter_map(|hash| self.tree.get(hash))
    }

    /// Every block ever mined, in order of making: what a node's block files would hold.
    pub fn all_blocks(&self) -> impl Iterator<Item = &SimBlock> {
        self.arrivals.iter().filter_map(|hash| self.tree.get(hash))
    }

    /// The tip of each branch, oldest first.
    pub fn tips(&self) -> Vec<Tip> {
        let parents: HashSet<_> =
            self.all_blocks().map(|b| b.block.header.prev_blockhash).collect();
        self.all_blocks()
            .filter(|b| !parents.contains(&b.hash))
            .map(|b| Tip { hash: b.hash, height: b.height, active: b.hash == self.tip() })
            .collect()
    }

    /// The truth: every unspent output at the active tip, without unspendable ones.
    pub fn coins(&self) -> &Coins {
        &self.coins
    }

    /// Unconfirmed transactions.
    pub fn mempool(&self) -> &Mempool {
        &self.mempool
    }

    /// A new address of the simulator's own wallet, never used before.
    pub fn new_script(&mut self) -> ScriptBuf {
        let nonce = self.next_nonce;
        self.next_nonce = nonce.wrapping_add(1);
        let script = address_script(nonce);
        self.nonces.insert(script.clone(), nonce);
        script
    }

    /// The nonce behind one of our own addresses.
    pub(crate) fn nonce(&self, script: &ScriptBuf) -> Option<u64> {
        self.nonces.get(script).copied()
    }

    /// The output at `outpoint`, confirmed or not, that nothing confirmed has spent.
    pub(crate) fn coin(&self, outpoint: &OutPoint) -> Option<Coin> {
        let unconfirmed = || self.mempool.output(outpoint, self.height().saturating_add(1));
        self.coins.get(outpoint).cloned().or_else(unconfirmed)
    }

    /// Mines `n` blocks with nothing but a coinbase, leaving the mempool alone.
    pub fn mine(&mut self, n: u32) {
        for _ in 0..n {
            // A block of a coinbase alone takes the subsidy and can't be refused.
            let _ = self.mine_with(Vec::new());
        }
    }

    /// Mines all that waits in the mempool, as far as it fits into one block.
    pub fn mine_block_from_mempool(&mut self) -> Result<BlockHash, ConnectError> {
        let mut weight = 0_u64;
        // Ends at the first that doesn't fit: one left out could be the parent of those behind it.
        let fits = self.mempool.iter().take_while(|entry| {
            weight = weight.saturating_add(entry.tx.weight().to_wu());
            weight <= WEIGHT_FOR_TRANSACTIONS
        });
        let chosen = fits.map(|entry| entry.tx.clone()).collect();
        self.mine_with(chosen)
    }

    /// Mines one block of exactly these transactions, each valid after those before it. What they
    /// contradict in the mempool goes. On an error nothing has changed.
    pub fn mine_with(&mut self, transactions: Vec<Transaction>) -> Result<BlockHash, ConnectError> {
        let height = self.height().saturating_add(1);
        let fees = self.fees(&transactions, height)?;
        let draft = Draft {
            parent: self.tip(),
            height,
            time: block::time_at(self.genesis_time, height),
            reward: subsidy(height).checked_add(fees).ok_or(ConnectError::Reward)?,
            extra_nonce: self.next_nonce,
            payout: self.new_script(),
        };
        let txids: Vec<_> = transactions.iter().map(Transaction::compute_txid).collect();
        let block = block::assemble(draft, transactions, &txids);
        let hash = block.block_hash();
        self.connect(SimBlock { block, hash, height })?;
        Ok(hash)
    }

    /// Fees of transactions that fit into a block together and may spend each other's outputs.
    fn fees(&self, transactions: &[Transaction], height: u32) -> Result<Amount, ConnectError> {
        let mut born = Coins::new();
        let mut fees = Amount::ZERO;
        let weight: u64 = transactions.iter().map(|tx| tx.weight().to_wu()).sum();
        if weight > WEIGHT_FOR_TRANSACTIONS {
            return Err(ConnectError::TooHeavy { weight });
        }
        for (index, tx) in (1_usize..).zip(transactions) {
            let find = |outpoint: &OutPoint| {
                born.get(outpoint).or_else(|| self.coins.get(outpoint)).cloned()
            };
            let fee = coins::check(tx, height, find)
                .and_then(|fee| self.check_witnesses(tx, find).map(|()| fee))
                .map_err(|source| ConnectError::Transaction { index, source })?;
            fees = fees.checked_add(fee).ok_or(ConnectError::Reward)?;
            born.extend(coins::born(tx, height));
        }
        Ok(fees)
    }

    /// Coins of simulated addresses must carry the address's own witness.
    fn check_witnesses(
        &self,
        tx: &Transaction,
        find: impl Fn(&OutPoint) -> Option<Coin>,
    ) -> Result<(), TxError> {
        for input in &tx.input {
            let coin = find(&input.previous_output);
            let nonce = coin.and_then(|coin| self.nonce(&coin.output.script_pubkey));
            if nonce.is_some_and(|nonce| input.witness != unlocking_witness(nonce)) {
                return Err(TxError::WrongWitness(input.previous_output));
            }
        }
        Ok(())
    }

    /// Puts a block on top of the active tip and settles the mempool with it.
    pub(crate) fn connect(&mut self, next: SimBlock) -> Result<(), ConnectError> {
        self.undos.push(coins::connect(&mut self.coins, &next.block, next.height)?);
        self.active.push(next.hash);
        for tx in &next.block.txdata {
            self.mempool.remove(&tx.compute_txid());
            let losers: Vec<_> = self.mempool.conflicts(tx).iter().map(|e| e.txid).collect();
            for loser in losers {
                self.mempool.remove(&loser);
            }
        }
        // A block that a change of branch brings back arrived long ago.
        if !self.tree.contains_key(&next.hash) {
            self.arrivals.push(next.hash);
            self.tree.insert(next.hash, next);
        }
        Ok(())
    }

    /// Takes the active tip back and returns it; genesis stays. The mempool isn't touched.
    pub(crate) fn disconnect(&mut self) -> Option<SimBlock> {
        coins::disconnect(&mut self.coins, self.undos.pop()?);
        self.tree.get(&self.active.pop()?).cloned()
    }

    /// Offers a transaction to the mempool. One that conflicts with waiting ones replaces them,
    /// and all that descends from them, if it pays more than all of those together.
    pub fn submit(&mut self, tx: Transaction) -> Result<Accepted, SubmitError> {
        let entry = self.judge(tx)?;
        let losers: Vec<_> = self.mempool.conflicts(&entry.tx).into_iter().cloned().collect();
        let spends_loser = |input: &bitcoin::TxIn| {
            losers.iter().any(|loser| loser.txid == input.previous_output.txid)
        };
        // It would push out its own parent. Core refuses that too
        // (`bad-txns-spends-conflicting-tx`).
        if let Some(orphaned) = entry.tx.input.iter().find(|input| spends_loser(input)) {
            return Err(TxError::MissingInput(orphaned.previous_output).into());
        }
        let to_beat = losers.iter().map(|loser| loser.fee).sum();
        // Rule 3 of BIP 125: nobody mines less for taking the replacement.
        if !losers.is_empty() && entry.fee <= to_beat {
            return Err(SubmitError::FeeTooLow { to_beat });
        }
        for loser in &losers {
            self.mempool.remove(&loser.txid);
        }
        let txid = entry.txid;
        self.mempool.insert(entry);
        Ok(Accepted { txid, replaced: losers })
    }

    /// Drops a waiting transaction and all that descends from it, as a full node may; returns what
    /// went, in order of arrival. It may be submitted again.
    pub fn evict(&mut self, txid: &Txid) -> Vec<Unconfirmed> {
        let family: Vec<_> = self.mempool.family(txid).into_iter().cloned().collect();
        for entry in &family {
            self.mempool.remove(&entry.txid);
        }
        family
    }

    /// Like [`ChainSim::submit`], but first come, first served; says whether it went in.
    pub(crate) fn offer(&mut self, tx: Transaction) -> bool {
        self.mempool.conflicts(&tx).is_empty() && self.submit(tx).is_ok()
    }

    fn judge(&self, tx: Transaction) -> Result<Unconfirmed, SubmitError> {
        let txid = tx.compute_txid();
        if self.mempool.get(&txid).is_some() {
            return Err(SubmitError::AlreadyKnown);
        }
        let find = |outpoint: &OutPoint| self.coin(outpoint);
        let fee = coins::check(&tx, self.height().saturating_add(1), find)?;
        self.check_witnesses(&tx, find)?;
        Ok(Unconfirmed { tx, txid, fee })
    }
}
