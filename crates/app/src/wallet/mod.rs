//! The commands of the wallet room.
//!
//! | module | commands |
//! |---|---|
//! | `args` | the arguments and their help |
//! | `manage` | create, list, show, address, addresses, label, labels |
//! | `see` | balance, coins, coin, txs, tx, journal |
//! | `hold` | lease, release, leases, select |
//! | `spend` | pay, finalize, bump, record, invalidate |
//! | `follow` | scan, rewind |
//! | `keep` | prune, audit |
//! | `json` | what the answers look like, here and over REST |
//!
//! Deliberately absent: rules of wallets. They live in `unspent-model` and `unspent-wallet`.

mod args;
mod follow;
pub(crate) mod hold;
pub(crate) mod json;
mod keep;
pub(crate) mod manage;
mod read;
mod see;
pub(crate) mod spend;

use std::{
    fs::File,
    io::Read as _,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use unspent_model::wallet::LockId;
use unspent_sql::{Options, Url};
use unspent_wallet::{Room, WalletId};

pub(crate) use args::WalletArgs;

use self::args::WalletCommand;
use crate::{
    cli::Cli,
    fault::{Fault, Outcome},
    output::Output,
    serve::held,
};

/// Runs one command.
pub(crate) fn run(
    cli: &Cli,
    args: &WalletArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let _writing = if args.command.writes() { Some(held::writing(&cli.data_dir())?) } else { None };
    let url = url(cli, args)?;
    if let WalletCommand::Create(create) = &args.command {
        return manage::create(cli, &url, create, output);
    }
    let room = Room::open_existing(&url, Options::default())?;
    let desk = Desk { room, now: now()? };
    match &args.command {
        WalletCommand::Create(_) => Ok(Outcome::Done),
        WalletCommand::List => manage::list(&desk, output),
        WalletCommand::Show(args) => manage::show(&desk, args, output),
        WalletCommand::Address(args) => manage::address(&desk, args, output),
        WalletCommand::Addresses(args) => manage::addresses(&desk, args, output),
        WalletCommand::Label(args) => manage::label(&desk, args, output),
        WalletCommand::Labels(args) => manage::labels(&desk, args, output),
        WalletCommand::Balance(args) => see::balance(&desk, args, output),
        WalletCommand::Coins(args) => see::coins(&desk, args, output),
        WalletCommand::Coin(args) => see::coin(&desk, args, output),
        WalletCommand::Txs(args) => see::txs(&desk, args, output),
        WalletCommand::Tx(args) => see::tx(&desk, args, output),
        WalletCommand::Journal(args) => see::journal(&desk, args, output),
        WalletCommand::Lease(args) => hold::lease(&desk, args, output),
        WalletCommand::Release(args) => hold::release(&desk, args, output),
        WalletCommand::Leases(args) => hold::leases(&desk, args, output),
        WalletCommand::Select(args) => hold::select(&desk, args, output),
        WalletCommand::Pay(args) => spend::pay(&desk, args, output),
        WalletCommand::Finalize(args) => spend::finalize(&desk, args, output),
        WalletCommand::Bump(args) => spend::bump(&desk, args, output),
        WalletCommand::Record(args) => spend::record(&desk, args, output),
        WalletCommand::Invalidate(args) => spend::invalidate(&desk, args, output),
        WalletCommand::Scan(args) => follow::scan(cli, &desk, args, output),
        WalletCommand::Rewind(args) => follow::rewind(&desk, args, output),
        WalletCommand::Prune(args) => keep::prune(&desk, args, output),
        WalletCommand::Audit(args) => keep::audit(&desk, args, output),
    }
}

/// An open room and the time at which the command runs.
struct Desk {
    room: Room,
    now: i64,
}

impl Desk {
    fn wallet(&self, name: &str) -> anyhow::Result<WalletId> {
        Ok(self.room.wallet(name)?)
    }
}

fn url(cli: &Cli, args: &WalletArgs) -> anyhow::Result<Url> {
    match &args.db {
        Some(text) => text.parse().map_err(|error| Fault::usage(format!("{error}")).into()),
        None => Ok(Url::Sqlite(cli.data_dir().join("wallet.db"))),
    }
}

pub(crate) fn now() -> anyhow::Result<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    i64::try_from(since.as_micros()).context("the clock is too far ahead")
}

pub(crate) fn random() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    let mut source = File::open("/dev/urandom").context("no source of randomness")?;
    source.read_exact(&mut bytes).context("no source of randomness")?;
    Ok(bytes)
}

/// The lock id asked for, or a new one.
fn lock_or_new(asked: Option<LockId>) -> anyhow::Result<LockId> {
    match asked {
        Some(lock) => Ok(lock),
        None => LockId::new(&random()?).context("no randomness"),
    }
}
