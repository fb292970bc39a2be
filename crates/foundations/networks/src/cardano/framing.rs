//! Chunk files of a node: CBOR items back to back, with nothing between them.

use pallas_codec::minicbor::Decoder;

use super::MAX_BLOCK_BYTES;

/// A chunk that can't be cut further. Items before the offset are fine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The bytes end inside an item: the file is being written, or it was cut.
    #[error("the chunk ends inside the item at byte {offset}; wait for the node or copy it again")]
    Torn {
        /// Where the item starts.
        offset: usize,
    },
    /// What is there isn't CBOR.
    #[error("no CBOR item at byte {offset}: {reason}; this is not a chunk file, or it is damaged")]
    Malformed {
        /// Where the item starts.
        offset: usize,
        /// What the decoder said.
        reason: String,
    },
    /// The item is larger than any block.
    #[error("the item at byte {offset} is larger than a block may be ({limit} bytes)")]
    TooLarge {
        /// Where the item starts.
        offset: usize,
        /// The most an item may have.
        limit: usize,
    },
}

/// The items of a chunk, one after the other. Nothing follows the first error.
pub fn split_cbor_items(bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], SplitError>> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let here = rest.take().filter(|here| !here.is_empty())?;
        let offset = bytes.len() - here.len();
        Some(first_item(here, offset).map(|(item, after)| {
            rest = Some(after);
            item
        }))
    })
}

fn first_item(bytes: &[u8], offset: usize) -> Result<(&[u8], &[u8]), SplitError> {
    // Damage can make an item claim any length: it isn't followed through the whole file.
    let window = bytes.get(..MAX_BLOCK_BYTES).unwrap_or(bytes);
    let mut d = Decoder::new(window);
    match d.skip() {
        Ok(()) => bytes.split_at_checked(d.position()).ok_or(SplitError::Torn { offset }),
        Err(e) if e.is_end_of_input() && window.len() < bytes.len() => {
            Err(SplitError::TooLarge { offset, limit: MAX_BLOCK_BYTES })
        }
        Err(e) if e.is_end_of_input() => Err(SplitError::Torn { offset }),
        Err(e) => Err(SplitError::Malformed { offset, reason: e.to_string() }),
    }
}
