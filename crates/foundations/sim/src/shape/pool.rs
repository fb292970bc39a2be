//! Coins that may be spent, shelved by the height that made them.
//!
//! Taking one is a random draw from a shelf, in constant time; nothing is ever searched by key.
//! A coin takes 56 bytes, and shelves give memory back as they empty.

use std::ops::RangeInclusive;

use bitcoin::Txid;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::mix::{Age, harmonic};

/// What is needed to spend an output: where it is, its worth, and the nonce of its address.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolCoin {
    pub(super) txid: Txid,
    pub(super) vout: u32,
    pub(super) sats: u64,
    pub(super) nonce: u64,
}

/// A coin taken from the pool and the height that made it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) coin: PoolCoin,
    pub(super) height: u32,
}

#[derive(Debug, Default)]
pub(super) struct Pool {
    /// `shelves[i]` holds what is left of the block at height `i`.
    shelves: Vec<Vec<PoolCoin>>,
    /// Coins of the block in the making.
    fresh: Vec<PoolCoin>,
    /// First and last height of the fan-out, from where older coins come while the chain is young.
    oldest: Option<(u32, u32)>,
    len: usize,
}

impl Pool {
    /// Tries on shelves of the right age, then on those of the fan-out, before any will do.
    const TRIES_PER_RULE: u32 = 8;
    const TRIES_ANY_AGE: u32 = 64;

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a coin of the block in the making.
    pub(super) fn add(&mut self, coin: PoolCoin) {
        self.fresh.push(coin);
        self.len = self.len.saturating_add(1);
    }

    /// Adds a coin to the shelf of an earlier height, as coinbases are once they are mature.
    pub(super) fn add_at(&mut self, height: u32, coin: PoolCoin) {
        if let Some(shelf) = shelf(&mut self.shelves, height) {
            shelf.push(coin);
            self.len = self.len.saturating_add(1);
        }
    }

    /// Ends the block in the making: its coins get a shelf of their own at the next height.
    pub(super) fn shelve(&mut self) {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.shrink_to_fit();
        self.shelves.push(fresh);
    }

    /// Remembers the block just shelved as part of the fan-out.
    pub(super) fn mark_fan_out(&mut self, height: u32) {
        self.oldest = Some((self.oldest.map_or(height, |(first, _)| first), height));
    }

    /// Takes a coin of about this age for the block at `height`; if there's none, another one.
    pub(super) fn take(&mut self, rng: &mut ChaCha8Rng, height: u32, age: Age) -> Option<Taken> {
        let taken = match age {
            Age::SameBlock => self.take_fresh(rng, height),
            Age::Between(youngest, oldest) => self.take_aged(rng, height, youngest..=oldest),
        };
        taken
            .or_else(|| self.take_oldest(rng))
            .or_else(|| self.take_any(rng, height))
            .or_else(|| self.take_fresh(rng, height))
    }

    fn take_fresh(&mut self, rng: &mut ChaCha8Rng, height: u32) -> Option<Taken> {
        let coin = draw(rng, &mut self.fresh)?;
        self.len = self.len.saturating_sub(1);
        Some(Taken { coin, height })
    }

    fn take_aged(
        &mut self,
        rng: &mut ChaCha8Rng,
        height: u32,
        ages: RangeInclusive<u32>,
    ) -> Option<Taken> {
        let (first, _) = self.oldest?;
        let (youngest, oldest) = ages.into_inner();
        let deepest = height.saturating_sub(first).min(oldest);
        if deepest < youngest {
            return None;
        }
        (0..Self::TRIES_PER_RULE).find_map(|_| {
            let age = harmonic(rng, youngest..=deepest);
            self.take_at(rng, height.saturating_sub(age))
        })
    }

    /// A coin of the fan-out.
    fn take_oldest(&mut self, rng: &mut ChaCha8Rng) -> Option<Taken> {
        let (first, last) = self.oldest?;
        (0..Self::TRIES_PER_RULE).find_map(|_| {
            let at = rng.random_range(first..=last);
            self.take_at(rng, at)
        })
    }

    /// Any coin of an earlier block: wherever a random height first meets one.
    fn take_any(&mut self, rng: &mut ChaCha8Rng, height: u32) -> Option<Taken> {
        let (first, _) = self.oldest?;
        (0..Self::TRIES_ANY_AGE).find_map(|_| {
            let at = rng.random_range(first..height.max(first.saturating_add(1)));
            self.take_at(rng, at)
        })
    }

    fn take_at(&mut self, rng: &mut ChaCha8Rng, height: u32) -> Option<Taken> {
        let coin = draw(rng, shelf(&mut self.shelves, height)?)?;
        self.len = self.len.saturating_sub(1);
        Some(Taken { coin, height })
    }
}

fn shelf(shelves: &mut [Vec<PoolCoin>], height: u32) -> Option<&mut Vec<PoolCoin>> {
    shelves.get_mut(usize::try_from(height).ok()?)
}

/// Takes a random coin out and gives memory back when half of it is unused.
fn draw(rng: &mut ChaCha8Rng, shelf: &mut Vec<PoolCoin>) -> Option<PoolCoin> {
    let len = u32::try_from(shelf.len()).ok().filter(|len| *len > 0)?;
    let at = usize::try_from(rng.random_range(0..len)).ok()?;
    // The order of a shelf means nothing, and the last one in the gap costs no move of the rest.
    let coin = shelf.swap_remove(at);
    if shelf.len() < shelf.capacity() / 2 {
        shelf.shrink_to_fit();
    }
    Some(coin)
}
