//! The thread that compares what was told with where the rooms stand.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{LogError, chain, wallet};
use crate::{
    shared::Shared,
    status::{RoomName, RoomState},
};

/// The longest time between two comparisons.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two tellings of a chain that is catching up.
const WHILE_CATCHING_UP: Duration = Duration::from_secs(3);

/// Tells what happened in the rooms.
pub(crate) struct Teller {
    shared: Arc<Shared>,
    told_chain: Option<Instant>,
    told_wallets: wallet::Told,
}

impl Teller {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, told_chain: None, told_wallets: wallet::Told::new() }
    }

    /// Compares until the end, and once more after it, so that a clean stop leaves nothing untold.
    pub(crate) fn run(mut self) {
        let mut known = self.shared.news.count();
        loop {
            let is_over = self.shared.news.is_stopping();
            let mut more = true;
            while more {
                more = self.compare(is_over) && !is_over;
            }
            if is_over {
                return;
            }
            known = self.shared.news.wait(known, LOOK_EVERY);
        }
    }

    /// Says whether there may be more to tell.
    fn compare(&mut self, is_over: bool) -> bool {
        let told = AssertUnwindSafe(|| self.chain(is_over).and_then(|()| self.wallet()));
        match catch_unwind(told) {
            Ok(Ok(more)) => more,
            Ok(Err(error)) => {
                tracing::warn!(%error, "events could not be told; they are tried again");
                false
            }
            Err(_) => {
                tracing::error!("a fault in the program kept events from being told");
                false
            }
        }
    }

    fn chain(&mut self, is_over: bool) -> Result<(), LogError> {
        let Some(reader) = self.shared.reader() else { return Ok(()) };
        let is_catching_up = self.shared.board.state(RoomName::Chain) == RoomState::CatchingUp;
        let is_early = self.told_chain.is_some_and(|at| at.elapsed() < WHILE_CATCHING_UP);
        if is_catching_up && is_early && !is_over {
            return Ok(());
        }
        chain::tell(&self.shared.log, &reader, self.shared.network)?;
        self.told_chain = Some(Instant::now());
        Ok(())
    }

    fn wallet(&mut self) -> Result<bool, LogError> {
        match self.shared.wallets() {
            Some(room) => wallet::tell(&self.shared.log, &room, &mut self.told_wallets),
            None => Ok(false),
        }
    }
}
