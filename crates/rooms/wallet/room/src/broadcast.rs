//! Handing own transactions to the node, with its answer as an event.

use std::sync::Arc;

use bitcoin::Txid;
use unspent_engine::{
    clock,
    context::Context,
    events::{
        LogError, NewEvent,
        kind::{self, EmptyBody, ReasonBody},
    },
    room::{OpenRoom as _, Pace},
};
use unspent_model::wallet::TxStatus;
use unspent_source::{Answer, Node, SourceError};
use unspent_wallet::{TxBatch, TxSource, WalletError, WalletId, WalletStore};

use crate::{events::tenant, open_wallets::OpenWallets};

/// Why a transaction was not handed to the node. Its status is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BroadcastError {
    /// The wallet room is off.
    #[error("the wallet room is switched off")]
    NoWallets,
    /// Nobody to hand it to.
    #[error("the source has no node to send transactions to")]
    NoNode,
    /// It is confirmed or dead.
    #[error("the transaction is {0}; only a live unconfirmed one can be sent")]
    NotLive(&'static str),
    /// The wallet room said no.
    #[error(transparent)]
    Wallet(#[from] WalletError),
    /// The node can't be asked. It may or may not have the transaction; sending again is harmless.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The answer could not be written down as an event; what the node said still holds.
    #[error("the node answered, but the event could not be written: {0}")]
    Log(#[from] LogError),
}

/// Hands one transaction over. Taken: the node's mempool holds it, and it is published, whatever an
/// earlier reading of that mempool made of it. Refused: its status stays.
pub(super) fn send(
    context: &Context,
    node: &Arc<dyn Node>,
    wallets: &WalletStore,
    wallet: WalletId,
    txid: Txid,
) -> Result<Answer, BroadcastError> {
    let detail = wallets.tx(wallet, txid)?;
    let status = detail.summary.status;
    if detail.summary.height.is_some() {
        return Err(BroadcastError::NotLive("confirmed"));
    }
    // What lost to another may win now, if the node says so: our own replacement that a reading of
    // the mempool overtook, say. What was taken back by hand stays back.
    if status == TxStatus::Orphaned || detail.withdrawn {
        return Err(BroadcastError::NotLive(status.name()));
    }
    // No transaction is open: a slow node must not hold the wallet. A crash right
    // after leaves it pending, and it is sent once more, which is harmless.
    let answer = node.broadcast(&detail.tx)?;
    if answer == Answer::Accepted && status != TxStatus::Published {
        let batch = TxBatch::one(detail.tx, TxSource::Mempool);
        wallets.record_for(wallet, &batch, clock::now())?;
        tell_others(wallets, wallet, batch);
    }
    context.changed();
    write_event(context, wallets, wallet, txid, &answer)?;
    Ok(answer)
}

/// Records what was sent for every other wallet that it concerns, at once: the next reading of the
/// mempool would tell them too.
fn tell_others(wallets: &WalletStore, sender: WalletId, mut batch: TxBatch) {
    for sent in &mut batch.txs {
        sent.known_to.push(sender);
    }
    if let Err(error) = wallets.record(&batch, clock::now()) {
        // It was sent all the same, and another wallet's trouble is not the sender's.
        tracing::warn!(
            %error,
            "other wallets were not told of a payment now; they learn of it from the mempool"
        );
    }
}

fn write_event(
    context: &Context,
    wallets: &WalletStore,
    wallet: WalletId,
    txid: Txid,
    answer: &Answer,
) -> Result<(), BroadcastError> {
    let event = match answer {
        Answer::Accepted => NewEvent::new(kind::BROADCAST_ACCEPTED, &EmptyBody {}),
        Answer::Rejected { reason } => {
            NewEvent::new(kind::BROADCAST_REJECTED, &ReasonBody { reason: reason.clone() })
        }
    };
    // What the wallet did comes first: that the transaction was made is told before it was sent.
    let pace = Pace { is_catching_up: false, is_last: false };
    if let Some(room) = context.room::<OpenWallets>() {
        while room.write_events(context.log(), pace)? {}
    }
    let name = wallets.wallet_info(wallet)?.name;
    let event = event.about(Some(txid.to_string())).of(tenant(wallet, &name));
    Ok(context.log().write(vec![event])?)
}
