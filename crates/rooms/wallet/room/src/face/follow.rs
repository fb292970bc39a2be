//! Bringing wallets up to block files.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use unspent_engine::{
    config::Follow,
    road::{End, Ended, Trip, Trouble, Watch},
};
use unspent_model::Point;
use unspent_server::{
    config::Config,
    error::{CliError, Outcome},
    interrupt::Interrupt,
    output::{Output, facts},
    progress::Show,
};
use unspent_source::{
    Origin as _, Step,
    folder::{Folder, FolderConfig},
};

use crate::WalletFollower;

use super::context::RoomContext;

#[derive(Args)]
pub(crate) struct ScanArgs {
    /// Block files and folders of them
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Read no blocks above this height
    #[arg(long, value_name = "HEIGHT")]
    stop_at: Option<u64>,
    /// Start wallets that were never scanned with the first block of the files, whatever their
    /// birthday
    #[arg(long)]
    from_first: bool,
}

/// How far a scan is, and what it undid.
struct Scanning {
    interrupt: Interrupt,
    bar: ProgressBar,
    undone: AtomicU64,
}

impl Watch for Scanning {
    fn is_stopping(&self) -> bool {
        self.interrupt.asked()
    }

    fn moved(&self, _: Option<Point>, blocks: u64) {
        self.bar.inc(blocks);
    }

    fn rolled_back(&self, _: Point, _: Option<Point>, depth: u64) {
        self.undone.fetch_add(depth, Ordering::Relaxed);
    }
}

/// Height of the first block that the files have.
fn first_height(files: &Folder) -> anyhow::Result<u64> {
    let mut source = files.open()?;
    source.intersect(&[])?;
    match source.next(Duration::ZERO)? {
        Step::Forward(first) => Ok(first.point.height),
        Step::Backward(_) | Step::Nothing => {
            Err(CliError::input("these files hold no blocks").into())
        }
    }
}

pub(super) fn scan(
    config: &Config,
    context: &RoomContext,
    args: &ScanArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let (network, paths) = (context.room.network(), args.paths.clone());
    // The files are looked through once: they aren't expected to grow meanwhile.
    let (unpack_in, poll) = (config.data_dir.clone(), Duration::from_secs(3600));
    let files = Folder::part(FolderConfig { paths, network, unpack_in, poll }, args.stop_at);
    let first = first_height(&files)?;
    if args.from_first {
        context.room.start_unscanned_at(first)?;
    }
    let bar = Show::suitable(output.is_json()).counter(0, "blocks");
    let watch = Scanning { interrupt: Interrupt::listen(), bar, undone: AtomicU64::new(0) };
    let mut source = files.open()?;
    let tip = source.tip();
    let mut room = WalletFollower::new(context.room.clone(), Arc::new(files.clone()));
    let trip = Trip::new(&mut room, &mut *source, network, Follow::default(), &watch);
    let ended = trip.named(files.name()).run(End::Tip).map_err(explain)?;
    watch.bar.finish_and_clear();
    let found = room.found();
    let undone = watch.undone.load(Ordering::Relaxed);
    let lagging = lagging(context, tip.map_or(first, |tip| tip.height))?;
    let stopped = ended == Ended::Asked;
    let document = json!({
        "blocks": found.blocks, "disconnected": undone, "new_txs": found.txs,
        "new_coins": found.coins, "tip": context.room.tip()?.map(|tip| tip.height),
        "lagging": lagging, "interrupted": stopped,
    });
    output.answer(&document, || {
        let mut rows = vec![
            ("blocks read", found.blocks.to_string()),
            ("blocks disconnected", undone.to_string()),
            ("new transactions", found.txs.to_string()),
            ("new coins", found.coins.to_string()),
        ];
        for name in &lagging {
            rows.push((
                "not up to date",
                format!("{name} (its birthday is below these files; --from-first includes it)"),
            ));
        }
        facts(&rows)
    })?;
    Ok(if stopped { Outcome::Interrupted } else { Outcome::Done })
}

/// Blocks that don't fit are the files' fault.
fn explain(trouble: Trouble) -> anyhow::Error {
    match trouble {
        Trouble::Lost(cause) => {
            CliError::input(cause.to_string()).hint("pass the blocks in between as well").into()
        }
        Trouble::Source(_) | Trouble::Busy(_) | Trouble::Disk(_) | Trouble::Stop { .. } => {
            trouble.into()
        }
    }
}

fn lagging(context: &RoomContext, tip: u64) -> anyhow::Result<Vec<String>> {
    let all = context.room.all_wallets()?.into_iter();
    let behind = all.filter(|info| info.scanned.is_none_or(|place| place.height < tip));
    Ok(behind.map(|info| info.name).collect())
}
