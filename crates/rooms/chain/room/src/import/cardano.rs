//! Cardano: chunk files in the order given, blocks in the order of the files.

use std::{io::Read, path::PathBuf, sync::Arc};

use anyhow::Context;
use unspent_model::{Network, Point};
use unspent_networks::decode_block;
use unspent_source::files::{
    FileBlock, FilesError, Place,
    chunks::{self, ChunkReader},
    find::InputFile,
};

use super::{
    look::Look,
    plan::{LeftOut, Plan, Stored},
};

/// Looks through the files, so that a torn one is found before anything is written.
pub(crate) fn plan(
    network: Network,
    files: Vec<InputFile>,
    stored: &Stored,
    stop_at: Option<u64>,
    look: &Look<'_>,
) -> anyhow::Result<Plan> {
    let mut wanted = Vec::new();
    let (mut coming, mut known) = (0, 0);
    let mut seen = stored.height();
    for file in files {
        look.step()?;
        let contents = chunks::survey(&file, &|| look.goes_on())?;
        let Some((first, last)) = &contents.ends else { continue };
        let (first, last) = (point(network, first, &file)?, point(network, last, &file)?);
        // Blocks below a stored one are stored too or, in a hole, can't be put in any more.
        if stored.find(&last.hash)?.is_some() {
            known += contents.blocks;
            continue;
        }
        let is_new = seen.is_none_or(|seen| first.height > seen);
        // Counted block by block at the edges: a number too high would leave out undo data that a
        // rollback needs.
        coming += if is_new && stop_at.is_none_or(|stop| last.height <= stop) {
            contents.blocks
        } else {
            count_between(network, &file, HeightLimits { above: seen, up_to: stop_at })?
        };
        // The same chunk given twice must not count twice.
        seen = seen.max(Some(last.height));
        wanted.push(file);
    }
    let blocks = Box::new(Chunks { files: wanted.into_iter(), current: None });
    let left_out = LeftOut { known, ..LeftOut::default() };
    Ok(Plan { blocks, coming, fork: None, left_out, passed_over: Vec::new() })
}

fn point(network: Network, raw: &[u8], file: &InputFile) -> anyhow::Result<Point> {
    let block = decode_block(network, raw, None);
    let named = || format!("first or last block of {}", file.path.display());
    Ok(block.with_context(named)?.header.point)
}

/// Which blocks count; without a limit all do.
struct HeightLimits {
    above: Option<u64>,
    up_to: Option<u64>,
}

/// Blocks between the limits. A boundary block at the very height seen before is left out, which
/// errs on the safe side.
fn count_between(network: Network, file: &InputFile, limits: HeightLimits) -> anyhow::Result<u64> {
    let mut reader = ChunkReader::new(chunks::open(file)?);
    let mut count = 0;
    while let Some((offset, item)) = reader.next_item().map_err(FilesError::chunk(&file.path))? {
        let place = Place { file: Arc::new(file.path.clone()), offset, height: None };
        let block = decode_block(network, &item, None).with_context(|| place.name())?;
        let height = block.header.point.height;
        if limits.up_to.is_some_and(|stop| height > stop) {
            break;
        }
        count += u64::from(limits.above.is_none_or(|seen| height > seen));
    }
    Ok(count)
}

/// A chunk file that is being read.
type OpenChunk = (Arc<PathBuf>, ChunkReader<Box<dyn Read + Send>>);

/// The blocks of some files, one after the other.
struct Chunks {
    files: std::vec::IntoIter<InputFile>,
    current: Option<OpenChunk>,
}

impl Chunks {
    fn read(&mut self) -> anyhow::Result<Option<FileBlock>> {
        loop {
            if let Some((file, reader)) = &mut self.current {
                let item = reader.next_item().map_err(FilesError::chunk(file))?;
                if let Some((offset, bytes)) = item {
                    let place = Place { file: file.clone(), offset, height: None };
                    return Ok(Some(FileBlock { place, bytes }));
                }
            }
            let Some(next) = self.files.next() else { return Ok(None) };
            let reader = ChunkReader::new(chunks::open(&next)?);
            self.current = Some((Arc::new(next.path), reader));
        }
    }
}

impl Iterator for Chunks {
    type Item = anyhow::Result<FileBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
