//! Folders of block files that grow, fork, tear and lose files.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bitcoin::{Block, consensus::encode::serialize};
use unspent_model::{Network, Point};
use unspent_networks::{
    bitcoin::framing::{magic, xor},
    cardano::framing::split_cbor_items,
};
use unspent_sim::ChainSim;
use unspent_source::{
    Origin, Source, SourceError, Step,
    dates::height_of,
    folder::{Folder, FolderConfig},
};
use unspent_testkit::data;

use crate::follow::Chain;

const REGTEST: Network = Network::BitcoinRegtest;
const PREVIEW: Network = Network::CardanoPreview;
const KEY: [u8; 8] = [0x5a, 1, 0, 0xff, 7, 0x33, 9, 0x80];

struct Room {
    folder: tempfile::TempDir,
}

impl Room {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("blocks")).unwrap();
        Self { folder }
    }

    fn blocks(&self) -> PathBuf {
        self.folder.path().join("blocks")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.blocks().join(name)
    }

    fn source(&self, network: Network) -> Folder {
        Folder::new(FolderConfig {
            paths: vec![self.blocks()],
            network,
            unpack_in: self.folder.path().join("data"),
            poll: Duration::from_millis(1),
        })
    }
}

/// Appends framed blocks, obfuscated with the key.
fn append<'a>(path: &Path, blocks: impl Iterator<Item = &'a Block>) {
    let mut at = fs::metadata(path).map_or(0, |file| file.len());
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    for block in blocks {
        let raw = serialize(block);
        let length = u32::try_from(raw.len()).unwrap().to_le_bytes();
        let mut frame = [&magic(REGTEST).unwrap()[..], &length, &raw].concat();
        xor(&mut frame, &KEY, at);
        file.write_all(&frame).unwrap();
        at += frame.len() as u64;
    }
}

fn check(chain: &Chain, sim: &ChainSim) {
    let truth: Vec<_> = sim.active_blocks().map(|block| serialize(&block.block)).collect();
    assert_eq!(chain.blocks.len(), truth.len());
    for (block, raw) in chain.blocks.iter().zip(&truth) {
        assert_eq!(*block.bytes, **raw);
    }
}

fn settle(chain: &mut Chain, source: &mut dyn Source) {
    // Longer than the poll, so that the files are looked at again.
    std::thread::sleep(Duration::from_millis(15));
    chain.catch_up(source);
}

#[test]
fn a_folder_that_grows_and_forks_is_followed() {
    let room = Room::new();
    fs::write(room.file("xor.dat"), KEY).unwrap();
    fs::write(room.file("rev00000.dat"), b"undo data of the node").unwrap();
    let mut sim = ChainSim::new(7);
    sim.mine(30);
    let mut written: usize = 0;
    let mut put = |sim: &ChainSim, name: &str| {
        append(&room.file(name), sim.all_blocks().skip(written).map(|block| &block.block));
        written = sim.all_blocks().count();
    };
    put(&sim, "blk00000.dat");
    let origin = room.source(REGTEST);
    let mut source = origin.open().unwrap();
    assert_eq!(source.intersect(&[]).unwrap(), None);
    let mut chain = Chain::default();
    chain.catch_up(&mut *source);
    check(&chain, &sim);
    for (depth, name) in [(1, "blk00000.dat"), (4, "blk00001.dat"), (12, "blk00001.dat")] {
        sim.mine(3);
        put(&sim, name);
        settle(&mut chain, &mut *source);
        check(&chain, &sim);
        sim.fork(depth).unwrap();
        put(&sim, name);
        settle(&mut chain, &mut *source);
        check(&chain, &sim);
        assert_eq!(chain.rollbacks.last(), Some(&(depth as usize)));
        assert_eq!(source.tip(), chain.tip());
    }
    // A reader that comes later, with a stale point first.
    let mut other = origin.open().unwrap();
    let mut stale = chain.tip().unwrap();
    stale.hash.0[0] ^= 1;
    let known = chain.blocks[20].point;
    assert_eq!(other.intersect(&[stale, known]).unwrap(), Some(known));
    assert!(matches!(other.next(Duration::ZERO).unwrap(), Step::Forward(block)
        if block.point == chain.blocks[21].point));
}

#[test]
fn stale_blocks_in_any_order_and_packed_files_are_sorted_out() {
    let room = Room::new();
    fs::write(room.file("xor.dat"), KEY).unwrap();
    let mut sim = ChainSim::new(11);
    sim.mine(40);
    sim.fork(5).unwrap();
    sim.fork(9).unwrap();
    let all: Vec<&Block> = sim.all_blocks().map(|block| &block.block).collect();
    append(&room.file("blk00000.dat"), all.iter().rev().step_by(2).copied());
    append(&room.file("blk00001.dat"), all.iter().rev().skip(1).step_by(2).copied());
    let raw = fs::read(room.file("blk00001.dat")).unwrap();
    fs::write(room.file("blk00001.dat.zst"), zstd::encode_all(&raw[..], 1).unwrap()).unwrap();
    fs::remove_file(room.file("blk00001.dat")).unwrap();
    let origin = room.source(REGTEST);
    let mut source = origin.open().unwrap();
    source.intersect(&[]).unwrap();
    let mut chain = Chain::default();
    chain.catch_up(&mut *source);
    check(&chain, &sim);
    drop((source, origin));
    let left = fs::read_dir(room.folder.path()).unwrap().count();
    assert_eq!(left, 1, "what was unpacked is gone");
}

#[test]
fn a_block_that_is_half_written_is_waited_for() {
    let room = Room::new();
    fs::write(room.file("xor.dat"), KEY).unwrap();
    let mut sim = ChainSim::new(3);
    sim.mine(10);
    let path = room.file("blk00000.dat");
    append(&path, sim.active_blocks().map(|block| &block.block));
    let whole = fs::read(&path).unwrap();
    let mut source = room.source(REGTEST).open().unwrap();
    source.intersect(&[]).unwrap();
    let mut chain = Chain::default();
    chain.catch_up(&mut *source);
    sim.mine(1);
    append(&path, sim.active_blocks().skip(11).map(|block| &block.block));
    let longer = fs::read(&path).unwrap();
    let frame = longer.len() - whole.len();
    // Cut everywhere in the frame, then with zeros for what isn't written, as nodes allocate ahead.
    for cut in [1, 4, 7, 8, 60, 88, 89, frame - 1] {
        for zeros in [0, 1 << 16] {
            let mut part = longer[..whole.len() + cut].to_vec();
            part.extend(vec![0; zeros]);
            fs::write(&path, &part).unwrap();
            std::thread::sleep(Duration::from_millis(3));
            assert!(!chain.step(&mut *source, Duration::ZERO).unwrap(), "{cut} {zeros}");
        }
    }
    fs::write(&path, &longer).unwrap();
    settle(&mut chain, &mut *source);
    check(&chain, &sim);
}

#[test]
fn rubbish_other_networks_and_lost_files_are_named() {
    let room = Room::new();
    let error = room.source(REGTEST).open().map(drop).unwrap_err();
    assert!(error.is_passing(), "{error}");
    let mut sim = ChainSim::new(5);
    sim.mine(60);
    fs::write(room.file("xor.dat"), KEY).unwrap();
    let blocks: Vec<&Block> = sim.active_blocks().map(|block| &block.block).collect();
    append(&room.file("blk00000.dat"), blocks[..20].iter().copied());
    append(&room.file("blk00001.dat"), blocks[20..].iter().copied());
    let mut source = room.source(REGTEST).open().unwrap();
    source.intersect(&[]).unwrap();
    // A pruning node removes files.
    fs::remove_file(room.file("blk00001.dat")).unwrap();
    let mut chain = Chain::default();
    let error = loop {
        match chain.step(&mut *source, Duration::ZERO) {
            Ok(moved) => assert!(moved),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SourceError::Missing { height: 20, .. }), "{error}");
    let error = room.source(Network::BitcoinSignet).open().map(drop);
    assert!(error.is_err(), "obfuscated files of another network are rubbish");
    fs::remove_file(room.file("xor.dat")).unwrap();
    fs::remove_file(room.file("blk00000.dat")).unwrap();
    let plain = [&magic(Network::Bitcoin).unwrap()[..], &[1; 200]].concat();
    fs::write(room.file("blk00000.dat"), plain).unwrap();
    let error = room.source(REGTEST).open().map(drop).unwrap_err();
    assert!(matches!(error, SourceError::WrongNetwork { .. }), "{error}");
}

#[test]
fn damage_in_a_file_is_passed_over_when_nobody_is_writing() {
    let room = Room::new();
    fs::write(room.file("xor.dat"), KEY).unwrap();
    let mut sim = ChainSim::new(6);
    sim.mine(10);
    append(&room.file("blk00000.dat"), sim.active_blocks().map(|block| &block.block));
    let mut file = OpenOptions::new().append(true).open(room.file("blk00000.dat")).unwrap();
    file.write_all(&[0x77; 400]).unwrap();
    drop(file);
    sim.mine(5);
    let blocks: Vec<&Block> = sim.active_blocks().map(|block| &block.block).collect();
    append(&room.file("blk00000.dat"), blocks[11..].iter().copied());
    let mut source = room.source(REGTEST).open().unwrap();
    source.intersect(&[]).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let mut height = None;
    while height != Some(15) {
        assert!(Instant::now() < until, "it stands still at {height:?}");
        if let Step::Forward(block) = source.next(Duration::from_millis(5)).unwrap() {
            height = Some(block.point.height);
        }
    }
}

#[test]
fn files_that_begin_in_the_middle_serve_a_reader_that_stands_there() {
    let room = Room::new();
    fs::write(room.file("xor.dat"), KEY).unwrap();
    let mut sim = ChainSim::new(8);
    sim.mine(50);
    let blocks: Vec<&Block> = sim.active_blocks().map(|block| &block.block).collect();
    append(&room.file("blk00003.dat"), blocks[30..].iter().copied());
    let mut source = room.source(REGTEST).open().unwrap();
    assert_eq!(source.intersect(&[]).unwrap(), None);
    let error = source.next(Duration::ZERO).map(drop).unwrap_err();
    assert!(matches!(error, SourceError::Missing { height: 0, .. }), "{error}");
    let place = |height: u64| {
        let hash = bitcoin::hashes::Hash::to_byte_array(blocks[height as usize].block_hash());
        Point { height, slot: height, hash: unspent_model::BlockHash(hash) }
    };
    for height in [29, 30, 40] {
        assert_eq!(source.intersect(&[place(height)]).unwrap(), Some(place(height)));
        for next in height + 1..=50 {
            let Step::Forward(block) = source.next(Duration::ZERO).unwrap() else { panic!() };
            assert_eq!(block.point, place(next));
            assert_eq!(block.parent, Some(place(next - 1).hash));
        }
        assert!(matches!(source.next(Duration::ZERO).unwrap(), Step::Nothing));
        assert_eq!(source.point_at(35).unwrap(), Some(place(35)));
        assert_eq!((source.point_at(29).unwrap(), source.point_at(51).unwrap()), (None, None));
    }
    // The files below come later: the same blocks are now part of the whole chain.
    append(&room.file("blk00000.dat"), blocks[..30].iter().copied());
    std::thread::sleep(Duration::from_millis(15));
    assert!(matches!(source.next(Duration::ZERO).unwrap(), Step::Nothing));
    assert_eq!(source.point_at(3).unwrap(), Some(place(3)));
    assert_eq!(source.intersect(&[]).unwrap(), None);
    let Step::Forward(block) = source.next(Duration::ZERO).unwrap() else { panic!() };
    assert_eq!(block.point, place(0));
}

fn preview_blocks(file: &str) -> Option<Vec<Vec<u8>>> {
    let bytes = data::bytes(&format!("cardano/preview/{file}"))?;
    Some(split_cbor_items(&bytes).map(|item| item.unwrap().to_vec()).collect())
}

fn same(chain: &Chain, blocks: &[Vec<u8>]) {
    assert_eq!(chain.blocks.len(), blocks.len());
    assert!(chain.blocks.iter().zip(blocks).all(|(block, raw)| *block.bytes == **raw));
}

#[test]
fn chunks_are_followed_as_they_grow() {
    let Some(blocks) = preview_blocks("00000.chunk") else { return };
    let room = Room::new();
    let (first, second) = (room.file("00000.chunk"), room.file("00001.chunk"));
    fs::write(&first, blocks[..90].concat()).unwrap();
    let origin = room.source(PREVIEW);
    let mut source = origin.open().unwrap();
    assert_eq!(source.intersect(&[]).unwrap(), None);
    let mut chain = Chain::default();
    chain.catch_up(&mut *source);
    same(&chain, &blocks[..90]);
    assert_eq!(source.tip(), chain.tip());
    // Half a block, then the rest, then the next file.
    let half = [blocks[..100].concat(), blocks[100][..200].to_vec()].concat();
    fs::write(&first, half).unwrap();
    settle(&mut chain, &mut *source);
    same(&chain, &blocks[..100]);
    fs::write(&first, blocks[..120].concat()).unwrap();
    settle(&mut chain, &mut *source);
    same(&chain, &blocks[..120]);
    fs::write(&second, blocks[120..].concat()).unwrap();
    settle(&mut chain, &mut *source);
    same(&chain, &blocks);
    // Another reader, by a point in each file, in the middle and at the end.
    for at in [0, 50, 119, 120, 150, 215] {
        let mut unknown = chain.blocks[at].point;
        unknown.hash.0[0] ^= 1;
        let place = chain.blocks[at].point;
        let mut other = origin.open().unwrap();
        assert_eq!(other.intersect(&[unknown, place]).unwrap(), Some(place));
        let mut rest = 0;
        while let Step::Forward(block) = other.next(Duration::ZERO).unwrap() {
            rest += 1;
            assert_eq!(block.point, chain.blocks[at + rest].point);
        }
        assert_eq!(at + rest, 215);
    }
}

#[test]
fn a_gap_between_chunks_names_the_height() {
    let Some(blocks) = preview_blocks("00000.chunk") else { return };
    let room = Room::new();
    fs::write(room.file("00000.chunk"), blocks[..50].concat()).unwrap();
    fs::write(
        room.file("00002.chunk.zst"),
        zstd::encode_all(&blocks[60..].concat()[..], 1).unwrap(),
    )
    .unwrap();
    let mut source = room.source(PREVIEW).open().unwrap();
    source.intersect(&[]).unwrap();
    let mut chain = Chain::default();
    let error = loop {
        match chain.step(&mut *source, Duration::ZERO) {
            Ok(moved) => assert!(moved),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SourceError::Missing { height: 50, .. }), "{error}");
    // A chunk that isn't the last must be whole.
    fs::write(room.file("00000.chunk"), &blocks[..50].concat()[..20_000]).unwrap();
    let mut source = room.source(PREVIEW).open().unwrap();
    source.intersect(&[]).unwrap();
    let mut chain = Chain::default();
    let error = loop {
        match chain.step(&mut *source, Duration::ZERO) {
            Ok(moved) => assert!(moved),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SourceError::Malformed { .. }), "{error}");
    fs::remove_file(room.file("00000.chunk")).unwrap();
    let mut source = room.source(PREVIEW).open().unwrap();
    source.intersect(&[]).unwrap();
    let error = source.next(Duration::ZERO).map(drop).unwrap_err();
    assert!(matches!(error, SourceError::Missing { height: 0, .. }), "{error}");
}

#[test]
fn the_long_run_is_read_from_packed_files_and_resumed_in_them() {
    let files = ["chunks-00150-00199.zst", "chunks-00200-00249.zst"];
    let mut blocks = Vec::new();
    let room = Room::new();
    for file in files {
        let Some(more) = preview_blocks(file) else { return };
        blocks.extend(more);
        let from = data::path(&format!("cardano/preview/{file}")).unwrap();
        fs::copy(from, room.file(file)).unwrap();
    }
    let head = |at: usize| {
        unspent_networks::cardano::head::block_head(PREVIEW, &blocks[at]).unwrap().point
    };
    let mut source = room.source(PREVIEW).open().unwrap();
    assert_eq!(source.tip(), Some(head(blocks.len() - 1)));
    for at in [0, 7_000, blocks.len() - 300] {
        assert_eq!(source.intersect(&[head(at)]).unwrap(), Some(head(at)));
        for next in &blocks[at + 1..blocks.len().min(at + 2_000)] {
            let Step::Forward(block) = source.next(Duration::ZERO).unwrap() else { panic!() };
            assert_eq!(*block.bytes, **next);
        }
    }
    assert!(matches!(source.next(Duration::ZERO).unwrap(), Step::Nothing));
}

#[test]
fn a_date_leads_to_a_block_as_far_as_the_files_go_back() {
    let room = Room::new();
    let mut sim = ChainSim::new(31);
    sim.mine(1_000);
    let block = |height| &sim.block_at(height).unwrap().block;
    let time = |height| u64::from(block(height).header.time);
    append(&room.file("blk00000.dat"), (0..=1_000).map(block));
    fs::write(room.file("xor.dat"), KEY).unwrap();
    let mut source = room.source(REGTEST).open().unwrap();
    source.intersect(&[]).unwrap();
    for height in [0, 1, 500, 1_000] {
        assert_eq!(source.time_at(u64::from(height)).unwrap(), Some(time(height)));
    }
    assert_eq!(source.time_at(1_001).unwrap(), None);
    // A day is 144 blocks here.
    assert_eq!(height_of(&mut *source, time(700)).unwrap(), Some(556));
    let part = Room::new();
    append(&part.file("blk00000.dat"), (400..=1_000).map(block));
    fs::write(part.file("xor.dat"), KEY).unwrap();
    let config = FolderConfig {
        paths: vec![part.blocks()],
        network: REGTEST,
        unpack_in: part.folder.path().join("data"),
        poll: Duration::from_millis(1),
    };
    let mut source = Folder::part(config, None).open().unwrap();
    assert_eq!(height_of(&mut *source, time(700)).unwrap(), Some(556));
    assert_eq!(height_of(&mut *source, time(300)).unwrap(), None, "it lies below these files");
}
