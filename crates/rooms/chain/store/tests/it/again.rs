//! Coins that come again after their spend. BIP 30 allows it: a coinbase repeats an older one whose
//! outputs are all spent, and what descended from it can be mined again, byte for byte.

use unspent_chain::{ChainIndex, CoinState, Kind, OpenError, Options, Reader, RollbackTarget};
use unspent_model::{
    Network, Outpoint, TxId,
    chain::{Block, Era, Output, Tx},
};
use unspent_testkit::chain::coin_of;

use crate::{
    cases::block_on,
    driver::{Entry, Store, bytes, folder, small_windows},
    trees::mmr,
};

fn tx(id: u8, spends: &[u8], is_coinbase: bool) -> Tx<Output> {
    let coin = Output { is_coinbase, ..coin_of(id % 5, u64::from(id) * 10) };
    Tx {
        id: TxId([id; 32]),
        spends: spends.iter().map(|id| coin_named(*id)).collect(),
        creates: vec![(0, coin)],
        is_invalid: false,
        is_coinbase,
    }
}

fn coin_named(id: u8) -> Outpoint {
    Outpoint::new(TxId([id; 32]), 0)
}

/// Coinbase 1, payment 2 from it and payment 3 from that are mined three times over; 4 takes each
/// round's coin away, 5 to 9 are other coinbases.
fn blocks() -> Vec<Block<Output>> {
    let mut blocks: Vec<Block<Output>> = Vec::new();
    for round in 0..3_u8 {
        let taker = tx(40 + round, &[3], false);
        let contents = [
            vec![tx(1, &[], true)],
            vec![tx(50 + 3 * round, &[], true), tx(2, &[1], false)],
            vec![tx(51 + 3 * round, &[], true), tx(3, &[2], false), taker],
            vec![tx(52 + 3 * round, &[], true)],
        ];
        for txs in contents {
            let mut block = block_on(blocks.last(), 1, txs);
            block.header.era = Era::Bitcoin;
            blocks.push(block);
        }
    }
    blocks
}

fn store(options: Options) -> Store {
    Store::new(Network::BitcoinRegtest, options, &[])
}

fn assert_clean(reader: &Reader, what: &str) {
    let report = reader.verify(&mut |_| {}).unwrap();
    assert!(report.is_clean(), "{what}: {:#?}", report.findings);
}

/// Windows and delta modes, on either store.
fn modes() -> Vec<Options> {
    let of = |self_contained, (prune_depth, window)| Options {
        self_contained,
        bulk_blocks: 3,
        ..small_windows(prune_depth, window)
    };
    let classic = [of(false, (50, 50)), of(true, (50, 50)), of(false, (4, 4)), of(true, (2, 5))];
    let with_trees = classic.clone().map(mmr);
    classic.into_iter().chain(with_trees).collect()
}

#[test]
fn each_spend_of_a_coin_that_came_again_is_kept_and_undone_by_itself() {
    for options in modes() {
        let mut store = store(options.clone());
        let mut before = vec![bytes(&store.reader())];
        for block in &blocks() {
            store.apply(block);
            assert_clean(&store.reader(), &format!("{options:?} at {}", block.header.point.height));
            before.push(bytes(&store.reader()));
        }
        let reader = store.reader();
        let CoinState::Spent(last) = reader.coin(&coin_named(2)).unwrap() else {
            panic!("it is spent")
        };
        assert_eq!((last.at.height, last.record.born.block_number), (10, 9), "the latest spend");
        let possible = store.options.delta_depth().min(12);
        for depth in 1..=possible {
            let left = 12 - depth;
            let target = left.checked_sub(1).map_or(RollbackTarget::Origin, RollbackTarget::Height);
            store.index().rollback(target).unwrap();
            assert_clean(&store.reader(), &format!("{options:?} back at {target:?}"));
            if store.options.delta_depth() > 12 {
                assert_eq!(bytes(&store.reader()), before[left as usize], "{options:?} {target:?}");
            }
        }
    }
}

#[test]
fn spends_of_a_coin_that_came_again_agree_in_bulk_and_in_one_rollback() {
    for options in modes() {
        let (mut slow, mut fast) = (store(options.clone()), store(options.clone()));
        slow.apply_all(&blocks());
        fast.bulk(&blocks(), 12);
        assert_eq!(bytes(&fast.reader()), bytes(&slow.reader()), "{options:?}");
        let depth = options.delta_depth().min(11);
        fast.index().rollback(RollbackTarget::Height(11 - depth)).unwrap();
        assert_clean(&fast.reader(), "rolled back at once");
        fast.apply_all(&blocks()[12 - depth as usize..]);
        let coins = |reader: &Reader| bytes(reader)["utxo_unspent"].clone();
        assert_eq!(coins(&fast.reader()), coins(&slow.reader()), "{options:?}");
        assert_clean(&fast.reader(), "and forward again");
    }
}

#[test]
fn pruning_forgets_the_older_spend_and_keeps_the_younger() {
    let mut store = store(small_windows(5, 5));
    store.apply_all(&blocks());
    let spent: Vec<Entry> = bytes(&store.reader())["utxo_spent"].clone();
    let of_two: Vec<_> = spent.iter().filter(|(key, _)| key.starts_with(&[2; 32])).collect();
    assert_eq!(of_two.len(), 1, "the window holds one round");
    assert!(matches!(store.reader().coin(&coin_named(2)), Ok(CoinState::Spent(_))));
}

/// Writes what a folder of format 1 says of itself.
fn make_older(path: &std::path::Path) {
    let families = rocksdb::DB::list_cf(&rocksdb::Options::default(), path.join("db")).unwrap();
    let db = rocksdb::DB::open_cf(&rocksdb::Options::default(), path.join("db"), families).unwrap();
    let name = Network::BitcoinRegtest.name();
    let head = [&[0x01, 0xa2, 0x00, 0x01, 0x01][..], &[0x60 + name.len() as u8]].concat();
    let identity = [head, name.into()].concat();
    db.put_cf(db.cf_handle("chain_meta").unwrap(), b"identity", identity).unwrap();
}

#[test]
fn a_folder_of_an_older_format_is_refused_by_name_with_the_remedy() {
    let folder = folder();
    let open = || {
        let network = Network::BitcoinRegtest;
        ChainIndex::open(folder.path(), network, small_windows(5, 5), &[]).map(|_| ())
    };
    open().unwrap();
    make_older(folder.path());
    let refusals = [open().unwrap_err(), Reader::open(folder.path(), 1 << 20).err().unwrap()];
    for error in refusals {
        assert!(matches!(error, OpenError::OtherSchema { found: 1, wanted: 4, .. }), "{error}");
        assert_eq!(error.kind(), Kind::Refused);
        let text = error.to_string();
        assert!(text.contains(&folder.path().display().to_string()), "{text}");
        assert!(text.contains("import again"), "{text}");
    }
}
