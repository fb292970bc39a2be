//! The tables, and where they lie on a cluster.
//!
//! Row ids are numbered by the wallet's own row, which every writer holds: dense per wallet, the
//! same on both databases, and never an answer about another wallet.

use unspent_sql::{
    Distribution, Migration, Schema,
    TablePlacement::{DistributedBy, Reference},
};

/// The wallet room's schema.
pub const SCHEMA: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS wallet; SET search_path TO wallet",
    migrations: &[
        Migration { version: 1, name: "wallets", ddl: include_str!("1.sql") },
        Migration {
            version: 2,
            name: "pruned transactions are remembered",
            ddl: include_str!("2.sql"),
        },
        Migration {
            version: 3,
            name: "stopped and archived wallets, frozen coins, backfills",
            ddl: include_str!("3.sql"),
        },
    ],
    distribution: DISTRIBUTION,
};

/// A wallet's rows lie together. `wallets` is whole everywhere, as names are unique over all of
/// them, which a table spread by its id could not promise.
const DISTRIBUTION: Distribution = &[
    ("room", Reference),
    ("blocks", Reference),
    ("wallets", Reference),
    ("accounts", DistributedBy("wallet_id")),
    ("keychains", DistributedBy("wallet_id")),
    ("addresses", DistributedBy("wallet_id")),
    ("transactions", DistributedBy("wallet_id")),
    ("tx_inputs", DistributedBy("wallet_id")),
    ("utxos", DistributedBy("wallet_id")),
    ("tx_replacements", DistributedBy("wallet_id")),
    ("utxo_leases", DistributedBy("wallet_id")),
    ("labels", DistributedBy("wallet_id")),
    ("journal", DistributedBy("wallet_id")),
    ("pruned_txs", DistributedBy("wallet_id")),
    ("frozen_outputs", DistributedBy("wallet_id")),
    ("label_origins", DistributedBy("wallet_id")),
    ("backfills", DistributedBy("wallet_id")),
];

#[cfg(test)]
mod tests {
    use unspent_model::wallet::{CAUSES, EDGE_CAUSES, STATUSES};

    use super::SCHEMA;

    /// What databases keep of the migrations that they have taken, SQLite's first: with another
    /// text they would not be opened.
    const CHECKSUMS: [[&str; 2]; 3] = [
        [
            "89f9e99fe225b59e39ffe7eadf724ac9c0da67e339f81045d6740b34b32cafe6",
            "3816831b6cec4bff8f503afdab75fb0048b4389870f05de400465633cbf1bf49",
        ],
        [
            "91dca29aa4ddb3eb21a976bac06d850043b657bfffa30188d6a162793e31c998",
            "00fb49c8c5a6086e0f8602cfaa3a639b60362dda4bdb9df53b3023c7811fab0c",
        ],
        [
            "fcf6b14b9325f7a9ff38052da6724196393abcf822f6af58ad2ecbfa19b4694f",
            "d9bb6538d0119be435fd15feb876b52521e15b08157e2ce0fd804417c10f2a72",
        ],
    ];

    #[test]
    fn databases_of_the_versions_before_know_these_migrations() {
        assert_eq!(SCHEMA.checksums(), CHECKSUMS);
    }

    /// The words between quotes in the CHECK of that name.
    fn check_list(name: &str) -> Vec<&'static str> {
        let text = SCHEMA.migrations[0].ddl;
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
