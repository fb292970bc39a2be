//! A node's transactions with their spenders, and deletion that orphans no child.
//!
//! A [`TxStore`] keeps every transaction that can still matter, and nothing else, in one SQLite
//! file or one PostgreSQL schema. It is told of transactions and of blocks; when all outputs of a
//! transaction are spent, it is deleted as soon as no child and no reorganisation can need it.
//!
//! What may happen to an output ([`unspent_model::txstore`] has the table as data):
//!
//! | output | spend | unspend by its spender | its spender is deleted | freeze | unfreeze, reassign |
//! |---|---|---|---|---|---|
//! | unspent | spent | - | - | frozen | refused |
//! | spent by (child, input) | same child: no change; other: refused | unspent | spent, pruned | refused | refused |
//! | spent, pruned | refused, the same child too | refused | - | refused | refused |
//! | frozen | refused | - | - | refused | unspent |
//!
//! When a transaction goes (decided by [`unspent_model::txstore::deletion`]):
//!
//! | transaction | goes |
//! |---|---|
//! | unmined, locked, preserved, reassigned, or with a coin | not as long as it is that |
//! | mined on the best chain, all outputs spent | `retention` blocks after the event that finished it, when it and each child lie `safety` blocks deep, or the child was deleted before |
//! | conflicting | `retention` blocks after it lost, leaves first |
//!
//! | module | keeps |
//! |---|---|
//! | [`store`] | the open database, its network, its windows, the tip |
//! | [`new_tx`] | transactions and blocks before they are stored |
//! | [`create`] | new transactions, alone or with what they spend |
//! | [`spend`] | spending and taking back |
//! | [`mined`] | which blocks hold a transaction |
//! | [`block`], [`rollback`] | the road of a follower: whole blocks, forward and back |
//! | [`conflicts`] | losers, their descendants, and who wins |
//! | [`holds`] | frozen, reassigned, locked and preserved |
//! | [`clean`] | the cleaner |
//! | [`query`] | records, outputs, unmined ones, and why a record is still there |
//! | [`repair`] | what an operator does about records that would stay for ever |
//! | [`status`] | figures |
//! | [`changes`] | what happened, for those who write events of it |
//! | `working`, `write_rows` | the records of one change: read once, written once |
//! | `awaited` | parents that wait for a child to be mined |
//! | `codec` | bytes of the packed columns |
//!
//! Invariants: no transaction is deleted while a child is unmined, not deep enough or unknown; no
//! output that was spent in the best chain becomes a coin again; what may go is gone after one pass
//! of the cleaner.
//!
//! ```
//! use unspent_model::{BlockHash, Network, txstore::MinedIn};
//! use unspent_sql::Options;
//! use unspent_txstore::{
//!     AcceptOutcome, CleanLimits, CreateTerms, NewTx, Settings, SpendOptions, TxStore,
//! };
//! # use bitcoin::{Amount, OutPoint, ScriptBuf, Transaction, TxIn, TxOut, absolute, transaction};
//! # let tx = |spends: OutPoint| Transaction {
//! #     version: transaction::Version::TWO,
//! #     lock_time: absolute::LockTime::ZERO,
//! #     input: vec![TxIn { previous_output: spends, ..TxIn::default() }],
//! #     output: vec![TxOut { value: Amount::from_sat(5), script_pubkey: ScriptBuf::new() }],
//! # };
//! # let parent = tx(OutPoint { vout: 7, ..OutPoint::null() });
//! # let child = tx(OutPoint { txid: parent.compute_txid(), vout: 0 });
//! # let folder = std::env::temp_dir().join(format!("unspent-txstore-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! # let url = format!("sqlite:{}", folder.join("txstore.db").display());
//! let open = |url: &str| -> Result<TxStore, Box<dyn std::error::Error>> {
//!     let (network, settings) = (Network::BitcoinRegtest, Settings::default());
//!     Ok(TxStore::open(&url.parse()?, network, settings, Options::default())?)
//! };
//! let store = open(&url)?;
//! let block = |height| MinedIn { height, hash: BlockHash([1; 32]), on_best_chain: true };
//! store.create(vec![NewTx::from_tx(&parent)], CreateTerms::mined(block(900)))?;
//!
//! // The child spends the parent's only output at height 1000 and is mined at 1001.
//! let child = NewTx::from_tx(&child);
//! let unmined = CreateTerms::unmined(1000);
//! let accepted = store.accept(vec![child.clone()], unmined, SpendOptions::default())?;
//! assert!(matches!(accepted[..], [AcceptOutcome::Accepted(_)]));
//! store.set_mined(vec![child.txid], block(1001))?;
//!
//! // At 1288 the parent is due, but its child lies only 287 blocks deep.
//! store.set_height(1288)?;
//! assert_eq!(store.clean(CleanLimits::default())?.deleted, 0);
//! let why = store.why(NewTx::from_tx(&parent).txid)?.expect("it is still there");
//! assert_eq!(why.from_height, Some(1289));
//! store.set_height(1289)?;
//! assert_eq!(store.clean(CleanLimits::default())?.deleted, 1);
//! # drop(store);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Deliberately absent: validation (a node has done it), a network connection, threads.

mod awaited;
pub mod block;
pub mod changes;
pub mod clean;
mod codec;
pub mod conflicts;
pub mod create;
pub mod error;
pub mod holds;
pub mod mined;
pub mod new_tx;
pub mod query;
pub mod repair;
pub mod rollback;
pub mod schema;
mod served;
pub mod spend;
pub mod status;
pub mod store;
mod working;
mod write_rows;

pub use block::AppliedBlock;
pub use changes::{OutboxLine, OutboxPage, Tallies};
pub use clean::{CleanLimits, CleanReport};
pub use create::{AcceptOutcome, CreateOutcome, CreateTerms};
pub use error::{Kind, TxStoreError};
pub use new_tx::{NewBlock, NewTx, output_hash};
pub use query::{OutputStatus, StoredTx, UnminedTx, WhyKept};
pub use repair::{UnknownPage, UnknownSpender};
pub use rollback::RolledBack;
pub use spend::{InputOutcome, InputSpend, SpendOptions, SpendOutcome, TxSpends, Unspend};
pub use status::StoreStatus;
pub use store::{Settings, TxStore};
