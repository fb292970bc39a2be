//! The tables, and where they lie on a cluster.

use unspent_sql::{
    Distribution, Migration, Schema,
    TablePlacement::{DistributedBy, Local},
};

/// The txstore's schema.
pub const SCHEMA: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS txstore; SET search_path TO txstore",
    migrations: &[
        Migration {
            version: 1,
            name: "transactions, their parts and their queue",
            ddl: include_str!("1.sql"),
        },
        Migration { version: 2, name: "what happened to blocks", ddl: include_str!("2.sql") },
    ],
    distribution: DISTRIBUTION,
};

/// Everything that is large lies with its transaction; the tip and what hangs on it stays in one
/// place, since whoever adds a block or deletes holds its row.
const DISTRIBUTION: Distribution = &[
    ("store", Local),
    ("tallies", Local),
    ("blocks", Local),
    ("changes", Local),
    ("transactions", DistributedBy("txid")),
    ("parts", DistributedBy("txid")),
    ("due", DistributedBy("txid")),
    ("awaited", DistributedBy("txid")),
];

#[cfg(test)]
mod tests {
    use super::SCHEMA;

    /// What databases keep of the migrations that they have taken, SQLite's first: with another
    /// text they would not be opened.
    const CHECKSUMS: [[&str; 2]; 2] = [
        [
            "0fb2792d2e9acc5becdc706bdc7dec9b03486dfaea8b70d585d86a9807aa2ead",
            "15f81b8116853f43b8e8bd4efbfa48e6b2346a2acd5d049f590018877d98c797",
        ],
        [
            "e53f1195067aefd65fda6b0f9832107ec2ad04ec93b7dcff1737b0051cba8b83",
            "e6b78365923fbd8659527e0dab44052536a572a062e7791f785ad9c51f9b28d5",
        ],
    ];

    #[test]
    fn databases_of_the_versions_before_know_these_migrations() {
        assert_eq!(SCHEMA.checksums(), CHECKSUMS);
    }

    #[test]
    fn every_unique_key_of_a_large_table_holds_the_txid() {
        let text = SCHEMA.migrations[0].ddl;
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
