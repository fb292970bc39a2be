//! Readers beside a writer: no race is ever called damage, no answer mixes two branches.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use unspent_chain::{
    ChainIndex, Kind, OpenError, Reader, RollbackTarget, prepare, schema::CHAIN_FAMILIES,
};
use unspent_model::{
    Network,
    chain::{Block, Output},
};
use unspent_testkit::chain::{coin_of, payment};

use crate::{cases::block_on, driver::*};

/// A chain of its own for each branch, on top of `below`.
fn chain_on(below: &[Block<Output>], length: u64, branch: u8) -> Vec<Block<Output>> {
    let mut chain: Vec<Block<Output>> = below.to_vec();
    for height in 0..length {
        let id = u64::from(branch) * 1_000_000 + below.len() as u64 + height;
        let txs = vec![payment(id, vec![], vec![(0, coin_of(1, id))])];
        chain.push(block_on(chain.last(), branch, txs));
    }
    chain.split_off(below.len())
}

#[test]
fn opening_beside_a_busy_writer_is_never_called_damage() {
    let mut store = Store::cardano(small_windows(10, 10));
    let blocks = chain_on(&[], 2_400, 1);
    let (head, rest) = blocks.split_at(4);
    store.bulk(head, 0);
    let path = store.folder.path().to_owned();
    let done = AtomicBool::new(false);
    let (opened, busy) = thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let (mut opened, mut busy) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                match Reader::open(&path, 1 << 20) {
                    Ok(reader) => {
                        let moment = reader.snapshot();
                        let last = moment.last_block().unwrap().unwrap();
                        assert_eq!(moment.block_at(last.point.height).unwrap(), Some(last));
                        assert_eq!(moment.status().unwrap().cursor.point(), Some(last.point));
                        opened += 1;
                    }
                    Err(error) if error.kind() == Kind::Busy => busy += 1,
                    Err(error) => panic!("after {opened} times: {error}"),
                }
            }
            (opened, busy)
        });
        // Every few blocks a flush of all families, and every few flushes files that go.
        rest.chunks(4).for_each(|few| {
            store.bulk(few, 0);
        });
        done.store(true, Ordering::Relaxed);
        reading.join().unwrap()
    });
    assert!(opened > 0, "not one of {busy} attempts came through");
}

#[test]
fn answers_during_reorganisations_are_of_one_branch() {
    let mut store = Store::cardano(small_windows(30, 30));
    let trunk = chain_on(&[], 40, 1);
    store.apply_all(&trunk);
    let branches = [chain_on(&trunk, 12, 2), chain_on(&trunk, 12, 3)];
    let (reader, done) = (store.reader(), AtomicBool::new(false));
    let fork = trunk.last().unwrap().header.point;
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut asked = 0;
            while !done.load(Ordering::Relaxed) {
                ask(&reader, fork.height);
                asked += 1;
            }
            asked
        });
        let index = store.index();
        for round in 0..60 {
            for block in &branches[round % 2] {
                index.apply(prepare(block.clone())).unwrap();
            }
            index.rollback(RollbackTarget::Height(fork.height)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(asking.join().unwrap() > 0);
    });
}

fn ask(reader: &Reader, fork: u64) {
    let moment = reader.snapshot();
    let last = moment.last_block().unwrap().unwrap();
    for height in fork..=last.point.height {
        let block = moment.block_at(height).unwrap().unwrap();
        assert_eq!(moment.block_by_hash(&block.point.hash).unwrap(), Some(block));
        assert_eq!(moment.delta(height).unwrap()[0].point, block.point);
    }
    assert_eq!(moment.block_at(last.point.height + 1).unwrap(), None);
    let status = moment.status().unwrap();
    assert_eq!(status.chain.map(|(_, stored)| stored), Some(last));
    assert_eq!(status.cursor.point(), Some(last.point));
    // Each by itself, too: whatever the answer is, damage is none.
    reader.block_at(last.point.height).unwrap();
    reader.block_by_hash(&last.point.hash).unwrap();
    reader.delta(fork).unwrap();
}

/// What a kill leaves while the folder is being made: RocksDB adds one family after the other.
#[test]
fn a_folder_whose_making_was_cut_short_is_an_empty_one() {
    for made in 0..=CHAIN_FAMILIES.len() {
        let folder = folder();
        let database = folder.path().join("db");
        let mut options = rocksdb::Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let families = CHAIN_FAMILIES[..made].iter().map(|family| family.name());
        drop(rocksdb::DB::open_cf(&options, &database, families).unwrap());
        let read = Reader::open(folder.path(), 1 << 20).map(|_| ());
        assert!(matches!(read, Err(OpenError::NotFound(_))), "{made} families: {read:?}");
        let network = Network::CardanoPreview;
        let opened = ChainIndex::open(folder.path(), network, small_windows(5, 5), &[]);
        drop(opened.unwrap());
        assert!(Reader::open(folder.path(), 1 << 20).is_ok());
    }
}
