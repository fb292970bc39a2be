//! What the headers of a main network take in memory and time: block files with nothing but headers
//! in them are looked through, the best branch is found, and then the same by what was kept.
//!
//! `UNSPENT_BENCH_HEADERS` changes how many there are (950,000).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use unspent_model::Network;
use unspent_networks::{bitcoin::framing::magic, bitcoin_header};
use unspent_source::files::{catalogue::Catalogue, find};

/// The allocator of the program itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NETWORK: Network = Network::BitcoinRegtest;
/// Headers in one file.
const PER_FILE: u32 = 120_000;

fn main() {
    // `cargo test --benches` and nextest must not start a run.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let given = std::env::var("UNSPENT_BENCH_HEADERS").ok().and_then(|n| n.parse().ok());
    let count = given.unwrap_or(950_000);
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path(), count);
    let before = memory("VmRSS");
    println!("{count} headers; memory before: {} MB", before >> 10);
    for what in ["looked through", "by what was kept"] {
        let started = Instant::now();
        let files = find::find(&[folder.path().to_owned()]).unwrap();
        let (room, kept) = (folder.path(), folder.path().join("kept"));
        let catalogue = Catalogue::build(NETWORK, &files, room, &kept, &|| {}, &|| true);
        let mut catalogue = catalogue.unwrap();
        let branch = catalogue.tree.best_branches().remove(0);
        assert_eq!(u32::try_from(branch.blocks.len()), Ok(count));
        catalogue.keep().unwrap();
        let took = started.elapsed().as_secs_f64();
        let peak = (memory("VmHWM") - before) >> 10;
        println!("{what}: {took:.2} s, at most {peak} MB more than before");
        let kept = fs::metadata(kept).unwrap().len() >> 20;
        println!("the file that is kept: {kept} MB");
    }
}

/// Files that seem to have been there for long.
fn write_files(folder: &Path, count: u32) {
    let mut parent = [0; 32];
    for (number, first) in (0..count).step_by(PER_FILE as usize).enumerate() {
        let path = folder.join(format!("blk{number:05}.dat"));
        let mut file = BufWriter::new(File::create(path).unwrap());
        for n in first..count.min(first + PER_FILE) {
            let mut header = [0; 80];
            header[4..36].copy_from_slice(&parent);
            header[36..40].copy_from_slice(&n.to_le_bytes());
            header[72..76].copy_from_slice(&0x207f_ffff_u32.to_le_bytes());
            parent = bitcoin_header(&header).unwrap().hash.0;
            file.write_all(&magic(NETWORK).unwrap()).unwrap();
            file.write_all(&81_u32.to_le_bytes()).unwrap();
            file.write_all(&header).unwrap();
            file.write_all(&[0]).unwrap();
        }
        let file = file.into_inner().unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(1_000)).unwrap();
    }
}

/// A line of what the kernel says of this process, in kB.
fn memory(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap()
}
