//! `unspent token add`, `list` and `revoke`: through the daemon that has the data folder, or in the
//! file itself.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use unspent_engine::clock;

use super::{
    TokenFile,
    routes::{MadeTokenJson, TokensJson},
    tokens::NewToken,
};
use crate::{
    api::search::percent,
    config::{AuthSection, Config, GivenFlag, Origin, SettingFlags},
    error::Outcome,
    output::{Output, table},
    reached::Reached,
};

/// `unspent token`
#[derive(Args)]
pub struct TokenArgs {
    #[command(flatten)]
    settings: SettingFlags<AuthSection>,
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Create a token and show it, once only
    Add(NewToken),
    /// List names and scopes of all tokens
    List,
    /// Revoke a token; its sessions and streams end with it
    Revoke {
        /// Its name
        name: String,
    },
}

enum TokenPlace {
    /// A daemon has them.
    Daemon(Reached),
    File(PathBuf),
}

impl TokenPlace {
    /// A file that somebody names for this command is used past any daemon. Else a daemon is asked
    /// where there is one, unless it speaks TLS, whose certificate need not name this machine: it
    /// looks at its file every second.
    fn find(config: &Config) -> Self {
        if let Origin::Flag(_) | Origin::Variable(_) = config.origin("auth.tokens_file") {
            return Self::File(config.tokens_file());
        }
        match Reached::found(&config.data_dir) {
            Some(daemon) if daemon.speaks_tls() => Self::File(daemon.tokens_file()),
            Some(daemon) => Self::Daemon(daemon),
            None => Self::File(config.tokens_file()),
        }
    }

    fn add(&self, new: &NewToken) -> anyhow::Result<Value> {
        new.check()?;
        match self {
            Self::Daemon(daemon) => daemon.post("/api/v1/tokens", new),
            Self::File(path) => {
                let mut file = TokenFile::open(path.clone())?;
                Ok(serde_json::to_value(MadeTokenJson::make(&mut file, new, clock::now())?)?)
            }
        }
    }

    fn list(&self) -> anyhow::Result<Value> {
        match self {
            Self::Daemon(daemon) => daemon.get("/api/v1/tokens"),
            Self::File(path) => {
                let file = TokenFile::open(path.clone())?;
                Ok(serde_json::to_value(TokensJson::of(&file, clock::now()))?)
            }
        }
    }

    fn revoke(&self, name: &str) -> anyhow::Result<()> {
        match self {
            Self::Daemon(daemon) => daemon.delete(&format!("/api/v1/tokens/{}", percent(name))),
            Self::File(path) => TokenFile::open(path.clone())?.revoke(name),
        }
    }
}

impl TokenArgs {
    /// The settings among them.
    pub fn given(&self) -> Vec<GivenFlag> {
        self.settings.given()
    }
}

/// Adds, lists or revokes tokens.
pub fn run(config: &Config, args: &TokenArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let place = TokenPlace::find(config);
    match &args.command {
        TokenCommand::Add(new) => {
            let made = place.add(new)?;
            output.answer(&made, || {
                let token = made.get("token").and_then(Value::as_str).unwrap_or_default();
                format!("{token}\nStore it now: it is not shown again. Its scope: {}.", new.scope)
            })?;
        }
        TokenCommand::List => {
            let listed = place.list()?;
            let tokens =
                listed.get("tokens").and_then(Value::as_array).cloned().unwrap_or_default();
            output.answer(&tokens, || {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let rows = tokens.iter().map(|token| {
                    let until = if token["expired"] == true { "expired" } else { "" };
                    let until =
                        if until.is_empty() { text(&token["expires_at"]) } else { until.into() };
                    let room = text(&token["room"]);
                    let sees = if room.is_empty() { room } else { room + "/" };
                    let sees = sees + &text(&token["tenant"]);
                    [text(&token["name"]), text(&token["scope"]), sees, until]
                });
                table(["token", "may", "sees", "until"], rows).to_string()
            })?;
        }
        TokenCommand::Revoke { name } => {
            place.revoke(name)?;
            output.answer(&json!({ "revoked": name }), || format!("{name} is revoked"))?;
        }
    }
    Ok(Outcome::Done)
}
