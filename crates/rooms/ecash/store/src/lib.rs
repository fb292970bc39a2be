//! Cashu and Spark payments that survive a crash at any point.
//!
//! An [`EcashStore`] keeps accounts, proofs and payments in one SQLite file or one PostgreSQL
//! schema. A payment is an entity with a machine of its own ([`unspent_model::ecash`] has all lines
//! as data, `docs/machines.md` shows them):
//!
//! | entity | lives through | ends as |
//! |---|---|---|
//! | CashuSendQuote: pays an invoice by a melt | UNPAID, PENDING | PAID, FAILED, EXPIRED |
//! | CashuSendSwap: makes a token | DRAFT, PENDING | COMPLETED, FAILED, REVERSED |
//! | CashuReceiveQuote: is paid by an invoice or a token's melt | UNPAID, PAID | COMPLETED, FAILED, EXPIRED |
//! | CashuReceiveSwap: claims a token, or takes one back | PENDING | COMPLETED, FAILED |
//! | SparkSendQuote | UNPAID, PENDING | COMPLETED, FAILED |
//! | SparkReceiveQuote | UNPAID | PAID, FAILED, EXPIRED |
//!
//! | module | keeps |
//! |---|---|
//! | [`store`] | the open database, its key and seed, accounts, keysets, the worker's lease |
//! | [`accounts`] | an account's new name, new address and end |
//! | [`scans`] | counters that another copy of the database has used, and what it got for them |
//! | [`create`], [`inputs`] | new entities, and the proofs they take |
//! | [`apply`] | the one way in which an entity changes |
//! | [`event`] | what may happen, with what comes along |
//! | [`flow`] | which question comes next, and what its answer means |
//! | [`query`] | balances, lists, journals |
//! | [`audit`] | whether everything in a database agrees |
//! | [`details`], [`entities`] | what an entity knows; its rows |
//! | [`seal`] | secrets at rest |
//! | `proofs` | rows of proofs, and counters |
//!
//! Invariants: entity, proofs, transaction, counters and journal change together or not at all; a
//! repeated event changes nothing; no output is made twice from one counter; proofs that a payment
//! holds are let go only once the mint calls its quote unpaid and them unspent.
//!
//! ```
//! use std::sync::Arc;
//! use unspent_ecash::{
//!     AccountKind, EcashAccount, EcashStore, KeySource, KeysetInfo, NewEntity, NewTerms,
//!     OutputKeyset,
//!     flow::{
//!         Flow, FlowAnswer, FlowEnvironment, FlowStep, MintKeys, MintQuoteView, QuoteTerms,
//!     },
//! };
//! use unspent_model::{Micros, ecash::EntityState};
//! # let folder = std::env::temp_dir().join(format!("unspent-ecash-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let url = format!("sqlite:{}", folder.join("ecash.db").display());
//! let key = KeySource::Passphrase("correct horse battery staple".to_owned().into());
//! let store = EcashStore::open(&url.parse()?, &key, None, Default::default())?;
//! let mint: cashu::MintUrl = "https://mint.example.com".parse()?;
//! store.add_account(
//!     EcashAccount {
//!         id: "a1".into(),
//!         kind: AccountKind::Cashu,
//!         name: "Pocket money".into(),
//!         mint_url: Some(mint.clone()),
//!         unit: "sat".into(),
//!         version: 0,
//!     },
//!     Micros(1),
//! )?;
//! let keyset_id = "009a1f293253e41e".to_owned();
//! let info = KeysetInfo { keyset_id: keyset_id.clone(), is_active: true, fee_ppk: 0 };
//! store.put_keysets("a1", vec![info])?;
//!
//! // Somebody is to pay us 21.
//! let quote = NewEntity::ReceiveQuote {
//!     quote_id: "q1".into(),
//!     invoice: "lnbc…".into(),
//!     amount: 21,
//!     lock_index: 0,
//!     source: None,
//! };
//! let terms = NewTerms {
//!     id: "e1".into(),
//!     transaction_id: "t1".into(),
//!     idempotency_key: None,
//!     account_id: "a1".into(),
//!     now: Micros(1),
//!     expires_at: None,
//! };
//! store.create(quote, terms)?;
//!
//! // A flow says what to ask; the answer says what has happened.
//! let active = OutputKeyset { keyset_id, fee_ppk: 0, amounts: vec![1, 2, 4, 8, 16] };
//! let environment = FlowEnvironment {
//!     seed: store.seed().clone(),
//!     mint: Some(Arc::new(MintKeys { url: mint, keys: Default::default(), active })),
//!     source: None,
//!     unit: "sat".into(),
//!     now: Micros(2),
//!     fence: false,
//! };
//! let (mut flow, next) = Flow::start(store.open_entity("e1")?, environment)?;
//! assert!(matches!(next, FlowStep::Ask(_)));
//! let (terms, state) = (QuoteTerms::of("q1"), cashu::MintQuoteState::Paid);
//! let paid = FlowAnswer::MintQuote(MintQuoteView { terms, state });
//! let FlowStep::Apply(event) = flow.answer(paid)? else {
//!     panic!("it is paid");
//! };
//! let after = store.apply("e1", event, Micros(2))?.entity;
//! assert_eq!(after.state, EntityState::Paid);
//! // Three outputs are reserved: 16, 4 and 1. They will be the same after a crash.
//! assert_eq!(after.details.range().map(|range| range.amounts.clone()), Some(vec![16, 4, 1]));
//! # drop(store);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Deliberately absent: sockets, clocks, threads. Whoever runs a flow asks, waits and tells the
//! time.

pub mod accounts;
mod answers;
pub mod apply;
pub mod audit;
pub mod create;
pub mod details;
pub mod entities;
pub mod error;
pub mod event;
pub mod flow;
pub mod inputs;
mod proofs;
pub mod query;
pub mod scans;
pub mod schema;
pub mod seal;
mod served;
pub mod store;

pub use apply::AppliedChange;
pub use create::{NewEntity, NewSource, NewTerms, OutputKeyset};
pub use details::{EntityDetails, OutputRange};
pub use entities::EcashEntity;
pub use error::{EcashError, Kind};
pub use event::{FreshProof, PaymentEvent, ProofName, RangeAsk, proof_name};
pub use inputs::InputChoice;
pub use query::{
    EcashBalance, EcashJournalLine, OpenEntity, PageRequest, ProofLine, TimePlace, TransactionLine,
};
pub use scans::{DueScan, ScanLine, ScannedBatch};
pub use seal::{KeySource, SecretSealer};
pub use store::{AccountKind, EcashAccount, EcashStore, KeysetInfo, WalletSeed};
