//! What a room's jobs and other threads share with the room's own thread.

use std::{
    fmt::Display,
    sync::{Arc, Mutex},
};

use unspent_source::wakeup::lock;

use crate::road::Trouble;

/// The room's store until it is closed, and the trouble that a job met in it.
pub struct StoreHandle<S> {
    store: Mutex<Option<Arc<S>>>,
    /// The room's thread stops for it.
    trouble: Mutex<Option<Trouble>>,
}

impl<S> StoreHandle<S> {
    /// Of an open store.
    pub fn new(store: Arc<S>) -> Self {
        Self { store: Mutex::new(Some(store)), trouble: Mutex::default() }
    }

    /// The store, until it is closed.
    pub fn get(&self) -> Option<Arc<S>> {
        lock(&self.store).clone()
    }

    /// Lets go of it.
    pub fn close(&self) {
        *lock(&self.store) = None;
    }

    /// Tells the room's thread of an error that a job met, if `judge` finds that only a person can
    /// help; returns what to say of it.
    pub fn report<E: Display>(&self, error: E, judge: fn(E) -> Trouble) -> String {
        let reason = error.to_string();
        let trouble = judge(error);
        if matches!(trouble, Trouble::Stop { .. }) {
            *lock(&self.trouble) = Some(trouble);
        }
        reason
    }

    /// What a job reported, once.
    pub fn take_trouble(&self) -> Option<Trouble> {
        lock(&self.trouble).take()
    }
}
