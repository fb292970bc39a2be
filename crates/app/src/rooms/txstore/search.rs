//! What the txstore room adds to `/search`.

use unspent_engine::{Engine, rooms::txstore::store};
use unspent_model::TxId;

use crate::api::{
    error::ApiError,
    search::{Matches, SearchText},
};

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
