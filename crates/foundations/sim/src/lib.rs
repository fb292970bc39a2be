//! Seeded, valid Bitcoin (regtest) chains, mempools and reorganisations.
//!
//! Two makers of blocks that a real node accepts without a single signature:
//!
//! - [`ChainSim`]: a small world for stories and tests. It mines, pays, bumps fees, double spends
//!   and reorganises, and keeps its own truth of what is unspent.
//! - [`shape::ModernChain`]: a stream of raw blocks of modern Bitcoin's shape, for benchmarks.
//!
//! Invariant: the same seed gives the same bytes on every machine. Randomness is ChaCha8 over
//! integers only; nothing depends on the order of a hash map. Deliberately absent: I/O, clocks,
//! floating point, signatures, a network.
//!
//! ```
//! use bitcoin::{Amount, TxOut};
//! use unspent_sim::ChainSim;
//!
//! let mut sim = ChainSim::new(7);
//! sim.mine(101); // the first coinbase is mature now
//! let shop = TxOut { value: Amount::from_sat(25_000), script_pubkey: sim.new_script() };
//! let payment = sim.pay(&[shop], Amount::from_sat(300))?;
//! let txid = sim.submit(payment)?.txid;
//! let bumped = sim.bump_fee(&txid, Amount::from_sat(500))?;
//! assert_eq!(bumped.replaced[0].txid, txid);
//! sim.mine_block_from_mempool()?;
//! assert_eq!(sim.height(), 102);
//!
//! let reorg = sim.fork(2)?; // two blocks go, three come
//! assert_eq!((reorg.old.len(), reorg.new.len(), sim.height()), (2, 3, 103));
//! assert_eq!(sim.tips().len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
mod chain;
mod coins;
mod fork;
mod mempool;
mod pay;
mod script;
pub mod shape;

pub use block::{COINBASE_MATURITY, HALVING_INTERVAL, MAX_BLOCK_WEIGHT, genesis, subsidy};
pub use chain::{Accepted, ChainSim, SimBlock, SubmitError, Tip};
pub use coins::{Coin, Coins, ConnectError, TxError};
pub use fork::{ForkError, Reorg};
pub use mempool::{Mempool, Unconfirmed};
pub use pay::PayError;
pub use script::{address_script, is_unspendable, unlocking_witness, witness_script};
