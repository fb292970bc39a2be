//! Bitcoin: every block of the files, by hash, found without reading more than headers.
//!
//! A catalogue can be brought up to date while a node writes: only what came since is looked at.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use unspent_model::{BlockHash, Network, headers::HeaderTree, network::NETWORKS};
use unspent_networks::{
    RawHeader,
    bitcoin::{
        MAX_BLOCK_BYTES,
        framing::{FRAME_BYTES, Found, FramingError, Scanner, XorKey, magic, next_magic, xor},
    },
    bitcoin_header,
};

use super::{FileBlock, FilesError, Place, find::InputFile};

/// Files that are open at the same time while blocks are read in chain order.
const OPEN_FILES: usize = 64;
/// A packed file may have this many bytes when it is unpacked; a node's own have 128 MiB.
const UNPACKED_BYTES: u64 = 512 << 20;
/// Or this many times its size: blocks are hashes and signatures, which don't pack well.
const UNPACKED_RATIO: u64 = 16;
/// Bytes unpacked between two looks at whether somebody wants to stop.
const UNPACKED_PIECE: u64 = 8 << 20;

/// A file that can't be read on for this long isn't being written.
const WRITING: Duration = Duration::from_secs(2);
/// The last block of a file that changed so recently may not be whole.
const RECENTLY: Duration = Duration::from_secs(600);

/// A file of blocks, unpacked.
struct BlockFile {
    shown: Arc<PathBuf>,
    data: PathBuf,
    key: XorKey,
    /// It has frames and is not a copy, so that it may grow.
    may_grow: bool,
    /// The end of the last block found.
    scanned_to: u64,
    /// Size and time of the file when it was looked at last.
    seen: Option<(u64, SystemTime)>,
    /// It ends inside a block, or its last block isn't whole.
    is_unsettled: bool,
    /// Since when it can't be read on.
    failing: Option<Instant>,
}

/// A block in one of the files.
#[derive(Clone, Copy)]
struct Spot {
    file: usize,
    offset: u64,
    length: usize,
    header: RawHeader,
}

impl Spot {
    fn new(file: usize, found: &Found) -> Self {
        Self { file, offset: found.offset, length: found.length, header: found.header }
    }
}

/// What to do where a file holds something else than whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ragged {
    /// Look for the next block behind it, and note what was passed over.
    PassOver,
    /// Somebody is writing; look again later.
    Wait,
}

/// Bytes of a file in which no whole block stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassedOver {
    /// The file, as the user knows it.
    pub file: PathBuf,
    /// Where they start.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// A file with more damaged places than this is none of a node's.
const DAMAGED_PLACES: usize = 1_000;

/// Something that is no block.
struct Damage {
    /// Where it starts.
    start: u64,
    /// What the scanner said.
    error: FramingError,
}

/// Every block of the files.
pub struct Catalogue {
    network: Network,
    files: Vec<BlockFile>,
    numbers: HashMap<PathBuf, usize>,
    spots: HashMap<BlockHash, Spot>,
    /// Their headers.
    pub tree: HeaderTree,
    open: HashMap<usize, File>,
    /// Bytes without a block, by file and offset.
    passed_over: BTreeMap<(usize, u64), u64>,
}

impl Catalogue {
    /// A catalogue of no files.
    pub fn new(network: Network) -> Self {
        Self {
            network,
            files: Vec::new(),
            numbers: HashMap::new(),
            spots: HashMap::new(),
            tree: HeaderTree::new(),
            open: HashMap::new(),
            passed_over: BTreeMap::new(),
        }
    }

    /// Finds the blocks of all files; packed ones are unpacked into `workroom`. `next_file` is told
    /// of each file, `goes_on` is asked now and then.
    ///
    /// # Errors
    ///
    /// [`FilesError`] at the first file that can't be read, or holds no blocks of the network.
    pub fn build(
        network: Network,
        files: &[InputFile],
        workroom: &Path,
        next_file: &dyn Fn(),
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Self, FilesError> {
        let mut catalogue = Self::new(network);
        for file in files {
            next_file();
            if !goes_on() {
                return Err(FilesError::Interrupted);
            }
            catalogue.add(file, workroom, Ragged::PassOver, goes_on)?;
        }
        Ok(catalogue)
    }

    /// Looks at new files, and at what was added to known ones. `true` when there are new blocks.
    /// Somebody may be writing: the last block counts when it is whole, and what can't be read is
    /// passed over only when it stays like that.
    ///
    /// # Errors
    ///
    /// [`FilesError`]; what was found before it stays found.
    pub fn refresh(&mut self, files: &[InputFile], workroom: &Path) -> Result<bool, FilesError> {
        let before = self.spots.len();
        for file in files {
            match self.numbers.get(&file.path) {
                Some(number) => self.look_again(*number)?,
                None => self.add(file, workroom, Ragged::Wait, &|| true)?,
            }
        }
        Ok(self.spots.len() > before)
    }

    /// The header of a block.
    pub fn header(&self, hash: &BlockHash) -> Option<&RawHeader> {
        self.spots.get(hash).map(|spot| &spot.header)
    }

    /// Every block, in no particular order.
    pub fn hashes(&self) -> impl Iterator<Item = &BlockHash> {
        self.spots.keys()
    }

    /// What was passed over because no whole block stands there.
    pub fn passed_over(&self) -> Vec<PassedOver> {
        let regions = self.passed_over.iter().filter_map(|((number, offset), bytes)| {
            let file = self.files.get(*number)?.shown.to_path_buf();
            Some(PassedOver { file, offset: *offset, bytes: *bytes })
        });
        regions.collect()
    }

    fn add(
        &mut self,
        file: &InputFile,
        workroom: &Path,
        ragged: Ragged,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), FilesError> {
        let number = self.files.len();
        let data = unpacked(file, workroom, number, goes_on)?;
        let seen = state(&data);
        let unreadable = FilesError::unreadable(&file.path);
        let start = first_bytes(&data).map_err(unreadable)?;
        let key = match beside(&file.path)? {
            key if is_framed(self.network, start, &key) => Some(key),
            _ => Some(XorKey::default()).filter(|none| is_framed(self.network, start, none)),
        };
        if key.is_none() {
            let (length, header) = single_block(self.network, &file.path, &data, start)?;
            self.insert(Spot { file: number, offset: 0, length, header });
        }
        self.numbers.insert(file.path.clone(), number);
        self.files.push(BlockFile {
            shown: Arc::new(file.path.clone()),
            data,
            key: key.unwrap_or_default(),
            may_grow: key.is_some() && !file.is_packed,
            scanned_to: 0,
            seen,
            is_unsettled: false,
            failing: None,
        });
        if key.is_some() { self.scan(number, ragged) } else { Ok(()) }
    }

    /// Looks at a known file when it has changed or was in the making.
    fn look_again(&mut self, number: usize) -> Result<(), FilesError> {
        let Some(file) = self.files.get_mut(number).filter(|file| file.may_grow) else {
            return Ok(());
        };
        let seen = state(&file.data);
        if seen == file.seen && !file.is_unsettled && file.failing.is_none() {
            return Ok(());
        }
        file.seen = seen;
        let is_stuck = file.failing.is_some_and(|since| since.elapsed() > WRITING);
        self.scan(number, if is_stuck { Ragged::PassOver } else { Ragged::Wait })
    }

    /// Finds the blocks after those found before, also behind what is damaged.
    fn scan(&mut self, number: usize, ragged: Ragged) -> Result<(), FilesError> {
        while let Some(damage) = self.scan_whole(number, ragged)? {
            if ragged == Ragged::Wait || !self.pass_over(number, damage)? {
                break;
            }
        }
        Ok(())
    }

    /// Finds blocks up to the end of the file, or to something that is none.
    fn scan_whole(&mut self, number: usize, ragged: Ragged) -> Result<Option<Damage>, FilesError> {
        let Some(file) = self.files.get(number) else { return Ok(None) };
        let (shown, data, key) = (file.shown.clone(), file.data.clone(), file.key);
        let mut scanned_to = file.scanned_to;
        let checks_last = ragged == Ragged::Wait && file.may_grow && is_recent(file.seen);
        let open = match File::open(&data) {
            Ok(open) => open,
            // A pruning node removes files; their blocks are missed when they are asked for.
            Err(error) if error.kind() == io::ErrorKind::NotFound && scanned_to > 0 => {
                return Ok(None);
            }
            Err(error) => return Err(FilesError::unreadable(&shown)(error)),
        };
        let in_file = |source| FilesError::Frames { path: (*shown).clone(), source };
        let mut scanner = Scanner::seeking(self.network, open, key, scanned_to).map_err(in_file)?;
        let mut held: Option<Found> = None;
        let failure = loop {
            let next = scanner.next();
            // What a damaged place follows may be the damaged block itself: its length was believed
            // and led into the middle of something.
            let is_doubtful = match &next {
                Some(Ok(_)) => false,
                Some(Err(_)) => checks_last || ragged == Ragged::PassOver,
                None => checks_last,
            };
            if let Some(found) = held.take() {
                if is_doubtful && !is_whole(self.network, &data, key, &found) {
                    held = Some(found);
                } else {
                    scanned_to = found.offset + found.length as u64;
                    self.insert(Spot::new(number, &found));
                }
            }
            match next {
                Some(Ok(found)) => held = Some(found),
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        self.settle(number, scanned_to, held.is_some(), failure.as_ref());
        let Some(error) = failure else { return Ok(None) };
        let Some(offset) = error.damaged_at() else { return Err(in_file(error)) };
        let start = held.map_or(offset, |torn| torn.offset - FRAME_BYTES);
        Ok(Some(Damage { start, error }))
    }

    /// Goes on at the next frame behind a damaged place; `false` when there is none.
    fn pass_over(&mut self, number: usize, damage: Damage) -> Result<bool, FilesError> {
        let Some(file) = self.files.get_mut(number) else { return Ok(false) };
        let shown = file.shown.clone();
        let in_file = |source| FilesError::Frames { path: (*shown).clone(), source };
        let places = self.passed_over.range((number, 0)..=(number, u64::MAX)).count();
        if places >= DAMAGED_PLACES {
            return Err(in_file(damage.error));
        }
        let open = File::open(&file.data).map_err(FilesError::unreadable(&shown))?;
        let size = open.metadata().map_err(FilesError::unreadable(&shown))?.len();
        let next = next_magic(self.network, open, &file.key, damage.start + 1).map_err(in_file)?;
        let bytes = next.unwrap_or(size) - damage.start;
        if self.passed_over.insert((number, damage.start), bytes).is_none() {
            let (file, offset) = (shown.display(), damage.start);
            tracing::warn!(%file, offset, bytes, "passed over: {}", damage.error);
        }
        // Behind the last block a node may still write; there the file is looked at again when it
        // changes, from where its blocks end.
        (file.failing, file.is_unsettled) = (None, false);
        file.scanned_to = next.unwrap_or(file.scanned_to);
        Ok(next.is_some())
    }

    /// Notes how far a scan came.
    fn settle(
        &mut self,
        number: usize,
        scanned_to: u64,
        last_is_held: bool,
        failure: Option<&FramingError>,
    ) {
        let Some(file) = self.files.get_mut(number) else { return };
        file.scanned_to = scanned_to;
        // A node's newest file ends inside a block for a moment, or for ever after a crash.
        let is_torn = matches!(failure, Some(FramingError::Torn { .. }));
        file.is_unsettled = is_torn || last_is_held;
        let is_failing = failure.is_some() && !file.is_unsettled;
        file.failing = is_failing.then(|| file.failing.unwrap_or_else(Instant::now));
    }

    fn insert(&mut self, spot: Spot) {
        let RawHeader { hash, parent, work, .. } = spot.header;
        self.spots.entry(hash).or_insert(spot);
        self.tree.insert(hash, parent, work);
    }

    /// Reads one block.
    ///
    /// # Errors
    ///
    /// [`FilesError`] when it is not in the files (any more).
    pub fn read(&mut self, hash: &BlockHash, height: Option<u64>) -> Result<FileBlock, FilesError> {
        let spot = self.spots.get(hash).ok_or(FilesError::Unknown)?;
        let Spot { file: number, offset, length, .. } = *spot;
        let file = self.files.get(number).ok_or(FilesError::Unknown)?;
        let place = Place { file: file.shown.clone(), offset, height };
        let lost = |source| FilesError::Block { place: place.name(), source };
        if self.open.len() >= OPEN_FILES && !self.open.contains_key(&number) {
            self.open.clear();
        }
        let open = match self.open.entry(number) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(slot) => slot.insert(File::open(&file.data).map_err(lost)?),
        };
        let mut bytes = vec![0; length];
        open.seek(SeekFrom::Start(offset)).map_err(lost)?;
        open.read_exact(&mut bytes).map_err(lost)?;
        xor(&mut bytes, &file.key, offset);
        Ok(FileBlock { place, bytes })
    }
}

/// Size and time of the last change.
fn state(path: &Path) -> Option<(u64, SystemTime)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

fn is_recent(state: Option<(u64, SystemTime)>) -> bool {
    let age = state.map(|(_, changed)| changed.elapsed());
    // A time in the future is as good as now.
    age.is_some_and(|age| age.map_or(true, |age| age < RECENTLY))
}

/// The block is there with its body.
fn is_whole(network: Network, path: &Path, key: XorKey, found: &Found) -> bool {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(found.offset))?;
        let mut bytes = vec![0; found.length];
        file.read_exact(&mut bytes)?;
        xor(&mut bytes, &key, found.offset);
        Ok(bytes)
    };
    // Any height will do for a check.
    read().is_ok_and(|bytes| unspent_networks::decode_block(network, &bytes, Some(1)).is_ok())
}

/// The file itself, or its content unpacked into the workroom.
fn unpacked(
    file: &InputFile,
    workroom: &Path,
    number: usize,
    goes_on: &dyn Fn() -> bool,
) -> Result<PathBuf, FilesError> {
    if !file.is_packed {
        return Ok(file.path.clone());
    }
    let packed = fs::metadata(&file.path).map_err(FilesError::unreadable(&file.path))?.len();
    let limit = UNPACKED_BYTES.max(packed.saturating_mul(UNPACKED_RATIO));
    let to = workroom.join(format!("{number}.blk"));
    let unpacked = unpack(&file.path, &to, limit, goes_on);
    match unpacked.map_err(FilesError::packed(&file.path))? {
        Unpacked::Whole => Ok(to),
        Unpacked::TooLarge => Err(FilesError::TooLarge { path: file.path.clone(), limit }),
        Unpacked::Interrupted => Err(FilesError::Interrupted),
    }
}

/// What came of unpacking; nothing stays unless it is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unpacked {
    Whole,
    TooLarge,
    Interrupted,
}

fn unpack(
    packed: &Path,
    to: &Path,
    limit: u64,
    goes_on: &dyn Fn() -> bool,
) -> io::Result<Unpacked> {
    let mut unpacking = zstd::Decoder::new(File::open(packed)?)?;
    let mut whole = File::create(to)?;
    let mut written = 0;
    let outcome = loop {
        if !goes_on() {
            break Unpacked::Interrupted;
        }
        let piece = io::copy(&mut unpacking.by_ref().take(UNPACKED_PIECE), &mut whole)?;
        written += piece;
        if written > limit {
            break Unpacked::TooLarge;
        }
        if piece == 0 {
            return Ok(Unpacked::Whole);
        }
    };
    drop(whole);
    fs::remove_file(to)?;
    Ok(outcome)
}

fn first_bytes(path: &Path) -> io::Result<[u8; 4]> {
    let mut start = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut start)?;
    // An empty file is a block file without blocks.
    start.resize(4, 0);
    Ok(start.first_chunk().copied().unwrap_or_default())
}

/// The key of the folder that a file lies in; all zeros when it has none.
fn beside(file: &Path) -> Result<XorKey, FilesError> {
    let path = file.with_file_name("xor.dat");
    match fs::read(&path) {
        Ok(bytes) => {
            XorKey::try_from(bytes.as_slice()).map_err(|_| FilesError::BadKey(path.clone()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(XorKey::default()),
        Err(error) => Err(FilesError::unreadable(&path)(error)),
    }
}

/// A frame, or the zeros of a file that was allocated ahead, stands at the start.
fn is_framed(network: Network, start: [u8; 4], key: &XorKey) -> bool {
    let mut clear = start;
    xor(&mut clear, key, 0);
    Some(clear) == magic(network) || start == [0; 4]
}

/// Length and header of the only block of a file without frames.
fn single_block(
    network: Network,
    shown: &Path,
    data: &Path,
    start: [u8; 4],
) -> Result<(usize, RawHeader), FilesError> {
    let path = shown.to_owned();
    let other = NETWORKS.iter().find(|(other, _)| magic(*other) == Some(start));
    if let Some((found, _)) = other {
        return Err(FilesError::OtherNetwork { path, found: *found, wanted: network });
    }
    let size = fs::metadata(data).map_err(FilesError::unreadable(shown))?.len();
    let fault = |reason: &str| FilesError::NoBlock {
        path: path.clone(),
        network,
        reason: reason.to_owned(),
    };
    let length = usize::try_from(size).ok().filter(|length| *length <= MAX_BLOCK_BYTES);
    let length = length.ok_or_else(|| fault("it is larger than a block may be"))?;
    let bytes = fs::read(data).map_err(FilesError::unreadable(shown))?;
    // A height is needed only to give the coins one; any will do for a check.
    unspent_networks::decode_block(network, &bytes, Some(1))
        .map_err(|error| fault(&error.to_string()))?;
    let header = bitcoin_header(&bytes).map_err(|error| fault(&error.to_string()))?;
    Ok((length, header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_stops_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let (packed, to) = (folder.path().join("a.zst"), folder.path().join("a"));
        fs::write(&packed, zstd::encode_all(&[7; 1000][..], 0).unwrap()).unwrap();
        assert_eq!(unpack(&packed, &to, 1000, &|| true).unwrap(), Unpacked::Whole);
        assert_eq!(fs::read(&to).unwrap(), [7; 1000]);
        assert_eq!(unpack(&packed, &to, 999, &|| true).unwrap(), Unpacked::TooLarge);
        assert!(!to.exists());
        assert_eq!(unpack(&packed, &to, 1000, &|| false).unwrap(), Unpacked::Interrupted);
        assert!(!to.exists());
    }
}
