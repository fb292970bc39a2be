//! Hooks, their cursors and troubles, in `engine.db`.
//!
//! A cursor moves by compare-and-set: whoever served the hook meanwhile, or removed it, wins.

use unspent_model::Micros;
use unspent_sql::{Arg, Door, Row, Tx};

use super::{MAX_HOOKS, SECRET_BYTES, Webhook, WebhookError};
use crate::{
    clock::Time,
    tenant::{Tenant, TenantName},
};

const NEXT: &str = "UPDATE counter SET last_webhook = last_webhook + 1 WHERE one = 1";
const LAST: &str = "SELECT last_webhook FROM counter WHERE one = 1";
const LAST_EVENT: &str = "SELECT last_event FROM counter WHERE one = 1";
const COUNT: &str = "SELECT COUNT(*) AS hooks FROM webhooks";
const INSERT: &str = "INSERT INTO webhooks (id, tenant_room, tenant_id, tenant, url, secret,
    created_at, cursor, delivered, attempts, next_attempt_at, missed)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, 0, 0, 0)";
const ALL: &str = "SELECT id, tenant_room, tenant_id, tenant, url, secret, created_at, cursor,
    delivered, delivered_at, attempts, failing_since, next_attempt_at, last_error, missed, paused_at
    FROM webhooks ORDER BY id";
const ONE: &str = "SELECT id, tenant_room, tenant_id, tenant, url, secret, created_at, cursor,
    delivered, delivered_at, attempts, failing_since, next_attempt_at, last_error, missed, paused_at
    FROM webhooks WHERE id = $1";
const RENAME: &str = "UPDATE webhooks SET tenant = $3 WHERE tenant_room = $1 AND tenant_id = $2";
const REMOVE: &str = "DELETE FROM webhooks WHERE id = $1";
const RESUME: &str = "UPDATE webhooks SET paused_at = NULL, attempts = 0, failing_since = NULL,
    next_attempt_at = 0 WHERE id = $1";
const PASS: &str = "UPDATE webhooks SET cursor = $3 WHERE id = $1 AND cursor = $2";
const DELIVERED: &str = "UPDATE webhooks SET cursor = $3, delivered = delivered + $4,
    delivered_at = $5, missed = missed + $6, attempts = 0, failing_since = NULL,
    next_attempt_at = 0, last_error = NULL WHERE id = $1 AND cursor = $2";
const FAILED: &str = "UPDATE webhooks SET attempts = attempts + 1,
    failing_since = COALESCE(failing_since, $3), next_attempt_at = $4, last_error = $5,
    paused_at = $6 WHERE id = $1 AND cursor = $2";

/// A hook with what it is signed by.
#[derive(Clone)]
pub(super) struct StoredHook {
    pub(super) hook: Webhook,
    pub(super) tenant: Tenant,
    pub(super) secret: [u8; SECRET_BYTES],
    pub(super) next_attempt_at: Micros,
}

/// Stores a hook whose story begins now.
pub(super) fn add(
    door: &Door,
    tenant: &Tenant,
    url: &str,
    secret: [u8; SECRET_BYTES],
    now: Micros,
) -> Result<Webhook, WebhookError> {
    let (tenant, url) = (tenant.clone(), url.to_owned());
    door.write(move |tx| {
        let known = tx.one(COUNT, &[])?.natural("hooks")?;
        if known >= MAX_HOOKS as u64 {
            return Err(WebhookError::Refused("there are already 100 webhooks".into()));
        }
        // Not MAX(id) + 1: the number of a removed hook must not lead to another one's.
        tx.execute(NEXT, &[])?;
        let id = tx.one(LAST, &[])?.int("last_webhook")?;
        // Read in the same transaction: no event can be written between the cursor and the hook.
        let cursor = tx.one(LAST_EVENT, &[])?.int("last_event")?;
        let args = [
            Arg::Int(id),
            Arg::Text(&tenant.named.room),
            Arg::Text(&tenant.id),
            Arg::Text(&tenant.named.name),
            Arg::Text(&url),
            Arg::Blob(&secret),
            Arg::Int(now.0),
            Arg::Int(cursor),
        ];
        tx.execute(INSERT, &args)?;
        let id = u64::try_from(id).unwrap_or(0);
        Ok(find(tx, id)?.ok_or(WebhookError::Unknown(id))?.hook)
    })
}

pub(super) fn all(door: &Door) -> Result<Vec<StoredHook>, WebhookError> {
    door.read(|tx| tx.query(ALL, &[])?.iter().map(read).collect())
}

pub(super) fn one(door: &Door, id: u64) -> Result<Option<StoredHook>, WebhookError> {
    door.read(move |tx| find(tx, id))
}

fn find(tx: &mut Tx<'_>, id: u64) -> Result<Option<StoredHook>, WebhookError> {
    tx.maybe(ONE, &[key(id)])?.as_ref().map(read).transpose()
}

/// Gives the hooks of a tenant its new name.
pub(super) fn rename(door: &Door, tenant: &Tenant) -> Result<(), WebhookError> {
    let Tenant { named: TenantName { room, name }, id } = tenant.clone();
    door.write(move |tx| {
        tx.execute(RENAME, &[Arg::Text(&room), Arg::Text(&id), Arg::Text(&name)])?;
        Ok(())
    })
}

/// Removes a hook; says whether there was one.
pub(super) fn remove(door: &Door, id: u64) -> Result<bool, WebhookError> {
    door.write(move |tx| Ok(tx.execute(REMOVE, &[key(id)])? > 0))
}

/// Starts a paused hook again, at once; says whether there is such a hook.
pub(super) fn resume(door: &Door, id: u64) -> Result<bool, WebhookError> {
    door.write(move |tx| Ok(tx.execute(RESUME, &[key(id)])? > 0))
}

/// What came of an attempt.
#[derive(Clone, Debug)]
pub(super) enum HookStep {
    /// Nothing up to that event was of interest.
    Pass { to: u64 },
    /// The event is delivered.
    Delivered { to: u64, at: Micros },
    /// The receiver knows that events up to there are lost, so many.
    Lost { to: u64, count: u64, at: Micros },
    /// It failed, and is tried again later, or not at all.
    Failed { at: Micros, next: Micros, error: String, paused: bool },
}

/// A hook and the event after which it is to go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct HookPlace {
    pub(super) hook: u64,
    pub(super) cursor: u64,
}

/// Writes down what came of an attempt at the event after the cursor; says whether the hook was
/// still there and nobody had moved it.
pub(super) fn settle(door: &Door, at: HookPlace, step: HookStep) -> Result<bool, WebhookError> {
    door.write(move |tx| {
        let place = [key(at.hook), key(at.cursor)];
        let moved = match &step {
            HookStep::Pass { to } => tx.execute(PASS, &[&place[..], &[key(*to)]].concat())?,
            HookStep::Delivered { to, at } => {
                let rest = [key(*to), Arg::Int(1), Arg::Int(at.0), Arg::Int(0)];
                tx.execute(DELIVERED, &[&place[..], &rest].concat())?
            }
            HookStep::Lost { to, count, at } => {
                let rest = [key(*to), Arg::Int(0), Arg::Int(at.0), key(*count)];
                tx.execute(DELIVERED, &[&place[..], &rest].concat())?
            }
            HookStep::Failed { at, next, error, paused } => {
                let paused = Arg::OptInt(paused.then_some(at.0));
                let rest = [Arg::Int(at.0), Arg::Int(next.0), Arg::Text(error), paused];
                tx.execute(FAILED, &[&place[..], &rest].concat())?
            }
        };
        Ok(moved > 0)
    })
}

fn key(number: u64) -> Arg<'static> {
    Arg::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn read(row: &Row) -> Result<StoredHook, WebhookError> {
    let next_attempt_at = row.micros("next_attempt_at")?;
    let time =
        |name: &str| -> Result<Option<Time>, WebhookError> { Ok(row.opt_int(name)?.map(Time)) };
    let named = TenantName { room: row.text("tenant_room")?, name: row.text("tenant")? };
    let tenant = Tenant { named, id: row.text("tenant_id")? };
    let hook = Webhook {
        id: row.natural("id")?,
        wallet: tenant.named.as_wallet().map(ToOwned::to_owned),
        room: tenant.named.room.clone(),
        tenant: tenant.named.name.clone(),
        url: row.text("url")?,
        created_at: Time(row.int("created_at")?),
        cursor: row.natural("cursor")?,
        delivered: row.natural("delivered")?,
        delivered_at: time("delivered_at")?,
        attempts: row.index("attempts")?,
        failing_since: time("failing_since")?,
        next_attempt_at: (next_attempt_at.0 > 0).then_some(next_attempt_at.into()),
        last_error: row.opt_text("last_error")?,
        missed: row.natural("missed")?,
        paused_at: time("paused_at")?,
    };
    Ok(StoredHook { hook, tenant, secret: row.hash("secret")?, next_attempt_at })
}
