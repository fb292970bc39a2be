//! Versioned migrations, forward only.
//!
//! Each is applied in one transaction together with its line in `schema_migrations`, which keeps
//! the checksum of its text: a database touched by a later or another program is refused, with
//! nothing changed.

use std::{
    sync::atomic::AtomicU64,
    time::{Duration, Instant},
};

use crate::{
    connection::{Connection, Tx},
    error::{OpenError, SqlError},
    schema::Schema,
    url::{Backend, Url},
    value::Arg,
};

const CREATE_LEDGER: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum_hex TEXT NOT NULL)";
const READ_LEDGER: &str = "SELECT version, checksum_hex FROM schema_migrations ORDER BY version";
const WRITE_LEDGER: &str =
    "INSERT INTO schema_migrations (version, name, checksum_hex) VALUES ($1, $2, $3)";
const LOCK_LEDGER: &str = "LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE";

/// Brings the database to the newest version, or says why not.
pub(crate) fn migrate(
    connection: &mut Connection,
    url: &Url,
    schema: &Schema,
    turn: Duration,
) -> Result<(), OpenError> {
    let connect = |source| OpenError::Connect { url: url.clone(), source };
    // PostgreSQL can fail when two sessions create the same table at once; the second try sees it.
    let until = Instant::now() + turn;
    let created = create_ledger(connection, until);
    created.or_else(|_| create_ledger(connection, until)).map_err(connect)?;
    loop {
        connection.begin_write(Instant::now() + turn).map_err(connect)?;
        let step = one_step(connection, schema);
        match step {
            Ok(None) => return connection.rollback().map_err(connect),
            Ok(Some(version)) => {
                let done = connection.commit();
                done.map_err(|source| OpenError::Migration { version, source })?;
            }
            Err(refusal) => {
                connection.rollback().map_err(connect)?;
                return Err(refusal(url.clone()));
            }
        }
    }
}

/// In a transaction that begins as a writer: SQLite waits for other writers only then.
fn create_ledger(connection: &mut Connection, until: Instant) -> Result<(), SqlError> {
    connection.begin_write(until)?;
    match connection.run_script(CREATE_LEDGER) {
        Ok(()) => connection.commit(),
        Err(error) => {
            connection.rollback()?;
            Err(error)
        }
    }
}

/// How many migrations are in, in a transaction that is open already.
pub(crate) fn applied(
    connection: &mut Connection,
    url: &Url,
    schema: &Schema,
) -> Result<usize, OpenError> {
    let (backend, sent) = (connection.backend(), AtomicU64::new(0));
    let lines = checked(&mut Tx::new(connection, &sent, false), schema, backend);
    lines.map_err(|refusal| refusal(url.clone()))
}

type Refusal = Box<dyn FnOnce(Url) -> OpenError>;

fn refused(error: OpenError) -> Refusal {
    Box::new(move |_| error)
}

fn unreadable(source: SqlError) -> Refusal {
    Box::new(move |url| OpenError::Connect { url, source })
}

/// Applies the next migration, if one is due.
fn one_step(connection: &mut Connection, schema: &Schema) -> Result<Option<i64>, Refusal> {
    let backend = connection.backend();
    // Nobody asks what opening costs.
    let sent = AtomicU64::new(0);
    let mut tx = Tx::new(connection, &sent, false);
    if backend == Backend::Postgres {
        // A second program that opens just now waits here, and then finds the migration done.
        tx.execute(LOCK_LEDGER, &[]).map_err(unreadable)?;
    }
    let applied = checked(&mut tx, schema, backend)?;
    let Some(next) = schema.migrations.get(applied) else { return Ok(None) };
    let failed = |source| refused(OpenError::Migration { version: next.version, source });
    tx.migration(&next.text(backend)).map_err(failed)?;
    let sum = next.checksum_hex(backend);
    let line = [Arg::Int(next.version), Arg::Text(next.name), Arg::Text(&sum)];
    tx.execute(WRITE_LEDGER, &line).map_err(failed)?;
    Ok(Some(next.version))
}

/// How many migrations are in, after comparing each with ours.
fn checked(tx: &mut Tx<'_>, schema: &Schema, backend: Backend) -> Result<usize, Refusal> {
    let lines = tx.query(READ_LEDGER, &[]).map_err(unreadable)?;
    for (at, line) in lines.iter().enumerate() {
        let version = line.int("version").map_err(unreadable)?;
        let damaged = |why| refused(OpenError::Damaged { version, why });
        let Some(ours) = schema.migrations.get(at) else {
            let known = schema.migrations.last().map_or(0, |last| last.version);
            return Err(refused(OpenError::Newer { found: version, known }));
        };
        if version != ours.version {
            return Err(damaged("the versions are not 1, 2, 3, …"));
        }
        if line.text("checksum_hex").map_err(unreadable)? != ours.checksum_hex(backend) {
            return Err(damaged("its text differs"));
        }
    }
    Ok(lines.len())
}
