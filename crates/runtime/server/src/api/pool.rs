//! The pool of blocking work: rooms are synchronous, so a request asks them on a thread that may
//! block. A bounded number is at work, a bounded number waits, and everybody else is told to come
//! again.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Semaphore;

use super::error::ApiError;

/// How much a pool takes in.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// So much is at work at a time.
    pub concurrency: usize,
    /// So much waits.
    pub queue: usize,
}

/// Runs what may block.
pub struct BlockingPool {
    permits: Arc<Semaphore>,
    present: AtomicUsize,
    most: usize,
}

/// Leaves the count when dropped, whatever became of the request.
struct Present<'a>(&'a AtomicUsize);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl BlockingPool {
    /// A pool of that size.
    pub fn new(PoolLimits { concurrency, queue }: PoolLimits) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(concurrency)),
            present: AtomicUsize::new(0),
            most: concurrency + queue,
        }
    }

    /// Runs work that may block. A client that goes away doesn't end the work: its permit
    /// comes back when the work is done.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let present = self.present.fetch_add(1, Ordering::Relaxed);
        let _present = Present(&self.present);
        if present >= self.most {
            return Err(ApiError::busy("too many requests are waiting; nothing was done"));
        }
        // Whoever waits here was counted above: the queue is bounded too, not only the work.
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|_| ApiError::busy("the server is stopping"))?;
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.unwrap_or_else(|error| Err(ApiError::bug(&error)))
    }
}
