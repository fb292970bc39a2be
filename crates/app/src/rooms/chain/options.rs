//! The options of the chain room as arguments.
//!
//! What a folder knows of itself (which lists it keeps, whether it has an index, its windows and
//! delta mode) need not be repeated.

use clap::{Args, ValueEnum};
use unspent_chain::{Indexes, IndexingStrategy, Options, Status, StoreKind};
use unspent_model::Network;

use crate::error::CliError;

/// How the coin set is stored.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreArg {
    /// Coins, spends, lists and deltas
    Classic,
    /// Classic plus a root for every block, and proofs
    Mmr,
}

impl StoreArg {
    fn kind(self) -> StoreKind {
        match self {
            Self::Classic => StoreKind::Classic,
            Self::Mmr => StoreKind::Mmr,
        }
    }
}

impl From<StoreKind> for StoreArg {
    fn from(kind: StoreKind) -> Self {
        match kind {
            StoreKind::Classic => Self::Classic,
            StoreKind::Mmr => Self::Mmr,
        }
    }
}

/// Options of the chain room; absent means the folder's or the network's own value.
#[derive(Args, Default)]
pub(crate) struct OptionArgs {
    /// Keep the UTXO index; without it only the chain's points are kept [default: true]
    #[arg(long, env = "UNSPENT_UTXO_ENABLED", value_name = "BOOL", help_heading = "Index")]
    pub(crate) enabled: Option<bool>,
    /// How the coin set is stored [default: as the folder was built, else classic]
    #[arg(long, env = "UNSPENT_UTXO_STORE", value_enum, help_heading = "Index")]
    pub(crate) store: Option<StoreArg>,
    /// Forget spent coins this many blocks after their spend [default: as before, else 288 Bitcoin,
    /// 2160 Cardano]
    #[arg(long, env = "UNSPENT_UTXO_PRUNE_DEPTH", value_name = "BLOCKS", help_heading = "Index")]
    pub(crate) prune_depth: Option<u64>,
    /// Blocks that can be undone [default: as before, else 288 Bitcoin, 4320 Cardano]
    #[arg(
        long,
        env = "UNSPENT_UTXO_ROLLBACK_WINDOW",
        value_name = "BLOCKS",
        help_heading = "Index"
    )]
    pub(crate) rollback_window: Option<u64>,
    /// Entries one pruning pass may delete [default: 500]
    #[arg(long, env = "UNSPENT_UTXO_PRUNE_BATCH_SIZE", value_name = "N", help_heading = "Index")]
    pub(crate) prune_batch_size: Option<usize>,
    /// List coins by address [default: as the folder was built, else true]
    #[arg(
        long,
        env = "UNSPENT_UTXO_INDEX_ADDRESS_HASH",
        value_name = "BOOL",
        help_heading = "Index"
    )]
    pub(crate) index_address_hash: Option<bool>,
    /// List coins by payment credential [default: as the folder was built, else true]
    #[arg(
        long,
        env = "UNSPENT_UTXO_INDEX_PAYMENT_CREDENTIAL",
        value_name = "BOOL",
        help_heading = "Index"
    )]
    pub(crate) index_payment_credential: Option<bool>,
    /// Shorthand for both switches: address_hash, payment_credential or both
    #[arg(
        long,
        env = "UNSPENT_UTXO_INDEXING_STRATEGY",
        value_name = "STRATEGY",
        help_heading = "Index"
    )]
    pub(crate) indexing_strategy: Option<IndexingStrategy>,
    /// Deltas carry the bodies of coins, so that undoing needs no spent records [default: as
    /// before, else false]
    #[arg(
        long,
        env = "UNSPENT_UTXO_DELTA_SELF_CONTAINED",
        value_name = "BOOL",
        help_heading = "Index"
    )]
    pub(crate) delta_self_contained: Option<bool>,
    /// Memory that catching up may take, in MiB [default: a quarter of the machine's, at most 2048]
    #[arg(long, env = "UNSPENT_BULK_MEMORY_MB", value_name = "MIB", help_heading = "Index")]
    pub(crate) bulk_memory_mb: Option<usize>,
    /// Memory for cached database blocks, in MiB, as a part of that [default: a quarter of it]
    #[arg(long, env = "UNSPENT_BLOCK_CACHE_MB", value_name = "MIB", help_heading = "Index")]
    pub(crate) block_cache_mb: Option<usize>,
}

impl OptionArgs {
    /// The options in force for a folder that stands as `known` says, or a new one.
    pub(crate) fn resolve(
        &self,
        network: Network,
        known: Option<&Status>,
    ) -> anyhow::Result<Options> {
        let mut options = Options::for_network(network);
        options.indexes = self.indexes(known.and_then(|status| status.indexes))?;
        let indexed = known.filter(|status| status.indexes.is_some());
        set(&mut options.store, indexed.map(|status| status.store));
        set(&mut options.store, self.store.map(StoreArg::kind));
        // A folder without blocks hasn't made up its mind yet.
        let built = known.filter(|status| status.chain.is_some());
        options.enabled = self.enabled.or(built.map(|status| status.enabled)).unwrap_or(true);
        if let Some(chosen) = built.and_then(|status| status.choices) {
            options.prune_depth = chosen.prune_depth;
            options.rollback_window = chosen.rollback_window;
            options.self_contained = chosen.self_contained;
        }
        set(&mut options.prune_depth, self.prune_depth);
        set(&mut options.rollback_window, self.rollback_window);
        set(&mut options.prune_batch_size, self.prune_batch_size);
        set(&mut options.self_contained, self.delta_self_contained);
        if let Some(mib) = self.bulk_memory_mb {
            options.set_bulk_memory(bytes(mib, "--bulk-memory-mb")?);
        }
        if let Some(mib) = self.block_cache_mb {
            options.block_cache = bytes(mib, "--block-cache-mb")?;
        }
        options.check()?;
        Ok(options)
    }

    fn indexes(&self, known: Option<Indexes>) -> anyhow::Result<Indexes> {
        let (address, credential) = (self.index_address_hash, self.index_payment_credential);
        let chosen = Indexes::choose(self.indexing_strategy, address, credential)?;
        let nothing_said = self.indexing_strategy.is_none() && address.is_none();
        Ok(match known {
            Some(known) if nothing_said && credential.is_none() => known,
            Some(_) | None => chosen,
        })
    }
}

fn bytes(mib: usize, option: &str) -> anyhow::Result<usize> {
    let bytes = mib.checked_mul(1 << 20);
    bytes.ok_or_else(|| CliError::usage(format!("{option} is too large")).into())
}

fn set<T>(to: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *to = value;
    }
}
