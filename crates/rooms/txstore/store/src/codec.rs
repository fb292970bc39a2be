//! Bytes of the packed columns. Each starts with a version byte; numbers are big-endian.
//!
//! | column | after the version |
//! |---|---|
//! | state | flags 1, outputs 4, open ones 4, size 4, fee 8, delete at 4, preserve until 4; the first page of slots; blocks, reassigned outputs and rivals |
//! | a page of slots in `parts` | the slots |
//! | txids of a block | for each: txid 32 |
//!
//! | part | bytes |
//! |---|---|
//! | slot | state 1, child 32, input 4; zeros where there is no child |
//! | list | how many, in groups of 7 bits from the lowest, then for each: |
//! | - block | on the best chain 1, height 4, hash 32 |
//! | - reassigned output | its number 4, hash 32, height 4 |
//! | - rival | txid 32 |
//!
//! What a spend changes has a fixed place, so that a row keeps its length: SQLite then writes the
//! changed bytes into the page instead of moving rows about.

use unspent_model::{
    BlockHash, TxId,
    txstore::{
        MinedIn, OutputHash, PAGE_SLOTS, ReassignedOutput, Slot, SlotCounts, Slots, Spender,
        TxRecord,
    },
};

use crate::error::TxStoreError;

const VERSION: u8 = 1;

const UNSPENDABLE: u8 = 0;
const UNSPENT: u8 = 1;
const SPENT: u8 = 2;
const SPENT_PRUNED: u8 = 3;
const FROZEN: u8 = 4;

const COINBASE: u8 = 1;
const LOCKED: u8 = 2;
const HAS_FEE: u8 = 4;
const HAS_DATE: u8 = 8;
const IS_PRESERVED: u8 = 16;
const ALL_FLAGS: u8 = 31;

const HEAD_BYTES: usize = 30;
const SLOT_BYTES: usize = 37;
const BLOCK_BYTES: usize = 37;

/// Takes fields off the front of stored bytes.
struct FieldReader<'b> {
    rest: &'b [u8],
    what: &'static str,
}

impl<'b> FieldReader<'b> {
    fn open(bytes: &'b [u8], what: &'static str) -> Result<Self, TxStoreError> {
        match bytes.split_first() {
            Some((&VERSION, rest)) => Ok(Self { rest, what }),
            Some((other, _)) => {
                Err(TxStoreError::Corrupt(format!("{what} has unknown version {other}")))
            }
            None => Err(TxStoreError::Corrupt(format!("{what} is empty"))),
        }
    }

    fn short(&self) -> TxStoreError {
        TxStoreError::Corrupt(format!("{} ends too early", self.what))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], TxStoreError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u32, TxStoreError> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    fn count(&mut self) -> Result<usize, TxStoreError> {
        let mut count = 0_usize;
        for shift in (0..32).step_by(7) {
            let [byte] = self.take()?;
            count |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(count);
            }
        }
        Err(TxStoreError::Corrupt(format!("{} has a list that doesn't end", self.what)))
    }

    /// A list whose elements take up `size` bytes each.
    fn list<T>(
        &mut self,
        size: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, TxStoreError>,
    ) -> Result<Vec<T>, TxStoreError> {
        let count = self.count()?;
        // Damaged bytes may promise any number: no memory is taken for what can't be there.
        if count > self.rest.len() / size {
            return Err(self.short());
        }
        (0..count).map(|_| one(self)).collect()
    }

    fn slot(&mut self) -> Result<Slot, TxStoreError> {
        let [state] = self.take::<1>()?;
        let by = Spender { tx: TxId(self.take()?), vin: self.number()? };
        match state {
            UNSPENDABLE => Ok(Slot::Unspendable),
            UNSPENT => Ok(Slot::Unspent),
            SPENT => Ok(Slot::Spent(by)),
            SPENT_PRUNED => Ok(Slot::SpentPruned(by)),
            FROZEN => Ok(Slot::Frozen),
            other => Err(TxStoreError::Corrupt(format!("a slot has unknown state {other}"))),
        }
    }

    fn end(&self) -> Result<(), TxStoreError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(TxStoreError::Corrupt(format!("{} doesn't end where it should", self.what)))
    }
}

fn put_slots(bytes: &mut Vec<u8>, page: &[Slot]) {
    for slot in page {
        let (state, by) = match slot {
            Slot::Unspendable => (UNSPENDABLE, None),
            Slot::Unspent => (UNSPENT, None),
            Slot::Spent(by) => (SPENT, Some(by)),
            Slot::SpentPruned(by) => (SPENT_PRUNED, Some(by)),
            Slot::Frozen => (FROZEN, None),
        };
        bytes.push(state);
        match by {
            Some(by) => {
                bytes.extend_from_slice(&by.tx.0);
                bytes.extend_from_slice(&by.vin.to_be_bytes());
            }
            None => bytes.extend_from_slice(&[0; SLOT_BYTES - 1]),
        }
    }
}

fn put_list<T>(bytes: &mut Vec<u8>, all: &[T], one: impl Fn(&T, &mut Vec<u8>)) {
    let mut left = all.len();
    while left >= 0x80 {
        bytes.push(0x80 | low_bits(left));
        left >>= 7;
    }
    bytes.push(low_bits(left));
    all.iter().for_each(|item| one(item, bytes));
}

fn low_bits(number: usize) -> u8 {
    u8::try_from(number & 0x7f).unwrap_or_default()
}

/// A height, or a length in bytes.
fn narrow(number: u64) -> Result<u32, TxStoreError> {
    u32::try_from(number).map_err(|_| TxStoreError::Argument("a number is beyond 2^32".into()))
}

/// A page of slots beyond the first.
pub(crate) fn slots(page: &[Slot]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + page.len() * SLOT_BYTES);
    bytes.push(VERSION);
    put_slots(&mut bytes, page);
    bytes
}

/// The same, read.
pub(crate) fn read_slots(bytes: &[u8]) -> Result<Vec<Slot>, TxStoreError> {
    let mut fields = FieldReader::open(bytes, "a page of slots")?;
    let mut found = Vec::with_capacity(fields.rest.len() / SLOT_BYTES);
    while !fields.rest.is_empty() {
        found.push(fields.slot()?);
    }
    Ok(found)
}

/// What a record is, without what has a column of its own.
pub(crate) fn state(record: &TxRecord) -> Result<Vec<u8>, TxStoreError> {
    let first = record.slots.page(0).unwrap_or_default();
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let room = HEAD_BYTES + first.len() * SLOT_BYTES + 3 + record.blocks.len() * BLOCK_BYTES;
    let mut bytes = Vec::with_capacity(room);
    bytes.push(VERSION);
    bytes.push(
        flag(record.is_coinbase, COINBASE)
            | flag(record.is_locked, LOCKED)
            | flag(record.fee.is_some(), HAS_FEE)
            | flag(record.delete_at.is_some(), HAS_DATE)
            | flag(record.preserve_until.is_some(), IS_PRESERVED),
    );
    bytes.extend_from_slice(&record.slots.len().to_be_bytes());
    bytes.extend_from_slice(&record.slots.open().to_be_bytes());
    bytes.extend_from_slice(&narrow(record.size)?.to_be_bytes());
    bytes.extend_from_slice(&record.fee.unwrap_or(0).to_be_bytes());
    bytes.extend_from_slice(&narrow(record.delete_at.unwrap_or(0))?.to_be_bytes());
    bytes.extend_from_slice(&narrow(record.preserve_until.unwrap_or(0))?.to_be_bytes());
    put_slots(&mut bytes, first);
    // Refused out here, since what writes a list can't fail.
    for block in &record.blocks {
        narrow(block.height)?;
    }
    put_list(&mut bytes, &record.blocks, |block, bytes| {
        bytes.push(u8::from(block.on_best_chain));
        bytes.extend_from_slice(&narrow(block.height).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(&block.hash.0);
    });
    for given in &record.reassigned {
        narrow(given.spendable_at)?;
    }
    put_list(&mut bytes, &record.reassigned, |given, bytes| {
        bytes.extend_from_slice(&given.vout.to_be_bytes());
        bytes.extend_from_slice(&given.output.0);
        bytes.extend_from_slice(&narrow(given.spendable_at).unwrap_or(u32::MAX).to_be_bytes());
    });
    put_list(&mut bytes, &record.rivals, |rival, bytes| bytes.extend_from_slice(&rival.0));
    Ok(bytes)
}

/// Puts what [`state`] wrote into a record.
pub(crate) fn read_state(bytes: &[u8], record: &mut TxRecord) -> Result<(), TxStoreError> {
    let mut fields = FieldReader::open(bytes, "a record")?;
    let [flags] = fields.take()?;
    if flags & !ALL_FLAGS != 0 {
        return Err(TxStoreError::Corrupt(format!("a record has unknown flags {flags}")));
    }
    let has = |flag: u8| flags & flag != 0;
    (record.is_coinbase, record.is_locked) = (has(COINBASE), has(LOCKED));
    let (count, open) = (fields.number()?, fields.number()?);
    record.size = fields.number()?.into();
    let fee = u64::from_be_bytes(fields.take()?);
    record.fee = has(HAS_FEE).then_some(fee);
    let (date, preserved) = (fields.number()?, fields.number()?);
    record.delete_at = has(HAS_DATE).then_some(date.into());
    record.preserve_until = has(IS_PRESERVED).then_some(preserved.into());
    let first = (0..(count as usize).min(PAGE_SLOTS)).map(|_| fields.slot());
    record.slots = Slots::stored(SlotCounts { count, open }, first.collect::<Result<_, _>>()?);
    record.blocks = fields.list(BLOCK_BYTES, |fields| {
        let [best] = fields.take::<1>()?;
        let height = fields.number()?.into();
        Ok(MinedIn { height, hash: BlockHash(fields.take()?), on_best_chain: best == 1 })
    })?;
    record.reassigned = fields.list(40, |fields| {
        let vout = fields.number()?;
        let output = OutputHash(fields.take()?);
        Ok(ReassignedOutput { vout, output, spendable_at: fields.number()?.into() })
    })?;
    record.rivals = fields.list(32, |fields| Ok(TxId(fields.take()?)))?;
    fields.end()
}

/// Names of the transactions of a block.
pub(crate) fn txids(all: impl Iterator<Item = TxId>) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    all.for_each(|txid| bytes.extend_from_slice(&txid.0));
    bytes
}

/// The same, read.
pub(crate) fn read_txids(bytes: &[u8]) -> Result<Vec<TxId>, TxStoreError> {
    let mut fields = FieldReader::open(bytes, "a list of transactions")?;
    let mut found = Vec::with_capacity(fields.rest.len() / 32);
    while !fields.rest.is_empty() {
        found.push(TxId(fields.take()?));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: Spender = Spender { tx: TxId([9; 32]), vin: 70_000 };
    const PAGE: [Slot; 5] =
        [Slot::Unspendable, Slot::Unspent, Slot::Spent(BY), Slot::SpentPruned(BY), Slot::Frozen];

    fn full() -> TxRecord {
        let block = MinedIn { height: 7, hash: BlockHash([3; 32]), on_best_chain: true };
        TxRecord {
            is_coinbase: true,
            fee: Some(0),
            size: 301,
            reassigned: vec![ReassignedOutput {
                vout: 4,
                output: OutputHash([1; 32]),
                spendable_at: 9,
            }],
            rivals: (0..300_u16).map(|n| TxId([n.to_be_bytes()[1]; 32])).collect(),
            blocks: vec![block, MinedIn { on_best_chain: false, ..block }],
            is_locked: true,
            delete_at: Some(288),
            preserve_until: Some(0),
            ..TxRecord::new(TxId([5; 32]), Slots::new(&PAGE), 1)
        }
    }

    fn read(bytes: &[u8]) -> Result<TxRecord, TxStoreError> {
        let mut record = TxRecord::new(TxId([5; 32]), Slots::new(&[]), 1);
        read_state(bytes, &mut record)?;
        Ok(record)
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read_slots(&slots(&PAGE)).unwrap(), PAGE);
        assert_eq!(read_slots(&slots(&[])).unwrap(), []);
        let empty = TxRecord::new(TxId([5; 32]), Slots::new(&[]), 1);
        for record in [full(), empty] {
            assert_eq!(read(&state(&record).unwrap()).unwrap(), record);
        }
        let names = [TxId([1; 32]), TxId([2; 32])];
        assert_eq!(read_txids(&txids(names.into_iter())).unwrap(), names);
    }

    #[test]
    fn only_the_first_page_is_in_the_state() {
        let long = vec![Slot::Unspent; PAGE_SLOTS + 1];
        let record = TxRecord::new(TxId([5; 32]), Slots::new(&long), 1);
        let found = read(&state(&record).unwrap()).unwrap();
        assert_eq!((found.slots.len(), found.slots.open()), (65, 65));
        assert_eq!(found.slots.missing_pages().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn the_format_is_this_and_no_other() {
        let by = Spender { tx: TxId([0xab; 32]), vin: 2 };
        let page = [Slot::Unspent, Slot::Spent(by)];
        let bytes = slots(&page);
        assert_eq!(bytes[..2], [1, 1]);
        assert_eq!(bytes[2..38], [0; 36]);
        assert_eq!(bytes[38], 2);
        assert_eq!(bytes[39..71], [0xab; 32]);
        assert_eq!(bytes[71..], [0, 0, 0, 2]);
        let block = MinedIn { height: 258, hash: BlockHash([3; 32]), on_best_chain: true };
        let record = TxRecord {
            fee: Some(7),
            size: 300,
            blocks: vec![block],
            delete_at: Some(288),
            ..TxRecord::new(TxId([5; 32]), Slots::new(&page), 1)
        };
        let state = state(&record).unwrap();
        assert_eq!(state[..14], [1, 12, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 1, 44]);
        assert_eq!(state[14..30], [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 1, 32, 0, 0, 0, 0]);
        assert_eq!(state[30..104], bytes[1..]);
        assert_eq!(state[104..110], [1, 1, 0, 0, 1, 2]);
        assert_eq!(state[110..142], [3; 32]);
        assert_eq!(state[142..], [0, 0]);
    }

    #[test]
    fn a_spend_leaves_the_length_as_it_is() {
        let mut record = TxRecord::new(TxId([5; 32]), Slots::new(&[Slot::Unspent]), 1);
        let before = state(&record).unwrap();
        record.slots.set(0, Slot::Spent(BY));
        record.delete_at = Some(1_000);
        let after = state(&record).unwrap();
        assert!(before != after && before.len() == after.len());
    }

    #[test]
    fn what_is_cut_or_unknown_is_named() {
        let bytes = slots(&[Slot::Spent(BY)]);
        for cut in 0..bytes.len() {
            assert_eq!(read_slots(&bytes[..cut]).is_ok(), cut == 1, "{cut}");
        }
        let bytes = state(&full()).unwrap();
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
        let said = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert!(said(&[&bytes[..], &[0]].concat()).contains("doesn't end where it should"));
        assert!(said(&[1, 32]).contains("unknown flags 32"));
        assert!(read_slots(&[2, 1]).unwrap_err().to_string().contains("unknown version 2"));
        let odd = [&[1, 9][..], &[0; 36]].concat();
        assert!(read_slots(&odd).unwrap_err().to_string().contains("unknown state 9"));
    }

    #[test]
    fn heights_beyond_32_bits_are_refused() {
        let record = TxRecord { delete_at: Some(1 << 32), ..full() };
        assert!(state(&record).unwrap_err().to_string().contains("beyond 2^32"));
    }
}
