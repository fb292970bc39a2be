//! What an operator may choose, with the defaults of the format.

use std::{fmt, str::FromStr};

use unspent_model::{Network, network::Windows};

use crate::{
    indexes::name::{IndexName, Indexes},
    memory,
};

/// The options of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Keep the index at all. Off: points are kept, no family of the index is touched.
    pub enabled: bool,
    /// Spent coins are forgotten this many blocks after their spend.
    pub prune_depth: u64,
    /// Blocks that can be undone, counted from the tip.
    pub rollback_window: u64,
    /// Entries one pruning pass may delete (at least one whole block goes).
    pub prune_batch_size: usize,
    /// Which secondary indexes are kept.
    pub indexes: Indexes,
    /// Whether roots and proofs are kept. Chosen when the folder is made.
    pub store: StoreKind,
    /// Deltas carry bodies, so that undoing needs no spent records.
    pub self_contained: bool,
    /// Memory for RocksDB's block cache, in bytes; a part of `bulk_memory`.
    pub block_cache: usize,
    /// Memory for each column family's write buffer near the tip, in bytes.
    pub write_buffer: usize,
    /// Memory that catching up may take, in bytes. Batches end by it.
    pub bulk_memory: usize,
    /// Ends a bulk batch after this many blocks, whatever its size; for tests that need batches of
    /// a known length. No bound by default.
    pub bulk_blocks: usize,
}

/// What an index can do beyond answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// Coins and lists.
    #[default]
    Classic,
    /// Also a root for every block, and proofs that lead to it.
    Mmr,
}

impl StoreKind {
    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Mmr => "mmr",
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for StoreKind {
    type Err = OptionsError;

    fn from_str(text: &str) -> Result<Self, OptionsError> {
        let found = [Self::Classic, Self::Mmr].into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| OptionsError::UnknownStore(text.to_owned()))
    }
}

/// The shorthand for [`Indexes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexingStrategy {
    /// By address only.
    AddressHash,
    /// By payment credential only.
    PaymentCredential,
    /// Both.
    Both,
}

/// Option values that can't be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The shorthand and a single switch disagree.
    #[error(
        "indexing_strategy={strategy} contradicts index.{switch}={value}; set only one of them"
    )]
    Conflict {
        /// The shorthand given.
        strategy: &'static str,
        /// The switch given.
        switch: &'static str,
        /// What the switch was set to.
        value: bool,
    },
    /// No such shorthand.
    #[error("unknown indexing strategy `{0}`; use address_hash, payment_credential or both")]
    UnknownStrategy(String),
    /// No such store.
    #[error("unknown store `{0}`; use classic or mmr")]
    UnknownStore(String),
    /// Zero where at least one is needed.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
}

impl IndexingStrategy {
    fn name(self) -> &'static str {
        match self {
            Self::AddressHash => "address_hash",
            Self::PaymentCredential => "payment_credential",
            Self::Both => "both",
        }
    }

    fn indexes(self) -> Indexes {
        Indexes::NONE
            .with(IndexName::AddressHash, self != Self::PaymentCredential)
            .with(IndexName::PaymentCredential, self != Self::AddressHash)
    }
}

impl FromStr for IndexingStrategy {
    type Err = OptionsError;

    fn from_str(text: &str) -> Result<Self, OptionsError> {
        let all = [Self::AddressHash, Self::PaymentCredential, Self::Both];
        let found = all.into_iter().find(|strategy| strategy.name() == text);
        found.ok_or_else(|| OptionsError::UnknownStrategy(text.to_owned()))
    }
}

impl Indexes {
    /// What switches say, over the defaults; over the shorthand, where it is given. It speaks of
    /// the two usual indexes, so a switch of one of them must agree with it.
    ///
    /// # Errors
    ///
    /// [`OptionsError::Conflict`] when they disagree.
    pub fn choose(
        strategy: Option<IndexingStrategy>,
        switches: impl IntoIterator<Item = (IndexName, Option<bool>)>,
    ) -> Result<Self, OptionsError> {
        let mut chosen = strategy.map_or_else(Self::usual, IndexingStrategy::indexes);
        for (name, value) in switches {
            let Some(value) = value else { continue };
            if let Some(strategy) = strategy.filter(|_| name.is_usual())
                && value != chosen.has(name)
            {
                let (strategy, switch) = (strategy.name(), name.switch());
                return Err(OptionsError::Conflict { strategy, switch, value });
            }
            chosen = chosen.with(name, value);
        }
        Ok(chosen)
    }
}

impl Options {
    /// What an operator of `network` gets without asking.
    pub fn for_network(network: Network) -> Self {
        let Windows { prune_depth, rollback_window } = network.default_windows();
        let bulk_memory = memory::suitable_budget();
        Self {
            enabled: true,
            prune_depth,
            rollback_window,
            prune_batch_size: 500,
            indexes: Indexes::usual(),
            store: StoreKind::Classic,
            self_contained: false,
            block_cache: memory::cache_share(bulk_memory),
            write_buffer: 64 << 20,
            bulk_memory,
            bulk_blocks: usize::MAX,
        }
    }

    /// Gives catching up `bytes` of memory, and the block cache its share of them.
    pub fn set_bulk_memory(&mut self, bytes: usize) {
        self.bulk_memory = bytes;
        self.block_cache = memory::cache_share(bytes);
    }

    /// The size at which a bulk batch ends, in bytes.
    pub fn batch_memory(&self) -> usize {
        memory::batch_share(self.bulk_memory, self.block_cache)
    }

    /// Refuses values that can't work.
    ///
    /// # Errors
    ///
    /// Names the option.
    pub fn check(&self) -> Result<(), OptionsError> {
        let numbers = [
            ("prune_batch_size", self.prune_batch_size),
            ("bulk_memory", self.bulk_memory),
            ("bulk_blocks", self.bulk_blocks),
        ];
        match numbers.into_iter().find(|(_, number)| *number == 0) {
            Some((name, _)) => Err(OptionsError::Zero(name)),
            None => Ok(()),
        }
    }

    /// Blocks whose deltas are kept. Compact deltas and the spent bodies they need go together, so
    /// the larger window counts for both; and spent bodies are pruned by their delta's list, so a
    /// delta never goes before them.
    pub fn delta_depth(&self) -> u64 {
        self.prune_depth.max(self.rollback_window)
    }

    /// Blocks whose spent records are kept.
    pub fn spent_depth(&self) -> u64 {
        if self.self_contained { self.prune_depth } else { self.delta_depth() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strategy_overrides_and_contradictions_are_errors() {
        type S = IndexingStrategy;
        let both = |address, credential| {
            [(IndexName::AddressHash, address), (IndexName::PaymentCredential, credential)]
        };
        let by_address = Indexes::NONE.with(IndexName::AddressHash, true);
        assert_eq!(Indexes::choose(None, both(None, Some(false))).unwrap(), by_address);
        let agreed = Indexes::choose(Some(S::AddressHash), both(Some(true), Some(false)));
        assert_eq!(agreed.unwrap(), by_address);
        let conflict = Indexes::choose(Some(S::Both), both(Some(false), None)).unwrap_err();
        assert!(conflict.to_string().contains("index.address_hash=false"));
        assert!("all".parse::<S>().is_err());
        assert_eq!("both".parse::<S>(), Ok(S::Both));
    }

    #[test]
    fn compact_undo_data_is_kept_for_the_larger_window() {
        let mut options = Options::for_network(Network::CardanoPreview);
        assert_eq!((options.delta_depth(), options.spent_depth()), (4320, 4320));
        options.self_contained = true;
        assert_eq!((options.delta_depth(), options.spent_depth()), (4320, 2160));
    }
}
