//! From a block's change to bytes.

use std::collections::HashMap;

use unspent_model::{
    Outpoint, TxId,
    chain::{BlockDelta, Created, Spent},
};

use crate::{
    codec::{
        CodecError, TreeRewind, Writer, Written, infallible, packed,
        record::{SplitRecord, apart},
    },
    coin::{Coin, SharedCoin},
};

use super::CoinListing;

/// A coin without its block takes about this much, a created one half of it.
const USUAL_ENTRY: usize = 80;

/// A block's change, with what undoing it needs besides.
pub struct UndoData<'a> {
    /// The change.
    pub delta: &'a BlockDelta<SharedCoin>,
    /// Unix time of the block, in seconds.
    pub time: u64,
    /// Epoch of the block; `None` on Bitcoin.
    pub epoch: Option<u64>,
    /// Keep the bodies of created coins too.
    pub self_contained: bool,
    /// MMR store only.
    pub rewind: Option<&'a TreeRewind>,
}

/// The value for a delta.
///
/// # Errors
///
/// When a coin's record is not the canonical form of one.
pub fn encode_delta(undo: &UndoData<'_>) -> Result<Vec<u8>, CodecError> {
    let delta = undo.delta;
    let tables = SharedTables::new(undo)?;
    let mut inside = Vec::with_capacity(
        256 + (delta.spent.len() + delta.created.len()) * USUAL_ENTRY
            + tables.blocks.len() * USUAL_ENTRY,
    );
    infallible(tables.write(undo, &mut minicbor::Encoder::new(&mut inside)));
    let counts = [delta.created.len(), delta.spent.len()];
    packed::pack(counts.map(|count| u32::try_from(count).unwrap_or(u32::MAX)), &inside)
}

/// A coin's body, and the number of its block.
type Body<'a> = (SplitRecord<'a>, u32);

/// What entries refer to.
struct SharedTables<'a> {
    txs: Vec<(u32, TxId)>,
    blocks: BlockTable<'a>,
    spent: Vec<Body<'a>>,
    overwritten: Vec<Body<'a>>,
    /// Of the coins that stay, in a self-contained delta.
    created: Vec<Body<'a>>,
}

/// Blocks that coins come from, each once, by first mention.
#[derive(Default)]
struct BlockTable<'a> {
    numbers: HashMap<&'a [u8], u32, foldhash::fast::RandomState>,
    count: u32,
}

impl<'a> BlockTable<'a> {
    fn take(&mut self, coin: &'a Coin) -> Result<Body<'a>, CodecError> {
        let parts = apart(coin.body())?;
        let number = *self.numbers.entry(parts.of_block).or_insert(self.count);
        if number == self.count {
            self.count += 1;
        }
        Ok((parts, number))
    }

    fn len(&self) -> usize {
        self.numbers.len()
    }
}

impl<'a> SharedTables<'a> {
    fn new(undo: &UndoData<'a>) -> Result<Self, CodecError> {
        let delta = undo.delta;
        let mut blocks = BlockTable::default();
        let spent = delta.spent.iter().map(|spent| blocks.take(&spent.coin));
        let spent = spent.collect::<Result<_, _>>()?;
        let overwritten = delta.overwritten.iter().map(|(_, coin)| blocks.take(coin));
        let overwritten = overwritten.collect::<Result<_, _>>()?;
        let staying = delta.created.iter().filter(|made| undo.self_contained && !made.spent_here);
        let created = staying.map(|made| blocks.take(&made.coin)).collect::<Result<_, _>>()?;
        let creators = delta.created.iter().map(|made| (made.coin.tx_position(), made.outpoint.tx));
        let spenders = delta.spent.iter().filter_map(|spent| spent.by);
        let mut txs: Vec<_> = creators.chain(spenders.map(|by| (by.position, by.tx))).collect();
        // Both come in block order, each transaction several times in a row: what is left of them
        // are two sorted runs, which `sort` merges.
        txs.dedup();
        txs.sort();
        txs.dedup();
        Ok(Self { txs, blocks, spent, overwritten, created })
    }

    fn write(&self, undo: &UndoData<'_>, to: &mut Writer<'_>) -> Written {
        let UndoData { delta, time, epoch, self_contained, rewind } = undo;
        let point = &delta.point;
        to.array(12)?.array(3)?.u64(point.height)?.u64(point.slot)?.bytes(&point.hash.0)?;
        to.u64(*time)?;
        optional(to, epoch.as_ref(), |to, epoch| to.u64(*epoch).map(|_| ()))?;
        to.bool(*self_contained)?;
        list(to, &self.txs, |to, (position, tx)| {
            to.array(2)?.u32(*position)?.bytes(&tx.0)?;
            Ok(())
        })?;
        self.write_blocks(to)?;
        self.write_created(&delta.created, *self_contained, to)?;
        to.array(delta.spent.len() as u64)?;
        for (spent, body) in delta.spent.iter().zip(&self.spent) {
            write_spent(spent, body, to)?;
        }
        to.array(delta.overwritten.len() as u64)?;
        for ((lost, _), (parts, block)) in delta.overwritten.iter().zip(&self.overwritten) {
            to.array(4)?.bytes(&lost.tx.0)?.u32(lost.index)?.u32(*block)?;
            parts.write_rest(to)?;
        }
        list(to, &delta.missing, |to, Outpoint { tx, index }| {
            to.array(2)?.bytes(&tx.0)?.u32(*index)?;
            Ok(())
        })?;
        list(to, &delta.tx_flags, |to, flags| {
            to.array(3)?.bytes(&flags.tx.0)?.bool(flags.is_invalid)?;
            to.bool(flags.had_collateral_return)?;
            Ok(())
        })?;
        optional(to, *rewind, |to, rewind| rewind.write(to))
    }

    fn write_blocks(&self, to: &mut Writer<'_>) -> Written {
        to.array(self.blocks.len() as u64)?;
        let mut next = 0;
        for (parts, number) in self.spent.iter().chain(&self.overwritten).chain(&self.created) {
            if *number == next {
                parts.write_block(to)?;
                next += 1;
            }
        }
        Ok(())
    }

    fn write_created(
        &self,
        created: &[Created<SharedCoin>],
        self_contained: bool,
        to: &mut Writer<'_>,
    ) -> Written {
        to.array(created.len() as u64)?;
        let mut bodies = self.created.iter();
        for Created { outpoint, coin, spent_here } in created {
            let CoinListing { address, credential, value, tx_position } = CoinListing::of(coin);
            let head = |to: &mut Writer<'_>, items| -> Written {
                to.array(items)?.u32(tx_position)?.u32(outpoint.index)?;
                Ok(())
            };
            if *spent_here {
                head(to, 2)?;
            } else if self_contained {
                head(to, 5)?;
                to.bytes(&address)?;
                if let Some((parts, block)) = bodies.next() {
                    to.u32(*block)?;
                    parts.write_rest(to)?;
                }
            } else {
                head(to, 4 + u64::from(credential.is_some()))?;
                to.bytes(&address)?.u64(value)?;
                if let Some(credential) = credential {
                    to.bytes(&credential)?;
                }
            }
        }
        Ok(())
    }
}

fn write_spent(
    spent: &Spent<SharedCoin>,
    (parts, block): &Body<'_>,
    to: &mut Writer<'_>,
) -> Written {
    to.array(if spent.by.is_some() { 6 } else { 4 })?;
    if spent.born_here {
        to.u32(spent.coin.tx_position())?;
    } else {
        to.bytes(&spent.outpoint.tx.0)?;
    }
    to.u32(spent.outpoint.index)?.u32(*block)?;
    parts.write_rest(to)?;
    if let Some(by) = spent.by {
        to.u32(by.position)?.u32(by.input)?;
    }
    Ok(())
}

fn list<T>(
    to: &mut Writer<'_>,
    items: &[T],
    write: impl Fn(&mut Writer<'_>, &T) -> Written,
) -> Written {
    to.array(items.len() as u64)?;
    items.iter().try_for_each(|item| write(to, item))
}

fn optional<T>(
    to: &mut Writer<'_>,
    item: Option<&T>,
    write: impl FnOnce(&mut Writer<'_>, &T) -> Written,
) -> Written {
    to.array(u64::from(item.is_some()))?;
    item.map_or(Ok(()), |item| write(to, item))
}
