//! A second opinion: checks blocks by the rules of consensus, sharing nothing with the simulator.
#![allow(dead_code)]

use std::collections::HashMap;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Block, BlockHash, Network, OutPoint, Target, TxOut, constants};

/// What the checker knows about an unspent output: output, height, coinbase.
pub(crate) type Unspent = HashMap<OutPoint, (TxOut, u32, bool)>;

/// Follows one branch from genesis, block by block.
pub(crate) struct Checker {
    pub(crate) height: u32,
    pub(crate) tip: BlockHash,
    pub(crate) unspent: Unspent,
    times: Vec<u32>,
}

impl Checker {
    pub(crate) fn new() -> Self {
        let genesis = constants::genesis_block(Network::Regtest);
        let times = vec![genesis.header.time];
        Self { height: 0, tip: genesis.block_hash(), unspent: HashMap::new(), times }
    }

    /// Asserts that the block is valid on what came before, and takes it in.
    pub(crate) fn accept(&mut self, block: &Block) {
        self.height += 1;
        assert_eq!(block.header.prev_blockhash, self.tip, "parent at {}", self.height);
        self.check_header(block);
        self.check_coinbase(block);
        assert!(block.weight().to_wu() <= 4_000_000, "weight {}", block.weight());
        let mut fees = 0;
        for (position, tx) in block.txdata.iter().enumerate() {
            assert_eq!(tx.is_coinbase(), position == 0);
            if position > 0 {
                fees += self.spend(tx);
            }
            self.create(tx);
        }
        let subsidy = 5_000_000_000_u64.checked_shr(self.height / 150).unwrap_or(0);
        let taken: u64 = block.txdata[0].output.iter().map(|o| o.value.to_sat()).sum();
        assert!(taken <= subsidy + fees, "reward {taken} > {subsidy} + {fees}");
        self.tip = block.block_hash();
    }

    fn check_header(&mut self, block: &Block) {
        assert_eq!(block.header.bits.to_consensus(), 0x207f_ffff);
        let target = Target::from_compact(block.header.bits);
        assert!(target.is_met_by(block.block_hash()), "work at {}", self.height);
        assert!(block.header.version.to_consensus() >= 4);
        let mut recent: Vec<_> = self.times.iter().rev().take(11).copied().collect();
        recent.sort_unstable();
        assert!(block.header.time > recent[recent.len() / 2], "median time");
        self.times.push(block.header.time);
        assert!(block.check_merkle_root(), "merkle root at {}", self.height);
    }

    fn check_coinbase(&self, block: &Block) {
        let coinbase = &block.txdata[0];
        let script = coinbase.input[0].script_sig.as_bytes();
        assert!((2..=100).contains(&script.len()));
        let height = bip34_push(self.height);
        assert_eq!(&script[..height.len()], height, "BIP34 at {}", self.height);
        let reserved = coinbase.input[0].witness.nth(0).expect("reserved value");
        assert_eq!(reserved.len(), 32);
        assert!(block.check_witness_commitment(), "commitment at {}", self.height);
        let magic = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];
        let commits = |o: &&TxOut| o.script_pubkey.as_bytes().starts_with(&magic);
        assert_eq!(coinbase.output.iter().filter(commits).count(), 1);
    }

    fn spend(&mut self, tx: &bitcoin::Transaction) -> u64 {
        assert!(!tx.input.is_empty() && !tx.output.is_empty());
        let mut paid_in = 0;
        for input in &tx.input {
            let (coin, height, coinbase) = self
                .unspent
                .remove(&input.previous_output)
                .unwrap_or_else(|| panic!("{} isn't unspent", input.previous_output));
            assert!(!coinbase || self.height - height >= 100, "immature");
            assert_unlocked(&coin, input);
            paid_in += coin.value.to_sat();
        }
        let paid_out: u64 = tx.output.iter().map(|o| o.value.to_sat()).sum();
        paid_in.checked_sub(paid_out).expect("value out of nothing")
    }

    fn create(&mut self, tx: &bitcoin::Transaction) {
        let txid = tx.compute_txid();
        for (vout, output) in tx.output.iter().enumerate() {
            if output.script_pubkey.is_op_return() {
                assert_eq!(output.value.to_sat(), 0);
                continue;
            }
            assert!(output.value.to_sat() > 0, "an output of nothing");
            let coin = (output.clone(), self.height, tx.is_coinbase());
            let earlier = self.unspent.insert(OutPoint { txid, vout: vout as u32 }, coin);
            assert!(earlier.is_none(), "duplicate txid");
        }
    }
}

/// `<8 bytes> OP_DROP OP_TRUE` whose SHA-256 the output names: runs to true, leaves a clean stack.
fn assert_unlocked(coin: &TxOut, input: &bitcoin::TxIn) {
    assert!(input.script_sig.is_empty());
    assert_eq!(input.witness.len(), 1);
    let script = input.witness.nth(0).unwrap();
    assert_eq!((script.len(), script[0], &script[9..]), (11, 8, &[0x75, 0x51][..]));
    let mut wanted = vec![0x00, 0x20];
    wanted.extend_from_slice(sha256::Hash::hash(script).as_byte_array());
    assert_eq!(coin.script_pubkey.as_bytes(), wanted);
}

/// The height as a node writes it: small numbers are opcodes, others minimal little-endian.
fn bip34_push(height: u32) -> Vec<u8> {
    if (1..=16).contains(&height) {
        return vec![0x50 + height as u8];
    }
    let mut bytes = height.to_le_bytes().to_vec();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    if bytes.last().is_some_and(|top| top & 0x80 != 0) {
        bytes.push(0);
    }
    let mut push = vec![bytes.len() as u8];
    push.extend(bytes);
    push
}
