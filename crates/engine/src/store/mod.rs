//! The engine's own database, `engine.db`: events, how far they have been told, and requests.
//!
//! Nothing in it is needed to bring the rooms up again: without it only the numbering of events and
//! the memory of past requests start anew.

use std::path::Path;

use unspent_sql::{Door, Migration, OpenError, Options, Schema, Url};

/// The file's name in the data folder.
pub const STORE_FILE: &str = "engine.db";

/// The engine's schema.
pub const SCHEMA: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS engine; SET search_path TO engine",
    migrations: &[Migration {
        version: 1,
        name: "events and requests",
        sqlite: include_str!("sqlite_1.sql"),
        postgres: include_str!("postgres_1.sql"),
    }],
};

/// Opens the database in the data folder.
pub(crate) fn open(folder: &Path) -> Result<Door, OpenError> {
    Door::open(&Url::Sqlite(folder.join(STORE_FILE)), &SCHEMA, Options::default())
}

#[cfg(test)]
mod tests {
    use super::SCHEMA;

    #[test]
    fn both_dialects_say_the_same() {
        for migration in SCHEMA.migrations {
            assert_eq!(migration.sqlite, migration.postgres.replace("BYTEA", "BLOB"));
        }
    }
}
