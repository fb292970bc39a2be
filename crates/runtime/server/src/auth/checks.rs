//! Everything that can tell who is asking, together.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use unspent_engine::clock;

use super::{
    attempts::Attempts, cookie, identity::Identity, sessions::Sessions, tokens::TokenFile,
};
use crate::random;

/// The hash under which a secret is known.
pub(super) type Hash = [u8; 32];

pub(super) fn hash(secret: &str) -> Hash {
    // A quick hash will do: what is hashed is 32 random bytes and no password that could be
    // guessed.
    Sha256::digest(secret.as_bytes()).into()
}

pub(super) fn same(a: &Hash, b: &Hash) -> bool {
    a.ct_eq(b).into()
}

/// 32 random bytes as hex.
pub(super) fn secret() -> anyhow::Result<String> {
    Ok(hex::encode(random::bytes()?))
}

/// How long sessions last.
#[derive(Clone, Copy, Debug)]
pub struct SessionTimes {
    /// How long any session may read.
    pub session: Duration,
    /// How long after a login for it a session may run the daemon.
    pub admin: Duration,
}

/// Everything that can tell who is asking.
pub struct Auth {
    cookie: Hash,
    cookie_file: PathBuf,
    pub(super) tokens: Mutex<TokenFile>,
    sessions: Mutex<Sessions>,
    /// How long a session that was opened for it may run the daemon.
    admin: Duration,
    /// Wrong credentials, by address.
    pub(crate) attempts: Attempts,
}

impl Auth {
    /// Makes a new cookie file and reads the tokens.
    pub fn start(
        cookie_file: PathBuf,
        tokens_file: PathBuf,
        times: SessionTimes,
        failures_per_minute: u32,
    ) -> anyhow::Result<Self> {
        let cookie = cookie::write(&cookie_file)?;
        Ok(Self {
            cookie: hash(&cookie),
            cookie_file,
            tokens: Mutex::new(TokenFile::open_migrated(tokens_file)?),
            sessions: Mutex::new(Sessions::new(times.session)),
            admin: times.admin,
            attempts: Attempts::new(failures_per_minute),
        })
    }

    /// The tokens as the file has them now; `None` after a panic, which lets nobody in.
    fn tokens(&self) -> Option<MutexGuard<'_, TokenFile>> {
        let mut tokens = self.tokens.lock().ok()?;
        tokens.refresh();
        Some(tokens)
    }

    /// Who sent this token, if anybody we know.
    pub fn by_token(&self, presented: &str) -> Option<Identity> {
        let presented = hash(presented);
        if same(&presented, &self.cookie) {
            return Some(Identity::cookie(presented));
        }
        let tokens = self.tokens()?;
        let found = tokens.find(&presented, clock::now())?;
        Some(Identity::token(found, presented))
    }

    /// Who has this session.
    pub fn by_session(&self, presented: &str) -> Option<Identity> {
        let session = self.sessions.lock().ok()?.find(&hash(presented))?;
        self.still(session).map(|session| session.at(Instant::now()))
    }

    /// The session as its token lets it be now.
    fn still(&self, session: Identity) -> Option<Identity> {
        // Sessions of the cookie file and of guests hang on nothing that could be revoked.
        let Some(token) = session.token else { return Some(session) };
        let tokens = self.tokens()?;
        let found = tokens.find(&token, clock::now())?;
        // A token that was made anew with less must not leave more to the sessions of the old one.
        let (scope, tenant) = (session.scope.min(found.scope), found.tenant.clone());
        Some(Identity { scope, tenant, ..session })
    }

    /// Whether a sender that was known is known still: its token is neither revoked nor expired,
    /// its session not ended.
    pub fn is_live(&self, identity: &Identity) -> bool {
        let session = || self.sessions.lock().ok()?.find(&identity.client.0);
        let still = || self.still(identity.clone());
        (!identity.by_session || session().is_some())
            && still().is_some_and(|now| now.tenant == identity.tenant)
    }

    /// A new session; never more than `wallet`, whatever the token may do.
    pub fn open_session(&self, identity: &Identity) -> anyhow::Result<String> {
        self.open(identity, None)
    }

    /// A new session that may do all that the token may, for a short time; then as any other.
    pub fn open_admin_session(&self, identity: &Identity) -> anyhow::Result<String> {
        self.open(identity, Instant::now().checked_add(self.admin))
    }

    fn open(&self, identity: &Identity, admin_until: Option<Instant>) -> anyhow::Result<String> {
        let secret = secret()?;
        if let Ok(mut sessions) = self.sessions.lock() {
            sessions.put(identity.session(hash(&secret), admin_until));
        }
        Ok(secret)
    }

    /// A session for a browser that showed nothing: it may read.
    pub fn open_guest(&self) -> anyhow::Result<String> {
        self.open_session(&Identity::guest())
    }

    /// Ends a session.
    pub fn close_session(&self, presented: &str) {
        if let Ok(mut sessions) = self.sessions.lock() {
            sessions.remove(&hash(presented));
        }
    }

    /// Takes the cookie file away again.
    pub fn end(&self) {
        // It is of no use to anybody from now on.
        let _ = std::fs::remove_file(&self.cookie_file);
    }
}
