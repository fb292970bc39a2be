//! Who may do what: the cookie file, named tokens, sessions of the dashboard.
//!
//! | module | keeps |
//! |---|---|
//! | `checks` | all of these together: who is asking |
//! | `identity` | who a sender is, once known, and what that lets it see |
//! | `scope` | the three scopes, one containing the other |
//! | `cookie` | 32 random bytes in a file, new at each start, for local use |
//! | `tokens` | named tokens, stored as hashes |
//! | `token_file` | how they lie on the disk, and what older versions wrote |
//! | `routes` | `/tokens` |
//! | `sessions` | what a browser gets for a login; in memory alone |
//! | `attempts` | how many wrong credentials one address may send |
//! | `command` | `unspent token add`, `list`, `revoke` |
//!
//! Invariant: a secret is compared by its SHA-256 and in constant time; none is ever logged or
//! shown, except once to whoever made it. A session, and a live stream, end with the token behind
//! them: not with its name, which another token may bear later.

mod attempts;
mod checks;
mod command;
mod cookie;
mod identity;
pub mod routes;
mod scope;
mod sessions;
#[cfg(test)]
mod tests;
mod token_file;
mod tokens;

use self::checks::{Hash, hash, same, secret};

pub use self::{
    attempts::{Attempts, DELAY},
    checks::{Auth, SessionTimes},
    command::{TokenArgs, run},
    cookie::{new_private_file, private_file},
    identity::{ClientKey, Identity, OWNER, sees},
    scope::Scope,
    tokens::TokenFile,
};
