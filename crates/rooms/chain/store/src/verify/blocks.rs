//! Blocks against each other: points, hashes, and the deltas of the window.

use std::collections::HashMap;

use unspent_model::{BlockHash, Family, Outpoint, chain::Record};

use super::{Check, SetSum, VerifyReport, hex};
use crate::{
    codec::{
        CoinListing, PruneHorizon, StoredDelta, StoredPoint, StoredSpent, decode_delta,
        encode_pointer, encode_record,
    },
    coin::Coin,
    db::{Get as _, View},
    error::StoreError,
    points,
    schema::{ColumnFamily, OutpointKey, SpentKey, decode_ordinal},
};

/// What one delta says.
pub(super) struct WindowBlock {
    /// Bodies of created coins are inside.
    pub(super) self_contained: bool,
    /// It can be undone: it isn't left over from before a bulk run.
    pub(super) undoable: bool,
    /// Height of the block.
    pub(super) height: u64,
    /// The pointers that should lead to it; see [`WindowSums::pointer`].
    pub(super) pointers: SetSum,
    /// What the block created and left unspent; see [`WindowSums::add_birth`].
    pub(super) created: SetSum,
}

/// All deltas, added up block by block. As large as the window has blocks.
pub(super) struct WindowSums {
    chain: Family,
    pub(super) blocks: HashMap<u64, WindowBlock>,
    /// Ordinals of the undoable blocks.
    by_hash: HashMap<BlockHash, u64, foldhash::fast::RandomState>,
    /// Births that deltas alone tell of: those of coins overwritten or spent since.
    pub(super) births: Births,
}

/// Coins by the block they say they were born in: its ordinal.
pub(super) type Births = HashMap<u64, SetSum>;

impl WindowSums {
    fn new(chain: Family) -> Self {
        let (blocks, by_hash) = (HashMap::new(), HashMap::default());
        Self { chain, blocks, by_hash, births: Births::new() }
    }

    /// Notes a coin that was born inside the window.
    pub(super) fn add_birth(
        &self,
        births: &mut Births,
        outpoint: &Outpoint,
        (record, coin): (&Record, &Coin),
    ) {
        if let Some(ordinal) = self.by_hash.get(&record.born.block_hash) {
            let birth =
                self.birth(*ordinal, outpoint, &CoinListing::of(coin), || coin.body().to_vec());
            births.entry(*ordinal).or_default().add(&birth.parts());
        }
    }

    /// The element for a birth. Bodies can be compared only where the delta has them.
    fn birth(
        &self,
        ordinal: u64,
        outpoint: &Outpoint,
        listing: &CoinListing,
        body: impl Fn() -> Vec<u8>,
    ) -> SumElement {
        let with_body = self.blocks.get(&ordinal).is_some_and(|block| block.self_contained);
        let mut key = OutpointKey(*outpoint).encode().to_vec();
        key.extend(listing.tx_position.to_be_bytes());
        key.extend(listing.value.to_be_bytes());
        key.extend(listing.address);
        key.extend(listing.credential.iter().flatten());
        SumElement { key, body: if with_body { body() } else { Vec::new() } }
    }

    pub(super) fn pointer(key: &SpentKey, number: u32) -> SumElement {
        SumElement { key: key.encode().to_vec(), body: encode_pointer(number) }
    }

    /// Takes one delta in.
    fn add(&mut self, ordinal: u64, delta: &StoredDelta, horizon: &PruneHorizon) {
        let mut pointers = SetSum::default();
        if ordinal > horizon.spends_floor {
            for (number, spent) in (0_u32..).zip(&delta.spent) {
                let key = SpentKey { outpoint: spent.outpoint, ordinal };
                pointers.add(&Self::pointer(&key, number).parts());
            }
        }
        let undoable = ordinal > horizon.floor;
        let block = WindowBlock {
            self_contained: delta.self_contained,
            undoable,
            height: delta.point.height,
            pointers,
            created: SetSum::default(),
        };
        self.blocks.insert(ordinal, block);
        if undoable {
            self.by_hash.insert(delta.point.hash, ordinal);
            self.add_coins(ordinal, delta);
        }
    }

    /// What the block created, and what it tells of the births of others. A coin that was both
    /// created and spent here is told of by nobody else; reading the delta has compared its lists.
    fn add_coins(&mut self, ordinal: u64, delta: &StoredDelta) {
        let mut created = SetSum::default();
        for entry in &delta.created {
            let Some(listing) = &entry.listing else { continue };
            let body = || entry.record.as_ref().map(encode_record).unwrap_or_default();
            created.add(&self.birth(ordinal, &entry.outpoint, listing, body).parts());
        }
        self.blocks.entry(ordinal).and_modify(|block| block.created = created);
        let mut births = std::mem::take(&mut self.births);
        for (outpoint, record) in gone(delta) {
            let coin = Coin::new(self.chain, record);
            self.add_birth(&mut births, outpoint, (record, &coin));
        }
        self.births = births;
    }
}

/// Coins of earlier blocks that a block took out of the set.
pub(super) fn gone(delta: &StoredDelta) -> impl Iterator<Item = (&Outpoint, &Record)> {
    let spent = delta.spent.iter().filter(|spent| !spent.born_here);
    let spent = spent.map(|StoredSpent { outpoint, record, .. }| (outpoint, record));
    spent.chain(delta.overwritten.iter().map(|(lost, record)| (lost, record)))
}

/// What a sum is made of: a key of fixed length, and a body or none.
pub(super) struct SumElement {
    key: Vec<u8>,
    body: Vec<u8>,
}

impl SumElement {
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [&self.key, &self.body]
    }
}

impl Check<'_> {
    /// Points follow each other, and hashes lead to them.
    pub(super) fn points(&mut self) -> Result<(), StoreError> {
        let (mut told, mut found) = (SetSum::default(), SetSum::default());
        let mut last: Option<(u64, StoredPoint)> = None;
        let family = ColumnFamily::Points;
        self.each(family, |_, report, key, value| {
            let ordinal = decode_ordinal(key).map_err(StoreError::key(family.name(), key))?;
            let point = StoredPoint::decode(value);
            let point = point.map_err(StoreError::value(family.name(), key))?;
            follows(report, last.as_ref(), ordinal, &point);
            told.add(&[&point.point.hash.0, key]);
            last = Some((ordinal, point));
            Ok(())
        })?;
        let (cursor, tip) = (self.cursor, last.map_or(0, |(ordinal, _)| ordinal));
        if cursor.ordinal > tip {
            self.report.found(family, cursor.ordinal, "the index is ahead of the chain");
        }
        self.each(ColumnFamily::Hashes, |_, _, key, value| {
            found.add(&[key, value]);
            Ok(())
        })?;
        if told == found { Ok(()) } else { self.odd_hashes() }
    }

    /// Names points and hashes that don't lead to each other.
    fn odd_hashes(&mut self) -> Result<(), StoreError> {
        let Self { view, report, .. } = self;
        view.scan_all(ColumnFamily::Points, |key, value| {
            let point = StoredPoint::decode(value);
            let point = point.map_err(StoreError::value(ColumnFamily::Points.name(), key))?;
            let back = view.get(ColumnFamily::Hashes, &point.point.hash.0)?;
            if back.as_deref() != Some(key) {
                let entry = hex(&point.point.hash.0);
                report.found(ColumnFamily::Hashes, entry, "does not lead back to its block");
            }
            Ok(())
        })?;
        view.scan_all(ColumnFamily::Hashes, |key, value| {
            let point = view.get(ColumnFamily::Points, value)?;
            let point = point.map(|bytes| StoredPoint::decode(&bytes)).transpose();
            let point = point.map_err(StoreError::value(ColumnFamily::Points.name(), value))?;
            if point.is_none_or(|point| point.point.hash.0 != key) {
                report.found(ColumnFamily::Hashes, hex(key), "leads to no block of that hash");
            }
            Ok(())
        })
    }

    /// Adds every delta up, and checks that those of the window are all there.
    pub(super) fn window(&mut self) -> Result<WindowSums, StoreError> {
        let mut window = WindowSums::new(self.network.family());
        let mut expected = self.horizon.floor + 1;
        let horizon = self.horizon;
        let family = ColumnFamily::Delta;
        self.each(family, |view, report, key, value| {
            let ordinal = decode_ordinal(key).map_err(StoreError::key(family.name(), key))?;
            let delta = decode_delta(value).map_err(StoreError::value(family.name(), key))?;
            if ordinal > horizon.floor {
                if ordinal != expected {
                    report.found(family, expected, "is missing inside the window");
                }
                expected = ordinal + 1;
                belongs(view, report, ordinal, &delta)?;
            } else if ordinal <= horizon.swept_deltas {
                // What lies above is left over from before a bulk run; the next prune takes it.
                report.found(family, ordinal, "should have been pruned");
            }
            window.add(ordinal, &delta, &horizon);
            Ok(())
        })?;
        if expected != self.cursor.ordinal + 1 {
            let what = format!("the last delta is {}", expected - 1);
            self.report.found(family, self.cursor.ordinal, what);
        }
        Ok(window)
    }
}

/// A point comes right after the one before it.
fn follows(
    report: &mut VerifyReport,
    last: Option<&(u64, StoredPoint)>,
    ordinal: u64,
    point: &StoredPoint,
) {
    let before = last.map_or(0, |(ordinal, _)| *ordinal);
    if ordinal != before + 1 {
        let what = format!("follows {before}: points are missing");
        report.found(ColumnFamily::Points, ordinal, what);
    }
    if let Some((_, before)) = last
        && (point.point.height < before.point.height || point.point.slot < before.point.slot)
    {
        report.found(ColumnFamily::Points, ordinal, "height or slot falls");
    }
}

/// A delta is its block's.
fn belongs(
    view: &View<'_>,
    report: &mut VerifyReport,
    ordinal: u64,
    delta: &StoredDelta,
) -> Result<(), StoreError> {
    if points::at(view, ordinal)?.is_none_or(|stored| stored.point != delta.point) {
        report.found(ColumnFamily::Delta, ordinal, "belongs to another block than its point");
    }
    Ok(())
}
