//! What a token that sees one wallet may ask for. Everything that isn't named here is refused, so
//! that a route that comes later is shut until somebody has thought about it.

use axum::http::Method;
use percent_encoding::percent_decode_str;

use super::{error::ApiError, extract::forbidden};
use crate::{auth::Identity, rooms::no_wallet};

/// Routes about the chain, which everybody can see anyway.
const CHAIN: [&str; 7] =
    ["blocks", "utxos", "addresses", "credentials", "deltas", "roots", "proofs"];

/// Refuses a request about anything but the sender's own wallet and the chain. Lists, searches and
/// events are let through, and are filtered where they are made.
pub(super) fn check(identity: &Identity, method: &Method, path: &str) -> Result<(), ApiError> {
    let Some(own) = &identity.wallet else { return Ok(()) };
    let shut = || Err(forbidden("this token sees one wallet only, and the chain"));
    let Some(rest) = path.strip_prefix("/api/v1/") else {
        return if path == "/metrics" { shut() } else { Ok(()) };
    };
    let parts: Vec<String> = rest.split('/').map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["session" | "openapi.json" | "search"] | ["events"] | ["events", "stream"] => Ok(()),
        ["coins", _, "timeline"] | ["txs", _] => Ok(()),
        ["wallets"] if *method == Method::GET => Ok(()),
        // A new name would leave the token behind with the old one.
        ["wallets", wallet] if wallet == own && *method == Method::PATCH => shut(),
        ["wallets", wallet, ..] if wallet == own => Ok(()),
        ["wallets", wallet, ..] => Err(no_wallet(wallet)),
        [head, ..] if CHAIN.contains(head) => Ok(()),
        _ => shut(),
    }
}

fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}
