//! What is sent.
//!
//! `webhook-id` names hook and event, `webhook-timestamp` is the time of this attempt in seconds,
//! `webhook-signature` is `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bitcoin::hashes::{Hash as _, HashEngine as _, Hmac, HmacEngine, sha256};
use serde_json::json;
use unspent_model::Micros;

use crate::{events::Event, tenant::TenantName};

/// Bytes of a hook's secret.
pub const SECRET_BYTES: usize = 32;
/// Bytes of a body at most; an event that is larger goes without its details.
const MAX_BODY: usize = 64 << 10;

/// What tells a repeated message from a new one.
struct MessageId(String);

/// A message ready to be posted.
pub(super) struct Message {
    pub(super) id: String,
    pub(super) timestamp: String,
    pub(super) signature: String,
    pub(super) body: String,
}

impl Message {
    fn new(
        MessageId(id): MessageId,
        body: String,
        secret: &[u8; SECRET_BYTES],
        now: Micros,
    ) -> Self {
        let timestamp = now.0.div_euclid(1_000_000).to_string();
        let mut engine = HmacEngine::<sha256::Hash>::new(secret);
        for part in [id.as_str(), ".", &timestamp, ".", &body] {
            engine.input(part.as_bytes());
        }
        let code = Hmac::<sha256::Hash>::from_engine(engine).to_byte_array();
        Self { id, timestamp, signature: format!("v1,{}", STANDARD.encode(code)), body }
    }

    /// An event, as `/events` shows it.
    pub(super) fn event(
        hook: u64,
        event: &Event,
        secret: &[u8; SECRET_BYTES],
        now: Micros,
    ) -> Self {
        let body = json!(event).to_string();
        let body = if body.len() > MAX_BODY {
            json!({ "id": event.id, "at": event.at, "room": event.room, "kind": event.kind,
                "wallet": event.wallet, "tenant_room": event.tenant_room, "tenant": event.tenant,
                "cut": true })
            .to_string()
        } else {
            body
        };
        Self::new(MessageId(format!("{hook}.{}", event.id)), body, secret, now)
    }

    /// Word that events were forgotten before they could be sent: the receiver asks anew.
    pub(super) fn reset(
        hook: u64,
        tenant: &TenantName,
        (after, to): (u64, u64),
        secret: &[u8; SECRET_BYTES],
        now: Micros,
    ) -> Self {
        let body = json!({ "kind": "reset", "wallet": tenant.as_wallet(), "room": tenant.room,
            "tenant": tenant.name, "lost_after": after, "lost_to": to });
        Self::new(MessageId(format!("{hook}.{to}.reset")), body.to_string(), secret, now)
    }

    /// A message that says nothing happened.
    pub(super) fn test(
        hook: u64,
        tenant: &TenantName,
        secret: &[u8; SECRET_BYTES],
        now: Micros,
    ) -> Self {
        let body = json!({ "kind": "test", "wallet": tenant.as_wallet(), "room": tenant.room,
            "tenant": tenant.name });
        Self::new(MessageId(format!("{hook}.test.{now}")), body.to_string(), secret, now)
    }
}

/// A secret as libraries of the specification take it.
pub(super) fn shown_secret(secret: &[u8; SECRET_BYTES]) -> String {
    format!("whsec_{}", STANDARD.encode(secret))
}
