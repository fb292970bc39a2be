//! The process is killed, or the disk is full, while `chain import` is at work: the next one goes on,
//! and the exit code is a documented one.
#![allow(clippy::print_stdout)]

use std::{
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use unspent_testkit::{
    crash::{self, Rng},
    data,
};

use crate::run::{Folder, text};

/// Kills in the usual run; `UNSPENT_IMPORT_KILLS` raises it.
const KILLS: u64 = 24;
/// Imports into a disk that is too small; `UNSPENT_FULL_IMPORTS` raises it.
const FULL_DISKS: u64 = 12;
/// Nothing here takes long; this is for a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(240);

pub(crate) fn count(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The first 4,313 blocks of Bitcoin, unpacked: an import of a packed file spends its time unpacking.
pub(crate) fn blocks(folder: &Folder) -> Option<PathBuf> {
    let unpacked = data::bytes("bitcoin/mainnet-blocks-00000-04312.blk.zst")?;
    let path = folder.beside("mainnet.blk");
    std::fs::write(&path, unpacked).unwrap();
    Some(path)
}

/// `unspent chain import`, without settings from outside.
pub(crate) fn import(data: &Path, file: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("unspent"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UNSPENT_")) {
        command.env_remove(name);
    }
    command.arg("--data-dir").arg(data);
    command.args(["--json", "chain", "import", "--network", "bitcoin"]).args(options).arg(file);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts an import and kills it after `pause`; its status.
fn kill_after(pause: Duration, mut command: Command) -> ExitStatus {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    thread::sleep(pause);
    child.kill().unwrap();
    crash::wait(&mut child, PATIENCE).unwrap()
}

/// Kills imports, up to four into each folder, until enough have hit; each folder is brought to the
/// end and must hold what an undisturbed import holds.
fn survive(options: &[&str], seed: u64) {
    let first = Folder::new();
    let Some(file) = blocks(&first) else { return };
    let started = Instant::now();
    let whole = import(&first.data(), &file, options).output().unwrap();
    assert!(whole.status.success(), "{whole:?}");
    let span = u64::try_from(started.elapsed().as_micros()).unwrap();
    let expected = first.digest();
    let mut rng = Rng::new(seed);
    let (mut kills, mut early, mut finished) = (0, 0, 0);
    let wanted = count("UNSPENT_IMPORT_KILLS", KILLS).div_ceil(2);
    while kills < wanted {
        let folder = Folder::new();
        for _ in 0..4 {
            // Half of them hit the making of the folder, wherever in the first third that is.
            let within = if rng.below(2) == 0 { span / 3 } else { span };
            let pause = Duration::from_micros(rng.below(within));
            let status = kill_after(pause, import(&folder.data(), &file, options));
            if !crash::was_killed(status) {
                assert!(status.success(), "{status}");
                break;
            }
            kills += 1;
            let before = folder.chain(&["status"]);
            if before.code != 0 {
                // The folder isn't there yet, or not yet made; never is it called damaged.
                assert!(text(&before.error(1)["message"]).contains("no chain data"), "{before:?}");
                early += 1;
            } else {
                folder.assert_consistent();
            }
        }
        let ended = import(&folder.data(), &file, options).output().unwrap();
        assert!(ended.status.success(), "after {kills} kills: {ended:?}");
        assert_eq!(folder.digest(), expected, "after {kills} kills");
        folder.assert_consistent();
        finished += 1;
    }
    println!("{kills} kills, {early} before the folder was made, {finished} folders finished");
    assert!(kills > early, "no kill hit an import at work");
}

#[test]
fn a_killed_import_is_continued_by_the_next_and_ends_in_the_same_set() {
    survive(&["--bulk-memory-mb", "1"], 11);
}

#[test]
fn a_killed_import_block_by_block_is_continued_by_the_next_and_ends_in_the_same_set() {
    survive(&["--no-bulk", "--stop-at", "1500"], 12);
}

/// Runs an import in a mount namespace of its own, where the data folder is a disk of one megabyte.
/// `None` where the system doesn't allow that.
fn on_small_disk(folder: &Folder, file: &Path, options: &[&str]) -> Option<Output> {
    let disk = folder.beside("disk");
    std::fs::create_dir_all(&disk).unwrap();
    let import = import(&disk.join("data"), file, options);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c"]);
    command.arg("mount -t tmpfs -o size=1m tmpfs \"$0\" || exit 99; exec \"$@\"").arg(&disk);
    command.arg(import.get_program()).args(import.get_args());
    for (name, value) in import.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let ended = crash::wait(&mut child, PATIENCE);
    let ended = ended.unwrap_or_else(|error| panic!("an import on a full disk: {error}"));
    let output = child.wait_with_output().unwrap();
    let refused = ended.code() == Some(99)
        || (ended.code() == Some(1) && output.stderr.starts_with(b"unshare"));
    (!refused).then_some(output)
}

fn fill(options: &[&str]) {
    let folder = Folder::new();
    let Some(file) = blocks(&folder) else { return };
    for attempt in 0..count("UNSPENT_FULL_IMPORTS", FULL_DISKS) {
        let Some(ended) = on_small_disk(&folder, &file, options) else {
            println!("skipped: this system lets nobody mount a small disk");
            return;
        };
        let status = ended.status;
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(status.signal(), None, "attempt {attempt} ended by a signal: {said}");
        assert_eq!(status.code(), Some(1), "attempt {attempt}: {said}");
        let answer: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(answer["error"]["code"], "unavailable", "{answer}");
        assert!(said.contains("No space left"), "{said}");
    }
}

#[test]
fn a_full_disk_ends_a_bulk_import_with_the_documented_exit_code() {
    fill(&["--bulk-memory-mb", "1"]);
}

#[test]
fn a_full_disk_ends_an_import_block_by_block_with_the_documented_exit_code() {
    fill(&["--no-bulk"]);
}
