//! Sessions of browsers. They live in memory, so a restart ends them all.
//!
//! Guests have a table of their own: whoever reaches the port can have as many as he likes, and
//! pushes out no one but other guests. Of those who logged in, each token has a bounded number.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::{Hash, Identity};

/// Sessions of each sort at a time; the oldest goes when one more comes.
const MAX_SESSIONS: usize = 1_000;
/// Sessions of one token at a time; its oldest goes when one more comes.
const MAX_OF_TOKEN: usize = 50;

type SessionTable = HashMap<Hash, (Identity, Instant)>;

pub(super) struct Sessions {
    lasts: Duration,
    members: SessionTable,
    guests: SessionTable,
}

impl Sessions {
    pub(super) fn new(lasts: Duration) -> Self {
        Self { lasts, members: SessionTable::new(), guests: SessionTable::new() }
    }

    /// Keeps a session under its own client.
    pub(super) fn put(&mut self, session: Identity) {
        let lasts = self.lasts;
        let table = if session.is_guest { &mut self.guests } else { &mut self.members };
        // What is over goes first, so that it pushes out nothing that lives.
        table.retain(|_, (_, since)| since.elapsed() < lasts);
        if !session.is_guest {
            // Each token pushes out sessions of its own before anybody else's.
            keep_below(table, MAX_OF_TOKEN, |other| other.token == session.token);
        }
        keep_below(table, MAX_SESSIONS, |_| true);
        table.insert(session.client.0, (session, Instant::now()));
    }

    pub(super) fn find(&self, key: &Hash) -> Option<Identity> {
        // The key is a hash of 32 random bytes: how long the look-up takes says nothing of them.
        let (session, since) = self.members.get(key).or_else(|| self.guests.get(key))?;
        (since.elapsed() < self.lasts).then(|| session.clone())
    }

    pub(super) fn remove(&mut self, key: &Hash) {
        self.members.remove(key);
        self.guests.remove(key);
    }
}

/// Makes room for one more of a sort by taking its oldest away.
fn keep_below(table: &mut SessionTable, most: usize, is_of_sort: impl Fn(&Identity) -> bool) {
    let of_sort = table.iter().filter(|(_, (session, _))| is_of_sort(session));
    if of_sort.clone().count() < most {
        return;
    }
    let oldest = of_sort.min_by_key(|(_, (_, since))| *since).map(|(key, _)| *key);
    if let Some(key) = oldest {
        table.remove(&key);
    }
}
