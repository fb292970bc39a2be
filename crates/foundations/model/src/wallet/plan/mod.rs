//! What an event changes in a wallet.
//!
//! # The problem
//!
//! A wallet hears of transactions from its owner, from peers, from a node's mempool and from
//! blocks; late, twice, children before parents, and again after a reorganisation. Two of them may
//! spend the same output, be it ours or not, and at most one can end up in the chain. So whenever
//! something is heard, three questions come up:
//!
//! 1. Does it stand against something stored, and which of the two is to be believed?
//! 2. What falls with the loser? Everything that spends its outputs, and what spends theirs.
//! 3. What does the fall set free? A transaction that lost only to this loser may live again, and
//!    so may its children, which can beat others in turn.
//!
//! The answer must not depend on how often or in which order things were heard, as far as the same
//! chain is reached in the end; and it has to be drawn from a small part of a history that may hold
//! millions of transactions.
//!
//! # The answer
//!
//! [`plan`] takes what is known of the neighbourhood and a batch of events, and answers either with
//! what is still to be loaded or with a [`WalletPlan`]: the difference between what is stored and
//! what should be. A repeated event has an empty plan. Nothing here reads a clock or a database.
//!
//! What is missing is found by trying: the events are played on what is loaded, every question
//! that can't be answered is noted, and the whole trial is thrown away unless there was none. So
//! the rules are written as if all history were at hand, and nobody has to foretell what they need.
//!
//! Who wins when two transactions spend the same output:
//!
//! | newcomer seen | against an unconfirmed one | against a confirmed one |
//! |---|---|---|
//! | in a block | wins, the loser fails | refused: the chain contradicts itself |
//! | in a node's mempool | wins, the loser is replaced (failed if never sent) | stored as failed |
//! | relayed, no node | the higher known fee wins; else stored as failed, with edge | stored as failed |
//! | created here | wins with the higher known fee; else refused | refused |
//!
//! The node's mempool is believed before fees are compared, because the node has applied the
//! replacement rules to transactions that we may not even know ([BIP 125], today Core's
//! [`doc/policy/mempool-replacements.md`]). Without a node only the part of these rules is used
//! that can be judged from here: to replace, a transaction must pay more than all it evicts.
//!
//! What holds a child holds its parents: a child in a block or in the node's mempool brings dead
//! parents back, and what they beat fails in turn.
//!
//! Losing takes all descendants along; what no longer stands in anybody's way, and what regained
//! its parents, comes back. The walk is iterative, for chains of descendants can be longer than a
//! stack is deep, and visits each transaction once.
//!
//! [BIP 125]: https://github.com/bitcoin/bips/blob/master/bip-0125.mediawiki
//! [`doc/policy/mempool-replacements.md`]:
//!     https://github.com/bitcoin/bitcoin/blob/master/doc/policy/mempool-replacements.md

mod cascade;
mod decide;
mod outcome;
#[cfg(test)]
mod tests;
mod vouch;
mod working;

pub use outcome::{JournalEntry, NewCoin, ReplacementEdge, SpendChange, TxChange, WalletPlan};

use super::{
    LockId,
    facts::{Confirmation, KnownFacts, NeededFacts},
};
use crate::{Micros, Outpoint, TxId, wallet::AddressId};

/// Something that happened, to be recorded.
#[derive(Clone, Debug)]
pub enum WalletEvent {
    /// A transaction was seen somewhere.
    Seen(Box<TxSighting>),
    /// We sent a pending transaction.
    Broadcast(TxId),
    /// The maker takes back a pending transaction.
    Withdraw(TxId),
    /// A stored transaction stopped being live by other means (an orphaned coinbase): its
    /// descendants follow.
    Gone(TxId),
    /// A stored transaction lost its block: it falls if a parent is dead.
    Detached(TxId),
    /// A node's mempool was found without it.
    Evicted(TxId),
}

/// A transaction, and how we came to see it.
#[derive(Clone, Debug)]
pub struct TxSighting {
    /// In wire order, as hashed.
    pub txid: TxId,
    /// What it spends.
    pub inputs: Vec<Outpoint>,
    /// What all its outputs hold together.
    pub output_total: u64,
    /// What it pays to miners, where the caller knows (a PSBT names foreign inputs' amounts).
    pub fee: Option<u64>,
    /// Whether it makes new money.
    pub is_coinbase: bool,
    /// Its outputs that are ours: index, satoshis, address.
    pub credits: Vec<(u32, u64, AddressId)>,
    /// Where it was seen.
    pub how: SightingPlace,
    /// Whose leases it may use without force.
    pub lock: Option<LockId>,
    /// Whether it may spend coins that somebody else leased.
    pub force: bool,
}

/// Where a transaction was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SightingPlace {
    /// Made here, not sent yet.
    Created,
    /// Heard of, without a node that vouches for it.
    Relayed,
    /// In a node's mempool.
    Mempool,
    /// In a block of the best chain.
    Block(Confirmation),
}

/// Why an event was refused. Nothing is to be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanRefusal {
    /// A coinbase exists in a block or not at all.
    #[error("a coinbase can't be seen outside a block")]
    LooseCoinbase,
    /// An ordinary transaction without inputs.
    #[error("transaction {} has no inputs", .0.on_bitcoin())]
    NoInputs(TxId),
    /// One output is spent twice by one transaction.
    #[error(
        "transaction {tx} spends {outpoint} twice",
        tx = .tx.on_bitcoin(),
        outpoint = .outpoint.on_bitcoin()
    )]
    DuplicateInput {
        /// The transaction.
        tx: TxId,
        /// The output.
        outpoint: Outpoint,
    },
    /// The chain seems to hold both of two conflicting transactions.
    #[error(
        "transaction {tx} conflicts with {with}, which the chain holds too; \
         a disconnected block was missed: compare the stored blocks with the source",
        tx = .tx.on_bitcoin(),
        with = .with.on_bitcoin()
    )]
    ConflictsWithConfirmed {
        /// The newcomer.
        tx: TxId,
        /// The one already confirmed.
        with: TxId,
    },
    /// The chain seems to hold a spend of a coinbase that it doesn't hold.
    #[error(
        "transaction {tx} depends on coinbase {coinbase}, which is in no known block; apply the \
         block that holds it first",
        tx = .tx.on_bitcoin(),
        coinbase = .coinbase.on_bitcoin()
    )]
    OrphanedAncestor {
        /// The newcomer.
        tx: TxId,
        /// The coinbase.
        coinbase: TxId,
    },
    /// The chain seems to hold a transaction twice.
    #[error(
        "transaction {tx} is already confirmed at height {height}; \
         a disconnected block was missed: compare the stored blocks with the source",
        tx = .tx.on_bitcoin()
    )]
    ConfirmedElsewhere {
        /// The transaction.
        tx: TxId,
        /// Where it stands.
        height: u64,
    },
    /// A new transaction of ours spends what another live one spends.
    #[error(
        "output {outpoint} is already spent by {by}, which pays at least as much",
        outpoint = .outpoint.on_bitcoin(),
        by = .by.on_bitcoin()
    )]
    InputSpent {
        /// The output.
        outpoint: Outpoint,
        /// The live spender.
        by: TxId,
    },
    /// A new transaction of ours spends an output of a dead one.
    #[error(
        "output {outpoint} comes from a transaction that is no longer valid",
        outpoint = .outpoint.on_bitcoin()
    )]
    InvalidParent {
        /// The output.
        outpoint: Outpoint,
    },
    /// A new transaction of ours spends what somebody else holds.
    #[error(
        "output {outpoint} is leased by {holder}; wait until the lease ends, or force the spend",
        outpoint = .outpoint.on_bitcoin()
    )]
    Leased {
        /// The output.
        outpoint: Outpoint,
        /// The holder.
        holder: LockId,
    },
    /// A transaction that is stored as dead can't be created anew.
    #[error("transaction {} is stored already and no longer valid", .0.on_bitcoin())]
    Dead(TxId),
    /// Nothing is stored under that name.
    #[error("transaction {} is unknown", .0.on_bitcoin())]
    Unknown(TxId),
    /// Only what was never sent can be taken back or sent.
    #[error("transaction {tx} is {status}, not pending", tx = .tx.on_bitcoin())]
    NotPending {
        /// The transaction.
        tx: TxId,
        /// Its status.
        status: super::TxStatus,
    },
}

/// The answer of [`plan`].
#[derive(Clone, Debug)]
pub enum PlanOutcome {
    /// Load these and ask again.
    NeedMore(NeededFacts),
    /// Carry this out, in one transaction.
    Ready(WalletPlan),
}

/// Plans a batch of events in order.
///
/// # Errors
///
/// [`PlanRefusal`] names the first event that can't be recorded; the batch as a whole is refused.
pub fn plan(
    facts: &KnownFacts,
    events: &[WalletEvent],
    now: Micros,
) -> Result<PlanOutcome, PlanRefusal> {
    let mut working = working::PlanState::new(facts, now);
    for event in events {
        let refused = working.event(event).err();
        // A refusal reached on half the facts may be wrong: load the rest first.
        if let (Some(refusal), true) = (refused, working.needs.is_empty()) {
            return Err(refusal);
        }
    }
    // Spenders are set once, at the end: on the way a coin may change hands several times.
    working.settle();
    if working.needs.is_empty() {
        Ok(PlanOutcome::Ready(working.finish()))
    } else {
        Ok(PlanOutcome::NeedMore(working.needs))
    }
}
