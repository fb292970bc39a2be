//! What a room declares of its tables: migrations, and where rows lie on a cluster.
//!
//! The tables are declared once. Three marks stand where the databases differ, and each database
//! gets a text of its own from them:
//!
//! | mark | SQLite | PostgreSQL |
//! |---|---|---|
//! | `{bytes}` | `BLOB` | `BYTEA` |
//! | `){without_rowid}` | `) WITHOUT ROWID`: rows lie inside the primary key | |
//! | `){fillfactor_80}` | | `) WITH (fillfactor = 80)`: room in a page for rows that change |

use sha2::{Digest, Sha256};

use crate::{ddl::IndexNames, url::Backend};

/// Each mark with what SQLite and PostgreSQL read in its place.
const DIALECT_MARKS: [(&str, &str, &str); 3] = [
    ("{bytes}", "BLOB", "BYTEA"),
    ("{without_rowid}", " WITHOUT ROWID", ""),
    ("{fillfactor_80}", "", " WITH (fillfactor = 80)"),
];

/// The tables of a room, step by step.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// How a PostgreSQL session enters the room's own schema, making it when absent.
    pub postgres_enter: &'static str,
    /// In order of version, from 1 without holes.
    pub migrations: &'static [Migration],
    /// Where the rows of each table lie on a Citus cluster; empty for a room that can't be there.
    pub distribution: Distribution,
}

/// One step, the same tables on both databases.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// 1, 2, 3, …
    pub version: i64,
    /// A word for people.
    pub name: &'static str,
    /// What it does, with marks where the databases differ. It can't be changed once released:
    /// databases keep the checksums of what was made from it.
    pub ddl: &'static str,
}

/// Where the rows of a table are, in Citus' words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TablePlacement {
    /// Spread by this column. All tables of a room that are spread by a column of the same meaning
    /// lie together.
    DistributedBy(&'static str),
    /// A reference table: whole on every node.
    Reference,
    /// On the coordinator alone.
    Local,
}

/// Every table of a room, with where its rows are to be.
pub type Distribution = &'static [(&'static str, TablePlacement)];

impl Schema {
    /// The names of its tables' keys, and what SQLite calls them.
    pub fn index_names(&self) -> IndexNames {
        IndexNames::of(self.migrations.iter().map(|migration| migration.text(Backend::Sqlite)))
    }

    /// The checksums of all migrations as databases keep them, for SQLite and for PostgreSQL.
    pub fn checksums(&self) -> Vec<[String; 2]> {
        let both = |migration: &Migration| {
            [Backend::Sqlite, Backend::Postgres].map(|backend| migration.checksum_hex(backend))
        };
        self.migrations.iter().map(both).collect()
    }
}

impl Migration {
    /// The text that this database runs.
    pub fn text(&self, backend: Backend) -> String {
        DIALECT_MARKS.iter().fold(self.ddl.to_owned(), |text, (mark, sqlite, postgres)| {
            let plain = match backend {
                Backend::Sqlite => sqlite,
                Backend::Postgres => postgres,
            };
            text.replace(mark, plain)
        })
    }

    pub(crate) fn checksum_hex(&self, backend: Backend) -> String {
        hex(&Sha256::digest(self.text(backend)))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_declaration_gives_both_dialects() {
        let ddl = "CREATE TABLE a (mark {bytes}){without_rowid}; CREATE TABLE b (){fillfactor_80};";
        let migration = Migration { version: 1, name: "marks", ddl };
        let sqlite = "CREATE TABLE a (mark BLOB) WITHOUT ROWID; CREATE TABLE b ();";
        let postgres = "CREATE TABLE a (mark BYTEA); CREATE TABLE b () WITH (fillfactor = 80);";
        assert_eq!(migration.text(Backend::Sqlite), sqlite);
        assert_eq!(migration.text(Backend::Postgres), postgres);
    }
}
