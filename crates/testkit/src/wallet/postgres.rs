//! A real PostgreSQL server for a test run.
//!
//! The first test that asks starts a cluster in a temporary folder named after the process that
//! runs the tests; the others of that run share it, each with a database of its own. A small guard
//! process stops the server and removes the folder once the runner is gone, so nothing stays.
//!
//! Without PostgreSQL's programs a test says SKIPPED, unless `UNSPENT_REQUIRE_PEERS=1`.

use std::{
    fs::{self, File},
    os::unix::process::{CommandExt as _, parent_id},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A fresh, empty database, by its URL; `None` after saying that the test is skipped.
///
/// # Panics
///
/// When PostgreSQL is there but can't be used, or is absent though required.
#[allow(clippy::panic)]
pub fn database() -> Option<String> {
    let Some(programs) = programs() else {
        assert!(
            std::env::var_os("UNSPENT_REQUIRE_PEERS").is_none(),
            "PostgreSQL is required and absent: install Debian's package `postgresql`"
        );
        skipped();
        return None;
    };
    let cluster = Cluster { programs, folder: folder() };
    cluster.start();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("t{}_{number}", std::process::id());
    cluster.sql(&format!("CREATE DATABASE {name}"));
    Some(cluster.url(&name))
}

/// Ends every session of a database but our own, as a crashed server would.
pub fn break_connections(url: &str) {
    let Some(programs) = programs() else { return };
    let cluster = Cluster { programs, folder: folder() };
    let name = url.split(['/', '?']).nth(3).unwrap_or_default();
    cluster.sql(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    ));
}

#[allow(clippy::print_stderr)]
fn skipped() {
    eprintln!("SKIPPED: PostgreSQL is absent; install Debian's package `postgresql`");
}

fn programs() -> Option<PathBuf> {
    let named = std::env::var_os("UNSPENT_POSTGRES_BIN").map(PathBuf::from);
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    found.sort();
    named.or_else(|| found.pop()).filter(|bin| bin.join("initdb").exists())
}

/// In memory where the machine offers that: making and emptying many databases is mostly the
/// making of files.
fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    place.join(format!("unspent-postgres-{}", parent_id()))
}

struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
}

impl Cluster {
    fn url(&self, name: &str) -> String {
        let socket = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@localhost/{name}?host={socket}")
    }

    /// Starts the server unless another test of this run already has.
    #[allow(clippy::expect_used)]
    fn start(&self) {
        fs::create_dir_all(&self.folder).expect("a temporary folder can be made");
        let lock = File::create(self.folder.join("lock")).expect("a lock file can be made");
        lock.lock().expect("the lock can be taken");
        if self.folder.join("ready").exists() {
            return;
        }
        let data = self.folder.join("data");
        hand_over(&self.folder);
        let data_text = data.display().to_string();
        self.run("initdb", &["-D", &data_text, "-U", "postgres", "-A", "trust", "-N"]);
        let settings = format!(
            "-k {} -c listen_addresses= -c fsync=off -c full_page_writes=off \
             -c max_connections=300 -c shared_buffers=128MB -c autovacuum=off",
            self.folder.display()
        );
        let log = self.folder.join("log").display().to_string();
        self.guard(&data);
        self.run("pg_ctl", &["-D", &data_text, "-o", &settings, "-l", &log, "-w", "start"]);
        File::create(self.folder.join("ready")).expect("a mark can be made");
    }

    /// Waits for the test runner to go, then stops the server and removes the folder.
    #[allow(clippy::expect_used)]
    fn guard(&self, data: &Path) {
        let script = format!(
            "while kill -0 {parent} 2>/dev/null; do sleep 0.5; done; \
             {stop}; rm -rf {folder}",
            parent = parent_id(),
            stop = self.shell("pg_ctl", &format!("-D {} -m immediate stop", data.display())),
            folder = self.folder.display(),
        );
        let mut command = Command::new("sh");
        command.args(["-c", &format!("({script}) &")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0).current_dir("/").status().expect("a guard can be started");
    }

    fn shell(&self, program: &str, args: &str) -> String {
        let program = self.programs.join(program);
        if is_root() {
            format!("runuser -u postgres -- {} {args}", program.display())
        } else {
            format!("{} {args}", program.display())
        }
    }

    /// Runs one of PostgreSQL's programs, never as root.
    #[allow(clippy::expect_used)]
    fn run(&self, program: &str, args: &[&str]) {
        let program = self.programs.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(&program);
            command
        } else {
            Command::new(&program)
        };
        command.args(args).current_dir("/").stdin(Stdio::null());
        // A server that inherits our pipes would keep the test runner waiting for their end.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().expect("PostgreSQL's programs can be run");
        assert!(status.success(), "{} {args:?} failed: {status}", program.display());
    }

    fn sql(&self, text: &str) {
        let socket = self.folder.display().to_string();
        self.run("psql", &["-q", "-h", &socket, "-U", "postgres", "-c", text, "postgres"]);
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// The server's user must own the folder it works in.
#[allow(clippy::expect_used)]
fn hand_over(folder: &Path) {
    if is_root() {
        let done = Command::new("chown").arg("postgres").arg(folder).status();
        assert!(done.expect("chown can be run").success(), "user `postgres` is missing");
    }
}
