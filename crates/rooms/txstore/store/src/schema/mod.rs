//! The tables, one file per dialect.
//!
//! The two files differ in the name of the type for bytes, in where SQLite keeps rows inside the
//! primary key, and in the room that PostgreSQL leaves in a page for rows that are changed in
//! place; a test holds them together.

use unspent_sql::{Migration, Schema};

/// The txstore's schema.
pub const SCHEMA: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS txstore; SET search_path TO txstore",
    migrations: &[
        Migration {
            version: 1,
            name: "transactions, their parts and their queue",
            sqlite: include_str!("sqlite_1.sql"),
            postgres: include_str!("postgres_1.sql"),
        },
        Migration {
            version: 2,
            name: "what happened to blocks",
            sqlite: include_str!("sqlite_2.sql"),
            postgres: include_str!("postgres_2.sql"),
        },
    ],
};

#[cfg(test)]
mod tests {
    use super::SCHEMA;

    #[test]
    fn both_dialects_say_the_same() {
        for migration in SCHEMA.migrations {
            let sqlite = migration.sqlite.replace(" WITHOUT ROWID", "");
            let postgres = migration.postgres.replace(" WITH (fillfactor = 80)", "");
            assert_eq!(sqlite, postgres.replace("BYTEA", "BLOB"));
        }
    }

    #[test]
    fn every_unique_key_of_a_large_table_holds_the_txid() {
        let text = SCHEMA.migrations[0].postgres;
        for table in ["transactions", "parts", "due", "awaited"] {
            let start = text.find(&format!("CREATE TABLE {table} (")).expect("the table is there");
            let table = &text[start..start + text[start..].find(";").expect("it ends")];
            let key = table.find("PRIMARY KEY").expect("it has a key");
            let line = table[..key].rfind('\n').expect("it has lines");
            let line = &table[line..line + 1 + table[line + 1..].find('\n').expect("it ends")];
            assert!(line.contains("txid"), "{line}");
            assert!(!table.contains("REFERENCES"), "{table}");
        }
    }
}
