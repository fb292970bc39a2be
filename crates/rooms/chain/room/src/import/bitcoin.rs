//! Bitcoin: all headers first, then the blocks of the best branch in the order of the chain.

use std::path::PathBuf;

use anyhow::Context as _;
use unspent_model::{Network, chain::Work, headers::HeaderId};
use unspent_networks::decode_block;
use unspent_source::files::{FileBlock, catalogue::Catalogue, find::InputFile, first_block};

use super::{
    branch::{self, Choice, Limits},
    look::Look,
    plan::{Plan, Stored},
};

/// Where an import leaves what it needs beside the index.
pub(crate) struct CatalogueFolders {
    /// A folder for unpacked files.
    pub(crate) unpacked: PathBuf,
    /// The file in which the catalogue is kept for the next import.
    pub(crate) kept: PathBuf,
}

/// Finds all blocks, chooses the branch, and makes sure that a better one can be read.
pub(crate) fn plan(
    network: Network,
    files: &[InputFile],
    rooms: &CatalogueFolders,
    stored: &Stored,
    limits: &Limits,
    look: &Look<'_>,
) -> anyhow::Result<Plan> {
    let CatalogueFolders { unpacked, kept } = rooms;
    let (next_file, goes_on) = (|| look.next_file(), || look.goes_on());
    let mut catalogue = Catalogue::build(network, files, unpacked, kept, &next_file, &goes_on)?;
    let choice = branch::choose(network, &mut catalogue, stored, limits)?;
    if choice.fork.is_some() {
        check_readable(network, &mut catalogue, stored, &choice)?;
    }
    let Choice { blocks, fork, needs_genesis, left_out } = choice;
    let passed_over = catalogue.passed_over();
    let genesis = first_block(network).filter(|_| needs_genesis);
    let coming = blocks.len() as u64 + u64::from(needs_genesis);
    let blocks = blocks.into_iter();
    let blocks = Box::new(InChainOrder { catalogue, is_kept: false, genesis, blocks });
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
        Some(unspent_chain::RollbackTarget::Point { hash, .. }) => stored.find(&hash)?,
        Some(_) | None => None,
    };
    let to_beat = stored.tip.map_or(Work::default(), |tip| tip.work);
    let mut work = below.map_or(Work::default(), |below| below.work);
    for (id, height) in &choice.blocks {
        // It has won by now: what breaks further up still leaves the better chain.
        if work > to_beat {
            break;
        }
        let height = Some(u64::from(*height));
        let raw = catalogue.read_id(*id, height)?;
        let block = decode_block(network, &raw.bytes, height);
        let block = block.with_context(|| raw.place.name())?;
        work = block.header.work.checked_add(work).unwrap_or(work);
    }
    Ok(())
}

/// The chosen blocks, read one after the other from wherever they lie.
struct InChainOrder {
    catalogue: Catalogue,
    /// The catalogue has been written down, or can't be.
    is_kept: bool,
    genesis: Option<FileBlock>,
    blocks: std::vec::IntoIter<(HeaderId, u32)>,
}

impl InChainOrder {
    /// Keeps the catalogue, once. Whoever asks for blocks has made the folder by then; a refused
    /// import leaves none behind.
    fn keep(&mut self) {
        if std::mem::replace(&mut self.is_kept, true) {
            return;
        }
        if let Err(error) = self.catalogue.keep() {
            tracing::warn!(%error, "can't save the catalogue of the block files");
        }
    }
}

impl Iterator for InChainOrder {
    type Item = anyhow::Result<FileBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        self.keep();
        if let Some(genesis) = self.genesis.take() {
            return Some(Ok(genesis));
        }
        let (id, height) = self.blocks.next()?;
        Some(self.catalogue.read_id(id, Some(u64::from(height))).map_err(Into::into))
    }
}
