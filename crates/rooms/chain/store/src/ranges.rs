//! Reading a large family in ranges of keys, several at once.

use std::{
    num::NonZero,
    panic,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use crossbeam_channel::{Sender, bounded};

use crate::error::StoreError;

/// Ranges that a first byte is divided into.
const SHARES: u8 = 16;
/// Families with fewer entries are read in one go: starting threads would take longer.
const LARGE: u64 = 20_000;
/// Threads at most: they share one disk.
const THREADS: usize = 8;
/// Entries between two reports of progress.
const STRIDE: u64 = 4096;
/// Reports under way.
const REPORTS: usize = 64;
/// No key of ours is longer than this, nor greater.
const END: [u8; 128] = [0xff; 128];

/// Keys from the first, up to but without the second.
pub(crate) type KeyRange = (Vec<u8>, Vec<u8>);

/// All keys of a family with about so many entries.
pub(crate) fn suitable(entries: u64, leads: &[u8]) -> Vec<KeyRange> {
    if entries < LARGE { vec![(Vec::new(), END.to_vec())] } else { divide(leads) }
}

/// All keys in [`SHARES`] ranges by the first byte behind each of `leads`, and what lies around
/// them. Without leads, by the very first byte.
fn divide(leads: &[u8]) -> Vec<KeyRange> {
    let width = u8::MAX / SHARES + 1;
    let shares = move || (0..SHARES).map(move |share| share * width);
    let mut starts: Vec<Vec<u8>> = vec![Vec::new()];
    if leads.is_empty() {
        starts.extend(shares().skip(1).map(|first| vec![first]));
    }
    for lead in leads {
        starts.extend(shares().map(|first| vec![*lead, first]));
        starts.push(vec![lead + 1]);
    }
    let ends = starts.iter().skip(1).cloned().chain([END.to_vec()]);
    starts.iter().cloned().zip(ends).collect()
}

/// What a range's reader tells others while it reads.
pub(crate) struct ProgressSink<'a> {
    told: &'a Sender<u64>,
    failed: &'a AtomicBool,
    untold: u64,
}

impl ProgressSink<'_> {
    /// One more entry was read. False: another range failed, there is no need to go on.
    pub(crate) fn read_one(&mut self) -> bool {
        self.untold += 1;
        if self.untold < STRIDE {
            return true;
        }
        self.tell();
        !self.failed.load(Ordering::Relaxed)
    }

    fn tell(&mut self) {
        // Nobody listens any more only when the check is over.
        let _ = self.told.send(std::mem::take(&mut self.untold));
    }
}

/// Has `read` work through all ranges, on several threads; returns what it made of them.
pub(crate) fn in_parallel<T: Send>(
    ranges: &[KeyRange],
    progress: &mut dyn FnMut(u64),
    read: impl Fn(&KeyRange, &mut ProgressSink<'_>) -> Result<T, StoreError> + Sync,
) -> Result<Vec<T>, StoreError> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.min(THREADS).min(ranges.len());
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (told, reports) = bounded(REPORTS);
    let work = |told: Sender<u64>| {
        let mut done = Vec::new();
        // Dealt one by one: ranges differ in size, and whoever is done early takes more.
        while let Some(range) = ranges.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut sink = ProgressSink { told: &told, failed: &failed, untold: 0 };
            let part = read(range, &mut sink);
            sink.tell();
            done.push(part.inspect_err(|_| failed.store(true, Ordering::Relaxed))?);
        }
        Ok(done)
    };
    let work = &work;
    thread::scope(|scope| {
        let start = |_| {
            let told = told.clone();
            scope.spawn(move || work(told))
        };
        let workers: Vec<_> = (0..threads).map(start).collect();
        // Each worker has a sender of its own: with this one alive the reports would never end.
        drop(told);
        reports.iter().for_each(progress);
        let mut all = Vec::with_capacity(ranges.len());
        for worker in workers {
            all.extend(worker.join().unwrap_or_else(|cause| panic::resume_unwind(cause))?);
        }
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_every_key_once() {
        for leads in [&[][..], b"ac"] {
            let ranges = divide(leads);
            assert!(ranges.first().unwrap().0.is_empty());
            assert_eq!(ranges.last().unwrap().1, END);
            assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0));
            assert!(ranges.iter().all(|(low, high)| low < high), "{ranges:?}");
        }
    }

    #[test]
    fn a_failure_ends_the_reading_and_is_told() {
        let ranges = divide(&[]);
        let mut seen = 0;
        let read = |range: &KeyRange, sink: &mut ProgressSink<'_>| {
            sink.read_one();
            if range.0 == [0x20] { Err(StoreError::FlusherGone) } else { Ok(1) }
        };
        let outcome = in_parallel(&ranges, &mut |more| seen += more, read);
        assert!(matches!(outcome, Err(StoreError::FlusherGone)));
        assert!(seen >= 1);
        let parts = in_parallel(&ranges, &mut |_| {}, |_, _| Ok(1)).unwrap();
        assert_eq!(parts.len(), ranges.len());
    }
}
