//! The simulator's own truth: which outputs are unspent, kept by undo records in plain memory.
//!
//! Invariant: connecting a block and undoing it leaves the set as it was. It shares no code with
//! the index under test. Genesis' coinbase and unspendable outputs are never in the set.

use std::collections::{BTreeMap, BTreeSet};

use bitcoin::absolute::LockTime;
use bitcoin::{Amount, Block, OutPoint, Transaction, TxOut};

use crate::block::{COINBASE_MATURITY, subsidy};
use crate::script::is_unspendable;

/// An unspent output and where it was born.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coin {
    /// Its value and script.
    pub output: TxOut,
    /// Height of the block that created it; the next height for an unconfirmed one.
    pub height: u32,
    /// Whether a coinbase created it, so that it must mature.
    pub coinbase: bool,
}

/// The unspent outputs of one chain, in a fixed order so that every run picks the same coins.
pub type Coins = BTreeMap<OutPoint, Coin>;

/// Why a transaction can't be in the next block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TxError {
    /// No input or no output, or a coinbase outside its place.
    #[error("the transaction has no inputs, no outputs or is a coinbase")]
    Malformed,
    /// One outpoint appears twice among the inputs.
    #[error("input {0} is spent twice by the same transaction")]
    DuplicateInput(OutPoint),
    /// The output isn't there, or is already spent.
    #[error("input {0} is missing or already spent")]
    MissingInput(OutPoint),
    /// The coinbase is too young.
    #[error("input {0} is a coinbase that isn't mature yet")]
    Immature(OutPoint),
    /// More goes out than comes in.
    #[error("the outputs are worth more than the inputs")]
    Overspent,
    /// Its lock time lies beyond the next block.
    #[error("the lock time hasn't been reached")]
    NotFinal,
    /// A simulated address needs exactly its own script as witness.
    #[error("input {0} doesn't carry the witness of its address")]
    WrongWitness(OutPoint),
}

/// Why a block doesn't extend the chain. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A transaction is invalid at its place in the block.
    #[error("transaction {index} of the block is invalid: {source}")]
    Transaction {
        /// Its position, the coinbase being 0.
        index: usize,
        /// What is wrong with it.
        source: TxError,
    },
    /// The transactions don't fit into one block.
    #[error("transactions of {weight} weight units don't fit into one block; mine fewer at once")]
    TooHeavy {
        /// What they weigh together.
        weight: u64,
    },
    /// The coinbase takes more than subsidy and fees.
    #[error("the coinbase pays more than subsidy and fees")]
    Reward,
}

/// How to take a block back.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    created: Vec<OutPoint>,
    spent: Vec<(OutPoint, Coin)>,
}

/// The fee of `tx` if it may be in a block at `height`, given the coins that `coin` finds.
pub(crate) fn check(
    tx: &Transaction,
    height: u32,
    coin: impl Fn(&OutPoint) -> Option<Coin>,
) -> Result<Amount, TxError> {
    if tx.input.is_empty() || tx.output.is_empty() || tx.is_coinbase() {
        return Err(TxError::Malformed);
    }
    if !is_final(tx, height) {
        return Err(TxError::NotFinal);
    }
    let mut seen = BTreeSet::new();
    let mut paid_in = Amount::ZERO;
    for input in &tx.input {
        let outpoint = input.previous_output;
        if !seen.insert(outpoint) {
            return Err(TxError::DuplicateInput(outpoint));
        }
        let coin = coin(&outpoint).ok_or(TxError::MissingInput(outpoint))?;
        if coin.coinbase && height.saturating_sub(coin.height) < COINBASE_MATURITY {
            return Err(TxError::Immature(outpoint));
        }
        paid_in = paid_in.checked_add(coin.output.value).ok_or(TxError::Overspent)?;
    }
    let paid_out = total(&tx.output).ok_or(TxError::Overspent)?;
    paid_in.checked_sub(paid_out).ok_or(TxError::Overspent)
}

/// Lock times by height only: simulated time follows height, so nobody needs the other kind.
fn is_final(tx: &Transaction, height: u32) -> bool {
    let reached = match tx.lock_time {
        LockTime::Blocks(lock) => lock.to_consensus_u32() < height || lock.to_consensus_u32() == 0,
        LockTime::Seconds(_) => false,
    };
    reached || tx.input.iter().all(|input| input.sequence.is_final())
}

/// Sum of outputs, or `None` when it overflows.
pub(crate) fn total(outputs: &[TxOut]) -> Option<Amount> {
    outputs.iter().try_fold(Amount::ZERO, |sum, output| sum.checked_add(output.value))
}

/// Applies a block to the set, or leaves the set as it was.
pub(crate) fn connect(coins: &mut Coins, block: &Block, height: u32) -> Result<Undo, ConnectError> {
    let mut undo = Undo::default();
    match apply(coins, block, height, &mut undo) {
        Ok(()) => Ok(undo),
        Err(error) => {
            disconnect(coins, undo);
            Err(error)
        }
    }
}

fn apply(
    coins: &mut Coins,
    block: &Block,
    height: u32,
    undo: &mut Undo,
) -> Result<(), ConnectError> {
    let mut allowed = subsidy(height);
    for (index, tx) in block.txdata.iter().enumerate() {
        if index > 0 {
            let fee = check(tx, height, |outpoint| coins.get(outpoint).cloned())
                .map_err(|source| ConnectError::Transaction { index, source })?;
            allowed = allowed.checked_add(fee).ok_or(ConnectError::Reward)?;
        }
        move_coins(coins, tx, height, undo);
    }
    // Last, as all fees must be known; the caller takes everything back if it is too much.
    let taken = block.txdata.first().and_then(|coinbase| total(&coinbase.output));
    if taken.is_none_or(|taken| taken > allowed) {
        return Err(ConnectError::Reward);
    }
    Ok(())
}

fn move_coins(coins: &mut Coins, tx: &Transaction, height: u32, undo: &mut Undo) {
    for input in &tx.input {
        if let Some(coin) = coins.remove(&input.previous_output) {
            undo.spent.push((input.previous_output, coin));
        }
    }
    for (outpoint, coin) in born(tx, height) {
        coins.insert(outpoint, coin);
        undo.created.push(outpoint);
    }
}

/// The spendable outputs that `tx` creates.
pub(crate) fn born(tx: &Transaction, height: u32) -> Vec<(OutPoint, Coin)> {
    let txid = tx.compute_txid();
    let coinbase = tx.is_coinbase();
    (0_u32..)
        .zip(&tx.output)
        .filter(|(_, output)| !is_unspendable(&output.script_pubkey))
        .map(|(vout, output)| {
            (OutPoint { txid, vout }, Coin { output: output.clone(), height, coinbase })
        })
        .collect()
}

/// Takes a block back. Created outputs go last: those spent in their own block must vanish too.
pub(crate) fn disconnect(coins: &mut Coins, undo: Undo) {
    coins.extend(undo.spent);
    for outpoint in undo.created {
        coins.remove(&outpoint);
    }
}
