//! From bytes back to a block's change, refusing what the encoder would not have written.

use std::collections::HashSet;

use unspent_model::{
    BlockHash, Outpoint, Point, TxId,
    chain::{Born, Record, SpendingInput, TxFlags},
};

use super::{CoinListing, StoredCreated, StoredDelta, StoredSpent};
use crate::codec::{CodecError, SpentRecord, StrictDecoder, TreeRewind, packed, record};

/// What a delta did in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeltaCounts {
    /// Coins created.
    pub created: u64,
    /// Coins spent.
    pub spent: u64,
}

/// The numbers of a delta, without unpacking it.
///
/// # Errors
///
/// When the bytes don't start like a delta.
pub fn decode_counts(bytes: &[u8]) -> Result<DeltaCounts, CodecError> {
    let [created, spent] = packed::counts(bytes)?.map(u64::from);
    Ok(DeltaCounts { created, spent })
}

/// Reads a delta back.
///
/// # Errors
///
/// When the bytes are not those of a delta.
pub fn decode_delta(bytes: &[u8]) -> Result<StoredDelta, CodecError> {
    let (counts, inside) = packed::unpack(bytes)?;
    let mut from = StrictDecoder::new(&inside);
    let head = DeltaHead::read(&mut from)?;
    let mut tables = DeltaTables::read(&mut from)?;
    // Blocks are numbered by the spends first, so created bodies are read after them.
    let created_at = from.position();
    from.skip()?;
    let spent = from.list(|from| tables.spent(from))?;
    let overwritten = from.list(|from| tables.overwritten(from))?;
    let behind = from.position();
    let created = inside.get(created_at..).unwrap_or_default();
    let created = StrictDecoder::new(created).list(|from| tables.created(from, &head))?;
    let mut from = StrictDecoder::new(inside.get(behind..).unwrap_or_default());
    let missing = from.list(outpoint)?;
    let tx_flags = from.list(tx_flags)?;
    let rewind = from.option(TreeRewind::read)?;
    from.end()?;
    tables.check(&from)?;
    let DeltaHead { point, time, epoch, self_contained } = head;
    let mut delta = StoredDelta {
        point,
        time,
        epoch,
        self_contained,
        created,
        spent,
        tx_flags,
        overwritten,
        missing,
        rewind,
    };
    let lengths = [delta.created.len(), delta.spent.len()].map(|length| length as u64);
    if lengths != counts.map(u64::from) || !is_paired(&delta) || !match_same_block(&mut delta) {
        return Err(from.error("the parts of a delta disagree"));
    }
    Ok(delta)
}

/// Reads one spend: the `number`th of a delta, from 0.
///
/// # Errors
///
/// When the bytes are not those of a delta, or it has fewer spends.
pub fn decode_spend(bytes: &[u8], number: u32) -> Result<(Outpoint, SpentRecord), CodecError> {
    let ([_, count], inside) = packed::unpack(bytes)?;
    let mut from = StrictDecoder::new(&inside);
    let DeltaHead { point, time, epoch, .. } = DeltaHead::read(&mut from)?;
    let mut tables = DeltaTables::read(&mut from)?;
    from.skip()?;
    from.array()?;
    if number >= count {
        return Err(from.error("the delta has no spend of that number"));
    }
    for _ in 0..number {
        from.skip()?;
    }
    // The spends before it were passed over, and with them the first mentions of blocks.
    tables.in_order = false;
    let StoredSpent { outpoint, record, by, .. } = tables.spent(&mut from)?;
    Ok((outpoint, SpentRecord { by, at: point, time, epoch, record }))
}

struct DeltaHead {
    point: Point,
    time: u64,
    epoch: Option<u64>,
    self_contained: bool,
}

impl DeltaHead {
    fn read(from: &mut StrictDecoder<'_>) -> Result<Self, CodecError> {
        expect(from, 12, "a delta has twelve parts")?;
        expect(from, 3, "a point has three parts")?;
        let (height, slot, hash) = (from.u64()?, from.u64()?, BlockHash(from.array_of()?));
        Ok(Self {
            point: Point { height, slot, hash },
            time: from.u64()?,
            epoch: from.option(StrictDecoder::u64)?,
            self_contained: from.bool()?,
        })
    }
}

/// What entries refer to, and which of it they did.
struct DeltaTables {
    txs: Vec<(u32, TxId)>,
    tx_used: Vec<bool>,
    blocks: Vec<Born>,
    /// Blocks mentioned so far: a new one must be the next.
    mentioned: usize,
    /// Entries are read from the first on.
    in_order: bool,
}

impl DeltaTables {
    fn read(from: &mut StrictDecoder<'_>) -> Result<Self, CodecError> {
        let txs = from.list(|from| {
            expect(from, 2, "a transaction has two parts")?;
            Ok((from.u32()?, TxId(from.array_of()?)))
        })?;
        if !txs.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(from.error("positions of transactions must ascend"));
        }
        let blocks = from.list(record::read_block)?;
        let tx_used = vec![false; txs.len()];
        Ok(Self { txs, tx_used, blocks, mentioned: 0, in_order: true })
    }

    /// Everything was used, and every block is another.
    fn check(&self, from: &StrictDecoder<'_>) -> Result<(), CodecError> {
        let unused = self.tx_used.contains(&false) || self.mentioned != self.blocks.len();
        let mut seen: HashSet<_, foldhash::fast::RandomState> = HashSet::default();
        let repeats = self.blocks.iter().any(|born| {
            let number = (born.slot, born.block_number, born.epoch, born.block_time);
            !seen.insert((born.block_hash.0, number))
        });
        if unused || repeats { Err(from.error("a table has more than it needs")) } else { Ok(()) }
    }

    fn tx(&mut self, from: &StrictDecoder<'_>, position: u32) -> Result<TxId, CodecError> {
        let found = self.txs.binary_search_by_key(&position, |(known, _)| *known);
        let at = found.map_err(|_| from.error("no transaction at that position"))?;
        if let Some(used) = self.tx_used.get_mut(at) {
            *used = true;
        }
        let tx = self.txs.get(at).map(|(_, tx)| *tx);
        tx.ok_or_else(|| from.error("no transaction at that position"))
    }

    fn body(&mut self, from: &mut StrictDecoder<'_>) -> Result<Record, CodecError> {
        let number = from.u32()? as usize;
        if self.in_order && number > self.mentioned {
            return Err(from.error("blocks are numbered by first mention"));
        }
        if number == self.mentioned {
            self.mentioned += 1;
        }
        let block = self.blocks.get(number).ok_or_else(|| from.error("no block of that number"))?;
        record::read_apart(from, block)
    }

    fn spent(&mut self, from: &mut StrictDecoder<'_>) -> Result<StoredSpent, CodecError> {
        let items = from.array()?;
        let born_at = if from.is_at_number() { Some(from.u32()?) } else { None };
        let tx = match born_at {
            Some(position) => self.tx(from, position)?,
            None => TxId(from.array_of()?),
        };
        let outpoint = Outpoint::new(tx, from.u32()?);
        let record = self.body(from)?;
        if born_at.is_some_and(|position| position != record.born.tx_position) {
            return Err(from.error("a coin of this block names two positions"));
        }
        let by = match items {
            4 => None,
            6 => {
                let (position, input) = (from.u32()?, from.u32()?);
                Some(SpendingInput { tx: self.tx(from, position)?, position, input })
            }
            _ => return Err(from.error("a spend has four parts or six")),
        };
        Ok(StoredSpent { outpoint, record, by, born_here: born_at.is_some() })
    }

    fn created(
        &mut self,
        from: &mut StrictDecoder<'_>,
        head: &DeltaHead,
    ) -> Result<StoredCreated, CodecError> {
        let items = from.array()?;
        let (tx_position, index) = (from.u32()?, from.u32()?);
        let outpoint = Outpoint::new(self.tx(from, tx_position)?, index);
        let (listing, record) = match (items, head.self_contained) {
            (2, _) => (None, None),
            (5, true) => {
                let address = from.array_of()?;
                let record = self.body(from)?;
                if record.born.tx_position != tx_position {
                    return Err(from.error("a created coin names two positions"));
                }
                let (value, credential) = (record.output.value, record.output.payment_credential);
                (Some(CoinListing { address, credential, value, tx_position }), Some(record))
            }
            (4 | 5, false) => {
                let (address, value) = (from.array_of()?, from.u64()?);
                let credential = if items == 5 { Some(from.array_of()?) } else { None };
                (Some(CoinListing { address, credential, value, tx_position }), None)
            }
            _ => return Err(from.error("a created coin has another number of parts")),
        };
        Ok(StoredCreated { outpoint, listing, record })
    }

    fn overwritten(
        &mut self,
        from: &mut StrictDecoder<'_>,
    ) -> Result<(Outpoint, Record), CodecError> {
        expect(from, 4, "an overwritten coin has four parts")?;
        let lost = Outpoint::new(TxId(from.array_of()?), from.u32()?);
        Ok((lost, self.body(from)?))
    }
}

fn outpoint(from: &mut StrictDecoder<'_>) -> Result<Outpoint, CodecError> {
    expect(from, 2, "an outpoint has two parts")?;
    Ok(Outpoint::new(TxId(from.array_of()?), from.u32()?))
}

fn tx_flags(from: &mut StrictDecoder<'_>) -> Result<TxFlags, CodecError> {
    expect(from, 3, "transaction flags have three parts")?;
    let tx = TxId(from.array_of()?);
    Ok(TxFlags { tx, is_invalid: from.bool()?, had_collateral_return: from.bool()? })
}

fn expect(from: &mut StrictDecoder<'_>, count: u64, what: &'static str) -> Result<(), CodecError> {
    if from.array()? == count { Ok(()) } else { Err(from.error(what)) }
}

/// Every coin that left the set has its leaf.
fn is_paired(StoredDelta { rewind, spent, overwritten, .. }: &StoredDelta) -> bool {
    let lengths = (spent.len(), overwritten.len());
    rewind.as_ref().is_none_or(|rewind| (rewind.spent.len(), rewind.overwritten.len()) == lengths)
}

/// What was created and spent here is told by both lists; a self-contained delta has the body in
/// both too.
fn match_same_block(delta: &mut StoredDelta) -> bool {
    let here = delta.spent.iter().filter(|spent| spent.born_here);
    let mut here: std::collections::HashMap<_, _, foldhash::fast::RandomState> =
        here.map(|spent| (spent.outpoint, &spent.record)).collect();
    let again = delta.created.iter_mut().filter(|made| made.listing.is_none());
    for made in again {
        let Some(record) = here.remove(&made.outpoint) else { return false };
        if delta.self_contained {
            made.record = Some(record.clone());
        }
    }
    here.is_empty()
}
