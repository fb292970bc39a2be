//! `[utxo]` of the configuration.

use unspent_chain::StoreKind;
use unspent_server::config::{Config, Origin, check_span, section, wrong};

use crate::PRUNE_EVERY;

use super::ChainOptions;

section! {
    /// The chain room: every unspent output.
    pub struct UtxoSection in "utxo" {
        /// Keep the UTXO index; if false, only the chain's points are kept
        enabled: bool = true, flag value "BOOL", was "UNSPENT_UTXO_ENABLED";
        /// classic, or mmr for a root of every block and proofs (default: as the folder was built)
        store: Option<String>, example "\"classic\"", flag value "KIND", was "UNSPENT_UTXO_STORE";
        /// Forget spent coins this many blocks after their spend (Bitcoin 288, Cardano 2160)
        prune_depth: Option<u64>, example "288", flag value "BLOCKS", was "UNSPENT_UTXO_PRUNE_DEPTH";
        /// Blocks that can be undone (Bitcoin 288, Cardano 4320)
        rollback_window: Option<u64>, example "288", flag value "BLOCKS",
            was "UNSPENT_UTXO_ROLLBACK_WINDOW";
        /// Entries that one pruning pass may delete
        prune_batch_size: Option<usize>, example "500", flag value "N",
            was "UNSPENT_UTXO_PRUNE_BATCH_SIZE";
        /// Shorthand for the two switches of [utxo.index]: address_hash, payment_credential or both
        indexing_strategy: Option<String>, example "\"both\"", flag value "STRATEGY",
            was "UNSPENT_UTXO_INDEXING_STRATEGY";
        /// Memory that catching up may use, in MiB (default: a quarter of the machine's, at most
        /// 2048)
        bulk_memory_mb: Option<usize>, example "2048", flag value "MIB",
            was "UNSPENT_BULK_MEMORY_MB";
        /// Memory for cached database blocks, in MiB (a quarter of bulk_memory_mb, and part of it)
        block_cache_mb: Option<usize>, example "512", flag value "MIB",
            was "UNSPENT_BLOCK_CACHE_MB";
        /// Seconds between two pruning passes
        prune_seconds: u64 = PRUNE_EVERY.as_secs();
    } with {
        index: IndexSection,
        delta: DeltaSection,
    }
}

section! {
    /// Which lists of coins are kept.
    pub struct IndexSection in "utxo.index" {
        /// List coins by address (default: as the folder was built, else true)
        address_hash: Option<bool>, example "true", flag value "BOOL",
            was "UNSPENT_UTXO_INDEX_ADDRESS_HASH";
        /// List coins by payment credential (default: as the folder was built, else true)
        payment_credential: Option<bool>, example "true", flag value "BOOL",
            was "UNSPENT_UTXO_INDEX_PAYMENT_CREDENTIAL";
    }
}

section! {
    /// What undoing a block needs.
    pub struct DeltaSection in "utxo.delta" {
        /// Deltas carry the bodies of coins, so that undoing needs no spent records
        self_contained: Option<bool>, example "false", flag value "BOOL",
            was "UNSPENT_UTXO_DELTA_SELF_CONTAINED";
    }
}

impl UtxoSection {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        check_span("utxo.prune_seconds", self.prune_seconds)?;
        self.options().map(|_| ())
    }

    /// What a command works with: a folder that was built without an index stays without one,
    /// unless somebody says otherwise.
    pub(super) fn command_options(config: &Config) -> anyhow::Result<ChainOptions> {
        let options = config.room::<Self>()?.options()?;
        let is_said = *config.origin("utxo.enabled") != Origin::Default;
        Ok(ChainOptions { enabled: options.enabled.filter(|_| is_said), ..options })
    }

    /// What the daemon works with.
    pub(super) fn options(&self) -> anyhow::Result<ChainOptions> {
        let strategy = self.indexing_strategy.as_deref().map(str::parse).transpose();
        let strategy = strategy.map_err(|error: unspent_chain::OptionsError| {
            wrong(format!("utxo.indexing_strategy: {error}"))
        })?;
        let store = self.store.as_deref().map(str::parse::<StoreKind>).transpose();
        let store = store.map_err(|error| wrong(format!("utxo.store: {error}")))?;
        Ok(ChainOptions {
            enabled: Some(self.enabled),
            store,
            prune_depth: self.prune_depth,
            rollback_window: self.rollback_window,
            prune_batch_size: self.prune_batch_size,
            index_address_hash: self.index.address_hash,
            index_payment_credential: self.index.payment_credential,
            indexing_strategy: strategy,
            delta_self_contained: self.delta.self_contained,
            block_cache_mb: self.block_cache_mb,
            bulk_memory_mb: self.bulk_memory_mb,
        })
    }
}
