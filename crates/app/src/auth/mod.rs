//! Who may do what: the cookie file, named tokens, sessions of the dashboard.
//!
//! | module | keeps |
//! |---|---|
//! | `scope` | the three scopes, one containing the other |
//! | `cookie` | 32 random bytes in a file, new at each start, for local use |
//! | `tokens` | named tokens, stored as hashes |
//! | `sessions` | what a browser gets for a login; in memory alone |
//! | `attempts` | how many wrong credentials one address may send |
//! | `command` | `unspent token add`, `list`, `revoke` |
//!
//! Invariant: a secret is compared by its SHA-256 and in constant time; none is ever logged or
//! shown, except once to whoever made it.

mod attempts;
mod command;
mod cookie;
mod scope;
mod sessions;
#[cfg(test)]
mod tests;
mod tokens;

use std::{path::PathBuf, sync::Mutex, time::Duration};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use self::sessions::Sessions;
pub(crate) use self::{
    attempts::{Attempts, DELAY},
    command::{TokenArgs, run},
    cookie::private_file,
    scope::Scope,
    sessions::Session,
    tokens::TokenFile,
};
use crate::random;

/// A request's sender, once known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Name of the token, `cookie` or `dashboard`.
    pub(crate) name: String,
    pub(crate) scope: Scope,
    /// Whether it came as a session cookie, which browsers send by themselves.
    pub(crate) by_session: bool,
}

/// The hash under which a secret is known.
type Hash = [u8; 32];

fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

fn same(a: &Hash, b: &Hash) -> bool {
    a.ct_eq(b).into()
}

/// 32 random bytes as hex.
fn secret() -> anyhow::Result<String> {
    Ok(hex::encode(random::bytes()?))
}

/// Everything that can tell who is asking.
pub(crate) struct Auth {
    cookie: Hash,
    cookie_file: PathBuf,
    tokens: Mutex<TokenFile>,
    sessions: Mutex<Sessions>,
    pub(crate) attempts: Attempts,
}

impl Auth {
    /// Makes a new cookie file and reads the tokens.
    pub(crate) fn start(
        cookie_file: PathBuf,
        tokens_file: PathBuf,
        session: Duration,
        failures_per_minute: u32,
    ) -> anyhow::Result<Self> {
        let cookie = cookie::write(&cookie_file)?;
        Ok(Self {
            cookie: hash(&cookie),
            cookie_file,
            tokens: Mutex::new(TokenFile::open(tokens_file)?),
            sessions: Mutex::new(Sessions::new(session)),
            attempts: Attempts::new(failures_per_minute),
        })
    }

    /// Who sent this token, if anybody we know.
    pub(crate) fn by_token(&self, presented: &str) -> Option<Identity> {
        let presented = hash(presented);
        if same(&presented, &self.cookie) {
            let name = "cookie".to_owned();
            return Some(Identity { name, scope: Scope::Admin, by_session: false });
        }
        let mut tokens = self.tokens.lock().ok()?;
        tokens.refresh();
        let found = tokens.find(&presented)?;
        Some(Identity { name: found.name.clone(), scope: found.scope, by_session: false })
    }

    /// Who has this session.
    pub(crate) fn by_session(&self, presented: &str) -> Option<Identity> {
        let session = self.sessions.lock().ok()?.find(&hash(presented))?;
        // A session made from a token ends with the token.
        if !session.is_guest && session.name != "cookie" {
            let mut tokens = self.tokens.lock().ok()?;
            tokens.refresh();
            tokens.list().iter().find(|token| token.name == session.name)?;
        }
        Some(Identity { name: session.name, scope: session.scope, by_session: true })
    }

    /// A new session; never more than `wallet`, whatever the token may do.
    pub(crate) fn open_session(&self, session: Session) -> anyhow::Result<String> {
        let secret = secret()?;
        let session = Session { scope: session.scope.min(Scope::Wallet), ..session };
        if let Ok(mut sessions) = self.sessions.lock() {
            sessions.put(hash(&secret), session);
        }
        Ok(secret)
    }

    pub(crate) fn close_session(&self, presented: &str) {
        if let Ok(mut sessions) = self.sessions.lock() {
            sessions.remove(&hash(presented));
        }
    }

    /// Takes the cookie file away again.
    pub(crate) fn end(&self) {
        // It is of no use to anybody from now on.
        let _ = std::fs::remove_file(&self.cookie_file);
    }
}
