//! `/search`: what a piece of text may be the name of.

use std::sync::Arc;

use axum::{Json, extract::State};
use bitcoin::hashes::Hash as _;
use serde::{Deserialize, Serialize};
use unspent_chain::{CoinState, Reader};
use unspent_model::{Network, Outpoint, TxId};
use unspent_networks::address::{Query, parse_query, show_address};
use unspent_wallet::{Room, WalletError};
use utoipa::{IntoParams, ToSchema};

use super::{
    blocks::BlockName,
    error::{ApiError, Failures},
    extract::{ApiQuery, May, Read, short},
    life::{every_wallet, percent},
    state::App,
};

/// Outputs of a transaction that are looked for in the chain room, which knows coins only.
const OUTPUTS_LOOKED_AT: u32 = 64;

/// What to look for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchQuery {
    /// Address, TXID:INDEX, transaction, block hash, height, or name of a wallet
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
    kind: &'static str,
    href: Option<String>,
    height: Option<u64>,
    hash: Option<String>,
    txid: Option<String>,
    tx_hash: Option<String>,
    output_index: Option<u32>,
    address: Option<String>,
    name: Option<String>,
    /// Wallets that know the transaction
    wallets: Option<Vec<String>>,
    /// Outputs of the transaction that the chain room knows
    coins: Option<Vec<u32>>,
}

/// What a text may be the name of
#[utoipa::path(get, path = "/search", tag = "chain", params(SearchQuery),
    responses((status = 200, body = SearchJson), Failures))]
pub(crate) async fn search(
    _: May<Read>,
    State(app): State<App>,
    ApiQuery(query): ApiQuery<SearchQuery>,
) -> Result<Json<SearchJson>, ApiError> {
    let text = short(Some(query.q.trim()))?.unwrap_or_default().to_owned();
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(ApiError::malformed("`q` is empty or holds control characters"));
    }
    let (engine, network) = (app.engine.clone(), app.network());
    let found = app.desk.run(move || {
        let look = Look { network, reader: engine.chain(), room: engine.wallets() };
        let matches = look.all(&text)?;
        Ok(SearchJson { query: text, matches })
    });
    Ok(Json(found.await?))
}

struct Look {
    network: Network,
    reader: Option<Reader>,
    room: Option<Arc<Room>>,
}

impl Look {
    fn all(&self, text: &str) -> Result<Vec<MatchJson>, ApiError> {
        let mut found = Vec::new();
        found.extend(self.block(text)?);
        found.extend(self.transaction(text)?);
        found.extend(self.coin(text));
        found.extend(self.address(text));
        found.extend(self.wallet(text)?);
        Ok(found)
    }

    fn block(&self, text: &str) -> Result<Option<MatchJson>, ApiError> {
        let Some(reader) = &self.reader else { return Ok(None) };
        let stored = match BlockName::parse(self.network, text) {
            Some(BlockName::Height(height)) => reader.block_at(height)?,
            Some(BlockName::Hash(hash)) => reader.block_by_hash(&hash)?,
            None => None,
        };
        Ok(stored.map(|stored| MatchJson {
            kind: "block",
            href: Some(format!("/api/v1/blocks/{}", stored.point.height)),
            height: Some(stored.point.height),
            hash: Some(self.network.show_hash(&stored.point.hash.0)),
            ..MatchJson::default()
        }))
    }

    fn transaction(&self, text: &str) -> Result<Option<MatchJson>, ApiError> {
        let Some(hash) = self.network.parse_hash(text) else { return Ok(None) };
        let mut coins = Vec::new();
        if let Some(reader) = &self.reader {
            for index in 0..OUTPUTS_LOOKED_AT {
                let state = reader.coin(&Outpoint::new(TxId(hash), index))?;
                if !matches!(state, CoinState::Unknown) {
                    coins.push(index);
                }
            }
        }
        let mut wallets = Vec::new();
        if let Some(room) = &self.room {
            let txid = bitcoin::Txid::from_byte_array(hash);
            every_wallet(room, |wallet, name| {
                match room.tx(wallet, txid) {
                    Ok(_) => wallets.push(name.to_owned()),
                    Err(WalletError::NoTransaction(_)) => {}
                    Err(error) => return Err(error.into()),
                }
                Ok(())
            })?;
        }
        if coins.is_empty() && wallets.is_empty() {
            return Ok(None);
        }
        let shown = self.network.show_hash(&hash);
        let href =
            wallets.first().map(|name| format!("/api/v1/wallets/{}/txs/{shown}", percent(name)));
        Ok(Some(MatchJson {
            kind: "transaction",
            href,
            txid: Some(shown),
            wallets: Some(wallets),
            coins: Some(coins),
            ..MatchJson::default()
        }))
    }

    fn coin(&self, text: &str) -> Option<MatchJson> {
        let (hash, index) = text.split_once(['#', ':'])?;
        let hash = self.network.parse_hash(hash)?;
        let index = super::extract::index(index).ok()?;
        let shown = self.network.show_hash(&hash);
        Some(MatchJson {
            kind: "coin",
            href: Some(format!("/api/v1/coins/{shown}/{index}/life")),
            tx_hash: Some(shown),
            output_index: Some(index),
            ..MatchJson::default()
        })
    }

    fn address(&self, text: &str) -> Option<MatchJson> {
        // 64 hex digits are a hash before they are a script.
        if self.network.parse_hash(text).is_some() {
            return None;
        }
        let (kind, shown) = match parse_query(self.network, text).ok()? {
            Query::Address(raw) => ("addresses", show_address(self.network, &raw)),
            Query::Credential(credential) => ("credentials", hex::encode(credential)),
        };
        Some(MatchJson {
            kind: "address",
            href: Some(format!("/api/v1/{kind}/{}/utxos", percent(&shown))),
            address: Some(shown),
            ..MatchJson::default()
        })
    }

    fn wallet(&self, text: &str) -> Result<Option<MatchJson>, ApiError> {
        let Some(room) = &self.room else { return Ok(None) };
        match room.wallet(text) {
            Ok(_) => Ok(Some(MatchJson {
                kind: "wallet",
                href: Some(format!("/api/v1/wallets/{}", percent(text))),
                name: Some(text.to_owned()),
                ..MatchJson::default()
            })),
            Err(WalletError::NoWallet(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
