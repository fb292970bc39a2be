//! How fast rooms follow, and what they share.

use std::time::Duration;

/// How the rooms follow the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// How long a room at the tip waits for news before it looks after itself.
    pub poll: Duration,
    /// More blocks than this to go: they are taken in bulk.
    pub bulk_threshold: u64,
    /// First pause before a source that is away is tried again; it doubles, up to five seconds.
    pub retry: Duration,
    /// Blocks that the rooms share at most.
    pub cache_blocks: usize,
    /// Bytes of blocks that the rooms share at most.
    pub cache_bytes: usize,
}

impl Default for Follow {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
            bulk_threshold: 100,
            retry: Duration::from_secs(5),
            cache_blocks: 2_000,
            cache_bytes: 64 << 20,
        }
    }
}
