//! Secondary indexes: lists of coins by something else than their outpoint.
//!
//! Each is a module that says where its entries lie, which keys a coin has there, and what has to
//! be known for that. The table ([`IndexName::row`]) makes of it all that the store does with an
//! index; nothing else names one:
//!
//! | what | who | from |
//! |---|---|---|
//! | apply, in bulk or not | `pending` | [`IndexRow::write`] |
//! | undo | `rollback` | the same; coins of deltas made whole: [`IndexFacts::needs_body`] |
//! | coins of genesis, the family | `open` | [`IndexRow::keys`], [`IndexFacts::family`] |
//! | switch, layout, refusals | `options`, `codec`, `error` | [`name`] |
//! | verify: sums, and who is to blame | `verify::lists` | [`IndexRow::keys`], [`IndexRow::read`] |
//! | count | `query`, `telemetry` | [`IndexFacts::prefix`], [`IndexFacts::counted`] |
//! | tuning | `db` | the family's line in [`schema`](crate::schema) |
//!
//! An index follows the set: an entry comes with its coin and goes with it. So nothing of it is
//! pruned by itself, and blocks undone leave no trace of it.
//!
//! To add one: its module here, its line in [`name`] and in the table below, and the line of its
//! family in `schema`. A folder gets it when it is made.

mod address;
mod credential;
pub(crate) mod name;
#[cfg(test)]
mod policy;
mod write;

use std::fmt;

use unspent_model::{Family, Outpoint};

use crate::{
    codec::CodecError,
    coin::Coin,
    db::Batch,
    error::StoreError,
    schema::{ColumnFamily, KeyError},
    slots::CoinSlots,
};
use name::{IndexName, Indexes};

/// What there is to know of an index besides its keys.
#[derive(Clone, Copy)]
pub(crate) struct IndexFacts {
    /// Where its entries lie: keys alone.
    pub(crate) family: ColumnFamily,
    /// The first byte of its keys, where several indexes share a family.
    pub(crate) tag: Option<u8>,
    /// Bytes at the beginning of a key that name one list. A hash, behind the tag.
    pub(crate) prefix: usize,
    /// Its keys take more than a delta keeps of a created coin: undoing reads such coins first.
    pub(crate) needs_body: bool,
    /// Whether coins of this chain can be in it.
    pub(crate) fits: fn(Family) -> bool,
    /// Told how long a list is, whenever one is read or gets longer.
    pub(crate) counted: fn(u64),
}

impl IndexFacts {
    /// Where the hash starts that keys are spread by.
    pub(crate) fn hash_at(&self) -> usize {
        usize::from(self.tag.is_some())
    }
}

pub(crate) trait CoinIndex {
    const FACTS: IndexFacts;

    /// An encoded key: an array.
    type Key: AsRef<[u8]> + Ord;

    /// A key that was read.
    type Entry: fmt::Display;

    /// Where a coin is listed.
    fn keys(
        outpoint: &Outpoint,
        coin: &Coin,
    ) -> Result<impl Iterator<Item = Self::Key>, CodecError>;

    /// Reads a key back, and the coin that it lists.
    fn read(key: &[u8]) -> Result<(Self::Entry, Outpoint), KeyError>;
}

/// One line of the table: what the store does with an index.
#[derive(Clone, Copy)]
pub(crate) struct IndexRow {
    pub(crate) name: IndexName,
    pub(crate) facts: IndexFacts,
    /// Hands over a coin's keys.
    pub(crate) keys: VisitKeys,
    /// Checks that a key is one of the index.
    pub(crate) check: fn(&[u8]) -> Result<(), KeyError>,
    /// Reads a key for people, and the coin that it lists.
    pub(crate) read: ReadKey,
    /// Adds all that changed coins do to the index; returns the first key added.
    pub(crate) write: WriteIndex,
}

pub(crate) type VisitKeys = fn(&Outpoint, &Coin, &mut dyn FnMut(&[u8])) -> Result<(), CodecError>;
pub(crate) type ReadKey = fn(&[u8]) -> Result<(String, Outpoint), KeyError>;
pub(crate) type WriteIndex = fn(&CoinSlots, &mut Batch<'_>) -> Result<Option<Vec<u8>>, StoreError>;

impl IndexRow {
    fn of<I: CoinIndex>(name: IndexName) -> Self {
        Self {
            name,
            facts: I::FACTS,
            keys: |outpoint, coin, visit| {
                I::keys(outpoint, coin)?.for_each(|key| visit(key.as_ref()));
                Ok(())
            },
            check: |key| I::read(key).map(|_| ()),
            read: |key| I::read(key).map(|(entry, coin)| (entry.to_string(), coin)),
            write: write::write::<I>,
        }
    }
}

impl IndexName {
    /// The table.
    pub(crate) fn row(self) -> IndexRow {
        match self {
            Self::AddressHash => IndexRow::of::<address::ByAddress>(self),
            Self::PaymentCredential => IndexRow::of::<credential::ByCredential>(self),
            #[cfg(test)]
            Self::Policy => IndexRow::of::<policy::ByPolicy>(self),
        }
    }
}

impl Indexes {
    /// What is to be written: those of the kept that coins of this chain can be in. The rest would
    /// cost a pass over all coins for nothing.
    pub(crate) fn rows(self, chain: Family) -> Vec<IndexRow> {
        let rows = self.names().map(IndexName::row);
        rows.filter(|row| (row.facts.fits)(chain)).collect()
    }

    /// Undoing takes the bodies of created coins.
    pub(crate) fn need_bodies(self) -> bool {
        self.names().any(|name| name.row().facts.needs_body)
    }
}

/// All indexes that may have entries in a family.
pub(crate) fn rows_of(family: ColumnFamily) -> Vec<IndexRow> {
    let rows = IndexName::ALL.iter().map(|name| name.row());
    rows.filter(|row| row.facts.family == family).collect()
}

/// The families of all indexes, each once.
pub(crate) fn families() -> Vec<ColumnFamily> {
    let mut families: Vec<_> = IndexName::ALL.iter().map(|name| name.row().facts.family).collect();
    families.sort_unstable();
    families.dedup();
    families
}

/// A list that just got longer, by one of its keys.
pub(crate) struct ListSample {
    pub(crate) index: IndexRow,
    pub(crate) key: Vec<u8>,
}
