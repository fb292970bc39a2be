//! The MMR store: roots against a naive rebuild, rollbacks, proofs and lies.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{prelude::*, test_runner::TestCaseError};
use unspent_chain::{
    ChainIndex, OpenError, Options, QueryError, Reader, RollbackTarget, StoreKind,
    codec::{decode_delta, encode_record},
    schema::ColumnFamily,
};
use unspent_model::{
    Network, Outpoint, Point,
    chain::{Block, Born, Era, GenesisCoin, Output, Record},
};
use unspent_testkit::chain::{Event, Step, World, histories};
use unspent_verify::{
    Hash, Head, Proof, Verdict,
    hash::{self, Domain},
};

use crate::driver::{Store, bytes, genesis, small_windows};

/// Every output that ever was, in chain order, and which of them are unspent: nothing else.
#[derive(Clone, Default)]
pub struct Naive {
    leaves: Vec<(Outpoint, Hash)>,
    live: BTreeSet<usize>,
    by_name: BTreeMap<Outpoint, usize>,
    /// Coins that the Allegra era withdraws.
    redeem: Vec<Outpoint>,
    era: Option<Era>,
}

impl Naive {
    pub fn with_genesis(genesis: &[GenesisCoin]) -> Self {
        let mut naive = Self::default();
        let mut coins = genesis.to_vec();
        coins.sort_by_key(|coin| coin.outpoint);
        coins.iter().for_each(|coin| naive.add(coin.outpoint, &coin.record));
        let redeem = coins.iter().filter(|coin| coin.is_redeem);
        naive.redeem = redeem.map(|coin| coin.outpoint).collect();
        naive
    }

    /// Coins in the set, in chain order.
    pub fn unspent(&self) -> impl Iterator<Item = Outpoint> {
        self.live.iter().map(|leaf| self.leaves[*leaf].0)
    }

    pub fn add(&mut self, outpoint: Outpoint, record: &Record) {
        // A coin of the same name is overwritten.
        if let Some(older) = self.by_name.insert(outpoint, self.leaves.len()) {
            self.live.remove(&older);
        }
        self.live.insert(self.leaves.len());
        let record = encode_record(record);
        let place = self.leaves.len() as u64;
        let hash = hash::output(place, &outpoint.tx.0, outpoint.index, &record);
        self.leaves.push((outpoint, hash));
    }

    pub fn spend(&mut self, outpoint: &Outpoint) {
        if let Some(leaf) = self.by_name.remove(outpoint) {
            self.live.remove(&leaf);
        }
    }

    pub fn apply(&mut self, block: &Block<Output>) {
        let era = block.header.era;
        let before = self.era.replace(era).unwrap_or(Era::Byron);
        if before < Era::Allegra && era >= Era::Allegra {
            let redeem = self.redeem.clone();
            redeem.iter().for_each(|outpoint| self.spend(outpoint));
        }
        for (position, tx) in (0..).zip(&block.txs) {
            tx.spends.iter().for_each(|spent| self.spend(spent));
            for (index, output) in &tx.creates {
                let born = Born::in_block(&block.header, position);
                self.add(Outpoint::new(tx.id, *index), &Record { output: output.clone(), born });
            }
        }
    }

    pub fn root(&self, network: Network, point: Option<Point>) -> Hash {
        let leaves: Vec<Hash> = self.leaves.iter().map(|(_, hash)| *hash).collect();
        let mut chunks = vec![[0_u8; 128]; self.leaves.len().div_ceil(1024)];
        for leaf in &self.live {
            chunks[leaf / 1024][leaf % 1024 / 8] |= 0x80 >> (leaf % 8);
        }
        let chunks: Vec<Hash> =
            (0..).zip(&chunks).map(|(at, bits)| hash::chunk(at, bits)).collect();
        let head = Head {
            network: network.name().into(),
            height: point.map_or(0, |point| point.height),
            block_hash: point.map_or([0; 32], |point| point.hash.0),
            leaves: self.leaves.len() as u64,
            live: self.live.len() as u64,
        };
        head.root(&tree_root(Domain::OUTPUTS, &leaves), &tree_root(Domain::LIVE, &chunks))
    }
}

/// The root as it is defined: perfect trees, the largest first, bagged.
fn tree_root(domain: Domain, leaves: &[Hash]) -> Hash {
    let (mut tops, mut at) = (Vec::new(), 0);
    while at < leaves.len() {
        let size = 1 << (leaves.len() - at).ilog2();
        let mut level = leaves[at..at + size].to_vec();
        let mut height = 0;
        while level.len() > 1 {
            height += 1;
            let first = at >> height;
            let pairs = level.chunks(2).enumerate();
            level = pairs
                .map(|(n, pair)| domain.node(height, (first + n) as u64, &pair[0], &pair[1]))
                .collect();
        }
        tops.push(level[0]);
        at += size;
    }
    domain.bag(leaves.len() as u64, &tops)
}

pub fn mmr(options: Options) -> Options {
    Options { store: StoreKind::Mmr, ..options }
}

fn preview(options: Options) -> Store {
    Store::new(Network::CardanoPreview, mmr(options), &genesis())
}

fn root(reader: &Reader) -> Hash {
    reader.snapshot().root(None).unwrap().root
}

/// The naive set after genesis and blocks.
fn naive(blocks: &[Block<Output>]) -> Naive {
    let mut naive = Naive::with_genesis(&genesis());
    blocks.iter().for_each(|block| naive.apply(block));
    naive
}

/// Coins that a rollback may give back, and those in the set: all of them prove.
fn all_prove(store: &Store, world: &World) -> usize {
    let reader = store.reader();
    let moment = reader.snapshot();
    let expected = moment.root(None).unwrap().root;
    let unspent: Vec<Outpoint> = world.reference.unspent().keys().copied().collect();
    let spent: BTreeSet<Outpoint> =
        world.reference.spent().iter().map(|((outpoint, _), _)| *outpoint).collect();
    let floor = reader.status().unwrap().horizon.floor;
    let mut proved = 0;
    for outpoint in unspent.iter().chain(&spent) {
        let is_live = world.reference.unspent().contains_key(outpoint);
        let last = world
            .reference
            .spent()
            .iter()
            .filter(|((o, _), _)| o == outpoint)
            .map(|((_, at), _)| *at)
            .max();
        if !is_live && last.is_none_or(|at| at <= floor) {
            continue;
        }
        let proven = moment.prove(&[*outpoint], None).unwrap();
        let verdict = if is_live { Verdict::Unspent } else { Verdict::Spent };
        let read = Proof::from_bytes(&proven.proof.to_bytes()).unwrap();
        assert_eq!(read.check(&expected).unwrap(), [verdict]);
        assert_eq!(read.coins[0].1.txid, outpoint.tx.0);
        proved += 1;
    }
    if !unspent.is_empty() {
        let many = moment.prove(&unspent, None).unwrap();
        assert_eq!(many.proof.check(&expected).unwrap(), vec![Verdict::Unspent; unspent.len()]);
    }
    proved
}

/// A history on the store and on the naive set, which forgets nothing.
fn agree(options: Options, history: &[Event]) -> Result<(), TestCaseError> {
    let mut store = preview(options);
    let mut world = World::new(store.rules(), &store.genesis);
    let mut chain: Vec<(Point, Naive)> = Vec::new();
    let start = naive(&[]);
    for (n, event) in history.iter().enumerate() {
        let step = world.step(event);
        let answer = store.feed(&step);
        prop_assert_eq!(&answer, &world.feed(&step), "{:?}", step);
        let stands_at = usize::try_from(store.index().ordinal()).unwrap();
        let blocks = match &step {
            Step::Apply(block) => std::slice::from_ref(block),
            Step::Bulk(blocks, _) => blocks.as_slice(),
            _ => &[],
        };
        chain.truncate(stands_at);
        if chain.len() < stands_at {
            for block in blocks {
                let mut next = chain.last().map_or(&start, |(_, naive)| naive).clone();
                next.apply(block);
                chain.push((block.header.point, next));
            }
        }
        prop_assert_eq!(chain.len(), stands_at);
        let (point, naive) = match chain.last() {
            Some((point, naive)) => (Some(*point), naive),
            None => (None, &start),
        };
        prop_assert_eq!(root(&store.reader()), naive.root(store.network, point), "{:?}", step);
        store.assert_equals(&world);
        if n % 16 == 0 {
            store.assert_answers(&world);
            all_prove(&store, &world);
            roots_of_the_window(&store, &chain);
        }
    }
    store.reopen();
    store.assert_answers(&world);
    all_prove(&store, &world);
    Ok(())
}

/// Every root that is kept is that of its block.
fn roots_of_the_window(store: &Store, chain: &[(Point, Naive)]) {
    let reader = store.reader();
    let floor = usize::try_from(reader.status().unwrap().horizon.floor).unwrap();
    let moment = reader.snapshot();
    for (at, (point, naive)) in chain.iter().enumerate().skip(floor.saturating_sub(1)) {
        // A boundary block shares its height with the block after it, which answers.
        if chain.get(at + 1).is_some_and(|(next, _)| next.height == point.height) {
            continue;
        }
        let kept = moment.root(Some(point.height)).unwrap();
        assert_eq!(
            (kept.point, kept.root),
            (Some(*point), naive.root(store.network, Some(*point)))
        );
        assert_eq!(kept.live, naive.live.len() as u64);
    }
}

fn cases() -> u32 {
    std::env::var("UNSPENT_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn roots_agree_with_a_naive_rebuild(history in histories(120)) {
        agree(small_windows(3, 6), &history)?;
    }

    #[test]
    fn roots_agree_with_self_contained_deltas(history in histories(120)) {
        agree(Options { self_contained: true, ..small_windows(7, 5) }, &history)?;
    }
}

/// A chain of made-up blocks.
fn chain(length: u8, seed: u64, store: &Store) -> Vec<Block<Output>> {
    let mut world = World::new(store.rules(), &store.genesis);
    match world.step(&Event::Bulk { seed, blocks: length, overstated: 0 }) {
        Step::Bulk(blocks, _) => blocks,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn bulk_leaves_the_same_trees_as_block_by_block(
        seed: u64,
        length in 1..60_u8,
        split in 0..60_usize,
        batch in 1..20_usize,
        windows in (1..12_u64, 1..12_u64),
        self_contained: bool,
    ) {
        let options =
            Options { bulk_blocks: batch, self_contained, ..small_windows(windows.0, windows.1) };
        let (mut slow, mut fast) = (preview(options.clone()), preview(options));
        let blocks = chain(length, seed, &slow);
        slow.apply_all(&blocks);
        let split = split.min(blocks.len());
        fast.apply_all(&blocks[..split]);
        fast.bulk(&blocks[split..], (blocks.len() - split) as u64);
        prop_assert_eq!(bytes(&fast.reader()), bytes(&slow.reader()));
        let report = fast.reader().verify(&mut |_| {}).unwrap();
        prop_assert!(report.is_clean(), "{:#?}", report.findings);
    }
}

/// Blocks whose coins fill several chunks: so many new coins each, and as many spends.
fn wide(blocks: u64, width: u32) -> Vec<Block<Output>> {
    use unspent_model::{
        BlockHash, TxId,
        chain::{Header, Tx, Work},
    };
    let id = |height: u64| TxId(*blake(height));
    let block = |height: u64| {
        let coin = |index| (index, unspent_testkit::chain::coin_of((index % 5) as u8, 1 + height));
        // Three quarters of what the block before last made.
        let older = height.checked_sub(2).into_iter();
        let spends = older.flat_map(|older| {
            (0..width).filter(|n| n % 4 != 0).map(move |n| Outpoint::new(id(older), n))
        });
        let tx = Tx {
            id: id(height),
            spends: spends.collect(),
            creates: (0..width).map(coin).collect(),
            is_invalid: false,
            is_coinbase: false,
        };
        let parent = height.checked_sub(1).map_or([0; 32], |height| [height as u8 + 1; 32]);
        let header = Header {
            point: Point { height, slot: height * 20, hash: BlockHash([height as u8 + 1; 32]) },
            parent: BlockHash(parent),
            era: Era::Babbage,
            is_boundary: false,
            epoch: Some(0),
            time: 1_700_000_000 + height * 20,
            work: Work::default(),
        };
        Block { header, txs: vec![tx] }
    };
    (0..blocks).map(block).collect()
}

fn blake(n: u64) -> Box<[u8; 32]> {
    let mut seed = [0; 128];
    seed[..8].copy_from_slice(&n.to_be_bytes());
    Box::new(hash::chunk(n, &seed))
}

#[test]
fn every_depth_of_the_window_comes_back_to_its_root_and_to_equal_bytes() {
    let mut store = Store::new(Network::CardanoPreview, mmr(small_windows(12, 12)), &[]);
    let blocks = wide(24, 700);
    let mut roots = Vec::new();
    let mut naive = Naive::default();
    for block in &blocks {
        store.apply(block);
        naive.apply(block);
        roots.push(root(&store.reader()));
        assert_eq!(roots.last(), Some(&naive.root(store.network, Some(block.header.point))));
    }
    let full = bytes(&store.reader());
    for depth in 1..=12 {
        let kept = blocks.len() - depth;
        let point = blocks[kept - 1].header.point;
        let asked = store.reader().snapshot().root(Some(point.height)).unwrap();
        assert_eq!(asked.root, roots[kept - 1]);
        let target = RollbackTarget::Point { height: point.height, hash: point.hash };
        store.index().rollback(target).unwrap();
        assert_eq!(root(&store.reader()), roots[kept - 1], "depth {depth}");
        let report = store.reader().verify(&mut |_| {}).unwrap();
        assert!(report.is_clean(), "{:#?}", report.findings);
        store.apply_all(&blocks[kept..]);
        assert_eq!(bytes(&store.reader()), full, "depth {depth}");
    }
}

#[test]
fn bulk_over_many_chunks_equals_block_by_block_and_writes_less() {
    let blocks = wide(60, 900);
    let options = Options { bulk_blocks: 7, ..small_windows(5, 5) };
    let mut slow = Store::new(Network::CardanoPreview, mmr(options.clone()), &[]);
    let mut fast = Store::new(Network::CardanoPreview, mmr(options), &[]);
    slow.apply_all(&blocks);
    fast.bulk(&blocks, blocks.len() as u64);
    let (fast_bytes, slow_bytes) = (bytes(&fast.reader()), bytes(&slow.reader()));
    assert_eq!(fast_bytes, slow_bytes);
    // 54,000 leaves have 107,993 nodes; of four leaves three are spent.
    let nodes = slow_bytes[ColumnFamily::MmrNodes.name()].len();
    assert!(nodes < 90_000, "{nodes} nodes are left");
    let report = fast.reader().verify(&mut |_| {}).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

#[test]
fn a_proof_at_an_older_block_says_what_was_true_then() {
    let mut store = Store::new(Network::CardanoPreview, mmr(small_windows(10, 10)), &[]);
    let blocks = wide(16, 300);
    store.apply_all(&blocks);
    let reader = store.reader();
    let moment = reader.snapshot();
    let coin = |height: usize, index| Outpoint::new(blocks[height].txs[0].id, index);
    // Made in block 10, spent in block 12 unless its number is a multiple of four.
    let cases = [
        (coin(10, 1), 10, Some(Verdict::Unspent)),
        (coin(10, 1), 11, Some(Verdict::Unspent)),
        (coin(10, 1), 12, Some(Verdict::Spent)),
        (coin(10, 1), 15, Some(Verdict::Spent)),
        (coin(10, 4), 15, Some(Verdict::Unspent)),
        (coin(10, 1), 9, None),
        (coin(0, 1), 15, None),
        (coin(0, 4), 7, Some(Verdict::Unspent)),
    ];
    for (outpoint, height, expected) in cases {
        let proven = moment.prove(&[outpoint], Some(height));
        match expected {
            Some(verdict) => {
                let proven = proven.unwrap();
                assert_eq!(proven.verdicts, [verdict], "{height}");
                let root = moment.root(Some(height)).unwrap().root;
                assert_eq!(proven.proof.check(&root).unwrap(), [verdict]);
                let other = moment.root(Some(if height == 15 { 14 } else { height + 1 })).unwrap();
                assert!(proven.proof.check(&other.root).is_err(), "a stale root");
            }
            None => assert!(matches!(proven, Err(QueryError::NoProof { .. })), "{height}"),
        }
    }
    let many: Vec<Outpoint> = (0..300).map(|n| coin(13, n)).collect();
    let together = moment.prove(&many, None).unwrap();
    let apart: usize =
        many.iter().map(|one| moment.prove(&[*one], None).unwrap().proof.to_bytes().len()).sum();
    assert!(together.proof.to_bytes().len() * 3 < apart, "nodes are shared");
    assert!(matches!(moment.root(Some(2)), Err(QueryError::NoRoot { from: 5, to: 15, .. })));
    assert!(matches!(moment.prove(&[], None), Err(QueryError::ProofSize { .. })));
}

#[test]
fn every_flipped_bit_of_a_proof_is_refused() {
    let mut store = Store::new(Network::CardanoPreview, mmr(small_windows(10, 10)), &[]);
    let blocks = wide(8, 300);
    store.apply_all(&blocks);
    let reader = store.reader();
    let moment = reader.snapshot();
    let root = root(&reader);
    let mut refused = 0_u32;
    for outpoint in [Outpoint::new(blocks[5].txs[0].id, 1), Outpoint::new(blocks[7].txs[0].id, 9)] {
        let proven = moment.prove(&[outpoint], None).unwrap();
        let bytes = proven.proof.to_bytes();
        let accepts =
            |bytes: &[u8]| Proof::from_bytes(bytes).is_ok_and(|proof| proof.check(&root).is_ok());
        assert!(accepts(&bytes));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut lie = bytes.clone();
                lie[at] ^= 1 << bit;
                assert!(!accepts(&lie), "byte {at}, bit {bit}");
                refused += 1;
            }
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(!accepts(&longer) && !accepts(&bytes[..bytes.len() - 1]));
        let mut swapped = proven.proof.clone();
        swapped.output_nodes.reverse();
        let mut elsewhere = proven.proof.clone();
        elsewhere.head.network = Network::CardanoMainnet.name().into();
        let mut earlier = proven.proof.clone();
        earlier.head.height -= 1;
        for lie in [swapped, elsewhere, earlier] {
            assert!(lie.check(&root).is_err());
            refused += 1;
        }
    }
    assert!(refused > 10_000, "{refused}");
}

#[test]
fn deltas_name_their_leaves_and_the_roots_around_them() {
    let mut store = Store::new(Network::CardanoPreview, mmr(small_windows(10, 10)), &[]);
    let blocks = wide(9, 50);
    store.apply_all(&blocks);
    let mut last = Vec::new();
    store.reader().entries(ColumnFamily::Delta, |_, value| last = value.to_vec()).unwrap();
    let rewind = decode_delta(&last).unwrap().rewind.unwrap();
    assert_eq!((rewind.first, rewind.spent.len()), (400, 37));
    assert_eq!(rewind.after, root(&store.reader()));
    assert_eq!(rewind.before, store.reader().snapshot().root(Some(7)).unwrap().root);
}

#[test]
fn a_whole_classic_folder_becomes_what_it_would_have_been() {
    for self_contained in [false, true] {
        let options = Options { self_contained, ..small_windows(80, 80) };
        let mut store = Store::new(Network::CardanoPreview, options.clone(), &genesis());
        let blocks = chain(50, 77, &store);
        store.apply_all(&blocks);
        store.options = mmr(options.clone());
        store.reopen();
        let mut straight = preview(options);
        straight.apply_all(&blocks);
        assert_eq!(bytes(&store.reader()), bytes(&straight.reader()));
        let report = store.reader().verify(&mut |_| {}).unwrap();
        assert!(report.is_clean(), "{:#?}", report.findings);
        let expected = naive(&blocks).root(store.network, Some(blocks[49].header.point));
        assert_eq!(root(&store.reader()), expected);
        // There is no way back.
        store.close();
        let classic = Options { store: StoreKind::Classic, ..store.options.clone() };
        let refused = ChainIndex::open(store.folder.path(), store.network, classic, &[]);
        assert!(matches!(refused.map(|_| ()), Err(OpenError::OtherStore { .. })));
    }
}

#[test]
fn a_pruned_classic_folder_is_told_to_import_again_and_stays_as_it_is() {
    let mut store = Store::new(Network::CardanoPreview, small_windows(5, 5), &genesis());
    let blocks = chain(20, 3, &store);
    store.apply_all(&blocks);
    let before = bytes(&store.reader());
    store.close();
    let wanted = mmr(store.options.clone());
    let refused = ChainIndex::open(store.folder.path(), store.network, wanted, &[]);
    let refused = refused.map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("import again"), "{refused}");
    store.reopen();
    assert_eq!(bytes(&store.reader()), before);
    let moment_of = store.reader();
    assert!(matches!(moment_of.snapshot().root(None), Err(QueryError::NoRoots)));
    assert!(matches!(moment_of.snapshot().prove(&[], None), Err(QueryError::ProofSize { .. })));
}
