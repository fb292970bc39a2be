//! Real chains and vectors, kept outside the repository.
//!
//! The folder is `$UNSPENT_TESTDATA`, else `../shared/testdata` beside the repository. A clone
//! without it still passes: such tests say that they are skipped.

use std::{fs, io, path::PathBuf};

/// The folder of test data, if there is one.
pub fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("UNSPENT_TESTDATA").map(PathBuf::from);
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/testdata");
    Some(named.unwrap_or_else(|| PathBuf::from(beside))).filter(|folder| folder.is_dir())
}

/// The path of a test file, or `None` after saying on stderr that the test is skipped.
pub fn path(name: &str) -> Option<PathBuf> {
    let path = folder().map(|folder| folder.join(name)).filter(|path| path.exists());
    if path.is_none() {
        skipped(name);
    }
    path
}

/// The bytes of a test file, unpacked when its name ends in `.zst`; `None` as for [`path`].
///
/// # Panics
///
/// When the file is there but can't be read: a broken machine, not a missing folder.
#[allow(clippy::expect_used)]
pub fn bytes(name: &str) -> Option<Vec<u8>> {
    let raw = fs::read(path(name)?).expect("test data is readable");
    let unpacked = if name.ends_with(".zst") { unpack(&raw) } else { Ok(raw) };
    Some(unpacked.expect("test data is whole"))
}

fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    zstd::decode_all(packed)
}

#[allow(clippy::print_stderr)]
fn skipped(name: &str) {
    eprintln!("SKIPPED: test data `{name}` is absent; set UNSPENT_TESTDATA to run this test");
}
