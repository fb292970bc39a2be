//! When the coins of a descriptor can be spent.
//!
//! A descriptor may offer several ways to spend, some of them only after a time. The way without
//! one is taken if there is one; else the coin waits: `older(n)` counts blocks from the coin's own
//! and becomes the input's sequence ([BIP 68]), `after(n)` is a height that the chain must reach.
//!
//! [BIP 68]: https://github.com/bitcoin/bips/blob/master/bip-0068.mediawiki

use std::collections::HashMap;

use bitcoin::{absolute, relative};
use miniscript::{
    DescriptorPublicKey, ForEachKey as _,
    plan::{Assets, Plan},
};
use unspent_model::maturity::ChainTip;
use unspent_sql::{Row, RowId};

use crate::{descriptor::Keychain, error::WalletError};

/// What a descriptor asks of an input that spends one of its coins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeLock {
    /// Blocks that must lie on the coin.
    pub(crate) older: Option<u16>,
    /// The height that the chain must have reached.
    pub(crate) after: Option<u32>,
    /// Whether it asks for a time of day, which payments here don't build.
    by_clock: bool,
}

/// Whether a coin can be spent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spendability {
    /// It can.
    Now,
    /// From a block of this height on.
    At(u64),
    /// Once it is confirmed, and so many blocks later.
    Unconfirmed(u16),
    /// Its descriptor goes by the clock.
    ByClock,
}

impl TimeLock {
    /// What a descriptor needs.
    pub(crate) fn of(keychain: &Keychain) -> Result<Self, WalletError> {
        // Every index has the same policy, so one answers for all.
        if keychain.at(0)?.plan(&all_keys(keychain)).is_ok() {
            return Ok(Self::default());
        }
        let (blocks, height) = (relative::Height::from(u16::MAX), absolute::Height::MAX);
        let (span, time) = (relative::Time::MAX, absolute::Time::MAX);
        let olders = [relative::LockTime::from(blocks), relative::LockTime::from(span)];
        let afters = [absolute::LockTime::from(height), absolute::LockTime::from(time)];
        // Blocks and seconds do not mix within one lock, so each pair is tried by itself.
        for older in olders {
            for after in afters {
                let timed = all_keys(keychain).older(older).after(after);
                if let Ok(plan) = keychain.at(0)?.plan(&timed) {
                    return Ok(Self::planned(&plan));
                }
            }
        }
        // No way that is known: a preimage, say. The signer knows better.
        Ok(Self::default())
    }

    fn planned(plan: &Plan) -> Self {
        let mut lock = Self::default();
        match plan.relative_timelock {
            Some(relative::LockTime::Blocks(blocks)) => lock.older = Some(blocks.value()),
            Some(relative::LockTime::Time(_)) => lock.by_clock = true,
            None => {}
        }
        match plan.absolute_timelock {
            Some(absolute::LockTime::Blocks(height)) => {
                lock.after = Some(height.to_consensus_u32());
            }
            Some(absolute::LockTime::Seconds(_)) => lock.by_clock = true,
            None => {}
        }
        lock
    }

    /// Whether a coin of block `height` can be in the block after `tip`.
    pub(crate) fn spendability(self, height: Option<u64>, ChainTip(tip): ChainTip) -> Spendability {
        if self.by_clock {
            return Spendability::ByClock;
        }
        let since = match (self.older, height) {
            (Some(blocks), None) => return Spendability::Unconfirmed(blocks),
            (Some(blocks), Some(height)) => height + u64::from(blocks),
            (None, _) => 0,
        };
        // A transaction with lock time n may be in the block after n.
        let until = self.after.map_or(0, |after| u64::from(after) + 1).max(since);
        let next = tip.map_or(0, |tip| tip + 1);
        if until <= next { Spendability::Now } else { Spendability::At(until) }
    }
}

fn all_keys(keychain: &Keychain) -> Assets {
    let mut keys: Vec<DescriptorPublicKey> = Vec::new();
    keychain.descriptor().for_each_key(|key| {
        keys.push(key.clone());
        true
    });
    keys.into_iter().fold(Assets::new(), Assets::add)
}

/// Time locks by chain, each worked out once.
#[derive(Default)]
pub(crate) struct TimeLocks {
    known: HashMap<RowId, TimeLock>,
}

impl TimeLocks {
    /// What the chain of a row's coin needs: `keychain_id` and `time_locked`.
    pub(crate) fn of(&mut self, row: &Row) -> Result<TimeLock, WalletError> {
        let Some(text) = row.opt_text("time_locked")? else { return Ok(TimeLock::default()) };
        let chain = row.row_id("keychain_id")?;
        if let Some(known) = self.known.get(&chain) {
            return Ok(*known);
        }
        let lock = TimeLock::of(&Keychain::stored(&text)?)?;
        self.known.insert(chain, lock);
        Ok(lock)
    }
}

/// Coins that were left out because they can't be spent yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeLockedTotal {
    pub(crate) sats: u64,
    /// The first height at which one of them can be spent, where one goes by height.
    pub(crate) first: Option<u64>,
}

impl TimeLockedTotal {
    /// Notes a coin.
    pub(crate) fn add(&mut self, amount: u64, when: Spendability) {
        // Told to people, and chosen by nobody.
        self.sats = self.sats.saturating_add(amount);
        if let Spendability::At(height) = when {
            self.first = Some(self.first.map_or(height, |first| first.min(height)));
        }
    }

    /// When the first of them can be spent, for people.
    pub(crate) fn told(self) -> String {
        match self.first {
            Some(height) => {
                format!("{} sats are time-locked, the earliest until block {height}", { self.sats })
            }
            None => format!("{} sats are time-locked by their descriptor", self.sats),
        }
    }
}

/// Why a coin that was asked for by name can't be spent yet.
pub(crate) fn refusal(when: Spendability) -> Option<String> {
    match when {
        Spendability::Now => None,
        Spendability::At(height) => Some(format!("it is time-locked until block {height}")),
        Spendability::Unconfirmed(blocks) => {
            Some(format!("it is time-locked until {blocks} blocks after its confirmation"))
        }
        Spendability::ByClock => {
            Some("its descriptor locks it until a clock time, which is not supported".into())
        }
    }
}
