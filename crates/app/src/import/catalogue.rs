//! Bitcoin: every block of the files, by hash, found without reading more than headers.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use unspent_model::{BlockHash, Network, headers::HeaderTree, network::NETWORKS};
use unspent_networks::{
    RawHeader,
    bitcoin::{
        MAX_BLOCK_BYTES,
        framing::{Scanner, XorKey, magic, xor},
    },
    bitcoin_header,
};

use super::{
    files::InputFile,
    look::Look,
    pipeline::{Place, RawBlock},
};
use crate::fault::Fault;

/// Files that are open at the same time while blocks are read in chain order.
const OPEN_FILES: usize = 64;

/// A file of blocks, unpacked.
struct BlockFile {
    shown: Arc<PathBuf>,
    data: PathBuf,
    key: XorKey,
}

/// A block in one of the files.
#[derive(Clone, Copy)]
struct Spot {
    file: usize,
    offset: u64,
    length: usize,
    header: RawHeader,
}

/// Every block of the files.
pub(crate) struct Catalogue {
    network: Network,
    files: Vec<BlockFile>,
    spots: HashMap<BlockHash, Spot>,
    /// Their headers.
    pub(crate) tree: HeaderTree,
    open: HashMap<usize, File>,
}

impl Catalogue {
    /// Finds the blocks of all files; packed ones are unpacked into `workroom`.
    pub(crate) fn build(
        network: Network,
        files: &[InputFile],
        workroom: &Path,
        look: &Look<'_>,
    ) -> anyhow::Result<Self> {
        let mut catalogue = Self {
            network,
            files: Vec::new(),
            spots: HashMap::new(),
            tree: HeaderTree::new(),
            open: HashMap::new(),
        };
        for file in files {
            look.step()?;
            let data = unpacked(file, workroom, catalogue.files.len())?;
            let in_file = || format!("in {}", file.path.display());
            catalogue.add(&file.path, data).with_context(in_file)?;
        }
        Ok(catalogue)
    }

    /// The header of a block.
    pub(crate) fn header(&self, hash: &BlockHash) -> Option<&RawHeader> {
        self.spots.get(hash).map(|spot| &spot.header)
    }

    /// Every block, in no particular order.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = &BlockHash> {
        self.spots.keys()
    }

    fn add(&mut self, shown: &Path, data: PathBuf) -> anyhow::Result<()> {
        let number = self.files.len();
        let start = first_bytes(&data)?;
        let key = match beside(shown)? {
            key if is_framed(self.network, start, &key) => Some(key),
            _ => Some(XorKey::default()).filter(|none| is_framed(self.network, start, none)),
        };
        if let Some(key) = key {
            let scanner = Scanner::new(self.network, File::open(&data)?, key)?;
            for found in scanner {
                let found = found?;
                let (offset, length) = (found.offset, found.length);
                self.insert(Spot { file: number, offset, length, header: found.header });
            }
        } else {
            self.insert(single_block(self.network, &data, start, number)?);
        }
        let key = key.unwrap_or_default();
        self.files.push(BlockFile { shown: Arc::new(shown.to_owned()), data, key });
        Ok(())
    }

    fn insert(&mut self, spot: Spot) {
        let RawHeader { hash, parent, work, .. } = spot.header;
        self.spots.entry(hash).or_insert(spot);
        self.tree.insert(hash, parent, work);
    }

    /// Reads one block.
    pub(crate) fn read(
        &mut self,
        hash: &BlockHash,
        height: Option<u64>,
    ) -> anyhow::Result<RawBlock> {
        let spot = self.spots.get(hash).ok_or_else(|| Fault::bug("a block left the catalogue"))?;
        let Spot { file: number, offset, length, .. } = *spot;
        let file = self.files.get(number).ok_or_else(|| Fault::bug("a file left the catalogue"))?;
        let place = Place { file: file.shown.clone(), offset, height };
        if self.open.len() >= OPEN_FILES && !self.open.contains_key(&number) {
            self.open.clear();
        }
        let open = match self.open.entry(number) {
            std::collections::hash_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::hash_map::Entry::Vacant(slot) => {
                slot.insert(File::open(&file.data).with_context(|| place.name())?)
            }
        };
        let mut bytes = vec![0; length];
        open.seek(SeekFrom::Start(offset)).with_context(|| place.name())?;
        open.read_exact(&mut bytes).with_context(|| place.name())?;
        xor(&mut bytes, &file.key, offset);
        Ok(RawBlock { place, bytes })
    }
}

/// The file itself, or its content unpacked into the workroom.
fn unpacked(file: &InputFile, workroom: &Path, number: usize) -> anyhow::Result<PathBuf> {
    if !file.is_packed {
        return Ok(file.path.clone());
    }
    let context = || format!("can't unpack {}", file.path.display());
    let to = workroom.join(format!("{number}.blk"));
    let packed = File::open(&file.path).with_context(context)?;
    let mut unpacking = zstd::Decoder::new(packed).with_context(context)?;
    let mut whole = File::create(&to).with_context(context)?;
    io::copy(&mut unpacking, &mut whole).with_context(context)?;
    Ok(to)
}

fn first_bytes(path: &Path) -> anyhow::Result<[u8; 4]> {
    let mut start = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut start)?;
    // An empty file is a block file without blocks.
    start.resize(4, 0);
    Ok(start.first_chunk().copied().unwrap_or_default())
}

/// The key of the folder that a file lies in; all zeros when it has none.
fn beside(file: &Path) -> anyhow::Result<XorKey> {
    let path = file.with_file_name("xor.dat");
    match fs::read(&path) {
        Ok(bytes) => XorKey::try_from(bytes.as_slice())
            .map_err(|_| Fault::input(format!("{} has not 8 bytes", path.display())).into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(XorKey::default()),
        Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
    }
}

/// A frame, or the zeros of a file that was allocated ahead, stands at the start.
fn is_framed(network: Network, start: [u8; 4], key: &XorKey) -> bool {
    let mut clear = start;
    xor(&mut clear, key, 0);
    Some(clear) == magic(network) || start == [0; 4]
}

/// The only block of a file without frames.
fn single_block(
    network: Network,
    path: &Path,
    start: [u8; 4],
    file: usize,
) -> anyhow::Result<Spot> {
    let other = NETWORKS.iter().find(|(other, _)| magic(*other) == Some(start));
    if let Some((_, other)) = other {
        let message = format!("this is a block file of {other}, not of {network}");
        return Err(Fault::input(message).hint("give the right --network").into());
    }
    let size = fs::metadata(path)?.len();
    let fault = |reason: &str| {
        let message = format!("this is neither a block file of {network} nor a block: {reason}");
        Fault::input(message).hint("check the network, and the key in xor.dat if there is one")
    };
    let length = usize::try_from(size).ok().filter(|length| *length <= MAX_BLOCK_BYTES);
    let length = length.ok_or_else(|| fault("it is larger than a block may be"))?;
    let bytes = fs::read(path)?;
    // A height is needed only to give the coins one; any will do for a check.
    unspent_networks::decode_block(network, &bytes, Some(1))
        .map_err(|error| fault(&error.to_string()))?;
    Ok(Spot { file, offset: 0, length, header: bitcoin_header(&bytes)? })
}
