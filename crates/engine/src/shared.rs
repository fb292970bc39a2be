//! What the threads of one engine share.

use std::sync::{Arc, Mutex};

use unspent_chain::Reader;
use unspent_model::Network;
use unspent_wallet::Room;

use crate::{
    board::Board,
    events::{EventLog, NewEvent},
    follow::{Trouble, cache::BlockCache},
    pulse::{Pulse, hold},
    source::Origin,
};

/// Everything that more than one thread needs.
pub(crate) struct Shared {
    pub(crate) network: Network,
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) board: Board,
    pub(crate) log: Arc<EventLog>,
    pub(crate) cache: BlockCache,
    /// Beats when somebody should look for news now; stops when all should end.
    pub(crate) pulse: Pulse,
    /// Beats when a room has changed; stops after all rooms have.
    pub(crate) news: Pulse,
    reader: Mutex<Option<Reader>>,
    wallets: Mutex<Option<Arc<Room>>>,
    /// What a job met in the wallet room; its worker stops for it.
    wallet_trouble: Mutex<Option<Trouble>>,
}

impl Shared {
    pub(crate) fn new(
        origin: Arc<dyn Origin>,
        board: Board,
        log: Arc<EventLog>,
        cache: BlockCache,
    ) -> Self {
        Self {
            network: origin.network(),
            origin,
            board,
            log,
            cache,
            pulse: Pulse::default(),
            news: Pulse::default(),
            reader: Mutex::new(None),
            wallets: Mutex::new(None),
            wallet_trouble: Mutex::new(None),
        }
    }

    pub(crate) fn reader(&self) -> Option<Reader> {
        hold(&self.reader).clone()
    }

    pub(crate) fn set_reader(&self, reader: Option<Reader>) {
        *hold(&self.reader) = reader;
    }

    pub(crate) fn wallets(&self) -> Option<Arc<Room>> {
        hold(&self.wallets).clone()
    }

    pub(crate) fn set_wallets(&self, room: Option<Arc<Room>>) {
        *hold(&self.wallets) = room;
    }

    /// Tells the wallet room's worker of an error that a job met there.
    pub(crate) fn report_wallet_trouble(&self, trouble: Trouble) {
        if matches!(trouble, Trouble::Stop { .. }) {
            *hold(&self.wallet_trouble) = Some(trouble);
        }
    }

    pub(crate) fn take_wallet_trouble(&self) -> Option<Trouble> {
        hold(&self.wallet_trouble).take()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.pulse.is_stopping()
    }

    /// Writes an event of the engine itself. Losing one is no reason to stop a room.
    pub(crate) fn tell(
        &self,
        kind: &'static str,
        subject: Option<String>,
        body: serde_json::Value,
    ) {
        if let Err(error) = self.log.tell(vec![NewEvent::engine(kind, subject, body)]) {
            tracing::warn!(%error, kind, "an event could not be written");
        }
    }
}
