//! Whether a room's tables are in a database, without making anything there: opening would.

use std::{sync::atomic::AtomicU64, time::Instant};

use crate::{
    connection::{Connection, Tx},
    error::{OpenError, SqlError},
    options::Options,
    schema::Schema,
    sqlite_side::sqlite_version,
    url::Url,
};

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
            let version = sqlite_version(path);
            let version =
                version.map_err(|source| OpenError::Connect { url: url.clone(), source })?;
            Ok(version > 0)
        }
        // A thread of its own, since a client must not be touched on an async thread.
        Url::Postgres(_) => std::thread::scope(|scope| {
            let asked = scope.spawn(|| has_ledger(url, schema, options)).join();
            let asked = asked.unwrap_or(Err(SqlError::Closed));
            asked.map_err(|source| OpenError::Connect { url: url.clone(), source })
        }),
    }
}

fn has_ledger(url: &Url, schema: &Schema, options: Options) -> Result<bool, SqlError> {
    // Entering a schema makes it; only looking into it doesn't.
    let enter = schema.postgres_enter.split_once("; ").map_or("", |(_, look)| look);
    let schema = Schema { postgres_enter: enter, ..*schema };
    let mut connection = Connection::open(url, &schema, options)?;
    connection.begin_write(Instant::now() + options.turn)?;
    let sent = AtomicU64::new(0);
    let row = Tx::new(&mut connection, &sent, false).one(HAS_LEDGER, &[]);
    connection.rollback()?;
    Ok(row?.int("there")? > 0)
}
