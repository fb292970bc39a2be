//! The wallets while the room runs.

use std::sync::{Arc, Mutex};

use metrics::gauge;
use unspent_engine::{
    Engine, clock,
    events::{EventLog, LogError},
    road::Trouble,
    room::{OpenRoom, Pace, handle::StoreHandle},
};
use unspent_source::wakeup::lock;
use unspent_wallet::{WalletError, WalletStore};

use crate::{events, trouble::trouble};

/// The open room.
pub struct OpenWallets {
    handle: StoreHandle<WalletStore>,
    /// How far each wallet's journal has become events, as far as this process knows.
    events_written: Mutex<events::EventCursors>,
}

impl OpenWallets {
    pub(crate) fn new(wallets: Arc<WalletStore>) -> Self {
        Self { handle: StoreHandle::new(wallets), events_written: Mutex::default() }
    }

    pub(crate) fn wallets(&self) -> Option<Arc<WalletStore>> {
        self.handle.get()
    }

    /// Tells the room's thread of an error that a job met; returns what to say of it.
    pub(crate) fn report(&self, error: WalletError) -> String {
        self.handle.report(error, trouble)
    }

    pub(crate) fn take_trouble(&self) -> Option<Trouble> {
        self.handle.take_trouble()
    }
}

impl OpenRoom for OpenWallets {
    fn write_events(&self, log: &EventLog, _: Pace) -> Result<bool, LogError> {
        match self.wallets() {
            Some(wallets) => events::write(log, &wallets, &mut lock(&self.events_written)),
            None => Ok(false),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn measure(&self) -> Result<(), String> {
        let Some(wallets) = self.wallets() else { return Ok(()) };
        let found = wallets.metrics(clock::now()).map_err(|error| error.to_string())?;
        for table in found.tables {
            gauge!("unspent_wallet_table_rows", "table" => table.name).set(table.rows as f64);
            gauge!("unspent_wallet_table_bytes", "table" => table.name).set(table.bytes as f64);
        }
        gauge!("unspent_wallet_active_leases").set(found.active_leases as f64);
        gauge!("unspent_wallet_expired_leases").set(found.expired_leases as f64);
        let latency = found.purge_latency as f64 / 1_000_000.0;
        gauge!("unspent_wallet_purge_latency_seconds").set(latency);
        Ok(())
    }

    fn close(&self) {
        self.handle.close();
    }
}

/// The wallets. `None` when the room is off or ended.
pub fn wallets(engine: &Engine) -> Option<Arc<WalletStore>> {
    engine.room::<OpenWallets>()?.wallets()
}
