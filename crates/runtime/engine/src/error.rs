//! What can go wrong with the engine as a whole. The rooms' own errors stay theirs.

use unspent_model::Network;

use crate::{
    events::LogError,
    names::{JobName, RoomName},
    road::Cause,
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
    /// A room that this network can't have.
    #[error("{network} has no {room} room; switch that room off")]
    Unsupported {
        /// Which room.
        room: RoomName,
        /// The configured chain.
        network: Network,
    },
    /// A room can't be opened.
    #[error("the {room} room can't be opened: {source}")]
    Room {
        /// Which room.
        room: RoomName,
        /// What it said.
        source: Cause,
    },
    /// The engine's own database can't be opened.
    #[error("can't open engine.db, which holds events and idempotency keys: {0}")]
    Log(#[from] LogError),
    /// A thread can't be started.
    #[error("can't start a thread: {0}")]
    Thread(std::io::Error),
}

impl StartError {
    /// A room can't be opened.
    pub fn room(room: RoomName, source: impl Into<Cause>) -> Self {
        Self::Room { room, source: source.into() }
    }
}

/// Why a job did not run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The engine has no such job: its room is off.
    #[error("there is no job {0}: its room is off, or there is no node")]
    Absent(JobName),
    /// It failed; the next run tries again.
    #[error("{job} failed: {reason}")]
    Failed {
        /// Which.
        job: JobName,
        /// Why.
        reason: String,
    },
    /// It is still waiting for its turn or its room.
    #[error("{0} was requested and has not finished yet")]
    Late(JobName),
}

/// Why a room was not resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// It is switched off.
    #[error("the {0} room is switched off")]
    Off(RoomName),
    /// It isn't stopped.
    #[error("the {0} room is not stopped, so there is nothing to resume")]
    Running(RoomName),
}
