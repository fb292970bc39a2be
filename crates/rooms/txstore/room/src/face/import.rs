//! Block files to the store, down the road that every block takes.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use unspent_engine::{
    config::Follow,
    road::{End, Ended, Trip, Trouble, Watch},
};
use unspent_model::{Family, Network, Point};
use unspent_server::{
    config::Config,
    error::{CliError, Outcome},
    interrupt::Interrupt,
    json::PointJson,
    output::{Output, facts},
    progress::Show,
    text,
};
use unspent_source::{
    Origin as _,
    folder::{Folder, FolderConfig},
};
use unspent_sql::{Options, Url};
use unspent_txstore::{Settings, TxStore, TxStoreError};

use super::section::TxStoreSection;
use crate::{StoredCounts, TxStoreFollower};

/// What to import and how.
#[derive(Args)]
pub(crate) struct TxImportArgs {
    /// Network of the blocks; may be left out when the store exists: bitcoin, bitcoin-testnet4,
    /// bitcoin-signet, bitcoin-regtest
    /// [env: UNSPENT_NETWORK]
    #[arg(long, value_name = "NAME")]
    network: Option<Network>,
    /// Take no blocks above this height
    #[arg(long, env = "UNSPENT_STOP_AT", value_name = "HEIGHT")]
    stop_at: Option<u64>,
    /// Delete nothing during the import; `txstore clean` does it later
    #[arg(long)]
    no_clean: bool,
    /// Raw blocks, framed blk files, or folders of them; each also as .zst
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Serialize)]
struct TxImportJson {
    blocks: u64,
    undone: u64,
    created: u64,
    spent: u64,
    spent_in_block: u64,
    absent_inputs: u64,
    losers: u64,
    deleted: u64,
    records: u64,
    tip: Option<PointJson>,
    interrupted: bool,
}

/// How far an import is.
struct Importing {
    interrupt: Interrupt,
    bar: ProgressBar,
}

impl Watch for Importing {
    fn is_stopping(&self) -> bool {
        self.interrupt.asked()
    }

    fn moved(&self, tip: Option<Point>, blocks: u64) {
        self.bar.inc(blocks);
        if let Some(tip) = tip {
            let height = text::grouped(u128::from(tip.height));
            self.bar.set_message(format!("blocks, height {height}"));
        }
    }
}

pub(super) fn run(
    config: &Config,
    args: &TxImportArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let section = config.room::<TxStoreSection>()?;
    let (url, settings) = (&section.database(config)?, section.settings());
    let network = network(url, settings, config.network_or(args.network))?;
    // The files are looked through before anything is made, and once: they don't grow meanwhile.
    let files = Folder::part(
        FolderConfig {
            paths: args.paths.clone(),
            network,
            unpack_in: config.data_dir.clone(),
            poll: Duration::from_secs(3600),
        },
        args.stop_at,
    );
    let mut source = files.open()?;
    source.intersect(&[])?;
    // Before the store is made: an import of nothing must leave nothing behind.
    let Some(last) = source.tip() else {
        return Err(CliError::input("these files hold no blocks").into());
    };
    if let Url::Sqlite(file) = url
        && let Some(folder) = file.parent()
    {
        std::fs::create_dir_all(folder)?;
    }
    let store = Arc::new(TxStore::open(url, network, settings, Options::default())?);
    let from = store.tip()?.map_or(0, |tip| tip.height + 1);
    // The store may be past the files' last block: then nothing is to come.
    let coming = (last.height + 1).saturating_sub(from);
    let bar = Show::suitable(output.is_json()).counter(coming.max(1), "blocks");
    let watch = Importing { interrupt: Interrupt::listen(), bar };
    let mut room = TxStoreFollower::new(store.clone());
    if !args.no_clean {
        room = room.cleaning();
    }
    let trip = Trip::new(&mut room, &mut *source, network, Follow::default(), &watch);
    let ended = trip.named(files.name()).run(End::Tip).map_err(explain)?;
    watch.bar.finish_and_clear();
    let is_stopped = ended == Ended::Asked;
    let shown = answer(&store, room.stored(), is_stopped)?;
    output.answer(&shown, || facts(&shown.rows()))?;
    Ok(if is_stopped { Outcome::Interrupted } else { Outcome::Done })
}

/// The network asked for, or that of the store that is there.
fn network(url: &Url, settings: Settings, asked: Option<Network>) -> anyhow::Result<Network> {
    if let Some(network) = asked {
        return match network.family() {
            Family::Bitcoin => Ok(network),
            Family::Cardano => Err(TxStoreError::NotBitcoin(network).into()),
        };
    }
    match TxStore::open_existing(url, settings, Options::default()) {
        Ok(store) => Ok(store.network()),
        Err(TxStoreError::Argument(_)) => {
            let error = CliError::usage("the store is new, so it needs a network");
            Err(error.hint("pass --network NAME, for example --network bitcoin").into())
        }
        Err(error) => Err(error.into()),
    }
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

fn answer(
    store: &TxStore,
    stored: StoredCounts,
    interrupted: bool,
) -> anyhow::Result<TxImportJson> {
    let status = store.status()?;
    Ok(TxImportJson {
        blocks: stored.blocks,
        undone: stored.undone,
        created: stored.created,
        spent: stored.spent,
        spent_in_block: stored.spent_in_block,
        absent_inputs: stored.absent,
        losers: stored.losers,
        deleted: stored.deleted,
        records: status.records,
        tip: status.tip.map(|tip| PointJson::new(store.network(), &tip)),
        interrupted,
    })
}

impl TxImportJson {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let number = |number: u64| text::grouped(u128::from(number));
        vec![
            ("blocks added", number(self.blocks)),
            ("blocks undone", number(self.undone)),
            ("new transactions", number(self.created)),
            ("outputs spent", number(self.spent)),
            ("of these, in the same block", number(self.spent_in_block)),
            ("inputs whose parent is not stored", number(self.absent_inputs)),
            ("deleted", number(self.deleted)),
            ("transactions now", number(self.records)),
            ("tip", self.tip.as_ref().map_or("origin".into(), text::point)),
        ]
    }
}
