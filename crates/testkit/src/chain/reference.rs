//! The index in maps.

use std::collections::BTreeMap;

use unspent_model::{
    Outpoint, Point,
    chain::{Block, Born, Era, GenesisCoin, Output, Record, SpendingInput},
};

/// Windows of the store under test, in blocks.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Blocks whose deltas are kept.
    pub delta_depth: u64,
    /// Blocks whose spent records are kept.
    pub spent_depth: u64,
}

/// What is known of a coin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Known {
    /// In the set.
    Unspent(Record),
    /// Spent, by whom, where.
    Spent(Option<SpendingInput>, Point, Record),
    /// Never seen, or pruned.
    Unknown,
}

/// A spend that is remembered: by whom, where, and what the coin was.
pub type Remembered = (Option<SpendingInput>, Point, Record);

/// Why a call is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Objection {
    /// Blocks are missing in between.
    Gap,
    /// The parent is another block.
    WrongParent,
    /// Another block stands at that height.
    OtherBranch,
    /// Too far back.
    BelowHorizon,
    /// Not on the chain, or above its tip.
    NoSuchTarget,
}

/// What a call answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A new block: created, spent, spent in the same block, missing.
    Applied(usize, usize, usize, usize),
    /// A repeat.
    Already,
    /// Blocks undone.
    RolledBack(u64),
    /// Nothing changed.
    Refused(Objection),
    /// For calls that answer nothing.
    Done,
}

#[derive(Clone)]
struct Spend {
    by: Option<SpendingInput>,
    at: Point,
    record: Record,
    kept: bool,
}

/// The set after one block.
#[derive(Clone, Default)]
struct Moment {
    tip: Option<(Point, Era)>,
    unspent: BTreeMap<Outpoint, Record>,
    /// By coin and ordinal of the spending block: a coin may come again and be spent again.
    spent: BTreeMap<(Outpoint, u64), Spend>,
    missing: u64,
}

/// The index in maps, with a full copy per block.
pub struct Reference {
    rules: Rules,
    redeem: Vec<Outpoint>,
    moments: Vec<Moment>,
    floor: u64,
    swept_spends: u64,
    spends_floor: u64,
}

#[allow(clippy::indexing_slicing, clippy::expect_used, clippy::missing_panics_doc)]
impl Reference {
    /// Before the first block.
    pub fn new(rules: Rules, genesis: &[GenesisCoin]) -> Self {
        let unspent = genesis.iter().map(|coin| (coin.outpoint, coin.record.clone())).collect();
        let redeem = genesis.iter().filter(|coin| coin.is_redeem).map(|coin| coin.outpoint);
        Self {
            rules,
            redeem: redeem.collect(),
            moments: vec![Moment { unspent, ..Moment::default() }],
            floor: 0,
            swept_spends: 0,
            spends_floor: 0,
        }
    }

    fn now(&self) -> &Moment {
        self.moments.last().expect("the origin is always there")
    }

    /// Blocks applied.
    pub fn ordinal(&self) -> u64 {
        self.moments.len() as u64 - 1
    }

    /// The last block and its era.
    pub fn tip(&self) -> Option<(Point, Era)> {
        self.now().tip
    }

    /// Coins in the set, in outpoint order.
    pub fn unspent(&self) -> &BTreeMap<Outpoint, Record> {
        &self.now().unspent
    }

    /// Inputs nobody knew, over all applied blocks.
    pub fn missing(&self) -> u64 {
        self.now().missing
    }

    /// The lowest ordinal a rollback may return to.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Points of the applied blocks, oldest first.
    pub fn points(&self) -> Vec<Point> {
        self.moments.iter().filter_map(|moment| moment.tip.map(|(point, _)| point)).collect()
    }

    /// What is known of a coin.
    pub fn coin(&self, outpoint: &Outpoint) -> Known {
        let now = self.now();
        if let Some(record) = now.unspent.get(outpoint) {
            return Known::Unspent(record.clone());
        }
        let mut spends = now.spent.range((*outpoint, 0)..=(*outpoint, u64::MAX));
        match spends.next_back().filter(|spend| self.is_remembered(*spend)) {
            Some((_, spend)) => Known::Spent(spend.by, spend.at, spend.record.clone()),
            None => Known::Unknown,
        }
    }

    /// Spends that are still remembered, by coin and ordinal of the spending block.
    pub fn spent(&self) -> Vec<((Outpoint, u64), Remembered)> {
        let kept = self.now().spent.iter().filter(|spend| self.is_remembered(*spend));
        kept.map(|(name, spend)| (*name, (spend.by, spend.at, spend.record.clone()))).collect()
    }

    /// Coinbases that were spent: a block may create them again.
    pub fn spent_coinbases(&self) -> Vec<Outpoint> {
        let spent = self.now().spent.iter();
        let coinbases = spent.filter(|(_, spend)| spend.record.output.is_coinbase);
        coinbases.map(|((outpoint, _), _)| *outpoint).collect()
    }

    fn is_remembered(&self, (name, spend): (&(Outpoint, u64), &Spend)) -> bool {
        spend.kept && name.1 > self.swept_spends
    }

    /// Applies a block near the tip.
    pub fn apply(&mut self, block: &Block<Output>) -> Answer {
        let answer = self.take(block, u64::MAX);
        if matches!(answer, Answer::Applied(..)) {
            self.prune();
        }
        answer
    }

    /// Applies a block in bulk, with the chain known to reach `known_tip`. Call [`Self::prune`] at
    /// the end.
    pub fn apply_bulk(&mut self, block: &Block<Output>, known_tip: u64) -> Answer {
        self.take(block, known_tip)
    }

    /// Prunes what is due.
    pub fn prune(&mut self) {
        let ordinal = self.ordinal();
        self.floor = self.floor.max(ordinal.saturating_sub(self.rules.delta_depth));
        let spends = ordinal.saturating_sub(self.rules.spent_depth);
        self.swept_spends = self.swept_spends.max(spends).max(self.floor).max(self.spends_floor);
    }

    fn take(&mut self, block: &Block<Output>, known_tip: u64) -> Answer {
        if let Some(answer) = self.objection(block) {
            return answer;
        }
        let ordinal = self.ordinal() + 1;
        let live = known_tip == u64::MAX;
        let kept = live || ordinal + self.rules.spent_depth > known_tip;
        let undoable = live || ordinal + self.rules.delta_depth > known_tip;
        let mut next = self.now().clone();
        let mut counts = (0, 0, 0, 0);
        let header = &block.header;
        let spend = |next: &mut Moment, outpoint: Outpoint, by| {
            let record = next.unspent.remove(&outpoint)?;
            let same = record.born.block_hash == header.point.hash;
            let spend = Spend { by, at: header.point, record, kept };
            next.spent.insert((outpoint, ordinal), spend);
            Some(same)
        };
        let before = next.tip.map_or(Era::Byron, |(_, era)| era);
        if before < Era::Allegra && header.era >= Era::Allegra {
            for outpoint in &self.redeem {
                counts.1 += usize::from(spend(&mut next, *outpoint, None).is_some());
            }
        }
        for (position, tx) in (0..).zip(&block.txs) {
            for (input, outpoint) in (0..).zip(&tx.spends) {
                let by = SpendingInput { tx: tx.id, position, input };
                match spend(&mut next, *outpoint, Some(by)) {
                    Some(same) => {
                        counts.1 += 1;
                        counts.2 += usize::from(same);
                    }
                    None => {
                        counts.3 += 1;
                        next.missing += 1;
                    }
                }
            }
            for (index, output) in &tx.creates {
                let born = Born::in_block(header, position);
                let record = Record { output: output.clone(), born };
                next.unspent.insert(Outpoint::new(tx.id, *index), record);
                counts.0 += 1;
            }
        }
        next.tip = Some((header.point, header.era));
        self.moments.push(next);
        if !undoable {
            self.floor = ordinal;
        }
        if !kept {
            self.spends_floor = ordinal;
        }
        Answer::Applied(counts.0, counts.1, counts.2, counts.3)
    }

    /// Why the block can't come next, if it can't.
    fn objection(&self, block: &Block<Output>) -> Option<Answer> {
        let point = block.header.point;
        if self.points().iter().any(|known| known.hash == point.hash) {
            return Some(Answer::Already);
        }
        let Some((tip, _)) = self.now().tip else {
            return (point.height != 0).then_some(Answer::Refused(Objection::Gap));
        };
        let next = if block.header.is_boundary { tip.height } else { tip.height + 1 };
        let right_parent = block.header.parent == tip.hash;
        match point.height.cmp(&next) {
            std::cmp::Ordering::Less => Some(Answer::Refused(Objection::OtherBranch)),
            std::cmp::Ordering::Greater => Some(Answer::Refused(Objection::Gap)),
            std::cmp::Ordering::Equal if right_parent => None,
            // A boundary block shares its parent's height, so that height is taken by another.
            std::cmp::Ordering::Equal if block.header.is_boundary => {
                Some(Answer::Refused(Objection::OtherBranch))
            }
            std::cmp::Ordering::Equal => Some(Answer::Refused(Objection::WrongParent)),
        }
    }

    /// A copy of the present, for looking ahead.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            rules: self.rules,
            redeem: self.redeem.clone(),
            moments: self.moments.clone(),
            floor: self.floor,
            swept_spends: self.swept_spends,
            spends_floor: self.spends_floor,
        }
    }

    /// Rolls back to an ordinal.
    pub fn rollback(&mut self, ordinal: u64) -> Answer {
        let tip = self.ordinal();
        if ordinal < self.floor && ordinal < tip {
            return Answer::Refused(Objection::BelowHorizon);
        }
        self.moments.truncate(usize::try_from(ordinal).expect("few") + 1);
        self.swept_spends = self.swept_spends.min(ordinal);
        self.spends_floor = self.spends_floor.min(ordinal);
        Answer::RolledBack(tip - ordinal)
    }
}
