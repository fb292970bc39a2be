//! Where a block stands, read from its header alone.

use pallas_codec::{
    minicbor::{Decode, Decoder},
    utils::KeepRaw,
};
use pallas_primitives::{
    alonzo, babbage,
    byron::{BlockHead, EbbHead},
};
use unspent_model::{BlockHash, Network, Point};

use super::{
    MAX_BLOCK_BYTES, byron, check_first_block,
    decode::{Place, alonzo_place, babbage_place, era_tag, in_block},
};
use crate::DecodeError;

/// A block's place and the block it builds on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Height, slot and hash.
    pub point: Point,
    /// Its parent's hash; a chain's first block names the genesis instead, or zeros.
    pub parent: BlockHash,
}

/// The header of a block `[era, block]`: its era and its bytes.
///
/// # Errors
///
/// When the bytes don't start like a block.
pub fn header_bytes(block: &[u8]) -> Result<(u64, &[u8]), DecodeError> {
    if block.len() > MAX_BLOCK_BYTES {
        return Err(DecodeError::TooLarge { size: block.len(), limit: MAX_BLOCK_BYTES });
    }
    let mut d = Decoder::new(block);
    let era = era_tag(&mut d).map_err(in_block)?;
    d.array().map_err(in_block)?;
    let start = d.position();
    d.skip().map_err(in_block)?;
    Ok((era, block.get(start..d.position()).unwrap_or_default()))
}

/// What a header of this era says. Eras are numbered as in blocks: 0 is Byron's boundary block, 1
/// Byron, 2 Shelley, and so on.
///
/// # Errors
///
/// When the bytes are no header of that era.
pub fn read_header(network: Network, era: u64, header: &[u8]) -> Result<Head, DecodeError> {
    let place = match era {
        0 => byron::boundary_place(network, &whole::<EbbHead>(header)?)?,
        1 => byron::main_place(network, &whole::<BlockHead>(header)?)?,
        2..=5 => alonzo_place(&whole::<alonzo::Header>(header)?).0,
        6 | 7 => babbage_place(&whole::<babbage::Header>(header)?).0,
        unknown => return Err(DecodeError::UnknownEra(unknown)),
    };
    let Place { height, slot, parent, hash } = place;
    check_first_block(network, height, &hash)?;
    Ok(Head { point: Point { height, slot, hash }, parent })
}

/// Where a block `[era, block]` stands. Its body isn't looked at.
///
/// # Errors
///
/// When the bytes don't start like a block of this network.
pub fn block_head(network: Network, block: &[u8]) -> Result<Head, DecodeError> {
    let (era, header) = header_bytes(block)?;
    read_header(network, era, header)
}

fn whole<'b, T: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<KeepRaw<'b, T>, DecodeError> {
    Decoder::new(bytes).decode().map_err(in_block)
}
