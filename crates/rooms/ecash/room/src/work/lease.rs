//! Which worker works: a lease in the database, kept by a thread of its own.
//!
//! | the lease is | the worker |
//! |---|---|
//! | free, or run out | takes it |
//! | ours | works; the thread renews it, however long a mint takes over an answer |
//! | another's, or not renewed in time | begins no step; asks for the lease from time to time |
//!
//! Two workers at once would do no harm, since every change is made under the payment's lock and a
//! repetition changes nothing; it would be a waste. So a step that is under way when the lease is
//! lost is left as it is: whoever has the lease now asks again.

use std::{
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use unspent_ecash::EcashStore;
use unspent_engine::room::plug::spawn;
use unspent_source::wakeup::{Wakeup, lock};

use super::{EcashWorkError, now, payments::new_id};

/// Parts of a lease after which it is renewed, or asked for again.
const RENEWALS: u32 = 3;

#[derive(Default)]
struct LeaseTerms {
    /// The lease is ours until then. By the clock that nobody sets, from before the database was
    /// asked: never longer than what the database has.
    until: Option<Instant>,
    asked_at: Option<Instant>,
    is_given_up: bool,
}

struct LeaseKeeper {
    store: Arc<EcashStore>,
    holder: String,
    length: Duration,
    terms: Mutex<LeaseTerms>,
    /// Held while the database is asked, so that nothing is renewed after it was given up.
    asking: Mutex<()>,
    wakeup: Wakeup,
}

/// A worker's claim to be the one that works. Dropped, it makes room for the next.
pub(super) struct LeaderLease {
    keeper: Arc<LeaseKeeper>,
    thread: Option<JoinHandle<()>>,
}

impl LeaderLease {
    /// Starts without the lease.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError::Start`], or no randomness.
    pub(super) fn start(store: Arc<EcashStore>, length: Duration) -> Result<Self, EcashWorkError> {
        let (terms, asking, wakeup) = (Mutex::default(), Mutex::default(), Wakeup::default());
        let keeper = LeaseKeeper { store, holder: new_id()?, length, terms, asking, wakeup };
        let keeper = Arc::new(keeper);
        let kept = keeper.clone();
        let thread = spawn("ecash-lead", move || kept.keep())?;
        Ok(Self { keeper, thread: Some(thread) })
    }

    /// Says at any time, without asking anybody, whether the lease is ours.
    pub(super) fn watch(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let keeper = self.keeper.clone();
        move || keeper.is_held()
    }

    /// Whether the lease is ours, after taking it where it is free.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`] when the database can't be asked; the lease isn't ours then.
    pub(super) fn take(&self) -> Result<bool, EcashWorkError> {
        if self.keeper.is_held() {
            return Ok(true);
        }
        let asked_at = lock(&self.keeper.terms).asked_at;
        let is_early = asked_at.is_some_and(|at| at.elapsed() < self.keeper.pause());
        if is_early { Ok(false) } else { self.keeper.ask() }
    }

    /// From now on the lease isn't ours.
    pub(super) fn give_up(&self) {
        let mut terms = lock(&self.keeper.terms);
        (terms.until, terms.is_given_up) = (None, true);
    }
}

impl Drop for LeaderLease {
    fn drop(&mut self) {
        self.give_up();
        self.keeper.wakeup.stop();
        self.keeper.make_room();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl LeaseKeeper {
    fn pause(&self) -> Duration {
        self.length / RENEWALS
    }

    fn is_held(&self) -> bool {
        lock(&self.terms).until.is_some_and(|until| Instant::now() < until)
    }

    fn keep(&self) {
        while !self.wakeup.is_stopping() {
            self.wakeup.pause(self.pause());
            if lock(&self.terms).until.is_none() {
                continue;
            }
            if let Err(error) = self.ask() {
                tracing::warn!(%error, "the lease of the ecash worker could not be renewed");
            }
        }
    }

    fn ask(&self) -> Result<bool, EcashWorkError> {
        let _asking = lock(&self.asking);
        if lock(&self.terms).is_given_up {
            return Ok(false);
        }
        let (began, now) = (Instant::now(), now());
        lock(&self.terms).asked_at = Some(began);
        let is_ours = self.store.take_lease(&self.holder, now, now.later(self.length))?;
        let mut terms = lock(&self.terms);
        // It may have been given up while the database was asked. The lease that was just written
        // is freed by whoever gave it up.
        terms.until = (is_ours && !terms.is_given_up).then_some(began + self.length);
        Ok(terms.until.is_some())
    }

    /// A lease that has run out already is free; another's stays as it is.
    fn make_room(&self) {
        let _asking = lock(&self.asking);
        let now = now();
        if let Err(error) = self.store.take_lease(&self.holder, now, now) {
            tracing::debug!(%error, "the lease of the ecash worker runs out by itself");
        }
    }
}
