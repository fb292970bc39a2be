//! `wallet import-btcwallet`: a `wallet.db` of btcwallet or lnd, taken in offline.
//!
//! There is no route for it: the file lies on the machine of whoever moves, holds sealed private
//! keys, and the program it belongs to must not run meanwhile.

use std::{fs, io::Read as _, path::PathBuf};

use anyhow::Context as _;
use clap::Args;
use unspent_btcwallet::{ReadError, WalletFile, passphrase::DEFAULTS};
use unspent_engine::clock;
use unspent_model::Network;
use unspent_server::{
    error::{CliError, Outcome},
    output::{Output, facts, table},
};
use unspent_sql::{Options, Url};
use unspent_wallet::{
    WalletStore,
    import::{
        btcwallet::{self, ImportTerms},
        report::{ImportReport, TakenCount},
    },
    wallet_info::DEFAULT_GAP_LIMIT,
};

use super::input;

/// The largest file taken in: it is read into memory.
const MAX_FILE: u64 = 4 << 30;

const EXAMPLE: &str = "The file is only read. First stop the program that uses it, or take a copy:
  unspent wallet import-btcwallet ~/.lnd/data/chain/bitcoin/mainnet/wallet.db --name lnd --dry-run

Importing the same file again changes nothing. Exit code 3 means that the balances differ by
something the report can't explain.";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ImportBtcwallet {
    /// The file `wallet.db`
    file: PathBuf,
    /// Name for the wallet
    #[arg(long, value_name = "WALLET")]
    name: String,
    /// Passphrase that the public keys are sealed with; btcwallet's and lnd's defaults are tried
    /// anyway
    #[arg(long, env = "UNSPENT_PUBLIC_PASSPHRASE", hide_env_values = true)]
    public_passphrase: Option<String>,
    /// Network, if the file doesn't state it: bitcoin, testnet4, signet or regtest
    #[arg(long, value_parser = input::network)]
    network: Option<Network>,
    /// Addresses to watch beyond the last used one (gap limit)
    #[arg(long, default_value_t = DEFAULT_GAP_LIMIT)]
    gap_limit: u32,
    /// Show what would be imported, and write nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

pub(super) fn run(
    url: &Url,
    args: &ImportBtcwallet,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let bytes = read(args)?;
    let file = WalletFile::read(&bytes).map_err(unreadable)?;
    let given = args.public_passphrase.as_deref();
    // A passphrase that was given is tried alone: each try costs about a second, on purpose.
    let public = given.map_or_else(|| file.keys.open(DEFAULTS), |given| file.keys.open(&[given]));
    let public = public.map_err(unreadable)?;
    let network = network(args, &file)?;
    let now = clock::now();
    let terms = ImportTerms { name: args.name.clone(), gap_limit: args.gap_limit, now };
    // After the file was understood: a bad one leaves no empty database behind.
    let opened = open(url, network, args.dry_run)?;
    let room = &opened.room;
    let prepared = btcwallet::prepare(&file, &public, room.bitcoin_network(), &terms)?;
    let done = room.import(prepared.import.clone(), args.dry_run, now)?;
    let report = ImportReport::new(&file, &prepared, &done, args.dry_run, now);
    output.answer(&report, || shown(&report))?;
    Ok(if report.is_sound() { Outcome::Done } else { Outcome::Differences })
}

fn read(args: &ImportBtcwallet) -> anyhow::Result<Vec<u8>> {
    let shown = args.file.display();
    let file = fs::File::open(&args.file).with_context(|| format!("can't read {shown}"))?;
    let mut bytes = Vec::new();
    // Measured by reading: a pipe tells no length, and a file that is in use grows.
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("can't read {shown}"))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(CliError::input(format!("{shown} is larger than 4 GiB")).into());
    }
    Ok(bytes)
}

fn unreadable(error: ReadError) -> anyhow::Error {
    CliError::input(error.to_string()).into()
}

fn network(args: &ImportBtcwallet, file: &WalletFile<'_>) -> anyhow::Result<Network> {
    let told = btcwallet::network(&file.keys);
    match (told, args.network) {
        (Some(told), Some(asked)) if told != asked => {
            Err(CliError::input(format!("the file is for {told}, not {asked}")).into())
        }
        (Some(known), _) | (None, Some(known)) => Ok(known),
        (None, None) => {
            let message = "the file does not state its network; pass --network";
            Err(CliError::usage(message).into())
        }
    }
}

/// A room, and the folder that it lives in where it is only for a dry run.
pub(super) struct OpenRoom {
    pub(super) room: WalletStore,
    pub(super) folder: Option<tempfile::TempDir>,
}

/// Opens the database, or makes it; a dry run makes no file.
pub(super) fn open(url: &Url, network: Network, dry_run: bool) -> anyhow::Result<OpenRoom> {
    if let Url::Sqlite(path) = url {
        if dry_run && !path.exists() {
            let folder = tempfile::tempdir()?;
            let url = Url::Sqlite(folder.path().join("wallet.db"));
            let room = WalletStore::open(&url, network, Options::default())?;
            return Ok(OpenRoom { room, folder: Some(folder) });
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
    }
    Ok(OpenRoom { room: WalletStore::open(url, network, Options::default())?, folder: None })
}

fn taken(taken: TakenCount) -> String {
    let TakenCount { there, now } = taken;
    if there == now { there.to_string() } else { format!("{there}, {now} of them now") }
}

fn shown(report: &ImportReport) -> String {
    let title = match (report.dry_run, report.unchanged) {
        (true, _) => "a dry run: nothing was written",
        (false, true) => "everything was already here; nothing was changed",
        (false, false) => "imported",
    };
    let top = facts(&[
        ("wallet", report.wallet.clone()),
        ("scanned to", report.tip.map_or_else(|| "-".into(), |tip| tip.to_string())),
        ("accounts", taken(report.accounts)),
        ("addresses", report.addresses.to_string()),
        ("single scripts", report.scripts.to_string()),
        ("transactions", format!("{} ({} unmined)", taken(report.transactions), report.unmined)),
        ("coins, spent ones too", taken(report.coins)),
        ("labels", taken(report.labels)),
        ("leases", taken(report.leases)),
    ]);
    let mut parts = vec![title.to_owned(), top];
    if !report.left.is_empty() {
        let rows = report.left.iter();
        let rows = rows.map(|left| [left.what.clone(), left.count.to_string(), left.why.clone()]);
        parts.push(table(["left", "how many", "why"], rows).to_string());
    }
    let rows = report.balances.iter().map(|pair| {
        let same = if pair.source == pair.here { "equal" } else { "explained below" };
        let same = if pair.explained { same } else { "NOT EXPLAINED" };
        let values = [pair.minconf.into(), pair.source, pair.here].map(|n: u64| n.to_string());
        let [minconf, source, here] = values;
        [minconf, source, here, same.to_owned()]
    });
    parts.push(table(["minconf", "source, sat", "here, sat", ""], rows).to_string());
    if !report.differences.is_empty() {
        let rows = report.differences.iter().map(|found| {
            let value = found.value.to_string();
            let (source, here) = (found.source.to_owned(), found.here.to_owned());
            [found.outpoint.clone(), value, source, here, found.why.to_owned()]
        });
        parts.push(table(["coin", "sat", "source", "here", "why"], rows).to_string());
    }
    parts.join("\n")
}
