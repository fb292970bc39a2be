//! `/wallets`: everything that the wallet room does.
//!
//! | module | routes |
//! |---|---|
//! | `manage` | list, create, show, accounts, scripts |
//! | `addresses` | watched addresses, the next one |
//! | `see` | balance, coins, transactions, journal, audit |
//! | `leases` | leases and their release |
//! | `pay` | select, pay, bump, finalize, broadcast |
//! | `upkeep` | record, invalidate, rewind, prune |
//! | `labels` | labels, BIP-329 out and in |

mod addresses;
mod labels;
mod leases;
mod manage;
mod pay;
mod see;
mod upkeep;

use std::str::FromStr;

use bitcoin::{OutPoint, Txid};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{error::ApiError, state::App};

/// Coins, outputs or transactions in one request.
const MAX_ITEMS: usize = 1_000;

/// The routes under `/wallets`.
pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(manage::list, manage::create))
        .routes(routes!(manage::show))
        .routes(routes!(manage::add_account))
        .routes(routes!(manage::add_script))
        .routes(routes!(addresses::list, addresses::next))
        .routes(routes!(see::balance))
        .routes(routes!(see::coins))
        .routes(routes!(see::coin))
        .routes(routes!(see::txs))
        .routes(routes!(see::tx))
        .routes(routes!(see::journal))
        .routes(routes!(see::audit))
        .routes(routes!(leases::list, leases::create))
        .routes(routes!(leases::release))
        .routes(routes!(pay::select))
        .routes(routes!(pay::pay))
        .routes(routes!(pay::bump))
        .routes(routes!(pay::finalize))
        .routes(routes!(pay::broadcast))
        .routes(routes!(upkeep::record))
        .routes(routes!(upkeep::invalidate))
        .routes(routes!(upkeep::rewind))
        .routes(routes!(upkeep::prune))
        .routes(routes!(labels::list, labels::set))
        .routes(routes!(labels::export))
        .routes(routes!(labels::import))
}

/// Reads a value that has a text form.
fn parse<T: FromStr>(text: &str, what: &str) -> Result<T, ApiError> {
    text.parse().map_err(|_| ApiError::invalid(format!("this is no {what}")))
}

fn txid(text: &str) -> Result<Txid, ApiError> {
    parse(text, "transaction id (64 hex digits)")
}

/// Coins as `TXID:VOUT`, at least `least` of them.
fn coins(texts: &[String], least: usize) -> Result<Vec<OutPoint>, ApiError> {
    bounded(texts.len(), least)?;
    texts.iter().map(|text| parse(text, "coin (TXID:VOUT)")).collect()
}

fn bounded(count: usize, least: usize) -> Result<(), ApiError> {
    if (least..=MAX_ITEMS).contains(&count) {
        return Ok(());
    }
    Err(ApiError::invalid(format!("{least} to {MAX_ITEMS} items are taken, not {count}")))
}
