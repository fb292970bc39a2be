//! The wallets' journals as events: every line once, in the order of its wallet.

use std::collections::{HashMap, HashSet};

use bitcoin::Txid;
use serde_json::json;
use unspent_sql::{Arg, Tx};
use unspent_wallet::{
    Room, WalletId,
    history::{JournalLine, TxSummary},
    stopped::Stopped,
};

use super::NAME;
use crate::{
    clock::Time,
    events::{EventLog, LogError, NewEvent},
};

/// A wallet can't go on without a person; the others do.
const WALLET_STOPPED: &str = "wallet_stopped";
/// Lines of one wallet's journal written at once.
const LINES_AT_ONCE: u32 = 500;

const WRITTEN: &str = "SELECT line FROM told_wallets WHERE wallet_id = $1";
const MARK: &str = "INSERT INTO told_wallets (wallet_id, line) VALUES ($1, $2)
    ON CONFLICT (wallet_id) DO UPDATE SET line = excluded.line";

/// How far each wallet has been written, as far as this process knows.
#[derive(Default)]
pub(super) struct Written {
    lines: HashMap<WalletId, i64>,
    /// Wallets whose stop has been told, and since when they are stopped.
    stops: HashMap<WalletId, i64>,
}

/// Writes what the journals have that wasn't written yet; says whether there may be more.
pub(super) fn write(log: &EventLog, room: &Room, written: &mut Written) -> Result<bool, LogError> {
    let mut more = false;
    for (wallet, last, stopped) in room.journal_ends().map_err(unreadable)? {
        if written.lines.get(&wallet).is_none_or(|line| *line < last) {
            more |= write_one(log, room, wallet, written)?;
        }
        match stopped {
            Some(since) if written.stops.get(&wallet) != Some(&since) => {
                write_stop(log, room, wallet)?;
                written.stops.insert(wallet, since);
            }
            Some(_) => {}
            None => {
                written.stops.remove(&wallet);
            }
        }
    }
    Ok(more)
}

/// A wallet stands still. Told once a start: who wasn't there the last time should know.
fn write_stop(log: &EventLog, room: &Room, wallet: WalletId) -> Result<(), LogError> {
    let info = room.wallet_info(wallet).map_err(unreadable)?;
    let Some(stopped) = info.stopped else { return Ok(()) };
    tracing::error!(wallet = info.name, reason = stopped.reason, "the wallet is stopped");
    let body = json!({
        "height": stopped.height, "reason": stopped.reason, "at": Time(stopped.at),
        "remedy": Stopped::REMEDY,
    });
    log.write(vec![NewEvent {
        room: NAME.name(),
        kind: WALLET_STOPPED,
        wallet: Some(info.name),
        wallet_id: Some(wallet.0),
        subject: None,
        body,
    }])
}

fn write_one(
    log: &EventLog,
    room: &Room,
    wallet: WalletId,
    written: &mut Written,
) -> Result<bool, LogError> {
    let before = match written.lines.get(&wallet) {
        Some(line) => *line,
        None => written_before(log, wallet)?,
    };
    written.lines.insert(wallet, before);
    let lines = room.journal(wallet, None, before, LINES_AT_ONCE).map_err(unreadable)?;
    let Some(last) = lines.last().map(|line| line.id) else { return Ok(false) };
    let name = room.wallet_info(wallet).map_err(unreadable)?.name;
    let amounts = amounts(room, wallet, &lines)?;
    let events = lines.iter().map(|line| event(wallet, &name, line, amounts.get(&line.txid)));
    let events: Vec<NewEvent> = events.collect();
    let is_full = events.len() >= LINES_AT_ONCE as usize;
    log.write_with(events, move |tx: &mut Tx<'_>| {
        tx.execute(MARK, &[Arg::Int(wallet.0), Arg::Int(last)])?;
        Ok(())
    })?;
    written.lines.insert(wallet, last);
    Ok(is_full)
}

fn written_before(log: &EventLog, wallet: WalletId) -> Result<i64, LogError> {
    log.door().read(move |tx| {
        let row = tx.maybe(WRITTEN, &[Arg::Int(wallet.0)])?;
        Ok(row.map(|row| row.int("line")).transpose()?.unwrap_or(0))
    })
}

/// What the lines' transactions mean to the wallet, as far as it knows them still.
fn amounts(
    room: &Room,
    wallet: WalletId,
    lines: &[JournalLine],
) -> Result<HashMap<Txid, TxSummary>, LogError> {
    let names: HashSet<Txid> = lines.iter().map(|line| line.txid).collect();
    let known = room.txs_named(wallet, names.into_iter().collect()).map_err(unreadable)?;
    Ok(known.into_iter().map(|tx| (tx.txid, tx)).collect())
}

fn event(wallet: WalletId, name: &str, line: &JournalLine, tx: Option<&TxSummary>) -> NewEvent {
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
        "credit": tx.map(|tx| tx.credit.to_string()),
        "debit": tx.map(|tx| tx.debit.to_string()),
        "net": tx.map(|tx| tx.net().to_string()),
        "fee": tx.and_then(|tx| tx.fee).map(|fee| fee.to_string()),
    });
    NewEvent {
        room: NAME.name(),
        kind: line.cause.name(),
        wallet: Some(name.to_owned()),
        wallet_id: Some(wallet.0),
        subject: Some(subject),
        body,
    }
}

fn unreadable(error: unspent_wallet::WalletError) -> LogError {
    LogError::room(NAME, error)
}
