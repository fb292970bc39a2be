//! The store's own bookkeeping: points, cursor, horizon, identity, holes.

use unspent_model::{
    BlockHash, Network, Outpoint, Point, TxId,
    chain::{Era, Work},
};

use super::{CodecError, StrictDecoder, value, whole};
use crate::{
    indexes::name::{IndexName, Indexes},
    options::StoreKind,
};

/// Format of the whole data folder; another one is refused on open.
pub const SCHEMA_VERSION: u64 = 4;

/// The same of a folder with the MMR store, so that a program that doesn't know it stays away.
pub const MMR_SCHEMA_VERSION: u64 = 5;

const ERAS: [Era; 8] = [
    Era::Bitcoin,
    Era::Byron,
    Era::Shelley,
    Era::Allegra,
    Era::Mary,
    Era::Alonzo,
    Era::Babbage,
    Era::Conway,
];

/// Not looked up in [`ERAS`]: a new era must not be written as another one.
fn era_number(era: Era) -> u64 {
    match era {
        Era::Bitcoin => 0,
        Era::Byron => 1,
        Era::Shelley => 2,
        Era::Allegra => 3,
        Era::Mary => 4,
        Era::Alonzo => 5,
        Era::Babbage => 6,
        Era::Conway => 7,
    }
}

fn era(from: &mut StrictDecoder<'_>) -> Result<Era, CodecError> {
    let number = from.u64()?;
    let found = ERAS.into_iter().find(|era| era_number(*era) == number);
    found.ok_or_else(|| from.error("unknown era"))
}

/// A block of the chain: `{0 height, 1 slot, 2 hash, 3 era, 4 time, 5 work so far}`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredPoint {
    /// Height, slot and hash.
    pub point: Point,
    /// Rule set it was made under; `Bitcoin` on every Bitcoin network.
    pub era: Era,
    /// Unix time in seconds.
    pub time: u64,
    /// Work of all stored blocks up to here.
    pub work: Work,
}

impl StoredPoint {
    pub(crate) fn encode(&self) -> Vec<u8> {
        value(96, |to| {
            to.map(6)?.u8(0)?.u64(self.point.height)?.u8(1)?.u64(self.point.slot)?;
            to.u8(2)?.bytes(&self.point.hash.0)?.u8(3)?.u64(era_number(self.era))?;
            to.u8(4)?.u64(self.time)?.u8(5)?.bytes(significant(&self.work.0))?;
            Ok(())
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        whole(bytes, |from| {
            expect_fields(from, 6)?;
            let height = numbered(from, 0, StrictDecoder::u64)?;
            let slot = numbered(from, 1, StrictDecoder::u64)?;
            let hash = BlockHash(numbered(from, 2, StrictDecoder::array_of)?);
            let era = numbered(from, 3, era)?;
            let time = numbered(from, 4, StrictDecoder::u64)?;
            let work = Work(numbered(from, 5, wide)?);
            Ok(Self { point: Point { height, slot, hash }, era, time, work })
        })
    }
}

/// How far the index has come: `{0 ordinal, 1 point, 2 era, 3 coins, 4 value, 5 missing inputs}`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexCursor {
    /// Blocks applied since the origin. Dense even where heights repeat or jump.
    pub ordinal: u64,
    /// The last block applied; `None` at the origin.
    pub tip: Option<(Point, Era)>,
    /// How many coins are unspent.
    pub coins: u64,
    /// Their value together, in base units.
    pub value: u128,
    /// Inputs that were not in the set, over all applied blocks.
    pub missing_inputs: u64,
}

impl IndexCursor {
    /// Before the first block.
    pub const ORIGIN: Self = Self { ordinal: 0, tip: None, coins: 0, value: 0, missing_inputs: 0 };

    /// The last block's point; `None` at the origin.
    pub fn point(&self) -> Option<Point> {
        self.tip.map(|(point, _)| point)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        value(96, |to| {
            let tip = if self.tip.is_some() { 2 } else { 0 };
            to.map(4 + tip)?.u8(0)?.u64(self.ordinal)?;
            if let Some((point, era)) = &self.tip {
                to.u8(1)?.array(3)?.u64(point.height)?.u64(point.slot)?.bytes(&point.hash.0)?;
                to.u8(2)?.u64(era_number(*era))?;
            }
            to.u8(3)?.u64(self.coins)?;
            to.u8(4)?.bytes(significant(&self.value.to_be_bytes()))?;
            to.u8(5)?.u64(self.missing_inputs)?;
            Ok(())
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        whole(bytes, |from| {
            let at_origin = match from.map()? {
                4 => true,
                6 => false,
                _ => return Err(from.error("wrong number of fields")),
            };
            let ordinal = numbered(from, 0, StrictDecoder::u64)?;
            let tip = if at_origin {
                None
            } else {
                Some((numbered(from, 1, point)?, numbered(from, 2, era)?))
            };
            let coins = numbered(from, 3, StrictDecoder::u64)?;
            let value = u128::from_be_bytes(numbered(from, 4, wide)?);
            let missing_inputs = numbered(from, 5, StrictDecoder::u64)?;
            Ok(Self { ordinal, tip, coins, value, missing_inputs })
        })
    }
}

/// What has been forgotten: `{0 floor, 1 swept deltas, 2 spends floor}`, all ordinals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PruneHorizon {
    /// The lowest block that a rollback may return to.
    pub floor: u64,
    /// Deltas of blocks up to this one are gone from disk.
    pub swept_deltas: u64,
    /// Spends of blocks up to this one are forgotten. Pointers to them that still lie on disk lead
    /// nowhere; compactions drop them.
    pub spends_floor: u64,
}

impl PruneHorizon {
    pub(crate) fn encode(&self) -> Vec<u8> {
        value(32, |to| {
            to.map(3)?.u8(0)?.u64(self.floor)?.u8(1)?.u64(self.swept_deltas)?;
            to.u8(2)?.u64(self.spends_floor)?;
            Ok(())
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        whole(bytes, |from| {
            expect_fields(from, 3)?;
            let floor = numbered(from, 0, StrictDecoder::u64)?;
            let swept_deltas = numbered(from, 1, StrictDecoder::u64)?;
            let spends_floor = numbered(from, 2, StrictDecoder::u64)?;
            Ok(Self { floor, swept_deltas, spends_floor })
        })
    }
}

/// What the folder is for: `{0 schema, 1 network}`, written at creation and checked on open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FolderIdentity {
    /// Format of the folder: [`SCHEMA_VERSION`] when it was made.
    pub schema: u64,
    /// The one network it serves.
    pub network: Network,
}

impl FolderIdentity {
    pub(crate) fn encode(&self) -> Vec<u8> {
        value(40, |to| {
            to.map(2)?.u8(0)?.u64(self.schema)?.u8(1)?.str(self.network.name())?;
            Ok(())
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        whole(bytes, |from| {
            expect_fields(from, 2)?;
            let schema = numbered(from, 0, StrictDecoder::u64)?;
            let name = numbered(from, 1, StrictDecoder::text)?;
            let network = name.parse().map_err(|_| from.error("unknown network"))?;
            Ok(Self { schema, network })
        })
    }
}

/// How the index was built: `{0 address index, 1 credential index, 2 genesis digest, 3 MMR store}`,
/// and behind them the fields of further indexes that are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexLayout {
    pub(crate) indexes: Indexes,
    /// SHA-256 over the coins of genesis; `None` when none were given.
    pub(crate) genesis: Option<[u8; 32]>,
    pub(crate) store: StoreKind,
}

impl IndexLayout {
    pub(crate) fn encode(&self) -> Vec<u8> {
        value(48, |to| {
            let has_roots = self.store == StoreKind::Mmr;
            let told = self.indexes.told().count() as u64;
            to.map(told + u64::from(self.genesis.is_some()) + u64::from(has_roots))?;
            for (name, is_kept) in self.indexes.told().filter(|(name, _)| name.is_usual()) {
                to.u64(name.layout_field())?.bool(is_kept)?;
            }
            if let Some(digest) = &self.genesis {
                to.u8(2)?.bytes(digest)?;
            }
            if has_roots {
                to.u8(3)?.bool(true)?;
            }
            for (name, is_kept) in self.indexes.told().filter(|(name, _)| !name.is_usual()) {
                to.u64(name.layout_field())?.bool(is_kept)?;
            }
            Ok(())
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        whole(bytes, |from| {
            let (mut indexes, mut told) = (Indexes::NONE, 0);
            let (mut genesis, mut store) = (None, StoreKind::Classic);
            from.fields(|from, key| {
                match (key, IndexName::of_field(key)) {
                    (2, _) => genesis = Some(from.array_of()?),
                    (3, _) if from.set_flag()? => store = StoreKind::Mmr,
                    (_, Some(name)) if name.is_usual() => {
                        indexes = indexes.with(name, from.bool()?);
                        told += 1;
                    }
                    (_, Some(name)) => indexes = indexes.with(name, from.set_flag()?),
                    (_, None) => return Err(from.error("unknown field of a layout")),
                }
                Ok(())
            })?;
            // Fields ascend, so none of them was counted twice.
            if told != Indexes::usual().names().count() {
                return Err(from.error("layout lacks a field"));
            }
            Ok(Self { indexes, genesis, store })
        })
    }
}

/// What the operator chose last: `{0 prune depth, 1 rollback window, 2 self-contained deltas}`.
/// Kept so that a later command without these options doesn't forget more than was meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperatorChoices {
    /// Blocks after which a spent coin is forgotten.
    pub prune_depth: u64,
    /// Blocks that can be undone, counted from the tip.
    pub rollback_window: u64,
    /// Deltas carry the bodies of coins, so that undoing needs no spent records.
    pub self_contained: bool,
}

impl OperatorChoices {
    pub(crate) fn encode(&self) -> Vec<u8> {
        value(24, |to| {
            to.map(3)?.u8(0)?.u64(self.prune_depth)?.u8(1)?.u64(self.rollback_window)?;
            to.u8(2)?.bool(self.self_contained)?;
            Ok(())
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        whole(bytes, |from| {
            expect_fields(from, 3)?;
            let prune_depth = numbered(from, 0, StrictDecoder::u64)?;
            let rollback_window = numbered(from, 1, StrictDecoder::u64)?;
            let self_contained = numbered(from, 2, StrictDecoder::bool)?;
            Ok(Self { prune_depth, rollback_window, self_contained })
        })
    }
}

/// Blocks that an import was told to jump over: `{0 ordinal, 1 resumes at, 2 left at}`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImportHole {
    /// Ordinal of the first block after the hole.
    pub ordinal: u64,
    /// Height of the last block before it; `None` when the chain starts with the hole.
    pub left_at: Option<u64>,
    /// Height of the first block after it.
    pub resumes_at: u64,
}

impl ImportHole {
    pub(crate) fn encode_all(holes: &[Self]) -> Vec<u8> {
        value(16 + holes.len() * 24, |to| {
            to.array(holes.len() as u64)?;
            for hole in holes {
                to.map(2 + u64::from(hole.left_at.is_some()))?;
                to.u8(0)?.u64(hole.ordinal)?.u8(1)?.u64(hole.resumes_at)?;
                if let Some(height) = hole.left_at {
                    to.u8(2)?.u64(height)?;
                }
            }
            Ok(())
        })
    }

    pub(crate) fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, CodecError> {
        whole(bytes, |from| {
            from.list(|from| {
                let from_origin = from.map()? == 2;
                let ordinal = numbered(from, 0, StrictDecoder::u64)?;
                let resumes_at = numbered(from, 1, StrictDecoder::u64)?;
                let left_at =
                    if from_origin { None } else { Some(numbered(from, 2, StrictDecoder::u64)?) };
                Ok(Self { ordinal, left_at, resumes_at })
            })
        })
    }
}

/// Outpoints alone, one after the other: the redeem coins of genesis.
pub(crate) fn encode_outpoints(outpoints: &[Outpoint]) -> Vec<u8> {
    value(8 + outpoints.len() * 40, |to| {
        to.array(outpoints.len() as u64)?;
        for outpoint in outpoints {
            to.array(2)?.bytes(&outpoint.tx.0)?.u32(outpoint.index)?;
        }
        Ok(())
    })
}

pub(crate) fn decode_outpoints(bytes: &[u8]) -> Result<Vec<Outpoint>, CodecError> {
    whole(bytes, |from| {
        from.list(|from| {
            expect_pair(from)?;
            Ok(Outpoint::new(TxId(from.array_of()?), from.u32()?))
        })
    })
}

fn expect_pair(from: &mut StrictDecoder<'_>) -> Result<(), CodecError> {
    if from.array()? == 2 { Ok(()) } else { Err(from.error("expected a pair")) }
}

fn point(from: &mut StrictDecoder<'_>) -> Result<Point, CodecError> {
    if from.array()? != 3 {
        return Err(from.error("a point has three parts"));
    }
    Ok(Point { height: from.u64()?, slot: from.u64()?, hash: BlockHash(from.array_of()?) })
}

/// A wide number without its leading zero bytes.
fn significant(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

fn wide<const N: usize>(from: &mut StrictDecoder<'_>) -> Result<[u8; N], CodecError> {
    let bytes = from.bytes()?;
    if bytes.first() == Some(&0) || bytes.len() > N {
        return Err(from.error("wide number not in its shortest form"));
    }
    let mut padded = [0; N];
    if let Some(end) = padded.get_mut(N - bytes.len()..) {
        end.copy_from_slice(bytes);
    }
    Ok(padded)
}

pub(super) fn expect_fields(from: &mut StrictDecoder<'_>, count: u64) -> Result<(), CodecError> {
    if from.map()? == count { Ok(()) } else { Err(from.error("wrong number of fields")) }
}

pub(super) fn numbered<'b, T>(
    from: &mut StrictDecoder<'b>,
    key: u64,
    read: impl FnOnce(&mut StrictDecoder<'b>) -> Result<T, CodecError>,
) -> Result<T, CodecError> {
    if from.u64()? != key {
        return Err(from.error("fields out of order"));
    }
    read(from)
}
