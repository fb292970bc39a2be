//! The cleaner as a job: passes with a budget, so that a long backlog keeps no other job waiting
//! for ever.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use metrics::{counter, histogram};
use unspent_engine::{context::Context, jobs::Outcome, status::RoomState};
use unspent_model::txstore::KeepReason;
use unspent_source::wakeup::lock;
use unspent_txstore::{CleanLimits, CleanReport, TxStoreError};

use super::events::{self, TransactionsKeptBody};
use crate::room::{NAME, OpenTxStore};

/// Due records that are looked at before the clock is.
const LOOK_AT: usize = 5_000;
/// How long one run may take, about.
const BUDGET: Duration = Duration::from_secs(20);

/// How often the cleaner kept a record, by reason.
pub type KeptCounts = BTreeMap<KeepReason, u64>;

pub(super) struct CleanerJob {
    room: Arc<OpenTxStore>,
    context: Arc<Context>,
}

impl CleanerJob {
    pub(super) fn new(room: Arc<OpenTxStore>, context: Arc<Context>) -> Self {
        Self { room, context }
    }

    /// Passes until nothing is due any more or the budget is used up.
    pub(super) fn run(&mut self) -> Result<Outcome, String> {
        let Some(store) = self.room.store() else {
            return Ok(Outcome::Later("the store is not open".into()));
        };
        // It may have stopped over damaged rows: a verdict on those is worth nothing, and a
        // deletion is for good.
        if matches!(self.context.state(NAME), RoomState::Stopped { .. }) {
            return Ok(Outcome::Later("the txstore room is stopped".into()));
        }
        let started = Instant::now();
        let limits = CleanLimits { most: LOOK_AT, ..CleanLimits::default() };
        let (mut deleted, mut kept) = (0, KeptCounts::new());
        loop {
            let report = match store.clean(limits) {
                Ok(report) => report,
                Err(TxStoreError::NoTip) => return Ok(Outcome::Done("there is no tip yet".into())),
                Err(error) => return Err(self.room.report(error)),
            };
            self.count(&report, &mut kept);
            deleted += report.deleted;
            let is_over = started.elapsed() >= BUDGET || self.context.is_stopping();
            if !report.is_cut || is_over {
                break;
            }
        }
        if deleted > 0 || !kept.is_empty() {
            self.context.changed();
        }
        Ok(Outcome::Done(said(deleted, &kept)))
    }

    fn count(&self, report: &CleanReport, kept: &mut KeptCounts) {
        histogram!("unspent_txstore_clean_seconds").record(report.took);
        let (deleted, looked_at) = (report.deleted as u64, report.looked_at as u64);
        counter!("unspent_txstore_cleaned_total").increment(deleted);
        counter!("unspent_txstore_looked_at_total").increment(looked_at);
        if report.kept.is_empty() {
            return;
        }
        let mut all = lock(&self.room.kept);
        for (reason, count) in &report.kept {
            let count = *count as u64;
            counter!("unspent_txstore_kept_total", "reason" => reason.name()).increment(count);
            *all.entry(*reason).or_default() += count;
            *kept.entry(*reason).or_default() += count;
        }
        // Writing an event waits for the disk; whoever asks for the figures needn't.
        drop(all);
        self.tell_kept(report);
    }

    /// A verdict is no record of the store: it is told where it falls, and may be lost in a crash.
    fn tell_kept(&self, report: &CleanReport) {
        let kept = report.kept.iter().map(|(reason, count)| (reason.name(), *count)).collect();
        let body = TransactionsKeptBody { height: report.height, kept };
        self.context.write_event(events::KEPT, &body);
    }
}

fn said(deleted: usize, kept: &KeptCounts) -> String {
    if kept.is_empty() {
        return format!("{deleted} deleted");
    }
    let reasons: Vec<String> =
        kept.iter().map(|(reason, count)| format!("{} {count}", reason.name())).collect();
    format!("{deleted} deleted, kept: {}", reasons.join(", "))
}
