//! Questions, each answered from one consistent moment of the database.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use unspent_model::{Network, Outpoint, Point, chain::Record};

use crate::{
    beside::beside_writer,
    codec::{
        ImportHole, IndexCursor, OperatorChoices, PruneHorizon, SpentRecord, StoredPoint,
        TreeCommitment,
    },
    coin::Coin,
    cursor::PageCursor,
    db::{Db, Get as _, MemoryShares, OpenMode, ScanDirection, ScanRange, View},
    error::{OpenError, QueryError, StoreError},
    indexes::{
        IndexRow, ListSample,
        name::{IndexName, Indexes},
    },
    open,
    options::StoreKind,
    points,
    schema::{
        AddressKey, CHAIN_FAMILIES, ColumnFamily, INDEX_FAMILIES, OutpointKey, Owner, SpentKey,
        names,
    },
    telemetry,
};

/// More bytes than any key has behind the name of its list.
const HIGHEST: usize = 128;

/// Most coins on one page.
pub const PAGE_LIMIT: usize = 500;

/// A reader beside the writer holds the unflushed part of the log, no more.
const READER_WRITE_BUFFER: usize = 4 << 20;

/// Answers questions beside the writer. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    pub(crate) db: Arc<Db>,
    pub(crate) network: Network,
    pub(crate) enabled: bool,
}

/// What is known of a coin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CoinState {
    /// In the set.
    Unspent(Record),
    /// Spent inside the window.
    Spent(SpentRecord),
    /// Never seen, or spent so long ago that it is forgotten.
    Unknown,
}

/// In which order a page lists coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PageOrder {
    /// Oldest first, in chain order.
    #[default]
    Ascending,
    /// Newest first: the exact reverse.
    Descending,
}

/// Some coins of one owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoinPage {
    /// In the order asked for; at most [`PAGE_LIMIT`].
    pub coins: Vec<(Outpoint, Record)>,
    /// Where the next page starts; `None` when this is the last.
    pub next: Option<PageCursor>,
    /// The block as of which the page is true.
    pub at: Option<Point>,
}

/// What an owner has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnerBalance {
    /// How many coins.
    pub coins: u64,
    /// Their value in base units.
    pub value: u128,
    /// Their assets, by policy and name.
    pub assets: BTreeMap<([u8; 28], Vec<u8>), u128>,
    /// The block as of which this is true.
    pub at: Option<Point>,
}

/// The whole store in numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreStatus {
    /// The network served.
    pub network: Network,
    /// Whether the index is switched on.
    pub enabled: bool,
    /// The last block of the chain and the number of blocks.
    pub chain: Option<(u64, StoredPoint)>,
    /// How far the index has come.
    pub cursor: IndexCursor,
    /// What has been pruned, and how far a rollback may reach.
    pub horizon: PruneHorizon,
    /// What the store can do.
    pub store: StoreKind,
    /// Where the trees stand; `None` in a classic store.
    pub commitment: Option<TreeCommitment>,
    /// Blocks that imports jumped over.
    pub holes: Vec<ImportHole>,
    /// The lists that are kept.
    pub indexes: Option<Indexes>,
    /// Windows and delta mode as last chosen.
    pub choices: Option<OperatorChoices>,
    /// Bytes on disk by column family.
    pub sizes: Vec<(&'static str, u64)>,
}

impl Reader {
    pub(crate) fn new(db: Arc<Db>, network: Network, enabled: bool) -> Self {
        Self { db, network, enabled }
    }

    /// Opens an existing folder for reading, beside a writer if need be.
    ///
    /// # Errors
    ///
    /// [`OpenError`] when there is nothing to read.
    pub fn open(folder: &Path, block_cache: usize) -> Result<Self, OpenError> {
        let database = open::existing_database(folder)?;
        beside_writer(&database, || Self::try_open(folder, &database, block_cache))
    }

    fn try_open(folder: &Path, database: &Path, block_cache: usize) -> Result<Self, OpenError> {
        let not_found = || OpenError::NotFound(folder.display().to_string());
        let memory = MemoryShares { block_cache, write_buffer: READER_WRITE_BUFFER };
        let db = Db::open(database, OpenMode::ReadOnly, true, memory)?;
        // Whoever was making the folder was stopped before the first entry, or is still at it.
        let is_made = CHAIN_FAMILIES.iter().all(|family| db.families().contains(family));
        let identity = if is_made { open::identity(&db)? } else { None };
        let identity = identity.ok_or_else(not_found)?;
        open::check_identity(folder, &identity, identity.network)?;
        let has_index = INDEX_FAMILIES.iter().all(|family| db.families().contains(family));
        let enabled = has_index && db.get(ColumnFamily::UtxoMeta, names::CURSOR)?.is_some();
        Ok(Self { db: Arc::new(db), network: identity.network, enabled })
    }

    /// The network the folder serves.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Where the index stands on disk; `None` at the origin.
    ///
    /// # Errors
    ///
    /// [`QueryError`].
    pub fn tip(&self) -> Result<Option<Point>, QueryError> {
        let view = self.db.view();
        if self.enabled {
            return Ok(tip(&view)?);
        }
        Ok(points::last(&view)?.map(|(_, stored)| stored.point))
    }

    /// One page of an owner's coins, in chain order.
    ///
    /// # Errors
    ///
    /// [`QueryError::IndexDisabled`] when that list is not kept: an empty answer would be a lie.
    pub fn page(
        &self,
        owner: Owner,
        order: PageOrder,
        limit: usize,
        after: Option<&PageCursor>,
    ) -> Result<CoinPage, QueryError> {
        if !(1..=PAGE_LIMIT).contains(&limit) {
            return Err(QueryError::Limit { asked: limit, most: PAGE_LIMIT });
        }
        self.listed(owner)?;
        let view = self.db.view();
        // One more than asked for tells whether there is a next page.
        let mut keys = Vec::with_capacity(limit + 1);
        scan_owner(&view, owner, order, after, |key| {
            keys.push(key);
            Ok(keys.len() <= limit)
        })?;
        let more = keys.len() > limit;
        keys.truncate(limit);
        let next = keys.last().filter(|_| more).map(PageCursor::after);
        let coins = records(&view, &keys)?;
        Ok(CoinPage { coins, next, at: tip(&view)? })
    }

    /// Everything an owner has, added up.
    ///
    /// # Errors
    ///
    /// As for [`Self::page`].
    pub fn balance(&self, owner: Owner) -> Result<OwnerBalance, QueryError> {
        self.snapshot().balance(owner)
    }

    /// Copies the store as it stands at one moment into a folder that must not be there yet, while
    /// the writer goes on. Files that no longer change are linked where the disk is the same.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; what was begun of the copy is of no use then.
    pub fn checkpoint(&self, to: &Path) -> Result<(), StoreError> {
        self.db.checkpoint(&open::absent_database(to)?)
    }

    /// Every entry of a column family as it lies on disk, in key order: for comparing two stores
    /// byte by byte. Pointers to forgotten spends are left out: when they leave the disk depends on
    /// when files were merged.
    ///
    /// # Errors
    ///
    /// [`QueryError`].
    pub fn entries(
        &self,
        family: ColumnFamily,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), QueryError> {
        let view = self.db.view();
        let floor = if family == ColumnFamily::Spent { view.spends_floor()? } else { 0 };
        let scanned = view.scan_all(family, |key, value| {
            let forgotten =
                floor > 0 && SpentKey::decode(key).is_ok_and(|key| key.ordinal <= floor);
            if !forgotten {
                visit(key, value);
            }
            Ok(())
        });
        Ok(scanned?)
    }

    pub(crate) fn enabled(&self) -> Result<(), QueryError> {
        if self.enabled { Ok(()) } else { Err(QueryError::Disabled) }
    }

    /// The owner's list is one that is kept.
    pub(crate) fn listed(&self, owner: Owner) -> Result<(), QueryError> {
        self.enabled()?;
        let index = match owner {
            Owner::Address(_) => IndexName::AddressHash,
            Owner::Credential(_) => IndexName::PaymentCredential,
        };
        if !(index.row().facts.fits)(self.network.family()) {
            return Err(QueryError::NoCredentials(self.network));
        }
        let layout = open::stored_layout(&*self.db)?;
        if layout.is_none_or(|layout| !layout.indexes.has(index)) {
            return Err(QueryError::IndexDisabled(index.switch()));
        }
        Ok(())
    }
}

/// Coins of one list that are counted where coins are written: the count costs as much as a page.
const SAMPLE_LIMIT: u64 = 1_000;

/// Tells the operator's recorder how many coins a list has that just got one, counted up to
/// [`SAMPLE_LIMIT`]. What was written is written: a count that fails is left out.
pub(crate) fn measure(db: &Db, sampled: Option<ListSample>) {
    let Some(ListSample { index: IndexRow { facts, .. }, key }) = sampled else { return };
    let Some(low) = key.get(..facts.prefix) else { return };
    // Longer than the prefix, and greater than all that starts with it.
    let high = [low, &[0xff; HIGHEST]].concat();
    let whole = ScanRange::up(facts.family, low, &high);
    let mut coins = 0;
    let counted = db.view().scan(&ScanRange { within_prefix: true, ..whole }, |_, _| {
        coins += 1;
        Ok(coins < SAMPLE_LIMIT)
    });
    if counted.is_ok() {
        (facts.counted)(coins);
    }
}

/// Everything an owner has at the moment of `view`.
pub(crate) fn balance(view: &View<'_>, owner: Owner) -> Result<OwnerBalance, StoreError> {
    let mut balance = OwnerBalance { at: tip(view)?, ..OwnerBalance::default() };
    let mut keys = Vec::with_capacity(PAGE_LIMIT);
    scan_owner(view, owner, PageOrder::Ascending, None, |key| {
        keys.push(key);
        if keys.len() == PAGE_LIMIT {
            add_up(view, &mut keys, &mut balance)?;
        }
        Ok(true)
    })?;
    add_up(view, &mut keys, &mut balance)?;
    telemetry::coins_of_owner(balance.coins);
    Ok(balance)
}

/// The index's tip at the moment of `view`.
pub(crate) fn tip(view: &View<'_>) -> Result<Option<Point>, StoreError> {
    let absent = || StoreError::absent(ColumnFamily::UtxoMeta.name(), names::CURSOR);
    let stored = view.get(ColumnFamily::UtxoMeta, names::CURSOR)?.ok_or_else(absent)?;
    let cursor = IndexCursor::decode(&stored);
    Ok(cursor.map_err(StoreError::value(ColumnFamily::UtxoMeta.name(), names::CURSOR))?.point())
}

fn scan_owner(
    view: &View<'_>,
    owner: Owner,
    order: PageOrder,
    after: Option<&PageCursor>,
    mut visit: impl FnMut(AddressKey) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let prefix = owner.encode();
    let mut low = prefix.to_vec();
    let mut high = prefix.to_vec();
    // Longer than any key of this owner, and greater.
    high.extend([0xff; AddressKey::LEN - Owner::LEN + 1]);
    let direction = match order {
        PageOrder::Ascending => {
            if let Some(after) = after {
                low = after.key(owner).encode().to_vec();
                // The least key above it.
                low.push(0);
            }
            ScanDirection::Up
        }
        PageOrder::Descending => {
            if let Some(after) = after {
                high = after.key(owner).encode().to_vec();
            }
            ScanDirection::Down
        }
    };
    let whole = ScanRange::up(ColumnFamily::Address, &low, &high);
    let range = ScanRange { direction, within_prefix: true, ..whole };
    view.scan(&range, |key, _| {
        let key = AddressKey::decode(key);
        visit(key.map_err(StoreError::key(ColumnFamily::Address.name(), &prefix))?)
    })
}

/// The records behind list entries, in the order of the entries.
fn records(view: &View<'_>, keys: &[AddressKey]) -> Result<Vec<(Outpoint, Record)>, StoreError> {
    let mut order: Vec<(Outpoint, usize)> =
        keys.iter().enumerate().map(|(at, key)| (key.outpoint, at)).collect();
    order.sort_unstable();
    let sorted: Vec<_> =
        order.iter().map(|(outpoint, _)| OutpointKey(*outpoint).encode()).collect();
    let values = view.multi_get(ColumnFamily::Unspent, &sorted)?;
    let mut found = Vec::with_capacity(keys.len());
    for (((outpoint, at), key), value) in order.into_iter().zip(&sorted).zip(values) {
        let value = value.ok_or_else(|| StoreError::Corrupt {
            place: format!("{}[{outpoint:?}]", ColumnFamily::Address.name()),
            what: "the coin is listed but not unspent".into(),
        })?;
        let record = Coin::decode(&value);
        let record = record.map_err(StoreError::value(ColumnFamily::Unspent.name(), key))?;
        found.push((at, (outpoint, record)));
    }
    found.sort_unstable_by_key(|(at, _)| *at);
    Ok(found.into_iter().map(|(_, coin)| coin).collect())
}

fn add_up(
    view: &View<'_>,
    keys: &mut Vec<AddressKey>,
    balance: &mut OwnerBalance,
) -> Result<(), StoreError> {
    for (_, record) in records(view, keys)? {
        balance.coins += 1;
        balance.value += u128::from(record.output.value);
        for asset in record.output.assets {
            let quantity = u128::from(asset.quantity);
            *balance.assets.entry((asset.policy, asset.name)).or_default() += quantity;
        }
    }
    keys.clear();
    Ok(())
}
