//! `/search`: what a piece of text may be the name of.

use std::fmt::Write as _;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use unspent_model::Network;
use utoipa::{IntoParams, ToSchema};

use super::{
    error::{ApiError, Failures},
    extract::{ApiQuery, Caller, May, Read},
    state::App,
};
use crate::{
    json::{OutpointJson, parse_outpoint},
    request::short,
};

/// What to look for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchQuery {
    /// Address, TXID:VOUT, transaction, block hash, height, or name of a wallet
    #[param(min_length = 1, max_length = 1000)]
    q: String,
}

/// What was found.
#[derive(Serialize, ToSchema)]
pub(crate) struct SearchJson {
    query: String,
    matches: Vec<MatchJson>,
}

/// One thing that the text may name; what doesn't apply is null.
#[derive(Serialize, ToSchema, Default)]
pub(crate) struct MatchJson {
    /// `block`, `transaction`, `coin`, `address` or `wallet`
    pub(crate) kind: &'static str,
    pub(crate) href: Option<String>,
    pub(crate) height: Option<u64>,
    pub(crate) block_hash: Option<String>,
    pub(crate) txid: Option<String>,
    pub(crate) vout: Option<u32>,
    pub(crate) outpoint: Option<String>,
    pub(crate) address: Option<String>,
    pub(crate) wallet: Option<String>,
    /// Wallets that know the transaction
    pub(crate) wallets: Option<Vec<String>>,
    /// Outputs of the transaction that the chain room knows
    pub(crate) outpoints: Option<Vec<String>>,
}

/// What was typed.
pub(crate) struct SearchText {
    pub(crate) network: Network,
    pub(crate) text: String,
    /// The only wallet that whoever asks may see.
    pub(crate) only: Option<String>,
}

impl SearchText {
    /// Whether whoever asks may know of a wallet.
    pub(crate) fn sees(&self, wallet: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == wallet)
    }

    /// The text as the hash of a block or transaction.
    pub(crate) fn hash(&self) -> Option<[u8; 32]> {
        self.network.parse_hash(&self.text)
    }

    fn coin(&self) -> Option<MatchJson> {
        let found = parse_outpoint(self.network, &self.text)?;
        let OutpointJson { outpoint, txid, vout, .. } = OutpointJson::new(self.network, &found);
        Some(MatchJson {
            kind: "coin",
            href: Some(format!("/api/v1/coins/{outpoint}/timeline")),
            outpoint: Some(outpoint),
            txid: Some(txid),
            vout: Some(vout),
            ..MatchJson::default()
        })
    }
}

/// What the rooms have found so far.
#[derive(Default)]
pub(crate) struct Matches {
    found: Vec<MatchJson>,
    transaction: Option<MatchJson>,
}

impl Matches {
    pub(crate) fn extend(&mut self, found: Option<MatchJson>) {
        self.found.extend(found);
    }

    /// The match that stands for a transaction, which several rooms may know.
    pub(crate) fn transaction(&mut self, txid: String) -> &mut MatchJson {
        self.transaction.get_or_insert_with(|| MatchJson {
            kind: "transaction",
            txid: Some(txid),
            wallets: Some(Vec::new()),
            outpoints: Some(Vec::new()),
            ..MatchJson::default()
        })
    }
}

/// What a text may be the name of
#[utoipa::path(get, path = "/search", operation_id = "search", tag = "chain", params(SearchQuery),
    responses((status = 200, body = SearchJson), Failures))]
pub(crate) async fn search(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiQuery(query): ApiQuery<SearchQuery>,
) -> Result<Json<SearchJson>, ApiError> {
    let text = short(Some(query.q.trim()))?.unwrap_or_default().to_owned();
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(ApiError::malformed("`q` is empty or holds control characters"));
    }
    let asked = SearchText { network: app.network(), text, only: who.wallet };
    let (engine, rooms) = (app.engine.clone(), app.config.rooms());
    let found = app.pool.run(move || {
        let mut found = Matches::default();
        found.extend(asked.coin());
        for room in rooms.iter() {
            room.search(&engine, &asked, &mut found)?;
        }
        found.found.extend(found.transaction);
        Ok(SearchJson { query: asked.text, matches: found.found })
    });
    Ok(Json(found.await?))
}

/// Text as a piece of a path.
pub(crate) fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a string can't fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
