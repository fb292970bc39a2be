//! Reading and decoding ahead of the thread that applies.
//!
//! One thread reads and gathers blocks into batches, some threads decode them, and the batches come
//! out in the order in which they were read. Invariant: what is in flight is bounded, in blocks and
//! bytes.

use std::{
    num::NonZero,
    thread::{self, JoinHandle},
};

use anyhow::Context;
use crossbeam_channel::{Receiver, Sender, bounded};
use unspent_chain::{PreparedBlock, prepare};
use unspent_engine::files::{FileBlock, Place};
use unspent_model::Network;
use unspent_networks::decode_block;

use crate::fault::Fault;

/// Most blocks of one batch.
const BATCH_BLOCKS: usize = 256;
/// A batch is full with this many raw bytes. Prepared, they take up to about ten times as much.
const BATCH_BYTES: usize = 1024 * 1024;
/// Most batches in flight.
const BATCHES_AHEAD: usize = 6;
/// More decoders than this only wait for the thread that applies.
const MOST_DECODERS: usize = 8;

/// A block ready to be applied.
pub(crate) struct ReadyBlock {
    /// Where it lies.
    pub(crate) place: Place,
    /// The block.
    pub(crate) block: PreparedBlock,
}

/// Where raw blocks come from.
pub(crate) type Source = Box<dyn Iterator<Item = anyhow::Result<FileBlock>> + Send>;

type Decoded = Vec<anyhow::Result<ReadyBlock>>;

struct Job {
    raw: Vec<FileBlock>,
    reply: Sender<Decoded>,
}

/// Blocks in the order of their source. Dropping it ends the threads.
pub(crate) struct Blocks {
    batches: Receiver<Receiver<Decoded>>,
    current: std::vec::IntoIter<anyhow::Result<ReadyBlock>>,
    reader: Option<JoinHandle<()>>,
}

impl Blocks {
    /// Starts reading and decoding.
    pub(crate) fn start(network: Network, source: Source) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let (jobs, inbox) = bounded::<Job>(BATCHES_AHEAD);
        for _ in 0..cores.saturating_sub(1).clamp(1, MOST_DECODERS) {
            let inbox = inbox.clone();
            thread::spawn(move || decode_all(network, &inbox));
        }
        let (outbox, batches) = bounded(BATCHES_AHEAD);
        let reader = thread::spawn(move || read_all(source, &jobs, &outbox));
        Self { batches, current: Vec::new().into_iter(), reader: Some(reader) }
    }
}

impl Iterator for Blocks {
    type Item = anyhow::Result<ReadyBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(block) = self.current.next() {
                return Some(block);
            }
            match self.batches.recv().map(|batch| batch.recv()) {
                Ok(Ok(batch)) => self.current = batch.into_iter(),
                Ok(Err(_)) => return Some(Err(Fault::bug("a decoding thread died").into())),
                Err(_) => return self.end(),
            }
        }
    }
}

impl Blocks {
    /// No batch comes any more: the source is at its end, or the thread that reads it died.
    fn end(&mut self) -> Option<anyhow::Result<ReadyBlock>> {
        let died = self.reader.take().is_some_and(|reader| reader.join().is_err());
        died.then(|| Err(Fault::bug("the reading thread died").into()))
    }
}

fn decode_all(network: Network, inbox: &Receiver<Job>) {
    for Job { raw, reply } in inbox {
        let decoded = raw.into_iter().map(|raw| decode(network, raw)).collect();
        // Nobody waits any more when the import has ended early.
        let _ = reply.send(decoded);
    }
}

/// Decodes one block and names its place when that fails.
pub(crate) fn decode(network: Network, raw: FileBlock) -> anyhow::Result<ReadyBlock> {
    let FileBlock { place, bytes } = raw;
    let block = decode_block(network, &bytes, place.height).with_context(|| place.name())?;
    Ok(ReadyBlock { place, block: prepare(block) })
}

fn read_all(source: Source, jobs: &Sender<Job>, outbox: &Sender<Receiver<Decoded>>) {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for raw in source {
        match raw {
            Ok(raw) => {
                bytes += raw.bytes.len();
                batch.push(raw);
            }
            Err(error) => {
                let (reply, answer) = bounded(1);
                let sent = hand_over(std::mem::take(&mut batch), jobs, outbox)
                    && reply.send(vec![Err(error)]).is_ok();
                let _ = sent && outbox.send(answer).is_ok();
                return;
            }
        }
        if batch.len() >= BATCH_BLOCKS || bytes >= BATCH_BYTES {
            bytes = 0;
            if !hand_over(std::mem::take(&mut batch), jobs, outbox) {
                return;
            }
        }
    }
    hand_over(batch, jobs, outbox);
}

/// Queues a batch for decoding and its answer for applying; `false` when nobody wants it any more.
fn hand_over(raw: Vec<FileBlock>, jobs: &Sender<Job>, outbox: &Sender<Receiver<Decoded>>) -> bool {
    let (reply, answer) = bounded(1);
    jobs.send(Job { raw, reply }).is_ok() && outbox.send(answer).is_ok()
}
