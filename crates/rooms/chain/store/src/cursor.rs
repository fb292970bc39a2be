//! The place in a list where a page ended, as an opaque text.
//!
//! It names a place, not a coin: spending the coin it came from does not spoil it.

use std::{fmt, str::FromStr};

use unspent_model::Outpoint;

use crate::{
    error::QueryError,
    schema::{AddressKey, OutpointKey, Owner},
};

/// Bytes behind the owner in a list key.
const LENGTH: usize = AddressKey::LEN - Owner::LEN;

/// Where a page ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageCursor {
    slot: u64,
    tx_position: u32,
    outpoint: Outpoint,
}

impl PageCursor {
    pub(crate) fn after(key: &AddressKey) -> Self {
        Self { slot: key.slot, tx_position: key.tx_position, outpoint: key.outpoint }
    }

    pub(crate) fn key(&self, owner: Owner) -> AddressKey {
        let Self { slot, tx_position, outpoint } = *self;
        AddressKey { owner, slot, tx_position, outpoint }
    }
}

impl fmt::Display for PageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:08x}", self.slot, self.tx_position)?;
        OutpointKey(self.outpoint).encode().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for PageCursor {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        parse(text).ok_or(QueryError::Cursor)
    }
}

fn parse(text: &str) -> Option<PageCursor> {
    // `from_str_radix` would also take a leading plus: one place would have two names.
    if text.len() != 2 * LENGTH || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let slot = u64::from_str_radix(text.get(..16)?, 16).ok()?;
    let tx_position = u32::from_str_radix(text.get(16..24)?, 16).ok()?;
    let mut key = [0; OutpointKey::LEN];
    for (i, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(24 + 2 * i..26 + 2 * i)?, 16).ok()?;
    }
    let outpoint = OutpointKey::decode(&key).ok()?.0;
    Some(PageCursor { slot, tx_position, outpoint })
}

#[cfg(test)]
mod tests {
    use unspent_model::TxId;

    use super::*;

    #[test]
    fn a_cursor_survives_its_text_form_and_garbage_is_refused() {
        let outpoint = Outpoint::new(TxId([7; 32]), 9);
        let cursor = PageCursor { slot: 1, tx_position: 2, outpoint };
        assert_eq!(cursor.to_string().parse::<PageCursor>().ok(), Some(cursor));
        for bad in ["", "zz", &"+1".repeat(48), &"é".repeat(48), &cursor.to_string()[1..]] {
            assert!(bad.parse::<PageCursor>().is_err(), "{bad}");
        }
    }
}
