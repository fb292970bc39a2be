//! Bitcoin Knots from the Debian archive that this machine already uses.
//!
//! apt checks the archive's signatures and downloads; the packages are unpacked into a cache folder
//! and run through their own loader beside the system's libraries. The folder is
//! `$UNSPENT_PEERS_CACHE`, else `unspent-peers` in the user's cache. Invariant: `knots` in it is
//! whole or absent, since it is made under another name and renamed.

use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

/// Libraries that the node needs and Debian keeps in packages of their own.
const LIBRARIES: [&str; 6] = [
    "libevent-core-2.1-7t64",
    "libevent-extra-2.1-7t64",
    "libevent-pthreads-2.1-7t64",
    "libsqlite3-0",
    "libstdc++6",
    "libzmq5",
];
const RELEASE: &str = "trixie";
const BACKPORTS: &str = "trixie-backports";

/// The node's program as it can be started here.
#[derive(Clone, Debug)]
pub struct Program {
    /// The loader that comes with the node's own libraries.
    pub loader: PathBuf,
    /// Those libraries.
    pub libraries: PathBuf,
    /// The node.
    pub bitcoind: PathBuf,
}

/// The node's program, fetched when it isn't there; `None` after saying that the test is skipped.
///
/// # Panics
///
/// When it can't be had though `UNSPENT_REQUIRE_PEERS` is set.
#[allow(clippy::panic)]
pub fn knots() -> Option<Program> {
    match find_or_fetch() {
        Ok(program) => Some(program),
        Err(reason) if env::var_os("UNSPENT_REQUIRE_PEERS").is_some() => {
            panic!("Bitcoin Knots is required and can't be had: {reason}")
        }
        Err(reason) => {
            skipped(&reason);
            None
        }
    }
}

#[allow(clippy::print_stderr)]
fn skipped(reason: &str) {
    eprintln!("SKIPPED: Bitcoin Knots can't be had: {reason}");
}

/// One test fetches, the others wait for it.
fn find_or_fetch() -> Result<Program, String> {
    let cache = cache()?;
    fs::create_dir_all(&cache).map_err(|error| format!("no cache folder: {error}"))?;
    let ready = cache.join("knots");
    let lock = File::create(cache.join("lock")).map_err(|error| format!("no lock: {error}"))?;
    lock.lock().map_err(|error| format!("the lock can't be taken: {error}"))?;
    if !ready.is_dir() {
        let making = cache.join("knots-in-the-making");
        // What a killed run left.
        let _ = fs::remove_dir_all(&making);
        fetch(&making)?;
        fs::rename(making.join("root"), &ready).map_err(|error| error.to_string())?;
        let _ = fs::remove_dir_all(&making);
    }
    let libraries = ready.join("usr/lib/x86_64-linux-gnu");
    let loader = libraries.join("ld-linux-x86-64.so.2");
    let program = Program { loader, libraries, bitcoind: ready.join("usr/bin/bitcoind") };
    let is_whole = program.loader.exists() && program.bitcoind.exists();
    is_whole.then_some(program).ok_or_else(|| "the packages hold no such node".into())
}

/// Where peers are kept.
pub(super) fn cache() -> Result<PathBuf, String> {
    let named = env::var_os("UNSPENT_PEERS_CACHE").map(PathBuf::from);
    let user = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let beside = user.or_else(home).map(|cache| cache.join("unspent-peers"));
    named.or(beside).ok_or_else(|| "there is no home folder for a cache".into())
}

fn fetch(room: &Path) -> Result<(), String> {
    for folder in ["lists/partial", "cache/archives/partial", "deb", "root"] {
        fs::create_dir_all(room.join(folder)).map_err(|error| error.to_string())?;
    }
    let mirror = mirror()?;
    let list = format!("deb {mirror} {RELEASE} main\ndeb {mirror} {BACKPORTS} main\n");
    fs::write(room.join("status"), "").map_err(|error| error.to_string())?;
    fs::write(room.join("sources.list"), list).map_err(|error| error.to_string())?;
    run(apt("apt-get", room).arg("update"))?;
    let closure = run(apt("apt-cache", room)
        .args(["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts"])
        .args(["--no-breaks", "--no-replaces", "--no-enhances"])
        .args(LIBRARIES))?;
    let names = closure.lines().filter(|line| line.starts_with(|c: char| c.is_alphanumeric()));
    let names = names.filter(|name| !name.starts_with("debconf"));
    run(apt("apt-get", room)
        .current_dir(room.join("deb"))
        .args(["download", "-t", BACKPORTS, "bitcoin-knots"])
        .args(names))?;
    let packages = fs::read_dir(room.join("deb")).map_err(|error| error.to_string())?;
    for package in packages.flatten() {
        run(Command::new("dpkg-deb").arg("-x").arg(package.path()).arg(room.join("root")))?;
    }
    Ok(())
}

/// apt with lists, cache and state of its own: the machine's are neither read nor changed.
fn apt(program: &str, room: &Path) -> Command {
    let mut command = Command::new(program);
    let places = [
        ("Dir::Etc::sourcelist", "sources.list"),
        ("Dir::State::lists", "lists"),
        ("Dir::State::status", "status"),
        ("Dir::Cache", "cache"),
    ];
    for (option, place) in places {
        command.arg("-o").arg(format!("{option}={}", room.join(place).display()));
    }
    command.args(["-o", "Dir::Etc::sourceparts=-", "-o", "APT::Sandbox::User=root"]);
    command
}

fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|error| format!("{program}: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(format!("{program}: {}", said.lines().last().unwrap_or("failed")))
}

/// The archive that the machine's own apt uses.
fn mirror() -> Result<String, String> {
    let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let mut files: Vec<_> = parts.map(|entry| entry.path()).collect();
    files.push("/etc/apt/sources.list".into());
    files.sort();
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    let found = texts.flat_map(|text| archives(&text)).next();
    found.ok_or_else(|| "the machine's apt sources name no Debian archive".into())
}

/// Addresses of Debian archives in a sources file, in either of its two forms.
fn archives(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with("deb ") || line.starts_with("URIs:"));
    let words = lines.flat_map(str::split_whitespace);
    let named = words.filter(|word| word.trim_end_matches('/').ends_with("/debian"));
    named.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_found_in_both_forms() {
        let old = "# deb http://old/debian x\ndeb [signed-by=k] http://one/debian/ x main\n";
        assert_eq!(archives(old), ["http://one/debian/"]);
        let new = "Types: deb\nURIs: http://two/debian\nSuites: x\n\nURIs: http://two/security";
        assert_eq!(archives(new), ["http://two/debian"]);
    }
}
