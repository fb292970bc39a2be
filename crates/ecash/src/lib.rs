//! Cashu and Spark payments that survive a crash at any point.

pub mod apply;
pub mod create;
pub mod details;
pub mod entities;
pub mod error;
pub mod event;
pub mod flow;
pub mod inputs;
mod proofs;
pub mod query;
pub mod schema;
pub mod seal;
pub mod store;

pub use apply::Applied;
pub use create::{NewEntity, NewSource, NewTerms, OutputKeyset};
pub use details::{Details, OutputRange};
pub use entities::Entity;
pub use error::{EcashError, Kind};
pub use event::{Event, FreshProof, ProofName, RangeAsk, proof_name};
pub use inputs::Inputs;
pub use query::{EcashBalance, JournalLine, OpenEntity, ProofLine, TransactionLine};
pub use seal::{KeySource, Sealer};
pub use store::{Account, AccountKind, EcashStore, KeysetInfo, Seed};
