//! The thread that writes down as events what happened in the rooms.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use super::LogError;
use crate::{context::Context, room::Pace, status::RoomState};

/// The longest time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Writes the rooms' events.
pub(crate) struct EventWriter {
    context: Arc<Context>,
}

impl EventWriter {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context }
    }

    /// Writes until the end, and once more after it, so that a clean stop leaves nothing unwritten.
    pub(crate) fn run(self) {
        let mut known = self.context.news.count();
        loop {
            let is_last = self.context.news.is_stopping();
            let mut more = true;
            while more {
                more = self.look(is_last) && !is_last;
            }
            if is_last {
                return;
            }
            known = self.context.news.wait(known, LOOK_EVERY);
        }
    }

    /// Says whether there may be more to write. A room that can't be read keeps no other waiting.
    fn look(&self, is_last: bool) -> bool {
        let mut more = false;
        for (name, room) in self.context.rooms() {
            let is_catching_up = self.context.state(name) == RoomState::CatchingUp;
            let pace = Pace { is_catching_up, is_last };
            let write = AssertUnwindSafe(|| room.write_events(&self.context.log, pace));
            more |= settle(name.name(), catch_unwind(write));
        }
        more
    }
}

fn settle(room: &str, written: std::thread::Result<Result<bool, LogError>>) -> bool {
    match written {
        Ok(Ok(more)) => more,
        Ok(Err(error)) => {
            tracing::warn!(room, %error, "can't write events; will try again");
            false
        }
        Err(_) => {
            tracing::error!(room, "a bug kept events from being written");
            false
        }
    }
}
