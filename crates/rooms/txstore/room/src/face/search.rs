//! What the txstore room adds to `/search` and to a transaction.

use bitcoin::{Transaction, consensus::deserialize};
use unspent_engine::Engine;
use unspent_model::TxId;
use unspent_server::api::{
    error::ApiError,
    search::{Matches, SearchText},
    transaction::{TxBlock, TxView},
};
use unspent_txstore::query::best_block;

use crate::store;

pub(super) fn search(
    engine: &Engine,
    asked: &SearchText,
    found: &mut Matches,
) -> Result<(), ApiError> {
    let (Some(store), Some(hash)) = (store(engine), asked.hash()) else { return Ok(()) };
    if store.records(vec![TxId(hash)])?.first().is_some_and(Option::is_some) {
        let shown = asked.network.show_hash(&hash);
        let href = format!("/api/v1/transactions/{shown}");
        // A wallet that knows it has more to tell.
        found.transaction(shown).href.get_or_insert(href);
    }
    Ok(())
}

/// Its bytes, its block and its fee.
pub(super) fn transaction_view(engine: &Engine, view: &mut TxView) -> Result<(), ApiError> {
    let Some(store) = store(engine) else { return Ok(()) };
    let Some(stored) = store.get(view.txid)? else { return Ok(()) };
    view.tx = deserialize::<Transaction>(&stored.body).ok();
    view.fee = stored.record.fee;
    if let Some(block) = best_block(&stored.record) {
        view.in_block(TxBlock { height: block.height, hash: Some(block.hash.0), time: None });
    }
    Ok(())
}
