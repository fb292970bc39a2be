//! From a block to its delta.
//!
//! A store wants to know once, before it writes, all that a block does; looking coins up one by one
//! while walking through transactions is what makes indexers slow. So planning has two steps:
//! [`lookups`] says which coins are needed, the store reads them all in one sorted sweep, and
//! [`plan()`] decides without asking again.
//!
//! Three cases make it more than two lists:
//!
//! - A coin may be created and spent in the same block, and then never enters the set. On Bitcoin
//!   half of a modern block's inputs can be such; looking them up would be in vain, so whatever an
//!   earlier transaction of the block may have created isn't asked for.
//! - A coinbase may have the id of an older one ([BIP 30]). It happened twice on Bitcoin's main
//!   network, in blocks 91,842 and 91,880, before BIP 34 made ids differ: the older coin is
//!   overwritten and lost. Core names these blocks in [`validation.cpp`] (`IsBIP30Repeat`); here
//!   the lost coin is part of the delta, so that undoing brings it back without a list of
//!   exceptions.
//! - The first block of Cardano's Allegra era withdraws the redeem coins of genesis that nobody had
//!   claimed (`returnRedeemAddrsToReserves` in the ledger). No transaction spends them.
//!
//! [BIP 30]: https://github.com/bitcoin/bips/blob/master/bip-0030.mediawiki
//! [`validation.cpp`]: https://github.com/bitcoin/bitcoin/blob/master/src/validation.cpp

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use super::{Block, BlockDelta, Created, Era, SpendingInput, Spent, Tx, TxFlags};
use crate::{Outpoint, TxId};

/// Whether entering `next` from `before` withdraws the unclaimed redeem coins of genesis.
pub fn retires_redeem_coins(before: Era, next: Era) -> bool {
    before < Era::Allegra && next >= Era::Allegra
}

/// Coins that must be looked up before the block can be planned: inputs not born in this block, and
/// the outputs of a coinbase, which may repeat an older one. Sorted, without repeats.
pub fn lookups<C>(block: &Block<C>) -> Vec<Outpoint> {
    let mut earlier: HashSet<TxId, RandomState> =
        HashSet::with_capacity_and_hasher(block.txs.len(), RandomState::default());
    let mut wanted = Vec::new();
    for tx in &block.txs {
        // Only earlier transactions count: an input that names a later one of the same block is
        // missing, unless an older coinbase had that id.
        wanted.extend(tx.spends.iter().filter(|spent| !earlier.contains(&spent.tx)));
        if tx.is_coinbase {
            wanted.extend(tx.creates.iter().map(|(index, _)| Outpoint::new(tx.id, *index)));
        }
        earlier.insert(tx.id);
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// What the block does to the set, given the coins that [`lookups`] named. `take` hands each of
/// them over once: what the block has spent is not there a second time.
///
/// `retired` are coins withdrawn by a change of era before the block's first transaction. An input
/// that nobody knows is listed as missing and changes nothing.
pub fn plan<C: Clone>(
    block: Block<C>,
    retired: Vec<(Outpoint, C)>,
    take: impl FnMut(&Outpoint) -> Option<C>,
) -> BlockDelta<C> {
    let mut planner = Planner::new(&block, take);
    for (outpoint, coin) in retired {
        // The block's inputs come too late for it.
        (planner.take)(&outpoint);
        planner.delta.spent.push(Spent { outpoint, coin, by: None, born_here: false });
    }
    for (position, tx) in (0..).zip(block.txs) {
        planner.transaction(position, tx);
    }
    planner.delta
}

/// The outputs of one earlier transaction inside `delta.created`.
struct Siblings {
    first: usize,
    count: usize,
}

struct Planner<C, F> {
    delta: BlockDelta<C>,
    born: HashMap<TxId, Siblings, RandomState>,
    take: F,
}

impl<C: Clone, F: FnMut(&Outpoint) -> Option<C>> Planner<C, F> {
    fn new(block: &Block<C>, take: F) -> Self {
        let sum = |count: fn(&Tx<C>) -> usize| block.txs.iter().map(count).sum();
        let delta = BlockDelta {
            point: block.header.point,
            created: Vec::with_capacity(sum(|tx| tx.creates.len())),
            spent: Vec::with_capacity(sum(|tx| tx.spends.len())),
            overwritten: Vec::new(),
            missing: Vec::new(),
            tx_flags: Vec::new(),
        };
        let born = HashMap::with_capacity_and_hasher(block.txs.len(), RandomState::default());
        Self { delta, born, take }
    }

    fn transaction(&mut self, position: u32, tx: Tx<C>) {
        for (input, outpoint) in (0..).zip(tx.spends) {
            self.spend(outpoint, SpendingInput { tx: tx.id, position, input });
        }
        if tx.is_invalid {
            let had_collateral_return = !tx.creates.is_empty();
            let flags = TxFlags { tx: tx.id, is_invalid: true, had_collateral_return };
            self.delta.tx_flags.push(flags);
        }
        self.create(tx.id, tx.creates, tx.is_coinbase);
    }

    fn spend(&mut self, outpoint: Outpoint, by: SpendingInput) {
        if let Some(created) = self.born_here(&outpoint) {
            // A second spend of one coin: a node would have refused the block. We note it.
            if created.spent_here {
                return self.delta.missing.push(outpoint);
            }
            created.spent_here = true;
            let coin = created.coin.clone();
            return self.delta.spent.push(Spent { outpoint, coin, by: Some(by), born_here: true });
        }
        match (self.take)(&outpoint) {
            Some(coin) => {
                self.delta.spent.push(Spent { outpoint, coin, by: Some(by), born_here: false });
            }
            None => self.delta.missing.push(outpoint),
        }
    }

    fn born_here(&mut self, outpoint: &Outpoint) -> Option<&mut Created<C>> {
        let siblings = self.born.get(&outpoint.tx)?;
        let range = siblings.first..siblings.first + siblings.count;
        let created = self.delta.created.get_mut(range)?;
        let at = created.binary_search_by_key(&outpoint.index, |c| c.outpoint.index).ok()?;
        created.get_mut(at)
    }

    fn create(&mut self, tx: TxId, outputs: Vec<(u32, C)>, may_repeat: bool) {
        self.born.insert(tx, Siblings { first: self.delta.created.len(), count: outputs.len() });
        for (index, coin) in outputs {
            let outpoint = Outpoint::new(tx, index);
            // An older coin that this very block has spent isn't overwritten: it was gone before.
            if may_repeat {
                let before = (self.take)(&outpoint);
                self.delta.overwritten.extend(before.map(|coin| (outpoint, coin)));
            }
            self.delta.created.push(Created { outpoint, coin, spent_here: false });
        }
    }
}
