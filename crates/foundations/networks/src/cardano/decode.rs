//! Cardano blocks: `[era, block]`, as nodes store and send them.
//!
//! A chain has blocks of eight shapes, two of Byron and one for each later era, and real ones don't
//! always keep to the specification of their era. A decoder that reads everything refuses blocks
//! that the network accepted; one that reads loosely may find coins that aren't there. So only what
//! moves coins is read, and that strictly: witnesses and metadata are stepped over, and hashed.
//!
//! From Shelley on a header commits to its body by the hash of the hashes of the body's parts,
//! which are taken over the bytes as they stand: encoding them again could give other bytes. That
//! ties what is decoded to its header. Byron's proof isn't checked.
//!
//! From Alonzo on a transaction may fail in phase 2, when its scripts run. It is in the block all
//! the same, and pays with its collateral; what is left of that comes back as one output, after
//! those that never came to be ([CIP-40]). This is settled here, so that nobody after this page
//! needs to know of it.
//!
//! [CIP-40]: https://cips.cardano.org/cip/CIP-0040

use std::collections::HashSet;

use pallas_codec::{
    minicbor::{Decode, Decoder, decode::Error as CborError},
    utils::KeepRaw,
};
use pallas_primitives::{TransactionInput, alonzo, babbage};
use pallas_traverse::OriginalHash;
use unspent_model::{
    BlockHash, Network, Outpoint, Point, TxId,
    chain::{Block, Era, Header, Output, Tx, Work},
};

use super::{
    MAX_BLOCK_BYTES,
    body::Body,
    byron,
    cbor::{end, has_more},
    check_address, check_first_block,
    clock::Clock,
};
use crate::{DecodeError, blake2b::blake2b, spends::without_repeats};

pub(crate) fn decode(network: Network, raw: &[u8]) -> Result<Block<Output>, DecodeError> {
    if raw.len() > MAX_BLOCK_BYTES {
        return Err(DecodeError::TooLarge { size: raw.len(), limit: MAX_BLOCK_BYTES });
    }
    let mut d = Decoder::new(raw);
    let era = era_tag(&mut d).map_err(in_block)?;
    let d = &mut d;
    let block = match era {
        0 => byron::boundary(network, d)?,
        1 => byron::main(network, d)?,
        2 => later(network, Era::Shelley, alonzo_place, d)?,
        3 => later(network, Era::Allegra, alonzo_place, d)?,
        4 => later(network, Era::Mary, alonzo_place, d)?,
        5 => later(network, Era::Alonzo, alonzo_place, d)?,
        6 => later(network, Era::Babbage, babbage_place, d)?,
        7 => later(network, Era::Conway, babbage_place, d)?,
        unknown => return Err(DecodeError::UnknownEra(unknown)),
    };
    match raw.len().saturating_sub(d.position()) {
        0 => Ok(block),
        count => Err(DecodeError::TrailingBytes { count }),
    }
}

pub(super) fn in_block(reason: CborError) -> DecodeError {
    DecodeError::malformed("block", reason)
}

pub(super) fn era_tag(d: &mut Decoder<'_>) -> Result<u64, CborError> {
    match d.array()? {
        Some(2) => d.u64(),
        Some(_) | None => Err(CborError::message("expected [era, block]")),
    }
}

/// What a header says of its block's place: number, slot and parent.
pub(super) struct Place {
    pub(super) height: u64,
    pub(super) slot: u64,
    pub(super) parent: BlockHash,
    pub(super) hash: BlockHash,
}

impl Place {
    pub(super) fn header(
        self,
        network: Network,
        era: Era,
        is_boundary: bool,
    ) -> Result<Header, DecodeError> {
        let Self { height, slot, parent, hash } = self;
        // Headers from Shelley on don't name their network: the first block, and the addresses that
        // outputs pay to, are all that tells.
        check_first_block(network, height, &hash)?;
        let clock = Clock::of(network);
        let time = clock.and_then(|clock| clock.time(slot));
        let time = time.ok_or_else(|| DecodeError::malformed("slot", "out of range"))?;
        let epoch = clock.map(|clock| clock.epoch(slot));
        let point = Point { height, slot, hash };
        Ok(Header { point, parent, era, is_boundary, epoch, time, work: Work::default() })
    }
}

pub(super) fn alonzo_place(header: &KeepRaw<'_, alonzo::Header>) -> (Place, [u8; 32]) {
    let body = &header.header_body;
    let place = Place {
        height: body.block_number,
        slot: body.slot,
        parent: BlockHash(body.prev_hash.map_or([0; 32], |hash| *hash)),
        hash: BlockHash(*header.original_hash()),
    };
    (place, *body.block_body_hash)
}

pub(super) fn babbage_place(header: &KeepRaw<'_, babbage::Header>) -> (Place, [u8; 32]) {
    let body = &header.header_body;
    let place = Place {
        height: body.block_number,
        slot: body.slot,
        parent: BlockHash(body.prev_hash.map_or([0; 32], |hash| *hash)),
        hash: BlockHash(*header.original_hash()),
    };
    (place, *body.block_body_hash)
}

/// A block of Shelley or later: header, bodies, which of them failed in phase 2, and the hash of
/// all but the header.
struct LaterBlock<'b, H> {
    header: KeepRaw<'b, H>,
    bodies: Vec<KeepRaw<'b, Body<'b>>>,
    invalid: HashSet<u32>,
    hash: [u8; 32],
}

fn later_block<'b, H: Decode<'b, ()>>(d: &mut Decoder<'b>) -> Result<LaterBlock<'b, H>, CborError> {
    let mut left = d.array()?;
    if left.is_some_and(|length| length != 4 && length != 5) {
        return Err(CborError::message("expected a block of 4 or 5 parts"));
    }
    left = left.map(|length| length - 4);
    let header = d.decode()?;
    let (bodies, bodies_hash) = hashed(d, |d| d.decode())?;
    let ((), witnesses_hash) = hashed(d, |d| d.skip())?;
    let ((), metadata_hash) = hashed(d, |d| d.skip())?;
    let mut hashes = [bodies_hash, witnesses_hash, metadata_hash].concat();
    let mut invalid = None;
    if has_more(d, &mut left)? {
        let (indexes, hash) = hashed(d, |d| d.decode::<Option<Vec<u32>>>())?;
        end(d, left)?;
        invalid = indexes;
        hashes.extend_from_slice(&hash);
    }
    // Asked once for each transaction: in a hostile list that would take quadratic time.
    let invalid = invalid.into_iter().flatten().collect();
    Ok(LaterBlock { header, bodies, invalid, hash: blake2b(&hashes) })
}

/// What `read` finds, and the hash of the bytes it passed.
fn hashed<'b, T>(
    d: &mut Decoder<'b>,
    read: impl FnOnce(&mut Decoder<'b>) -> Result<T, CborError>,
) -> Result<(T, [u8; 32]), CborError> {
    let start = d.position();
    let found = read(d)?;
    let bytes = d.input().get(start..d.position()).unwrap_or_default();
    Ok((found, blake2b(bytes)))
}

fn later<'b, H: Decode<'b, ()>>(
    network: Network,
    era: Era,
    place: impl Fn(&KeepRaw<'b, H>) -> (Place, [u8; 32]),
    d: &mut Decoder<'b>,
) -> Result<Block<Output>, DecodeError> {
    let LaterBlock { header, bodies, invalid, hash } = later_block(d).map_err(in_block)?;
    let (place, promised) = place(&header);
    if hash != promised {
        return Err(DecodeError::BodyHash);
    }
    let txs = (0_u32..).zip(&bodies).map(|(i, body)| to_model(network, body, invalid.contains(&i)));
    let txs = txs.collect::<Result<_, _>>()?;
    Ok(Block { header: place.header(network, era, false)?, txs })
}

fn to_model(
    network: Network,
    body: &KeepRaw<'_, Body<'_>>,
    is_invalid: bool,
) -> Result<Tx<Output>, DecodeError> {
    let (spends, creates) = if is_invalid { body.when_invalid()? } else { body.when_valid()? };
    for (_, output) in &creates {
        check_address(network, &output.addr)?;
    }
    let spends = spends.iter().map(outpoint).collect::<Result<_, _>>()?;
    let spends = without_repeats(spends);
    let id = TxId(blake2b(body.raw_cbor()));
    Ok(Tx { id, spends, creates, is_invalid, is_coinbase: false })
}

fn outpoint(input: &TransactionInput) -> Result<Outpoint, DecodeError> {
    let index = input.index.try_into().map_err(|e| DecodeError::malformed("input index", e))?;
    Ok(Outpoint::new(TxId(*input.transaction_id), index))
}
