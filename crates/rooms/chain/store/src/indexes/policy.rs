//! Coins by the policies of their assets. Not a part of the store yet: it shows that an index takes
//! no more than this page and its lines in the tables.

use std::fmt;

use unspent_model::{Family, Outpoint};

use super::{CoinIndex, IndexFacts};
use crate::{
    codec::{CodecError, decode_record},
    coin::Coin,
    schema::{ColumnFamily, KeyError, OutpointKey},
};

pub(super) struct ByPolicy;

const POLICY: usize = 28;
const KEY: usize = POLICY + OutpointKey::LEN;

/// A key that was read.
pub(super) struct PolicyEntry {
    policy: [u8; POLICY],
    outpoint: Outpoint,
}

impl fmt::Display for PolicyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy {}, {:?}", hex::encode(self.policy), self.outpoint)
    }
}

impl CoinIndex for ByPolicy {
    const FACTS: IndexFacts = IndexFacts {
        family: ColumnFamily::Policy,
        tag: None,
        prefix: POLICY,
        needs_body: true,
        fits: |chain| matches!(chain, Family::Cardano),
        counted: |_| {},
    };

    type Key = [u8; KEY];
    type Entry = PolicyEntry;

    fn keys(
        outpoint: &Outpoint,
        coin: &Coin,
    ) -> Result<impl Iterator<Item = Self::Key>, CodecError> {
        let assets = decode_record(coin.body())?.output.assets;
        let mut policies: Vec<_> = assets.into_iter().map(|asset| asset.policy).collect();
        // Several assets of one policy are one entry.
        policies.sort_unstable();
        policies.dedup();
        let name = OutpointKey(*outpoint).encode();
        Ok(policies.into_iter().map(move |policy| {
            let mut key = [0; KEY];
            key[..POLICY].copy_from_slice(&policy);
            key[POLICY..].copy_from_slice(&name);
            key
        }))
    }

    fn read(key: &[u8]) -> Result<(Self::Entry, Outpoint), KeyError> {
        let wrong = KeyError { length: key.len() };
        let (policy, outpoint) = key.split_first_chunk::<POLICY>().ok_or(wrong)?;
        let outpoint = OutpointKey::decode(outpoint)?.0;
        Ok((PolicyEntry { policy: *policy, outpoint }, outpoint))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use unspent_model::{
        Network, TxId,
        chain::{Asset, Block, Header, Output, Tx},
    };
    use unspent_testkit::chain::{coin_of, header_after, payment};

    use super::*;
    use crate::{
        ChainIndex, IndexName, Indexes, OpenError, Options, Reader, RollbackTarget,
        db::{Db, Durability, MemoryShares, OpenMode},
        prepare,
    };

    fn outpoint(tx: u64) -> Outpoint {
        Outpoint::new(payment(tx, vec![], vec![]).id, 0)
    }

    /// A coin with one unit of an asset of each policy.
    fn coin(policies: &[u8]) -> Output {
        let asset = |(at, policy): (usize, &u8)| Asset {
            policy: [*policy; POLICY],
            name: vec![u8::try_from(at).unwrap()],
            quantity: 1,
        };
        Output { assets: policies.iter().enumerate().map(asset).collect(), ..coin_of(0, 5) }
    }

    fn options() -> Options {
        let indexes = Indexes::usual().with(IndexName::Policy, true);
        Options { indexes, ..Options::for_network(Network::CardanoPreview) }
    }

    fn open(folder: &Path) -> ChainIndex {
        ChainIndex::open(folder, Network::CardanoPreview, options(), &[]).unwrap().0
    }

    /// Blocks on top of each other, each of the transactions given.
    fn chain(txs: Vec<Vec<Tx<Output>>>) -> Vec<Block<Output>> {
        let mut last: Option<Header> = None;
        let block = |(seed, txs): (u64, Vec<Tx<Output>>)| {
            let header = header_after(last.map(|last| (last.point, last.era)), seed);
            last = Some(header);
            Block { header, txs }
        };
        (1..).zip(txs).map(block).collect()
    }

    /// Three coins, of which the second block spends two, one of them its own.
    fn blocks() -> Vec<Block<Output>> {
        let create = |tx, policies: &[u8]| payment(tx, vec![], vec![(0, coin(policies))]);
        let spend = |tx, spent| payment(tx, vec![outpoint(spent)], vec![]);
        chain(vec![
            vec![create(1, &[7, 8]), create(2, &[7, 7])],
            vec![spend(3, 1), create(4, &[9]), spend(5, 4)],
            vec![create(6, &[8])],
        ])
    }

    /// Policy and coin of each entry, in order.
    fn listed(reader: &Reader) -> Vec<(u8, TxId)> {
        let mut found = Vec::new();
        let visit = |key: &[u8], _: &[u8]| {
            let PolicyEntry { policy, outpoint } = ByPolicy::read(key).unwrap().0;
            found.push((policy[0], outpoint.tx));
        };
        reader.entries(ColumnFamily::Policy, visit).unwrap();
        found
    }

    fn is_sound(reader: &Reader) -> bool {
        let report = reader.verify(&mut |_| {}).unwrap();
        let family = ColumnFamily::Policy.name();
        assert!(report.checked.iter().any(|(checked, _)| *checked == family));
        report.is_clean()
    }

    #[test]
    fn a_further_index_follows_the_set_there_and_back_and_in_bulk() {
        let folder = tempfile::tempdir().unwrap();
        let mut index = open(folder.path());
        let txs: Vec<TxId> = [1, 2, 6].map(|tx| outpoint(tx).tx).to_vec();
        let after: [&[(u8, TxId)]; 3] =
            [&[(7, txs[0]), (7, txs[1]), (8, txs[0])], &[(7, txs[1])], &[(7, txs[1]), (8, txs[2])]];
        for (block, expected) in blocks().into_iter().zip(after) {
            index.apply(prepare(block)).unwrap();
            assert_eq!(listed(&index.reader()), expected);
            assert!(is_sound(&index.reader()));
        }
        for (height, expected) in [(1, after[1]), (0, after[0])] {
            index.rollback(RollbackTarget::Height(height)).unwrap();
            assert_eq!(listed(&index.reader()), expected);
            assert!(is_sound(&index.reader()));
        }
        // Several blocks undone together: what one brings back the one before it takes away.
        let mut bulk = index.bulk(2);
        for block in blocks() {
            bulk.apply(prepare(block)).unwrap();
        }
        bulk.finish().unwrap();
        assert_eq!(listed(&index.reader()), after[2]);
        index.rollback(RollbackTarget::Origin).unwrap();
        assert_eq!(listed(&index.reader()), []);
        assert!(is_sound(&index.reader()));
    }

    #[test]
    fn what_differs_in_a_further_index_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut index = open(folder.path());
        for block in blocks() {
            index.apply(prepare(block)).unwrap();
        }
        let (reader, db) = (index.reader(), &index.db);
        let key = |policy: u8, tx: u64| {
            [&[policy; POLICY][..], &OutpointKey(outpoint(tx)).encode()].concat()
        };
        let set = |key: &[u8], value: Option<&[u8]>| {
            let mut batch = db.batch(0);
            batch.set(ColumnFamily::Policy, key, value).unwrap();
            batch.commit(Durability::Synced).unwrap();
        };
        let there: Option<&[u8]> = Some(&[]);
        let family = ColumnFamily::Policy.name();
        for (entry, wrong, right, what) in [
            (key(8, 6), None, there, "the coin is unspent but not listed"),
            (key(8, 1), there, None, "is listed but not unspent"),
            (key(9, 6), there, None, "is listed under the wrong owner or place"),
            (key(7, 2), Some(&[1][..]), there, "has a value where none belongs"),
        ] {
            set(&entry, wrong);
            let report = reader.verify(&mut |_| {}).unwrap();
            assert_eq!(report.differences, 1, "{report:?}");
            assert_eq!((report.findings[0].family, &*report.findings[0].what), (family, what));
            set(&entry, right);
            assert!(is_sound(&reader));
        }
    }

    #[test]
    fn a_further_index_belongs_to_the_folder_and_leaves_others_alone() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path()));
        drop(open(folder.path()));
        let usual = Options::for_network(Network::CardanoPreview);
        let opened = |folder: &Path, options| {
            ChainIndex::open(folder, Network::CardanoPreview, options, &[]).map(|_| ())
        };
        let refused = opened(folder.path(), usual.clone()).unwrap_err();
        assert!(matches!(refused, OpenError::OtherIndexes(_)), "{refused}");
        assert!(refused.to_string().contains("and index.policy=true;"), "{refused}");
        let other = tempfile::tempdir().unwrap();
        opened(other.path(), usual).unwrap();
        let refused = opened(other.path(), options()).unwrap_err();
        assert!(!refused.to_string().contains("policy"), "{refused}");
        let memory = MemoryShares { block_cache: 1 << 20, write_buffer: 1 << 20 };
        let database = crate::open::existing_database(other.path()).unwrap();
        let db = Db::open(&database, OpenMode::ReadOnly, true, memory).unwrap();
        assert!(!db.families().contains(&ColumnFamily::Policy), "its family isn't made");
    }
}
