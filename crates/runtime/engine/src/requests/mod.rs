//! Requests that move value, by who asks and the key he gave: a repeat gets the first answer and
//! does nothing.
//!
//! | module | keeps |
//! |---|---|
//! | `rows` | what the database remembers of them |
//!
//! A request that was under way when the process died, or whose outcome isn't known, is
//! [`Begun::Unfinished`] for the next one: whoever begins it undoes what it may have begun, by the
//! lock derived from its name, and runs it again.
//!
//! Invariants: nothing that one caller sends lets the log forget what another sent, nor tells of
//! it. A name is kept for [`KEPT_FOR`]; a caller who has too many of them is refused, none is
//! forgotten before its time.

mod rows;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
};

use unspent_model::Micros;
use unspent_source::wakeup::lock;
use unspent_sql::Door;

use self::rows::Stored;
use crate::events::LogError;

/// How long an answer is remembered: a day, in microseconds.
pub const KEPT_FOR: i64 = 24 * 60 * 60 * 1_000_000;
/// Requests of one caller that are kept unless said otherwise: ten a second for a day.
pub const KEPT_PER_CALLER: u64 = 864_000;
/// Bytes of a key, and of a caller, at most.
pub const MAX_KEY_BYTES: usize = 255;
/// Answers kept in memory at most while they can't be written.
const MAX_UNWRITTEN: usize = 1_000;
/// Who made the requests that an older version wrote down, which didn't note it.
const UNKNOWN: &str = "";

/// Who asks, and what he calls his request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestName {
    caller: String,
    key: String,
}

/// Whoever stays the same through restarts and new credentials. In the place of a key it would open
/// one caller's answers to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallerName<'a>(pub &'a str);

impl RequestName {
    /// The request of a caller under a key.
    ///
    /// # Errors
    ///
    /// [`LogError::Argument`] for a caller or a key that is empty or too long.
    pub fn new(CallerName(caller): CallerName<'_>, key: &str) -> Result<Self, LogError> {
        let fits = |text: &str| (1..=MAX_KEY_BYTES).contains(&text.len());
        if !fits(key) {
            return Err(LogError::Argument("an idempotency key has 1 to 255 bytes"));
        }
        if !fits(caller) {
            return Err(LogError::Argument("a caller has a name of 1 to 255 bytes"));
        }
        Ok(Self { caller: caller.to_owned(), key: key.to_owned() })
    }

    /// Who asks; `None` for a request that an older version wrote down.
    pub fn caller(&self) -> Option<&str> {
        (self.caller != UNKNOWN).then_some(&self.caller)
    }

    /// What the caller calls the request: 1 to 255 bytes.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The same key as an older version wrote it down.
    fn of_old(&self) -> Self {
        Self { caller: UNKNOWN.to_owned(), key: self.key.clone() }
    }
}

/// What became of a request that was begun.
#[derive(Debug)]
pub enum Begun<'a> {
    /// The caller hasn't used the key: run it.
    New(OpenRequest<'a>),
    /// It is done: this was the answer.
    Repeat {
        /// Its HTTP status.
        status: u16,
        /// Its body.
        body: Vec<u8>,
    },
    /// It is under way in this process.
    InProgress,
    /// The caller has used the key for another request.
    Differs,
    /// An earlier run of it had no end that is known. It is now this one's: undo what that may have
    /// begun, and run it again.
    Unfinished(OpenRequest<'a>),
    /// The caller has as many keys as he may have.
    Full {
        /// When the oldest of them is forgotten.
        until: Micros,
    },
}

/// A request under way. Dropped without an end, the next one with its name finds it
/// [`Begun::Unfinished`]: so it must be when nobody knows what it changed.
pub struct OpenRequest<'a> {
    log: &'a RequestLog,
    name: RequestName,
}

impl OpenRequest<'_> {
    /// Under which name it is kept: the caller's, or one of before callers were noted.
    pub fn name(&self) -> &RequestName {
        &self.name
    }

    /// Remembers the answer.
    ///
    /// # Errors
    ///
    /// [`LogError`]; the answer is then remembered until this process ends.
    pub fn finish(self, status: u16, body: &[u8]) -> Result<(), LogError> {
        let written = rows::finish(&self.log.door, &self.name, status, body);
        if written.is_err() {
            let mut held = lock(&self.log.held);
            let unwritten = held.values().filter(|held| held.answer.is_some()).count();
            // Beyond the bound the request has no end that is known, and its repeat asks the room
            // first.
            if let Some(held) = held.get_mut(&self.name).filter(|_| unwritten < MAX_UNWRITTEN) {
                held.answer = Some((status, body.to_vec()));
            }
        }
        written
    }

    /// Forgets the request, so that its key may be used again: it was refused and changed nothing.
    ///
    /// # Errors
    ///
    /// [`LogError`]; the key may then be used again for the same request alone.
    pub fn forget(self) -> Result<(), LogError> {
        rows::forget(&self.log.door, &self.name)
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        let mut held = lock(&self.log.held);
        // An answer that couldn't be written stays: nothing else keeps a repeat from running again.
        if held.get(&self.name).is_some_and(|held| held.answer.is_none()) {
            held.remove(&self.name);
        }
    }
}

impl std::fmt::Debug for OpenRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A request of this process that the database doesn't have the end of.
struct Held {
    digest: [u8; 32],
    /// The answer, where it could not be written down; `None` while it is under way.
    answer: Option<(u16, Vec<u8>)>,
}

/// The requests of the last day.
pub struct RequestLog {
    door: Arc<Door>,
    /// Tells this process from those before it.
    run: i64,
    /// Requests of one caller that are kept.
    quota: u64,
    /// What isn't here isn't under way, whatever the database says: on a full disk it may not have
    /// heard of the end.
    held: Mutex<HashMap<RequestName, Held>>,
}

impl RequestLog {
    pub(crate) fn new(door: Arc<Door>, run: i64, quota: u64) -> Self {
        Self { door, run, quota, held: Mutex::default() }
    }

    /// Begins a request, or says what became of the one with that name.
    ///
    /// # Errors
    ///
    /// [`LogError`], with nothing changed.
    pub fn begin(
        &self,
        name: &RequestName,
        digest: [u8; 32],
        now: Micros,
    ) -> Result<Begun<'_>, LogError> {
        loop {
            if let Some(begun) = self.try_begin(name, digest, now)? {
                return Ok(begun);
            }
            // An older version wrote it down and saw no end of it. Whoever comes with the key
            // first runs it, under the old name, so that nobody else does meanwhile.
            if let Some(begun) = self.try_begin(&name.of_old(), digest, now)? {
                return Ok(begun);
            }
            // It was forgotten between the two looks, and is nobody's now.
        }
    }

    /// Begins it under exactly that name; `None` when it isn't to be run under it.
    fn try_begin(
        &self,
        name: &RequestName,
        digest: [u8; 32],
        now: Micros,
    ) -> Result<Option<Begun<'_>>, LogError> {
        match lock(&self.held).entry(name.clone()) {
            Entry::Occupied(held) if held.get().digest != digest => {
                return Ok(Some(Begun::Differs));
            }
            Entry::Occupied(held) => {
                let answer = held.get().answer.clone();
                let repeat = |(status, body)| Begun::Repeat { status, body };
                return Ok(Some(answer.map_or(Begun::InProgress, repeat)));
            }
            Entry::Vacant(free) => {
                // Named before the database is asked: two that come together can't both find it
                // new.
                free.insert(Held { digest, answer: None });
            }
        }
        // Lets go of the name unless it is handed out.
        let running = OpenRequest { log: self, name: name.clone() };
        let found = rows::begin(&self.door, name, digest, self.run, self.quota, now)?;
        Ok(match found {
            Stored::New => Some(Begun::New(running)),
            Stored::Unfinished => Some(Begun::Unfinished(running)),
            Stored::Repeat { status, body } => Some(Begun::Repeat { status, body }),
            Stored::Differs => Some(Begun::Differs),
            Stored::Full { until } => Some(Begun::Full { until }),
            Stored::Elsewhere => None,
        })
    }
}

impl std::fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestLog").field("run", &self.run).finish_non_exhaustive()
    }
}
