//! By what wallets, transactions and coins are named: here, in the model, and in the `bitcoin`
//! crate.

use bitcoin::{OutPoint, Txid, hashes::Hash as _};
use unspent_model::{Outpoint, TxId};

use crate::error::WalletError;

/// A wallet, by its row. Names are for people; this is for programs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WalletId(pub i64);

/// A number as SQL holds it.
pub(crate) fn sql_int(number: u64) -> Result<i64, WalletError> {
    i64::try_from(number).map_err(|_| WalletError::Argument("a number is beyond 2^63".into()))
}

/// The model's name of a transaction.
pub(crate) fn model_txid(txid: Txid) -> TxId {
    TxId(txid.to_byte_array())
}

/// The `bitcoin` crate's name of a transaction.
pub fn bitcoin_txid(txid: TxId) -> Txid {
    Txid::from_byte_array(txid.0)
}

/// The model's name of a coin.
pub(crate) fn model_outpoint(outpoint: OutPoint) -> Outpoint {
    Outpoint::new(model_txid(outpoint.txid), outpoint.vout)
}

/// The `bitcoin` crate's name of a coin.
pub fn bitcoin_outpoint(outpoint: Outpoint) -> OutPoint {
    OutPoint::new(bitcoin_txid(outpoint.tx), outpoint.index)
}
