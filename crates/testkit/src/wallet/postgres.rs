//! A real PostgreSQL server for a test run.
//!
//! The first test that asks starts a cluster in a temporary folder named after the process that
//! runs the tests; the others of that run share it, each with a database of its own. A small guard
//! process stops the server and removes the folder once the runner is gone, so nothing stays.
//!
//! Without PostgreSQL's programs a test says SKIPPED, unless `UNSPENT_REQUIRE_PEERS=1`.

use std::{
    fs::{self, File, Permissions},
    os::unix::{
        fs::PermissionsExt as _,
        process::{CommandExt as _, parent_id},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

static NEXT: AtomicU32 = AtomicU32::new(0);
/// PostgreSQL's own; on it the shared server has but a socket.
const PORT: u16 = 5432;
/// Lines that are shown of what failed.
const LINES_SHOWN: usize = 30;

/// A fresh, empty database, by its URL; `None` after saying that the test is skipped.
///
/// # Panics
///
/// When PostgreSQL is there but can't be used, or is absent though required.
#[allow(clippy::panic)]
pub fn database() -> Option<String> {
    let programs = programs_or_skip()?;
    let cluster = Cluster { programs, folder: folder(), port: PORT };
    cluster.start();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Numbers of processes come again while one server lives.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_micros());
    let name = format!("t{}_{now:x}_{number}", std::process::id());
    cluster.sql(&format!("CREATE DATABASE {name}"));
    Some(cluster.url(&name))
}

/// Ends every session of a database but our own, as a crashed server would.
pub fn break_connections(url: &str) {
    let Some(programs) = programs() else { return };
    let cluster = Cluster { programs, folder: folder(), port: PORT };
    let name = url.split(['/', '?']).nth(3).unwrap_or_default();
    cluster.sql(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    ));
}

/// A server of its own that speaks TLS on the loopback interface.
pub struct TlsServer(Cluster);

impl TlsServer {
    /// Starts one with a certificate and its key, both as PEM. The user `secured` must come over
    /// TLS with the password `hush`. `None` after saying that the test is skipped.
    ///
    /// # Panics
    ///
    /// As for [`database`].
    #[allow(clippy::expect_used)]
    pub fn start(certificate: &str, key: &str) -> Option<Self> {
        let programs = programs_or_skip()?;
        let mut name = folder().into_os_string();
        name.push(format!("-tls-{}", std::process::id()));
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.expect("a port is free").port();
        let cluster = Cluster { programs, folder: name.into(), port };
        fs::create_dir_all(&cluster.folder).expect("a temporary folder can be made");
        cluster.make();
        let data = cluster.folder.join("data");
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = data.join(name);
            fs::write(&path, text).expect("a file can be written");
            fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
            hand_over(&path);
        }
        let rules = data.join("pg_hba.conf");
        let rest = fs::read_to_string(&rules).expect("initdb wrote it");
        let secured = "hostssl all secured all scram-sha-256\nhostnossl all secured all reject\n";
        fs::write(&rules, format!("{secured}{rest}")).expect("it can be written");
        cluster.boot("-c listen_addresses=localhost -c ssl=on");
        cluster.sql("CREATE ROLE secured SUPERUSER LOGIN PASSWORD 'hush'");
        Some(Self(cluster))
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.0.port
    }
}

#[allow(clippy::print_stderr)]
fn programs_or_skip() -> Option<PathBuf> {
    let found = programs();
    if found.is_none() {
        let absent = "PostgreSQL is absent; install Debian's package `postgresql`";
        assert!(std::env::var_os("UNSPENT_REQUIRE_PEERS").is_none(), "required: {absent}");
        eprintln!("SKIPPED: {absent}");
    }
    found
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
    /// Names the socket too.
    port: u16,
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
        self.make();
        self.boot("-c listen_addresses=");
        File::create(self.folder.join("ready")).expect("a mark can be made");
    }

    /// An empty cluster.
    fn make(&self) {
        hand_over(&self.folder);
        let data = self.folder.join("data").display().to_string();
        self.run("initdb", &["-D", &data, "-U", "postgres", "-A", "trust", "-N"]);
    }

    fn boot(&self, own: &str) {
        let settings = format!(
            "-k {} -p {} -c fsync=off -c full_page_writes=off -c max_connections=300 \
             -c shared_buffers=128MB -c autovacuum=off {own}",
            self.folder.display(),
            self.port,
        );
        let (data, log) = (self.folder.join("data"), self.folder.join("log"));
        self.guard(&data);
        let (data, log) = (data.display().to_string(), log.display().to_string());
        self.run("pg_ctl", &["-D", &data, "-o", &settings, "-l", &log, "-w", "start"]);
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
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let said = self.folder.join(format!("said-{}-{number}", std::process::id()));
        let file = File::create(&said).expect("a file can be made");
        let again = file.try_clone().expect("a file can be opened twice");
        let status = command.stdout(file).stderr(again).status();
        let status = status.expect("PostgreSQL's programs can be run");
        let text = [said.clone(), self.folder.join("log")].map(|path| tail(&path)).join("\n");
        let _ = fs::remove_file(said);
        assert!(status.success(), "{} {args:?} failed: {status}\n{text}", program.display());
    }

    fn sql(&self, text: &str) {
        let (socket, port) = (self.folder.display().to_string(), self.port.to_string());
        let args = ["-q", "-h", &socket, "-p", &port, "-U", "postgres", "-c", text, "postgres"];
        self.run("psql", &args);
    }
}

/// The last lines of what a program said.
fn tail(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default().join("\n")
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
