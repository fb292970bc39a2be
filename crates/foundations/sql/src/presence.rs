//! Whether a room's tables are in a database, without making anything there: opening would.

use std::{
    path::Path,
    sync::atomic::AtomicU64,
    time::{Duration, Instant},
};

use rusqlite::OpenFlags;

use crate::{
    connection::{Connection, Tx},
    door::Options,
    error::{OpenError, SqlError},
    schema::Schema,
    sqlite_side::explain,
    url::Url,
};

/// How long somebody else may hold the file while it is looked at.
const BUSY: Duration = Duration::from_secs(5);
const FILE_LEDGER: &str =
    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'";
const HAS_LEDGER: &str = "SELECT CASE WHEN to_regclass('schema_migrations') IS NULL
    THEN 0::bigint ELSE 1::bigint END AS there";

/// Whether somebody has made the tables of a schema there.
///
/// # Errors
///
/// [`OpenError::Connect`] when the database can't be asked.
pub fn is_there(url: &Url, schema: &Schema, options: Options) -> Result<bool, OpenError> {
    match url {
        Url::Sqlite(path) => {
            let asked = if path.exists() { file_has_ledger(path) } else { Ok(false) };
            asked.map_err(|source| OpenError::Connect { url: url.clone(), source })
        }
        // A thread of its own, since a client must not be touched on an async thread.
        Url::Postgres(_) => std::thread::scope(|scope| {
            let asked = scope.spawn(|| has_ledger(url, schema, options)).join();
            let asked = asked.unwrap_or(Err(SqlError::Closed));
            asked.map_err(|source| OpenError::Connect { url: url.clone(), source })
        }),
    }
}

/// Read-only: another program's file, or one whose making was cut short, stays as it is.
fn file_has_ledger(path: &Path) -> Result<bool, SqlError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = rusqlite::Connection::open_with_flags(path, flags).map_err(explain)?;
    connection.busy_timeout(BUSY).map_err(explain)?;
    let found: i64 = connection.query_row(FILE_LEDGER, [], |row| row.get(0)).map_err(explain)?;
    Ok(found > 0)
}

fn has_ledger(url: &Url, schema: &Schema, options: Options) -> Result<bool, SqlError> {
    // Entering a schema makes it; only looking into it doesn't.
    let enter = schema.postgres_enter.split_once("; ").map_or("", |(_, look)| look);
    let mut connection = Connection::open(url, enter, options)?;
    connection.begin_write(Instant::now() + options.turn)?;
    let sent = AtomicU64::new(0);
    let row = Tx::new(&mut connection, &sent, false).one(HAS_LEDGER, &[]);
    connection.rollback()?;
    Ok(row?.int("there")? > 0)
}
