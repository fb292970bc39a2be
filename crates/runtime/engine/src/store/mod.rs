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
mod tests {
    use super::SCHEMA;

    /// What databases keep of the migrations that they have taken, SQLite's first: with another
    /// text they would not be opened.
    const CHECKSUMS: [[&str; 2]; 4] = [
        [
            "47793715f6c66bb7f085989d1cd05379e1c26bb040066f96579db0bd1897fdb1",
            "1ea51e788e2e9c69ce4dea5e99f274422e9b0db2ad819bed17cc76e292379903",
        ],
        [
            "400dc0ad74c2507c9509e46c268c3a49b100b777a5fadf76241528d2beaabac2",
            "400dc0ad74c2507c9509e46c268c3a49b100b777a5fadf76241528d2beaabac2",
        ],
        [
            "3521fb91f3887cb3749f8bf67e4fce6336dcbfd47c20521ee9f83ea4c3952609",
            "f4946a098c59e88f0b8f433c28da51821274add41f9c9193476f88c16c370c53",
        ],
        [
            "97340d2a230a5d67862a404e75fddb103b11e98c4953dae4e0e94d66bc28980e",
            "473973d76c513f4636f6fb0ea6c2c95a758dc5e45918bdc1443679889271a208",
        ],
    ];

    #[test]
    fn databases_of_the_versions_before_know_these_migrations() {
        assert_eq!(SCHEMA.checksums(), CHECKSUMS);
    }
}
