//! `/search`: what a piece of text may be the name of.

use std::fmt::Write as _;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use unspent_engine::tenant::TenantName;
use unspent_model::Network;
use utoipa::{IntoParams, ToSchema};

use super::{
    error::{ApiError, Failures},
    extract::{ApiQuery, Caller, May, Read},
    state::App,
};
use crate::{
    auth::sees,
    json::{OutpointJson, parse_outpoint},
    request::short,
};

/// A search.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SearchQuery {
    /// Address, TXID:VOUT, transaction, block hash, height, or name of a wallet
    #[param(min_length = 1, max_length = 1000)]
    q: String,
}

/// What was found.
#[derive(Serialize, ToSchema)]
pub struct SearchJson {
    query: String,
    matches: Vec<MatchJson>,
}

/// One thing that the text may name; what doesn't apply is null.
// The description of the interface lets these names speak for themselves.
#[allow(missing_docs)]
#[derive(Serialize, ToSchema, Default)]
pub struct MatchJson {
    /// `block`, `transaction`, `coin`, `address` or `wallet`
    pub kind: &'static str,
    pub href: Option<String>,
    pub height: Option<u64>,
    pub block_hash: Option<String>,
    pub txid: Option<String>,
    pub vout: Option<u32>,
    pub outpoint: Option<String>,
    pub address: Option<String>,
    pub wallet: Option<String>,
    /// Wallets that know the transaction
    pub wallets: Option<Vec<String>>,
    /// Outputs of the transaction that the chain room knows
    pub outpoints: Option<Vec<String>>,
}

/// What was typed.
pub struct SearchText {
    /// The network that is followed.
    pub network: Network,
    /// Without the space around it.
    pub text: String,
    /// The only tenant that whoever asks may see.
    only: Option<TenantName>,
}

impl SearchText {
    /// Whether whoever asks may know of a tenant.
    pub fn sees(&self, tenant: &TenantName) -> bool {
        sees(self.only.as_ref(), tenant)
    }

    /// The text as the hash of a block or transaction.
    pub fn hash(&self) -> Option<[u8; 32]> {
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
pub struct Matches {
    found: Vec<MatchJson>,
    transaction: Option<MatchJson>,
}

impl Matches {
    /// Adds a match, where there is one.
    pub fn extend(&mut self, found: Option<MatchJson>) {
        self.found.extend(found);
    }

    /// The match that stands for a transaction, which several rooms may know.
    pub fn transaction(&mut self, txid: String) -> &mut MatchJson {
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
    let asked = SearchText { network: app.network(), text, only: who.tenant };
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
pub fn percent(text: &str) -> String {
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
