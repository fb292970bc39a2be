//! Cardano: chunk files in the order given, blocks in the order of the files.

use std::{io::Read, sync::Arc};

use anyhow::Context;
use unspent_model::Network;
use unspent_networks::decode_block;

use super::{
    chunks::{self, ChunkReader},
    files::InputFile,
    pipeline::{Place, RawBlock},
    plan::{LeftOut, Plan, Stored},
};

/// Looks through the files, so that a torn one is found before anything is written.
pub(crate) fn plan(
    network: Network,
    files: Vec<InputFile>,
    stored: &Stored,
    stop_at: Option<u64>,
) -> anyhow::Result<Plan> {
    let mut wanted = Vec::new();
    let (mut total, mut known, mut top) = (0, 0, None::<u64>);
    for file in files {
        let contents = chunks::survey(&file)?;
        let Some(last) = contents.last else { continue };
        let last = decode_block(network, &last, None);
        let last = last.with_context(|| format!("last block of {}", file.path.display()))?;
        let point = last.header.point;
        if stored.find(&point.hash)?.is_some() {
            known += contents.blocks;
            continue;
        }
        total += contents.blocks;
        top = top.max(Some(point.height));
        wanted.push(file);
    }
    let top = top.map(|top| stop_at.map_or(top, |stop| top.min(stop)));
    let coming = coming(top, stored.height()).min(total);
    let source = Box::new(Chunks { files: wanted.into_iter(), current: None });
    let left_out = LeftOut { known, ..LeftOut::default() };
    Ok(Plan { source, total, coming, fork: None, left_out })
}

/// Blocks above the tip, by height. Boundary blocks share heights, which errs on the safe side.
fn coming(top: Option<u64>, tip: Option<u64>) -> u64 {
    match (top, tip) {
        (None, _) => 0,
        (Some(top), None) => top.saturating_add(1),
        (Some(top), Some(tip)) => top.saturating_sub(tip),
    }
}

/// The blocks of some files, one after the other.
struct Chunks {
    files: std::vec::IntoIter<InputFile>,
    current: Option<(Arc<std::path::PathBuf>, ChunkReader<Box<dyn Read + Send>>)>,
}

impl Chunks {
    fn read(&mut self) -> anyhow::Result<Option<RawBlock>> {
        loop {
            if let Some((file, reader)) = &mut self.current {
                let item = reader.next_item().with_context(|| chunks::in_file(file))?;
                if let Some((offset, bytes)) = item {
                    let place = Place { file: file.clone(), offset, height: None };
                    return Ok(Some(RawBlock { place, bytes }));
                }
            }
            let Some(next) = self.files.next() else { return Ok(None) };
            let reader = ChunkReader::new(chunks::open(&next)?);
            self.current = Some((Arc::new(next.path), reader));
        }
    }
}

impl Iterator for Chunks {
    type Item = anyhow::Result<RawBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
