//! Changes on their way to the disk: an overlay over the database.
//!
//! A block must reach the disk as a whole or not at all, and one that is refused halfway must leave
//! nothing behind. So nothing is written while blocks are worked through: their changes are laid
//! over the database in memory, where later blocks find them, and carried out as one `WriteBatch`,
//! which RocksDB writes atomically across column families. Near the tip the overlay holds one
//! block, in bulk many, and after a reorganisation the blocks that are undone together.
//!
//! For each outpoint it knows two things: the coin on disk that leaves, whose list entries must go,
//! and the coin that stands there afterwards. Where neither is left, because the coin was born and
//! died in here, the outpoint is dropped.
//!
//! Invariant: blocks are either applied or undone into one overlay, never both.

use unspent_model::{
    BlockHash, Outpoint,
    chain::{BlockDelta, Effect},
};

use crate::{
    codec::{ImportHole, IndexCursor, PruneHorizon, StoredPoint, TreeCommitment, encode_pointer},
    coin::SharedCoin,
    db::{Batch, Db, Durability},
    error::StoreError,
    indexes::{IndexRow, ListSample},
    key_order::{KeyOrder, first_of},
    mmr::TreeChanges,
    schema::{ColumnFamily, OutpointKey, SpentKey, names},
    slots::{CoinSlot, CoinSlots},
};

/// Where the store stands, on disk or ahead of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoreState {
    /// How far the index has come; with the index off, how far the points have.
    pub(crate) cursor: IndexCursor,
    /// The point at the cursor.
    pub(crate) tip: Option<StoredPoint>,
    pub(crate) horizon: PruneHorizon,
    pub(crate) holes: Vec<ImportHole>,
    /// Where the trees stand; `None` in a classic store.
    pub(crate) commitment: Option<TreeCommitment>,
}

/// The cursor with the totals that applying a block leads to. To be asked before anything changes:
/// what leaves was counted when it came, so totals that don't hold it are damaged.
pub(crate) fn totals_after(
    delta: &BlockDelta<SharedCoin>,
    cursor: &IndexCursor,
) -> Result<IndexCursor, StoreError> {
    let missing = cursor.missing_inputs.checked_add(delta.missing.len() as u64);
    totals(cursor, delta.forward(), missing).ok_or_else(wrong_totals)
}

/// The same for the block at the cursor, taken back.
pub(crate) fn totals_before(
    delta: &BlockDelta<SharedCoin>,
    cursor: &IndexCursor,
) -> Result<IndexCursor, StoreError> {
    let missing = cursor.missing_inputs.checked_sub(delta.missing.len() as u64);
    totals(cursor, delta.backward(), missing).ok_or_else(wrong_totals)
}

fn totals<'a>(
    cursor: &IndexCursor,
    effects: impl Iterator<Item = Effect<'a, SharedCoin>>,
    missing_inputs: Option<u64>,
) -> Option<IndexCursor> {
    let (mut coins, mut value) = (cursor.coins, cursor.value);
    for effect in effects {
        match effect {
            Effect::Add(_, coin) => {
                coins = coins.checked_add(1)?;
                value = value.checked_add(coin.value().into())?;
            }
            Effect::Remove(_, coin) => {
                coins = coins.checked_sub(1)?;
                value = value.checked_sub(coin.value().into())?;
            }
            Effect::RecordSpend(_) | Effect::EraseSpend(_) => {}
        }
    }
    Some(IndexCursor { coins, value, missing_inputs: missing_inputs?, ..*cursor })
}

fn wrong_totals() -> StoreError {
    let what = "the totals of the set don't hold the coins that a block changes";
    StoreError::wrong(ColumnFamily::UtxoMeta.name(), names::CURSOR, what)
}

#[derive(Default)]
pub(crate) struct PendingBatch {
    slots: CoinSlots,
    /// Spends with their numbers in their blocks' deltas; `None` deletes.
    spends: Vec<(SpentKey, Option<u32>)>,
    deltas: Vec<(u64, Option<Vec<u8>>)>,
    points: Vec<(u64, BlockHash, Option<StoredPoint>)>,
    pub(crate) blocks: usize,
    /// Of the coins in the slots and of the undo data, in bytes.
    held: usize,
    /// What the blocks do to the trees; nothing in a classic store.
    pub(crate) trees: TreeChanges,
}

impl PendingBatch {
    /// What the overlay knows of a coin: nothing, that it is gone, or what it is.
    pub(crate) fn find(&self, outpoint: &Outpoint) -> Option<Option<&SharedCoin>> {
        self.slots.get(outpoint).map(|slot| slot.after.as_ref())
    }

    /// The block is among those waiting to be written.
    pub(crate) fn has_block(&self, hash: &BlockHash) -> bool {
        // From the first on: asked for blocks below the tip alone, which are rare.
        self.points.iter().any(|(_, known, point)| known == hash && point.is_some())
    }

    /// About how much memory the overlay takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        // A map is never full: on average two thirds of its places are taken.
        let slots = self.slots.len() * (size_of::<(Outpoint, CoinSlot)>() * 3 / 2);
        let undo = self.spends.len() * size_of::<(SpentKey, Option<u32>)>();
        let points = self.points.len() * size_of::<(u64, BlockHash, Option<StoredPoint>)>();
        slots + undo + points + self.held + self.trees.memory()
    }

    /// About how many bytes of entries [`Self::commit`] writes. What a coin takes in memory beside
    /// its body is about what its keys take.
    fn written(&self) -> usize {
        self.held + self.spends.len() * size_of::<(SpentKey, Option<u32>)>() + self.trees.memory()
    }

    /// Empties the overlay for the next batch. The map keeps its room: growing it anew for every
    /// batch would move each coin's place several times, in memory that the system has to clear.
    pub(crate) fn clear(&mut self) {
        let Self { slots, spends, deltas, points, blocks, held, trees } = self;
        slots.clear();
        spends.clear();
        deltas.clear();
        points.clear();
        (*blocks, *held) = (0, 0);
        *trees = TreeChanges::default();
    }

    pub(crate) fn apply(&mut self, delta: &BlockDelta<SharedCoin>) {
        // Spends are written by the caller, who knows whether they are kept at all.
        delta.forward().for_each(|effect| self.move_coin(&effect));
    }

    /// Takes the coins of the block with this ordinal back, and its spends.
    pub(crate) fn undo(&mut self, delta: &BlockDelta<SharedCoin>, ordinal: u64) {
        for effect in delta.backward() {
            if let Effect::EraseSpend(outpoint) = effect {
                self.spends.push((SpentKey { outpoint: *outpoint, ordinal }, None));
            }
            self.move_coin(&effect);
        }
    }

    fn move_coin(&mut self, effect: &Effect<'_, SharedCoin>) {
        match effect {
            Effect::Add(outpoint, coin) => self.add(outpoint, coin),
            Effect::Remove(outpoint, coin) => self.remove(outpoint, coin),
            Effect::RecordSpend(_) | Effect::EraseSpend(_) => {}
        }
    }

    fn add(&mut self, outpoint: &Outpoint, coin: &SharedCoin) {
        let after = &mut self.slots.entry(*outpoint).or_default().after;
        self.held += coin.memory();
        self.held -= after.replace(coin.clone()).map_or(0, |coin| coin.memory());
    }

    fn remove(&mut self, outpoint: &Outpoint, coin: &SharedCoin) {
        let Some(slot) = self.slots.get_mut(outpoint) else {
            let slot = CoinSlot { before: Some(coin.clone()), after: None };
            self.slots.insert(*outpoint, slot);
            self.held += coin.memory();
            return;
        };
        self.held -= slot.after.take().map_or(0, |coin| coin.memory());
        if slot.before.is_none() {
            // Born and dead inside the overlay: the disk never hears of it.
            self.slots.remove(outpoint);
        }
    }

    pub(crate) fn record_spends(&mut self, ordinal: u64, delta: &BlockDelta<SharedCoin>) {
        let spends = (0_u32..)
            .zip(&delta.spent)
            .map(|(number, spent)| (SpentKey { outpoint: spent.outpoint, ordinal }, Some(number)));
        self.spends.extend(spends);
    }

    pub(crate) fn set_delta(&mut self, ordinal: u64, value: Option<Vec<u8>>) {
        self.held += value.as_ref().map_or(0, Vec::len);
        self.deltas.push((ordinal, value));
    }

    pub(crate) fn add_point(&mut self, ordinal: u64, point: StoredPoint) {
        self.points.push((ordinal, point.point.hash, Some(point)));
    }

    pub(crate) fn drop_point(&mut self, ordinal: u64, hash: BlockHash) {
        self.points.push((ordinal, hash, None));
    }

    /// Writes everything, and the state that holds afterwards, in one atomic batch; without indexes
    /// the points alone. Returns one of the lists that got a coin.
    ///
    /// Keys are sorted first: RocksDB takes a sorted batch at less than half the cost.
    pub(crate) fn commit(
        &self,
        db: &Db,
        state: &StoreState,
        indexes: Option<&[IndexRow]>,
        durability: Durability,
    ) -> Result<Option<ListSample>, StoreError> {
        let mut batch = db.batch(self.written());
        let mut sampled = None;
        self.write_points(&mut batch, state)?;
        if let Some(indexes) = indexes {
            self.write_coins(&mut batch, state.commitment.is_some())?;
            sampled = self.write_indexes(&mut batch, indexes)?;
            self.write_undo(&mut batch)?;
            if let Some(commitment) = &state.commitment {
                self.trees.write(&mut batch, commitment.leaves)?;
                batch.put(ColumnFamily::UtxoMeta, names::COMMITMENT, &commitment.encode())?;
            }
            // In the same batch as the coins: a cursor written apart would claim or deny a block
            // after a crash.
            batch.put(ColumnFamily::UtxoMeta, names::CURSOR, &state.cursor.encode())?;
            batch.put(ColumnFamily::UtxoMeta, names::HORIZON, &state.horizon.encode())?;
        }
        batch.commit(durability)?;
        Ok(sampled)
    }

    fn write_points(&self, batch: &mut Batch<'_>, state: &StoreState) -> Result<(), StoreError> {
        for (ordinal, hash, point) in &self.points {
            let ordinal = ordinal.to_be_bytes();
            let value = point.as_ref().map(StoredPoint::encode);
            batch.set(ColumnFamily::Points, &ordinal, value.as_deref())?;
            let back = point.as_ref().map(|_| ordinal);
            batch.set(
                ColumnFamily::Hashes,
                &hash.0,
                back.as_ref().map(|ordinal| ordinal.as_slice()),
            )?;
        }
        // No rollback crosses a hole, so the list never gets shorter: an empty one is nowhere.
        if state.holes.is_empty() {
            return Ok(());
        }
        batch.put(ColumnFamily::ChainMeta, names::HOLES, &ImportHole::encode_all(&state.holes))
    }

    fn write_coins(&self, batch: &mut Batch<'_>, with_leaves: bool) -> Result<(), StoreError> {
        let order = KeyOrder {
            first: |(at, _): &(&Outpoint, _)| first_of(&at.tx.0),
            compare: |a, b| a.0.cmp(b.0),
        };
        order.visit(self.slots.len(), self.slots.iter(), |(outpoint, slot)| {
            let key = OutpointKey(**outpoint).encode();
            match &slot.after {
                Some(coin) if with_leaves => {
                    let value = coin.stored_placed();
                    let value = value
                        .ok_or_else(|| StoreError::absent(ColumnFamily::MmrNodes.name(), &key))?;
                    batch.put(ColumnFamily::Unspent, &key, &value)
                }
                after => {
                    let value = after.as_ref().map(|coin| coin.stored());
                    batch.set(ColumnFamily::Unspent, &key, value)
                }
            }
        })
    }

    /// Returns the first entry added: of the first index that has one, and keys are hashes, so its
    /// list is as good as drawn by lot.
    fn write_indexes(
        &self,
        batch: &mut Batch<'_>,
        indexes: &[IndexRow],
    ) -> Result<Option<ListSample>, StoreError> {
        let mut sampled = None;
        for index in indexes {
            let added = (index.write)(&self.slots, batch)?;
            sampled = sampled.or_else(|| added.map(|key| ListSample { index: *index, key }));
        }
        Ok(sampled)
    }

    fn write_undo(&self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        // No key comes twice: a block spends an outpoint once.
        let order = KeyOrder {
            first: |(key, _): &&(SpentKey, _)| first_of(&key.outpoint.tx.0),
            compare: |a, b| a.0.cmp(&b.0),
        };
        order.visit(self.spends.len(), self.spends.iter(), |(key, number)| {
            let pointer = number.map(encode_pointer);
            batch.set(ColumnFamily::Spent, &key.encode(), pointer.as_deref())
        })?;
        for (ordinal, value) in &self.deltas {
            batch.set(ColumnFamily::Delta, &ordinal.to_be_bytes(), value.as_deref())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use unspent_model::{
        Kind, Point, TxId,
        chain::{Created, Spent},
    };

    use super::*;
    use crate::{codec::CoinListing, coin::Coin};

    /// A coin worth 50.
    fn coin() -> SharedCoin {
        let listing = CoinListing { value: 50, ..CoinListing::default() };
        Coin::leaving(&listing, 0).into()
    }

    fn outpoint(tx: u8) -> Outpoint {
        Outpoint { tx: TxId([tx; 32]), index: 0 }
    }

    /// A block that creates one coin and spends another.
    fn block() -> BlockDelta<SharedCoin> {
        let created = Created { outpoint: outpoint(1), coin: coin(), spent_here: false };
        let spent = Spent { outpoint: outpoint(2), coin: coin(), by: None, born_here: false };
        BlockDelta {
            point: Point { height: 0, slot: 0, hash: BlockHash([0; 32]) },
            created: vec![created],
            spent: vec![spent],
            overwritten: vec![],
            missing: vec![],
            tx_flags: vec![],
        }
    }

    fn cursor(coins: u64, value: u128) -> IndexCursor {
        IndexCursor { coins, value, ..IndexCursor::ORIGIN }
    }

    #[test]
    fn totals_follow_a_block_there_and_back() {
        let before = cursor(3, 170);
        let delta = BlockDelta { spent: vec![], ..block() };
        let after = totals_after(&delta, &before).unwrap();
        assert_eq!((after.coins, after.value), (4, 220));
        assert_eq!(totals_before(&delta, &after).unwrap(), before);
    }

    #[test]
    fn totals_that_cannot_hold_a_block_are_damage() {
        let created = || BlockDelta { spent: vec![], ..block() };
        let spent = || BlockDelta { created: vec![], ..block() };
        let missing = BlockDelta { missing: vec![outpoint(3)], created: vec![], ..spent() };
        let wrong = [
            ("fewer coins than leave", totals_after(&spent(), &cursor(0, 50))),
            ("less value than leaves", totals_after(&spent(), &cursor(1, 49))),
            ("more coins than count", totals_after(&created(), &cursor(u64::MAX, 0))),
            ("more value than counts", totals_after(&created(), &cursor(1, u128::MAX))),
            ("fewer coins than came", totals_before(&created(), &cursor(0, 50))),
            ("less value than came", totals_before(&created(), &cursor(1, 49))),
            ("fewer missing inputs", totals_before(&missing, &cursor(1, 50))),
        ];
        for (what, totals) in wrong {
            let error = totals.unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{what}: {error}");
            assert!(error.to_string().contains("the totals of the set"), "{what}: {error}");
        }
    }
}
