//! Byron blocks: main blocks with transactions, and the boundary block that starts an epoch.
//!
//! Cardano's first era differs from all later ones in three ways that matter here.
//!
//! - Each epoch starts with a boundary block. It has no transactions and takes no number: its
//!   "difficulty" is that of the block before. It does have a hash, and the next block names it as
//!   its parent, so it can't be left out.
//! - Slots are counted inside their epoch; we count from the start of the chain, as later eras do.
//! - An address is a CBOR envelope with a checksum around a payload ([CIP-19]), and the chain has
//!   envelopes that are written in more than one way.
//!
//! Only the parts that move coins are read; the rest of a block (delegation, updates, the
//! making of the shared seed) is stepped over.
//!
//! [CIP-19]: https://cips.cardano.org/cip/CIP-0019

use pallas_addresses::ByronAddress;
use pallas_codec::{
    minicbor::{Decode, Decoder, decode::Error as CborError},
    utils::{KeepRaw, MaybeIndefArray},
};
use pallas_primitives::byron::{BlockHead, EbbHead, TxIn, TxOut, TxPayload};
use pallas_traverse::OriginalHash;
use unspent_model::{
    BlockHash, Network, Outpoint, TxId,
    chain::{Block, Era, Output, Tx},
};

use super::{
    cbor::{has_more, skip_rest},
    check_magic,
    clock::{Clock, EpochSlot},
    decode::{Place, in_block},
    output,
};
use crate::{DecodeError, blake2b::blake2b, spends::without_repeats};

pub(super) fn boundary(
    network: Network,
    d: &mut Decoder<'_>,
) -> Result<Block<Output>, DecodeError> {
    let header = boundary_head(d).map_err(in_block)?;
    let place = boundary_place(network, &header)?;
    Ok(Block { header: place.header(network, Era::Byron, true)?, txs: Vec::new() })
}

pub(super) fn boundary_place(
    network: Network,
    header: &KeepRaw<'_, EbbHead>,
) -> Result<Place, DecodeError> {
    check_magic(network, header.protocol_magic)?;
    Ok(Place {
        height: number(&header.consensus_data.difficulty)?,
        // It has no slot of its own; its epoch starts with it, and the first main block may share
        // that slot.
        slot: slot(network, EpochSlot { epoch: header.consensus_data.epoch_id, slot: 0 })?,
        parent: BlockHash(*header.prev_block),
        hash: BlockHash(*header.original_hash()),
    })
}

pub(super) fn main(network: Network, d: &mut Decoder<'_>) -> Result<Block<Output>, DecodeError> {
    let (header, payload) = main_parts(d).map_err(in_block)?;
    let place = main_place(network, &header)?;
    let txs = payload.iter().map(to_model).collect::<Result<_, _>>()?;
    Ok(Block { header: place.header(network, Era::Byron, false)?, txs })
}

pub(super) fn main_place(
    network: Network,
    header: &KeepRaw<'_, BlockHead>,
) -> Result<Place, DecodeError> {
    check_magic(network, header.protocol_magic)?;
    let written = &header.consensus_data.0;
    let at = EpochSlot { epoch: written.epoch, slot: written.slot };
    Ok(Place {
        height: number(&header.consensus_data.2)?,
        slot: slot(network, at)?,
        parent: BlockHash(*header.prev_block),
        hash: BlockHash(*header.original_hash()),
    })
}

fn boundary_head<'b>(d: &mut Decoder<'b>) -> Result<KeepRaw<'b, EbbHead>, CborError> {
    let mut left = d.array()?;
    let header = item(d, &mut left)?;
    skip_rest(d, left)?;
    Ok(header)
}

type MainParts<'b> = (KeepRaw<'b, BlockHead>, MaybeIndefArray<TxPayload<'b>>);

fn main_parts<'b>(d: &mut Decoder<'b>) -> Result<MainParts<'b>, CborError> {
    let mut left = d.array()?;
    let header = item(d, &mut left)?;
    let has_body = has_more(d, &mut left)?;
    // The body is a list of four, transactions first.
    let mut body_left = if has_body { d.array()? } else { Some(0) };
    let payload = item(d, &mut body_left)?;
    skip_rest(d, body_left)?;
    skip_rest(d, left)?;
    Ok((header, payload))
}

fn item<'b, T: Decode<'b, ()>>(
    d: &mut Decoder<'b>,
    left: &mut Option<u64>,
) -> Result<T, CborError> {
    match has_more(d, left)? {
        true => d.decode(),
        false => Err(CborError::message("array too short")),
    }
}

fn slot(network: Network, at: EpochSlot) -> Result<u64, DecodeError> {
    let slot = Clock::of(network).and_then(|clock| clock.byron_slot(at));
    slot.ok_or_else(|| DecodeError::malformed("slot", "out of range"))
}

/// Byron calls the number of a block its difficulty, and writes it as a list of one.
fn number(difficulty: &[u64]) -> Result<u64, DecodeError> {
    let number = difficulty.first().copied();
    number.ok_or_else(|| DecodeError::malformed("block header", "block number is missing"))
}

fn to_model(payload: &TxPayload<'_>) -> Result<Tx<Output>, DecodeError> {
    let tx = &payload.transaction;
    let spends = tx.inputs.iter().map(outpoint).collect::<Result<_, _>>()?;
    let creates = (0_u32..).zip(tx.outputs.iter()).map(|(i, wire)| (i, to_output(wire)));
    Ok(Tx {
        id: TxId(blake2b(tx.raw_cbor())),
        spends: without_repeats(spends),
        creates: creates.collect(),
        is_invalid: false,
        is_coinbase: false,
    })
}

fn outpoint(input: &TxIn) -> Result<Outpoint, DecodeError> {
    match input {
        TxIn::Variant0(named) => Ok(Outpoint::new(TxId(*named.0.0), named.0.1)),
        TxIn::Other(kind, _) => {
            Err(DecodeError::malformed("input", format!("kind {kind} is unknown")))
        }
    }
}

/// The ledger compares addresses by their canonical envelope around the payload's own bytes, and so
/// do we: the same address is the same bytes in every era.
fn to_output(wire: &TxOut) -> Output {
    let address = ByronAddress::new(&wire.address.payload.0, wire.address.crc);
    output::at_address(address.to_vec(), wire.amount)
}
