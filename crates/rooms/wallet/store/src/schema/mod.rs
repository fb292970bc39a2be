//! The tables, one file per dialect.
//!
//! The two files differ in the name of the type for bytes, and in where SQLite keeps rows inside
//! the primary key; a test holds them together.
//!
//! Row ids are numbered by the wallet's own row, which every writer holds: dense per wallet, the
//! same on both databases, and never an answer about another wallet.

use unspent_sql::{Migration, Schema};

/// The wallet room's schema.
pub const SCHEMA: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS wallet; SET search_path TO wallet",
    migrations: &[
        Migration {
            version: 1,
            name: "wallets",
            sqlite: include_str!("sqlite_1.sql"),
            postgres: include_str!("postgres_1.sql"),
        },
        Migration {
            version: 2,
            name: "pruned transactions are remembered",
            sqlite: include_str!("sqlite_2.sql"),
            postgres: include_str!("postgres_2.sql"),
        },
        Migration {
            version: 3,
            name: "stopped and archived wallets, frozen coins, backfills",
            sqlite: include_str!("sqlite_3.sql"),
            postgres: include_str!("postgres_3.sql"),
        },
    ],
};

#[cfg(test)]
mod tests {
    use unspent_model::wallet::{CAUSES, EDGE_CAUSES, STATUSES};

    use super::SCHEMA;

    #[test]
    fn both_dialects_say_the_same() {
        for migration in SCHEMA.migrations {
            let sqlite = migration.sqlite.replace(" WITHOUT ROWID", "");
            assert_eq!(sqlite, migration.postgres.replace("BYTEA", "BLOB"));
        }
    }

    /// The words between quotes in the CHECK of that name.
    fn check_list(name: &str) -> Vec<&'static str> {
        let text = SCHEMA.migrations[0].postgres;
        let start = text.find(&format!("CONSTRAINT {name} CHECK")).expect("the check is there");
        let rest = &text[start..];
        let end = rest.find("CONSTRAINT valid").map_or(0, |at| at + 1);
        let list = &rest[..end + rest[end..].find("\n    CONSTRAINT").unwrap_or(rest.len() - end)];
        let list = &list[..list.find(";").unwrap_or(list.len())];
        list.split('\'').skip(1).step_by(2).collect()
    }

    #[test]
    fn check_lists_equal_the_enums() {
        let names =
            |list: &[(_, &'static str)]| list.iter().map(|(_, name)| *name).collect::<Vec<_>>();
        assert_eq!(check_list("valid_status"), names(&STATUSES));
        assert_eq!(check_list("valid_cause"), CAUSES.map(|(_, name)| name));
        assert_eq!(check_list("valid_edge_cause"), EDGE_CAUSES.map(|(_, name)| name));
    }
}
