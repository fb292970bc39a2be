//! The wallets' journals as events: every line once, in the order of its wallet.

use std::collections::HashMap;

use serde_json::json;
use unspent_sql::{Arg, Tx};
use unspent_wallet::{Room, WalletId, history::JournalLine, wallets::WalletInfo};

use super::{EventLog, LogError, NewEvent};
use crate::status::RoomName;

/// Lines of one wallet's journal told at once.
const LINES_AT_ONCE: u32 = 500;

const TOLD: &str = "SELECT line FROM told_wallets WHERE wallet_id = $1";
const MARK: &str = "INSERT INTO told_wallets (wallet_id, line) VALUES ($1, $2)
    ON CONFLICT (wallet_id) DO UPDATE SET line = excluded.line";

/// How far each wallet has been told, as far as this process knows.
pub(super) type Told = HashMap<WalletId, i64>;

/// Tells what the journals have that wasn't told yet; says whether there may be more.
pub(super) fn tell(log: &EventLog, room: &Room, told: &mut Told) -> Result<bool, LogError> {
    let mut more = false;
    for wallet in &room.all_wallets()? {
        more |= tell_one(log, room, wallet, told)?;
    }
    Ok(more)
}

fn tell_one(
    log: &EventLog,
    room: &Room,
    wallet: &WalletInfo,
    told: &mut Told,
) -> Result<bool, LogError> {
    let before = match told.get(&wallet.id) {
        Some(line) => *line,
        None => told_before(log, wallet.id)?,
    };
    told.insert(wallet.id, before);
    let lines = room.journal(wallet.id, None, before, LINES_AT_ONCE)?;
    let Some(last) = lines.last().map(|line| line.id) else { return Ok(false) };
    let events: Vec<NewEvent> = lines.iter().map(|line| event(&wallet.name, line)).collect();
    let is_full = events.len() >= LINES_AT_ONCE as usize;
    let id = wallet.id.0;
    log.tell_with(events, move |tx: &mut Tx<'_>| {
        tx.execute(MARK, &[Arg::Int(id), Arg::Int(last)])?;
        Ok(())
    })?;
    told.insert(wallet.id, last);
    Ok(is_full)
}

fn told_before(log: &EventLog, wallet: WalletId) -> Result<i64, LogError> {
    log.door().read(move |tx| {
        let row = tx.maybe(TOLD, &[Arg::Int(wallet.0)])?;
        Ok(row.map(|row| row.int(0)).transpose()?.unwrap_or(0))
    })
}

fn event(wallet: &str, line: &JournalLine) -> NewEvent {
    let subject = line.output.map_or(line.txid.to_string(), |coin| coin.to_string());
    let body = json!({
        "line": line.id,
        "at": line.at,
        "txid": line.txid.to_string(),
        "output": line.output.map(|coin| coin.to_string()),
        "from": line.from.map(|status| status.name()),
        "to": line.to.map(|status| status.name()),
        "other": line.other.map(|txid| txid.to_string()),
        "height": line.height,
        "lock": line.lock.map(|lock| lock.to_string()),
    });
    NewEvent {
        room: RoomName::Wallet.name(),
        kind: line.cause.name(),
        wallet: Some(wallet.to_owned()),
        subject: Some(subject),
        body,
    }
}
