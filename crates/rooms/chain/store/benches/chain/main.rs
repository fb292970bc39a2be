//! How fast the chain room is, beside a floor measured in the same run.
//!
//! `make bench` runs it. Each phase is a process of its own, so that CPU time and peak memory belong to
//! it alone. CPU is user + system over all threads, with compactions drained. Blocks come from files made
//! once from a fixed seed. `UNSPENT_BENCH_COINS` and `UNSPENT_BENCH_BLOCKS` change the size. With
//! `--curve` it measures sets of several sizes instead (`make bench SIZE=large`), with
//! `--peers` a node and electrs on the same blocks (`make bench-chain-peers`).
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

mod balances;
mod bitcoin;
mod curve;
mod electrs;
mod floor;
mod measure;
mod peers;
mod preview;
mod proofs;
mod rest;
mod stream;

use measure::Figures;
use unspent_chain::StoreKind;

/// The allocator of the program itself: coins are made on one thread and freed on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // `cargo test --benches` and nextest must not start a long run.
    if !std::env::args().any(|arg| arg == "--bench" || arg == "--phase") {
        return;
    }
    let mut args = std::env::args().skip_while(|arg| arg != "--phase").skip(1);
    match args.next() {
        Some(phase) => run_phase(&phase).print_line(),
        None if std::env::args().any(|arg| arg == "--curve") => curve::run_all(),
        None if std::env::args().any(|arg| arg == "--peers") => peers::run_all(),
        None => run_all(),
    }
}

fn run_phase(phase: &str) -> Figures {
    match phase {
        "preview-decode" => preview::decode(),
        "preview-floor" => preview::floor(),
        "preview-index" => preview::index(StoreKind::Classic),
        "preview-index-mmr" => preview::index(StoreKind::Mmr),
        "bitcoin-decode" => bitcoin::decode(),
        "bitcoin-bare" => bitcoin::floor(false),
        "bitcoin-floor" => bitcoin::floor(true),
        "bitcoin-index" => bitcoin::index(StoreKind::Classic),
        "bitcoin-index-mmr" => bitcoin::index(StoreKind::Mmr),
        "bitcoin-window" => bitcoin::window(StoreKind::Classic),
        "bitcoin-window-mmr" => bitcoin::window(StoreKind::Mmr),
        "peers-knots" => peers::knots(),
        "peers-electrs" => electrs::measure(),
        "proofs-10000" => proofs::measure(10_000),
        "proofs-1000000" => proofs::measure(1_000_000),
        other => curve::run_phase(other).unwrap_or_else(|| panic!("no phase {other}")),
    }
}

fn run_all() {
    println!("# chain room\n");
    if preview::is_there() {
        println!("## Cardano preview, 27,179 blocks, both indexes, from block bytes to disk\n");
        let decode = measure::child("preview-decode");
        let floor = measure::child("preview-floor");
        let index = measure::child("preview-index");
        decode.show("decode alone", None);
        floor.show("floor: maps in memory", None);
        index.show("index, bulk", Some((&floor, "floor")));
        index.show_extras();
        measure::child("preview-index-mmr")
            .show("index, bulk, MMR store", Some((&index, "classic")));
    } else {
        println!("SKIPPED: the preview run is absent; set UNSPENT_TESTDATA\n");
    }
    let shape = stream::prepare();
    println!("\n## Modern Bitcoin shape, {shape}, address index, from block bytes to disk\n");
    let decode = measure::child("bitcoin-decode");
    let bare = measure::child("bitcoin-bare");
    let floor = measure::child("bitcoin-floor");
    let index = measure::child("bitcoin-index");
    let window = measure::child("bitcoin-window");
    decode.show("decode alone", None);
    bare.show("bare: one hash map of coins", None);
    floor.show("floor: coins and ordered lists", None);
    index.show("index, bulk, far from the tip", Some((&floor, "floor")));
    window.show("index, bulk, undo data kept", Some((&floor, "floor")));
    window.show_extras();
    println!("\n## The MMR store beside the classic one (as a multiple of it)\n");
    measure::child("bitcoin-index-mmr").show("bulk, far from the tip", Some((&index, "classic")));
    let window_mmr = measure::child("bitcoin-window-mmr");
    window_mmr.show("bulk, undo data kept", Some((&window, "classic")));
    window_mmr.show_extras();
    for (phase, name) in [("proofs-10000", "10^4 outputs"), ("proofs-1000000", "10^6 outputs")] {
        println!("\n## Proofs over {name}\n");
        measure::child(phase).show_extras();
    }
}
