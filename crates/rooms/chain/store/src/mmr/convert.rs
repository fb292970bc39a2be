//! Trees for a folder that had none.
//!
//! Leaves are in chain order, coins long spent included. So the whole history must still be there:
//! every block's delta, and the body of every coin, in the set or among the spends. That holds as
//! long as nothing was pruned or left out; then all blocks are gone through once more.

use std::collections::{HashMap, HashSet};

use unspent_model::{
    BlockHash, Network, Outpoint,
    chain::{BlockDelta, Created, Record, Spent},
};

use super::changes::{BlockLeaves, TreeBase, TreeChanges};
use crate::{
    codec::{StoredDelta, TreeCommitment, UndoData, decode_delta, encode_delta},
    coin::{Coin, SharedCoin},
    db::{Batch, Db, Get as _},
    error::{OpenError, StoreError},
    pending::StoreState,
    schema::{ColumnFamily, OutpointKey, names},
};

/// Refuses a folder whose history isn't whole.
pub(crate) fn check(state: &StoreState) -> Result<(), OpenError> {
    let horizon = &state.horizon;
    if horizon.floor > 0 || horizon.spends_floor > 0 {
        return Err(OpenError::NotConvertible("blocks below the window have been pruned"));
    }
    if !state.holes.is_empty() {
        return Err(OpenError::NotConvertible("its chain has holes"));
    }
    Ok(())
}

/// Bodies of coins, by name and by the block they were born in.
type BornBodies = HashMap<(Outpoint, BlockHash), SharedCoin>;

/// Makes the trees of a whole history, and writes them with everything that names leaves.
pub(crate) fn convert(
    db: &Db,
    network: Network,
    state: &StoreState,
    batch: &mut Batch<'_>,
) -> Result<(), StoreError> {
    let mut history = History { db, network, bodies: BornBodies::new() };
    history.read()?;
    let deltas = history.deltas(state)?;
    let base = TreeBase { db, frozen: None, network };
    let mut trees = TreeChanges::default();
    let mut commitment = TreeCommitment { leaves: 0, live: 0, root: [0; 32] };
    let genesis = history.genesis(&deltas);
    trees.append(base, &mut commitment, genesis.iter().map(|(name, coin)| (name, coin, false)))?;
    let mut parent = None;
    for (ordinal, stored) in (1_u64..).zip(deltas) {
        let StoredDelta { time, epoch, self_contained, .. } = stored;
        let delta = history.complete(stored, commitment.leaves)?;
        let block = BlockLeaves { delta: &delta, parent, keeps_undo: true };
        let rewind = trees.apply(base, &mut commitment, &block)?;
        let (delta, rewind) = (&delta, rewind.as_ref());
        let value = encode_delta(&UndoData { delta, time, epoch, self_contained, rewind });
        let key = ordinal.to_be_bytes();
        let value = value.map_err(StoreError::value(ColumnFamily::Delta.name(), &key))?;
        batch.put(ColumnFamily::Delta, &key, &value)?;
        parent = Some(delta.point);
    }
    trees.settle_root(base, &mut commitment, parent)?;
    for ((outpoint, _), coin) in &history.bodies {
        let key = OutpointKey(*outpoint).encode();
        // Of several coins of one name the set has the last.
        if let Some(placed) = coin.stored_placed()
            && db.get(ColumnFamily::Unspent, &key)?.as_deref() == Some(coin.stored())
        {
            batch.put(ColumnFamily::Unspent, &key, &placed)?;
        }
    }
    trees.write(batch, commitment.leaves)?;
    batch.put(ColumnFamily::UtxoMeta, names::COMMITMENT, &commitment.encode())
}

struct History<'a> {
    db: &'a Db,
    network: Network,
    bodies: BornBodies,
}

impl History<'_> {
    /// Every coin that is there.
    fn read(&mut self) -> Result<(), StoreError> {
        let view = self.db.view();
        view.scan_all(ColumnFamily::Unspent, |key, value| {
            let family = ColumnFamily::Unspent.name();
            let outpoint = OutpointKey::decode(key).map_err(StoreError::key(family, key))?.0;
            let record = Coin::decode(value).map_err(StoreError::value(family, key))?;
            self.add(outpoint, &record);
            Ok(())
        })
    }

    fn add(&mut self, outpoint: Outpoint, record: &Record) {
        let coin = || SharedCoin::new(Coin::new(self.network.family(), record));
        // Two Bitcoin coinbases have the txid of an earlier one; the block tells them apart.
        self.bodies.entry((outpoint, record.born.block_hash)).or_insert_with(coin);
    }

    /// The deltas of all blocks, with the coins that are gone.
    fn deltas(&mut self, state: &StoreState) -> Result<Vec<StoredDelta>, StoreError> {
        let mut deltas = Vec::new();
        for ordinal in 1..=state.cursor.ordinal {
            let (family, key) = (ColumnFamily::Delta.name(), ordinal.to_be_bytes());
            let value = self.db.get(ColumnFamily::Delta, &key)?;
            let value = value.ok_or_else(|| StoreError::absent(family, &key))?;
            let delta = decode_delta(&value).map_err(StoreError::value(family, &key))?;
            for (lost, record) in &delta.overwritten {
                self.add(*lost, record);
            }
            for spent in &delta.spent {
                self.add(spent.outpoint, &spent.record);
            }
            deltas.push(delta);
        }
        Ok(deltas)
    }

    /// Coins that no block created, by name.
    fn genesis(&mut self, deltas: &[StoredDelta]) -> Vec<(Outpoint, SharedCoin)> {
        let created = deltas
            .iter()
            .flat_map(|delta| delta.created.iter().map(|made| (made.outpoint, delta.point.hash)));
        let created: HashSet<_> = created.collect();
        let genesis = self.bodies.iter_mut().filter(|(born, _)| !created.contains(born));
        let mut genesis: Vec<_> = genesis.map(|((outpoint, _), coin)| (*outpoint, coin)).collect();
        genesis.sort_unstable_by_key(|(outpoint, _)| *outpoint);
        let placed = (0..).zip(genesis).map(|(leaf, (outpoint, coin))| {
            Coin::place(coin, leaf);
            (outpoint, coin.clone())
        });
        placed.collect()
    }

    /// A coin with its leaf, if it has one by now.
    fn body(&mut self, name: Outpoint, born: BlockHash) -> Result<&mut SharedCoin, StoreError> {
        let key = OutpointKey(name).encode();
        let found = self.bodies.get_mut(&(name, born));
        found.ok_or_else(|| StoreError::absent(ColumnFamily::Unspent.name(), &key))
    }

    /// The delta with all its bodies. Its first new coin gets the leaf `first`.
    fn complete(
        &mut self,
        stored: StoredDelta,
        first: u64,
    ) -> Result<BlockDelta<SharedCoin>, StoreError> {
        let StoredDelta { point, created, spent, tx_flags, overwritten, missing, .. } = stored;
        let created = (first..).zip(created).map(|(leaf, made)| {
            let coin = self.body(made.outpoint, point.hash)?;
            Coin::place(coin, leaf);
            let spent_here = made.listing.is_none();
            Ok(Created { outpoint: made.outpoint, coin: coin.clone(), spent_here })
        });
        let created = created.collect::<Result<_, StoreError>>()?;
        let spent = spent.into_iter().map(|spent| {
            let coin = self.body(spent.outpoint, spent.record.born.block_hash)?.clone();
            Ok(Spent { outpoint: spent.outpoint, coin, by: spent.by, born_here: spent.born_here })
        });
        let spent = spent.collect::<Result<_, StoreError>>()?;
        let overwritten = overwritten
            .into_iter()
            .map(|(lost, record)| Ok((lost, self.body(lost, record.born.block_hash)?.clone())));
        let overwritten = overwritten.collect::<Result<_, StoreError>>()?;
        Ok(BlockDelta { point, created, spent, overwritten, missing, tx_flags })
    }
}
