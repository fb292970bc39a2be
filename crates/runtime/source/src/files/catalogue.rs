//! Bitcoin: every block of the files, by hash, found without reading more than headers.
//!
//! A catalogue can be brought up to date while a node writes: only what came since is looked at. It
//! can also be kept in a file ([`Catalogue::keep`]), so that the next process need not look at
//! hundreds of gigabytes again.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use unspent_model::{
    BlockHash, Network,
    headers::{HeaderId, HeaderTree},
    network::NETWORKS,
};
use unspent_networks::{
    RawHeader,
    bitcoin::{
        MAX_BLOCK_BYTES,
        framing::{FRAME_BYTES, Found, FramingError, Scanner, XorKey, magic, next_magic, xor},
    },
    bitcoin_header,
};

use super::{FileBlock, FilesError, Place, find::InputFile, kept, packed::unpacked};

/// Files that are open at the same time while blocks are read in chain order.
const OPEN_FILES: usize = 64;
/// A file that can't be read on for this long isn't being written.
const WRITING: Duration = Duration::from_secs(2);
/// The last block of a file that changed so recently may not be whole.
const RECENTLY: Duration = Duration::from_secs(600);

pub(super) struct BlockFile {
    pub(super) shown: Arc<PathBuf>,
    /// What is read: the file itself, or its unpacked copy, which is made when it is needed.
    data: Option<PathBuf>,
    pub(super) key: XorKey,
    /// It holds blocks in frames, not a single block without one.
    pub(super) is_framed: bool,
    pub(super) is_packed: bool,
    /// The end of the last block found.
    pub(super) scanned_to: u64,
    /// Size and time of the file when it was looked at last.
    pub(super) seen: Option<(u64, SystemTime)>,
    /// It ends inside a block, or its last block isn't whole.
    is_unsettled: bool,
    /// Since when it can't be read on.
    failing: Option<Instant>,
}

impl BlockFile {
    pub(super) fn new(path: PathBuf, is_packed: bool, key: XorKey, is_framed: bool) -> Self {
        Self {
            data: (!is_packed).then(|| path.clone()),
            shown: Arc::new(path),
            key,
            is_framed,
            is_packed,
            scanned_to: 0,
            seen: None,
            is_unsettled: false,
            failing: None,
        }
    }

    /// A node may write on.
    pub(super) fn may_grow(&self) -> bool {
        self.is_framed && !self.is_packed
    }

    /// What was found in it may change without the file doing so.
    pub(super) fn is_open_ended(&self) -> bool {
        self.is_unsettled || self.failing.is_some()
    }
}

/// Where a block lies. There is one for each header, so it is kept small.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    /// Little-endian: as a number it would be aligned to eight bytes, which takes four more.
    pub(super) offset: [u8; 8],
    /// Number of the file, or [`NOWHERE`].
    pub(super) file: u32,
    /// Bytes of the block; no block has as many as 2^32.
    pub(super) length: u32,
    /// Unix time of its header, which has 32 bits for it.
    pub(super) time: u32,
}

/// The file of a block that has only been named as a parent.
const NOWHERE: u32 = u32::MAX;

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
    pub(super) files: Vec<BlockFile>,
    numbers: HashMap<PathBuf, usize>,
    /// By the header's number in the tree.
    spots: Vec<Spot>,
    /// Their headers.
    pub tree: HeaderTree,
    open: HashMap<usize, File>,
    /// Bytes without a block, by file and offset.
    pub(super) passed_over: BTreeMap<(usize, u64), u64>,
    /// Where packed files are unpacked.
    workroom: PathBuf,
    /// The file in which it is kept, if it is.
    pub(super) kept_in: Option<PathBuf>,
    /// Something was found since it was read from there.
    pub(super) is_changed: bool,
}

impl Catalogue {
    /// A catalogue of no files.
    pub fn new(network: Network) -> Self {
        Self {
            network,
            files: Vec::new(),
            numbers: HashMap::new(),
            spots: Vec::new(),
            tree: HeaderTree::new(),
            open: HashMap::new(),
            passed_over: BTreeMap::new(),
            workroom: PathBuf::new(),
            kept_in: None,
            is_changed: false,
        }
    }

    /// Finds the blocks of all files; packed ones are unpacked into `workroom`. What is kept in the
    /// file `kept` from an earlier look at the same files isn't looked for again. `next_file` is
    /// told of each file, `goes_on` is asked now and then.
    ///
    /// # Errors
    ///
    /// [`FilesError`] at the first file that can't be read, or holds no blocks of the network.
    pub fn build(
        network: Network,
        files: &[InputFile],
        workroom: &Path,
        kept: &Path,
        next_file: &dyn Fn(),
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Self, FilesError> {
        let mut catalogue = kept::load(network, kept, files);
        catalogue.workroom = workroom.to_owned();
        catalogue.kept_in = Some(kept.to_owned());
        for file in files {
            next_file();
            if !goes_on() {
                return Err(FilesError::Interrupted);
            }
            match catalogue.numbers.get(&file.path) {
                Some(number) => catalogue.look_again(*number, Ragged::PassOver)?,
                None => catalogue.add(file, Ragged::PassOver, goes_on)?,
            }
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
        let before = self.tree.len();
        self.workroom = workroom.to_owned();
        for file in files {
            match self.numbers.get(&file.path) {
                Some(number) => self.look_again(*number, Ragged::Wait)?,
                None => self.add(file, Ragged::Wait, &|| true)?,
            }
        }
        Ok(self.tree.len() > before)
    }

    /// Whose blocks these are.
    pub fn network(&self) -> Network {
        self.network
    }

    /// The time in the header of a block; `None` when the block is in none of the files.
    pub fn time(&self, hash: &BlockHash) -> Option<u64> {
        self.spot(self.tree.find(hash)?).map(|spot| u64::from(spot.time))
    }

    pub(super) fn spot(&self, id: HeaderId) -> Option<&Spot> {
        self.spots.get(id.index()).filter(|spot| spot.file != NOWHERE)
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
        ragged: Ragged,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), FilesError> {
        let number = self.files.len();
        let seen = state(&file.path);
        let data = match file.is_packed {
            true => unpacked(&file.path, &self.workroom, number, goes_on)?,
            false => file.path.clone(),
        };
        let start = first_bytes(&data).map_err(FilesError::unreadable(&file.path))?;
        let key = match beside(&file.path)? {
            key if is_framed(self.network, start, &key) => Some(key),
            // The key is the folder's: a file that somebody put there may be in the clear all the
            // same.
            _ => Some(XorKey::default()).filter(|none| is_framed(self.network, start, none)),
        };
        if key.is_none() {
            let (length, header) = single_block(self.network, &file.path, &data, start)?;
            self.insert(number, &Found { offset: 0, length, header });
        }
        let is_framed = key.is_some();
        let known =
            BlockFile::new(file.path.clone(), file.is_packed, key.unwrap_or_default(), is_framed);
        self.push(BlockFile { data: Some(data), seen, ..known });
        self.is_changed = true;
        if is_framed { self.scan(number, ragged) } else { Ok(()) }
    }

    /// Takes a file up, and says its number.
    pub(super) fn push(&mut self, file: BlockFile) -> usize {
        let number = self.files.len();
        self.numbers.insert(file.shown.to_path_buf(), number);
        self.files.push(file);
        number
    }

    /// Looks at a known file when it has changed or was in the making.
    fn look_again(&mut self, number: usize, ragged: Ragged) -> Result<(), FilesError> {
        let Some(file) = self.files.get_mut(number).filter(|file| file.may_grow()) else {
            return Ok(());
        };
        let seen = state(&file.shown);
        if seen == file.seen && !file.is_open_ended() {
            return Ok(());
        }
        file.seen = seen;
        let is_stuck = file.failing.is_some_and(|since| since.elapsed() > WRITING);
        self.is_changed = true;
        self.scan(number, if is_stuck { Ragged::PassOver } else { ragged })
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
        let (shown, key) = (file.shown.clone(), file.key);
        let data = file.data.clone().unwrap_or_else(|| file.shown.to_path_buf());
        let mut scanned_to = file.scanned_to;
        let checks_last = ragged == Ragged::Wait && file.may_grow() && is_recent(file.seen);
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
                    self.insert(number, &found);
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
        let data = file.data.as_deref().unwrap_or(&shown);
        let open = File::open(data).map_err(FilesError::unreadable(&shown))?;
        let size = open.metadata().map_err(FilesError::unreadable(&shown))?.len();
        let next = next_magic(self.network, open, &file.key, damage.start + 1).map_err(in_file)?;
        let bytes = next.unwrap_or(size) - damage.start;
        if self.passed_over.insert((number, damage.start), bytes).is_none() {
            let (file, offset) = (shown.display(), damage.start);
            tracing::warn!(%file, offset, bytes, "skipped: {}", damage.error);
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

    pub(super) fn insert(&mut self, file: usize, found: &Found) {
        let RawHeader { hash, parent, work, time } = found.header;
        // The first place where a block lies stays.
        let is_known = self.tree.find(&hash).is_some();
        let Some(id) = self.tree.insert(hash, parent, work).filter(|_| !is_known) else { return };
        let nowhere = Spot { offset: [0; 8], file: NOWHERE, length: 0, time: 0 };
        if self.spots.len() <= id.index() {
            self.spots.resize(id.index() + 1, nowhere);
        }
        let (Ok(file), Ok(length)) = (u32::try_from(file), u32::try_from(found.length)) else {
            return;
        };
        let time = u32::try_from(time).unwrap_or(u32::MAX);
        if let Some(spot) = self.spots.get_mut(id.index()) {
            *spot = Spot { offset: found.offset.to_le_bytes(), file, length, time };
        }
    }

    /// Reads the block with this hash.
    ///
    /// # Errors
    ///
    /// [`FilesError`] when it is not in the files (any more).
    pub fn read(&mut self, hash: &BlockHash, height: Option<u64>) -> Result<FileBlock, FilesError> {
        let id = self.tree.find(hash).ok_or(FilesError::Unknown)?;
        self.read_id(id, height)
    }

    /// Reads a block of the tree.
    ///
    /// # Errors
    ///
    /// [`FilesError`] when it is not in the files (any more).
    pub fn read_id(&mut self, id: HeaderId, height: Option<u64>) -> Result<FileBlock, FilesError> {
        let Spot { file, offset, length, .. } = *self.spot(id).ok_or(FilesError::Unknown)?;
        let (number, length, offset) = (file as usize, length as usize, u64::from_le_bytes(offset));
        let file = self.files.get_mut(number).ok_or(FilesError::Unknown)?;
        let place = Place { file: file.shown.clone(), offset, height };
        let data = match &file.data {
            Some(data) => data,
            None => file.data.insert(unpacked(&file.shown, &self.workroom, number, &|| true)?),
        };
        let lost = |source| FilesError::Block { place: place.name(), source };
        if self.open.len() >= OPEN_FILES && !self.open.contains_key(&number) {
            self.open.clear();
        }
        let open = match self.open.entry(number) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(slot) => slot.insert(File::open(data).map_err(lost)?),
        };
        let mut bytes = vec![0; length];
        open.seek(SeekFrom::Start(offset)).map_err(lost)?;
        open.read_exact(&mut bytes).map_err(lost)?;
        xor(&mut bytes, &file.key, offset);
        let found = bitcoin_header(&bytes).ok().map(|header| header.hash);
        // Only the header is hashed here: whoever decodes the block checks its body against it.
        if found.is_none() || found != self.tree.hash(id) {
            self.forget_kept();
            return Err(FilesError::Moved { place: place.name() });
        }
        Ok(FileBlock { place, bytes })
    }
}

/// Size and time of the last change.
pub(super) fn state(path: &Path) -> Option<(u64, SystemTime)> {
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

fn first_bytes(path: &Path) -> io::Result<[u8; 4]> {
    let mut start = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut start)?;
    // An empty file is a block file without blocks.
    start.resize(4, 0);
    Ok(start.first_chunk().copied().unwrap_or_default())
}

/// The key of the folder that a file lies in; all zeros when it has none.
pub(super) fn beside(file: &Path) -> Result<XorKey, FilesError> {
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
    let length = length.ok_or_else(|| fault("it is larger than a block can be"))?;
    let bytes = fs::read(data).map_err(FilesError::unreadable(shown))?;
    // A height is needed only to give the coins one; any will do for a check.
    unspent_networks::decode_block(network, &bytes, Some(1))
        .map_err(|error| fault(&error.to_string()))?;
    let header = bitcoin_header(&bytes).map_err(|error| fault(&error.to_string()))?;
    Ok((length, header))
}
