//! Bitcoin: which blocks of a catalogue belong on the stored chain.
//!
//! The branch with the most work wins; the stored one stays on equal work. Heights follow from the
//! place on the branch.

use std::cmp::Ordering;

use anyhow::Context;
use unspent_chain::{RollbackTarget, codec::StoredPoint};
use unspent_model::{
    BlockHash, Network,
    chain::Work,
    headers::{Branch, HeaderId},
};
use unspent_networks::{DecodeError, decode_block, genesis_hash};
use unspent_server::error::CliError;
use unspent_source::files::catalogue::Catalogue;

use super::plan::{Fork, LeftOut, Stored};

/// The blocks to apply.
#[derive(Default)]
pub(crate) struct Choice {
    /// Blocks of the catalogue and their heights, in the order of the chain.
    pub(crate) blocks: Vec<(HeaderId, u32)>,
    /// They replace stored blocks.
    pub(crate) fork: Option<Fork>,
    /// The network's first block is not in the files and must come first.
    pub(crate) needs_genesis: bool,
    /// What is not applied.
    pub(crate) left_out: LeftOut,
}

/// What an import may do.
pub(crate) struct Limits {
    /// No block above this height.
    pub(crate) stop_at: Option<u64>,
    /// Blocks may follow after a gap.
    pub(crate) allow_holes: bool,
}

/// A branch that connects to what is stored.
struct Candidate {
    /// The last stored block below it; `None` for the origin.
    fork: Option<StoredPoint>,
    needs_genesis: bool,
    /// New blocks above the fork.
    blocks: Vec<(HeaderId, u32)>,
    /// Work from the first block of the chain to the last of the branch.
    work: Work,
}

impl Candidate {
    /// It only adds to what is stored.
    fn extends(&self, stored: &Stored) -> bool {
        let tip = stored.tip.map(|tip| tip.point.hash);
        self.fork.map(|fork| fork.point.hash) == tip
    }

    /// More work wins; on equal work nothing stored is given up.
    fn beats(&self, other: &Self, stored: &Stored) -> bool {
        match self.work.cmp(&other.work) {
            Ordering::Greater => true,
            Ordering::Equal => self.extends(stored) && !other.extends(stored),
            Ordering::Less => false,
        }
    }
}

/// Chooses what to apply on top of, or instead of, the stored chain.
pub(crate) fn choose(
    network: Network,
    catalogue: &mut Catalogue,
    stored: &Stored,
    limits: &Limits,
) -> anyhow::Result<Choice> {
    let mut best: Option<Candidate> = None;
    let mut loose = Vec::new();
    for branch in catalogue.tree.best_branches() {
        match connect(network, catalogue, stored, &branch, limits.stop_at)? {
            None => loose.push(branch),
            Some(found) => {
                if best.as_ref().is_none_or(|best| found.beats(best, stored)) {
                    best = Some(found);
                }
            }
        }
    }
    if best.is_none() && !limits.allow_holes {
        return Err(nothing_connects(catalogue, stored).into());
    }
    let mut choice = best.and_then(|best| accept(best, stored)).unwrap_or_default();
    if limits.allow_holes {
        append_loose(network, catalogue, stored, &loose, limits.stop_at, &mut choice)?;
    } else {
        choice.left_out.unconnected = loose.iter().map(|branch| branch.blocks.len() as u64).sum();
    }
    count_left_out(catalogue, stored, limits.stop_at, &mut choice)?;
    Ok(choice)
}

fn nothing_connects(catalogue: &Catalogue, stored: &Stored) -> CliError {
    let count = catalogue.tree.len();
    let to = stored.height().map_or("the network's first block".into(), |height| {
        format!("the stored chain, whose tip is at height {height}")
    });
    CliError::input(format!("none of the {count} blocks connects to {to}"))
        .hint("first import the blocks in between, or pass --allow-holes to skip them")
}

/// Finds where a branch leaves the stored chain; `None` when nobody knows its base.
fn connect(
    network: Network,
    catalogue: &Catalogue,
    stored: &Stored,
    branch: &Branch,
    stop_at: Option<u64>,
) -> anyhow::Result<Option<Candidate>> {
    let first_hash = genesis_hash(network);
    let base = stored.find(&branch.base)?;
    let is_whole = branch.base == BlockHash::default();
    let first = branch.blocks.first().and_then(|first| catalogue.tree.hash(*first));
    // Built on no block at all: only genesis is, and another genesis is another network's.
    if is_whole && first != first_hash {
        let message = format!("the first block of the files is not the first block of {network}");
        return Err(CliError::input(message).hint("pass the right --network").into());
    }
    // Files may well start at block 1, and the first block is a constant of the network.
    let needs_genesis = Some(branch.base) == first_hash && stored.tip.is_none();
    let known = count_known(catalogue, stored, &branch.blocks)?;
    let (below, new) = branch.blocks.split_at_checked(known).unwrap_or_default();
    let fork = match below.last() {
        Some(last) => find(catalogue, stored, *last)?,
        None => base,
    };
    if !(is_whole || needs_genesis || fork.is_some()) {
        return Ok(None);
    }
    let above_fork = fork.map_or(u64::from(needs_genesis), |fork| fork.point.height + 1);
    let blocks: Vec<_> = with_heights(new, above_fork, stop_at).collect();
    let below = fork.map_or(Work::default(), |fork| fork.work);
    // Of what will be applied alone: blocks above the limit must not win for a branch that then
    // ends with less work.
    let works = blocks.iter().filter_map(|(id, _)| catalogue.tree.work(*id));
    let work = works.fold(below, |sum, work| sum.checked_add(work).unwrap_or(sum));
    Ok(Some(Candidate { fork, needs_genesis, blocks, work }))
}

/// Blocks with their heights from `start` on, up to a limit.
fn with_heights(
    blocks: &[HeaderId],
    start: u64,
    stop_at: Option<u64>,
) -> impl Iterator<Item = (HeaderId, u32)> {
    let heights = (start..).take_while(move |height| stop_at.is_none_or(|stop| *height <= stop));
    // No chain has as many as 2^32 blocks.
    let heights = heights.map_while(|height| u32::try_from(height).ok());
    blocks.iter().copied().zip(heights)
}

fn find(
    catalogue: &Catalogue,
    stored: &Stored,
    id: HeaderId,
) -> anyhow::Result<Option<StoredPoint>> {
    catalogue.tree.hash(id).map_or(Ok(None), |hash| stored.find(&hash))
}

/// How many blocks of a branch, from its start, are stored.
fn count_known(
    catalogue: &Catalogue,
    stored: &Stored,
    branch: &[HeaderId],
) -> anyhow::Result<usize> {
    let mut failed = Ok(());
    // A block is stored only after its parent, so stored ones are a branch's beginning: a binary
    // search finds its end.
    let known = branch.partition_point(|id| match find(catalogue, stored, *id) {
        Ok(found) => found.is_some(),
        Err(error) => {
            failed = Err(error);
            false
        }
    });
    failed.map(|()| known)
}

/// Extends the stored chain, or replaces its end when that has less work; else `None`.
fn accept(best: Candidate, stored: &Stored) -> Option<Choice> {
    let extends = best.extends(stored);
    let Candidate { fork, needs_genesis, blocks, work } = best;
    let fork = match stored.tip {
        _ if extends => None,
        Some(tip) if work > tip.work => {
            let height = fork.map(|fork| fork.point.height);
            let target = fork.map_or(RollbackTarget::Origin, |fork| RollbackTarget::Point {
                height: fork.point.height,
                hash: fork.point.hash,
            });
            let undoes = tip.point.height + 1 - height.map_or(0, |height| height + 1);
            Some(Fork { target, height, undoes })
        }
        Some(_) | None => return None,
    };
    let needs_genesis = needs_genesis && !blocks.is_empty();
    Some(Choice { blocks, fork, needs_genesis, left_out: LeftOut::default() })
}

/// Adds branches whose parents nobody knows, by the heights that their blocks name.
fn append_loose(
    network: Network,
    catalogue: &mut Catalogue,
    stored: &Stored,
    loose: &[Branch],
    stop_at: Option<u64>,
    choice: &mut Choice,
) -> anyhow::Result<()> {
    let mut by_height = Vec::new();
    for branch in loose {
        by_height.push((start_height(network, catalogue, branch)?, branch));
    }
    // Their parents are unknown, so the height is the only order there is.
    by_height.sort_by_key(|(height, _)| *height);
    for (start, branch) in by_height {
        let top = choice.blocks.last().map(|(_, height)| u64::from(*height));
        let top = top.or_else(|| stored.height());
        // It overlaps what is there, and without parents nothing tells which is right.
        if top.is_some_and(|top| start <= top) {
            choice.left_out.unconnected += branch.blocks.len() as u64;
            continue;
        }
        choice.blocks.extend(with_heights(&branch.blocks, start, stop_at));
    }
    Ok(())
}

/// The height of a branch's first block, by the first of its blocks that names its own.
fn start_height(
    network: Network,
    catalogue: &mut Catalogue,
    branch: &Branch,
) -> anyhow::Result<u64> {
    for (above, id) in (0_u64..).zip(&branch.blocks) {
        // Blocks from before BIP 34 name no height; the first that does gives that of all below it.
        let raw = catalogue.read_id(*id, None)?;
        match decode_block(network, &raw.bytes, None) {
            Ok(block) => {
                let start = block.header.point.height.checked_sub(above);
                let wrong =
                    || CliError::input(format!("{} states a wrong height", raw.place.name()));
                return start.ok_or_else(|| wrong().into());
            }
            Err(DecodeError::HeightUnknown) => {}
            Err(error) => return Err(error).with_context(|| raw.place.name()),
        }
    }
    let message = "the blocks after the hole do not state their height";
    let hint = "only blocks that state their height (BIP 34) can follow a hole";
    Err(CliError::input(message).hint(hint).into())
}

/// What is neither applied, nor stored, nor loose, nor above the limit lost to a better branch.
fn count_left_out(
    catalogue: &Catalogue,
    stored: &Stored,
    stop_at: Option<u64>,
    choice: &mut Choice,
) -> anyhow::Result<()> {
    let mut applied: Vec<_> = choice.blocks.iter().map(|(id, _)| *id).collect();
    applied.sort_unstable();
    let kept_below = match choice.fork {
        Some(fork) => fork.height,
        None => stored.height(),
    };
    let mut others = 0;
    for id in catalogue.tree.ids().filter(|id| applied.binary_search(id).is_err()) {
        let found = find(catalogue, stored, id)?.map(|found| found.point.height);
        if found.is_some() && found <= kept_below {
            choice.left_out.known += 1;
        } else {
            others += 1;
        }
    }
    // With a limit, blocks above it can't be told from stale ones without deciding about them.
    let stale = if stop_at.is_some() { 0 } else { others };
    choice.left_out.stale = u64::saturating_sub(stale, choice.left_out.unconnected);
    Ok(())
}
