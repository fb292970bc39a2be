//! Cardano's chunk files, in the order of the chain.
//!
//! A node never takes back what is in its ImmutableDB, so the way only leads forward. The newest
//! file grows, and new ones come; a block that is only half there is waited for.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use unspent_model::{BlockHash, Point};
use unspent_networks::cardano::head::{Head, block_head};

use super::Files;
use crate::{
    RawBlock, Source, SourceError, Step,
    files::{
        FilesError,
        chunks::{self, ChunkReader},
        find::InputFile,
    },
};

type Items = ChunkReader<Box<dyn Read + Send>>;

/// A file and where its first block stands.
#[derive(Clone)]
struct Chunk {
    file: InputFile,
    first: Point,
}

/// Where the reading is.
struct Position {
    path: PathBuf,
    /// `None` at the end of what the file had.
    items: Option<Items>,
    offset: u64,
    /// The file's size when its end was met.
    size_at_end: u64,
}

/// A reader of Cardano's chunk files.
pub(super) struct ChunksSource {
    files: Arc<Files>,
    /// In the order of the chain.
    chunks: Vec<Chunk>,
    listed: Instant,
    /// `None` is the origin.
    place: Option<Point>,
    position: Option<Position>,
    tip: Option<(PathBuf, u64, Point)>,
}

impl ChunksSource {
    pub(super) fn open(files: Arc<Files>) -> Result<Self, SourceError> {
        let listed = Instant::now();
        let (chunks, place, position, tip) = (Vec::new(), None, None, None);
        let mut source = Self { files, chunks, listed, place, position, tip };
        source.list()?;
        Ok(source)
    }

    /// Looks which files there are, and where the last one ends.
    fn list(&mut self) -> Result<(), SourceError> {
        let files = self.files.list()?;
        let mut known: HashMap<_, _> =
            self.chunks.drain(..).map(|chunk| (chunk.file.path.clone(), chunk)).collect();
        let mut chunks = Vec::with_capacity(files.len());
        for file in files {
            match known.remove(&file.path) {
                // A chunk's first block never changes, and opening thousands of files at each look
                // is slow.
                Some(chunk) => chunks.push(chunk),
                None => chunks.extend(self.first_of(file)?),
            }
        }
        // A Byron boundary block can have the slot of the block above it, but not its number.
        chunks.sort_by_key(|chunk| (chunk.first.slot, chunk.first.height));
        self.chunks = chunks;
        self.listed = Instant::now();
        self.find_tip()
    }

    /// `None` for a file without a whole block.
    fn first_of(&self, file: InputFile) -> Result<Option<Chunk>, SourceError> {
        let mut items = self.items(&file, 0)?;
        match items.next_item() {
            Ok(Some((_, bytes))) => Ok(Some(Chunk { first: self.head(&bytes)?.point, file })),
            Ok(None) => Ok(None),
            Err(error) if error.is_torn() => Ok(None),
            Err(error) => Err(self.files.explain(&FilesError::chunk(&file.path)(error))),
        }
    }

    fn find_tip(&mut self) -> Result<(), SourceError> {
        let Some(last) = self.chunks.last() else { return Ok(()) };
        let (path, size) = (&last.file.path, size(&last.file.path));
        if self.tip.as_ref().is_some_and(|(known, at, _)| (known, *at) == (path, size)) {
            return Ok(());
        }
        let mut items = self.items(&last.file, 0)?;
        let mut end = last.first;
        // A torn end is the reader's business when it comes there.
        while let Ok(Some((_, bytes))) = items.next_item() {
            end = self.head(&bytes)?.point;
        }
        self.tip = Some((path.clone(), size, end));
        Ok(())
    }

    fn head(&self, bytes: &[u8]) -> Result<Head, SourceError> {
        block_head(self.files.network, bytes).map_err(|error| self.files.malformed(error))
    }

    fn items(&self, file: &InputFile, offset: u64) -> Result<Items, SourceError> {
        let explain = |error| self.files.explain(&error);
        if !file.is_packed {
            let unreadable = |error| explain(FilesError::unreadable(&file.path)(error));
            let mut open = File::open(&file.path).map_err(unreadable)?;
            open.seek(SeekFrom::Start(offset)).map_err(unreadable)?;
            return Ok(ChunkReader::from(Box::new(open), offset));
        }
        let mut items = ChunkReader::new(chunks::open(file).map_err(explain)?);
        while items.offset() < offset {
            let item = items.next_item().map_err(FilesError::chunk(&file.path)).map_err(explain)?;
            if item.is_none() {
                break;
            }
        }
        Ok(items)
    }

    fn position(&self, file: &InputFile, offset: u64) -> Result<Position, SourceError> {
        let items = Some(self.items(file, offset)?);
        Ok(Position { path: file.path.clone(), items, offset, size_at_end: 0 })
    }

    /// The next item; `None` at the end of all files.
    fn item(&mut self) -> Result<Option<Vec<u8>>, SourceError> {
        loop {
            let Some(position) = &mut self.position else {
                let Some(first) = self.chunks.first().cloned() else { return Ok(None) };
                self.position = Some(self.position(&first.file, 0)?);
                continue;
            };
            let Some(items) = &mut position.items else {
                match self.after_end()? {
                    Some(next) => self.position = Some(next),
                    None => return Ok(None),
                }
                continue;
            };
            match items.next_item() {
                Ok(Some((_, bytes))) => {
                    position.offset = items.offset();
                    return Ok(Some(bytes));
                }
                Ok(None) => position.items = None,
                Err(error) if error.is_torn() => position.items = None,
                Err(error) => {
                    let error = FilesError::chunk(&position.path)(error);
                    return Err(self.files.explain(&error));
                }
            }
            position.size_at_end = size(&position.path);
        }
    }

    /// Where to go on after the end of a file: in the same, when it has grown, or in the next.
    fn after_end(&self) -> Result<Option<Position>, SourceError> {
        let Some(position) = &self.position else { return Ok(None) };
        let at = self.chunks.iter().position(|chunk| chunk.file.path == position.path);
        let Some(at) = at else {
            return Err(self
                .files
                .unreachable(format!("{} no longer exists", position.path.display())));
        };
        let (this, next) = (self.chunks.get(at), self.chunks.get(at + 1));
        let Some(this) = this else { return Ok(None) };
        let size = size(&position.path);
        // Also when a next file is there already: the last blocks of this one may just have come.
        if !this.file.is_packed && size != position.size_at_end {
            return self.position(&this.file, position.offset).map(Some);
        }
        let is_torn = !this.file.is_packed && size != position.offset;
        match next {
            Some(_) if is_torn => {
                let path = position.path.display();
                Err(self.files.malformed(format!("{path} ends inside a block")))
            }
            Some(next) => self.position(&next.file, 0).map(Some),
            None => Ok(None),
        }
    }

    fn forward(&mut self) -> Result<Option<Step>, SourceError> {
        while let Some(bytes) = self.item()? {
            let head = self.head(&bytes)?;
            let point = head.point;
            let parent = match self.place {
                // Files may overlap.
                Some(place) if point == place || point.slot < place.slot => continue,
                Some(place) if head.parent == place.hash => Some(place.hash),
                Some(place) => return Err(self.files.missing(place.height.saturating_add(1))),
                None if point.height > 0 => return Err(self.files.missing(0)),
                None => None,
            };
            self.place = Some(point);
            return Ok(Some(Step::Forward(RawBlock::new(point, parent, bytes))));
        }
        Ok(None)
    }

    /// Finds the newest of `wanted` in one file: the point and where the block ends.
    fn find_in(
        &self,
        chunk: &Chunk,
        wanted: &HashSet<BlockHash>,
    ) -> Result<Option<(Point, u64)>, SourceError> {
        let mut items = self.items(&chunk.file, 0)?;
        let mut found = None;
        // What can't be read is met again by whoever reads on.
        while let Ok(Some((_, bytes))) = items.next_item() {
            let point = self.head(&bytes)?.point;
            if wanted.contains(&point.hash) {
                found = Some((point, items.offset()));
            }
        }
        Ok(found)
    }
}

/// The size of a file; 0 when it is gone.
fn size(path: &PathBuf) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

impl Source for ChunksSource {
    fn intersect(&mut self, points: &[Point]) -> Result<Option<Point>, SourceError> {
        self.list()?;
        (self.place, self.position) = (None, None);
        let wanted: HashSet<_> = points.iter().map(|point| point.hash).collect();
        let mut looked_at = None;
        for point in points {
            // The last file that starts at or before the point.
            let after = self.chunks.partition_point(|chunk| chunk.first.slot <= point.slot);
            let Some(at) = after.checked_sub(1).filter(|at| looked_at != Some(*at)) else {
                continue;
            };
            looked_at = Some(at);
            let Some(chunk) = self.chunks.get(at) else { continue };
            if let Some((point, end)) = self.find_in(chunk, &wanted)? {
                self.position = Some(self.position(&chunk.file, end)?);
                self.place = Some(point);
                break;
            }
        }
        Ok(self.place)
    }

    fn next(&mut self, patience: Duration) -> Result<Step, SourceError> {
        let until = Instant::now() + patience;
        loop {
            if let Some(step) = self.forward()? {
                return Ok(step);
            }
            let left = until.saturating_duration_since(Instant::now());
            let since = self.listed.elapsed();
            if since >= self.files.poll {
                self.list()?;
            } else if left.is_zero() {
                return Ok(Step::Nothing);
            } else {
                thread::sleep(left.min(self.files.poll.saturating_sub(since)));
            }
        }
    }

    fn tip(&self) -> Option<Point> {
        self.tip.as_ref().map(|(_, _, point)| *point)
    }
}
