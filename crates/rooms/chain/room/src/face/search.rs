//! What the chain room adds to `/search`, to a coin's timeline and to a transaction.

use unspent_chain::{CoinState, Reader, codec::SpentRecord};
use unspent_engine::Engine;
use unspent_model::{
    Outpoint, TxId,
    chain::{Born, Output},
};
use unspent_networks::address::{Query, parse_query, show_address};
use unspent_server::{
    api::{
        error::ApiError,
        search::{MatchJson, Matches, SearchText, percent},
        timeline::{Timeline, TimelineEventJson},
        transaction::{TxBlock, TxView},
    },
    json::{OutpointJson, Time},
};

use super::{NAME, blocks::BlockName};

/// Outputs of a transaction that are looked for: the room knows coins, not transactions.
const OUTPUTS_LOOKED_AT: u32 = 64;
/// Coins of one transaction that are looked up, on either side; the rest is shown without.
const ENDS_LOOKED_AT: u32 = 1_000;

pub(super) fn search(
    engine: &Engine,
    asked: &SearchText,
    found: &mut Matches,
) -> Result<(), ApiError> {
    if let Some(reader) = crate::reader(engine) {
        found.extend(block(&reader, asked)?);
        outputs(&reader, asked, found)?;
    }
    found.extend(address(asked));
    Ok(())
}

fn block(reader: &Reader, asked: &SearchText) -> Result<Option<MatchJson>, ApiError> {
    let stored = match BlockName::parse(asked.network, &asked.text) {
        Some(BlockName::Height(height)) => reader.block_at(height)?,
        Some(BlockName::Hash(hash)) => reader.block_by_hash(&hash)?,
        None => None,
    };
    Ok(stored.map(|stored| MatchJson {
        kind: "block",
        href: Some(format!("/api/v1/blocks/{}", stored.point.height)),
        height: Some(stored.point.height),
        block_hash: Some(asked.network.show_hash(&stored.point.hash.0)),
        ..MatchJson::default()
    }))
}

fn outputs(reader: &Reader, asked: &SearchText, found: &mut Matches) -> Result<(), ApiError> {
    let Some(hash) = asked.hash() else { return Ok(()) };
    let mut outpoints = Vec::new();
    for index in 0..OUTPUTS_LOOKED_AT {
        let outpoint = Outpoint::new(TxId(hash), index);
        if !matches!(reader.coin(&outpoint)?, CoinState::Unknown) {
            outpoints.push(OutpointJson::new(asked.network, &outpoint).outpoint);
        }
    }
    if !outpoints.is_empty() {
        found.transaction(asked.network.show_hash(&hash)).outpoints = Some(outpoints);
    }
    Ok(())
}

fn address(asked: &SearchText) -> Option<MatchJson> {
    // 64 hex digits are a hash before they are a script.
    if asked.hash().is_some() {
        return None;
    }
    let (kind, shown) = match parse_query(asked.network, &asked.text).ok()? {
        Query::Address(raw) => ("addresses", show_address(asked.network, &raw)),
        Query::Credential(credential) => ("credentials", hex::encode(credential)),
        Query::ScriptHash(_) => ("addresses", asked.text.clone()),
    };
    Some(MatchJson {
        kind: "address",
        href: Some(format!("/api/v1/{kind}/{}/utxos", percent(&shown))),
        address: Some(shown),
        ..MatchJson::default()
    })
}

/// The blocks that created and spent a coin, as long as those are inside the window.
pub(super) fn timeline(engine: &Engine, timeline: &mut Timeline) -> Result<(), ApiError> {
    let Some(reader) = crate::reader(engine) else { return Ok(()) };
    match reader.coin(&timeline.outpoint)? {
        CoinState::Unspent(record) => {
            describe(timeline, &record.output, "unspent");
            born(timeline, &record.born);
        }
        CoinState::Spent(spent) => {
            describe(timeline, &spent.record.output, "spent");
            born(timeline, &spent.record.born);
            let by = spent.by.map(|by| timeline.network.show_hash(&by.tx.0));
            block_event(timeline, "spent", (spent.at.height, spent.at.hash.0, spent.time), by);
        }
        CoinState::Unknown => {
            let status = reader.status()?;
            let tip = status.cursor.point().map_or(0, |tip| tip.height);
            // Blocks are numbered densely; where others know coins too, heights are dense as well.
            let forgotten = (status.horizon.spends_floor + tip).checked_sub(status.cursor.ordinal);
            timeline.forgotten = forgotten.map(|height| (NAME, height));
        }
    }
    Ok(())
}

fn describe(timeline: &mut Timeline, output: &Output, state: &'static str) {
    timeline.address = Some(show_address(timeline.network, &output.addr));
    timeline.value = Some(output.value);
    timeline.state = timeline.state.or(Some(state));
}

fn born(timeline: &mut Timeline, born: &Born) {
    let txid = timeline.network.show_hash(&timeline.outpoint.tx.0);
    let block = (born.block_number, born.block_hash.0, born.block_time);
    block_event(timeline, "created", block, Some(txid));
}

fn block_event(
    timeline: &mut Timeline,
    kind: &'static str,
    (height, hash, time): (u64, [u8; 32], u64),
    txid: Option<String>,
) {
    let block_hash = Some(timeline.network.show_hash(&hash));
    timeline.events.push(TimelineEventJson {
        kind,
        room: NAME,
        at: Some(Time::seconds(time)),
        height: Some(height),
        block_hash,
        txid,
        ..TimelineEventJson::default()
    });
}

/// The coins at both ends of a transaction, as long as the room knows them.
pub(super) fn transaction_view(engine: &Engine, view: &mut TxView) -> Result<(), ApiError> {
    let Some(reader) = crate::reader(engine) else { return Ok(()) };
    let spends = view.spends().unwrap_or_default();
    for coin in spends.into_iter().take(ENDS_LOOKED_AT as usize) {
        if let CoinState::Unspent(record) | CoinState::Spent(SpentRecord { record, .. }) =
            reader.coin(&coin)?
        {
            tell_end(view, coin, &record.output);
        }
    }
    let known = view.tx.as_ref().map(|tx| u32::try_from(tx.output.len()).unwrap_or(u32::MAX));
    for index in 0..known.unwrap_or(OUTPUTS_LOOKED_AT).min(ENDS_LOOKED_AT) {
        let coin = Outpoint::new(view.txid, index);
        let (record, state, by) = match reader.coin(&coin)? {
            CoinState::Unspent(record) => (record, "unspent", None),
            CoinState::Spent(spent) => (spent.record, "spent", spent.by),
            CoinState::Unknown => continue,
        };
        tell_end(view, coin, &record.output);
        let by = by.map(|by| view.network.show_hash(&by.tx.0));
        let end = view.end(coin);
        (end.state, end.spent_by) = (Some(state), by);
        let Born { block_number, block_hash, block_time, .. } = record.born;
        let (hash, time) = (Some(block_hash.0), Some(block_time));
        view.in_block(TxBlock { height: block_number, hash, time });
    }
    Ok(())
}

fn tell_end(view: &mut TxView, coin: Outpoint, output: &Output) {
    let address = show_address(view.network, &output.addr);
    let end = view.end(coin);
    (end.value, end.address) = (Some(output.value), Some(address));
}
