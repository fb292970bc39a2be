//! Taking a payment back that was never sent.

use bitcoin::Txid;
use unspent_model::{Micros, wallet::WalletEvent};

use super::change::give_back;
use crate::{
    apply_plan::{RawTxs, apply_plan},
    error::WalletError,
    ids::{WalletId, model_txid},
    store::WalletStore,
    wallet_row::WalletRow,
};

impl WalletStore {
    /// Takes back a pending transaction that was never sent; its descendants fail with it.
    ///
    /// # Errors
    ///
    /// [`WalletError::Refused`] for anything that isn't pending.
    pub fn invalidate(&self, wallet: WalletId, txid: Txid, now: Micros) -> Result<(), WalletError> {
        let event = WalletEvent::Withdraw(model_txid(txid));
        self.door.write_for(wallet.0, move |tx| {
            let mut row = WalletRow::lock(tx, wallet)?;
            // First the plan: whether all that ever paid the
            // change was taken back shows only after it.
            apply_plan(tx, &mut row, std::slice::from_ref(&event), &RawTxs::new(), now)?;
            // The next payment may have the index of its change.
            give_back(tx, &row, txid)?;
            row.save(tx)
        })
    }
}
