//! Random histories: events that mean something whatever state they meet.

use proptest::prelude::*;
use unspent_model::{
    Outpoint, Point,
    chain::{Block, GenesisCoin, Output},
};

use super::{Answer, Objection, Recipe, Reference, Rules, make_block};

/// Something that happens to a store. The numbers are entropy, given a meaning when met.
#[derive(Clone, Debug)]
pub enum Event {
    /// The next block arrives.
    Apply(u64),
    /// Several arrive at once; the source may claim to have more.
    Bulk {
        /// Entropy for the blocks.
        seed: u64,
        /// How many blocks share the batch.
        blocks: u8,
        /// How many more the source claims to have.
        overstated: u8,
    },
    /// The chain goes back some blocks.
    Rollback {
        /// How many blocks down from the tip.
        depth: u8,
        /// 0: by height, 1: by slot, else by point.
        by: u8,
    },
    /// Back to before the first block.
    ToOrigin,
    /// An old block arrives again.
    Repeat(u8),
    /// A block from the future arrives.
    Gap(u64),
    /// A block with a wrong parent arrives.
    WrongParent(u64),
    /// Another block arrives for a height that is taken.
    OtherBranch(u64, u8),
    /// An explicit prune.
    Prune,
    /// The store is closed and opened again.
    Reopen,
}

/// Histories of up to `most` events.
pub fn histories(most: usize) -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        10 => any::<u64>().prop_map(Event::Apply),
        2 => (any::<u64>(), 1..12_u8, 0..6_u8)
            .prop_map(|(seed, blocks, overstated)| Event::Bulk { seed, blocks, overstated }),
        3 => (0..14_u8, 0..3_u8).prop_map(|(depth, by)| Event::Rollback { depth, by }),
        1 => Just(Event::ToOrigin),
        1 => any::<u8>().prop_map(Event::Repeat),
        1 => any::<u64>().prop_map(Event::Gap),
        1 => any::<u64>().prop_map(Event::WrongParent),
        1 => (any::<u64>(), 0..8_u8).prop_map(|(seed, depth)| Event::OtherBranch(seed, depth)),
        1 => Just(Event::Prune),
        1 => Just(Event::Reopen),
    ];
    proptest::collection::vec(event, 1..most)
}

/// A concrete call on a store.
#[derive(Clone, Debug)]
pub enum Step {
    /// Apply one block near the tip.
    Apply(Block<Output>),
    /// Apply blocks in bulk; the source claims to have `coming`.
    Bulk(Vec<Block<Output>>, u64),
    /// Roll back to the block at this ordinal.
    Rollback {
        /// Target ordinal; 0 is the origin.
        ordinal: u64,
        /// The block there; `None` at the origin, or where there is no such block.
        point: Option<Point>,
        /// 0: by height, 1: by slot, else by point.
        by: u8,
    },
    /// Prune.
    Prune,
    /// Close and open.
    Reopen,
}

/// The reference and all blocks ever made, which together give events their meaning.
pub struct World {
    /// The truth.
    pub reference: Reference,
    /// Every block ever applied, on any branch.
    made: Vec<Block<Output>>,
    /// Every coin ever named.
    seen: Vec<Outpoint>,
}

#[allow(clippy::indexing_slicing, clippy::missing_panics_doc)]
impl World {
    /// Before the first block.
    pub fn new(rules: Rules, genesis: &[GenesisCoin]) -> Self {
        let seen = genesis.iter().map(|coin| coin.outpoint).collect();
        Self { reference: Reference::new(rules, genesis), made: Vec::new(), seen }
    }

    /// Every coin ever named, with repeats.
    pub fn seen(&self) -> &[Outpoint] {
        &self.seen
    }

    /// What the event means now.
    pub fn step(&mut self, event: &Event) -> Step {
        match *event {
            Event::Apply(seed) => Step::Apply(self.next_block(seed)),
            Event::Bulk { seed, blocks, overstated } => {
                let blocks = self.next_blocks(seed, blocks);
                let coming = blocks.len() as u64 + u64::from(overstated);
                Step::Bulk(blocks, coming)
            }
            Event::Rollback { depth, by } => self.rollback(u64::from(depth), by),
            Event::ToOrigin => Step::Rollback { ordinal: 0, point: None, by: 0 },
            Event::Repeat(at) if !self.made.is_empty() => {
                Step::Apply(self.made[usize::from(at) % self.made.len()].clone())
            }
            Event::Repeat(at) => Step::Apply(self.next_block(u64::from(at))),
            Event::Gap(seed) => {
                let mut block = self.next_block(seed);
                block.header.point.height += 2;
                Step::Apply(block)
            }
            Event::WrongParent(seed) => {
                let mut block = self.next_block(seed);
                block.header.parent.0[0] ^= 0xff;
                Step::Apply(block)
            }
            Event::OtherBranch(seed, depth) => {
                let mut block = self.next_block(seed);
                let height = &mut block.header.point.height;
                *height = height.saturating_sub(u64::from(depth) + 1);
                Step::Apply(block)
            }
            Event::Prune => Step::Prune,
            Event::Reopen => Step::Reopen,
        }
    }

    /// What the reference says to the step.
    pub fn feed(&mut self, step: &Step) -> Answer {
        match step {
            Step::Apply(block) => {
                self.note(block);
                self.reference.apply(block)
            }
            Step::Bulk(blocks, coming) => {
                let known_tip = self.reference.ordinal() + coming;
                let mut total = (0, 0, 0, 0);
                for block in blocks {
                    self.note(block);
                    if let Answer::Applied(a, b, c, d) = self.reference.apply_bulk(block, known_tip)
                    {
                        total = (total.0 + a, total.1 + b, total.2 + c, total.3 + d);
                    }
                }
                self.reference.prune();
                Answer::Applied(total.0, total.1, total.2, total.3)
            }
            Step::Rollback { ordinal, point: None, .. } if *ordinal > 0 => {
                Answer::Refused(Objection::NoSuchTarget)
            }
            Step::Rollback { ordinal, .. } => self.reference.rollback(*ordinal),
            Step::Prune => {
                self.reference.prune();
                Answer::Done
            }
            Step::Reopen => Answer::Done,
        }
    }

    fn note(&mut self, block: &Block<Output>) {
        self.made.push(block.clone());
        for tx in &block.txs {
            self.seen.extend(&tx.spends);
            self.seen.extend(tx.creates.iter().map(|(index, _)| Outpoint::new(tx.id, *index)));
        }
    }

    fn next_block(&self, seed: u64) -> Block<Output> {
        next_block(&self.reference, seed)
    }

    fn next_blocks(&self, seed: u64, count: u8) -> Vec<Block<Output>> {
        // A scratch copy of the truth makes each block fit on the one before.
        let mut scratch = self.reference.fork();
        (0..count)
            .map(|i| {
                let block = next_block(&scratch, seed.wrapping_add(u64::from(i)));
                scratch.apply(&block);
                block
            })
            .collect()
    }

    /// A target `depth` blocks down. Where blocks share a height or slot, the last of them is
    /// meant, as it is for the store.
    fn rollback(&self, depth: u64, by: u8) -> Step {
        let points = self.reference.points();
        let ordinal = self.reference.ordinal().saturating_sub(depth);
        let at = |ordinal: u64| {
            let before = usize::try_from(ordinal).ok()?.checked_sub(1)?;
            points.get(before).copied()
        };
        let Some(point) = at(ordinal) else {
            return Step::Rollback { ordinal: 0, point: None, by };
        };
        let same = |other: &Point| match by {
            0 => other.height == point.height,
            1 => other.slot == point.slot,
            _ => other.hash == point.hash,
        };
        let last = points.iter().rposition(same).map_or(ordinal, |at| at as u64 + 1);
        Step::Rollback { ordinal: last, point: at(last), by }
    }
}

fn next_block(reference: &Reference, seed: u64) -> Block<Output> {
    let coins = reference.unspent();
    let coinbases = coins.iter().filter(|(_, record)| record.output.is_coinbase);
    let coinbases = coinbases.map(|(outpoint, _)| *outpoint);
    make_block(&Recipe {
        seed,
        parent: reference.tip(),
        coinbases: coinbases.chain(reference.spent_coinbases()).collect(),
        coins: coins.keys().copied().collect(),
    })
}
