//! Making transactions: payments with change, fee bumps, double spends, random traffic.
//!
//! Everything here spends coins of the simulator's own wallet, so no signature is needed. Making a
//! transaction changes nothing but the supply of fresh addresses; submitting it is another step.

use bitcoin::absolute::LockTime;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, transaction};
use rand::RngExt;

use crate::block::COINBASE_MATURITY;
use crate::chain::{Accepted, ChainSim, SubmitError};
use crate::coins::{Coin, total};
use crate::script::unlocking_witness;

/// Why a transaction couldn't be made. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayError {
    /// The coins that may be used don't suffice.
    #[error("{needed} needed, but only {available} available; mine more blocks")]
    InsufficientFunds {
        /// Payments and fee together.
        needed: Amount,
        /// What the usable coins are worth.
        available: Amount,
    },
    /// The amounts overflow.
    #[error("the sum of the amounts is larger than any amount can be")]
    Overflow,
    /// The coin doesn't exist or its address isn't ours.
    #[error("output {0} isn't an unspent coin of the simulator's own addresses")]
    NotOurs(OutPoint),
    /// No such transaction waits in the mempool.
    #[error("transaction {0} isn't in the mempool")]
    NotInMempool(Txid),
    /// No output of ours is large enough to give up the difference.
    #[error("transaction {0} has no change to pay the higher fee from")]
    NoChange(Txid),
    /// The mempool refused the replacement.
    #[error("the replacement was refused: {0}")]
    Refused(#[from] SubmitError),
}

impl ChainSim {
    /// A transaction that pays `payments` from free coins of ours and sends the rest to a new
    /// address of ours. Coins that the mempool spends aren't used, nor unconfirmed ones.
    pub fn pay(&mut self, payments: &[TxOut], fee: Amount) -> Result<Transaction, PayError> {
        let needed = needed(payments, fee)?;
        let mut available = Amount::ZERO;
        let mut chosen = Vec::new();
        for (outpoint, coin) in self.free_coins() {
            if available >= needed {
                break;
            }
            available = available.checked_add(coin.output.value).ok_or(PayError::Overflow)?;
            chosen.push(outpoint);
        }
        if available < needed {
            return Err(PayError::InsufficientFunds { needed, available });
        }
        self.pay_from(&chosen, payments, fee)
    }

    /// As [`ChainSim::pay`], from exactly these coins of ours, which may be outputs of unconfirmed
    /// transactions or already spent by one (which makes the result a double spend).
    pub fn pay_from(
        &mut self,
        from: &[OutPoint],
        payments: &[TxOut],
        fee: Amount,
    ) -> Result<Transaction, PayError> {
        let needed = needed(payments, fee)?;
        let mut available = Amount::ZERO;
        let mut input = Vec::with_capacity(from.len());
        for outpoint in from {
            let coin = self.coin(outpoint).ok_or(PayError::NotOurs(*outpoint))?;
            available = available.checked_add(coin.output.value).ok_or(PayError::Overflow)?;
            input.push(self.spend(*outpoint, &coin)?);
        }
        let change = available
            .checked_sub(needed)
            .ok_or(PayError::InsufficientFunds { needed, available })?;
        let mut output = payments.to_vec();
        if change > Amount::ZERO {
            output.push(TxOut { value: change, script_pubkey: self.new_script() });
        }
        let version = transaction::Version::TWO;
        Ok(Transaction { version, lock_time: LockTime::ZERO, input, output })
    }

    fn spend(&self, outpoint: OutPoint, coin: &Coin) -> Result<TxIn, PayError> {
        let nonce = self.nonce(&coin.output.script_pubkey).ok_or(PayError::NotOurs(outpoint))?;
        Ok(TxIn {
            previous_output: outpoint,
            script_sig: ScriptBuf::new(),
            // BIP 125's signal: nodes without full replacement take a fee bump only from such
            // inputs.
            sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
            witness: unlocking_witness(nonce),
        })
    }

    /// Confirmed, mature coins of ours that nothing in the mempool spends, in a fixed order.
    pub fn free_coins(&self) -> impl Iterator<Item = (OutPoint, &Coin)> {
        let next = self.height().saturating_add(1);
        self.coins().iter().map(|(outpoint, coin)| (*outpoint, coin)).filter(
            move |(outpoint, coin)| {
                let young = next.saturating_sub(coin.height) < COINBASE_MATURITY;
                !(coin.coinbase && young)
                    && self.mempool.spender(outpoint).is_none()
                    && self.nonce(&coin.output.script_pubkey).is_some()
            },
        )
    }

    /// Replaces a waiting transaction by one that pays `extra` more, out of its change: the last
    /// output of ours that can give so much. What descends from it goes, and must be paid for.
    pub fn bump_fee(&mut self, txid: &Txid, extra: Amount) -> Result<Accepted, PayError> {
        let entry = self.mempool.get(txid).ok_or(PayError::NotInMempool(*txid))?;
        let mut tx = entry.tx.clone();
        let ours = |output: &&mut TxOut| {
            output.value > extra && self.nonce(&output.script_pubkey).is_some()
        };
        let change = tx.output.iter_mut().rev().find(ours).ok_or(PayError::NoChange(*txid))?;
        change.value = change.value.checked_sub(extra).ok_or(PayError::NoChange(*txid))?;
        Ok(self.submit(tx)?)
    }

    /// A transaction that spends the first input of `victim` back to ourselves, leaving `fee`. It
    /// isn't submitted: the mempool takes it only if it pays more, a miner may take it anyway.
    pub fn double_spend(
        &mut self,
        victim: &Transaction,
        fee: Amount,
    ) -> Result<Transaction, PayError> {
        let contested = victim.input.first().map_or(OutPoint::null(), |i| i.previous_output);
        self.pay_from(&[contested], &[], fee)
    }

    /// Submits up to `n` random payments of ours; about every third spends an unconfirmed output,
    /// so that blocks hold chains of transactions. Returns what went in.
    pub fn submit_random(&mut self, n: usize) -> Vec<Txid> {
        let made = (0..n).filter_map(|_| {
            let tx = self.random_payment()?;
            Some(self.submit(tx).ok()?.txid)
        });
        made.collect()
    }

    /// Mines `n` blocks, each with up to `transactions` random payments.
    pub fn mine_busy(&mut self, n: u32, transactions: usize) {
        for _ in 0..n {
            self.submit_random(transactions);
            // What the mempool holds is valid on the tip by its own invariant.
            let _ = self.mine_block_from_mempool();
        }
    }

    /// One random payment of one coin to one to three addresses, sometimes with a note.
    pub(crate) fn random_payment(&mut self) -> Option<Transaction> {
        let (coin, value) = self.random_coin()?;
        let fee = Amount::from_sat(self.rng.random_range(200..2_000));
        let spendable = value.checked_sub(fee)?;
        let mut payments = Vec::new();
        let parts: u64 = self.rng.random_range(1..=3);
        for _ in 1..parts {
            // Less than half is paid out in all, so that change is left to go on with.
            let sats = spendable.to_sat() / (parts.saturating_mul(2));
            let value = Amount::from_sat(self.rng.random_range(sats / 2..=sats));
            payments.push(TxOut { value, script_pubkey: self.new_script() });
        }
        if self.rng.random_ratio(1, 5) {
            let note = self.rng.random::<u64>().to_be_bytes();
            payments
                .push(TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::new_op_return(note) });
        }
        self.pay_from(&[coin], &payments, fee).ok()
    }

    fn random_coin(&mut self) -> Option<(OutPoint, Amount)> {
        // Smaller ones are split and taxed to nothing within a few payments.
        let worthwhile = |coin: &Coin| coin.output.value > Amount::from_sat(10_000);
        let next = self.height().saturating_add(1);
        let mut pool = self.mempool.free_outputs(next);
        pool.retain(|(_, coin)| {
            worthwhile(coin) && self.nonce(&coin.output.script_pubkey).is_some()
        });
        let confirmed = self.free_coins().filter(|(_, coin)| worthwhile(coin));
        let confirmed: Vec<_> = confirmed.map(|(at, coin)| (at, coin.output.value)).collect();
        let unconfirmed: Vec<_> = pool.iter().map(|(at, coin)| (*at, coin.output.value)).collect();
        let chained = self.rng.random_ratio(1, 3) || confirmed.is_empty();
        let from = if chained && !unconfirmed.is_empty() { unconfirmed } else { confirmed };
        if from.is_empty() {
            return None;
        }
        let at = self.rng.random_range(0..u32::try_from(from.len()).ok()?);
        from.get(usize::try_from(at).ok()?).copied()
    }
}

fn needed(payments: &[TxOut], fee: Amount) -> Result<Amount, PayError> {
    total(payments).and_then(|sum| sum.checked_add(fee)).ok_or(PayError::Overflow)
}
