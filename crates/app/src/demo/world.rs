//! The simulated chain of the demonstration, and its block files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use bitcoin::{Amount, Block, OutPoint, ScriptBuf, TxOut, consensus::encode::serialize};
use unspent_chain::{CoinState, Reader};
use unspent_model::{Network, Outpoint, TxId};
use unspent_networks::bitcoin::framing;
use unspent_sim::{ChainSim, Coin, Reorg};

use crate::fault::Fault;

/// The network that the simulator speaks.
pub(crate) const NETWORK: Network = Network::BitcoinRegtest;
/// Blocks until the first coinbase may be spent.
const QUIET_BLOCKS: u32 = 101;
/// Blocks with payments in them.
const BUSY_BLOCKS: u32 = 200;
/// Random payments per busy block; about every third spends another one's output.
const PAYMENTS: usize = 8;
/// The shop is paid in every so many blocks.
const SHOP_EVERY: u32 = 5;
/// Blocks that the competing branch replaces.
const FORK_DEPTH: u32 = 6;

/// A chain, a shop with an address on it, and block files.
pub(crate) struct World {
    sim: ChainSim,
    shop: ScriptBuf,
    blocks: PathBuf,
}

impl World {
    /// A chain of a few hundred blocks.
    pub(crate) fn new(seed: u64, blocks: &Path) -> anyhow::Result<Self> {
        let mut sim = ChainSim::new(seed);
        let shop = sim.new_script();
        sim.mine(QUIET_BLOCKS);
        for turn in 0..BUSY_BLOCKS {
            if turn.is_multiple_of(SHOP_EVERY) {
                let price = Amount::from_sat(10_000 + 250 * u64::from(turn));
                let payment = TxOut { value: price, script_pubkey: shop.clone() };
                let payment = sim.pay(&[payment], Amount::from_sat(400))?;
                sim.submit(payment)?;
            }
            sim.submit_random(PAYMENTS);
            sim.mine_block_from_mempool()?;
        }
        fs::create_dir_all(blocks)
            .with_context(|| format!("can't make the folder {}", blocks.display()))?;
        Ok(Self { sim, shop, blocks: blocks.to_owned() })
    }

    /// Blocks of the active chain, without the first.
    pub(crate) fn height(&self) -> u32 {
        self.sim.height()
    }

    /// The shop's raw address.
    pub(crate) fn shop(&self) -> &[u8] {
        self.shop.as_bytes()
    }

    /// Writes the active chain as a node would.
    pub(crate) fn write_chain(&self) -> anyhow::Result<PathBuf> {
        self.write("blk00000.dat", self.sim.active_blocks().map(|block| &block.block))
    }

    /// Mines a longer branch beside the last blocks and makes it the active one.
    pub(crate) fn reorganise(&mut self) -> anyhow::Result<Reorg> {
        Ok(self.sim.fork(FORK_DEPTH)?)
    }

    /// Writes the competing branch, newest block first: files hold blocks in any order.
    pub(crate) fn write_branch(&self, reorg: &Reorg) -> anyhow::Result<PathBuf> {
        let blocks = reorg.new.iter().rev().filter_map(|hash| self.sim.block(hash));
        self.write("blk00001.dat", blocks.map(|block| &block.block))
    }

    fn write<'a>(
        &self,
        name: &str,
        blocks: impl Iterator<Item = &'a Block>,
    ) -> anyhow::Result<PathBuf> {
        let magic = framing::magic(NETWORK).ok_or_else(|| Fault::bug("regtest has a magic"))?;
        let mut bytes = Vec::new();
        for block in blocks {
            let raw = serialize(block);
            bytes.extend_from_slice(&magic);
            bytes.extend_from_slice(&u32::try_from(raw.len())?.to_le_bytes());
            bytes.extend_from_slice(&raw);
        }
        let path = self.blocks.join(name);
        fs::write(&path, bytes).with_context(|| format!("can't write {}", path.display()))?;
        Ok(path)
    }

    /// A coin that both branches spend, each by another transaction; else one that goes with the
    /// old branch.
    pub(crate) fn contested_coin(&self, reorg: &Reorg) -> Option<Outpoint> {
        let old = reorg.old.iter().filter_map(|hash| self.sim.block(hash));
        let mut txs = old.flat_map(|block| &block.block.txdata);
        let spent_twice = reorg.double_spent.first().map(|(old, _)| *old);
        let (tx, is_victim) = match spent_twice {
            Some(victim) => (txs.find(|tx| tx.compute_txid() == victim)?, true),
            None => (txs.next()?, false),
        };
        Some(if is_victim {
            model(&tx.input.first()?.previous_output)
        } else {
            model(&OutPoint::new(tx.compute_txid(), 0))
        })
    }

    /// Compares the index with the simulator's own truth, coin by coin; says how many there are.
    pub(crate) fn compare(&self, reader: &Reader) -> anyhow::Result<u64> {
        let truth = self.sim.coins();
        let stored = reader.digest()?.coins;
        if stored != truth.len() as u64 {
            let message = format!("the index has {stored} coins, the simulator {}", truth.len());
            return Err(Fault::bug(message).into());
        }
        for (outpoint, coin) in truth {
            if !agrees(&reader.coin(&model(outpoint))?, coin) {
                let message = format!("the index and the simulator differ on {outpoint}");
                return Err(Fault::bug(message).into());
            }
        }
        Ok(stored)
    }
}

fn agrees(stored: &CoinState, truth: &Coin) -> bool {
    let CoinState::Unspent(record) = stored else { return false };
    record.output.addr == truth.output.script_pubkey.as_bytes()
        && record.output.lovelace == truth.output.value.to_sat()
        && record.output.is_coinbase == truth.coinbase
        && record.born.block_number == u64::from(truth.height)
}

fn model(outpoint: &OutPoint) -> Outpoint {
    use bitcoin::hashes::Hash;
    Outpoint::new(TxId(outpoint.txid.to_byte_array()), outpoint.vout)
}
