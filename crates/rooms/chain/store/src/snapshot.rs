//! Blocks, coins and undo data as of one moment: answers that are put together from several reads
//! never mix two branches of the chain.

use unspent_model::{BlockHash, Network, Outpoint, Point};

use crate::{
    codec::{
        CodecError, DeltaCounts, SpentRecord, StoredDelta, StoredPoint, decode_counts,
        decode_delta, decode_spend,
    },
    coin::Coin,
    db::{Get as _, View},
    error::{QueryError, StoreError},
    open,
    options::StoreKind,
    points,
    query::{self, CoinState, OwnerBalance, Reader, StoreStatus},
    schema::{ColumnFamily, OutpointKey, Owner},
};

/// The store as it stood when it was made; later blocks and rollbacks are not seen.
///
/// Holds back the removal of what was deleted since, so it is for one answer, not for keeping.
pub struct ChainSnapshot<'r> {
    pub(crate) reader: &'r Reader,
    pub(crate) view: View<'r>,
}

impl Reader {
    /// Holds on to this moment, for answers that need several reads.
    pub fn snapshot(&self) -> ChainSnapshot<'_> {
        ChainSnapshot { reader: self, view: self.db.view() }
    }

    /// What is known of a coin.
    ///
    /// # Errors
    ///
    /// [`QueryError`].
    pub fn coin(&self, outpoint: &Outpoint) -> Result<CoinState, QueryError> {
        self.snapshot().coin(outpoint)
    }

    /// As [`ChainSnapshot::delta`], now.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn delta(&self, height: u64) -> Result<Vec<StoredDelta>, QueryError> {
        self.snapshot().delta(height)
    }

    /// As [`ChainSnapshot::block_at`], now.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn block_at(&self, height: u64) -> Result<Option<StoredPoint>, QueryError> {
        self.snapshot().block_at(height)
    }

    /// As [`ChainSnapshot::block_by_hash`], now.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn block_by_hash(&self, hash: &BlockHash) -> Result<Option<StoredPoint>, QueryError> {
        self.snapshot().block_by_hash(hash)
    }

    /// As [`ChainSnapshot::status`], now.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn status(&self) -> Result<StoreStatus, QueryError> {
        self.snapshot().status()
    }
}

impl ChainSnapshot<'_> {
    /// The network the folder serves.
    pub fn network(&self) -> Network {
        self.reader.network
    }

    /// The last block of the stored chain.
    ///
    /// # Errors
    ///
    /// [`QueryError`].
    pub fn last_block(&self) -> Result<Option<StoredPoint>, QueryError> {
        Ok(points::last(&self.view)?.map(|(_, stored)| stored))
    }

    /// Where the index stands; `None` at the origin.
    ///
    /// # Errors
    ///
    /// [`QueryError`].
    pub fn tip(&self) -> Result<Option<Point>, QueryError> {
        self.reader.enabled()?;
        Ok(query::tip(&self.view)?)
    }

    /// Everything an owner has, added up.
    ///
    /// # Errors
    ///
    /// [`QueryError::IndexDisabled`] when that list is not kept: an empty answer would be a lie.
    pub fn balance(&self, owner: Owner) -> Result<OwnerBalance, QueryError> {
        self.reader.listed(owner)?;
        Ok(query::balance(&self.view, owner)?)
    }

    /// What is known of a coin.
    ///
    /// # Errors
    ///
    /// [`QueryError`].
    pub fn coin(&self, outpoint: &Outpoint) -> Result<CoinState, QueryError> {
        self.reader.enabled()?;
        let key = OutpointKey(*outpoint).encode();
        if let Some(value) = self.view.get(ColumnFamily::Unspent, &key)? {
            let record = Coin::decode(&value);
            let record = record.map_err(StoreError::value(ColumnFamily::Unspent.name(), &key))?;
            return Ok(CoinState::Unspent(record));
        }
        Ok(self.last_spend(outpoint)?.map_or(CoinState::Unknown, CoinState::Spent))
    }

    /// The latest spend of a coin: there are several when it was created again in between.
    fn last_spend(&self, outpoint: &Outpoint) -> Result<Option<SpentRecord>, StoreError> {
        let mut last = None;
        self.view.scan_spends(outpoint, |key, number| {
            last = Some((*key, number));
            Ok(false)
        })?;
        let Some((key, number)) = last else { return Ok(None) };
        let ordinal = key.ordinal.to_be_bytes();
        let family = ColumnFamily::Delta.name();
        let value = self.view.demand(ColumnFamily::Delta, &ordinal)?;
        let (found, spent) =
            decode_spend(&value, number).map_err(StoreError::value(family, &ordinal))?;
        // A pointer is a bare number: one that is off would hand out the spend of another coin.
        if found == *outpoint {
            return Ok(Some(spent));
        }
        let wrong = CodecError::Malformed { what: "leads to the spend of another coin", at: 0 };
        Err(StoreError::value(ColumnFamily::Spent.name(), &key.encode())(wrong))
    }

    /// The undo data of the block at `height` (of the boundary block too, if one shares the
    /// height).
    ///
    /// # Errors
    ///
    /// [`QueryError::NoDelta`] when it is pruned or above the tip.
    pub fn delta(&self, height: u64) -> Result<Vec<StoredDelta>, QueryError> {
        self.deltas(height, decode_delta)
    }

    /// The same in numbers, both blocks added up where two share the height.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn delta_counts(&self, height: u64) -> Result<DeltaCounts, QueryError> {
        let counts = self.deltas(height, decode_counts)?.into_iter();
        Ok(counts.fold(DeltaCounts::default(), |sum, more| DeltaCounts {
            created: sum.created + more.created,
            spent: sum.spent + more.spent,
        }))
    }

    fn deltas<T>(
        &self,
        height: u64,
        decode: impl Fn(&[u8]) -> Result<T, CodecError>,
    ) -> Result<Vec<T>, QueryError> {
        self.reader.enabled()?;
        let state = open::state(&self.view, true)?;
        let below =
            points::last_where(&self.view, state.cursor.ordinal, |p| p.point.height < height)?;
        // A boundary block of Byron has the height of the block before it.
        let mut deltas = Vec::new();
        for ordinal in below + 1..=state.cursor.ordinal {
            let Some(point) = points::at(&self.view, ordinal)? else { break };
            if point.point.height != height {
                break;
            }
            let key = ordinal.to_be_bytes();
            if let Some(value) = self.view.get(ColumnFamily::Delta, &key)? {
                let delta = decode(&value);
                deltas.push(delta.map_err(StoreError::value(ColumnFamily::Delta.name(), &key))?);
            }
        }
        if deltas.is_empty() {
            let floor = points::at(&self.view, state.horizon.floor)?;
            let floor = floor.map(|point| point.point.height);
            return Err(QueryError::NoDelta { height, floor });
        }
        Ok(deltas)
    }

    /// The block at `height`: the last one, where a boundary block shares the height.
    ///
    /// # Errors
    ///
    /// [`QueryError`].
    pub fn block_at(&self, height: u64) -> Result<Option<StoredPoint>, QueryError> {
        let Some((tip, _)) = points::last(&self.view)? else { return Ok(None) };
        let ordinal = points::last_where(&self.view, tip, |p| p.point.height <= height)?;
        Ok(points::at(&self.view, ordinal)?.filter(|point| point.point.height == height))
    }

    /// The last block below a height, however large the hole is that lies in between.
    ///
    /// # Errors
    ///
    /// [`QueryError`].
    pub fn block_below(&self, height: u64) -> Result<Option<StoredPoint>, QueryError> {
        let Some((tip, _)) = points::last(&self.view)? else { return Ok(None) };
        let ordinal = points::last_where(&self.view, tip, |p| p.point.height < height)?;
        Ok(points::at(&self.view, ordinal)?)
    }

    /// The block with this hash.
    ///
    /// # Errors
    ///
    /// [`QueryError`].
    pub fn block_by_hash(&self, hash: &BlockHash) -> Result<Option<StoredPoint>, QueryError> {
        Ok(points::by_hash(&self.view, hash)?.map(|(_, point)| point))
    }

    /// The store in numbers.
    ///
    /// # Errors
    ///
    /// [`QueryError`].
    pub fn status(&self) -> Result<StoreStatus, QueryError> {
        let state = open::state(&self.view, self.reader.enabled)?;
        let layout = if self.reader.enabled { open::stored_layout(&self.view)? } else { None };
        let sizes = self.reader.db.families().iter();
        let sizes = sizes.map(|family| Ok((family.name(), self.reader.db.size_on_disk(*family)?)));
        Ok(StoreStatus {
            network: self.reader.network,
            enabled: self.reader.enabled,
            chain: points::last(&self.view)?,
            cursor: state.cursor,
            horizon: state.horizon,
            store: layout.map_or_else(StoreKind::default, |layout| layout.store),
            commitment: state.commitment,
            holes: state.holes,
            indexes: layout.map(|layout| layout.indexes),
            choices: if self.reader.enabled { open::stored_choices(&self.view)? } else { None },
            sizes: sizes.collect::<Result<_, StoreError>>()?,
        })
    }
}
