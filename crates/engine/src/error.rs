//! What can go wrong with the engine as a whole. The rooms' own errors stay theirs.

use unspent_model::Network;

use crate::{
    events::LogError,
    source::SourceError,
    status::{JobKind, RoomName},
};

/// Why the engine did not start. Nothing runs then, and the folder's lock is free.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another engine has the folder.
    #[error("{folder} is in use by another daemon ({holder}); stop it first")]
    Running {
        /// The folder.
        folder: String,
        /// What the other one wrote about itself.
        holder: String,
    },
    /// The folder can't be used.
    #[error("the folder {folder} can't be used: {source}")]
    Folder {
        /// The folder.
        folder: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The source serves another chain.
    #[error("the source serves {found}, but {wanted} is configured")]
    Network {
        /// The source's chain.
        found: Network,
        /// The configured chain.
        wanted: Network,
    },
    /// The wallet room is Bitcoin only.
    #[error("{0} has no wallets here; switch the wallet room off")]
    NoWallets(Network),
    /// The chain room can't be opened.
    #[error("the chain room can't be opened: {0}")]
    Chain(#[from] unspent_chain::OpenError),
    /// The wallet room can't be opened.
    #[error("the wallet room can't be opened: {0}")]
    Wallet(#[from] unspent_wallet::WalletError),
    /// The engine's own database can't be opened.
    #[error("the event log can't be opened: {0}")]
    Log(#[from] LogError),
    /// A thread can't be started.
    #[error("a thread can't be started: {0}")]
    Thread(std::io::Error),
}

/// Why a transaction was not handed to the node. Its status is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BroadcastError {
    /// There is no wallet room.
    #[error("the wallet room is switched off")]
    NoWallets,
    /// Nobody to hand it to.
    #[error("the source has no node that takes transactions")]
    NoNode,
    /// It is confirmed or dead.
    #[error("the transaction is {0}; only one that is live and unconfirmed can be sent")]
    NotLive(&'static str),
    /// The wallet room said no.
    #[error(transparent)]
    Wallet(#[from] unspent_wallet::WalletError),
    /// The node can't be asked. It may or may not have the transaction; sending again is harmless.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The answer could not be written down as an event; what the node said still holds.
    #[error("the node answered, but the event could not be written: {0}")]
    Log(#[from] LogError),
}

/// Why a job did not run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The engine has no such job: its room is off.
    #[error("{} is not among the jobs: its room is off, or there is no node", .0.name())]
    Absent(JobKind),
    /// It failed; the next run tries again.
    #[error("{} failed: {reason}", .job.name())]
    Failed {
        /// Which.
        job: JobKind,
        /// Why.
        reason: String,
    },
    /// It is still waiting for its turn or its room.
    #[error("{} was asked for and has not ended yet", .0.name())]
    Late(JobKind),
}

/// Why a room was not resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// It is switched off.
    #[error("the {} room is switched off", .0.name())]
    Off(RoomName),
    /// It isn't stopped.
    #[error("the {} room is not stopped", .0.name())]
    Running(RoomName),
}
