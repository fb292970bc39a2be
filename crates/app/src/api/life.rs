//! `/coins/{tx_hash}/{output_index}/life`: what happened to a coin, in all rooms, as one timeline.
//!
//! The chain room knows the blocks that created and spent it, as long as those are inside the
//! window. A wallet's journal knows every change of the transaction that made it and of those
//! that spend it.

use std::{fmt::Write as _, sync::Arc};

use axum::{Json, extract::State};
use bitcoin::{OutPoint, Txid, hashes::Hash as _};
use serde::Serialize;
use unspent_chain::{CoinState, Reader};
use unspent_model::{Network, Outpoint, chain::Output, wallet::Cause};
use unspent_networks::address::show_address;
use unspent_wallet::{Room, WalletError, WalletId, coins::CoinInfo, history::JournalLine};
use utoipa::ToSchema;

use super::{
    error::{ApiError, Failures},
    extract::{ApiPath, CoinPath, May, Read},
    state::{App, now},
};

/// Wallets asked about one coin.
const WALLETS_LOOKED_AT: usize = 1_000;
/// Lines of a journal read for one transaction.
const LINES_LOOKED_AT: u32 = 200;
/// Attempts to spend a coin that are followed.
const SPENDERS_LOOKED_AT: usize = 16;

/// A coin's life.
#[derive(Serialize, ToSchema)]
pub(crate) struct LifeJson {
    tx_hash: String,
    output_index: u32,
    address: Option<String>,
    /// Base units, as a decimal string
    amount: Option<String>,
    /// `unspent`, `spent`, or the state in the wallet: `confirmed`, `leased`, `pending` …
    state: &'static str,
    wallets: Vec<String>,
    events: Vec<LifeEventJson>,
}

/// Something that happened to a coin; what doesn't apply is null.
#[derive(Serialize, ToSchema, Clone, Default)]
pub(crate) struct LifeEventJson {
    /// `seen`, `created`, `sent`, `confirmed`, `leased`, `spending`, `spent`, `replaced`,
    /// `double_spent`, `failed`, `revived`, `evicted`, `rolled_back`, `pruned`
    kind: &'static str,
    room: &'static str,
    wallet: Option<String>,
    /// Microseconds since 1970
    at: Option<i64>,
    height: Option<u64>,
    block_hash: Option<String>,
    txid: Option<String>,
    other: Option<String>,
    cause: Option<&'static str>,
    from: Option<&'static str>,
    to: Option<&'static str>,
    /// When a lease ends
    until: Option<i64>,
}

/// What happened to a coin, in the order in which it happened
#[utoipa::path(get, path = "/coins/{tx_hash}/{output_index}/life", tag = "chain", params(CoinPath),
    responses((status = 200, body = LifeJson), Failures))]
pub(crate) async fn life(
    _: May<Read>,
    State(app): State<App>,
    ApiPath(path): ApiPath<CoinPath>,
) -> Result<Json<LifeJson>, ApiError> {
    let network = app.network();
    let outpoint = path.outpoint(network)?;
    let engine = app.engine.clone();
    let found = app.desk.run(move || {
        let mut story = Story::new(network, outpoint);
        if let Some(room) = engine.wallets() {
            story.wallets(&room, now()?)?;
        }
        if let Some(reader) = engine.chain() {
            story.chain(&reader)?;
        }
        story.told()
    });
    Ok(Json(found.await?))
}

/// The timeline while it is put together.
struct Story {
    network: Network,
    outpoint: Outpoint,
    events: Vec<(Option<i64>, LifeEventJson)>,
    wallets: Vec<String>,
    state: Option<&'static str>,
    address: Option<String>,
    amount: Option<u64>,
    /// Height of the block in which a wallet saw the coin spent.
    spent_height: Option<u64>,
}

impl Story {
    fn new(network: Network, outpoint: Outpoint) -> Self {
        Self {
            network,
            outpoint,
            events: Vec::new(),
            wallets: Vec::new(),
            state: None,
            address: None,
            amount: None,
            spent_height: None,
        }
    }

    fn wallets(&mut self, room: &Arc<Room>, now: i64) -> Result<(), ApiError> {
        let txid = Txid::from_byte_array(self.outpoint.tx.0);
        let outpoint = OutPoint::new(txid, self.outpoint.index);
        let mut owners = Vec::new();
        every_wallet(room, |wallet, name| {
            match room.coin(wallet, outpoint, now) {
                Ok(coin) => owners.push((wallet, name.to_owned(), coin)),
                Err(WalletError::CoinNotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(())
        })?;
        for (wallet, name, coin) in owners {
            self.wallet(room, wallet, &name, &coin, now)?;
            self.wallets.push(name);
        }
        Ok(())
    }

    fn wallet(
        &mut self,
        room: &Room,
        wallet: WalletId,
        name: &str,
        coin: &CoinInfo,
        now: i64,
    ) -> Result<(), ApiError> {
        self.state = Some(coin.state.name());
        self.address = Some(show_address(self.network, coin.script.as_bytes()));
        self.amount = Some(coin.amount);
        for line in room.journal(wallet, Some(coin.outpoint.txid), 0, LINES_LOOKED_AT)? {
            self.line(&line, name, kind_of_parent(line.cause));
        }
        for spender in spenders(room, wallet, coin)? {
            for line in room.journal(wallet, Some(spender), 0, LINES_LOOKED_AT)? {
                if line.cause == Cause::Confirmed && coin.spent_by == Some(spender) {
                    self.spent_height = line.height;
                }
                self.line(&line, name, kind_of_spender(line.cause));
            }
        }
        let held = room.leases(wallet, now)?.into_iter().find(|lease| lease.coin == coin.outpoint);
        if let Some(lease) = held {
            let event = LifeEventJson {
                kind: "leased",
                room: "wallet",
                wallet: Some(name.to_owned()),
                until: Some(lease.expires_at),
                ..LifeEventJson::default()
            };
            self.events.push((None, event));
        }
        Ok(())
    }

    fn line(&mut self, line: &JournalLine, wallet: &str, kind: Option<&'static str>) {
        let Some(kind) = kind else { return };
        let event = LifeEventJson {
            kind,
            room: "wallet",
            wallet: Some(wallet.to_owned()),
            at: Some(line.at),
            height: line.height,
            block_hash: None,
            txid: Some(line.txid.to_string()),
            other: line.other.map(|txid| txid.to_string()),
            cause: Some(line.cause.name()),
            from: line.from.map(|status| status.name()),
            to: line.to.map(|status| status.name()),
            until: None,
        };
        self.events.push((Some(line.at), event));
    }

    fn chain(&mut self, reader: &Reader) -> Result<(), ApiError> {
        match reader.coin(&self.outpoint)? {
            CoinState::Unspent(record) => {
                self.output(&record.output);
                self.state = self.state.or(Some("unspent"));
                self.born(&record.born);
            }
            CoinState::Spent(spent) => {
                self.output(&spent.record.output);
                self.state = self.state.or(Some("spent"));
                self.born(&spent.record.born);
                let block = (spent.at.height, spent.at.hash.0, spent.time);
                self.block("spent", block, spent.by.map(|tx| self.network.show_hash(&tx.0)));
            }
            CoinState::Unknown => {
                let status = reader.status()?;
                let tip = status.cursor.point().map_or(0, |tip| tip.height);
                // Blocks are numbered densely; wallets are Bitcoin's, where heights are dense too.
                let number = |height: u64| (status.cursor.ordinal + height).saturating_sub(tip);
                let floor = status.horizon.spends_floor;
                if self.spent_height.is_some_and(|height| number(height) <= floor) {
                    let room = "chain";
                    let event = LifeEventJson { kind: "pruned", room, ..LifeEventJson::default() };
                    self.events.push((Some(i64::MAX), event));
                }
            }
        }
        Ok(())
    }

    fn output(&mut self, output: &Output) {
        self.address = Some(show_address(self.network, &output.addr));
        self.amount = Some(output.value);
    }

    fn born(&mut self, born: &unspent_model::chain::Born) {
        let block = (born.block_number, born.block_hash.0, born.block_time);
        self.block("created", block, Some(self.network.show_hash(&self.outpoint.tx.0)));
    }

    /// An event of the chain room. It stands beside the wallet's line about the same block, since
    /// the time in a header is its miner's affair.
    fn block(&mut self, kind: &'static str, block: (u64, [u8; 32], u64), txid: Option<String>) {
        let (height, hash, time) = block;
        let at = i64::try_from(time).ok().and_then(|time| time.checked_mul(1_000_000));
        let same = |(_, event): &&(Option<i64>, LifeEventJson)| {
            event.height == Some(height) && event.txid == txid && event.cause.is_some()
        };
        let beside = self.events.iter().rev().find(same).and_then(|(key, _)| *key);
        let event = LifeEventJson {
            kind,
            room: "chain",
            at,
            height: Some(height),
            block_hash: Some(self.network.show_hash(&hash)),
            txid,
            ..LifeEventJson::default()
        };
        self.events.push((beside.or(at), event));
    }

    fn told(mut self) -> Result<LifeJson, ApiError> {
        let Some(state) = self.state else {
            return Err(ApiError::not_found("no room knows this coin"));
        };
        // A lease that holds now comes last but for what is known to be later; what a block did
        // comes before what a wallet made of it.
        let order = |key: &Option<i64>| key.unwrap_or(i64::MAX - 1);
        self.events.sort_by_key(|(key, event)| (order(key), event.room != "chain"));
        Ok(LifeJson {
            tx_hash: self.network.show_hash(&self.outpoint.tx.0),
            output_index: self.outpoint.index,
            address: self.address,
            amount: self.amount.map(|amount| amount.to_string()),
            state,
            wallets: self.wallets,
            events: self.events.into_iter().map(|(_, event)| event).collect(),
        })
    }
}

/// What a line about the transaction that made the coin means for the coin.
fn kind_of_parent(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::Created | Cause::Relayed | Cause::Mempool => Some("seen"),
        Cause::Broadcast => Some("sent"),
        Cause::Confirmed => Some("confirmed"),
        Cause::Disconnected => Some("rolled_back"),
        Cause::Replaced => Some("replaced"),
        Cause::DoubleSpent => Some("double_spent"),
        Cause::ParentInvalid | Cause::Withdrawn => Some("failed"),
        Cause::Revived | Cause::ChildConfirmed => Some("revived"),
        Cause::Evicted => Some("evicted"),
        Cause::Pruned => Some("pruned"),
        Cause::ForcedSpend | Cause::PrunedEdge => None,
    }
}

/// What a line about a transaction that spends the coin means for the coin.
fn kind_of_spender(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::Created | Cause::Relayed | Cause::Mempool | Cause::ForcedSpend => Some("spending"),
        Cause::Confirmed => Some("spent"),
        Cause::Broadcast
        | Cause::Disconnected
        | Cause::Replaced
        | Cause::DoubleSpent
        | Cause::ParentInvalid
        | Cause::Revived
        | Cause::ChildConfirmed
        | Cause::Withdrawn
        | Cause::Evicted
        | Cause::Pruned
        | Cause::PrunedEdge => kind_of_parent(cause),
    }
}

/// The transaction that spends a coin, and those whose place it took, in turn.
fn spenders(room: &Room, wallet: WalletId, coin: &CoinInfo) -> Result<Vec<Txid>, ApiError> {
    let mut found: Vec<Txid> = coin.spent_by.into_iter().collect();
    let mut at = 0;
    while let Some(txid) = found.get(at).copied() {
        at += 1;
        for edge in room.tx(wallet, txid)?.replaces {
            if found.len() >= SPENDERS_LOOKED_AT || found.contains(&edge.txid) {
                continue;
            }
            let inputs = room.tx(wallet, edge.txid)?.inputs;
            if inputs.iter().any(|input| input.outpoint == coin.outpoint) {
                found.push(edge.txid);
            }
        }
    }
    Ok(found)
}

/// Calls for every wallet, up to a limit.
pub(crate) fn every_wallet(
    room: &Room,
    mut visit: impl FnMut(WalletId, &str) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    // One page holds as many.
    let first = room.wallets(None)?;
    first.iter().take(WALLETS_LOOKED_AT).try_for_each(|info| visit(info.id, &info.name))
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
