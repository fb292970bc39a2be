//! Block files of a node: `magic | length u32le | block`, over and over.
//!
//! Nodes allocate these files ahead, so zeros may follow any block, and current nodes obfuscate
//! what they write with an 8-byte key (`xor.dat`), but not the zeros they allocate: padding is a
//! zero byte before or after the key is applied. Blocks are in the order of their arrival, not of
//! the chain.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use unspent_model::Network;

use super::MAX_BLOCK_BYTES;
use crate::{RawHeader, bitcoin_header};

/// The key of an obfuscated folder; all zeros when there is none.
pub type XorKey = [u8; 8];

/// Bytes of a header on the wire.
const HEADER_BYTES: usize = 80;
/// Magic and length.
const PREFIX_BYTES: usize = 8;
/// The same, as an offset between a frame and its block.
pub const FRAME_BYTES: u64 = PREFIX_BYTES as u64;
/// Files are read in pieces of this size.
const BUFFER_BYTES: usize = 256 * 1024;
/// And in pieces of this size when bodies are stepped over: a header, and small blocks around it.
const SEEKING_BUFFER_BYTES: usize = 4 * 1024;

/// A block file that can't be read on. Blocks before the offset are fine.
#[derive(Debug, thiserror::Error)]
pub enum FramingError {
    /// Cardano has no such files.
    #[error("blocks of {0} don't come in framed block files; pass chunk files")]
    NoFraming(Network),
    /// Another network, a wrong key, or not a block file.
    #[error(
        "no block of this network starts at byte {offset} (found {found:02x?}); \
         check the network and the key in xor.dat"
    )]
    BadMagic {
        /// Offset in the file, in bytes.
        offset: u64,
        /// The four bytes there, the key applied.
        found: [u8; 4],
    },
    /// The block's length can't be right.
    #[error("the block at byte {offset} claims {size} bytes; a block has 81 to {limit}")]
    BadLength {
        /// Offset in the file, in bytes.
        offset: u64,
        /// The length claimed.
        size: usize,
        /// The most a block may have.
        limit: usize,
    },
    /// The file ends inside a block: it is being written, or it was cut.
    #[error("the file ends inside the block at byte {offset}; wait for the node or copy it again")]
    Torn {
        /// Where in the file the block's frame starts.
        offset: u64,
    },
    /// The file can't be read.
    #[error("can't read further at byte {offset}: {source}")]
    Io {
        /// Offset in the file, in bytes.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
}

impl FramingError {
    /// Where the bytes stand that are no block; `None` when the file itself can't be read.
    pub fn damaged_at(&self) -> Option<u64> {
        match self {
            Self::BadMagic { offset, .. }
            | Self::BadLength { offset, .. }
            | Self::Torn { offset } => Some(*offset),
            Self::NoFraming(_) | Self::Io { .. } => None,
        }
    }
}

/// A block in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Where the block itself starts, past its frame.
    pub offset: u64,
    /// Its size in bytes, the frame not counted.
    pub length: usize,
    /// Read from its first 80 bytes; the body isn't looked at.
    pub header: RawHeader,
}

/// The bytes that start each block's frame; `None` for Cardano.
pub fn magic(network: Network) -> Option<[u8; 4]> {
    super::library_network(network).map(|network| network.magic().to_bytes())
}

/// Obfuscates or clears `bytes` that stand at `file_offset` of their file.
pub fn xor(bytes: &mut [u8], key: &XorKey, file_offset: u64) {
    if *key == XorKey::default() {
        return;
    }
    // The key runs on from the start of the file, not of the piece that was read.
    let phase = usize::try_from(file_offset % 8).unwrap_or_default();
    let stream = key.iter().cycle().skip(phase);
    bytes.iter_mut().zip(stream).for_each(|(byte, k)| *byte ^= k);
}

/// Where the next frame may start, at `from` or behind it; `None` when the file holds no more.
///
/// A node that died while writing leaves half a block or whatever lay on the disk, and writes on
/// behind it after its restart.
///
/// # Errors
///
/// When the network isn't a Bitcoin network, or the file can't be read.
pub fn next_magic<R: Read + Seek>(
    network: Network,
    mut file: R,
    key: &XorKey,
    from: u64,
) -> Result<Option<u64>, FramingError> {
    let magic = magic(network).ok_or(FramingError::NoFraming(network))?;
    let unreadable = |source| FramingError::Io { offset: from, source };
    file.seek(SeekFrom::Start(from)).map_err(unreadable)?;
    let (mut piece, mut start) = (Vec::new(), from);
    loop {
        let room = (BUFFER_BYTES - piece.len()) as u64;
        let read = file.by_ref().take(room).read_to_end(&mut piece).map_err(unreadable)?;
        // The piece itself stays as it lies in the file: the end of it is looked at again with the
        // next one, from another offset.
        let mut clear = piece.clone();
        xor(&mut clear, key, start);
        if let Some(at) = clear.windows(magic.len()).position(|bytes| bytes == magic) {
            return Ok(Some(start + at as u64));
        }
        if read == 0 {
            return Ok(None);
        }
        // A magic may stand across two pieces.
        let passed = piece.len().saturating_sub(magic.len() - 1);
        piece.drain(..passed);
        start += passed as u64;
    }
}

/// Finds the blocks of a file without keeping it in memory. Ends after the first error.
pub struct Scanner<R> {
    reader: BufReader<R>,
    magic: [u8; 4],
    key: XorKey,
    offset: u64,
    stride: Option<Stride<R>>,
    is_done: bool,
}

/// How bodies are stepped over in a file whose end is known.
struct Stride<R> {
    end: u64,
    step: fn(&mut BufReader<R>, i64) -> io::Result<()>,
}

impl<R: Read + Seek> Scanner<R> {
    /// A scan from `offset` of a file on, with the key of its folder, that steps over the bodies of
    /// blocks. A frame or padding must stand at `offset`.
    ///
    /// # Errors
    ///
    /// When the network isn't a Bitcoin network, or the file can't be read at all.
    pub fn seeking(
        network: Network,
        mut file: R,
        key: XorKey,
        offset: u64,
    ) -> Result<Self, FramingError> {
        let magic = magic(network).ok_or(FramingError::NoFraming(network))?;
        let unreadable = |source| FramingError::Io { offset, source };
        let end = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
        file.seek(SeekFrom::Start(offset)).map_err(unreadable)?;
        let reader = BufReader::with_capacity(SEEKING_BUFFER_BYTES, file);
        let stride = Some(Stride { end, step: BufReader::seek_relative });
        Ok(Self { reader, magic, key, offset, stride, is_done: false })
    }
}

impl<R: Read> Scanner<R> {
    /// A scan from the start of a file, with the key of its folder (all zeros for none).
    ///
    /// # Errors
    ///
    /// When the network isn't a Bitcoin network.
    pub fn new(network: Network, reader: R, key: XorKey) -> Result<Self, FramingError> {
        let magic = magic(network).ok_or(FramingError::NoFraming(network))?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        Ok(Self { reader, magic, key, offset: 0, stride: None, is_done: false })
    }

    fn find(&mut self) -> Result<Option<Found>, FramingError> {
        let Some(start) = self.skip_padding()? else { return Ok(None) };
        let mut length = [0; 4];
        self.fill(&mut length, start)?;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        // Damage or a wrong key gives any length: nothing is stepped over by one that can't be.
        if !(HEADER_BYTES + 1..=MAX_BLOCK_BYTES).contains(&length) {
            let limit = MAX_BLOCK_BYTES;
            return Err(FramingError::BadLength { offset: start, size: length, limit });
        }
        let offset = self.offset;
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header, start)?;
        self.skip(length - HEADER_BYTES, start)?;
        // Any 80 bytes are a header, so this can't fail.
        let header = bitcoin_header(&header).map_err(|_| FramingError::Torn { offset: start })?;
        Ok(Some(Found { offset, length, header }))
    }

    /// Reads up to and over the next magic; says where it stands, or `None` at the end of the file.
    fn skip_padding(&mut self) -> Result<Option<u64>, FramingError> {
        let mut window = [0; 4];
        let mut held = 0;
        loop {
            if window == [0; 4] {
                // The window holds zeros and still does after more of them.
                self.skip_zeros()?;
            }
            held += self.read_some(window.get_mut(held..).unwrap_or_default())?;
            let start = self.offset - held as u64;
            let mut clear = window;
            xor(&mut clear, &self.key, start);
            if held == window.len() && clear == self.magic {
                return Ok(Some(start));
            }
            let [first_raw, ..] = window;
            let [first_clear, ..] = clear;
            match held {
                0 => return Ok(None),
                _ if first_raw == 0 || first_clear == 0 => held -= 1,
                4 => return Err(FramingError::BadMagic { offset: start, found: clear }),
                _ => return Err(FramingError::Torn { offset: start }),
            }
            window.rotate_left(1);
        }
    }

    /// Steps over a run of zeros at once, up to its last few: a frame may start with zeros.
    fn skip_zeros(&mut self) -> Result<(), FramingError> {
        let ready = match self.reader.fill_buf() {
            Ok(ready) => ready,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(source) => return Err(FramingError::Io { offset: self.offset, source }),
        };
        let zeros = ready.iter().take_while(|byte| **byte == 0).count();
        let count = zeros.saturating_sub(PREFIX_BYTES);
        self.reader.consume(count);
        self.offset += count as u64;
        Ok(())
    }

    /// Reads until `into` is full or the file ends.
    fn read_some(&mut self, into: &mut [u8]) -> Result<usize, FramingError> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.reader.read(rest) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(FramingError::Io { offset: self.offset, source }),
            }
        }
        self.offset += done as u64;
        Ok(done)
    }

    fn fill(&mut self, into: &mut [u8], frame: u64) -> Result<(), FramingError> {
        let offset = self.offset;
        if self.read_some(into)? < into.len() {
            return Err(FramingError::Torn { offset: frame });
        }
        xor(into, &self.key, offset);
        Ok(())
    }

    fn skip(&mut self, mut count: usize, frame: u64) -> Result<(), FramingError> {
        if let Some(stride) = &self.stride {
            let after = self.offset + count as u64;
            // Seeking beyond the end succeeds: a torn last block would pass for a whole one.
            let step = i64::try_from(count).ok().filter(|_| after <= stride.end);
            let step = step.ok_or(FramingError::Torn { offset: frame })?;
            let stepped = (stride.step)(&mut self.reader, step);
            stepped.map_err(|source| FramingError::Io { offset: self.offset, source })?;
            self.offset = after;
            return Ok(());
        }
        while count > 0 {
            let ready = match self.reader.fill_buf() {
                Ok(ready) => ready.len().min(count),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(FramingError::Io { offset: self.offset, source }),
            };
            if ready == 0 {
                return Err(FramingError::Torn { offset: frame });
            }
            self.reader.consume(ready);
            self.offset += ready as u64;
            count -= ready;
        }
        Ok(())
    }
}

impl<R: Read> Iterator for Scanner<R> {
    type Item = Result<Found, FramingError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let found = self.find().transpose();
        self.is_done = !matches!(found, Some(Ok(_)));
        found
    }
}

/// The blocks of a file that is in memory and not obfuscated.
///
/// # Errors
///
/// As [`Scanner`]; nothing follows the first error.
pub fn split_frames(
    network: Network,
    bytes: &[u8],
) -> Result<impl Iterator<Item = Result<&[u8], FramingError>>, FramingError> {
    let scanner = Scanner::new(network, bytes, XorKey::default())?;
    Ok(scanner.map(move |found| {
        let found = found?;
        let torn = FramingError::Torn { offset: found.offset - PREFIX_BYTES as u64 };
        let start = usize::try_from(found.offset).unwrap_or(usize::MAX);
        bytes.get(start..start.saturating_add(found.length)).ok_or(torn)
    }))
}
