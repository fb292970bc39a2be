//! Waking and stopping threads that wait.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The lock's value even if a thread died while it held it: what is guarded here is always whole.
pub(crate) fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Beat {
    count: u64,
    stopping: bool,
}

/// A counter that many threads may wait on. Invariant: a beat that comes before the waiting starts
/// isn't missed, since every waiter names the last one it knows.
#[derive(Default)]
pub(crate) struct Pulse {
    beat: Mutex<Beat>,
    changed: Condvar,
}

impl Pulse {
    /// Wakes everybody.
    pub(crate) fn wake(&self) {
        hold(&self.beat).count += 1;
        self.changed.notify_all();
    }

    /// Wakes everybody for the last time.
    pub(crate) fn stop(&self) {
        hold(&self.beat).stopping = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        hold(&self.beat).stopping
    }

    /// How often it has beaten.
    pub(crate) fn count(&self) -> u64 {
        hold(&self.beat).count
    }

    /// Waits for a beat after `known`, for the end, or until the time is over. Returns the count.
    pub(crate) fn wait(&self, known: u64, patience: Duration) -> u64 {
        let started = Instant::now();
        let mut beat = hold(&self.beat);
        while beat.count == known && !beat.stopping {
            let Some(rest) = patience.checked_sub(started.elapsed()).filter(|r| !r.is_zero())
            else {
                break;
            };
            let waited = self.changed.wait_timeout(beat, rest);
            beat = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        beat.count
    }

    /// Sleeps unless the end comes.
    pub(crate) fn pause(&self, patience: Duration) {
        let started = Instant::now();
        let mut beat = hold(&self.beat);
        while !beat.stopping {
            let Some(rest) = patience.checked_sub(started.elapsed()).filter(|r| !r.is_zero())
            else {
                break;
            };
            let waited = self.changed.wait_timeout(beat, rest);
            beat = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
