//! Bytes of the packed columns. Each starts with a version byte.
//!
//! | column | after the version |
//! |---|---|
//! | slots, a page of them in `parts` | for each slot a state byte; spent ones: child 32, input 4 |
//! | blocks | for each block: on the best chain 1, height 8, hash 32 |
//! | reassigned | for each output: its number 4, hash 32, height 8 |
//! | rivals | for each: txid 32 |
//! | txids of a block | for each: txid 32 |
//!
//! Numbers are big-endian.

use unspent_model::{
    BlockHash, TxId,
    txstore::{MinedIn, OutputHash, Reassigned, Slot, Spender},
};

use crate::error::TxStoreError;

const VERSION: u8 = 1;

const UNSPENDABLE: u8 = 0;
const UNSPENT: u8 = 1;
const SPENT: u8 = 2;
const SPENT_PRUNED: u8 = 3;
const FROZEN: u8 = 4;

/// Takes fields off the front of stored bytes.
struct Fields<'b> {
    rest: &'b [u8],
    what: &'static str,
}

impl<'b> Fields<'b> {
    fn open(bytes: &'b [u8], what: &'static str) -> Result<Self, TxStoreError> {
        match bytes.split_first() {
            Some((&VERSION, rest)) => Ok(Self { rest, what }),
            Some((other, _)) => {
                Err(TxStoreError::Corrupt(format!("{what} have the unknown version {other}")))
            }
            None => Err(TxStoreError::Corrupt(format!("{what} are empty"))),
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], TxStoreError> {
        let short = || TxStoreError::Corrupt(format!("{} end too early", self.what));
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(short)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn all<T>(
        mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, TxStoreError>,
    ) -> Result<Vec<T>, TxStoreError> {
        let mut found = Vec::new();
        while !self.rest.is_empty() {
            found.push(one(&mut self)?);
        }
        Ok(found)
    }
}

/// A page of slots.
pub(crate) fn slots(page: &[Slot]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    for slot in page {
        let (state, by) = match slot {
            Slot::Unspendable => (UNSPENDABLE, None),
            Slot::Unspent => (UNSPENT, None),
            Slot::Spent(by) => (SPENT, Some(by)),
            Slot::SpentPruned(by) => (SPENT_PRUNED, Some(by)),
            Slot::Frozen => (FROZEN, None),
        };
        bytes.push(state);
        if let Some(by) = by {
            bytes.extend_from_slice(&by.tx.0);
            bytes.extend_from_slice(&by.vin.to_be_bytes());
        }
    }
    bytes
}

/// The same, read.
pub(crate) fn read_slots(bytes: &[u8]) -> Result<Vec<Slot>, TxStoreError> {
    Fields::open(bytes, "slots")?.all(|fields| {
        let [state] = fields.take::<1>()?;
        let mut by = || -> Result<Spender, TxStoreError> {
            let tx = TxId(fields.take()?);
            Ok(Spender { tx, vin: u32::from_be_bytes(fields.take()?) })
        };
        match state {
            UNSPENDABLE => Ok(Slot::Unspendable),
            UNSPENT => Ok(Slot::Unspent),
            SPENT => Ok(Slot::Spent(by()?)),
            SPENT_PRUNED => Ok(Slot::SpentPruned(by()?)),
            FROZEN => Ok(Slot::Frozen),
            other => Err(TxStoreError::Corrupt(format!("a slot has the unknown state {other}"))),
        }
    })
}

/// Nothing for an empty list.
fn listed<T>(all: &[T], one: impl Fn(&T, &mut Vec<u8>)) -> Option<Vec<u8>> {
    if all.is_empty() {
        return None;
    }
    let mut bytes = vec![VERSION];
    all.iter().for_each(|item| one(item, &mut bytes));
    Some(bytes)
}

/// The blocks of a record.
pub(crate) fn blocks(all: &[MinedIn]) -> Option<Vec<u8>> {
    listed(all, |block, bytes| {
        bytes.push(u8::from(block.on_best_chain));
        bytes.extend_from_slice(&block.height.to_be_bytes());
        bytes.extend_from_slice(&block.hash.0);
    })
}

/// The same, read.
pub(crate) fn read_blocks(bytes: &[u8]) -> Result<Vec<MinedIn>, TxStoreError> {
    Fields::open(bytes, "blocks")?.all(|fields| {
        let [best] = fields.take::<1>()?;
        let height = u64::from_be_bytes(fields.take()?);
        Ok(MinedIn { height, hash: BlockHash(fields.take()?), on_best_chain: best == 1 })
    })
}

/// Outputs that changed hands.
pub(crate) fn reassigned(all: &[Reassigned]) -> Option<Vec<u8>> {
    listed(all, |given, bytes| {
        bytes.extend_from_slice(&given.vout.to_be_bytes());
        bytes.extend_from_slice(&given.output.0);
        bytes.extend_from_slice(&given.spendable_at.to_be_bytes());
    })
}

/// The same, read.
pub(crate) fn read_reassigned(bytes: &[u8]) -> Result<Vec<Reassigned>, TxStoreError> {
    Fields::open(bytes, "reassigned outputs")?.all(|fields| {
        let vout = u32::from_be_bytes(fields.take()?);
        let output = OutputHash(fields.take()?);
        Ok(Reassigned { vout, output, spendable_at: u64::from_be_bytes(fields.take()?) })
    })
}

/// Names of transactions, for a column that may be null.
pub(crate) fn rivals(all: &[TxId]) -> Option<Vec<u8>> {
    listed(all, |txid, bytes| bytes.extend_from_slice(&txid.0))
}

/// Names of the transactions of a block.
pub(crate) fn txids(all: impl Iterator<Item = TxId>) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    all.for_each(|txid| bytes.extend_from_slice(&txid.0));
    bytes
}

/// Either of them, read.
pub(crate) fn read_txids(bytes: &[u8]) -> Result<Vec<TxId>, TxStoreError> {
    Fields::open(bytes, "names of transactions")?.all(|fields| Ok(TxId(fields.take()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let by = Spender { tx: TxId([9; 32]), vin: 70_000 };
        let page = [
            Slot::Unspendable,
            Slot::Unspent,
            Slot::Spent(by),
            Slot::SpentPruned(by),
            Slot::Frozen,
        ];
        assert_eq!(read_slots(&slots(&page)).unwrap(), page);
        assert_eq!(read_slots(&slots(&[])).unwrap(), []);
        let block = MinedIn { height: 7, hash: BlockHash([3; 32]), on_best_chain: true };
        let fork = MinedIn { on_best_chain: false, ..block };
        assert_eq!(read_blocks(&blocks(&[block, fork]).unwrap()).unwrap(), [block, fork]);
        let given = Reassigned { vout: 4, output: OutputHash([1; 32]), spendable_at: 9 };
        assert_eq!(read_reassigned(&reassigned(&[given]).unwrap()).unwrap(), [given]);
        let names = [TxId([1; 32]), TxId([2; 32])];
        assert_eq!(read_txids(&rivals(&names).unwrap()).unwrap(), names);
        assert_eq!(read_txids(&txids(names.into_iter())).unwrap(), names);
        assert!(blocks(&[]).is_none() && rivals(&[]).is_none() && reassigned(&[]).is_none());
    }

    #[test]
    fn the_format_is_this_and_no_other() {
        let by = Spender { tx: TxId([0xab; 32]), vin: 2 };
        let bytes = slots(&[Slot::Unspent, Slot::Spent(by)]);
        assert_eq!(bytes[..3], [1, 1, 2]);
        assert_eq!(bytes[3..35], [0xab; 32]);
        assert_eq!(bytes[35..], [0, 0, 0, 2]);
    }

    #[test]
    fn what_is_cut_or_unknown_is_named() {
        let by = Spender { tx: TxId([9; 32]), vin: 1 };
        let bytes = slots(&[Slot::Spent(by)]);
        for cut in 0..bytes.len() {
            let read = read_slots(&bytes[..cut]);
            assert_eq!(read.is_ok(), cut == 1, "{cut}");
        }
        assert!(read_slots(&[2, 1]).unwrap_err().to_string().contains("unknown version 2"));
        assert!(read_slots(&[1, 9]).unwrap_err().to_string().contains("unknown state 9"));
    }
}
