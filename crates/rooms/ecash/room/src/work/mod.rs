//! Payments under way: what moves them, and when.
//!
//! | module | keeps |
//! |---|---|
//! | `across` | claiming a token into an account elsewhere |
//! | [`ask`] | a question of the room, asked of a mint or of Spark, and its answer as a value |
//! | [`book`] | clients and keys of mints |
//! | [`counters`] | how far counters were used, in a file beside the key |
//! | `elsewhere` | an account's mint that has moved: whether it is the same, and its end |
//! | [`executor`] | one payment, moved as far as it goes now |
//! | [`invoices`] | what an invoice says, against what a mint says of it |
//! | `lanes` | turns of payments on a few threads, so that a silent mint holds up nobody else |
//! | `lease` | which worker works: a lease in the database |
//! | [`payments`] | what people ask for: accounts, claim, send, reverse, receive, pay |
//! | `repeat` | whether a request is the one that its key was used for |
//! | [`shortage`] | what an account lacks for a payment, and what comes back to it |
//! | `scan` | what a mint has signed for another copy of the database |
//! | `spark_payments` | the same through Spark |
//! | [`worker`] | all payments that are open, each when it is due; one worker at a time |
//!
//! Invariant: the network is asked while no transaction is open. What a crash destroys is a
//! question that was asked; the next start asks again, from what is stored.

mod across;
pub mod ask;
pub mod book;
pub mod counters;
mod elsewhere;
pub mod executor;
pub mod invoices;
mod lanes;
mod lease;
pub mod payments;
mod repeat;
mod scan;
pub mod shortage;
mod spark_payments;
pub mod worker;

pub(crate) use self::elsewhere::check_name;

use unspent_ecash::EcashError;
use unspent_engine::{clock, error::StartError};
use unspent_model::Micros;

use super::{
    mint::{NoResult, check::MintProblem},
    spark::SparkFault,
};

/// The one place of the room that asks what time it is.
fn now() -> Micros {
    clock::now()
}

/// Why something that was asked for can't be done. What was stored before is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EcashWorkError {
    /// The store said no.
    #[error(transparent)]
    Store(#[from] EcashError),
    /// The mint gave no result.
    #[error("the mint {mint}: {reason}")]
    Mint {
        /// Which.
        mint: String,
        /// Why.
        reason: NoResult,
    },
    /// Too many wait for the mint already.
    #[error("{mint} takes its time, and others wait for it already; nothing was changed")]
    Crowded {
        /// Which.
        mint: String,
    },
    /// The mint can't be used.
    #[error("{}", super::mint::check::ProblemList(.0))]
    Unfit(Vec<MintProblem>),
    /// A thread could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The Spark wallet gave no result.
    #[error(transparent)]
    Spark(#[from] SparkFault),
    /// The caller's key began another payment.
    #[error("this idempotency key was used for another request; nothing was done")]
    KeyReused,
    /// Too little is free now.
    #[error(transparent)]
    Short(#[from] shortage::MoneyShortage),
    /// What was asked for makes no sense.
    #[error("{0}; nothing was changed")]
    Wrong(String),
}
