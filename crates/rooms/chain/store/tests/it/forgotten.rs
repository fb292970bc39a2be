//! Pointers to forgotten spends: gone for every question at once, from the disk with a compaction.

use unspent_chain::{
    CoinState,
    schema::{ColumnFamily, SpentKey},
};
use unspent_model::{Network, Outpoint};

use crate::{
    driver::{Store, genesis, small_windows},
    modes::chain,
};

fn store() -> Store {
    Store::new(Network::CardanoPreview, small_windows(5, 5), &genesis())
}

/// Pointers that count.
fn remembered(store: &Store) -> Vec<SpentKey> {
    let mut found = Vec::new();
    let visit = |key: &[u8], _: &[u8]| found.push(SpentKey::decode(key).unwrap());
    store.reader().entries(ColumnFamily::Spent, visit).unwrap();
    found
}

/// Pointers that lie on disk, whether they count or not. Leaves the store closed.
fn on_disk(store: &mut Store) -> usize {
    store.close();
    let (path, options) = (store.folder.path().join("db"), rocksdb::Options::default());
    let families = rocksdb::DB::list_cf(&options, &path).unwrap();
    let db = rocksdb::DB::open_cf_for_read_only(&options, &path, families, false).unwrap();
    let family = db.cf_handle(ColumnFamily::Spent.name()).unwrap();
    db.iterator_cf(family, rocksdb::IteratorMode::Start).count()
}

#[test]
fn compactions_drop_pointers_to_forgotten_spends_and_nothing_else() {
    let mut store = store();
    let blocks = chain(60, 4, &store);
    store.apply_all(&blocks);
    store.index().prune_all().unwrap();
    let before = remembered(&store);
    let tip = store.index().ordinal();
    assert!(!before.is_empty() && before.iter().all(|key| key.ordinal + 5 > tip));
    assert!(on_disk(&mut store) > before.len(), "until then they lie about");
    store.reopen();
    assert_eq!(remembered(&store), before, "and nobody sees them");
    store.index().compact().unwrap();
    assert_eq!(remembered(&store), before);
    assert_eq!(on_disk(&mut store), before.len());
    store.reopen();
    assert!(store.reader().verify(&mut |_| {}).unwrap().is_clean());
}

#[test]
fn a_moment_shows_what_it_showed_whatever_is_compacted_meanwhile() {
    let mut store = store();
    let blocks = chain(40, 4, &store);
    store.apply_all(&blocks[..20]);
    let reader = store.reader();
    let moment = reader.snapshot();
    let kept: Vec<Outpoint> = remembered(&store).into_iter().map(|key| key.outpoint).collect();
    assert!(kept.len() > 3, "{kept:?}");
    let answers: Vec<CoinState> = kept.iter().map(|coin| moment.coin(coin).unwrap()).collect();
    store.apply_all(&blocks[20..]);
    store.index().prune_all().unwrap();
    store.index().compact().unwrap();
    for (coin, answer) in kept.iter().zip(answers) {
        assert_eq!(moment.coin(coin).unwrap(), answer, "as of then");
        assert_eq!(reader.coin(coin).unwrap(), CoinState::Unknown, "as of now");
    }
    drop(moment);
    drop(reader);
    // Once nobody looks any more they go.
    let now = remembered(&store).len();
    store.index().prune_all().unwrap();
    store.index().compact().unwrap();
    assert_eq!(on_disk(&mut store), now);
}
