//! `/coins/{outpoint}/timeline`: what happened to a coin, in all rooms.
//!
//! Each room adds what it knows, in any order; what several of them say of one block is brought
//! together here.

use axum::{Json, extract::State};
use serde::Serialize;
use unspent_engine::tenant::TenantName;
use unspent_model::{Network, Outpoint};
use utoipa::ToSchema;

use super::{
    error::{ApiError, Failures},
    extract::{ApiPath, Caller, May, OutpointPath, Read, outpoint},
    state::App,
};
use crate::{
    auth::sees,
    json::{OutpointJson, Time},
};

/// A coin's timeline.
#[derive(Serialize, ToSchema)]
pub struct TimelineJson {
    #[serde(flatten)]
    outpoint: OutpointJson,
    address: Option<String>,
    /// Base units, as a decimal string
    value: Option<String>,
    /// `unspent`, `spent`, or the state in the wallet: `confirmed`, `leased`, `pending` …
    state: &'static str,
    wallets: Vec<String>,
    events: Vec<TimelineEventJson>,
}

/// Something that happened to a coin; what doesn't apply is null.
// The description of the interface lets these names speak for themselves.
#[allow(missing_docs)]
#[derive(Serialize, ToSchema, Clone, Default)]
pub struct TimelineEventJson {
    /// `seen`, `created`, `sent`, `confirmed`, `leased`, `spending`, `spent`, `replaced`,
    /// `double_spent`, `failed`, `revived`, `evicted`, `rolled_back`, `pruned`
    pub kind: &'static str,
    pub room: &'static str,
    pub wallet: Option<String>,
    pub at: Option<Time>,
    pub height: Option<u64>,
    pub block_hash: Option<String>,
    pub txid: Option<String>,
    pub other: Option<String>,
    pub cause: Option<&'static str>,
    pub from: Option<&'static str>,
    pub to: Option<&'static str>,
    /// When a lease ends
    pub until: Option<Time>,
}

/// What happened to a coin, in the order in which it happened
#[utoipa::path(get, path = "/coins/{outpoint}/timeline", operation_id = "get_coin_timeline",
    tag = "chain", params(OutpointPath),
    responses((status = 200, body = TimelineJson), Failures))]
pub(crate) async fn timeline(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
) -> Result<Json<TimelineJson>, ApiError> {
    let network = app.network();
    let outpoint = outpoint(network, &name)?;
    let (engine, rooms) = (app.engine.clone(), app.config.rooms());
    let found = app.pool.run(move || {
        let mut timeline = Timeline::new(network, outpoint, who.tenant);
        for room in rooms.iter() {
            room.timeline(&engine, &mut timeline)?;
        }
        timeline.finish()
    });
    Ok(Json(found.await?))
}

/// The timeline while the rooms put it together.
pub struct Timeline {
    /// The network that is followed.
    pub network: Network,
    /// The coin asked for.
    pub outpoint: Outpoint,
    /// The only tenant that whoever asks may see.
    only: Option<TenantName>,
    /// In the order in which rooms tell them.
    pub events: Vec<TimelineEventJson>,
    /// Whose it is.
    pub wallets: Vec<String>,
    /// A wallet's word counts more than the chain's.
    pub state: Option<&'static str>,
    /// As the network writes it.
    pub address: Option<String>,
    /// Base units.
    pub value: Option<u64>,
    /// Height of the block in which a wallet saw the coin spent.
    pub spent_height: Option<u64>,
    /// A room that no longer knows the coin, and the height up to which it has forgotten spends.
    pub forgotten: Option<(&'static str, u64)>,
}

impl Timeline {
    /// Whether whoever asks may know of a tenant.
    pub fn sees(&self, tenant: &TenantName) -> bool {
        sees(self.only.as_ref(), tenant)
    }

    fn new(network: Network, outpoint: Outpoint, only: Option<TenantName>) -> Self {
        Self {
            network,
            outpoint,
            only,
            events: Vec::new(),
            wallets: Vec::new(),
            state: None,
            address: None,
            value: None,
            spent_height: None,
            forgotten: None,
        }
    }

    /// When an event happened, for the order. What a block did stands beside a wallet's line about
    /// the same block, since the time in a header is its miner's affair. A lease that holds now
    /// comes last.
    fn key(&self, event: &TimelineEventJson) -> i64 {
        let same = |other: &&TimelineEventJson| {
            other.cause.is_some() && other.height == event.height && other.txid == event.txid
        };
        let beside = match event.cause {
            // Rooms date the same block differently: what belongs together would be sorted apart.
            None if event.height.is_some() => self.events.iter().rev().find(same),
            None | Some(_) => None,
        };
        let at = beside.and_then(|event| event.at).or(event.at);
        at.map_or(i64::MAX, |at| at.0)
    }

    fn finish(self) -> Result<TimelineJson, ApiError> {
        let Some(state) = self.state else {
            return Err(ApiError::not_found("no room knows this coin"));
        };
        let keyed = self.events.iter().map(|event| (self.key(event), event.clone()));
        let mut events: Vec<_> = keyed.collect();
        // What a block did comes before what a wallet made of it.
        events.sort_by_key(|(key, event)| (*key, event.block_hash.is_none()));
        let mut events: Vec<_> = events.into_iter().map(|(_, event)| event).collect();
        if let (Some(spent), Some((room, height))) = (self.spent_height, self.forgotten)
            && spent <= height
        {
            events.push(TimelineEventJson { kind: "pruned", room, ..Default::default() });
        }
        Ok(TimelineJson {
            outpoint: OutpointJson::new(self.network, &self.outpoint),
            address: self.address,
            value: self.value.map(|value| value.to_string()),
            state,
            wallets: self.wallets,
            events,
        })
    }
}
