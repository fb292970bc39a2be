//! The options of the chain room, and what a folder adds to them.
//!
//! What a folder knows of itself (which lists it keeps, whether it has an index, its windows and
//! delta mode) need not be repeated.

use unspent_chain::{IndexName, Indexes, IndexingStrategy, Options, StoreKind, StoreStatus};
use unspent_model::Network;
use unspent_server::error::CliError;

/// Options of the chain room; absent means the folder's or the network's own value.
#[derive(Default)]
pub(crate) struct ChainOptions {
    pub(crate) enabled: Option<bool>,
    pub(crate) store: Option<StoreKind>,
    pub(crate) prune_depth: Option<u64>,
    pub(crate) rollback_window: Option<u64>,
    pub(crate) prune_batch_size: Option<usize>,
    pub(crate) index_address_hash: Option<bool>,
    pub(crate) index_payment_credential: Option<bool>,
    pub(crate) indexing_strategy: Option<IndexingStrategy>,
    pub(crate) delta_self_contained: Option<bool>,
    pub(crate) bulk_memory_mb: Option<usize>,
    pub(crate) block_cache_mb: Option<usize>,
}

impl ChainOptions {
    /// The options in force for a folder that stands as `known` says, or a new one.
    pub(crate) fn resolve(
        &self,
        network: Network,
        known: Option<&StoreStatus>,
    ) -> anyhow::Result<Options> {
        let mut options = Options::for_network(network);
        options.indexes = self.indexes(known.and_then(|status| status.indexes))?;
        let indexed = known.filter(|status| status.indexes.is_some());
        set(&mut options.store, indexed.map(|status| status.store));
        set(&mut options.store, self.store);
        // A folder without blocks hasn't made up its mind yet.
        let built = known.filter(|status| status.chain.is_some());
        options.enabled = self.enabled.or(built.map(|status| status.enabled)).unwrap_or(true);
        // A window that fell back to its default because a command didn't repeat it would let go of
        // undo data that was meant to stay.
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
            options.set_bulk_memory(bytes(mib, "utxo.bulk_memory_mb")?);
        }
        if let Some(mib) = self.block_cache_mb {
            options.block_cache = bytes(mib, "utxo.block_cache_mb")?;
        }
        options.check()?;
        Ok(options)
    }

    fn indexes(&self, known: Option<Indexes>) -> anyhow::Result<Indexes> {
        let (address, credential) = (self.index_address_hash, self.index_payment_credential);
        let switches =
            [(IndexName::AddressHash, address), (IndexName::PaymentCredential, credential)];
        let chosen = Indexes::choose(self.indexing_strategy, switches)?;
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
