//! Cardano's chunk files: CBOR items back to back, read in pieces, packed or not.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use unspent_networks::cardano::{
    MAX_BLOCK_BYTES,
    framing::{SplitError, split_cbor_items},
};

use super::{FilesError, find::InputFile};

/// Bytes read at a time.
const PIECE: usize = 4 * 1024 * 1024;
/// Bytes read at first: often only the first block is wanted.
const FIRST_PIECE: usize = 64 * 1024;
/// More than this is never waiting: two blocks of the largest size.
const MOST_WAITING: usize = 2 * MAX_BLOCK_BYTES;

/// A block of any era is an array of two: the era, and the block itself.
const BLOCK_START: u8 = 0x82;

/// Opens a file, unpacking it on the way where it is packed.
///
/// # Errors
///
/// [`FilesError`] when it can't be opened.
pub fn open(file: &InputFile) -> Result<Box<dyn Read + Send>, FilesError> {
    let open = File::open(&file.path).map_err(FilesError::unreadable(&file.path))?;
    if !file.is_packed {
        return Ok(Box::new(open));
    }
    let unpacking = zstd::Decoder::new(open);
    Ok(Box::new(unpacking.map_err(FilesError::packed(&file.path))?))
}

/// A chunk that can't be read on. Items before it are fine.
#[derive(Debug, thiserror::Error)]
pub enum ChunkError {
    /// It holds something else than whole items.
    #[error(transparent)]
    Framing(#[from] SplitError),
    /// It holds something else than blocks.
    #[error("the item at byte {offset} is not a block")]
    NoBlock {
        /// Where in the (unpacked) file.
        offset: u64,
    },
    /// The system can't read it.
    #[error("can't read further at byte {offset}: {source}")]
    Io {
        /// Where in the (unpacked) file.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
}

impl ChunkError {
    /// The file ends inside an item: it is being written, or it was cut.
    pub fn is_torn(&self) -> bool {
        matches!(self, Self::Framing(SplitError::Torn { .. }))
    }
}

/// Cuts a stream of CBOR items. Ends after the first error.
pub struct ChunkReader<R> {
    reader: R,
    waiting: Vec<u8>,
    start: usize,
    offset: u64,
    /// Bytes to read next.
    piece: usize,
    at_end: bool,
    is_done: bool,
}

impl<R: Read> ChunkReader<R> {
    /// Items from the start of `reader`.
    pub fn new(reader: R) -> Self {
        Self::from(reader, 0)
    }

    /// Items of a reader that stands at `offset` of its file.
    pub fn from(reader: R, offset: u64) -> Self {
        let waiting = Vec::new();
        Self {
            reader,
            waiting,
            start: 0,
            offset,
            piece: FIRST_PIECE,
            at_end: false,
            is_done: false,
        }
    }

    /// Where the next item starts.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next item with its offset, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ChunkError`] at what isn't an item; nothing follows it.
    pub fn next_item(&mut self) -> Result<Option<(u64, Vec<u8>)>, ChunkError> {
        if self.is_done {
            return Ok(None);
        }
        let item = self.cut();
        self.is_done = !matches!(item, Ok(Some(_)));
        item
    }

    fn cut(&mut self) -> Result<Option<(u64, Vec<u8>)>, ChunkError> {
        loop {
            let ready = self.waiting.get(self.start..).unwrap_or_default();
            let is_torn = match split_cbor_items(ready).next() {
                Some(Ok(item)) => {
                    let found = (self.offset, item.to_vec());
                    self.start += found.1.len();
                    self.offset += found.1.len() as u64;
                    return Ok(Some(found));
                }
                Some(Err(SplitError::Torn { .. })) => true,
                Some(Err(error)) => return Err(self.located(error)),
                None => false,
            };
            if self.at_end || ready.len() > MOST_WAITING {
                let torn = SplitError::Torn { offset: 0 };
                return if is_torn { Err(self.located(torn)) } else { Ok(None) };
            }
            let offset = self.offset;
            self.refill().map_err(|source| ChunkError::Io { offset, source })?;
        }
    }

    fn refill(&mut self) -> io::Result<()> {
        self.waiting.drain(..self.start);
        self.start = 0;
        let wanted = self.piece as u64;
        let piece = self.reader.by_ref().take(wanted).read_to_end(&mut self.waiting)?;
        self.piece = PIECE;
        self.at_end = piece == 0;
        Ok(())
    }

    /// The error with its place in the file instead of its place in the piece.
    fn located(&self, error: SplitError) -> ChunkError {
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let located = match error {
            SplitError::Torn { .. } => SplitError::Torn { offset },
            SplitError::Malformed { reason, .. } => SplitError::Malformed { offset, reason },
            SplitError::TooLarge { limit, .. } => SplitError::TooLarge { offset, limit },
        };
        located.into()
    }
}

/// What a look through a file found.
pub struct Contents {
    /// How many blocks it holds.
    pub blocks: u64,
    /// The bytes of the first and the last one; `None` when there is none.
    pub ends: Option<(Vec<u8>, Vec<u8>)>,
}

/// Counts the blocks of a file, by its `.secondary` where there is one that fits, else by reading
/// it.
///
/// # Errors
///
/// [`FilesError`] when the file can't be read to its end, or when it need not go on.
pub fn survey(file: &InputFile, goes_on: &dyn Fn() -> bool) -> Result<Contents, FilesError> {
    if let Some(contents) = by_secondary(file) {
        return Ok(contents);
    }
    let mut reader = ChunkReader::new(open(file)?);
    let mut contents = Contents { blocks: 0, ends: None };
    while let Some((offset, item)) = reader.next_item().map_err(FilesError::chunk(&file.path))? {
        // A few bytes that unpack to gigabytes of zeros are as many items, and not one block.
        if item.first() != Some(&BLOCK_START) {
            return Err(FilesError::chunk(&file.path)(ChunkError::NoBlock { offset }));
        }
        if !goes_on() {
            return Err(FilesError::Interrupted);
        }
        contents.blocks += 1;
        match &mut contents.ends {
            Some((_, last)) => *last = item,
            None => contents.ends = Some((item.clone(), item)),
        }
    }
    Ok(contents)
}

/// Entry of a secondary index: offset u64, header offset and size u16, checksum u32, hash, slot
/// u64.
const SECONDARY_ENTRY: usize = 56;

/// `None` when the index is absent or contradicts the chunk; the chunk itself is then read.
fn by_secondary(file: &InputFile) -> Option<Contents> {
    if file.is_packed || file.path.extension()? != "chunk" {
        return None;
    }
    let index = std::fs::read(file.path.with_extension("secondary")).ok()?;
    let (entries, []) = index.as_chunks::<SECONDARY_ENTRY>() else { return None };
    let offset = |entry: &[u8; SECONDARY_ENTRY]| {
        entry.first_chunk::<8>().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes))
    };
    let rises = entries.iter().is_sorted_by(|a, b| offset(a) < offset(b));
    if offset(entries.first()?) != 0 || !rises {
        return None;
    }
    let last = tail(&file.path, offset(entries.last()?))?;
    // Exactly one item must stand behind the last offset: neither torn nor followed by more.
    let mut items = split_cbor_items(&last);
    let (Some(Ok(_)), None) = (items.next(), items.next()) else { return None };
    drop(items);
    let (_, first) = ChunkReader::new(File::open(&file.path).ok()?).next_item().ok()??;
    Some(Contents { blocks: u64::try_from(entries.len()).ok()?, ends: Some((first, last)) })
}

/// The end of a file from `offset`, when it is no longer than a block may be.
fn tail(path: &Path, offset: u64) -> Option<Vec<u8>> {
    use std::io::{Seek, SeekFrom};
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len().checked_sub(offset)?;
    if length == 0 || length > MAX_BLOCK_BYTES as u64 {
        return None;
    }
    file.seek(SeekFrom::Start(offset)).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out one byte at a time, as slow pipes do.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let (Some(to), Some((first, rest))) = (into.first_mut(), self.0.split_first()) else {
                return Ok(0);
            };
            *to = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn items(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, Option<String>) {
        let mut reader = ChunkReader::new(Drip(bytes));
        let mut found = Vec::new();
        loop {
            match reader.next_item() {
                Ok(Some(item)) => found.push(item),
                Ok(None) => return (found, None),
                Err(error) => return (found, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn items_are_cut_with_their_offsets() {
        let (found, error) = items(&[0x82, 1, 2, 0x03, 0x81, 0x80]);
        let expected = [(0, vec![0x82, 1, 2]), (3, vec![0x03]), (4, vec![0x81, 0x80])];
        assert_eq!((found.as_slice(), error), (expected.as_slice(), None));
        assert_eq!(items(&[]), (vec![], None));
    }

    #[test]
    fn a_torn_item_is_named_by_its_place_in_the_file() {
        let (found, error) = items(&[0x03, 0x82, 1]);
        assert_eq!(found.len(), 1);
        assert!(error.unwrap().contains("byte 1"));
    }
}
