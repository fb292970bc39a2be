//! The wallets' journals as events: every line once, in the order of its wallet.

use std::collections::HashMap;

use serde_json::json;
use unspent_sql::{Arg, Tx};
use unspent_wallet::{Room, WalletId, history::JournalLine, wallets::WalletInfo};

use super::NAME;
use crate::{
    clock::Time,
    events::{EventLog, LogError, NewEvent},
};

/// Lines of one wallet's journal written at once.
const LINES_AT_ONCE: u32 = 500;

const WRITTEN: &str = "SELECT line FROM told_wallets WHERE wallet_id = $1";
const MARK: &str = "INSERT INTO told_wallets (wallet_id, line) VALUES ($1, $2)
    ON CONFLICT (wallet_id) DO UPDATE SET line = excluded.line";

/// How far each wallet has been written, as far as this process knows.
pub(super) type Written = HashMap<WalletId, i64>;

/// Writes what the journals have that wasn't written yet; says whether there may be more.
pub(super) fn write(log: &EventLog, room: &Room, written: &mut Written) -> Result<bool, LogError> {
    let mut more = false;
    for wallet in &room.all_wallets().map_err(unreadable)? {
        more |= write_one(log, room, wallet, written)?;
    }
    Ok(more)
}

fn write_one(
    log: &EventLog,
    room: &Room,
    wallet: &WalletInfo,
    written: &mut Written,
) -> Result<bool, LogError> {
    let before = match written.get(&wallet.id) {
        Some(line) => *line,
        None => written_before(log, wallet.id)?,
    };
    written.insert(wallet.id, before);
    let lines = room.journal(wallet.id, None, before, LINES_AT_ONCE).map_err(unreadable)?;
    let Some(last) = lines.last().map(|line| line.id) else { return Ok(false) };
    let events: Vec<NewEvent> = lines.iter().map(|line| event(&wallet.name, line)).collect();
    let is_full = events.len() >= LINES_AT_ONCE as usize;
    let id = wallet.id.0;
    log.write_with(events, move |tx: &mut Tx<'_>| {
        tx.execute(MARK, &[Arg::Int(id), Arg::Int(last)])?;
        Ok(())
    })?;
    written.insert(wallet.id, last);
    Ok(is_full)
}

fn written_before(log: &EventLog, wallet: WalletId) -> Result<i64, LogError> {
    log.door().read(move |tx| {
        let row = tx.maybe(WRITTEN, &[Arg::Int(wallet.0)])?;
        Ok(row.map(|row| row.int("line")).transpose()?.unwrap_or(0))
    })
}

fn event(wallet: &str, line: &JournalLine) -> NewEvent {
    let subject = line.output.map_or(line.txid.to_string(), |coin| coin.to_string());
    let body = json!({
        "line": line.id,
        "at": Time(line.at),
        "txid": line.txid.to_string(),
        "outpoint": line.output.map(|coin| coin.to_string()),
        "from": line.from.map(|status| status.name()),
        "to": line.to.map(|status| status.name()),
        "other": line.other.map(|txid| txid.to_string()),
        "height": line.height,
        "lock": line.lock.map(|lock| lock.to_string()),
    });
    NewEvent {
        room: NAME.name(),
        kind: line.cause.name(),
        wallet: Some(wallet.to_owned()),
        subject: Some(subject),
        body,
    }
}

fn unreadable(error: unspent_wallet::WalletError) -> LogError {
    LogError::room(NAME, error)
}
