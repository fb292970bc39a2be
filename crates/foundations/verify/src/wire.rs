//! A proof as bytes: CBOR (RFC 8949) in its deterministic form.
//!
//! ```text
//! [ 1,                                        version
//!   network, height, block hash,              text, number, 32 bytes
//!   leaves, live leaves,
//!   [[place, txid, output index, record], …],
//!   nodes of the outputs,                     one after another, 32 bytes each
//!   chunks,                                   128 bytes each
//!   nodes of the live bits ]
//! ```
//!
//! There is one way to write a proof: what was read is written again and must be the same.

use alloc::{string::ToString as _, vec::Vec};

use minicbor::{Decoder, Encoder, decode};

use crate::{
    hash::Hash,
    proof::{Head, Leaf, LiveChunk, Proof, ProofError},
};

const VERSION: u8 = 1;
const FIELDS: u64 = 10;
const COIN_FIELDS: u64 = 4;

impl Proof {
    /// The proof as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Writing into memory can't fail.
        let _ = self.write(&mut Encoder::new(&mut bytes));
        bytes
    }

    fn write(
        &self,
        to: &mut Encoder<&mut Vec<u8>>,
    ) -> Result<(), minicbor::encode::Error<core::convert::Infallible>> {
        let Head { network, height, block_hash, leaves, live } = &self.head;
        to.array(FIELDS)?.u8(VERSION)?.str(network)?.u64(*height)?.bytes(block_hash)?;
        to.u64(*leaves)?.u64(*live)?.array(self.coins.len() as u64)?;
        for (place, coin) in &self.coins {
            to.array(COIN_FIELDS)?.u64(*place)?.bytes(&coin.txid)?;
            to.u32(coin.vout)?.bytes(&coin.record)?;
        }
        let chunks: Vec<[u8; 128]> = self.chunks.iter().map(|chunk| chunk.0).collect();
        to.bytes(self.output_nodes.as_flattened())?.bytes(chunks.as_flattened())?;
        to.bytes(self.live_nodes.as_flattened())?;
        Ok(())
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote, and nothing else.
    ///
    /// # Errors
    ///
    /// [`ProofError::Encoding`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ProofError> {
        let proof = read(&mut Decoder::new(bytes)).map_err(|_| ProofError::Encoding)?;
        if proof.to_bytes() == bytes { Ok(proof) } else { Err(ProofError::Encoding) }
    }
}

fn read(from: &mut Decoder<'_>) -> Result<Proof, decode::Error> {
    let wrong = || decode::Error::message("not a proof");
    if from.array()? != Some(FIELDS) || from.u8()? != VERSION {
        return Err(wrong());
    }
    let head = Head {
        network: from.str()?.to_string(),
        height: from.u64()?,
        block_hash: from.bytes()?.try_into().map_err(|_| wrong())?,
        leaves: from.u64()?,
        live: from.u64()?,
    };
    let count = from.array()?.ok_or_else(wrong)?;
    let mut coins = Vec::new();
    for _ in 0..count {
        coins.push(coin(from)?);
    }
    let output_nodes = pieces::<32>(from)?;
    let chunks = pieces::<128>(from)?.into_iter().map(LiveChunk).collect();
    let live_nodes: Vec<Hash> = pieces::<32>(from)?;
    Ok(Proof { head, coins, output_nodes, chunks, live_nodes })
}

fn coin(from: &mut Decoder<'_>) -> Result<(u64, Leaf), decode::Error> {
    let wrong = || decode::Error::message("not an output");
    if from.array()? != Some(COIN_FIELDS) {
        return Err(wrong());
    }
    let place = from.u64()?;
    let txid = from.bytes()?.try_into().map_err(|_| wrong())?;
    Ok((place, Leaf { txid, vout: from.u32()?, record: from.bytes()?.to_vec() }))
}

fn pieces<const N: usize>(from: &mut Decoder<'_>) -> Result<Vec<[u8; N]>, decode::Error> {
    let (pieces, rest) = from.bytes()?.as_chunks::<N>();
    let wrong = || decode::Error::message("a piece is cut short");
    rest.is_empty().then(|| pieces.to_vec()).ok_or_else(wrong)
}
