//! The commands of the chain room.

pub(crate) mod json;
mod parse;
mod query;
pub(crate) mod status;
pub(crate) mod text;
mod upkeep;

use unspent_chain::Reader;

use crate::{
    cli::{ChainArgs, ChainCommand, Cli, ImportArgs},
    fault::{Outcome, complain},
    import::{self, Request, Show},
    interrupt::Interrupt,
    output::Output,
    serve::held,
};

/// Memory for cached blocks while one question is answered.
const QUERY_CACHE: usize = 32 << 20;

/// Runs one command.
pub(crate) fn run(cli: &Cli, args: &ChainArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let writes = matches!(
        args.command,
        ChainCommand::Import(_) | ChainCommand::Rollback(_) | ChainCommand::Prune(_)
    );
    let _writing = if writes { Some(held::writing(&cli.data_dir())?) } else { None };
    match &args.command {
        ChainCommand::Import(args) => import(cli, args, output),
        ChainCommand::Status => status::run(&reader(cli)?, output),
        ChainCommand::Utxos(args) => query::utxos(&reader(cli)?, args, output),
        ChainCommand::Utxo(args) => query::utxo(&reader(cli)?, args, output),
        ChainCommand::Balance(args) => query::balance(&reader(cli)?, args, output),
        ChainCommand::Delta(args) => query::delta(&reader(cli)?, args, output),
        ChainCommand::Rollback(args) => upkeep::rollback(cli, args, output),
        ChainCommand::Prune(options) => upkeep::prune(cli, options, output),
        ChainCommand::Verify => upkeep::verify(&reader(cli)?, output),
        ChainCommand::Digest => query::digest(&reader(cli)?, output),
    }
}

/// Questions open the folder beside a writer, if there is one.
fn reader(cli: &Cli) -> anyhow::Result<Reader> {
    Ok(Reader::open(&cli.chain_folder(), QUERY_CACHE)?)
}

fn import(cli: &Cli, args: &ImportArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let request = Request {
        data_dir: &cli.data_dir(),
        network: args.network,
        genesis: &args.genesis,
        stop_at: args.stop_at,
        allow_holes: args.allow_holes,
        no_bulk: args.no_bulk,
        options: &args.options,
        paths: &args.paths,
    };
    let show = Show::suitable(output.is_json());
    let summary = import::run(&request, show, &Interrupt::listen())?;
    output.answer(&summary, || summary.text())?;
    summary.warnings().iter().for_each(|warning| complain("warning", warning));
    Ok(if summary.interrupted { Outcome::Interrupted } else { Outcome::Done })
}
