//! Handing own transactions to the node, with its answer as an event.

use std::sync::Arc;

use bitcoin::Txid;
use serde_json::json;
use unspent_model::wallet::Status;
use unspent_wallet::{Batch, Room, TxSource, WalletId};

use crate::{
    clock,
    error::BroadcastError,
    events::{NewEvent, kind},
    shared::Shared,
    source::{Answer, Node},
};

/// Hands one transaction over. Taken: the node's mempool holds it, and it is published, whatever an
/// earlier reading of that mempool made of it. Refused: its status stays.
pub(crate) fn send(
    shared: &Shared,
    node: &Arc<dyn Node>,
    room: &Room,
    wallet: WalletId,
    txid: Txid,
) -> Result<Answer, BroadcastError> {
    let detail = room.tx(wallet, txid)?;
    let status = detail.summary.status;
    if detail.summary.height.is_some() {
        return Err(BroadcastError::NotLive("confirmed"));
    }
    // What lost to another may win now, if the node says so: our own replacement that a reading of
    // the mempool overtook, say. What was taken back by hand stays back.
    if status == Status::Orphaned || detail.withdrawn {
        return Err(BroadcastError::NotLive(status.name()));
    }
    let answer = node.broadcast(&detail.tx)?;
    if answer == Answer::Accepted && status != Status::Published {
        room.record_for(wallet, &Batch::one(detail.tx, TxSource::Mempool), clock::now())?;
    }
    shared.news.wake();
    tell(shared, room, wallet, txid, &answer)?;
    Ok(answer)
}

fn tell(
    shared: &Shared,
    room: &Room,
    wallet: WalletId,
    txid: Txid,
    answer: &Answer,
) -> Result<(), BroadcastError> {
    let (kind, body) = match answer {
        Answer::Accepted => (kind::BROADCAST_ACCEPTED, json!({})),
        Answer::Rejected { reason } => (kind::BROADCAST_REJECTED, json!({ "reason": reason })),
    };
    let event = NewEvent::engine(kind, Some(txid.to_string()), body);
    let wallet = Some(room.wallet_info(wallet)?.name);
    Ok(shared.log.tell(vec![NewEvent { wallet, ..event }])?)
}
