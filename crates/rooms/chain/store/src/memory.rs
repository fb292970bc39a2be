//! How much memory catching up takes, and what for.
//!
//! Catching up is as fast as its batches are large, up to a point, and a machine has other work to
//! do. So there is one budget. The block cache gets a quarter of it (RocksDB's users give it 25 to
//! 50 %). The rest is shared by four things of about the same size: the batch that fills, the one
//! on its way to the disk, which stays readable meanwhile, its sorted keys and entries as RocksDB
//! takes them, and RocksDB's own copy of those.

use std::{fs, sync::OnceLock};

/// The most that is taken without being asked for.
const MOST: usize = 2 << 30;
/// Where nobody can say how much memory the machine has.
const UNKNOWN: usize = 1 << 30;
/// The machine's share that is taken without being asked for: one of so many.
const OF_MACHINE: u64 = 4;
/// The block cache's share of the budget: one of so many.
const CACHE_OF_BUDGET: usize = 4;
/// Forms in which the coins of a batch are in memory while the next one fills.
const FORMS: usize = 4;
/// No batch is smaller: some hundred coins.
const SMALLEST_BATCH: usize = 64 << 10;

/// Files in which Linux says how much memory a process may have: that of its control group, in both
/// versions.
const LIMITS: [&str; 2] =
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// A quarter of the machine's memory, and not more than 2 GiB.
pub(crate) fn suitable_budget() -> usize {
    static BUDGET: OnceLock<usize> = OnceLock::new();
    *BUDGET.get_or_init(|| {
        let read = |path: &str| fs::read_to_string(path).ok();
        let limits = LIMITS.map(|path| read(path).and_then(|text| text.trim().parse().ok()));
        let machine = read("/proc/meminfo").and_then(|text| total(&text));
        // A container sees the whole machine in /proc; "max", or a huge number, means no limit.
        budget(limits.into_iter().flatten().chain(machine).min())
    })
}

fn budget(machine: Option<u64>) -> usize {
    let share = machine.map(|bytes| usize::try_from(bytes / OF_MACHINE).unwrap_or(MOST));
    share.unwrap_or(UNKNOWN).min(MOST)
}

/// The machine's memory in bytes, as `/proc/meminfo` says.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the block cache gets of a budget.
pub(crate) fn cache_share(budget: usize) -> usize {
    budget / CACHE_OF_BUDGET
}

/// What one batch may take of a budget beside a block cache.
pub(crate) fn batch_share(budget: usize, block_cache: usize) -> usize {
    // A cache larger than the budget leaves the smallest batch.
    (budget.saturating_sub(block_cache) / FORMS).max(SMALLEST_BATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_machine_and_not_more_than_two_gigabytes() {
        assert_eq!(budget(Some(4 << 30)), 1 << 30);
        assert_eq!(budget(Some(64 << 30)), 2 << 30);
        assert_eq!(budget(Some(u64::MAX)), 2 << 30);
        assert_eq!(budget(None), UNKNOWN);
        let meminfo = "MemFree:  1 kB\nMemTotal:       24585168 kB\nBuffers: 2 kB\n";
        assert_eq!(total(meminfo), Some(24_585_168 << 10));
        assert_eq!(total("MemTotal: lots"), None);
    }

    #[test]
    fn the_shares_add_up_to_the_budget() {
        let budget = 2 << 30;
        let cache = cache_share(budget);
        assert_eq!(cache + FORMS * batch_share(budget, cache), budget);
        assert_eq!(batch_share(1, 7), SMALLEST_BATCH, "a cache larger than the budget");
    }
}
