//! What the database remembers of requests: one row each, and how many each caller has.
//!
//! Rows whose time is over are removed a few at a time, with whatever is begun next: a day that
//! falls due at once must not hold up whoever comes first. So a row that is still there may be
//! over; what is asked about is removed before it is looked at.

use unspent_model::Micros;
use unspent_sql::{Arg, Door, Row, Tx};

use super::{KEPT_FOR, RequestName, UNKNOWN};
use crate::events::LogError;

/// Rows removed at a time for being over.
const SWEPT: i64 = 256;

// The caller's own row sorts behind the nameless one of an older version, and counts more.
const FIND: &str = "SELECT caller, digest, http_status, body FROM requests
    WHERE request_key = $2 AND (caller = $1 OR caller = $3) ORDER BY caller DESC LIMIT 1";
const INSERT: &str = "INSERT INTO requests (caller, request_key, digest, run, created_at)
    VALUES ($1, $2, $3, $4, $5)";
// Its day begins anew: what is run again now must not fall due while it runs.
const TAKE_OVER: &str = "UPDATE requests SET run = $3, created_at = $4
    WHERE caller = $1 AND request_key = $2";
const FINISH: &str = "UPDATE requests SET http_status = $3, body = $4
    WHERE caller = $1 AND request_key = $2";
const FORGET: &str = "DELETE FROM requests WHERE caller = $1 AND request_key = $2
    RETURNING caller";
// Asked about by name: the sweep takes the oldest of everybody and may not come to this one.
const FORGET_IF_OVER: &str = "DELETE FROM requests
    WHERE request_key = $2 AND (caller = $1 OR caller = $3) AND created_at <= $4
    RETURNING caller";
const SWEEP: &str = "DELETE FROM requests WHERE (caller, request_key) IN
    (SELECT caller, request_key FROM requests WHERE created_at <= $1
        ORDER BY created_at LIMIT $2)
    RETURNING caller";
const SWEEP_CALLER: &str = "DELETE FROM requests WHERE (caller, request_key) IN
    (SELECT caller, request_key FROM requests WHERE caller = $3 AND created_at <= $1
        ORDER BY created_at LIMIT $2)
    RETURNING caller";
const OLDEST: &str = "SELECT MIN(created_at) AS at FROM requests WHERE caller = $1";
const COUNTED: &str = "SELECT kept FROM request_callers WHERE caller = $1";
const COUNT: &str = "INSERT INTO request_callers (caller, kept) VALUES ($1, 1)
    ON CONFLICT (caller) DO UPDATE SET kept = request_callers.kept + 1";
const UNCOUNT: &str = "UPDATE request_callers SET kept = kept - 1 WHERE caller = $1";
const LEAVE: &str = "DELETE FROM request_callers WHERE caller = $1 AND kept = 0";

/// What the database knows of a request.
pub(super) enum Stored {
    New,
    Repeat {
        status: u16,
        body: Vec<u8>,
    },
    Differs,
    Unfinished,
    Full {
        until: Micros,
    },
    /// It stands under the other name, without an end; or, under a name of old, nowhere.
    Elsewhere,
}

/// Writes a request down as begun, or says what is known of it.
pub(super) fn begin(
    door: &Door,
    name: &RequestName,
    digest: [u8; 32],
    run: i64,
    quota: u64,
    now: Micros,
) -> Result<Stored, LogError> {
    let name = name.clone();
    door.write(move |tx| {
        forget_over(tx, &name, now)?;
        let both = [Arg::Text(&name.caller), Arg::Text(&name.key), Arg::Text(UNKNOWN)];
        if let Some(row) = tx.maybe(FIND, &both)? {
            return found(tx, &row, &name, digest, (run, now));
        }
        // Nothing new is written without a caller: quotas and later repeats would not find it.
        if name.caller == UNKNOWN {
            return Ok(Stored::Elsewhere);
        }
        if let Some(until) = full(tx, &name.caller, quota, now)? {
            return Ok(Stored::Full { until });
        }
        let row = [Arg::Text(&name.caller), Arg::Text(&name.key), Arg::Blob(&digest)];
        tx.execute(INSERT, &[&row[..], &[Arg::Int(run), Arg::Int(now.0)]].concat())?;
        tx.execute(COUNT, &[Arg::Text(&name.caller)])?;
        Ok(Stored::New)
    })
}

fn found(
    tx: &mut Tx<'_>,
    row: &Row,
    name: &RequestName,
    digest: [u8; 32],
    (run, now): (i64, Micros),
) -> Result<Stored, LogError> {
    if row.hash("digest")? != digest {
        return Ok(Stored::Differs);
    }
    if row.opt_int("http_status")?.is_some() {
        let status = u16::try_from(row.natural("http_status")?).unwrap_or(500);
        return Ok(Stored::Repeat { status, body: row.blob("body")? });
    }
    if row.text("caller")? != name.caller {
        return Ok(Stored::Elsewhere);
    }
    let whose = [Arg::Text(&name.caller), Arg::Text(&name.key)];
    tx.execute(TAKE_OVER, &[&whose[..], &[Arg::Int(run), Arg::Int(now.0)]].concat())?;
    Ok(Stored::Unfinished)
}

/// Remembers the answer.
pub(super) fn finish(
    door: &Door,
    name: &RequestName,
    status: u16,
    body: &[u8],
) -> Result<(), LogError> {
    let (name, body) = (name.clone(), body.to_vec());
    door.write(move |tx| {
        let row = [Arg::Text(&name.caller), Arg::Text(&name.key)];
        let answer = [Arg::Int(status.into()), Arg::Blob(&body)];
        match tx.execute(FINISH, &[&row[..], &answer].concat())? {
            // It ran for longer than a day and was swept: whoever repeats it must not run it again.
            0 => Err(LogError::Argument("the request was forgotten while it ran")),
            _ => Ok(()),
        }
    })
}

pub(super) fn forget(door: &Door, name: &RequestName) -> Result<(), LogError> {
    let name = name.clone();
    door.write(move |tx| {
        let gone = tx.query(FORGET, &[Arg::Text(&name.caller), Arg::Text(&name.key)])?;
        uncount(tx, &gone)
    })
}

/// Removes what is over: the rows that are asked about, and some of the others.
fn forget_over(tx: &mut Tx<'_>, name: &RequestName, now: Micros) -> Result<(), LogError> {
    let over = Arg::Int(now.0.saturating_sub(KEPT_FOR));
    let both = [Arg::Text(&name.caller), Arg::Text(&name.key), Arg::Text(UNKNOWN), over];
    let gone = tx.query(FORGET_IF_OVER, &both)?;
    uncount(tx, &gone)?;
    let gone = tx.query(SWEEP, &[over, Arg::Int(SWEPT)])?;
    uncount(tx, &gone)
}

/// Whether a caller has as many rows as he may have, and until when.
fn full(
    tx: &mut Tx<'_>,
    caller: &str,
    quota: u64,
    now: Micros,
) -> Result<Option<Micros>, LogError> {
    if counted(tx, caller)? < quota {
        return Ok(None);
    }
    // Rows of others that are over as well may have gone first.
    let over = Arg::Int(now.0.saturating_sub(KEPT_FOR));
    let gone = tx.query(SWEEP_CALLER, &[over, Arg::Int(SWEPT), Arg::Text(caller)])?;
    uncount(tx, &gone)?;
    if counted(tx, caller)? < quota {
        return Ok(None);
    }
    let oldest = tx.one(OLDEST, &[Arg::Text(caller)])?.opt_micros("at")?;
    Ok(Some(Micros(oldest.unwrap_or(now).0.saturating_add(KEPT_FOR))))
}

fn counted(tx: &mut Tx<'_>, caller: &str) -> Result<u64, LogError> {
    let row = tx.maybe(COUNTED, &[Arg::Text(caller)])?;
    Ok(row.map_or(Ok(0), |row| row.natural("kept"))?)
}

/// Counts the callers of rows that went. Those of nobody known were never counted.
fn uncount(tx: &mut Tx<'_>, gone: &[Row]) -> Result<(), LogError> {
    for row in gone {
        let caller = row.text("caller")?;
        if tx.execute(UNCOUNT, &[Arg::Text(&caller)])? > 0 {
            tx.execute(LEAVE, &[Arg::Text(&caller)])?;
        }
    }
    Ok(())
}
