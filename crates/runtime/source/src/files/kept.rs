//! A catalogue in a file, for the next process.
//!
//! The headers of a main network lie all over 800 gigabytes. Finding them takes a million reads at
//! places far apart, so what was found is kept beside the data. A block file whose size and time of
//! change are the same holds the same blocks; any other is looked through again, and so is one that
//! changed a moment before it was looked at, since times of change are coarse. The block itself is
//! checked against its hash when it is read.
//!
//! The file is a convenience: one that is missing, of another version, of another network or
//! damaged is passed over, and everything is looked for again.
//!
//! `VERSION | network | files | blocks | SHA-256 of all that`, numbers little-endian, each
//! list with its length before it.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write},
    path::Path,
    time::{Duration, SystemTime},
};

use sha2::{Digest as _, Sha256};
use unspent_model::{BlockHash, Network, chain::Work};
use unspent_networks::{RawHeader, bitcoin::framing::Found};

use super::{
    catalogue::{BlockFile, Catalogue, beside, state},
    find::InputFile,
};

/// What the file starts with; another form gets another number.
const VERSION: &[u8; 16] = b"block files v1\n\0";
/// A file that changed so shortly before it was looked at may have changed again since.
const SETTLED: Duration = Duration::from_secs(2);
/// No path is longer.
const LONGEST_PATH: u32 = 1 << 16;
/// Reading and writing goes through a buffer of so many bytes.
const BUFFER: usize = 1 << 20;
/// Number of a file that isn't kept.
const LEFT_OUT: u32 = u32::MAX;

impl Catalogue {
    /// Writes the catalogue down where [`Self::build`] was told to look for it; nothing is written
    /// if nothing is new.
    ///
    /// # Errors
    ///
    /// What the system says; what was kept before is then still there.
    pub fn keep(&mut self) -> io::Result<()> {
        let Some(path) = self.kept_in.as_deref().filter(|_| self.is_changed) else {
            return Ok(());
        };
        let half_written = path.with_extension("part");
        let written = self.write(&half_written);
        let kept = written.and_then(|()| fs::rename(&half_written, path));
        if kept.is_err() {
            // The error that counts is the one above.
            let _ = fs::remove_file(&half_written);
        } else {
            self.is_changed = false;
        }
        kept
    }

    /// What is kept isn't true any more.
    pub(super) fn forget_kept(&mut self) {
        if let Some(path) = self.kept_in.take() {
            // Not being there is what is wanted.
            let _ = fs::remove_file(path);
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut to = Hashed::new(BufWriter::with_capacity(BUFFER, File::create(path)?));
        to.put(VERSION)?;
        to.put_text(self.network().name())?;
        let numbers = self.write_files(&mut to)?;
        let ids = || {
            let spots = self.tree.ids().filter_map(|id| Some((id, self.spot(id)?)));
            let number = |file: u32| numbers.get(file as usize).copied().unwrap_or(LEFT_OUT);
            spots.map(move |(id, spot)| (id, spot, number(spot.file)))
        };
        let ids = || ids().filter(|(_, _, file)| *file != LEFT_OUT);
        to.put(&(ids().count() as u64).to_le_bytes())?;
        for (id, spot, file) in ids() {
            to.put(&self.tree.hash(id).unwrap_or_default().0)?;
            to.put(&self.tree.parent(id).unwrap_or_default().0)?;
            to.put(&self.tree.work(id).unwrap_or_default().0)?;
            to.put(&spot.offset)?;
            for number in [spot.length, spot.time, file] {
                to.put(&number.to_le_bytes())?;
            }
        }
        let Hashed { mut inner, hash } = to;
        inner.write_all(&hash.finalize())?;
        // On the disk before it gets its name: a crash must not leave the name with half a file.
        inner.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }

    /// Writes the files whose blocks are kept; returns the number of each, or [`LEFT_OUT`].
    fn write_files(&self, to: &mut Hashed<impl Write>) -> io::Result<Vec<u32>> {
        let mut next = 0..LEFT_OUT;
        let mut number = |file: &BlockFile| {
            let number = is_settled(file).then(|| next.next());
            number.flatten().unwrap_or(LEFT_OUT)
        };
        let numbers: Vec<u32> = self.files.iter().map(&mut number).collect();
        to.put(&next.start.to_le_bytes())?;
        for (at, (file, number)) in self.files.iter().zip(&numbers).enumerate() {
            let (Some((size, changed)), true) = (file.seen, *number != LEFT_OUT) else { continue };
            to.put_text(&absolute(&file.shown).unwrap_or_default())?;
            to.put(&size.to_le_bytes())?;
            to.put(&nanoseconds(changed).unwrap_or_default().to_le_bytes())?;
            to.put(&file.key)?;
            to.put(&[u8::from(file.is_framed)])?;
            to.put(&file.scanned_to.to_le_bytes())?;
            let regions = self.passed_over.range((at, 0)..=(at, u64::MAX));
            to.put(&u32::try_from(regions.clone().count()).unwrap_or_default().to_le_bytes())?;
            for ((_, offset), bytes) in regions {
                to.put(&offset.to_le_bytes())?;
                to.put(&bytes.to_le_bytes())?;
            }
        }
        Ok(numbers)
    }
}

/// Its blocks are all found, and it can be told whether it changes.
fn is_settled(file: &BlockFile) -> bool {
    let Some((_, changed)) = file.seen else { return false };
    let is_old = changed.elapsed().is_ok_and(|age| age > SETTLED);
    let is_named = absolute(&file.shown).is_some() && nanoseconds(changed).is_some();
    is_old && is_named && !file.is_open_ended()
}

/// The path from the root on; `None` where its bytes are no text.
fn absolute(path: &Path) -> Option<String> {
    std::path::absolute(path).ok()?.to_str().map(str::to_owned)
}

/// Since 1970.
fn nanoseconds(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// What is kept of these files and still true; an empty catalogue where there is nothing.
pub(super) fn load(network: Network, path: &Path, files: &[InputFile]) -> Catalogue {
    match File::open(path).and_then(|file| read(network, file, files)) {
        Ok(Some(catalogue)) => return catalogue,
        Ok(None) => tracing::info!(path = %path.display(), "reading through the files again"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(
            path = %path.display(),
            %error,
            "can't read the saved catalogue"
        ),
    }
    Catalogue::new(network)
}

/// `None` for anything that isn't whole and of this network.
fn read(network: Network, file: File, files: &[InputFile]) -> io::Result<Option<Catalogue>> {
    let mut from = Hashed::new(BufReader::with_capacity(BUFFER, file));
    if from.take::<16>()? != *VERSION || from.take_text()?.as_deref() != Some(network.name()) {
        return Ok(None);
    }
    let mut catalogue = Catalogue::new(network);
    let wanted = files.iter().filter_map(|file| Some((absolute(&file.path)?, file)));
    let wanted: HashMap<String, &InputFile> = wanted.collect();
    let Some(numbers) = read_files(&mut from, &wanted, &mut catalogue)? else { return Ok(None) };
    // Nothing is allocated by this count, and what is read counts only if the sum at the end
    // agrees.
    for _ in 0..from.take_u64()? {
        let hash = BlockHash(from.take()?);
        let (parent, work) = (BlockHash(from.take()?), Work(from.take()?));
        let (offset, length) = (from.take_u64()?, from.take_u32()? as usize);
        let (time, file) = (u64::from(from.take_u32()?), from.take_u32()? as usize);
        if let Some(Some(file)) = numbers.get(file) {
            let header = RawHeader { hash, parent, work, time };
            catalogue.insert(*file, &Found { offset, length, header });
        }
    }
    let expected: [u8; 32] = from.hash.clone().finalize().into();
    let is_whole = from.take::<32>()? == expected;
    // A file that is not known any more must be written anew.
    catalogue.is_changed = numbers.iter().any(Option::is_none);
    Ok(is_whole.then_some(catalogue))
}

/// The number that each kept file has in the catalogue now; `None` where it isn't wanted or has
/// changed.
fn read_files(
    from: &mut Hashed<impl Read>,
    wanted: &HashMap<String, &InputFile>,
    catalogue: &mut Catalogue,
) -> io::Result<Option<Vec<Option<usize>>>> {
    let mut numbers = Vec::new();
    for _ in 0..from.take_u32()? {
        let Some(path) = from.take_text()? else { return Ok(None) };
        let (size, changed) = (from.take_u64()?, from.take_u64()?);
        let (key, [is_framed]) = (from.take()?, from.take()?);
        let scanned_to = from.take_u64()?;
        let mut regions = Vec::new();
        for _ in 0..from.take_u32()? {
            regions.push((from.take_u64()?, from.take_u64()?));
        }
        let Some(file) = wanted.get(&path) else {
            numbers.push(None);
            continue;
        };
        let seen = state(&file.path);
        let now = seen.and_then(|(size, changed)| Some((size, nanoseconds(changed)?)));
        // A single block has no key, and neither has a folder whose blocks are in the clear.
        let is_keyed = key == [0; 8] || beside(&file.path).is_ok_and(|now| now == key);
        if now != Some((size, changed)) || !is_keyed {
            numbers.push(None);
            continue;
        }
        let mut known = BlockFile::new(file.path.clone(), file.is_packed, key, is_framed == 1);
        (known.scanned_to, known.seen) = (scanned_to, seen);
        let number = catalogue.push(known);
        let regions = regions.into_iter().map(|(offset, bytes)| ((number, offset), bytes));
        catalogue.passed_over.extend(regions);
        numbers.push(Some(number));
    }
    Ok(Some(numbers))
}

/// Bytes on their way, hashed as they pass.
struct Hashed<T> {
    inner: T,
    hash: Sha256,
}

impl<T> Hashed<T> {
    fn new(inner: T) -> Self {
        Self { inner, hash: Sha256::new() }
    }
}

impl<W: Write> Hashed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.inner.write_all(bytes)
    }

    fn put_text(&mut self, text: &str) -> io::Result<()> {
        let length = u32::try_from(text.len()).unwrap_or_default();
        self.put(&length.to_le_bytes())?;
        self.put(text.as_bytes())
    }
}

impl<R: Read> Hashed<R> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.hash.update(bytes);
        Ok(bytes)
    }

    fn take_u32(&mut self) -> io::Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn take_u64(&mut self) -> io::Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// `None` for what can't be a path or a name.
    fn take_text(&mut self) -> io::Result<Option<String>> {
        let length = self.take_u32()?;
        if length > LONGEST_PATH {
            return Ok(None);
        }
        let mut bytes = vec![0; length as usize];
        self.inner.read_exact(&mut bytes)?;
        self.hash.update(&bytes);
        Ok(String::from_utf8(bytes).ok())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use unspent_networks::bitcoin::framing::magic;
    use unspent_sim::shape::{ModernChain, Shape};

    use super::*;

    const NETWORK: Network = Network::BitcoinRegtest;
    const BLOCKS: usize = 30;

    /// A folder with three files of ten blocks each, and a place to keep their catalogue.
    struct Files {
        folder: tempfile::TempDir,
        blocks: Vec<Vec<u8>>,
    }

    impl Files {
        fn new() -> Self {
            let shape = Shape { start_coins: 100, transactions: 3 };
            let blocks = ModernChain::new(3, shape).take(BLOCKS).map(|block| block.bytes);
            let files = Self { folder: tempfile::tempdir().unwrap(), blocks: blocks.collect() };
            (0..3).for_each(|file| files.write(file, file * 10..file * 10 + 10));
            files
        }

        fn path(&self, file: usize) -> PathBuf {
            self.folder.path().join(format!("blk0000{file}.dat"))
        }

        /// Writes blocks into a file that seems to have been there for long.
        fn write(&self, file: usize, blocks: std::ops::Range<usize>) {
            let frames = self.blocks[blocks].iter().flat_map(|block| {
                let length = u32::try_from(block.len()).unwrap().to_le_bytes();
                [&magic(NETWORK).unwrap()[..], &length, block].concat()
            });
            self.fill(file, &frames.collect::<Vec<u8>>());
        }

        fn fill(&self, file: usize, bytes: &[u8]) {
            fs::write(self.path(file), bytes).unwrap();
            self.set_age(file, 1_000);
        }

        fn set_age(&self, file: usize, seconds: u64) {
            let open = File::options().write(true).open(self.path(file)).unwrap();
            open.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        }

        fn kept(&self) -> PathBuf {
            self.folder.path().join("kept")
        }

        fn look(&self) -> Catalogue {
            let files: Vec<_> = (0..3).map(|file| InputFile::new(self.path(file))).collect();
            let (room, kept) = (self.folder.path(), self.kept());
            let mut catalogue =
                Catalogue::build(NETWORK, &files, room, &kept, &|| {}, &|| true).unwrap();
            catalogue.keep().unwrap();
            catalogue
        }

        /// All blocks of the best branch, as they are read.
        fn read(&self, catalogue: &mut Catalogue) -> Vec<Vec<u8>> {
            let branch = catalogue.tree.best_branches().remove(0);
            let read = |id| catalogue.read_id(id, None).unwrap().bytes;
            branch.blocks.into_iter().map(read).collect()
        }
    }

    #[test]
    fn files_that_did_not_change_are_not_looked_at_again() {
        let files = Files::new();
        let mut first = files.look();
        assert_eq!(files.read(&mut first), files.blocks);
        let mut again = files.look();
        assert!(!again.is_changed);
        assert_eq!(files.read(&mut again), files.blocks);
        let time = |catalogue: &Catalogue, n: usize| {
            let header = unspent_networks::bitcoin_header(&files.blocks[n]).unwrap();
            (catalogue.time(&header.hash).unwrap(), header.time)
        };
        assert!((0..BLOCKS).all(|n| time(&again, n).0 == time(&again, n).1));
        // Nothing but size and time tells of the change, so nobody can have looked inside.
        let mut bytes = fs::read(files.path(1)).unwrap();
        bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
        files.fill(1, &bytes);
        assert_eq!(files.look().tree.len(), BLOCKS);
    }

    #[test]
    fn changed_files_and_new_ones_are_looked_through() {
        let files = Files::new();
        files.write(2, 20..24);
        assert_eq!(files.look().tree.len(), 24);
        files.write(2, 20..30);
        let mut grown = files.look();
        assert_eq!(files.read(&mut grown), files.blocks);
        // The same size, another time.
        let bytes = vec![0; fs::read(files.path(1)).unwrap().len()];
        files.fill(1, &bytes);
        files.set_age(1, 2_000);
        assert_eq!(files.look().tree.len(), 20);
        fs::remove_file(files.kept()).unwrap();
        assert_eq!(files.look().tree.len(), 20);
    }

    #[test]
    fn a_file_that_is_being_written_is_not_kept() {
        let files = Files::new();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        files.set_age(2, now.as_secs() + 5);
        assert_eq!(files.look().tree.len(), BLOCKS);
        let list: Vec<_> = (0..3).map(|file| InputFile::new(files.path(file))).collect();
        let kept = load(NETWORK, &files.kept(), &list);
        assert_eq!((kept.files.len(), kept.tree.len()), (2, 20));
    }

    #[test]
    fn a_damaged_catalogue_is_made_anew() {
        let files = Files::new();
        files.look();
        let whole = fs::read(files.kept()).unwrap();
        let list: Vec<_> = (0..3).map(|file| InputFile::new(files.path(file))).collect();
        let is_empty = |bytes: &[u8]| {
            fs::write(files.kept(), bytes).unwrap();
            load(NETWORK, &files.kept(), &list).files.is_empty()
        };
        assert!(!is_empty(&whole));
        for at in (0..whole.len()).step_by(17) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            assert!(is_empty(&flipped), "byte {at}");
            assert!(is_empty(&whole[..at]), "cut at {at}");
        }
        fs::write(files.kept(), &whole).unwrap();
        let other = load(Network::BitcoinSignet, &files.kept(), &list);
        assert!(other.files.is_empty());
    }

    #[test]
    fn a_block_that_is_no_longer_there_is_an_error_and_the_next_look_finds_out() {
        let files = Files::new();
        files.look();
        let mut bytes = fs::read(files.path(1)).unwrap();
        bytes[8 + 4] ^= 1;
        files.fill(1, &bytes);
        let mut catalogue = files.look();
        let header = unspent_networks::bitcoin_header(&files.blocks[10]).unwrap();
        let error = catalogue.read(&header.hash, None).unwrap_err();
        assert!(error.to_string().contains("another block is there now"), "{error}");
        assert!(!files.kept().exists());
        assert_eq!(files.look().time(&header.hash), None);
    }
}
