//! How tokens lie on the disk.
//!
//! Version 1 named a wallet where a token saw one alone; it bore no number. What it called `tokens`
//! has another name since: a program that knows no tenants would let whoever holds a narrow token
//! see everything, so it must not find any.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use unspent_engine::tenant::TenantName;

use super::{Hash, Scope, cookie::private_file, tokens::Token};
use crate::error::CliError;

/// The largest file taken in.
const MAX_FILE: u64 = 1 << 20;
/// What this program writes.
const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenDocument {
    version: u32,
    credentials: Vec<Token>,
}

/// As version 1 wrote it.
#[derive(Deserialize)]
struct OldDocument {
    tokens: Vec<OldToken>,
}

// What a token sees must not be lost to a wrong name: it would see everything.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OldToken {
    name: String,
    scope: Scope,
    #[serde(with = "hex::serde")]
    sha256: Hash,
    created_at: i64,
    expires_at: Option<i64>,
    wallet: Option<String>,
}

impl From<OldToken> for Token {
    fn from(old: OldToken) -> Self {
        Self {
            name: old.name,
            scope: old.scope,
            sha256: old.sha256,
            created_at: old.created_at,
            expires_at: old.expires_at,
            tenant: old.wallet.as_deref().map(TenantName::wallet),
        }
    }
}

/// The number alone, which any version can read.
#[derive(Deserialize)]
struct Versioned {
    version: Option<u32>,
}

/// Writes the tokens as this version has them.
pub(super) fn write(path: &Path, tokens: &[Token]) -> anyhow::Result<()> {
    let document = TokenDocument { version: VERSION, credentials: tokens.to_vec() };
    private_file(path, &serde_json::to_vec_pretty(&document)?)
}

/// The tokens of a file of this version or an older one; none where it isn't there.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Token>> {
    let Some(text) = bytes(path)? else { return Ok(Vec::new()) };
    let shown = path.display();
    let damaged = |_| {
        CliError::input(format!("{shown} is not a token file; remove it and add the tokens again"))
    };
    match version(path, &text)? {
        1 => {
            let old: OldDocument = serde_json::from_slice(&text).map_err(damaged)?;
            Ok(old.tokens.into_iter().map(Token::from).collect())
        }
        VERSION => {
            let document: TokenDocument = serde_json::from_slice(&text).map_err(damaged)?;
            Ok(document.credentials)
        }
        newer => {
            let message = format!(
                "{shown} has version {newer}, but this program knows only {VERSION}; use the \
                 newer program; nothing was changed"
            );
            Err(CliError::refused(message).into())
        }
    }
}

/// Whether a file of an older version is there.
pub(super) fn is_old(path: &Path) -> anyhow::Result<bool> {
    bytes(path)?.map_or(Ok(false), |text| Ok(version(path, &text)? < VERSION))
}

/// Copies a file of an older version to `tokens.json.v1` before it is written over: the program
/// that wrote it reads no other.
pub(super) fn keep_old(path: &Path) -> anyhow::Result<()> {
    let Some(text) = bytes(path)? else { return Ok(()) };
    let version = version(path, &text)?;
    if version >= VERSION {
        return Ok(());
    }
    let mut kept = OsString::from(path);
    kept.push(format!(".v{version}"));
    let kept = PathBuf::from(kept);
    private_file(&kept, &text)?;
    tracing::info!(from = version, to = VERSION, copy = %kept.display(), "kept before migrating");
    Ok(())
}

fn version(path: &Path, text: &[u8]) -> anyhow::Result<u32> {
    let damaged = |_| {
        CliError::input(format!(
            "{} is not a token file; remove it and add the tokens again",
            path.display()
        ))
    };
    let found: Versioned = serde_json::from_slice(text).map_err(damaged)?;
    Ok(found.version.unwrap_or(1))
}

fn bytes(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let shown = path.display();
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("can't read {shown}")),
    };
    // Asked before it is read: a wrong path in the settings must not fill the memory.
    if found.len() > MAX_FILE {
        return Err(CliError::input(format!("{shown} is larger than 1 MiB")).into());
    }
    private(path, &found)?;
    Ok(Some(fs::read(path).with_context(|| format!("can't read {shown}"))?))
}

/// Others may neither read nor write the file.
#[cfg(unix)]
fn private(path: &Path, found: &fs::Metadata) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    // Whoever can write here can add a hash of his own and is let in.
    if found.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    let message = format!("others can read or write {}", path.display());
    Err(CliError::refused(message).hint("chmod 600 it").into())
}

#[cfg(not(unix))]
fn private(_: &Path, _: &fs::Metadata) -> anyhow::Result<()> {
    Ok(())
}
