//! Files of blocks: which ones are meant, what is in them, how one block is read.
//!
//! | module | knows |
//! |---|---|
//! | [`find`] | which files are meant by a path, in which order |
//! | [`catalogue`] | Bitcoin: every block of some files by its hash, found by headers alone |
//! | `kept` | Bitcoin: a catalogue in a file, for the next process |
//! | `packed` | unpacking, within bounds |
//! | [`chunks`] | Cardano: the blocks of a chunk file one after the other |
//! | [`workroom`] | a place for unpacked files |
//!
//! Imports from the command line and the sources that follow a folder read the same way. Nothing
//! here writes, apart from unpacking into a workroom.

pub mod catalogue;
pub mod chunks;
pub mod find;
mod kept;
mod packed;
pub mod workroom;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use bitcoin::{consensus::encode::serialize, constants::genesis_block};
use unspent_model::Network;
use unspent_networks::bitcoin::framing::FramingError;

use self::chunks::ChunkError;

/// Where a block lies.
#[derive(Clone, Debug)]
pub struct Place {
    /// The file, as the user knows it.
    pub file: Arc<PathBuf>,
    /// Where in the (unpacked) file.
    pub offset: u64,
    /// Its height, where that is known before decoding.
    pub height: Option<u64>,
}

impl Place {
    /// How errors name the place.
    pub fn name(&self) -> String {
        let height = self.height.map(|height| format!(", height {height}")).unwrap_or_default();
        format!("block at byte {} of {}{height}", self.offset, self.file.display())
    }
}

/// A block as it was read.
#[derive(Clone, Debug)]
pub struct FileBlock {
    /// Where it lies.
    pub place: Place,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Files that can't be read. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The system can't read a file or folder.
    #[error("can't read {path}: {source}")]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A packed file can't be unpacked.
    #[error("can't unpack {path}: {source}")]
    Packed {
        /// Which one.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A packed file is larger than it should be.
    #[error("can't unpack {path}: it has more than {limit} bytes; unpack it by hand")]
    TooLarge {
        /// Which one.
        path: PathBuf,
        /// The most it may have.
        limit: u64,
    },
    /// There is no place for unpacked files.
    #[error("can't create a folder in {folder}: {source}")]
    NoRoom {
        /// Where.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder without block files.
    #[error("there are no block files in {0}")]
    NoFiles(PathBuf),
    /// A loop of links.
    #[error("{0} is nested too deeply")]
    TooDeep(PathBuf),
    /// The key beside block files isn't one.
    #[error("{0} does not have 8 bytes")]
    BadKey(PathBuf),
    /// Blocks of another network.
    #[error("in {path}: this is a block file of {found}, not of {wanted}")]
    OtherNetwork {
        /// Which file.
        path: PathBuf,
        /// Whose blocks it holds.
        found: Network,
        /// Whose were wanted.
        wanted: Network,
    },
    /// No blocks at all.
    #[error("in {path}: this is neither a block file of {network} nor a block: {reason}")]
    NoBlock {
        /// Which file.
        path: PathBuf,
        /// Whose blocks were wanted.
        network: Network,
        /// What is wrong with it.
        reason: String,
    },
    /// A block file that can't be read on.
    #[error("in {path}: {source}")]
    Frames {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        source: FramingError,
    },
    /// A chunk file that can't be read on.
    #[error("in {path}: {source}")]
    Chunk {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        source: ChunkError,
    },
    /// A block that can't be read where it was found before.
    #[error("{place}: {source}")]
    Block {
        /// Where it lay.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// Something else stands where a block was found before.
    #[error("{place}: another block is there now; run the command again")]
    Moved {
        /// Where it lay.
        place: String,
    },
    /// A block that was never found.
    #[error("none of the files holds the block")]
    Unknown,
    /// Somebody asked to stop.
    #[error("stopped; nothing was changed")]
    Interrupted,
}

impl FilesError {
    /// What the system said about a path.
    pub fn unreadable(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Unreadable { path: path.to_owned(), source }
    }

    /// What the unpacker said about a path.
    pub fn packed(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Packed { path: path.to_owned(), source }
    }

    /// Where a chunk can't be read on.
    pub fn chunk(path: &Path) -> impl Fn(ChunkError) -> Self {
        move |source| Self::Chunk { path: path.to_owned(), source }
    }
}

/// The block that every chain of a Bitcoin network starts with, for files that leave it out.
pub fn first_block(network: Network) -> Option<FileBlock> {
    let parameters = match network {
        Network::Bitcoin => bitcoin::Network::Bitcoin,
        Network::BitcoinTestnet4 => bitcoin::Network::Testnet4,
        Network::BitcoinSignet => bitcoin::Network::Signet,
        Network::BitcoinRegtest => bitcoin::Network::Regtest,
        Network::CardanoMainnet | Network::CardanoPreprod | Network::CardanoPreview => return None,
    };
    let file = Arc::new(PathBuf::from("the built-in first block"));
    let place = Place { file, offset: 0, height: Some(0) };
    Some(FileBlock { place, bytes: serialize(&genesis_block(parameters)) })
}
