//! Bitcoin: all headers first, then the blocks of the best branch in the order of the chain.

use std::path::Path;

use anyhow::Context as _;
use unspent_engine::files::{FileBlock, catalogue::Catalogue, find::InputFile, first_block};
use unspent_model::{BlockHash, Network, chain::Work};
use unspent_networks::decode_block;

use super::{
    branch::{self, Choice, Limits},
    look::Look,
    plan::{Plan, Stored},
};

/// Finds all blocks, chooses the branch, and makes sure that a better one can be read.
pub(crate) fn plan(
    network: Network,
    files: &[InputFile],
    workroom: &Path,
    stored: &Stored,
    limits: &Limits,
    look: &Look<'_>,
) -> anyhow::Result<Plan> {
    let mut catalogue =
        Catalogue::build(network, files, workroom, &|| look.next_file(), &|| look.goes_on())?;
    let choice = branch::choose(network, &mut catalogue, stored, limits)?;
    if choice.fork.is_some() {
        check_readable(network, &mut catalogue, stored, &choice)?;
    }
    let Choice { blocks, fork, needs_genesis, left_out } = choice;
    let passed_over = catalogue.passed_over();
    let genesis = first_block(network).filter(|_| needs_genesis);
    let coming = blocks.len() as u64 + u64::from(needs_genesis);
    let blocks = Box::new(InChainOrder { catalogue, genesis, blocks: blocks.into_iter() });
    Ok(Plan { blocks, coming, fork, left_out, passed_over })
}

/// Decodes the new branch up to where it wins: nobody leaves a good branch for a broken one.
fn check_readable(
    network: Network,
    catalogue: &mut Catalogue,
    stored: &Stored,
    choice: &Choice,
) -> anyhow::Result<()> {
    let below = match choice.fork.map(|fork| fork.target) {
        Some(unspent_chain::Target::Point { hash, .. }) => stored.find(&hash)?,
        Some(_) | None => None,
    };
    let to_beat = stored.tip.map_or(Work::default(), |tip| tip.work);
    let mut work = below.map_or(Work::default(), |below| below.work);
    for (hash, height) in &choice.blocks {
        if work > to_beat {
            break;
        }
        let raw = catalogue.read(hash, Some(*height))?;
        let block = decode_block(network, &raw.bytes, Some(*height));
        let block = block.with_context(|| raw.place.name())?;
        work = block.header.work.checked_add(work).unwrap_or(work);
    }
    Ok(())
}

/// The chosen blocks, read one after the other from wherever they lie.
struct InChainOrder {
    catalogue: Catalogue,
    genesis: Option<FileBlock>,
    blocks: std::vec::IntoIter<(BlockHash, u64)>,
}

impl Iterator for InChainOrder {
    type Item = anyhow::Result<FileBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(genesis) = self.genesis.take() {
            return Some(Ok(genesis));
        }
        let (hash, height) = self.blocks.next()?;
        Some(self.catalogue.read(&hash, Some(height)).map_err(Into::into))
    }
}
