//! The chain room: every unspent output of a chain, right through rollback, pruning and crashes.
//!
//! | to | see |
//! |---|---|
//! | know what lies on disk | [`schema`], the only page that knows the column families |
//! | know what a block does | `unspent_model::chain`, which decides; this crate carries out |
//! | write | [`ChainIndex`]: one writer, block by block or in [`BulkWriter`] |
//! | ask | [`Reader`]: any number, each answer from one moment |
//!
//! Invariants: the disk always shows a block boundary; a refused call changes nothing; what can be
//! undone is undone exactly; bytes that are damaged are an error, never an answer.
//!
//! Deliberately absent: async, SQL, sockets, an abstraction over the storage engine, and any
//! in-memory truth that the disk does not have.
//!
//! ```
//! use unspent_chain::{ChainIndex, Options, RollbackTarget, prepare};
//! use unspent_model::{BlockHash, Network, Outpoint, Point, TxId, chain::*};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let network = Network::BitcoinRegtest;
//! let options = Options::for_network(network);
//! let (mut index, _) = ChainIndex::open(folder.path(), network, options, &[])?;
//!
//! let coin = Output { addr: vec![0x51], value: 5_000, ..Output::default() };
//! let mint = Tx {
//!     id: TxId([1; 32]),
//!     spends: vec![],
//!     creates: vec![(0, coin)],
//!     is_invalid: false,
//!     is_coinbase: true,
//! };
//! let header = Header {
//!     point: Point { height: 0, slot: 0, hash: BlockHash([9; 32]) },
//!     parent: BlockHash([0; 32]),
//!     era: Era::Bitcoin,
//!     is_boundary: false,
//!     epoch: None,
//!     time: 1_700_000_000,
//!     work: Work::default(),
//! };
//! index.apply(prepare(Block { header, txs: vec![mint] }))?;
//! assert_eq!(index.reader().digest()?.value, 5_000);
//!
//! index.rollback(RollbackTarget::Origin)?;
//! assert_eq!(index.reader().digest()?.coins, 0);
//! # Ok(()) }
//! ```

mod acknowledged;
mod apply;
mod beside;
mod bulk;
pub mod codec;
mod coin;
mod cursor;
mod db;
mod digest;
mod error;
mod forgotten;
mod index;
mod indexes;
mod key_order;
mod memory;
mod mmr;
mod open;
mod options;
mod pending;
mod points;
mod prune;
mod query;
mod ranges;
mod rollback;
pub mod schema;
mod served;
mod slots;
mod snapshot;
mod sorter;
mod spends;
mod telemetry;
mod verify;

pub use apply::{ApplyOutcome, CoinCounts};
pub use bulk::BulkWriter;
pub use coin::{Coin, PreparedBlock, SharedCoin, prepare};
pub use cursor::PageCursor;
pub use digest::SetDigest;
pub use error::{ApplyError, Kind, OpenError, QueryError, RollbackError, StoreError};
pub use index::{ChainIndex, OpenReport, RolledBack};
pub use indexes::name::{IndexName, Indexes};
pub use mmr::prove::{BlockRoot, CheckedProof, PROOF_LIMIT};
pub use options::{IndexingStrategy, Options, OptionsError, StoreKind};
pub use prune::Pruned;
pub use query::{CoinPage, CoinState, OwnerBalance, PAGE_LIMIT, PageOrder, Reader, StoreStatus};
pub use rollback::RollbackTarget;
pub use schema::Owner;
pub use snapshot::ChainSnapshot;
pub use verify::{FINDINGS_LIMIT, Finding, VerifyReport};
