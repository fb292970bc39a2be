//! Requests that move value, by the caller's key: a repeat gets the first answer and does nothing.
//!
//! A request that was under way when the process died is [`Begun::Unfinished`] for the next one:
//! the caller undoes what it may have begun, by the lock derived from the key, and runs it again.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
};

use unspent_source::wakeup::lock;
use unspent_sql::{Arg, Door};

use crate::events::LogError;

/// How long an answer is remembered: a day, in microseconds.
pub const KEPT_FOR: i64 = 24 * 60 * 60 * 1_000_000;
/// Requests remembered at most; the oldest go first.
pub const MAX_REQUESTS: i64 = 100_000;
/// Bytes of a key at most.
pub const MAX_KEY_BYTES: usize = 255;
/// Answers kept in memory at most while they can't be written.
const MAX_UNWRITTEN: usize = 1_000;
/// Bytes of a remembered answer at most.
pub const MAX_BODY_BYTES: usize = 1 << 20;

/// What became of a request that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Nobody has used the key: run it, then finish.
    New,
    /// It is done: this was the answer.
    Repeat {
        /// Its HTTP status.
        status: u16,
        /// Its body.
        body: Vec<u8>,
    },
    /// It is under way in this process.
    InProgress,
    /// The key belongs to another request.
    Differs,
    /// An earlier process died in the middle of it. It is now this caller's: undo what it may have
    /// begun, run it again, then finish.
    Unfinished,
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
    /// By key. What isn't here isn't under way, whatever the database says: on a full disk it may
    /// not have heard of the end.
    held: Mutex<HashMap<String, Held>>,
}

const FIND: &str = "SELECT digest, run, http_status, body FROM requests WHERE request_key = $1";
const NEXT: &str = "UPDATE counter SET last_request = last_request + 1 WHERE one = 1";
const LAST: &str = "SELECT last_request FROM counter WHERE one = 1";
const INSERT: &str = "INSERT INTO requests (request_key, seq, digest, run, created_at)
    VALUES ($1, $2, $3, $4, $5)";
const TAKE_OVER: &str = "UPDATE requests SET run = $2 WHERE request_key = $1";
const FINISH: &str = "UPDATE requests SET http_status = $2, body = $3 WHERE request_key = $1";
const FORGET: &str = "DELETE FROM requests WHERE request_key = $1";
const FORGET_OLD: &str = "DELETE FROM requests WHERE created_at <= $1";
const FORGET_FIRST: &str = "DELETE FROM requests WHERE seq <= $1";

impl RequestLog {
    pub(crate) fn new(door: Arc<Door>, run: i64) -> Self {
        Self { door, run, held: Mutex::default() }
    }

    /// Begins a request, or says what became of the one with that key.
    ///
    /// # Errors
    ///
    /// [`LogError`], with nothing changed.
    pub fn begin(&self, key: &str, digest: [u8; 32], now: i64) -> Result<Begun, LogError> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(LogError::Argument("an idempotency key has 1 to 255 bytes"));
        }
        match lock(&self.held).entry(key.to_owned()) {
            Entry::Occupied(held) if held.get().digest != digest => return Ok(Begun::Differs),
            Entry::Occupied(held) => {
                let answer = held.get().answer.clone();
                let repeat = |(status, body)| Begun::Repeat { status, body };
                return Ok(answer.map_or(Begun::InProgress, repeat));
            }
            Entry::Vacant(free) => {
                free.insert(Held { digest, answer: None });
            }
        }
        let begun = self.begin_stored(key, digest, now);
        if !matches!(begun, Ok(Begun::New | Begun::Unfinished)) {
            lock(&self.held).remove(key);
        }
        begun
    }

    /// The same as far as the database knows.
    fn begin_stored(&self, key: &str, digest: [u8; 32], now: i64) -> Result<Begun, LogError> {
        let (key, run) = (key.to_owned(), self.run);
        self.door.write(move |tx| {
            tx.execute(FORGET_OLD, &[Arg::Int(now.saturating_sub(KEPT_FOR))])?;
            let Some(row) = tx.maybe(FIND, &[Arg::Text(&key)])? else {
                tx.execute(NEXT, &[])?;
                let seq = tx.one(LAST, &[])?.int("last_request")?;
                tx.execute(FORGET_FIRST, &[Arg::Int(seq - MAX_REQUESTS)])?;
                let row = [Arg::Text(&key), Arg::Int(seq), Arg::Blob(&digest), Arg::Int(run)];
                tx.execute(INSERT, &[&row[..], &[Arg::Int(now)]].concat())?;
                return Ok(Begun::New);
            };
            if row.hash("digest")? != digest {
                return Ok(Begun::Differs);
            }
            if row.opt_int("http_status")?.is_some() {
                let status = u16::try_from(row.natural("http_status")?).unwrap_or(500);
                return Ok(Begun::Repeat { status, body: row.blob("body")? });
            }
            tx.execute(TAKE_OVER, &[Arg::Text(&key), Arg::Int(run)])?;
            Ok(Begun::Unfinished)
        })
    }

    /// Remembers the answer.
    ///
    /// # Errors
    ///
    /// [`LogError`]; the answer is then remembered until this process ends.
    pub fn finish(&self, key: &str, status: u16, body: &[u8]) -> Result<(), LogError> {
        if body.len() > MAX_BODY_BYTES {
            return Err(LogError::Argument("an answer to remember has at most 1 MiB"));
        }
        let (name, text) = (key.to_owned(), body.to_vec());
        let written = self.door.write(move |tx| {
            tx.execute(FINISH, &[Arg::Text(&name), Arg::Int(status.into()), Arg::Blob(&text)])?;
            Ok(())
        });
        let mut held = lock(&self.held);
        let unwritten = held.values().filter(|held| held.answer.is_some()).count();
        match held.get_mut(key) {
            Some(held) if written.is_err() && unwritten < MAX_UNWRITTEN => {
                held.answer = Some((status, body.to_vec()));
            }
            Some(_) | None => {
                held.remove(key);
            }
        }
        written
    }

    /// Forgets a request, so that its key may be used again: it failed and changed nothing.
    ///
    /// # Errors
    ///
    /// [`LogError`]; the key may be used again all the same.
    pub fn forget(&self, key: &str) -> Result<(), LogError> {
        lock(&self.held).remove(key);
        let key = key.to_owned();
        self.door.write(move |tx| {
            tx.execute(FORGET, &[Arg::Text(&key)])?;
            Ok(())
        })
    }
}

impl std::fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestLog").field("run", &self.run).finish_non_exhaustive()
    }
}
