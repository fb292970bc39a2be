//! Who a sender is, once known, and what that lets it see.

use std::time::Instant;

use unspent_engine::tenant::TenantName;

use super::{Hash, Scope, tokens::Token};

/// Whoever has the data folder: the cookie file, which is new at each start, stands for him, and so
/// do the sessions that were opened with it.
pub const OWNER: &str = "owner";

/// A client, as limits count them: whoever presents the same credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey(pub(super) Hash);

/// A request's sender, once known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the token, `cookie` or `dashboard`.
    pub(crate) name: String,
    /// What it may do.
    pub(crate) scope: Scope,
    /// The only tenant that it may see; `None` for all.
    pub tenant: Option<TenantName>,
    /// Whether it came as a session cookie, which browsers send by themselves.
    pub(crate) by_session: bool,
    /// Nobody logged in: the dashboard on loopback, which may read.
    pub(crate) is_guest: bool,
    /// Which credential it showed.
    pub(crate) client: ClientKey,
    /// Of a session that was opened for it: until when it may run the daemon.
    pub(crate) admin_until: Option<Instant>,
    /// The token behind it; `None` for the cookie file and for guests.
    pub(super) token: Option<Hash>,
}

impl Identity {
    pub(super) fn cookie(presented: Hash) -> Self {
        Self {
            name: "cookie".to_owned(),
            scope: Scope::Admin,
            tenant: None,
            by_session: false,
            is_guest: false,
            client: ClientKey(presented),
            admin_until: None,
            token: None,
        }
    }

    pub(super) fn token(token: &Token, presented: Hash) -> Self {
        Self {
            name: token.name.clone(),
            scope: token.scope,
            tenant: token.tenant.clone(),
            token: Some(presented),
            ..Self::cookie(presented)
        }
    }

    pub(super) fn guest() -> Self {
        let name = "dashboard".to_owned();
        Self { name, scope: Scope::Read, is_guest: true, ..Self::cookie([0; 32]) }
    }

    /// The same in a session known by its own secret: never more than `wallet`, unless it was
    /// opened to run the daemon and that is not long ago.
    pub(super) fn session(&self, key: Hash, admin_until: Option<Instant>) -> Self {
        // Asking for it gives nobody what the token itself doesn't have.
        let admin_until = admin_until.filter(|_| self.scope == Scope::Admin);
        Self { by_session: true, client: ClientKey(key), admin_until, ..self.clone() }
            .at(Instant::now())
    }

    /// What a session may do at a time.
    pub(super) fn at(mut self, now: Instant) -> Self {
        self.admin_until = self.admin_until.filter(|until| now < *until);
        if self.by_session && self.admin_until.is_none() {
            self.scope = self.scope.min(Scope::Wallet);
        }
        self
    }

    /// Whose requests these are, through restarts, logins and renewed tokens. No token is called
    /// as the owner is.
    pub fn caller(&self) -> String {
        match self.token {
            // Not by its hash: a token that is renewed while it pays must find its keys, or it pays
            // twice.
            Some(_) => format!("token:{}", self.name),
            None if self.is_guest => "guest".to_owned(),
            None => OWNER.to_owned(),
        }
    }

    /// Whether it may know of a tenant.
    pub fn sees(&self, tenant: &TenantName) -> bool {
        sees(self.tenant.as_ref(), tenant)
    }

    /// Descriptors and extended keys tell every address that a wallet will ever have: whoever may
    /// look at what there is need not know them.
    pub fn may_see_descriptors(&self) -> bool {
        self.scope >= Scope::Wallet && !self.is_guest
    }
}

/// Whether somebody who sees one tenant only, or all, may know of a tenant.
pub fn sees(only: Option<&TenantName>, tenant: &TenantName) -> bool {
    only.is_none_or(|only| only == tenant)
}
