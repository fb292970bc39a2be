//! Handing own transactions to the node, with its answer as an event.

use std::sync::Arc;

use bitcoin::Txid;
use serde_json::json;
use unspent_model::wallet::Status;
use unspent_wallet::{Room, WalletId};

use crate::{
    clock,
    error::BroadcastError,
    events::{NewEvent, kind},
    shared::Shared,
    source::{Answer, Node},
};

/// Hands one transaction over. Taken: it is published. Refused: its status stays.
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
    if !status.is_live() {
        return Err(BroadcastError::NotLive(status.name()));
    }
    let answer = node.broadcast(&detail.tx)?;
    if answer == Answer::Accepted && status == Status::Pending {
        room.mark_broadcast(wallet, txid, clock::now())?;
    }
    shared.news.wake();
    tell(shared, wallet, txid, &answer)?;
    Ok(answer)
}

fn tell(
    shared: &Shared,
    wallet: WalletId,
    txid: Txid,
    answer: &Answer,
) -> Result<(), BroadcastError> {
    let (kind, body) = match answer {
        Answer::Accepted => (kind::BROADCAST_ACCEPTED, json!({ "wallet_id": wallet.0 })),
        Answer::Rejected { reason } => {
            (kind::BROADCAST_REJECTED, json!({ "wallet_id": wallet.0, "reason": reason }))
        }
    };
    Ok(shared.log.tell(vec![NewEvent::engine(kind, Some(txid.to_string()), body)])?)
}
