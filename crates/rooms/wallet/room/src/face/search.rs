//! What the wallet room adds to `/search`, to a coin's timeline and to a transaction.
//!
//! A wallet's journal knows every change of the transaction that made a coin and of those that
//! spend it.

use bitcoin::{OutPoint, Txid, hashes::Hash as _};
use unspent_engine::{Engine, clock, tenant::TenantName};
use unspent_model::{Outpoint, TxId, wallet::JournalCause};
use unspent_networks::address::show_address;
use unspent_server::{
    api::{
        error::ApiError,
        search::{MatchJson, Matches, SearchText, percent},
        timeline::{Timeline, TimelineEventJson},
        transaction::{RivalTxJson, TxBlock, TxOfWalletJson, TxView},
    },
    json::Time,
};
use unspent_wallet::{
    WalletError, WalletId, WalletStore,
    coins::{CoinInfo, FoundCoin},
    history::{EdgeInfo, JournalLine, TxDetail},
    ids::bitcoin_outpoint,
};

use super::NAME;
use crate::wallets;

/// Lines of a journal read for one transaction.
const LINES_LOOKED_AT: u32 = 200;
/// Attempts to spend a coin that are followed.
const SPENDERS_LOOKED_AT: usize = 16;
/// Wallets that are asked about one transaction.
const WALLETS_LOOKED_AT: usize = 20;

pub(super) fn search(
    engine: &Engine,
    asked: &SearchText,
    found: &mut Matches,
) -> Result<(), ApiError> {
    let Some(room) = wallets(engine) else { return Ok(()) };
    if let Some(hash) = asked.hash() {
        transaction(&room, &hash, asked, found)?;
    }
    match room.wallet(&asked.text) {
        // Silent, as if it were not there: a name that is taken is nobody else's business.
        Ok(_) if !asked.sees(&named(&asked.text)) => {}
        Ok(_) => found.extend(Some(MatchJson {
            kind: "wallet",
            href: Some(format!("/api/v1/wallets/{}", percent(&asked.text))),
            wallet: Some(asked.text.clone()),
            ..MatchJson::default()
        })),
        Err(WalletError::NoWallet(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn named(wallet: &str) -> TenantName {
    TenantName::new(NAME, wallet)
}

fn transaction(
    room: &WalletStore,
    hash: &[u8; 32],
    asked: &SearchText,
    found: &mut Matches,
) -> Result<(), ApiError> {
    let wallets = room.wallets_of_tx(Txid::from_byte_array(*hash))?;
    let names = wallets.into_iter().map(|(_, name)| name);
    let wallets: Vec<String> = names.filter(|name| asked.sees(&named(name))).collect();
    let Some(first) = wallets.first() else { return Ok(()) };
    let shown = asked.network.show_hash(hash);
    let href = format!("/api/v1/wallets/{}/txs/{shown}", percent(first));
    let entry = found.transaction(shown);
    entry.href = Some(href);
    entry.wallets = Some(wallets);
    Ok(())
}

/// What happened to a coin in every wallet that has it.
pub(super) fn timeline(engine: &Engine, timeline: &mut Timeline) -> Result<(), ApiError> {
    let Some(room) = wallets(engine) else { return Ok(()) };
    let now = clock::now();
    for found in room.coins_at(bitcoin_outpoint(timeline.outpoint), now)? {
        let FoundCoin { wallet, name, coin } = found;
        if !timeline.sees(&named(&name)) {
            continue;
        }
        timeline.state = Some(coin.state.name());
        timeline.address = Some(show_address(timeline.network, coin.script.as_bytes()));
        timeline.value = Some(coin.amount);
        events(&room, wallet, &name, &coin, timeline)?;
        let leases = room.leases(wallet, now)?;
        if let Some(lease) = leases.iter().find(|lease| lease.coin == coin.outpoint) {
            timeline.events.push(TimelineEventJson {
                kind: "leased",
                room: NAME,
                wallet: Some(name.clone()),
                until: Some(Time(lease.expires_at.0)),
                ..TimelineEventJson::default()
            });
        }
        timeline.wallets.push(name);
    }
    Ok(())
}

/// The journal's lines about the coin's own transaction, then about those that spend it.
fn events(
    room: &WalletStore,
    wallet: WalletId,
    name: &str,
    coin: &CoinInfo,
    timeline: &mut Timeline,
) -> Result<(), WalletError> {
    for line in room.journal(wallet, Some(coin.outpoint.txid), 0, LINES_LOOKED_AT)? {
        timeline.events.extend(event(&line, name, kind_of_parent(line.cause)));
    }
    for spender in spenders(room, wallet, coin)? {
        for line in room.journal(wallet, Some(spender), 0, LINES_LOOKED_AT)? {
            // A loser may have been in a block as well, before a reorganisation took it away.
            if line.cause == JournalCause::Confirmed && coin.spent_by == Some(spender) {
                timeline.spent_height = line.height;
            }
            timeline.events.extend(event(&line, name, kind_of_spender(line.cause)));
        }
    }
    Ok(())
}

fn event(
    line: &JournalLine,
    wallet: &str,
    kind: Option<&'static str>,
) -> Option<TimelineEventJson> {
    Some(TimelineEventJson {
        kind: kind?,
        room: NAME,
        wallet: Some(wallet.to_owned()),
        at: Some(Time(line.at.0)),
        height: line.height,
        txid: Some(line.txid.to_string()),
        other: line.other.map(|txid| txid.to_string()),
        cause: Some(line.cause.name()),
        from: line.from.map(|status| status.name()),
        to: line.to.map(|status| status.name()),
        ..TimelineEventJson::default()
    })
}

/// What a line about the transaction that made the coin means for the coin.
fn kind_of_parent(cause: JournalCause) -> Option<&'static str> {
    match cause {
        JournalCause::Created | JournalCause::Relayed | JournalCause::Mempool => Some("seen"),
        JournalCause::Broadcast => Some("sent"),
        JournalCause::Confirmed => Some("confirmed"),
        JournalCause::Disconnected => Some("rolled_back"),
        JournalCause::Replaced => Some("replaced"),
        JournalCause::DoubleSpent => Some("double_spent"),
        JournalCause::ParentInvalid | JournalCause::Withdrawn => Some("failed"),
        JournalCause::Revived | JournalCause::ChildConfirmed => Some("revived"),
        JournalCause::Evicted => Some("evicted"),
        JournalCause::Pruned => Some("pruned"),
        JournalCause::ForcedSpend | JournalCause::PrunedEdge => None,
    }
}

/// What a line about a transaction that spends the coin means for the coin.
fn kind_of_spender(cause: JournalCause) -> Option<&'static str> {
    match cause {
        JournalCause::Created
        | JournalCause::Relayed
        | JournalCause::Mempool
        | JournalCause::ForcedSpend => Some("spending"),
        JournalCause::Confirmed => Some("spent"),
        JournalCause::Broadcast
        | JournalCause::Disconnected
        | JournalCause::Replaced
        | JournalCause::DoubleSpent
        | JournalCause::ParentInvalid
        | JournalCause::Revived
        | JournalCause::ChildConfirmed
        | JournalCause::Withdrawn
        | JournalCause::Evicted
        | JournalCause::Pruned
        | JournalCause::PrunedEdge => kind_of_parent(cause),
    }
}

/// The transaction that spends a coin, and those whose place it took, in turn.
fn spenders(
    room: &WalletStore,
    wallet: WalletId,
    coin: &CoinInfo,
) -> Result<Vec<Txid>, WalletError> {
    let mut found: Vec<Txid> = coin.spent_by.into_iter().collect();
    let mut at = 0;
    while let Some(txid) = found.get(at).copied() {
        at += 1;
        for edge in room.tx(wallet, txid)?.replaces {
            // Each of two may have beaten the other in its time, so edges can lead in a circle.
            if found.len() >= SPENDERS_LOOKED_AT || found.contains(&edge.txid) {
                continue;
            }
            // The two may have fought over another coin than this one.
            let inputs = room.tx(wallet, edge.txid)?.inputs;
            if inputs.iter().any(|input| input.outpoint == coin.outpoint) {
                found.push(edge.txid);
            }
        }
    }
    Ok(found)
}

/// What a transaction is to every wallet that knows it.
pub(super) fn transaction_view(engine: &Engine, view: &mut TxView) -> Result<(), ApiError> {
    let Some(room) = wallets(engine) else { return Ok(()) };
    let txid = Txid::from_byte_array(view.txid.0);
    let seen = room.wallets_of_tx(txid)?.into_iter();
    let seen: Vec<_> = seen.filter(|(_, name)| view.sees(&named(name))).collect();
    for (wallet, name) in seen.into_iter().take(WALLETS_LOOKED_AT) {
        add_wallet(view, name, room.tx(wallet, txid)?);
    }
    Ok(())
}

fn add_wallet(view: &mut TxView, wallet: String, found: TxDetail) {
    let summary = found.summary;
    let coin = |coin: OutPoint| Outpoint::new(TxId(coin.txid.to_byte_array()), coin.vout);
    for input in found.inputs {
        if input.amount.is_some() {
            let end = view.end(coin(input.outpoint));
            end.value = input.amount;
            end.wallets.push(wallet.clone());
        }
    }
    for output in found.outputs.iter().filter(|output| output.is_ours) {
        view.end(Outpoint::new(view.txid, output.index)).wallets.push(wallet.clone());
    }
    let rival = |edge: &EdgeInfo| RivalTxJson {
        txid: edge.txid.to_string(),
        cause: edge.cause.name(),
        at: Time(edge.at.0),
    };
    // Wallets that both know a conflict tell of the same one.
    if view.replaces.is_empty() && view.replaced_by.is_empty() {
        view.replaces = found.replaces.iter().map(rival).collect();
        view.replaced_by = found.replaced_by.iter().map(rival).collect();
    }
    if let Some(height) = summary.height {
        view.in_block(TxBlock { height, hash: None, time: summary.block_time });
    }
    view.status = view.status.or(Some(summary.status.name()));
    view.fee = view.fee.or(summary.fee);
    view.tx = Some(found.tx);
    view.wallets.push(TxOfWalletJson {
        wallet,
        net: summary.net().to_string(),
        status: summary.status.name(),
        received_at: Time(summary.received.0),
        own: summary.is_own,
        label: summary.label,
        evicted_at: summary.evicted_at.map(|at| Time(at.0)),
    });
}
