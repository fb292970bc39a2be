//! What a room is given when it is opened: where to plug in its thread and its jobs.

use std::{
    sync::{Arc, atomic::AtomicBool},
    thread::JoinHandle,
};

use unspent_model::Network;
use unspent_source::Node;

use crate::{
    context::Context,
    error::StartError,
    jobs::Job,
    names::RoomName,
    road::{Follow, Follower, worker::Worker},
};

/// Where a room plugs in.
pub struct Plug<'a> {
    pub(crate) context: &'a Arc<Context>,
    pub(crate) follow: Follow,
    pub(crate) threads: &'a mut Vec<JoinHandle<()>>,
    pub(crate) resumes: &'a mut Vec<(RoomName, Arc<AtomicBool>)>,
    pub(crate) jobs: &'a mut Vec<Job>,
}

impl Plug<'_> {
    /// The chain that is followed.
    pub fn network(&self) -> Network {
        self.context.network
    }

    /// What the threads of the engine share.
    pub fn context(&self) -> Arc<Context> {
        self.context.clone()
    }

    /// The node behind the source, where it has one.
    pub fn node(&self) -> Option<Arc<dyn Node>> {
        self.context.origin.node()
    }

    /// Has the room follow the chain, on a thread of its own.
    ///
    /// # Errors
    ///
    /// [`StartError::Thread`].
    pub fn follow<F: Follower + 'static>(&mut self, follower: F) -> Result<(), StartError> {
        let (room, resume) = (follower.room(), Arc::new(AtomicBool::new(false)));
        self.context.board.set_following(room);
        self.resumes.push((room, resume.clone()));
        let worker = Worker::new(follower, self.context.clone(), self.follow, resume);
        self.threads.push(spawn(room.name(), move || worker.run())?);
        Ok(())
    }

    /// Has the room do its own work on a thread of its own; it ends when the engine does.
    ///
    /// # Errors
    ///
    /// [`StartError::Thread`].
    pub fn thread(
        &mut self,
        room: RoomName,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), StartError> {
        self.threads.push(spawn(room.name(), run)?);
        Ok(())
    }

    /// Has something done from time to time.
    pub fn job(&mut self, job: Job) {
        self.jobs.push(job);
    }
}

/// A thread of the engine.
///
/// # Errors
///
/// [`StartError::Thread`].
pub fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let builder = std::thread::Builder::new().name(format!("unspent-{name}"));
    builder.spawn(run).map_err(StartError::Thread)
}
