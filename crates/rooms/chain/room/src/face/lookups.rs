//! Many coins or addresses in one request, answered from one moment.

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use unspent_chain::{Owner, Reader};
use unspent_model::{Outpoint, Point};
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{ApiJson, May, Read, outpoint},
        state::App,
    },
    json::{PointJson, ValueJson},
};
use utoipa::ToSchema;

use super::{ChainQueries, coins::address, json::CoinJson};

/// Coins or addresses in one request.
const MOST: usize = 500;
/// Coins that are added up for one request. So many, each of another transaction, in a set of a
/// million took 2 s, and 4 s with nothing in the cache, on two cores that had other work; a request
/// may take 30 s, and on a large set coins lie further apart. An address is added up whole before
/// it counts.
const MOST_COINS: u64 = 500_000;

/// Coins to look up.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CoinLookup {
    /// Each as TXID:VOUT; 1 to 500
    #[schema(min_items = 1, max_items = 500)]
    outpoints: Vec<String>,
}

/// Coins as of one moment.
#[derive(Serialize, ToSchema)]
pub(super) struct FoundCoinsJson {
    /// In the order of the request; `state` is `unknown` for a coin that was never seen, or was
    /// spent so long ago that its record is pruned
    utxos: Vec<CoinJson>,
    /// The tip that all of them are from
    at: Option<PointJson>,
}

/// Addresses to look up.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AddressLookup {
    /// Each an address, the hex of a script, or scripthash:SHA256; 1 to 500
    #[schema(min_items = 1, max_items = 500)]
    addresses: Vec<String>,
}

/// What addresses have as of one moment.
#[derive(Serialize, ToSchema)]
pub(super) struct FoundAddressesJson {
    /// In the order of the request
    addresses: Vec<FoundAddressJson>,
    /// The tip that all of them are from
    at: Option<PointJson>,
}

/// What an address has.
#[derive(Serialize, ToSchema)]
pub(super) struct FoundAddressJson {
    /// As it was asked for
    address: String,
    /// Whether it has any unspent coin
    known: bool,
    /// How many unspent coins
    utxos: u64,
    #[serde(flatten)]
    value: ValueJson,
}

/// Reads every name, or says which one can't be read.
fn read_all<T>(
    names: &[String],
    read: impl Fn(&str) -> Result<T, ApiError>,
) -> Result<Vec<T>, ApiError> {
    if !(1..=MOST).contains(&names.len()) {
        let message = format!("a request looks up 1 to {MOST} entries, not {}", names.len());
        return Err(ApiError::malformed(message));
    }
    let numbered = names.iter().enumerate();
    let all = numbered.map(|(number, name)| {
        read(name).map_err(|error| error.detail(format!("entry {} of the list", number + 1)))
    });
    all.collect()
}

fn point(reader: &Reader, at: Option<Point>) -> Option<PointJson> {
    at.map(|at| PointJson::new(reader.network(), &at))
}

fn find_coins(reader: &Reader, names: &[Outpoint]) -> Result<FoundCoinsJson, ApiError> {
    let snapshot = reader.snapshot();
    let network = reader.network();
    let found = names.iter().map(|name| Ok(CoinJson::new(network, name, &snapshot.coin(name)?)));
    let utxos = found.collect::<Result<_, ApiError>>()?;
    Ok(FoundCoinsJson { utxos, at: point(reader, snapshot.tip()?) })
}

fn find_addresses(
    reader: &Reader,
    asked: Vec<(String, Owner)>,
) -> Result<FoundAddressesJson, ApiError> {
    let snapshot = reader.snapshot();
    let (mut addresses, mut coins) = (Vec::with_capacity(asked.len()), 0);
    for (address, owner) in asked {
        let balance = snapshot.balance(owner)?;
        coins += balance.coins;
        if coins > MOST_COINS {
            let message = format!("these addresses have more than {MOST_COINS} coins in total");
            return Err(ApiError::invalid(message).hint("ask for fewer addresses at once"));
        }
        let value = ValueJson::new(reader.network(), balance.value);
        let (known, utxos) = (balance.coins > 0, balance.coins);
        addresses.push(FoundAddressJson { address, known, utxos, value });
    }
    Ok(FoundAddressesJson { addresses, at: point(reader, snapshot.tip()?) })
}

/// Up to 500 coins from one moment, in the order of the request
#[utoipa::path(post, path = "/utxos/lookup", operation_id = "lookup_utxos", tag = "chain",
    request_body = CoinLookup, responses((status = 200, body = FoundCoinsJson), Failures))]
pub(super) async fn utxos(
    _: May<Read>,
    State(app): State<App>,
    ApiJson(request): ApiJson<CoinLookup>,
) -> Result<Json<FoundCoinsJson>, ApiError> {
    let names = read_all(&request.outpoints, |name| outpoint(app.network(), name))?;
    Ok(Json(app.chain(move |reader| find_coins(reader, &names)).await?))
}

/// What up to 500 addresses have, from one moment, in the order of the request
#[utoipa::path(post, path = "/addresses/lookup", operation_id = "lookup_addresses", tag = "chain",
    request_body = AddressLookup, responses((status = 200, body = FoundAddressesJson), Failures))]
pub(super) async fn addresses(
    _: May<Read>,
    State(app): State<App>,
    ApiJson(request): ApiJson<AddressLookup>,
) -> Result<Json<FoundAddressesJson>, ApiError> {
    let owners = read_all(&request.addresses, |text| address(app.network(), text))?;
    let asked = request.addresses.into_iter().zip(owners).collect();
    Ok(Json(app.chain(move |reader| find_addresses(reader, asked)).await?))
}
