//! The tables, and where they lie on a cluster.

use unspent_sql::{Distribution, Migration, Schema, TablePlacement::Local};

/// The ecash room's schema.
pub const SCHEMA: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS ecash; SET search_path TO ecash",
    migrations: &[
        Migration {
            version: 1,
            name: "accounts, proofs, entities, transactions, journal",
            ddl: include_str!("1.sql"),
        },
        Migration {
            version: 2,
            name: "counters over all accounts, scans, removed accounts",
            ddl: include_str!("2.sql"),
        },
    ],
    distribution: DISTRIBUTION,
};

/// Everything stays in one place: each change takes the next number of one journal.
const DISTRIBUTION: Distribution = &[
    ("store", Local),
    ("accounts", Local),
    ("counters", Local),
    ("account_keysets", Local),
    ("scans", Local),
    ("proofs", Local),
    ("entities", Local),
    ("transactions", Local),
    ("journal", Local),
    ("lease", Local),
];

#[cfg(test)]
mod tests {
    use super::SCHEMA;

    /// What databases keep of the migrations that they have taken, SQLite's first: with another
    /// text they would not be opened.
    const CHECKSUMS: [[&str; 2]; 2] = [
        [
            "0bbc910e297f0c9a8c5b0be184e94f3a5c8606dc5d168edeb11065ef2f5393ec",
            "cd1827a8141e72607b590700e7c10d3a69cdd1348f6a4ecd930de5ee91fcf654",
        ],
        ["aad0991129db0cabc21bb617f026bd6393d0c192d8edd3fa5f91e7f4a0192ac9"; 2],
    ];

    #[test]
    fn databases_of_the_versions_before_know_these_migrations() {
        assert_eq!(SCHEMA.checksums(), CHECKSUMS);
    }

    #[test]
    fn states_of_proofs_are_those_of_the_model() {
        let names: Vec<String> = unspent_model::ecash::PROOF_STATES
            .iter()
            .map(|(_, name)| format!("'{name}'"))
            .collect();
        let list = format!("CHECK (state IN ({}))", names.join(", "));
        assert!(SCHEMA.migrations[0].ddl.contains(&list), "{list}");
    }
}
