//! A store in a temporary folder, driven beside the reference.

use std::collections::BTreeMap;

use tempfile::TempDir;
use unspent_chain::{
    ApplyError, ApplyOutcome, ChainIndex, CoinCounts, CoinState, Options, Owner, PageCursor,
    PageOrder, Reader, RollbackError, RollbackTarget, StoreKind,
    codec::{PLACED_VERSION, decode_delta, decode_pointer, decode_record, decode_spend},
    prepare,
    schema::{self, AddressKey, ColumnFamily, OutpointKey, SpentKey},
};
use unspent_model::{
    Network, Outpoint, Point,
    chain::{AdmitError, Block, GenesisCoin, Output, Record},
};
use unspent_testkit::chain::{Answer, Known, Objection, Reference, Remembered, Rules, Step, World};

/// Memory-backed where there is such a thing: these tests are about logic, not about disks.
pub fn folder() -> TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.expect("a temporary folder")
}

/// An index in a folder of its own.
pub struct Store {
    pub folder: TempDir,
    pub network: Network,
    pub options: Options,
    pub genesis: Vec<GenesisCoin>,
    index: Option<ChainIndex>,
}

impl Store {
    pub fn new(network: Network, options: Options, genesis: &[GenesisCoin]) -> Self {
        let mut store =
            Self { folder: folder(), network, options, genesis: genesis.to_vec(), index: None };
        store.reopen();
        store
    }

    pub fn cardano(options: Options) -> Self {
        Self::new(Network::CardanoPreview, options, &[])
    }

    pub fn index(&mut self) -> &mut ChainIndex {
        self.index.as_mut().unwrap()
    }

    pub fn reader(&self) -> Reader {
        self.index.as_ref().unwrap().reader()
    }

    pub fn reopen(&mut self) {
        self.index = None;
        let (path, options) = (self.folder.path(), self.options.clone());
        let opened = ChainIndex::open(path, self.network, options, &self.genesis);
        self.index = Some(opened.unwrap().0);
    }

    pub fn close(&mut self) {
        self.index = None;
    }

    pub fn apply(&mut self, block: &Block<Output>) -> ApplyOutcome {
        self.index().apply(prepare(block.clone())).unwrap()
    }

    pub fn apply_all(&mut self, blocks: &[Block<Output>]) {
        for block in blocks {
            self.apply(block);
        }
    }

    pub fn bulk(&mut self, blocks: &[Block<Output>], coming: u64) -> CoinCounts {
        let mut bulk = self.index().bulk(coming);
        let mut counts = CoinCounts::default();
        for block in blocks {
            counts.add(&bulk.apply(prepare(block.clone())).unwrap().counts());
        }
        bulk.finish().unwrap();
        counts
    }

    pub fn rules(&self) -> Rules {
        Rules { delta_depth: self.options.delta_depth(), spent_depth: self.options.spent_depth() }
    }

    /// Does to the store what the step says.
    pub fn feed(&mut self, step: &Step) -> Answer {
        match step {
            Step::Apply(block) => match self.index().apply(prepare(block.clone())) {
                Ok(ApplyOutcome::Already) => Answer::Already,
                Ok(ApplyOutcome::New(counts)) => applied(counts),
                Err(ApplyError::Refused(refusal)) => Answer::Refused(refused(&refusal)),
                Err(error) => panic!("{error}"),
            },
            Step::Bulk(blocks, coming) => applied(self.bulk(blocks, *coming)),
            Step::Rollback { ordinal, point, by } => {
                match self.index().rollback(target(*ordinal, *point, *by)) {
                    Ok(done) => Answer::RolledBack(done.blocks),
                    Err(RollbackError::BelowHorizon { .. }) => {
                        Answer::Refused(Objection::BelowHorizon)
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Prune => {
                self.index().prune_all().unwrap();
                Answer::Done
            }
            Step::Reopen => {
                self.reopen();
                Answer::Done
            }
        }
    }

    /// Whole-snapshot comparison: totals, every unspent and spent coin, every list entry.
    pub fn assert_equals(&self, world: &World) {
        let reference = &world.reference;
        let reader = self.reader();
        let status = reader.status().unwrap();
        assert_eq!(status.cursor.ordinal, reference.ordinal());
        assert_eq!(status.cursor.tip, reference.tip());
        assert_eq!(status.cursor.missing_inputs, reference.missing());
        assert_eq!(status.horizon.floor, reference.floor(), "horizon");
        assert_eq!(status.cursor.coins, reference.unspent().len() as u64);
        let value: u128 =
            reference.unspent().values().map(|record| u128::from(record.output.value)).sum();
        assert_eq!(status.cursor.value, value, "value is conserved");
        let stored = stored(&reader);
        let unspent = reference.unspent().iter().map(|(o, record)| (*o, record.clone()));
        assert_eq!(stored.unspent, unspent.collect::<Vec<_>>());
        assert_eq!(stored.spent, reference.spent());
        assert_eq!(stored.lists, lists(self.network, reference));
    }

    /// The same through the questions that users ask, and `verify` on top.
    pub fn assert_answers(&self, world: &World) {
        let reader = self.reader();
        for outpoint in world.seen() {
            assert_eq!(known(reader.coin(outpoint).unwrap()), world.reference.coin(outpoint));
        }
        for (owner, expected) in lists(self.network, &world.reference) {
            assert_eq!(all_pages(&reader, owner, PageOrder::Ascending, 3), expected);
            let mut reversed = all_pages(&reader, owner, PageOrder::Descending, 4);
            reversed.reverse();
            assert_eq!(reversed, expected);
        }
        let report = reader.verify(&mut |_| {}).unwrap();
        assert!(report.is_clean(), "{:#?}", report.findings);
    }
}

/// What lies on disk, decoded.
struct Stored {
    unspent: Vec<(Outpoint, Record)>,
    spent: Vec<((Outpoint, u64), Remembered)>,
    lists: BTreeMap<Owner, Vec<Outpoint>>,
}

fn stored(reader: &Reader) -> Stored {
    let mut found = Stored { unspent: Vec::new(), spent: Vec::new(), lists: BTreeMap::new() };
    let outpoint = |key: &[u8]| OutpointKey::decode(key).unwrap().0;
    let entries = |family, visit: &mut dyn FnMut(&[u8], &[u8])| {
        reader.entries(family, visit).unwrap();
    };
    entries(ColumnFamily::Unspent, &mut |key, value| {
        // In the MMR store the leaf stands before the record.
        let record = if value[0] == PLACED_VERSION { &value[9..] } else { &value[1..] };
        found.unspent.push((outpoint(key), decode_record(record).unwrap()));
    });
    let mut deltas = BTreeMap::new();
    entries(ColumnFamily::Delta, &mut |key, value| {
        let ordinal = u64::from_be_bytes(key.try_into().unwrap());
        deltas.insert(ordinal, value.to_vec());
    });
    entries(ColumnFamily::Spent, &mut |key, value| {
        let SpentKey { outpoint, ordinal } = SpentKey::decode(key).unwrap();
        let number = decode_pointer(value).unwrap();
        let (name, spent) = decode_spend(&deltas[&ordinal], number).unwrap();
        assert_eq!(name, outpoint, "a pointer leads to its coin's spend");
        let whole = &decode_delta(&deltas[&ordinal]).unwrap().spent[number as usize];
        assert_eq!((&whole.record, whole.by), (&spent.record, spent.by), "read alone and in whole");
        found.spent.push(((outpoint, ordinal), (spent.by, spent.at, spent.record)));
    });
    entries(ColumnFamily::Address, &mut |key, _| {
        let key = AddressKey::decode(key).unwrap();
        found.lists.entry(key.owner).or_default().push(key.outpoint);
    });
    found
}

fn applied(counts: CoinCounts) -> Answer {
    Answer::Applied(counts.created, counts.spent, counts.same_block, counts.missing)
}

pub fn target(ordinal: u64, point: Option<Point>, by: u8) -> RollbackTarget {
    match (ordinal, point, by) {
        (0, _, _) | (_, None, _) => RollbackTarget::Origin,
        (_, Some(point), 0) => RollbackTarget::Height(point.height),
        (_, Some(point), 1) => RollbackTarget::Slot(point.slot),
        (_, Some(point), _) => RollbackTarget::Point { height: point.height, hash: point.hash },
    }
}

fn refused(refusal: &AdmitError) -> Objection {
    match refusal {
        AdmitError::Gap { .. } => Objection::Gap,
        AdmitError::WrongParent { .. } => Objection::WrongParent,
        AdmitError::OtherBranch { .. } => Objection::OtherBranch,
        AdmitError::SlotGoesBack { .. } => panic!("{refusal}"),
    }
}

fn known(state: CoinState) -> Known {
    match state {
        CoinState::Unspent(record) => Known::Unspent(record),
        CoinState::Spent(spent) => Known::Spent(spent.by, spent.at, spent.record),
        CoinState::Unknown => Known::Unknown,
    }
}

/// Every owner's coins in chain order, as the reference has them.
pub fn lists(network: Network, reference: &Reference) -> BTreeMap<Owner, Vec<Outpoint>> {
    let mut lists: BTreeMap<Owner, Vec<(u64, u32, Outpoint)>> = BTreeMap::new();
    for (outpoint, Record { output, born }) in reference.unspent() {
        let address = Owner::address(network.family(), &output.addr);
        let credential = output.payment_credential.map(Owner::Credential);
        for owner in [Some(address), credential].into_iter().flatten() {
            lists.entry(owner).or_default().push((born.slot, born.tx_position, *outpoint));
        }
    }
    let sorted = lists.into_iter().map(|(owner, mut coins)| {
        coins.sort();
        (owner, coins.into_iter().map(|(_, _, outpoint)| outpoint).collect())
    });
    sorted.collect()
}

/// All pages of an owner, one after the other.
pub fn all_pages(reader: &Reader, owner: Owner, order: PageOrder, limit: usize) -> Vec<Outpoint> {
    let mut coins = Vec::new();
    let mut after: Option<PageCursor> = None;
    loop {
        let page = reader.page(owner, order, limit, after.as_ref()).unwrap();
        assert!(page.coins.len() <= limit);
        coins.extend(page.coins.into_iter().map(|(outpoint, _)| outpoint));
        match page.next {
            Some(next) => after = Some(next),
            None => return coins,
        }
    }
}

/// Key and value as they lie on disk.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Every byte of every family.
pub fn bytes(reader: &Reader) -> BTreeMap<&'static str, Vec<Entry>> {
    let families = schema::CHAIN_FAMILIES.into_iter().chain(schema::INDEX_FAMILIES);
    let has_trees = reader.status().unwrap().store == StoreKind::Mmr;
    let families = families.chain(has_trees.then_some(ColumnFamily::MmrNodes));
    let dumped = families.map(|family| {
        let mut entries = Vec::new();
        reader.entries(family, |key, value| entries.push((key.to_vec(), value.to_vec()))).unwrap();
        (family.name(), entries)
    });
    dumped.collect()
}

/// Small windows, so that pruning really happens.
pub fn small_windows(prune_depth: u64, rollback_window: u64) -> Options {
    Options {
        prune_depth,
        rollback_window,
        prune_batch_size: 3,
        bulk_blocks: 4,
        block_cache: 1 << 20,
        write_buffer: 256 << 10,
        ..Options::for_network(Network::CardanoPreview)
    }
}

/// Coins of genesis, two of them redeem coins.
pub fn genesis() -> Vec<GenesisCoin> {
    use unspent_model::{BlockHash, TxId, chain::Born};
    let born = Born {
        slot: 0,
        block_number: 0,
        block_hash: BlockHash([0; 32]),
        epoch: Some(0),
        block_time: 1_600_000_000,
        tx_position: 0,
    };
    let coin = |n: u8| GenesisCoin {
        outpoint: Outpoint::new(TxId([0xe0 + n; 32]), 0),
        record: Record {
            output: unspent_testkit::chain::coin_of(n % 5, u64::from(n) * 1_000),
            born,
        },
        is_redeem: n < 2,
    };
    (0..4).map(coin).collect()
}
