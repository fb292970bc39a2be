//! The simulated network: valid Bitcoin (regtest) blocks, a mempool, fee bumps, double spends and
//! reorganisations, all from one seed.
//!
//! | module | keeps |
//! |---|---|
//! | `world` | the simulator and the list of what was done to it, kept in a file |
//! | `command` | what can be done to it, as one line of text each |
//! | `reader` | the port: sources, the origin, the node |
//!
//! Invariant: the network is a function of its seed and the list of commands. A command is in the
//! file before anybody can see what it did, so a network that is opened again has forgotten nothing
//! that a room may have heard of.
//!
//! ```
//! use unspent_source::sim::SimNetwork;
//!
//! let network = SimNetwork::in_memory(7);
//! network.mine(101)?; // the first coinbase is mature now
//! let payment = network.pay(&bitcoin::ScriptBuf::from_bytes(vec![0x51]), 25_000, 300)?;
//! let bumped = network.bump(payment, 500)?;
//! network.mine_mempool()?;
//! network.fork(2)?; // two blocks go, three come
//! assert_ne!(payment, bumped);
//! assert_eq!(network.height(), 103);
//! # Ok::<(), unspent_source::sim::SimError>(())
//! ```

mod command;
mod reader;
mod world;

use std::{
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

use bitcoin::{BlockHash, ScriptBuf, Transaction, Txid};
use unspent_sim::ChainSim;

pub use self::world::SimError;
use self::{
    command::{Command, Did},
    world::World,
};
use crate::wakeup::lock;

/// A simulated network. Cheap to clone; all clones are the same network.
#[derive(Clone)]
pub struct SimNetwork {
    shared: Arc<SharedWorld>,
}

struct SharedWorld {
    world: Mutex<World>,
    news: Condvar,
}

impl SimNetwork {
    /// A network that is forgotten with the process.
    pub fn in_memory(seed: u64) -> Self {
        Self::of(World::in_memory(seed))
    }

    /// A network whose commands are kept in a folder, and carried out again when it is opened.
    ///
    /// # Errors
    ///
    /// [`SimError`] when the file can't be used, is damaged, or is of another seed.
    pub fn open(folder: &Path, seed: u64) -> Result<Self, SimError> {
        Ok(Self::of(World::open(folder, seed)?))
    }

    fn of(world: World) -> Self {
        Self { shared: Arc::new(SharedWorld { world: Mutex::new(world), news: Condvar::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        lock(&self.shared.world)
    }

    fn carry_out(&self, command: &Command) -> Result<Did, SimError> {
        let did = self.lock().carry_out(command);
        self.shared.news.notify_all();
        did
    }

    /// Looks at the simulator itself: its truth for tests. Readers wait meanwhile.
    pub fn look<T>(&self, at: impl FnOnce(&ChainSim) -> T) -> T {
        at(&self.lock().sim)
    }

    /// Height of the tip.
    pub fn height(&self) -> u64 {
        self.look(|sim| u64::from(sim.height()))
    }

    /// What was done so far, counted.
    pub fn commands(&self) -> u64 {
        self.lock().done()
    }

    /// Mines blocks with nothing but a coinbase.
    ///
    /// # Errors
    ///
    /// [`SimError`]; the network is unchanged.
    pub fn mine(&self, blocks: u32) -> Result<(), SimError> {
        self.carry_out(&Command::Mine(blocks)).map(|_| ())
    }

    /// Mines one block of what waits in the mempool.
    ///
    /// # Errors
    ///
    /// [`SimError`]; the network is unchanged.
    pub fn mine_mempool(&self) -> Result<BlockHash, SimError> {
        self.carry_out(&Command::Block)?;
        Ok(self.look(ChainSim::tip))
    }

    /// Mines blocks of random traffic, each with up to `payments` transactions.
    ///
    /// # Errors
    ///
    /// [`SimError`]; the network is unchanged.
    pub fn mine_busy(&self, blocks: u32, payments: u32) -> Result<(), SimError> {
        self.carry_out(&Command::Busy(blocks, payments)).map(|_| ())
    }

    /// Pays `sats` to a script out of the network's own coins; the payment waits in the mempool.
    ///
    /// # Errors
    ///
    /// [`SimError`] when there are no mature coins; the mempool is unchanged.
    pub fn pay(&self, script: &ScriptBuf, sats: u64, fee: u64) -> Result<Txid, SimError> {
        self.txid(&Command::Pay { script: script.clone(), sats, fee })
    }

    /// Replaces a waiting transaction of the network's own by one that pays `extra` more.
    ///
    /// # Errors
    ///
    /// [`SimError`]; the mempool is unchanged.
    pub fn bump(&self, txid: Txid, extra: u64) -> Result<Txid, SimError> {
        self.txid(&Command::Bump { txid, extra })
    }

    /// Mines a block with a transaction that spends the same coin as a waiting one, back to the
    /// network itself.
    ///
    /// # Errors
    ///
    /// [`SimError`]; the network is unchanged.
    pub fn double_spend(&self, txid: Txid, fee: u64) -> Result<Txid, SimError> {
        self.txid(&Command::DoubleSpend { txid, fee })
    }

    /// Drops a waiting transaction and what descends from it.
    ///
    /// # Errors
    ///
    /// [`SimError`]; the mempool is unchanged.
    pub fn evict(&self, txid: Txid) -> Result<(), SimError> {
        self.carry_out(&Command::Evict(txid)).map(|_| ())
    }

    /// Replaces the top `depth` blocks by `depth + 1` others.
    ///
    /// # Errors
    ///
    /// [`SimError`]; the network is unchanged.
    pub fn fork(&self, depth: u32) -> Result<(), SimError> {
        self.carry_out(&Command::Fork(depth)).map(|_| ())
    }

    /// Hands a transaction to the network's node.
    ///
    /// # Errors
    ///
    /// [`SimError::Refused`] when the node won't have it.
    pub fn submit(&self, tx: &Transaction) -> Result<Txid, SimError> {
        self.txid(&Command::Submit(tx.clone()))
    }

    fn txid(&self, command: &Command) -> Result<Txid, SimError> {
        match self.carry_out(command)? {
            Did::Transaction(txid) => Ok(txid),
            Did::Nothing => Err(SimError::Refused("it made no transaction".into())),
        }
    }

    /// Waits for anything to happen; the lock is free meanwhile.
    fn wait<'a>(&self, world: MutexGuard<'a, World>, patience: Duration) -> MutexGuard<'a, World> {
        let waited = self.shared.news.wait_timeout(world, patience);
        waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
    }
}

impl std::fmt::Debug for SimNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimNetwork").field("height", &self.height()).finish_non_exhaustive()
    }
}
