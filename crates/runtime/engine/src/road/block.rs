//! A block that all rooms share.
//!
//! Reading a modern Bitcoin block costs more than most rooms spend on it: two hashes for every
//! transaction, an allocation for every script. So it is parsed and checked once, whoever comes
//! first, and everybody else takes a reference to what came of it.

use std::sync::{Arc, OnceLock};

use unspent_model::{
    BlockHash, Network, Point,
    chain::{Block, Output},
};
use unspent_networks::{bitcoin::ParsedBlock, decode_block};
use unspent_source::{RawBlock, files::Place};

const OTHER_BLOCK: &str = "it is not the requested block";

/// A block with what has been decoded of it.
#[derive(Debug)]
pub struct SharedBlock {
    /// Where the source says it stands.
    pub point: Point,
    /// The block below it; `None` for the first.
    pub parent: Option<BlockHash>,
    /// The block as it came.
    pub bytes: Arc<[u8]>,
    /// Where it lies, if in a file.
    pub place: Option<Place>,
    /// More than one room takes it.
    is_shared: bool,
    parsed: OnceLock<Result<ParsedBlock, String>>,
}

impl SharedBlock {
    /// A block that one room alone takes.
    pub fn new(raw: RawBlock) -> Self {
        let RawBlock { point, parent, bytes, place } = raw;
        Self { point, parent, bytes, place, is_shared: false, parsed: OnceLock::new() }
    }

    /// A block that several rooms take.
    pub(super) fn shared(raw: RawBlock) -> Self {
        Self { is_shared: true, ..Self::new(raw) }
    }

    /// The block as Bitcoin has it, its transactions checked against its header.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the block.
    pub fn bitcoin(&self) -> Result<&ParsedBlock, String> {
        let parsed = self.parsed.get_or_init(|| {
            let parsed = ParsedBlock::parse(&self.bytes).map_err(|error| error.to_string())?;
            let is_asked_for = parsed.header().hash == self.point.hash;
            is_asked_for.then_some(parsed).ok_or_else(|| OTHER_BLOCK.into())
        });
        parsed.as_ref().map_err(Clone::clone)
    }

    /// What the block does to coins, checked like [`bitcoin`](Self::bitcoin).
    ///
    /// # Errors
    ///
    /// Says what is wrong with the block.
    pub fn decode(&self, network: Network) -> Result<Block<Output>, String> {
        let height = Some(self.point.height);
        // A room alone may take the parsed block apart; what is shared has to be copied from.
        let decoded = if self.is_shared && network.family() == unspent_model::Family::Bitcoin {
            self.bitcoin()?.to_model(network, height)
        } else {
            decode_block(network, &self.bytes, height)
        };
        let decoded = decoded.map_err(|error| error.to_string())?;
        let is_asked_for = decoded.header.point.hash == self.point.hash;
        is_asked_for.then_some(decoded).ok_or_else(|| OTHER_BLOCK.into())
    }

    /// How errors name it.
    pub(super) fn name(&self, network: Network) -> String {
        match &self.place {
            Some(place) => place.name(),
            None => {
                let hash = network.show_hash(&self.point.hash.0);
                format!("block {hash} at height {}", self.point.height)
            }
        }
    }
}
