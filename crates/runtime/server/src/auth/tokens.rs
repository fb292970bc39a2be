//! Named tokens in a file: name, scope and hash, never the token itself.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use clap::Args;
use serde::{Deserialize, Serialize};
use unspent_engine::tenant::TenantName;
use unspent_model::Micros;
use utoipa::ToSchema;

use super::{
    Hash, Scope, hash, same, secret,
    token_file::{is_old, keep_old, read, write},
};
use crate::{error::CliError, input::Seconds};

/// Tokens that a file may hold.
const MAX_TOKENS: usize = 1_000;
/// How often the file is looked at while the daemon runs.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What a token starts with, so that people and scanners recognise one.
const PREFIX: &str = "unspent_";

/// A token as it is kept.
// A field that isn't known may be what makes a token narrow, as an older or newer version calls it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// How people speak of it.
    pub(crate) name: String,
    /// What it lets its holder do.
    pub(crate) scope: Scope,
    #[serde(with = "hex::serde")]
    pub(super) sha256: Hash,
    /// Microseconds since 1970.
    pub(crate) created_at: i64,
    /// When it stops counting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<i64>,
    /// The only tenant that it may see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<TenantName>,
}

impl Token {
    /// Whether it still lets anybody in.
    pub(super) fn counts(&self, now: Micros) -> bool {
        self.expires_at.is_none_or(|end| now.0 < end)
    }
}

/// A token to make.
#[derive(Args, Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Name of the token
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$")]
    pub(super) name: String,
    /// What it may do
    #[arg(long, value_enum, default_value_t = Scope::Read)]
    #[serde(default = "reading")]
    pub(super) scope: Scope,
    /// How long it is valid, such as 30d or 12h; by default until it is revoked
    #[arg(long, value_name = "TIME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<Seconds>,
    /// The only wallet that it may see: the same as its name with the room `wallet`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["room", "tenant"])]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub(super) wallet: Option<String>,
    /// The room of the only tenant that it may see, such as ecash
    #[arg(long, value_name = "ROOM", requires = "tenant")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub(super) room: Option<String>,
    /// The only tenant that it may see, by its name in that room: a wallet, an account of ecash
    #[arg(long, value_name = "NAME", requires = "room")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub(super) tenant: Option<String>,
}

fn reading() -> Scope {
    Scope::Read
}

impl NewToken {
    /// Refuses what can't be.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        check_name(&self.name)?;
        let Some(tenant) = self.only_tenant()? else { return Ok(()) };
        if self.scope == Scope::Admin {
            let message = "a token that sees one tenant can't have the scope `admin`";
            return Err(CliError::usage(message).into());
        }
        let is_name = |name: &String| !name.is_empty() && !name.chars().any(char::is_control);
        if ![&tenant.room, &tenant.name].into_iter().all(is_name) {
            return Err(CliError::usage("this can't be the name of a tenant").into());
        }
        Ok(())
    }

    /// The only tenant that it is to see; a wallet has a short form.
    fn only_tenant(&self) -> anyhow::Result<Option<TenantName>> {
        match (&self.wallet, &self.room, &self.tenant) {
            (None, None, None) => Ok(None),
            (Some(wallet), None, None) => Ok(Some(TenantName::wallet(wallet))),
            (None, Some(room), Some(name)) => Ok(Some(TenantName::new(room, name))),
            _ => {
                let message = "a token sees one `wallet`, or one `tenant` of a `room`";
                Err(CliError::usage(message).into())
            }
        }
    }

    fn kept(&self, sha256: Hash, now: Micros) -> anyhow::Result<Token> {
        let lasts = self.expires.map(|Seconds(seconds)| i64::from(seconds) * 1_000_000);
        Ok(Token {
            name: self.name.clone(),
            scope: self.scope,
            sha256,
            created_at: now.0,
            expires_at: lasts.map(|lasts| now.0.saturating_add(lasts)),
            tenant: self.only_tenant()?,
        })
    }
}

/// The file and what was last read from it.
pub struct TokenFile {
    path: PathBuf,
    tokens: Vec<Token>,
    changed: Option<SystemTime>,
    looked: Instant,
}

impl TokenFile {
    /// Reads the file; one that isn't there holds no tokens.
    pub fn open(path: PathBuf) -> anyhow::Result<Self> {
        let changed = changed(&path);
        let tokens = read(&path)?;
        Ok(Self { path, tokens, changed, looked: Instant::now() })
    }

    /// Reads the file and brings one of an older version up to date; that stays beside it as it
    /// was.
    pub(super) fn open_migrated(path: PathBuf) -> anyhow::Result<Self> {
        let mut file = Self::open(path)?;
        if is_old(&file.path)?
            && let Err(error) = file.save()
        {
            // They count all the same: the file may be one that only an operator writes.
            tracing::warn!(%error, "the token file stays as an older version wrote it");
        }
        Ok(file)
    }

    /// Every token of the file.
    pub fn list(&self) -> &[Token] {
        &self.tokens
    }

    /// Reads the file again when it was changed, so that a revoked token ends at once. What can't
    /// be read lets nobody in.
    pub fn refresh(&mut self) {
        if self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        let now = changed(&self.path);
        if now == self.changed {
            return;
        }
        // What was seen before the reading: a change in between shows at the next look. What
        // couldn't be read is tried again then: `chmod` mends it and leaves the time as it is.
        let found = read(&self.path);
        self.changed = now.filter(|_| found.is_ok());
        self.tokens = found.unwrap_or_else(|error| {
            tracing::error!(%error, "can't read the tokens; none is valid until they can be read");
            Vec::new()
        });
    }

    /// Reads the file now, before it is changed: others may have written to it.
    pub(super) fn reload(&mut self) -> anyhow::Result<()> {
        (self.changed, self.looked) = (changed(&self.path), Instant::now());
        self.tokens = read(&self.path)?;
        Ok(())
    }

    /// The token with this hash, while it counts.
    pub(super) fn find(&self, presented: &Hash, now: Micros) -> Option<&Token> {
        // All are compared, so that the time says nothing about which.
        let mut found = None;
        for token in &self.tokens {
            if same(&token.sha256, presented) {
                found = Some(token);
            }
        }
        found.filter(|token| token.counts(now))
    }

    /// Whether anybody could be let in.
    pub fn has_any(&self, now: Micros) -> bool {
        self.tokens.iter().any(|token| token.counts(now))
    }

    /// Makes a token and returns it: the only time that anybody sees it.
    pub(super) fn add(&mut self, new: &NewToken, now: Micros) -> anyhow::Result<(String, Token)> {
        new.check()?;
        self.reload()?;
        let name = &new.name;
        if self.tokens.iter().any(|token| token.name == *name) {
            let message = format!("a token called `{name}` already exists; nothing was changed");
            return Err(CliError::refused(message).into());
        }
        if self.tokens.len() >= MAX_TOKENS {
            return Err(CliError::refused("there are already 1,000 tokens").into());
        }
        let secret = format!("{PREFIX}{}", secret()?);
        let kept = new.kept(hash(&secret), now)?;
        self.tokens.push(kept.clone());
        self.save()?;
        Ok((secret, kept))
    }

    pub(super) fn revoke(&mut self, name: &str) -> anyhow::Result<()> {
        self.reload()?;
        let before = self.tokens.len();
        self.tokens.retain(|token| token.name != name);
        if self.tokens.len() == before {
            return Err(CliError::refused(format!("no token is called `{name}`")).into());
        }
        self.save()
    }

    /// Writes what is known; what can't be written is forgotten again.
    fn save(&mut self) -> anyhow::Result<()> {
        // A program of the version before can't read the new form, so its own stays beside it.
        let written = keep_old(&self.path).and_then(|()| write(&self.path, &self.tokens));
        let read = self.reload();
        written.and(read)
    }
}

fn check_name(name: &str) -> anyhow::Result<()> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // Senders without a token are called so: a log that names one must not mean another.
    let reserved = ["cookie", "dashboard"].contains(&name);
    if (1..=64).contains(&name.len()) && name.chars().all(fine) && !reserved {
        return Ok(());
    }
    let message = format!("`{}` can't be a token's name", name.escape_debug());
    Err(CliError::usage(message).hint("1 to 64 of a-z, 0-9, -, _ and .").into())
}

fn changed(path: &PathBuf) -> Option<SystemTime> {
    fs::metadata(path).and_then(|found| found.modified()).ok()
}
