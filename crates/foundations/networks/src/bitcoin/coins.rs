//! What a Bitcoin block does to coins.
//!
//! Three things in a block don't say plainly what they mean.
//!
//! - Its height. The header doesn't carry it. A block of version 2 or later names it in its
//!   coinbase ([BIP 34]; mainnet's last block of version 1 is 227,835), but a version is only a
//!   claim. So a caller who knows the header chain is believed first.
//! - The first block's coinbase. Core never added it to its coin set, so it can't be spent, and we
//!   don't create it either.
//! - Outputs that can't ever be spent: those that start with `OP_RETURN`, and those with a longer
//!   script than any script may be. They are left out, as by `IsUnspendable` in Core's
//!   [`script/script.h`].
//!
//! [BIP 34]: https://github.com/bitcoin/bips/blob/master/bip-0034.mediawiki
//! [`script/script.h`]: https://github.com/bitcoin/bitcoin/blob/master/src/script/script.h

use std::{borrow::Borrow, sync::Arc};

use bitcoin::{
    ScriptBuf, Transaction, TxOut, Txid,
    blockdata::{
        constants::ChainHash,
        opcodes::{Opcode, all as opcodes},
        script::{Instruction, Script, read_scriptint},
    },
    hashes::Hash,
};
use unspent_model::{
    BlockHash, Network, Outpoint, Point, TxId,
    chain::{Block, Era, Header, Output, Tx},
};

use super::{MAX_SCRIPT_BYTES, ParsedBlock, RawHeader};
use crate::{DecodeError, spends::without_repeats};

/// The hash of a Bitcoin network's first block; `None` for Cardano, where genesis is no block.
pub fn genesis_hash(network: Network) -> Option<BlockHash> {
    let network = super::library_network(network)?;
    Some(BlockHash(ChainHash::using_genesis_block_const(network).to_bytes()))
}

impl ParsedBlock {
    /// What the block does to coins. `height` is what the header chain says; without it, the block
    /// must be the network's first or name its height.
    ///
    /// # Errors
    ///
    /// [`DecodeError::HeightUnknown`], and nothing else.
    pub fn to_model(
        &self,
        network: Network,
        height: Option<u64>,
    ) -> Result<Block<Output>, DecodeError> {
        let header = self.model_header(network, height)?;
        let txs = self.block().txdata.iter().map(|tx| {
            let creates =
                creates(tx.is_coinbase(), tx.output.iter(), |out| out.script_pubkey.clone());
            (spends(tx), creates)
        });
        Ok(model_block(header, self.txids(), txs))
    }

    /// The same for a block that nobody else needs: its scripts are taken, not copied.
    pub(crate) fn into_model(
        self,
        network: Network,
        height: Option<u64>,
    ) -> Result<Block<Output>, DecodeError> {
        let header = self.model_header(network, height)?;
        let (block, txids) = self.into_parts();
        let txs = Arc::unwrap_or_clone(block).txdata.into_iter().map(|tx| {
            let spends = spends(&tx);
            (spends, creates(tx.is_coinbase(), tx.output.into_iter(), |out| out.script_pubkey))
        });
        Ok(model_block(header, &txids, txs))
    }

    fn model_header(&self, network: Network, height: Option<u64>) -> Result<Header, DecodeError> {
        let RawHeader { hash, parent, work, time } = *self.header();
        let is_first = genesis_hash(network) == Some(hash);
        let height = height
            .or_else(|| is_first.then_some(0))
            .or_else(|| named_height(self.block()))
            .ok_or(DecodeError::HeightUnknown)?;
        let point = Point { height, slot: height, hash };
        let era = Era::Bitcoin;
        Ok(Header { point, parent, era, is_boundary: false, epoch: None, time, work })
    }
}

type Coins = (Vec<Outpoint>, Vec<(u32, Output)>);

fn model_block(header: Header, txids: &[Txid], txs: impl Iterator<Item = Coins>) -> Block<Output> {
    let txs = txids.iter().zip(txs).enumerate().map(|(position, (id, (spends, creates)))| Tx {
        id: TxId(id.to_byte_array()),
        spends,
        // The first block's coinbase was never added to the coin set.
        creates: if header.point.height == 0 { Vec::new() } else { creates },
        is_invalid: false,
        is_coinbase: position == 0,
    });
    Block { header, txs: txs.collect() }
}

/// The height a coinbase names (BIP 34), if its block promises to name one.
fn named_height(block: &bitcoin::Block) -> Option<u64> {
    if block.header.version.to_consensus() < 2 {
        return None;
    }
    let script = &block.txdata.first()?.input.first()?.script_sig;
    // BIP 34 compares bytes: a height that isn't pushed in the shortest way names none.
    match script.instructions_minimal().next()?.ok()? {
        Instruction::PushBytes(bytes) => read_scriptint(bytes.as_bytes()).ok()?.try_into().ok(),
        Instruction::Op(code) => small_number(code),
    }
}

/// Heights 1 to 16 are a single opcode.
fn small_number(code: Opcode) -> Option<u64> {
    let number = code.to_u8().checked_sub(opcodes::OP_PUSHNUM_1.to_u8())?.checked_add(1)?;
    (number <= 16).then_some(u64::from(number))
}

/// What a transaction takes. A coinbase names no coin, though it has an input.
fn spends(tx: &Transaction) -> Vec<Outpoint> {
    if tx.is_coinbase() {
        return Vec::new();
    }
    let inputs = tx.input.iter().map(|input| input.previous_output);
    let named = inputs.map(|out| Outpoint::new(TxId(out.txid.to_byte_array()), out.vout));
    // Consensus forbids an input twice (CVE-2018-17144), but isn't checked here: spent twice, a
    // coin would break the totals.
    without_repeats(named.collect())
}

/// What a transaction gives; `script` copies an output's script or takes it.
fn creates<T: Borrow<TxOut>>(
    is_coinbase: bool,
    outputs: impl ExactSizeIterator<Item = T>,
    script: impl Fn(T) -> ScriptBuf,
) -> Vec<(u32, Output)> {
    // Sized at once: almost everything is kept, and outputs are large.
    let mut creates = Vec::with_capacity(outputs.len());
    for (index, out) in (0_u32..).zip(outputs) {
        let TxOut { value, script_pubkey } = out.borrow();
        // Its place stays taken: later outputs keep the numbers by which they are spent.
        if is_unspendable(script_pubkey) {
            continue;
        }
        let value = value.to_sat();
        let addr = script(out).into_bytes();
        creates.push((index, Output { addr, value, is_coinbase, ..Output::default() }));
    }
    creates
}

fn is_unspendable(script: &Script) -> bool {
    script.is_op_return() || script.len() > MAX_SCRIPT_BYTES
}
