//! An event as it is read.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{clock::Time, tenant::Tenant};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Event {
    /// Its number: dense and growing.
    pub id: u64,
    /// When it was written down.
    pub at: Time,
    /// The room that it happened in, or `engine`.
    pub room: String,
    /// One word for what happened: one of [`kind`](super::kind), or of the room itself.
    pub kind: String,
    /// The wallet's name when it happened, where it is about one.
    pub wallet: Option<String>,
    /// The room of the tenant that it is about, where it is about one.
    pub tenant_room: Option<String>,
    /// The tenant's name when it happened: that of a wallet, of an account.
    pub tenant: Option<String>,
    /// The tenant's id, which a new name doesn't change.
    #[serde(skip)]
    pub tenant_id: Option<String>,
    /// A transaction, coin or block, as people read it.
    pub subject: Option<String>,
    /// The rest.
    #[schema(value_type = Object)]
    pub body: serde_json::Value,
}

impl Event {
    /// Whether it is about a tenant, whatever that was called when it happened.
    pub fn is_about(&self, tenant: &Tenant) -> bool {
        self.tenant_room.as_ref() == Some(&tenant.named.room)
            && self.tenant_id.as_ref() == Some(&tenant.id)
    }
}

/// Some events.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct EventPage {
    /// In order.
    pub events: Vec<Event>,
    /// The oldest that is still kept; 0 when there is none.
    pub first_kept: u64,
    /// The newest there is; 0 when there is none.
    pub last: u64,
}
