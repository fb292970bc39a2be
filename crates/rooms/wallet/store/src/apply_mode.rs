//! All wallets at once, or each by itself.

use std::sync::Arc;

use unspent_sql::Tx;

use crate::{error::WalletError, ids::WalletId, store::WalletStore};

/// How a change goes into wallets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApplyMode {
    /// Into all of them together, which is quick, and fails as a whole.
    Batched,
    /// Into each by itself, with what nearly never happens looked for; whoever can't take it is
    /// stopped.
    Isolated,
}

/// A key that is no wallet's: changes to all of them run one after the other.
const ALL_WALLETS: WalletId = WalletId(0);

impl WalletStore {
    /// Runs a change to all wallets quickly; where somebody's own data stands in the way, again
    /// with care.
    pub(crate) fn batched_first<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Tx<'_>, ApplyMode) -> Result<T, WalletError> + Send + Sync + 'static,
    ) -> Result<T, WalletError> {
        self.batched_first_for(ALL_WALLETS, work)
    }

    /// The same for one wallet: others' changes run beside it.
    pub(crate) fn batched_first_for<T: Send + 'static>(
        &self,
        wallet: WalletId,
        work: impl Fn(&mut Tx<'_>, ApplyMode) -> Result<T, WalletError> + Send + Sync + 'static,
    ) -> Result<T, WalletError> {
        let work = Arc::new(work);
        let again = work.clone();
        // Isolated costs a savepoint and several statements for each wallet, and is needed when one
        // of them is damaged: the block in which that shows pays for it, no other.
        match self.door.write_for(wallet.0, move |tx| work(tx, ApplyMode::Batched)) {
            // The first try left nothing behind, so that the same work may run once more.
            Err(error) if error.is_of_one_wallet() => {
                self.door.write_for(wallet.0, move |tx| again(tx, ApplyMode::Isolated))
            }
            result => result,
        }
    }
}
