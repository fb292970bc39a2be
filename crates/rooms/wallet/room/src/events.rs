//! The wallets' journals as events: every line once, in the order of its wallet.

use std::collections::{HashMap, HashSet};

use bitcoin::Txid;
use serde::Serialize;
use unspent_engine::{
    clock::Time,
    event_kinds,
    events::{EventLog, LogError, NewEvent, kind::EventKind},
    tenant::Tenant,
};
use unspent_model::{Micros, wallet::JournalCause};
use unspent_wallet::{
    WalletId, WalletStore,
    history::{JournalLine, TxSummary},
    wallet_info::WalletStop,
};
use utoipa::ToSchema;

use crate::names::NAME;

event_kinds! {
    NAME.name();
    /// A transaction was made here.
    CREATED: WalletChangeBody = "created";
    /// A transaction was heard of, without a node that vouches for it.
    RELAYED: WalletChangeBody = "relayed";
    /// A node's mempool holds the transaction.
    MEMPOOL: WalletChangeBody = "mempool";
    /// We sent the transaction.
    BROADCAST: WalletChangeBody = "broadcast";
    /// A block holds the transaction.
    CONFIRMED: WalletChangeBody = "confirmed";
    /// The transaction's block left the best chain.
    DISCONNECTED: WalletChangeBody = "disconnected";
    /// Another unconfirmed transaction took its inputs.
    REPLACED: WalletChangeBody = "replaced";
    /// A confirmed transaction took its inputs.
    DOUBLE_SPENT: WalletChangeBody = "double_spent";
    /// A parent of the transaction is no longer live.
    PARENT_INVALID: WalletChangeBody = "parent_invalid";
    /// Nothing conflicts with the transaction any longer.
    REVIVED: WalletChangeBody = "revived";
    /// A confirmed child proves that the transaction must be live.
    CHILD_CONFIRMED: WalletChangeBody = "child_confirmed";
    /// The transaction was taken back by its maker before it was sent.
    WITHDRAWN: WalletChangeBody = "withdrawn";
    /// The mempool no longer holds the transaction; its status stays.
    EVICTED: WalletChangeBody = "evicted";
    /// The transaction spent a coin that somebody else had leased.
    FORCED_SPEND: WalletChangeBody = "forced_spend";
    /// The transaction was removed by hand; this is what remains.
    PRUNED: WalletChangeBody = "pruned";
    /// A replacement edge went with a pruned transaction.
    PRUNED_EDGE: WalletChangeBody = "pruned_edge";
    /// A wallet can't go on without a person; the others do.
    WALLET_STOPPED: WalletStoppedBody = "wallet_stopped";
}

/// A line of the wallet's journal, and what its transaction means to the wallet. Amounts are in
/// base units; null where the wallet no longer knows the transaction.
#[derive(Debug, Serialize, ToSchema)]
pub struct WalletChangeBody {
    /// The line's number
    line: i64,
    #[serde(flatten)]
    change: JournalChange,
    /// What it pays to the wallet
    credit: Option<String>,
    /// What it spends of the wallet
    debit: Option<String>,
    /// The difference, signed
    net: Option<String>,
    /// Where it is known
    fee: Option<String>,
}

/// A wallet as events and webhooks know it.
pub fn tenant(wallet: WalletId, name: &str) -> Tenant {
    Tenant::new(NAME.name(), wallet.0, name)
}

/// What a line of a journal says happened, in events and in lists of the journal.
#[derive(Debug, Serialize, ToSchema)]
pub struct JournalChange {
    /// When it happened
    pub at: Time,
    /// The transaction that it happened to
    pub txid: String,
    /// The coin, where it is about one
    pub outpoint: Option<String>,
    /// The status before
    pub from: Option<&'static str>,
    /// The status now
    pub to: Option<&'static str>,
    /// The transaction that caused it, where there is one
    pub other: Option<String>,
    /// Of the block that caused it
    pub height: Option<u64>,
    /// The holder of the lease, where it is about one
    pub lock: Option<String>,
}

impl From<&JournalLine> for JournalChange {
    fn from(line: &JournalLine) -> Self {
        Self {
            at: Time(line.at.0),
            txid: line.txid.to_string(),
            outpoint: line.output.map(|coin| coin.to_string()),
            from: line.from.map(|status| status.name()),
            to: line.to.map(|status| status.name()),
            other: line.other.map(|txid| txid.to_string()),
            height: line.height,
            lock: line.lock.map(|lock| lock.to_string()),
        }
    }
}

/// Why a wallet stands still, and what to do.
#[derive(Debug, Serialize, ToSchema)]
pub struct WalletStoppedBody {
    /// Of the block that it can't take
    height: Option<u64>,
    reason: String,
    at: Time,
    remedy: &'static str,
}

/// The kind of a line of a journal.
fn kind_of(cause: JournalCause) -> EventKind<WalletChangeBody> {
    match cause {
        JournalCause::Created => CREATED,
        JournalCause::Relayed => RELAYED,
        JournalCause::Mempool => MEMPOOL,
        JournalCause::Broadcast => BROADCAST,
        JournalCause::Confirmed => CONFIRMED,
        JournalCause::Disconnected => DISCONNECTED,
        JournalCause::Replaced => REPLACED,
        JournalCause::DoubleSpent => DOUBLE_SPENT,
        JournalCause::ParentInvalid => PARENT_INVALID,
        JournalCause::Revived => REVIVED,
        JournalCause::ChildConfirmed => CHILD_CONFIRMED,
        JournalCause::Withdrawn => WITHDRAWN,
        JournalCause::Evicted => EVICTED,
        JournalCause::ForcedSpend => FORCED_SPEND,
        JournalCause::Pruned => PRUNED,
        JournalCause::PrunedEdge => PRUNED_EDGE,
    }
}

/// Lines of one wallet's journal written at once.
const LINES_AT_ONCE: u32 = 500;

/// Under which name it is marked how far the events of a wallet have come.
fn mark_of(wallet: WalletId) -> String {
    format!("journal/{}", wallet.0)
}

/// How far each wallet has been written, as far as this process knows.
#[derive(Default)]
pub(super) struct EventCursors {
    lines: HashMap<WalletId, i64>,
    /// Wallets whose stop has been told, and since when they are stopped.
    stops: HashMap<WalletId, Micros>,
}

/// Writes what the journals have that wasn't written yet; says whether there may be more.
pub(super) fn write(
    log: &EventLog,
    room: &WalletStore,
    written: &mut EventCursors,
) -> Result<bool, LogError> {
    let mut more = false;
    // One statement tells all the ends: ten thousand idle wallets cost no more than it.
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
                // Once resumed, a further stop is news, even of the same block.
                written.stops.remove(&wallet);
            }
        }
    }
    Ok(more)
}

/// A wallet stands still. Told once a start: who wasn't there the last time should know.
fn write_stop(log: &EventLog, room: &WalletStore, wallet: WalletId) -> Result<(), LogError> {
    let info = room.wallet_info(wallet).map_err(unreadable)?;
    let Some(stopped) = info.stopped else { return Ok(()) };
    tracing::error!(wallet = info.name, reason = stopped.reason, "the wallet is stopped");
    let body = WalletStoppedBody {
        height: stopped.height,
        reason: stopped.reason,
        at: Time(stopped.at.0),
        remedy: WalletStop::REMEDY,
    };
    log.write(vec![NewEvent::new(WALLET_STOPPED, &body).of(tenant(wallet, &info.name))])
}

fn write_one(
    log: &EventLog,
    room: &WalletStore,
    wallet: WalletId,
    written: &mut EventCursors,
) -> Result<bool, LogError> {
    let before = match written.lines.get(&wallet) {
        Some(line) => *line,
        // Asked once a start: from then on nobody but this process moves it.
        None => log.mark(NAME, &mark_of(wallet))?,
    };
    written.lines.insert(wallet, before);
    let lines = room.journal(wallet, None, before, LINES_AT_ONCE).map_err(unreadable)?;
    let Some(last) = lines.last().map(|line| line.id) else { return Ok(false) };
    // The name of today: what a renamed wallet did before is told under its new name.
    let whose = tenant(wallet, &room.wallet_info(wallet).map_err(unreadable)?.name);
    let amounts = amounts(room, wallet, &lines)?;
    let events = lines.iter().map(|line| event(&whose, line, amounts.get(&line.txid)));
    let events: Vec<NewEvent> = events.collect();
    let is_full = events.len() >= LINES_AT_ONCE as usize;
    // In one step with the mark: after a crash no line is told twice, and none is left out.
    log.write_marked(events, NAME, &mark_of(wallet), last)?;
    written.lines.insert(wallet, last);
    Ok(is_full)
}

/// What the lines' transactions mean to the wallet, as far as it knows them still.
fn amounts(
    room: &WalletStore,
    wallet: WalletId,
    lines: &[JournalLine],
) -> Result<HashMap<Txid, TxSummary>, LogError> {
    let names: HashSet<Txid> = lines.iter().map(|line| line.txid).collect();
    let known = room.txs_named(wallet, names.into_iter().collect()).map_err(unreadable)?;
    Ok(known.into_iter().map(|tx| (tx.txid, tx)).collect())
}

fn event(whose: &Tenant, line: &JournalLine, tx: Option<&TxSummary>) -> NewEvent {
    let subject = line.output.map_or(line.txid.to_string(), |coin| coin.to_string());
    let body = WalletChangeBody {
        line: line.id,
        change: line.into(),
        credit: tx.map(|tx| tx.credit.to_string()),
        debit: tx.map(|tx| tx.debit.to_string()),
        net: tx.map(|tx| tx.net().to_string()),
        fee: tx.and_then(|tx| tx.fee).map(|fee| fee.to_string()),
    };
    NewEvent::new(kind_of(line.cause), &body).about(Some(subject)).of(whose.clone())
}

fn unreadable(error: unspent_wallet::WalletError) -> LogError {
    LogError::room(NAME, error)
}

#[cfg(test)]
mod tests {
    use unspent_model::wallet::CAUSES;

    use super::*;

    #[test]
    fn a_cause_and_its_kind_of_event_are_the_same_word() {
        for (cause, name) in CAUSES {
            assert_eq!(kind_of(cause).name, name);
        }
    }
}
