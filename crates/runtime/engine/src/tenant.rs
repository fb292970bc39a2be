//! Whose something is: a wallet, an account of ecash, whatever a room keeps for one of several
//! people.
//!
//! A tenant is a room and a name in it. Events, webhooks and narrow tokens carry it, and none of
//! them knows what it is in its room.

use serde::{Deserialize, Serialize};

/// The room whose tenants were the only ones: answers go on naming them as `wallet`.
const FIRST_ROOM: &str = "wallet";

/// A tenant as people name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TenantName {
    /// The room that keeps it.
    pub room: String,
    /// What it is called there.
    pub name: String,
}

impl TenantName {
    /// The tenant of a room with that name.
    pub fn new(room: &str, name: &str) -> Self {
        Self { room: room.to_owned(), name: name.to_owned() }
    }

    /// The wallet of that name.
    pub fn wallet(name: &str) -> Self {
        Self::new(FIRST_ROOM, name)
    }

    /// Its name where it is a wallet, which is what answers called every tenant once.
    pub fn as_wallet(&self) -> Option<&str> {
        (self.room == FIRST_ROOM).then_some(&self.name)
    }
}

/// A tenant as its room knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tenant {
    /// What it is called now.
    pub named: TenantName,
    /// What its room never gives to another one: neither a new name changes it, nor does whoever
    /// gets the old name later inherit it.
    pub id: String,
}

impl Tenant {
    /// The tenant of a room with that id, and its name of now.
    pub fn new(room: &str, id: impl ToString, name: &str) -> Self {
        Self { named: TenantName::new(room, name), id: id.to_string() }
    }
}
