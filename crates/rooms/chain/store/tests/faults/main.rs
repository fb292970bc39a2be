//! Faults: the process is killed, a write fails, bytes rot. Never a wrong answer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::wildcard_enum_match_arm,
    clippy::print_stderr,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub
)]

mod corruption;
mod disk_full;
mod driver;
mod history;
mod interpose;
mod kill;
mod records;
mod worker;
mod write_points;

/// A folder for one case: in memory where the system offers that, for speed.
fn scratch() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.unwrap()
}

/// A count from the environment, for longer runs.
fn count(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
