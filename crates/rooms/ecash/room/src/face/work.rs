//! The worker in the foreground: one pass, or passes until somebody stops it.

use std::time::Duration;

use serde_json::json;
use unspent_server::{
    error::Outcome,
    interrupt::Interrupt,
    output::{Output, facts},
};

use super::args::CommandContext;
use crate::work::worker::{PassReport, PaymentWorker};

/// Between two looks at what is due, when no mint gives notice.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) fn print_recover(
    context: CommandContext,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let mut worker = PaymentWorker::new(context.executor, context.worker)?;
    let report = worker.pass()?;
    let shown = json!({
        "led_by_another": report.is_led_by_another, "open": report.open, "moved": report.moved,
        "ended": report.ended, "looked_at_again": report.late, "unclear": report.unclear,
    });
    output.answer(&shown, || told(&report))?;
    Ok(Outcome::Done)
}

fn told(report: &PassReport) -> String {
    if report.is_led_by_another {
        return "another worker is at it (a daemon, or `unspent ecash run`)".into();
    }
    let mut rows = vec![
        ("open", report.open.to_string()),
        ("moved", report.moved.to_string()),
        ("came to their end", report.ended.to_string()),
        ("ended unpaid, looked at again", report.late.to_string()),
    ];
    rows.extend(report.unclear.iter().map(|(id, why)| ("waits", format!("{id}: {why}"))));
    facts(&rows)
}

pub(super) fn run(context: CommandContext, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let interrupt = Interrupt::listen();
    let mut worker = PaymentWorker::new(context.executor, context.worker)?;
    output.say("looking after payments; Ctrl-C stops it")?;
    while !interrupt.asked() {
        let report = worker.step()?;
        if report.ended > 0 {
            output.say(&format!("{} payments came to their end", report.ended))?;
        }
        worker.rest(PAUSE);
    }
    Ok(Outcome::Done)
}
