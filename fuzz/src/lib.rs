//! What the targets share: values made from a fuzzer's bytes, and damage done to encoded ones.

use unspent_model::{
    BlockHash, Outpoint, Point, TxId,
    chain::{Asset, Born, Era, Header, Output, Record, Work},
};

/// Choices made by the fuzzer; zeros when its bytes are used up.
pub struct Source<'a>(pub &'a [u8]);

impl Source<'_> {
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub fn flag(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    /// Any number; all lengths of encoding are likely.
    pub fn number(&mut self) -> u64 {
        let length = self.byte() % 9;
        (0..length).fold(0, |number, _| (number << 8) | u64::from(self.byte()))
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    pub fn bytes(&mut self) -> Vec<u8> {
        // Two kinds of CBOR length heads at least.
        let length = usize::from(self.byte()) * if self.flag() { 2 } else { 1 };
        let length = length.min(self.0.len());
        (0..length).map(|_| self.byte()).collect()
    }

    pub fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.flag() { Some(make(self)) } else { None }
    }

    pub fn list<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.byte() % 4).map(|_| make(self)).collect()
    }

    pub fn tx(&mut self) -> TxId {
        TxId(self.array())
    }

    pub fn outpoint(&mut self) -> Outpoint {
        Outpoint::new(self.tx(), u32::from_be_bytes(self.array()))
    }

    pub fn point(&mut self) -> Point {
        Point { height: self.number(), slot: self.number(), hash: BlockHash(self.array()) }
    }

    pub fn record(&mut self) -> Record {
        let output = Output {
            addr: self.bytes(),
            value: self.number(),
            assets: self.list(|source| Asset {
                policy: source.array(),
                name: source.bytes(),
                quantity: source.number(),
            }),
            data_hash: self.maybe(Self::array),
            inline_datum: self.maybe(Self::bytes),
            script_ref: self.maybe(Self::bytes),
            reference_script_hash: self.maybe(Self::array),
            is_collateral_return: self.flag(),
            is_coinbase: self.flag(),
            payment_credential: self.maybe(Self::array),
            stake_credential: self.maybe(Self::array),
            stake_addr: self.maybe(Self::bytes),
        };
        let Point { height, slot, hash } = self.point();
        let born = Born {
            slot,
            block_number: height,
            block_hash: hash,
            epoch: self.maybe(Self::number),
            block_time: self.number(),
            tx_position: u32::from_be_bytes(self.array()),
        };
        Record { output, born }
    }
}

/// A header with these particulars and nothing else.
pub fn header(point: Point, time: u64, epoch: Option<u64>) -> Header {
    Header {
        point,
        parent: BlockHash::default(),
        era: Era::Conway,
        is_boundary: false,
        epoch,
        time,
        work: Work::default(),
    }
}

/// Changes, drops or doubles a byte.
pub fn damage(encoded: &mut Vec<u8>, source: &mut Source<'_>) {
    if encoded.is_empty() {
        return;
    }
    let at = usize::from(u16::from_be_bytes(source.array())) % encoded.len();
    match source.byte() {
        0 => {
            encoded.remove(at);
        }
        1 => encoded.insert(at, encoded[at]),
        2 => encoded.truncate(at),
        flip => encoded[at] ^= flip,
    }
}
