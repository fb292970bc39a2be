//! A transaction before it is stored.

use std::sync::Arc;

use bitcoin::{
    OutPoint, Transaction, TxOut,
    consensus::{deserialize, serialize},
    hashes::{Hash as _, HashEngine as _, sha256},
};
use unspent_model::{
    BlockHash, Outpoint, Point, TxId,
    txstore::{OutputHash, Slot, Slots, TxRecord, is_unspendable},
};

use crate::error::TxStoreError;

/// A transaction as the store takes it. Copies share the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTx {
    /// Its name.
    pub txid: TxId,
    /// Its bytes, with witness.
    pub body: Arc<[u8]>,
    /// What it spends, in the order of its inputs; nothing for a coinbase.
    pub inputs: Vec<Outpoint>,
    /// For each output whether it can ever be spent.
    pub spendable: Vec<bool>,
    /// Whether it is the first of a block.
    pub is_coinbase: bool,
    /// What it pays, when that is known.
    pub fee: Option<u64>,
}

impl NewTx {
    /// From its bytes.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::NotATransaction`].
    pub fn decode(body: &[u8]) -> Result<Self, TxStoreError> {
        let tx = parse(body)?;
        let txid = TxId(tx.compute_txid().to_byte_array());
        Ok(Self::made(&tx, txid, body.into()))
    }

    /// From a parsed transaction.
    pub fn from_tx(tx: &Transaction) -> Self {
        Self::with_txid(tx, TxId(tx.compute_txid().to_byte_array()))
    }

    /// The same, for callers who have hashed it already.
    pub fn with_txid(tx: &Transaction, txid: TxId) -> Self {
        Self::made(tx, txid, serialize(tx).into())
    }

    fn made(tx: &Transaction, txid: TxId, body: Arc<[u8]>) -> Self {
        let spendable = tx.output.iter();
        let spendable = spendable.map(|output| !is_unspendable(output.script_pubkey.as_bytes()));
        Self {
            txid,
            body,
            inputs: inputs(tx),
            spendable: spendable.collect(),
            is_coinbase: tx.is_coinbase(),
            fee: None,
        }
    }

    /// As a record that is in no block yet.
    pub(crate) fn record(&self, height: u64) -> TxRecord {
        let slot = |spendable: &bool| if *spendable { Slot::Unspent } else { Slot::Unspendable };
        let slots: Vec<Slot> = self.spendable.iter().map(slot).collect();
        TxRecord {
            is_coinbase: self.is_coinbase,
            fee: self.fee,
            size: self.body.len() as u64,
            ..TxRecord::new(self.txid, Slots::new(&slots), height)
        }
    }
}

/// A block as the store takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBlock {
    /// Where it stands.
    pub point: Point,
    /// The block below it; `None` for the first of a chain.
    pub parent: Option<BlockHash>,
    /// Its transactions, in order.
    pub txs: Vec<NewTx>,
}

impl NewBlock {
    /// From a parsed block, with the names of its transactions when they are known already.
    pub fn new(height: u64, hash: BlockHash, block: &bitcoin::Block, txids: &[TxId]) -> Self {
        let txs = block.txdata.iter().enumerate().map(|(at, tx)| match txids.get(at) {
            Some(txid) => NewTx::with_txid(tx, *txid),
            None => NewTx::from_tx(tx),
        });
        let parent = block.header.prev_blockhash.to_byte_array();
        Self {
            point: Point { height, slot: height, hash },
            parent: (parent != [0; 32]).then_some(BlockHash(parent)),
            txs: txs.collect(),
        }
    }
}

/// What a transaction spends; nothing for a coinbase.
fn inputs(tx: &Transaction) -> Vec<Outpoint> {
    if tx.is_coinbase() {
        return Vec::new();
    }
    tx.input.iter().map(|input| outpoint(input.previous_output)).collect()
}

pub(crate) fn outpoint(coin: OutPoint) -> Outpoint {
    Outpoint::new(TxId(coin.txid.to_byte_array()), coin.vout)
}

pub(crate) fn parse(body: &[u8]) -> Result<Transaction, TxStoreError> {
    deserialize(body).map_err(|error| TxStoreError::NotATransaction(error.to_string()))
}

/// What the stored bytes of a transaction spend, without parsing the rest of it.
pub(crate) fn stored_inputs(body: &[u8]) -> Result<Vec<Outpoint>, TxStoreError> {
    let cut = || TxStoreError::Corrupt("the stored bytes of a transaction are cut short".into());
    scan_inputs(body).ok_or_else(cut)
}

/// Version, the marker of witnesses where there are some, then the inputs.
fn scan_inputs(body: &[u8]) -> Option<Vec<Outpoint>> {
    let rest = body.get(4..)?;
    // BIP 144 marks witnesses by a zero where the inputs are counted, and no valid transaction has
    // none.
    let mut rest = rest.strip_prefix(&[0, 1]).unwrap_or(rest);
    let count = take_number(&mut rest).filter(|count| *count > 0)?;
    let mut found = Vec::new();
    for _ in 0..count {
        let (txid, after) = rest.split_first_chunk::<32>()?;
        let (index, after) = after.split_first_chunk::<4>()?;
        rest = after;
        found.push(Outpoint::new(TxId(*txid), u32::from_le_bytes(*index)));
        let script = usize::try_from(take_number(&mut rest)?).ok()?;
        rest = rest.get(script.checked_add(4)?..)?;
    }
    let is_coinbase = matches!(found[..], [only] if only == NO_COIN);
    Some(if is_coinbase { Vec::new() } else { found })
}

/// What a coinbase names as its previous output.
const NO_COIN: Outpoint = Outpoint { tx: TxId([0; 32]), index: u32::MAX };

/// A number as Bitcoin writes lengths.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    let more = match first {
        0xfd => 2,
        0xfe => 4,
        0xff => 8,
        small => return Some(u64::from(*small)),
    };
    let (number, rest) = bytes.split_at_checked(more)?;
    *bytes = rest;
    Some(number.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

/// What an output is: its place, value and script under one hash.
pub fn output_hash(coin: Outpoint, output: &TxOut) -> OutputHash {
    let mut engine = sha256::Hash::engine();
    engine.input(&coin.tx.0);
    engine.input(&coin.index.to_le_bytes());
    engine.input(&output.value.to_sat().to_le_bytes());
    engine.input(output.script_pubkey.as_bytes());
    OutputHash(sha256::Hash::from_engine(engine).to_byte_array())
}

#[cfg(test)]
mod tests {
    use bitcoin::{ScriptBuf, Sequence, TxIn, Witness, absolute::LockTime, transaction::Version};

    use super::*;

    fn tx(inputs: u32, script: usize, witness: bool) -> Transaction {
        let input = |at: u32| TxIn {
            previous_output: OutPoint { txid: bitcoin::Txid::hash(&at.to_le_bytes()), vout: at },
            script_sig: ScriptBuf::from_bytes(vec![1; script]),
            sequence: Sequence::MAX,
            witness: if witness { Witness::from_slice(&[[7; 9]]) } else { Witness::new() },
        };
        let output = TxOut { value: bitcoin::Amount::ONE_SAT, script_pubkey: ScriptBuf::new() };
        Transaction {
            version: Version::TWO,
            lock_time: LockTime::ZERO,
            input: (0..inputs).map(input).collect(),
            output: vec![output],
        }
    }

    #[test]
    fn stored_bytes_spend_what_the_transaction_spends() {
        for count in [1, 2, 252, 253, 300] {
            for (script, witness) in
                [(0, true), (107, false), (252, true), (253, false), (70_000, true)]
            {
                let made = NewTx::from_tx(&tx(count, script, witness));
                assert_eq!(stored_inputs(&made.body).unwrap(), made.inputs);
                assert_eq!(NewTx::decode(&made.body).unwrap(), made);
            }
        }
        let mut reward = tx(1, 4, false);
        reward.input[0].previous_output = OutPoint::null();
        let reward = NewTx::from_tx(&reward);
        assert!(reward.is_coinbase && stored_inputs(&reward.body).unwrap().is_empty());
    }

    #[test]
    fn cut_bytes_are_named() {
        let made = NewTx::from_tx(&tx(3, 5, true));
        for cut in 0..3 * 46 {
            assert!(stored_inputs(&made.body[..cut]).is_err(), "{cut}");
            assert!(NewTx::decode(&made.body[..cut]).is_err());
        }
    }
}
