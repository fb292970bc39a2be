//! `unspent token add`, `list` and `revoke`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use unspent_engine::clock;

use super::{Scope, TokenFile};
use crate::{
    cli::Cli,
    error::Outcome,
    json::Time,
    output::{Output, table},
};

#[derive(Args)]
pub(crate) struct TokenArgs {
    /// The file of tokens; `tokens.json` in the data folder by default
    #[arg(long, global = true, env = "UNSPENT_AUTH__TOKENS_FILE", value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Make a token and show it, this once
    Add {
        /// What to call it
        name: String,
        /// What it may do
        #[arg(long, value_enum, default_value_t = Scope::Read)]
        scope: Scope,
    },
    /// Names and scopes of all tokens
    List,
    /// Take a token away; a running daemon notices within a second
    Revoke {
        /// Its name
        name: String,
    },
}

pub(crate) fn run(cli: &Cli, args: &TokenArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let path = args.file.clone().unwrap_or_else(|| cli.data_dir().join("tokens.json"));
    let mut file = TokenFile::open(path)?;
    match &args.command {
        TokenCommand::Add { name, scope } => {
            let token = file.add(name, *scope, clock::now())?;
            let shown = json!({ "name": name, "scope": scope, "token": token });
            output.answer(&shown, || {
                format!("{token}\nKeep it: it can't be shown again. It may: {scope}.")
            })?;
        }
        TokenCommand::List => {
            let tokens = file.list().iter();
            let listed = tokens.clone().map(|token| {
                let created_at = Time(token.created_at);
                json!({ "name": token.name, "scope": token.scope, "created_at": created_at })
            });
            output.answer(&listed.collect::<Vec<_>>(), || {
                let rows = tokens.map(|token| [token.name.clone(), token.scope.to_string()]);
                table(["token", "may"], rows).to_string()
            })?;
        }
        TokenCommand::Revoke { name } => {
            file.revoke(name)?;
            output.answer(&json!({ "revoked": name }), || format!("{name} is revoked"))?;
        }
    }
    Ok(Outcome::Done)
}
