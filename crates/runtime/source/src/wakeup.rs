//! Waking and stopping threads that wait.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The lock's value even if a thread died while it held it: what is guarded here is always whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Signal {
    count: u64,
    is_stopping: bool,
}

/// A counter that many threads may wait on. Invariant: a wake-up that comes before the waiting
/// starts isn't missed, since every waiter names the last one it knows.
#[derive(Default)]
pub struct Wakeup {
    signal: Mutex<Signal>,
    changed: Condvar,
}

impl Wakeup {
    /// Wakes everybody.
    pub fn wake(&self) {
        lock(&self.signal).count += 1;
        self.changed.notify_all();
    }

    /// Wakes everybody for the last time.
    pub fn stop(&self) {
        lock(&self.signal).is_stopping = true;
        self.changed.notify_all();
    }

    /// Whether the end has come.
    pub fn is_stopping(&self) -> bool {
        lock(&self.signal).is_stopping
    }

    /// How many wake-ups there have been.
    pub fn count(&self) -> u64 {
        lock(&self.signal).count
    }

    /// Waits for a wake-up after `known`, for the end, or until time is over. Returns the count.
    pub fn wait(&self, known: u64, patience: Duration) -> u64 {
        self.wait_while(patience, |signal| signal.count == known)
    }

    /// Sleeps unless the end comes.
    pub fn pause(&self, patience: Duration) {
        self.wait_while(patience, |_| true);
    }

    fn wait_while(&self, patience: Duration, goes_on: impl Fn(&Signal) -> bool) -> u64 {
        let started = Instant::now();
        let mut signal = lock(&self.signal);
        while goes_on(&signal) && !signal.is_stopping {
            let Some(rest) = patience.checked_sub(started.elapsed()).filter(|r| !r.is_zero())
            else {
                break;
            };
            let waited = self.changed.wait_timeout(signal, rest);
            signal = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        signal.count
    }
}
