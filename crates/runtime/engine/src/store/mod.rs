//! The engine's own database, `engine.db`: events, how far they have been told, and requests.
//!
//! Nothing in it is needed to bring the rooms up again: without it only the numbering of events and
//! the memory of past requests start anew.

use std::path::Path;

use unspent_sql::{Door, Migration, OpenError, Options, Schema, Url, keep_before_migration};

/// The file's name in the data folder.
pub const STORE_FILE: &str = "engine.db";

/// The engine's schema.
pub const SCHEMA: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS engine; SET search_path TO engine",
    migrations: &[
        Migration { version: 1, name: "events and requests", ddl: include_str!("1.sql") },
        Migration { version: 2, name: "how far any room's events have come", ddl: MARKS },
        Migration { version: 3, name: "webhooks", ddl: include_str!("3.sql") },
        Migration {
            version: 4,
            name: "requests belong to their callers",
            ddl: include_str!("4.sql"),
        },
        Migration { version: 5, name: "a tenant is a room and a name", ddl: include_str!("5.sql") },
    ],
    distribution: &[],
};

const MARKS: &str = "CREATE TABLE marks (
    room TEXT NOT NULL,
    subject TEXT NOT NULL,
    mark BIGINT NOT NULL,
    PRIMARY KEY (room, subject)
);";

/// Opens the database in the data folder. One that an older version wrote is brought up to date,
/// and stays beside it as it was.
pub(crate) fn open(folder: &Path) -> Result<Door, OpenError> {
    let file = folder.join(STORE_FILE);
    keep_before_migration(&file, &SCHEMA)?;
    Door::open(&Url::Sqlite(file), &SCHEMA, Options::default())
}

#[cfg(test)]
mod tests;
