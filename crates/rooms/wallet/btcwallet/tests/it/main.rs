//! Files written by the real library, and such files damaged.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    missing_docs
)]

mod answers;
mod hostile;

use std::io::Read as _;

use unspent_testkit::data;

/// The files; `d` is packed.
pub const FILES: [&str; 4] = ["a", "b", "d", "e"];

/// A file of the test data, unpacked when only the packed one is there.
pub fn file(name: &str) -> Option<Vec<u8>> {
    let name = format!("btcwallet/{name}");
    let folder = data::path("btcwallet")?.parent()?.to_owned();
    if folder.join(&name).exists() {
        return data::bytes(&name);
    }
    let packed = data::bytes(&format!("{name}.gz"))?;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    Some(bytes)
}
