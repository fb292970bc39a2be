//! The queue of those who write one SQLite file, across processes.
//!
//! SQLite has no queue: whoever finds the file locked sleeps and looks again, and among many
//! processes some never look at the right moment. So writers first take turns at two files beside
//! the database, whose locks the kernel gives in the order of asking:
//!
//! - `NAME-writer` is locked by whoever writes, from before BEGIN until after COMMIT;
//! - `NAME-queue` is locked by the first of those who wait. Whoever has just written would
//!   otherwise take the first lock again before the one who waits for it has woken up.
//!
//! A lock goes with its process, however that ends. The files hold nothing and stay.
//!
//! Invariant: nobody waits beyond the limit given. A wait inside the kernel can't be called off, so
//! a thread of its own waits there; a lock that comes when nobody wants it any longer is given
//! back.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::error::SqlError;

/// One writer's place in the queue of a file.
pub(crate) struct WriterQueue {
    shared: Arc<SharedTurn>,
    has_helper: bool,
}

struct SharedTurn {
    queue: File,
    writer: File,
    place: Mutex<QueuePlace>,
    changed: Condvar,
}

struct QueuePlace {
    stand: TurnState,
    /// Somebody still waits for the lock that the helper asked for.
    wanted: bool,
    closed: bool,
}

#[derive(PartialEq)]
enum TurnState {
    Away,
    /// The helper waits in the kernel, or is about to.
    Asked,
    Writing,
    Failed(String),
}

impl WriterQueue {
    /// Opens the queue of a database file, making it when absent.
    pub(crate) fn open(database: &Path) -> Result<Self, SqlError> {
        let database = resolved(database);
        let (queue, writer) = (beside(&database, "-queue")?, beside(&database, "-writer")?);
        let place = Mutex::new(QueuePlace { stand: TurnState::Away, wanted: false, closed: false });
        let shared = SharedTurn { queue, writer, place, changed: Condvar::new() };
        Ok(Self { shared: Arc::new(shared), has_helper: false })
    }

    /// Waits for the turn, unless it is ours already.
    pub(crate) fn take(&mut self, until: Instant) -> Result<(), SqlError> {
        let shared = Arc::clone(&self.shared);
        let mut place = shared.place();
        match place.stand {
            TurnState::Writing => return Ok(()),
            TurnState::Away | TurnState::Failed(_) => {
                if shared.take_if_free()? {
                    place.stand = TurnState::Writing;
                    return Ok(());
                }
                place.stand = TurnState::Asked;
            }
            // An earlier wait ended too soon for its caller: the helper still stands in the queue,
            // and its place is worth keeping.
            TurnState::Asked => {}
        }
        place.wanted = true;
        // Only when somebody has to wait: with one process the thread is never needed.
        self.start_helper()?;
        shared.changed.notify_all();
        shared.wait(place, until)
    }

    /// Lets the next one write.
    pub(crate) fn leave(&mut self) {
        let mut place = self.shared.place();
        if place.stand == TurnState::Writing {
            self.shared.give_back();
            place.stand = TurnState::Away;
        }
    }

    fn start_helper(&mut self) -> Result<(), SqlError> {
        if self.has_helper {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("unspent-sql-turn".into());
        thread.spawn(move || shared.help()).map_err(|error| cannot("wait for a turn", &error))?;
        self.has_helper = true;
        Ok(())
    }
}

impl Drop for WriterQueue {
    /// The helper isn't waited for: it may be in the kernel for long.
    fn drop(&mut self) {
        self.leave();
        self.shared.place().closed = true;
        self.shared.changed.notify_all();
    }
}

impl SharedTurn {
    fn place(&self) -> MutexGuard<'_, QueuePlace> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, mut place: MutexGuard<'_, QueuePlace>, until: Instant) -> Result<(), SqlError> {
        while place.stand == TurnState::Asked {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                place.wanted = false;
                return Err(SqlError::Busy("other processes are writing to the file".into()));
            }
            let waited = self.changed.wait_timeout(place, left);
            (place, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        match &place.stand {
            TurnState::Failed(text) => Err(SqlError::Other(text.clone())),
            TurnState::Away | TurnState::Asked | TurnState::Writing => Ok(()),
        }
    }

    /// Nobody writes and nobody waits: the usual case, without the helper.
    fn take_if_free(&self) -> Result<bool, SqlError> {
        if !at_once(&self.queue)? {
            return Ok(false);
        }
        let is_free = at_once(&self.writer);
        let _ = self.queue.unlock();
        is_free
    }

    /// Both locks in turn, as long as it takes.
    fn take_in_order(&self) -> io::Result<()> {
        patiently(&self.queue)?;
        let taken = patiently(&self.writer);
        let _ = self.queue.unlock();
        taken
    }

    fn give_back(&self) {
        let _ = self.writer.unlock();
    }

    fn help(&self) {
        loop {
            let mut place = self.place();
            while place.stand != TurnState::Asked {
                if place.closed {
                    return;
                }
                place = self.changed.wait(place).unwrap_or_else(PoisonError::into_inner);
            }
            // The kernel may keep us for long, and the owner must be able to give up meanwhile.
            drop(place);
            let taken = self.take_in_order();
            let mut place = self.place();
            place.stand = match taken {
                Ok(()) if place.wanted && !place.closed => TurnState::Writing,
                Ok(()) => {
                    self.give_back();
                    TurnState::Away
                }
                Err(error) => TurnState::Failed(format!("can't wait for a turn to write: {error}")),
            };
            self.changed.notify_all();
        }
    }
}

/// The same queue, whichever way the path is written.
fn resolved(database: &Path) -> PathBuf {
    if let Ok(whole) = database.canonicalize() {
        return whole;
    }
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    match (folder, database.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => database.to_owned(),
    }
}

/// For the owner only, as whoever can lock it can keep writers out.
fn beside(database: &Path, ending: &str) -> Result<File, SqlError> {
    let mut name = OsString::from(database);
    name.push(ending);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&name).map_err(|error| {
        let shown = Path::new(&name).display();
        SqlError::Unavailable(format!("can't open {shown}, where writers queue: {error}"))
    })
}

fn at_once(file: &File) -> Result<bool, SqlError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(cannot("lock the queue of writers", &error)),
    }
}

/// A signal interrupts the wait, not the wish.
fn patiently(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn cannot(what: &str, error: &io::Error) -> SqlError {
    let text = format!("can't {what}: {error}");
    let is_full =
        [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind());
    if is_full { SqlError::Disk(text) } else { SqlError::Other(text) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn pair() -> (tempfile::TempDir, WriterQueue, WriterQueue) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let (a, b) = (WriterQueue::open(&path).unwrap(), WriterQueue::open(&path).unwrap());
        (folder, a, b)
    }

    #[test]
    fn one_writes_and_who_gave_up_keeps_nobody_out() {
        let (_folder, mut a, mut b) = pair();
        a.take(soon()).unwrap();
        a.take(soon()).unwrap();
        assert!(matches!(b.take(soon()), Err(SqlError::Busy(_))));
        a.leave();
        // The helper of `b` may have got the lock that nobody wants any longer.
        a.take(later()).unwrap();
        assert!(matches!(b.take(soon()), Err(SqlError::Busy(_))));
        drop(a);
        b.take(later()).unwrap();
    }

    /// Waits until a writer stands first in the queue, which only its helper makes come true: while
    /// its owner asks, the same file is locked for a moment, and free again.
    fn wait_until_first(queue: &Path, writer: &SharedTurn) {
        while writer.place().stand != TurnState::Asked {
            std::thread::yield_now();
        }
        let look = OpenOptions::new().read(true).open(queue).unwrap();
        while at_once(&look).unwrap() {
            look.unlock().unwrap();
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_last_writer_does_not_push_in_before_who_asked_first() {
        let (folder, mut a, mut b) = pair();
        let (queue, first) = (folder.path().join("a.db-queue"), Arc::clone(&b.shared));
        for round in 0..20 {
            let told = Mutex::new(Vec::new());
            a.take(later()).unwrap();
            std::thread::scope(|scope| {
                let (told, b) = (&told, &mut b);
                scope.spawn(move || {
                    b.take(later()).unwrap();
                    told.lock().unwrap().push("b");
                    b.leave();
                });
                wait_until_first(&queue, &first);
                a.leave();
                a.take(later()).unwrap();
                told.lock().unwrap().push("a");
                a.leave();
            });
            // However threads are woken: whoever stands in the queue has written before the last
            // writer gets in again.
            assert_eq!(told.into_inner().unwrap(), ["b", "a"], "round {round}");
        }
    }

    #[test]
    fn a_queue_that_cannot_be_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a.db-queue")).unwrap();
        let refused = WriterQueue::open(&folder.path().join("a.db")).err().unwrap();
        assert!(refused.to_string().contains("a.db-queue, where writers queue"), "{refused}");
    }

    #[cfg(unix)]
    #[test]
    fn others_cannot_open_the_queue_and_every_path_leads_to_the_same() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let (folder, mut a, _) = pair();
        for name in ["a.db-queue", "a.db-writer"] {
            let mode = folder.path().join(name).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        std::fs::write(folder.path().join("a.db"), "").unwrap();
        symlink(folder.path().join("a.db"), folder.path().join("link.db")).unwrap();
        a.take(soon()).unwrap();
        let mut linked = WriterQueue::open(&folder.path().join("link.db")).unwrap();
        assert!(matches!(linked.take(soon()), Err(SqlError::Busy(_))));
    }
}
