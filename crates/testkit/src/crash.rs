//! The crash runner: a test re-executes its own binary as a worker and ends it at a bad moment.
//!
//! A worker is an ordinary test that does nothing unless [`role`] says otherwise. It tells its
//! parent what it is doing through a [`Note`], which survives `SIGKILL` because it lies in the page
//! cache. [`Rng`] makes every choice repeatable from a seed.
//!
//! Deliberately absent: power failure. A killed process loses its memory, not what it handed to the
//! kernel.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::{fs::FileExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

const ROLE: &str = "UNSPENT_CRASH_ROLE";
const FOLDER: &str = "UNSPENT_CRASH_FOLDER";
/// How often a waiting parent looks at its worker.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What this process was started as, and the folder it works in; `None` in an ordinary test run.
pub fn role() -> Option<(String, PathBuf)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role, PathBuf::from(std::env::var_os(FOLDER)?)))
}

/// A command that runs only the test `worker` of this very binary, in `role`, on `folder`.
///
/// # Errors
///
/// When the running binary can't be found.
pub fn worker(worker: &str, role: &str, folder: &Path) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([worker, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(FOLDER, folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    Ok(command)
}

/// Waits for a worker; one that takes longer than `limit` is killed and reported as hanging.
///
/// # Errors
///
/// [`io::ErrorKind::TimedOut`] for a hanging worker, else what the system says.
pub fn wait(child: &mut Child, limit: Duration) -> io::Result<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the worker hangs"));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The worker ended by `SIGKILL`.
pub fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9)
}

/// What a worker is doing: two numbers in a small file, replaced by one `pwrite` each time.
pub struct Note {
    file: File,
}

impl Note {
    /// Opens the note at `path`, creating it with zeros.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let note = Self { file: options.open(path)? };
        if note.file.metadata()?.len() == 0 {
            note.write(0, 0)?;
        }
        Ok(note)
    }

    /// Notes that `done` steps are finished and that `phase` goes on now.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn write(&self, done: u64, phase: u64) -> io::Result<()> {
        let both = (u128::from(done) << 64) | u128::from(phase);
        self.file.write_all_at(&both.to_be_bytes(), 0)
    }

    /// Steps finished, and the phase.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn read(&self) -> io::Result<(u64, u64)> {
        let mut bytes = [0; 16];
        self.file.read_exact_at(&mut bytes, 0)?;
        let both = u128::from_be_bytes(bytes);
        let low = u64::try_from(both & u128::from(u64::MAX)).unwrap_or_default();
        Ok((u64::try_from(both >> 64).unwrap_or_default(), low))
    }
}

/// Copies a folder with all that is in it.
///
/// # Errors
///
/// What the system says.
pub fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// A small generator of repeatable choices (SplitMix64). Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The same seed gives the same choices.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 when `bound` is.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits().checked_rem(bound).unwrap_or_default()
    }

    /// 32 bytes, for a hash that nobody has seen.
    pub fn hash(&mut self) -> [u8; 32] {
        let mut hash = [0; 32];
        for chunk in hash.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.bits().to_be_bytes());
        }
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_was_last_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        let note = Note::open(&path).unwrap();
        assert_eq!(note.read().unwrap(), (0, 0));
        note.write(u64::MAX, 7).unwrap();
        assert_eq!(Note::open(&path).unwrap().read().unwrap(), (u64::MAX, 7));
    }

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        let (mut a, mut b) = (Rng::new(5), Rng::new(5));
        assert_eq!((a.bits(), a.below(10), a.hash()), (b.bits(), b.below(10), b.hash()));
        assert_ne!(Rng::new(6).bits(), Rng::new(5).bits());
        assert_eq!(a.below(0), 0);
    }
}
