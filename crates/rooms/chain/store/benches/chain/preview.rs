//! The real preview run, from block bytes in memory to the disk.

use std::{thread, time::Instant};

use crossbeam_channel::bounded;
use unspent_chain::{ChainIndex, Options, Owner, PageOrder, PreparedBlock, StoreKind, prepare};
use unspent_model::{Family, Network, chain::GenesisCoin};
use unspent_networks::{
    cardano::{framing::split_cbor_items, genesis::genesis_coins},
    decode_block,
};
use unspent_testkit::data;

use crate::{
    floor::Floor,
    measure::{Clock, Figures, percentile},
};

const NETWORK: Network = Network::CardanoPreview;
const AHEAD: usize = 256;
const FILES: [&str; 7] = [
    "00000.chunk",
    "block-04330.cbor",
    "block-08645.cbor",
    "block-13065.cbor",
    "chunks-00150-00199.zst",
    "chunks-00200-00249.zst",
    "chunks-00250-00299.zst",
];

pub fn is_there() -> bool {
    data::path("cardano/preview/expected.json").is_some()
}

fn bytes() -> Vec<u8> {
    let files = FILES.iter().map(|file| data::bytes(&format!("cardano/preview/{file}")));
    files.map(|bytes| bytes.expect("the preview run")).collect::<Vec<_>>().concat()
}

fn genesis() -> Vec<GenesisCoin> {
    let file = data::bytes("cardano/genesis/preview-byron-genesis.json").expect("genesis");
    genesis_coins(NETWORK, &[&file]).expect("genesis coins")
}

/// Decodes on a thread of its own and hands each block to `apply`.
fn each(bytes: Vec<u8>, mut apply: impl FnMut(PreparedBlock)) -> (usize, usize) {
    let (send, receive) = bounded(AHEAD);
    let decoder = thread::spawn(move || {
        for item in split_cbor_items(&bytes) {
            let block = decode_block(NETWORK, item.expect("an item"), None).expect("a block");
            send.send(prepare(block)).expect("the applying thread");
        }
    });
    let (mut blocks, mut changes) = (0, 0);
    for block in receive {
        blocks += 1;
        changes += block.coin_changes();
        apply(block);
    }
    decoder.join().expect("decoder");
    (blocks, changes)
}

pub fn decode() -> Figures {
    let bytes = bytes();
    let clock = Clock::start();
    let (blocks, changes) = each(bytes, drop);
    clock.stop(blocks, changes)
}

pub fn floor() -> Figures {
    let bytes = bytes();
    let mut floor = Floor::new(true);
    let clock = Clock::start();
    let (blocks, changes) = each(bytes, |block| floor.apply(block));
    clock.stop(blocks, changes)
}

pub fn index(store: StoreKind) -> Figures {
    let bytes = bytes();
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { store, ..Options::for_network(NETWORK) };
    let (mut index, _) =
        ChainIndex::open(folder.path(), NETWORK, options, &genesis()).expect("opened");
    index.allow_holes();
    let clock = Clock::start();
    let mut bulk = index.bulk(27_179);
    let (blocks, changes) = each(bytes, |block| {
        bulk.apply(block).expect("applied");
    });
    bulk.finish().expect("finished");
    let figures = clock.stop(blocks, changes);
    assert_eq!(index.reader().status().expect("status").cursor.coins, 32_662);
    pages(figures, &index)
}

/// Pages of 100 over the address with 25,140 coins.
fn pages(figures: Figures, index: &ChainIndex) -> Figures {
    let raw = "6033c378cee41b2e15ac848f7f6f1d2f78155ab12d93b713de898d855f";
    let owner = Owner::address(Family::Cardano, &hex::decode(raw).expect("hex"));
    let reader = index.reader();
    let mut lines = figures;
    for order in [PageOrder::Ascending, PageOrder::Descending] {
        let mut times = Vec::new();
        // Once to warm up, once to measure.
        for _ in 0..2 {
            times.clear();
            let mut after = None;
            loop {
                let started = Instant::now();
                let page = reader.page(owner, order, 100, after.as_ref()).expect("a page");
                times.push(started.elapsed().as_secs_f64() * 1_000.0);
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        let (p50, p99) = (percentile(&mut times, 0.5), percentile(&mut times, 0.99));
        let most = percentile(&mut times, 1.0);
        let name = format!("page of 100 of 25,140 coins, {order:?}");
        lines = lines.with(&name, format!("p50 {p50:.3}, p99 {p99:.3}, most {most:.3} ms"));
    }
    lines
}
