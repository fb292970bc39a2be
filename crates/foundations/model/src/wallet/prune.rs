//! Which history may go when somebody asks for it by hand.
//!
//! A transaction may go when it is confirmed deep enough, every coin it made is spent just as deep,
//! and every coin it spent goes with it or is gone already: so no coin ever becomes unspent. Its
//! dead rivals and their descendants go with it, since without it nothing would show why they are
//! dead.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::{Outpoint, TxId, maturity::ChainTip};

/// What has to be known of a transaction that may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruneFacts {
    /// In wire order, as hashed.
    pub txid: TxId,
    /// Height of its block, if it has one.
    pub height: Option<u64>,
    /// Its coins: index, and the height of the spend where there is a confirmed one.
    pub coins: Vec<(u32, Option<u64>)>,
    /// Stored transactions whose coins it spends.
    pub parents: Vec<TxId>,
    /// Dead transactions that spend one of its inputs, and all descendants of those.
    pub losers: Vec<TxId>,
}

/// Why a transaction has to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PruneRefusal {
    /// Nothing is stored under that name.
    #[error("{} is unknown; nothing was pruned", .0.on_bitcoin())]
    Unknown(TxId),
    /// It is in no block.
    #[error("{} is not confirmed; nothing was pruned", .0.on_bitcoin())]
    Unconfirmed(TxId),
    /// It, or the spend of one of its coins, is too young.
    #[error(
        "{tx} has only {depth} of the {needed} confirmations needed; nothing was pruned",
        tx = .tx.on_bitcoin()
    )]
    Shallow {
        /// The transaction.
        tx: TxId,
        /// How deep it or its youngest spend is.
        depth: u64,
        /// How deep it must be.
        needed: u64,
    },
    /// It still holds money.
    #[error("coin {} is unspent; nothing was pruned", .0.on_bitcoin())]
    CoinUnspent(Outpoint),
    /// It spends a coin that stays.
    #[error(
        "{tx} spends a coin of {parent}, which stays; nothing was pruned",
        tx = .tx.on_bitcoin(),
        parent = .parent.on_bitcoin()
    )]
    ParentStays {
        /// The transaction.
        tx: TxId,
        /// The one whose coin would become unspent.
        parent: TxId,
    },
}

/// How deep things must be before they may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneRule {
    /// The wallet's tip.
    pub tip: u64,
    /// Confirmations that the transaction and all spends of its coins need.
    pub depth: u64,
}

/// Whether this one could go as far as it alone is concerned.
fn alone(facts: &PruneFacts, rule: PruneRule) -> Result<(), PruneRefusal> {
    let height = facts.height.ok_or(PruneRefusal::Unconfirmed(facts.txid))?;
    let mut youngest = height;
    for (index, spent) in &facts.coins {
        let outpoint = Outpoint::new(facts.txid, *index);
        youngest = youngest.max(spent.ok_or(PruneRefusal::CoinUnspent(outpoint))?);
    }
    let depth = super::coin::depth(Some(youngest), ChainTip(Some(rule.tip)));
    if depth < rule.depth {
        return Err(PruneRefusal::Shallow { tx: facts.txid, depth, needed: rule.depth });
    }
    Ok(())
}

/// The transactions that go when exactly these are asked for: they and their dead rivals.
///
/// # Errors
///
/// [`PruneRefusal`] for the first that has to stay; then none may go.
pub fn exactly(
    known: &HashMap<TxId, PruneFacts>,
    asked: &[TxId],
    rule: PruneRule,
) -> Result<Vec<TxId>, PruneRefusal> {
    let going: HashSet<TxId> = asked.iter().copied().collect();
    for txid in asked {
        let facts = known.get(txid).ok_or(PruneRefusal::Unknown(*txid))?;
        alone(facts, rule)?;
        if let Some(parent) = facts.parents.iter().find(|parent| !going.contains(parent)) {
            return Err(PruneRefusal::ParentStays { tx: *txid, parent: *parent });
        }
    }
    Ok(with_losers(known, going))
}

/// The most that may go among those known.
pub fn as_many_as_possible(known: &HashMap<TxId, PruneFacts>, rule: PruneRule) -> Vec<TxId> {
    let may = known.values().filter(|facts| alone(facts, rule).is_ok());
    let mut going: HashSet<TxId> = may.map(|facts| facts.txid).collect();
    loop {
        let held: Vec<TxId> = going
            .iter()
            .filter(|txid| {
                let parents = known.get(txid).map(|facts| facts.parents.as_slice());
                parents.unwrap_or_default().iter().any(|parent| !going.contains(parent))
            })
            .copied()
            .collect();
        if held.is_empty() {
            return with_losers(known, going);
        }
        held.iter().for_each(|txid| {
            going.remove(txid);
        });
    }
}

fn with_losers(known: &HashMap<TxId, PruneFacts>, going: HashSet<TxId>) -> Vec<TxId> {
    let losers = going.iter().filter_map(|txid| known.get(txid)).flat_map(|facts| &facts.losers);
    let all: BTreeSet<TxId> = going.iter().chain(losers).copied().collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: PruneRule = PruneRule { tip: 1000, depth: 100 };

    fn id(n: u8) -> TxId {
        TxId([n; 32])
    }

    fn facts(n: u8, height: Option<u64>, coins: Vec<(u32, Option<u64>)>) -> PruneFacts {
        PruneFacts { txid: id(n), height, coins, parents: Vec::new(), losers: Vec::new() }
    }

    fn known(all: Vec<PruneFacts>) -> HashMap<TxId, PruneFacts> {
        all.into_iter().map(|facts| (facts.txid, facts)).collect()
    }

    #[test]
    fn unconfirmed_shallow_and_unspent_are_not_pruned() {
        let world = known(vec![
            facts(1, None, vec![]),
            facts(2, Some(950), vec![]),
            facts(3, Some(10), vec![(0, None)]),
            facts(4, Some(10), vec![(0, Some(950))]),
            facts(5, Some(901), vec![(0, Some(901))]),
        ]);
        let ask = |n| exactly(&world, &[id(n)], RULE);
        assert_eq!(ask(1), Err(PruneRefusal::Unconfirmed(id(1))));
        let shallow = |n| PruneRefusal::Shallow { tx: id(n), depth: 51, needed: 100 };
        assert_eq!(ask(2), Err(shallow(2)));
        assert_eq!(ask(3), Err(PruneRefusal::CoinUnspent(Outpoint::new(id(3), 0))));
        assert_eq!(ask(4), Err(shallow(4)));
        assert_eq!(ask(5), Ok(vec![id(5)]));
        assert_eq!(ask(9), Err(PruneRefusal::Unknown(id(9))));
        assert_eq!(as_many_as_possible(&world, RULE), vec![id(5)]);
    }

    #[test]
    fn a_spender_is_pruned_only_with_the_coins_it_spent() {
        let mut parent = facts(1, Some(10), vec![(0, Some(20)), (1, None)]);
        let mut child = facts(2, Some(20), vec![]);
        child.parents = vec![id(1)];
        let world = known(vec![parent.clone(), child.clone()]);
        let stays = PruneRefusal::ParentStays { tx: id(2), parent: id(1) };
        assert_eq!(exactly(&world, &[id(2)], RULE), Err(stays));
        assert!(as_many_as_possible(&world, RULE).is_empty());
        parent.coins = vec![(0, Some(20))];
        let world = known(vec![parent, child]);
        assert_eq!(exactly(&world, &[id(1), id(2)], RULE), Ok(vec![id(1), id(2)]));
        assert_eq!(as_many_as_possible(&world, RULE), vec![id(1), id(2)]);
    }

    #[test]
    fn dead_rivals_are_pruned_with_the_winner() {
        let mut winner = facts(1, Some(10), vec![]);
        winner.losers = vec![id(7), id(8)];
        let world = known(vec![winner]);
        assert_eq!(exactly(&world, &[id(1)], RULE), Ok(vec![id(1), id(7), id(8)]));
    }
}
