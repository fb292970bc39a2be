//! How far an import is: a bar on a terminal, plain lines elsewhere, nothing for programs.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use unspent_chain::CoinCounts;
use unspent_engine::road::Watch;
use unspent_model::Point;
use unspent_server::{error::complain, interrupt::Interrupt, progress::Show, text::grouped};

use crate::BlockTally;

/// Plain lines come this far apart.
const LINES_EVERY: Duration = Duration::from_secs(5);
const TEMPLATE: &str =
    "{bar:32.cyan/blue} {human_pos}/{human_len} blocks  {speed}  {msg}  eta {eta}";

/// An import under way.
pub(crate) struct Progress {
    show: Show,
    bar: Option<ProgressBar>,
    size: ImportSize,
    tally: Arc<Mutex<BlockTally>>,
    interrupt: Interrupt,
    started: Instant,
    said: Mutex<Instant>,
}

/// What an import starts from.
#[derive(Clone, Copy)]
pub(super) struct ImportSize {
    /// Blocks that are coming.
    pub(super) blocks: u64,
    /// Coins before the import.
    pub(super) coins: u64,
}

impl Watch for Progress {
    fn is_stopping(&self) -> bool {
        self.interrupt.asked()
    }

    fn moved(&self, _: Option<Point>, _: u64) {
        if self.show == Show::Nothing {
            return;
        }
        let done = *self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = &self.bar {
            bar.set_position(done.blocks);
            bar.set_message(self.place(&done));
            return;
        }
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.elapsed() >= LINES_EVERY {
            *said = Instant::now();
            complain("import", &self.line(&done));
        }
    }
}

impl Progress {
    /// Starts showing an import.
    pub(super) fn start(
        show: Show,
        size: ImportSize,
        tally: Arc<Mutex<BlockTally>>,
        interrupt: &Interrupt,
    ) -> Self {
        let bar = (show == Show::Bar).then(|| {
            let bar = ProgressBar::new(size.blocks);
            if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
                bar.set_style(style.with_key("speed", speed));
            }
            bar
        });
        let now = Instant::now();
        let (said, interrupt) = (Mutex::new(now), interrupt.clone());
        Self { show, bar, size, tally, interrupt, started: now, said }
    }

    fn line(&self, done: &BlockTally) -> String {
        let speed = rate(done.blocks, self.started.elapsed());
        let (done_blocks, total) = (number(done.blocks), number(self.size.blocks));
        let place = self.place(done);
        format!("{done_blocks} of {total} blocks, {place}, {speed:.0} blocks/s")
    }

    fn place(&self, done: &BlockTally) -> String {
        let CoinCounts { created, spent, .. } = done.counts;
        // Only for the eye: between two reads of the tally, more may seem spent than there is.
        let coins = self.size.coins.saturating_add(created as u64).saturating_sub(spent as u64);
        format!("height {}, {} coins", number(done.height), number(coins))
    }

    /// The import is over.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn number(number: u64) -> String {
    grouped(u128::from(number))
}

/// Blocks per second as the bar shows them.
fn speed(state: &ProgressState, out: &mut dyn fmt::Write) {
    // Writing to the bar's own text can't fail.
    let _ = write!(out, "{:.0} blocks/s", state.per_sec());
}

/// Blocks per second.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn rate(blocks: u64, took: Duration) -> f64 {
    blocks as f64 / took.as_secs_f64().max(1e-6)
}
