//! Folders of block files, followed as they grow.
//!
//! | module | reads |
//! |---|---|
//! | `blocks` | Bitcoin: block files of a node (also obfuscated or packed), stale blocks among them |
//! | `immutable` | Cardano: chunk files, as in a node's ImmutableDB |
//!
//! The files are only read. A folder knows no rules: of Bitcoin's branches the one with the most
//! work is followed, even if a node has found it invalid.

mod blocks;
mod immutable;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use unspent_model::{Family, Network};

use self::{
    blocks::{Blocks, BlocksSource},
    immutable::ChunksSource,
};
use super::{Node, Origin, Source, SourceError};
use crate::files::{FilesError, find::InputFile, find::find, workroom::Workroom};

/// Which files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FolderConfig {
    /// Folders or files.
    pub paths: Vec<PathBuf>,
    /// The chain they hold.
    pub network: Network,
    /// Packed Bitcoin files are unpacked into a folder in here, which goes with the source.
    pub unpack_in: PathBuf,
    /// How often a reader at the end looks for more.
    pub poll: Duration,
}

/// Some files of one chain. Cheap to clone: all clones share what they know of the files.
#[derive(Clone)]
pub struct Folder {
    files: Arc<Files>,
}

/// What readers of one folder share.
struct Files {
    paths: Vec<PathBuf>,
    network: Network,
    poll: Duration,
    name: String,
    workroom: Workroom,
    blocks: Mutex<Blocks>,
    /// They may begin in the middle of the chain.
    is_part: bool,
    /// Blocks above this height aren't given.
    stop_at: Option<u64>,
}

impl Folder {
    /// Files that are not looked at yet.
    pub fn new(config: FolderConfig) -> Self {
        Self::with(config, false, None)
    }

    /// Files that may begin in the middle of the chain, read up to a height. Where a branch hangs
    /// on no block that anybody knows, the height that a coinbase names (BIP 34) tells its place.
    pub fn part(config: FolderConfig, stop_at: Option<u64>) -> Self {
        Self::with(config, true, stop_at)
    }

    fn with(config: FolderConfig, is_part: bool, stop_at: Option<u64>) -> Self {
        let FolderConfig { paths, network, unpack_in, poll } = config;
        let name = match paths.as_slice() {
            [] => "an empty list of files".to_owned(),
            [one] => one.display().to_string(),
            [first, rest @ ..] => format!("{} and {} more", first.display(), rest.len()),
        };
        let workroom = Workroom::new(&unpack_in);
        let blocks = Mutex::new(Blocks::new(network));
        let files = Files { paths, network, poll, name, workroom, blocks, is_part, stop_at };
        Self { files: Arc::new(files) }
    }
}

impl Files {
    fn unreachable(&self, reason: impl ToString) -> SourceError {
        SourceError::Unreachable { name: self.name.clone(), reason: reason.to_string() }
    }

    fn malformed(&self, reason: impl ToString) -> SourceError {
        SourceError::Malformed { name: self.name.clone(), reason: reason.to_string() }
    }

    fn missing(&self, height: u64) -> SourceError {
        SourceError::Missing { name: self.name.clone(), height }
    }

    /// The files as they are now.
    fn list(&self) -> Result<Vec<InputFile>, SourceError> {
        find(&self.paths).map_err(|error| self.explain(&error))
    }

    fn explain(&self, error: &FilesError) -> SourceError {
        match error {
            // A disk may come back, and a node may start to write.
            FilesError::Unreadable { .. }
            | FilesError::NoFiles(_)
            | FilesError::NoRoom { .. }
            | FilesError::Interrupted => self.unreachable(error),
            FilesError::OtherNetwork { found, .. } => SourceError::WrongNetwork {
                name: self.name.clone(),
                found: found.to_string(),
                wanted: self.network,
            },
            FilesError::Packed { .. }
            | FilesError::TooLarge { .. }
            | FilesError::TooDeep(_)
            | FilesError::BadKey(_)
            | FilesError::NoBlock { .. }
            | FilesError::Frames { .. }
            | FilesError::Chunk { .. }
            | FilesError::Block { .. }
            | FilesError::Moved { .. }
            | FilesError::Unknown => self.malformed(error),
        }
    }

    /// A block of this height can't be read any more.
    fn lost(&self, height: u64, error: &FilesError) -> SourceError {
        let is_gone = |source: &io::Error| source.kind() == io::ErrorKind::NotFound;
        if matches!(error, FilesError::Block { source, .. } if is_gone(source)) {
            return self.missing(height);
        }
        self.explain(error)
    }
}

impl Origin for Folder {
    fn network(&self) -> Network {
        self.files.network
    }

    fn name(&self) -> String {
        self.files.name.clone()
    }

    /// Looks through the files first; for Bitcoin that is every header of the chain.
    fn open(&self) -> Result<Box<dyn Source>, SourceError> {
        match self.files.network.family() {
            Family::Bitcoin => Ok(Box::new(BlocksSource::open(self.files.clone())?)),
            Family::Cardano => Ok(Box::new(ChunksSource::open(self.files.clone())?)),
        }
    }

    fn node(&self) -> Option<Arc<dyn Node>> {
        None
    }
}
