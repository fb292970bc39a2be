//! Sessions of browsers. They live in memory, so a restart ends them all.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::{Hash, Scope};

/// Sessions at a time; the oldest goes when one more comes.
const MAX_SESSIONS: usize = 1_000;

/// Who a session is for.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    /// Nobody logged in: the dashboard on loopback, which may read.
    pub(crate) is_guest: bool,
}

pub(super) struct Sessions {
    lasts: Duration,
    open: HashMap<Hash, (Session, Instant)>,
}

impl Sessions {
    pub(super) fn new(lasts: Duration) -> Self {
        Self { lasts, open: HashMap::new() }
    }

    pub(super) fn put(&mut self, key: Hash, session: Session) {
        let lasts = self.lasts;
        self.open.retain(|_, (_, since)| since.elapsed() < lasts);
        if self.open.len() >= MAX_SESSIONS {
            let oldest = self.open.iter().min_by_key(|(_, (_, since))| *since);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                self.open.remove(&key);
            }
        }
        self.open.insert(key, (session, Instant::now()));
    }

    pub(super) fn find(&self, key: &Hash) -> Option<Session> {
        // The key is a hash of 32 random bytes: how long the look-up takes says nothing of them.
        let (session, since) = self.open.get(key)?;
        (since.elapsed() < self.lasts).then(|| session.clone())
    }

    pub(super) fn remove(&mut self, key: &Hash) {
        self.open.remove(key);
    }
}
