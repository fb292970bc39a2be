//! Bitcoin wallets: transactions, coins, leases and replacements.
//!
//! A [`WalletStore`] keeps any number of watch-only wallets in one SQLite file or one PostgreSQL
//! schema. It is told of transactions and blocks, in any order and as often as the teller likes,
//! and answers what belongs to whom. History is never lost: what loses is marked, never deleted.
//!
//! | module | keeps |
//! |---|---|
//! | [`store`] | the open database and its network |
//! | [`ids`] | by what wallets, transactions and coins are named |
//! | [`wallet_info`] | wallets, chains and addresses as they are shown |
//! | [`batch`], [`placed_block`] | transactions and blocks as they come in |
//! | [`descriptor`] | watch-only output descriptors and the scripts they stand for |
//! | [`wallets`] | wallets, accounts, addresses, the gap limit |
//! | [`additions`], [`backfill`] | accounts and scripts that come later, and their past |
//! | [`manage`] | names, archive, gap limit |
//! | [`record`] | the one entry for transactions seen anywhere |
//! | [`block`] | blocks for all wallets at once |
//! | [`reorg`] | disconnecting blocks, rewinding one wallet, comparing with a source |
//! | [`following`] | what a daemon asks of all wallets at once |
//! | [`stopped`] | wallets that can't go on, each by itself |
//! | [`lease`] | leases on coins |
//! | [`choose`] | selecting coins and leasing them in one step |
//! | [`pay`] | from amounts and addresses to a PSBT, and back as a pending transaction |
//! | [`balance`] | balances by class, at a minconf, of each account |
//! | [`past`] | what a wallet held after a block of the past |
//! | [`coins`] | coins and their derived states, by page |
//! | [`statement`] | history with a running balance |
//! | [`own_address`] | whether an address is the wallet's, and by which keys |
//! | [`freeze`] | coins that are not to be spent until somebody says so |
//! | [`history`] | transactions and their details |
//! | [`journal`] | every change and its cause |
//! | [`labels`], [`bip329`] | labels, and their exchange as BIP-329 |
//! | [`import`] | whole wallets of other programs, taken in at once |
//! | [`prune`] | removing history by hand, with the audit line kept |
//! | [`audit`] | recomputing everything from the facts and naming differences |
//!
//! Invariant: every change is planned by [`unspent_model::wallet::plan`] under the lock on the
//! wallet's own row and carried out in the same database transaction. Rules live in the model;
//! here are only statements and their order.
//!
//! ```
//! use unspent_model::{Micros, Network};
//! use unspent_sql::Options;
//! use unspent_wallet::{NewAccount, NewWallet, WalletStore};
//!
//! # let folder = std::env::temp_dir().join(format!("unspent-wallet-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! # let url = format!("sqlite:{}", folder.join("wallet.db").display());
//! let room = WalletStore::open(&url.parse()?, Network::Bitcoin, Options::default())?;
//! let xpub = "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqs\
//!             efD265TMg7usUDFdp6W1EGMcet8";
//! let receive = format!("wpkh({xpub}/<0;1>/*)");
//! let wallet = room.create_wallet(
//!     &NewWallet {
//!         name: "savings".into(),
//!         accounts: vec![NewAccount { name: "main".into(), receive, change: None }],
//!         birthday: 0,
//!         gap_limit: 20,
//!     },
//!     Micros(1_700_000_000_000_000),
//! )?;
//! assert_eq!(room.balance(wallet, 1, Micros(1_700_000_000_000_001))?.total(), 0);
//! # drop(room);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Deliberately absent: private keys, a network connection, a clock (time is an argument), threads.

pub mod additions;
mod apply_mode;
mod apply_plan;
pub mod audit;
pub mod backfill;
pub mod balance;
pub mod batch;
pub mod bip329;
pub mod birthday;
pub mod block;
pub mod choose;
pub mod coins;
pub mod descriptor;
pub mod error;
pub mod following;
pub mod freeze;
pub mod history;
pub mod ids;
pub mod import;
pub mod journal;
mod keychains;
pub mod labels;
pub mod lease;
mod load;
pub mod manage;
pub mod metrics;
pub mod own_address;
pub mod past;
pub mod pay;
pub mod placed_block;
pub mod prune;
pub mod record;
pub mod reorg;
mod route;
mod rows;
pub mod schema;
mod served;
mod settled;
pub mod slip132;
pub mod statement;
mod statistics;
pub mod stopped;
pub mod store;
pub mod wallet_info;
mod wallet_row;
pub mod wallets;
mod watch;
mod writes;

pub use batch::{BlockRef, ObservedTx, TxBatch, TxSource};
pub use error::{Kind, WalletError};
pub use ids::WalletId;
pub use store::WalletStore;
pub use wallet_info::{NewAccount, NewWallet};
