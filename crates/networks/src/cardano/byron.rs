//! Byron blocks: main blocks with transactions, and the boundary block that starts an epoch.

use pallas_addresses::ByronAddress;
use pallas_codec::{
    minicbor::{Decoder, data::Type, decode::Error as CborError},
    utils::{KeepRaw, MaybeIndefArray},
};
use pallas_primitives::byron::{BlockHead, EbbHead, TxIn, TxOut, TxPayload};
use pallas_traverse::OriginalHash;
use unspent_model::{
    BlockHash, Network, Outpoint, TxId,
    chain::{Block, Era, Output, Tx},
};

use super::{
    clock::Clock,
    decode::{Place, end_of_indefinite, in_block},
    output,
};
use crate::{DecodeError, address::blake2b, spends::without_repeats};

pub(super) fn boundary(
    network: Network,
    d: &mut Decoder<'_>,
) -> Result<Block<Output>, DecodeError> {
    let header = boundary_head(d).map_err(in_block)?;
    let place = Place {
        height: number(&header.consensus_data.difficulty)?,
        slot: slot(network, header.consensus_data.epoch_id, 0)?,
        parent: BlockHash(*header.prev_block),
        hash: BlockHash(*header.original_hash()),
    };
    Ok(Block { header: place.header(network, Era::Byron, true)?, txs: Vec::new() })
}

pub(super) fn main(network: Network, d: &mut Decoder<'_>) -> Result<Block<Output>, DecodeError> {
    let (header, payload) = main_parts(d).map_err(in_block)?;
    let place = Place {
        height: number(&header.consensus_data.2)?,
        slot: slot(network, header.consensus_data.0.epoch, header.consensus_data.0.slot)?,
        parent: BlockHash(*header.prev_block),
        hash: BlockHash(*header.original_hash()),
    };
    let txs = payload.iter().map(to_model).collect::<Result<_, _>>()?;
    Ok(Block { header: place.header(network, Era::Byron, false)?, txs })
}

fn boundary_head<'b>(d: &mut Decoder<'b>) -> Result<KeepRaw<'b, EbbHead>, CborError> {
    let length = d.array()?;
    let header = d.decode()?;
    skip_rest(d, length, 1)?;
    Ok(header)
}

type MainParts<'b> = (KeepRaw<'b, BlockHead>, MaybeIndefArray<TxPayload<'b>>);

fn main_parts<'b>(d: &mut Decoder<'b>) -> Result<MainParts<'b>, CborError> {
    let length = d.array()?;
    let header = d.decode()?;
    let body_length = d.array()?;
    let payload = d.decode()?;
    skip_rest(d, body_length, 1)?;
    skip_rest(d, length, 2)?;
    Ok((header, payload))
}

/// Steps over what is left of an array of which `done` items are read.
fn skip_rest(d: &mut Decoder<'_>, length: Option<u64>, done: u64) -> Result<(), CborError> {
    let Some(length) = length else {
        while d.datatype()? != Type::Break {
            d.skip()?;
        }
        return end_of_indefinite(d);
    };
    let rest = length.checked_sub(done).ok_or_else(|| CborError::message("array too short"))?;
    (0..rest).try_for_each(|_| d.skip())
}

fn slot(network: Network, epoch: u64, slot: u64) -> Result<u64, DecodeError> {
    let slot = Clock::of(network).and_then(|clock| clock.byron_slot(epoch, slot));
    slot.ok_or_else(|| DecodeError::malformed("slot", "out of range"))
}

/// Byron calls the number of a block its difficulty, and writes it as a list of one.
fn number(difficulty: &[u64]) -> Result<u64, DecodeError> {
    let number = difficulty.first().copied();
    number.ok_or_else(|| DecodeError::malformed("block header", "no block number"))
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

/// The ledger compares addresses by their canonical envelope around the payload's own bytes, and so do
/// we: the same address is the same bytes in every era.
fn to_output(wire: &TxOut) -> Output {
    let address = ByronAddress::new(&wire.address.payload.0, wire.address.crc);
    output::at_address(address.to_vec(), wire.amount)
}
