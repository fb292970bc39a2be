//! Making the stream's transactions: the fan-out, and those of the mixture.
//!
//! Invariant: what goes out is never more than what comes in, and no spendable output is worth
//! less than `LEAST_SATS`. Coins too small to fund the outputs drawn for them are joined by others.

use bitcoin::absolute::LockTime;
use bitcoin::opcodes::all::OP_RETURN;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, transaction};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::ModernChain;
use super::mix::{self, Age, Payee};
use super::pool::{PoolCoin, Taken};
use crate::script::{address_script, unlocking_witness};

/// No transaction of the mixture is heavier: 404 inputs of 177 units and 260 outputs of 172.
pub(super) const HEAVIEST_TRANSACTION: u64 = 120_000;
/// What a spendable output is worth at least.
const LEAST_SATS: u64 = 100;
/// Coins added when those drawn can't fund the outputs; then outputs are left out instead.
const EXTRA_COINS: u32 = 4;
/// A fan-out block holds one transaction that feeds so many others...
const FAN_OUT_BRANCHES: u32 = 10;
/// ...with so many outputs each: 22,000 outputs of 172 weight units fill a block.
const FAN_OUT_LEAVES: u32 = 2_200;

/// Up to so many coins each block of the fan-out takes a whole coinbase.
const COINS_WITHOUT_CHANGE: u32 = 25_000_000;

/// An output to be made: the nonce of its address and its worth.
type Payment = (u64, u64);

impl ModernChain {
    /// Splits one mature coinbase into as many coins as a block can hold or are still missing.
    /// When halvings have left coinbases too small for that, the fan-out ends.
    pub(super) fn fan_out(&mut self) {
        let Some((height, coinbase)) = self.coinbases.pop_front() else { return };
        let room = self.missing_coins.min(FAN_OUT_BRANCHES * FAN_OUT_LEAVES);
        let change = self.fan_out_change(coinbase.sats, room);
        let affordable = (coinbase.sats - change) / (LEAST_SATS * 2);
        let wanted = u32::try_from(affordable).unwrap_or(u32::MAX).min(room);
        if wanted == 0 {
            self.missing_coins = 0;
            return;
        }
        self.missing_coins = self.missing_coins.saturating_sub(wanted);
        let branches = wanted.div_ceil(FAN_OUT_LEAVES);
        let root = Taken { coin: coinbase, height };
        let mut left = wanted;
        let fed = self.feed(root, branches, change);
        for (branch, unfed) in fed.into_iter().zip((1..=branches).rev()) {
            let leaves = left.div_ceil(unfed);
            left = left.saturating_sub(leaves);
            self.fan_out_branch(branch, leaves);
        }
    }

    /// What a block of the fan-out leaves of its coin for later blocks, in satoshis: nothing,
    /// unless so many coins are asked for that halvings would end it before.
    fn fan_out_change(&self, sats: u64, room: u32) -> u64 {
        if self.shape.start_coins <= COINS_WITHOUT_CHANGE {
            return 0;
        }
        let needed = (sats / 8).max(u64::from(room) * LEAST_SATS * 4);
        // A remainder that feeds no block isn't worth an output.
        Some(sats.saturating_sub(needed)).filter(|rest| *rest >= needed).unwrap_or_default()
    }

    /// Splits a coin into equal parts, one for each branch of the fan-out; the change, if any, is
    /// kept beside the coinbases.
    fn feed(&mut self, coin: Taken, branches: u32, change: u64) -> Vec<PoolCoin> {
        let share = (coin.coin.sats - change) / u64::from(branches.max(1));
        let mut payments: Vec<_> = (0..branches).map(|_| (self.new_nonce(), share)).collect();
        if change > 0 {
            payments.push((self.new_nonce(), change));
        }
        let mut fed = self.transact(&[coin], &payments, None);
        if change > 0
            && let Some(rest) = fed.pop()
        {
            self.coinbases.push_back((self.height, rest));
        }
        fed
    }

    fn fan_out_branch(&mut self, coin: PoolCoin, leaves: u32) {
        let coin = Taken { coin, height: self.height };
        let payments = self.payments(&[coin], coin.coin.sats, leaves);
        for leaf in self.transact(&[coin], &payments, None) {
            self.pool.add(leaf);
        }
    }

    /// Makes one transaction of the mixture; false when no coin is left.
    pub(super) fn modern_transaction(&mut self) -> bool {
        let inputs = mix::inputs(&mut self.rng);
        let outputs = mix::outputs(&mut self.rng);
        let note = (outputs > 1 && mix::carries_note(&mut self.rng))
            .then(|| mix::note_bytes(&mut self.rng));
        let wanted = outputs.saturating_sub(u32::from(note.is_some()));
        let coins = self.take_coins(inputs, u64::from(wanted) * LEAST_SATS);
        if coins.is_empty() {
            return false;
        }
        let total = worth(&coins);
        let affordable = u32::try_from(total / LEAST_SATS).unwrap_or(u32::MAX);
        let payable = wanted.min(affordable).max(1);
        let spare = total.saturating_sub(u64::from(payable) * LEAST_SATS);
        // Out of what is above the least worth of the outputs, so that none falls below it.
        let fee = self.rng.random_range(50..500).min(spare / 8);
        let payments = self.payments(&coins, total.saturating_sub(fee), payable);
        for coin in self.transact(&coins, &payments, note) {
            self.pool.add(coin);
        }
        true
    }

    /// So many coins of the ages that the mixture draws, and a few more if they are worth too
    /// little.
    fn take_coins(&mut self, count: u32, needed: u64) -> Vec<Taken> {
        let mut coins = Vec::new();
        let mut sats = 0_u64;
        for position in 0..count.saturating_add(EXTRA_COINS) {
            if position >= count && sats >= needed {
                break;
            }
            let age: Age = mix::age(&mut self.rng);
            let Some(taken) = self.pool.take(&mut self.rng, self.height, age) else { break };
            sats = sats.saturating_add(taken.coin.sats);
            coins.push(taken);
        }
        coins
    }

    /// Splits `sats` unevenly over `count` payees.
    fn payments(&mut self, from: &[Taken], sats: u64, count: u32) -> Vec<Payment> {
        let sender = from.first().map(|taken| taken.coin.nonce);
        // Hot addresses have their whole share already.
        let sender = sender.filter(|nonce| !self.is_hot(*nonce));
        let mut payments = Vec::new();
        for share in split(&mut self.rng, sats, count) {
            let nonce = match mix::payee(&mut self.rng) {
                Payee::Hot(rank) => self.hot_nonce(rank),
                Payee::Sender => sender.unwrap_or_else(|| self.new_nonce()),
                Payee::New => self.new_nonce(),
            };
            payments.push((nonce, share));
        }
        payments
    }

    /// Adds the transaction to the block in the making and returns the coins that it creates. The
    /// note, if any, comes last.
    fn transact(
        &mut self,
        coins: &[Taken],
        payments: &[Payment],
        note: Option<u32>,
    ) -> Vec<PoolCoin> {
        let mut output: Vec<_> = payments.iter().map(payment_output).collect();
        output.extend(note.map(|bytes| note_output(&mut self.rng, bytes)));
        let tx = Transaction {
            version: transaction::Version::TWO,
            lock_time: LockTime::ZERO,
            input: coins.iter().map(|taken| spend(&taken.coin)).collect(),
            output,
        };
        let txid = tx.compute_txid();
        let paid: u64 = payments.iter().map(|(_, sats)| sats).sum();
        for taken in coins {
            self.making.stats.count_spend(self.height.saturating_sub(taken.height));
        }
        self.making.stats.count_outputs(tx.output.len(), note.is_some());
        self.making.scripts.extend(payments.iter().map(|(nonce, _)| nonce));
        self.making.fees = self.making.fees.saturating_add(worth(coins).saturating_sub(paid));
        self.making.weight = self.making.weight.saturating_add(tx.weight().to_wu());
        self.making.txids.push(txid);
        self.making.transactions.push(tx);
        let created = (0_u32..).zip(payments);
        created.map(|(vout, &(nonce, sats))| PoolCoin { txid, vout, sats, nonce }).collect()
    }
}

fn worth(coins: &[Taken]) -> u64 {
    coins.iter().map(|taken| taken.coin.sats).sum()
}

/// Random shares of at least `LEAST_SATS`, if `sats` suffices for that; together never more than
/// `sats`. What rounding leaves over is the miner's.
fn split(rng: &mut ChaCha8Rng, sats: u64, count: u32) -> Vec<u64> {
    let weights: Vec<u64> = (0..count).map(|_| rng.random_range(1..=16)).collect();
    let all: u64 = weights.iter().sum();
    let least = LEAST_SATS.min(sats / u64::from(count.max(1)));
    let spare = sats.saturating_sub(least.saturating_mul(u64::from(count)));
    weights.iter().map(|weight| least + spare.saturating_mul(*weight) / all.max(1)).collect()
}

fn spend(coin: &PoolCoin) -> TxIn {
    TxIn {
        previous_output: OutPoint { txid: coin.txid, vout: coin.vout },
        script_sig: ScriptBuf::new(),
        sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
        witness: unlocking_witness(coin.nonce),
    }
}

fn payment_output((nonce, sats): &Payment) -> TxOut {
    TxOut { value: Amount::from_sat(*sats), script_pubkey: address_script(*nonce) }
}

/// An OP_RETURN output with so many random bytes, at most 75 (one push of one length byte).
fn note_output(rng: &mut ChaCha8Rng, bytes: u32) -> TxOut {
    let length = u8::try_from(bytes.min(75)).unwrap_or(75);
    let mut script = vec![OP_RETURN.to_u8(), length];
    script.extend((0..length).map(|_| rng.random::<u8>()));
    TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::from_bytes(script) }
}
