//! The tables, one file per dialect. They differ in the name of the type for bytes alone.

use unspent_sql::{Migration, Schema};

/// The ecash room's schema.
pub const SCHEMA: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS ecash; SET search_path TO ecash",
    migrations: &[Migration {
        version: 1,
        name: "accounts, proofs, entities, transactions, journal",
        sqlite: include_str!("sqlite_1.sql"),
        postgres: include_str!("postgres_1.sql"),
    }],
};

#[cfg(test)]
mod tests {
    use super::SCHEMA;

    #[test]
    fn both_dialects_say_the_same() {
        for migration in SCHEMA.migrations {
            assert_eq!(migration.sqlite, migration.postgres.replace("BYTEA", "BLOB"));
        }
    }

    #[test]
    fn states_of_proofs_are_those_of_the_model() {
        let names: Vec<String> = unspent_model::ecash::PROOF_STATES
            .iter()
            .map(|(_, name)| format!("'{name}'"))
            .collect();
        let list = format!("CHECK (state IN ({}))", names.join(", "));
        assert!(SCHEMA.migrations[0].sqlite.contains(&list), "{list}");
    }
}
