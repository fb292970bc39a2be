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

/// What the stored bytes of a transaction spend.
pub(crate) fn stored_inputs(body: &[u8]) -> Result<Vec<Outpoint>, TxStoreError> {
    Ok(inputs(&parse(body).map_err(|error| TxStoreError::Corrupt(error.to_string()))?))
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
