//! A block's change to the coin set, as a value with an exact inverse.
//!
//! Reorganisations are daily business on Cardano and not rare on Bitcoin: a block that was applied
//! has to be taken back as if it had never been. Working the inverse out at that moment needs coins
//! that the set no longer has. Core keeps what a block spent beside it ([`undo.h`]) and derives the
//! rest from the block; we keep no blocks, so a delta holds both directions, and undoing needs
//! nothing else.
//!
//! One list serves both: [`BlockDelta::forward`] and [`BlockDelta::backward`] yield [`Effect`]s,
//! and a store that can carry an effect out can apply and undo. The order matters where one
//! outpoint occurs twice: a coinbase that repeats an older one removes that coin before it adds its
//! own, and the other way round on the way back.
//!
//! Invariant: `backward` after `forward` leaves the set as it was, coin by coin.
//!
//! [`undo.h`]: https://github.com/bitcoin/bitcoin/blob/master/src/undo.h

use crate::{Outpoint, Point, TxId};

/// A coin that a block creates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Created<C> {
    /// The coin's name: no other unspent coin has it.
    pub outpoint: Outpoint,
    /// What it holds, in the store's own form.
    pub coin: C,
    /// The same block spends it again: it never enters the set.
    pub spent_here: bool,
}

/// The input that spends a coin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpendingInput {
    /// The spending transaction.
    pub tx: TxId,
    /// Position of that transaction in its block, from 0.
    pub position: u32,
    /// Position of the input among those of the transaction, from 0, as the block lists them.
    pub input: u32,
}

/// A coin that a block spends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spent<C> {
    /// The coin's name, free to come again with a repeated coinbase (BIP 30).
    pub outpoint: Outpoint,
    /// What it held.
    pub coin: C,
    /// Who spent it; `None` when the rules of a new era withdrew it.
    pub by: Option<SpendingInput>,
    /// The same block created it: undoing the block does not bring it back.
    pub born_here: bool,
}

/// What is worth remembering of a transaction apart from its coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxFlags {
    /// The transaction's hash.
    pub tx: TxId,
    /// Phase 2 failed.
    pub is_invalid: bool,
    /// It gave part of the collateral back.
    pub had_collateral_return: bool,
}

/// What a block does to the coin set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockDelta<C> {
    /// The block whose change this is.
    pub point: Point,
    /// Coins created, in block order.
    pub created: Vec<Created<C>>,
    /// Coins spent, in block order.
    pub spent: Vec<Spent<C>>,
    /// Coins lost to a repeated coinbase of the same hash (BIP 30), as they were before.
    pub overwritten: Vec<(Outpoint, C)>,
    /// Inputs that were not in the set. None on a chain without holes.
    pub missing: Vec<Outpoint>,
    /// Transactions that failed in phase 2.
    pub tx_flags: Vec<TxFlags>,
}

/// One step of carrying a delta out, in either direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect<'a, C> {
    /// The coin enters the set.
    Add(&'a Outpoint, &'a C),
    /// The coin leaves the set.
    Remove(&'a Outpoint, &'a C),
    /// The spend is recorded.
    RecordSpend(&'a Spent<C>),
    /// The record of the spend goes: the block that spent the coin is undone.
    EraseSpend(&'a Outpoint),
}

impl<C> BlockDelta<C> {
    /// At least one transaction failed in phase 2.
    pub fn contains_invalid_tx(&self) -> bool {
        self.tx_flags.iter().any(|flags| flags.is_invalid)
    }

    /// What applying the block does, in an order that is safe to carry out.
    pub fn forward(&self) -> impl Iterator<Item = Effect<'_, C>> {
        let lost = self.overwritten.iter().map(|(outpoint, coin)| Effect::Remove(outpoint, coin));
        lost.chain(self.leaving().map(|s| Effect::Remove(&s.outpoint, &s.coin)))
            .chain(self.entering().map(|c| Effect::Add(&c.outpoint, &c.coin)))
            .chain(self.spent.iter().map(Effect::RecordSpend))
    }

    /// What undoing the block does: the exact inverse of [`Self::forward`].
    pub fn backward(&self) -> impl Iterator<Item = Effect<'_, C>> {
        let erased = self.spent.iter().map(|s| Effect::EraseSpend(&s.outpoint));
        let regained = self.overwritten.iter().map(|(outpoint, coin)| Effect::Add(outpoint, coin));
        erased
            .chain(self.entering().map(|c| Effect::Remove(&c.outpoint, &c.coin)))
            .chain(self.leaving().map(|s| Effect::Add(&s.outpoint, &s.coin)))
            .chain(regained)
    }

    fn entering(&self) -> impl Iterator<Item = &Created<C>> {
        self.created.iter().filter(|created| !created.spent_here)
    }

    fn leaving(&self) -> impl Iterator<Item = &Spent<C>> {
        self.spent.iter().filter(|spent| !spent.born_here)
    }
}
