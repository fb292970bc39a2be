//! Jobs that look after the rooms themselves.

use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use metrics::gauge;

use super::Outcome;
use crate::{
    clock,
    follow::{chain::Order, wallet::trouble},
    shared::Shared,
    status::{RoomName, RoomState},
};

/// How long a room's thread may take to come round to an order.
const ORDER_PATIENCE: Duration = Duration::from_secs(20);

/// Has the chain room forget what is due. Only its own thread may do that.
pub(super) fn prune(
    shared: &Shared,
    orders: &Sender<Order>,
    passes: u32,
) -> Result<Outcome, String> {
    if shared.board.state(RoomName::Chain) == RoomState::CatchingUp {
        return Ok(Outcome::Later("the chain room is catching up, and prunes by itself".into()));
    }
    let (reply, answer) = bounded(1);
    if orders.try_send(Order::Prune { passes, reply }).is_err() {
        return Err("the chain room is busy or has ended".into());
    }
    let pruned = answer.recv_timeout(ORDER_PATIENCE);
    let pruned = pruned.map_err(|_| "the chain room is busy with many blocks".to_owned())??;
    Ok(Outcome::Done(format!(
        "{} spent coins and {} deltas forgotten, {} blocks behind",
        pruned.spends, pruned.deltas, pruned.behind
    )))
}

/// Takes expired leases away.
pub(super) fn purge_leases(shared: &Shared) -> Result<Outcome, String> {
    let Some(room) = shared.wallets() else { return Ok(Outcome::Later("no wallets".into())) };
    if shared.board.is_stopped(RoomName::Wallet) {
        return Ok(Outcome::Later("the wallet room is stopped".into()));
    }
    match room.purge_leases(None, clock::now()) {
        Ok(count) => Ok(Outcome::Done(format!("{count} leases gone"))),
        Err(error) => {
            let reason = error.to_string();
            shared.report_wallet_trouble(trouble(error));
            Err(reason)
        }
    }
}

/// Sets the gauges of the rooms' sizes.
#[allow(clippy::cast_precision_loss)]
pub(super) fn measure(shared: &Shared) -> Result<Outcome, String> {
    if let Some(reader) = shared.reader() {
        let status = reader.status().map_err(|error| error.to_string())?;
        for (family, bytes) in status.sizes {
            gauge!("unspent_chain_disk_bytes", "family" => family).set(bytes as f64);
        }
    }
    if let Some(room) = shared.wallets() {
        let found = room.metrics(clock::now()).map_err(|error| error.to_string())?;
        for table in found.tables {
            gauge!("unspent_wallet_table_rows", "table" => table.name).set(table.rows as f64);
            gauge!("unspent_wallet_table_bytes", "table" => table.name).set(table.bytes as f64);
        }
        gauge!("unspent_wallet_active_leases").set(found.active_leases as f64);
        gauge!("unspent_wallet_expired_leases").set(found.expired_leases as f64);
        let latency = found.purge_latency as f64 / 1_000_000.0;
        gauge!("unspent_wallet_purge_latency_seconds").set(latency);
    }
    Ok(Outcome::Done("measured".into()))
}
