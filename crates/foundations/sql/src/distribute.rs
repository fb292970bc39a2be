//! Spreading a room's tables over the nodes of a Citus cluster.
//!
//! Citus distributes a table only while no foreign key of another table leads to it, and takes
//! foreign keys of distributed tables one by one. So all foreign keys are dropped first, the tables
//! are distributed, and the same foreign keys are added again. They are read from the text of the
//! migrations, the only place that knows them.
//!
//! Here, as in [`crate::copy`], statements are made at run time, from a schema's own names.

use std::time::Instant;

use crate::{
    connection::Connection,
    ddl::tables,
    error::{OpenError, SqlError},
    migrate,
    options::Options,
    schema::{Schema, TablePlacement},
    url::{Backend, Url},
};

/// A foreign key, as the migrations have it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ForeignKey {
    table: String,
    name: String,
    /// From `FOREIGN KEY` on.
    text: String,
}

/// Why nothing was distributed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DistributeError {
    /// Only PostgreSQL can have Citus.
    #[error("{0} is not a PostgreSQL database; nothing was changed")]
    NotPostgres(Url),
    /// The database can't be opened, or belongs to another room or release.
    #[error("the database can't be distributed: {0}; nothing was changed")]
    Open(OpenError),
    /// The room was never opened there, or by an earlier release.
    #[error(
        "the database is at schema version {found}, not {known}; open the room once with this \
         program; nothing was changed"
    )]
    Older {
        /// Its version.
        found: usize,
        /// The version it must have.
        known: usize,
    },
    /// A statement failed.
    #[error("`{statement}` failed: {source}; everything was undone")]
    Failed {
        /// Which.
        statement: String,
        /// What the database said.
        source: SqlError,
    },
}

/// The statements that distribute a room's tables, in order, for one transaction.
pub fn statements(schema: &Schema) -> Vec<String> {
    let keys = foreign_keys(schema);
    // Foreign keys to reference tables: Citus refuses to work on these over parallel connections.
    let mut found = vec!["SET LOCAL citus.multi_shard_modify_mode TO 'sequential'".to_owned()];
    let drop = |key: &ForeignKey| format!("ALTER TABLE {} DROP CONSTRAINT {}", key.table, key.name);
    found.extend(keys.iter().map(drop));
    let everywhere =
        schema.distribution.iter().filter(|(_, place)| *place == TablePlacement::Reference);
    found.extend(everywhere.map(|(table, _)| format!("SELECT create_reference_table('{table}')")));
    let mut first = None;
    for (table, place) in schema.distribution {
        if let TablePlacement::DistributedBy(column) = place {
            // Foreign keys and joins of distributed tables need their shards on the same node.
            let beside = *first.get_or_insert(*table);
            let beside = if beside == *table { "none" } else { beside };
            found.push(format!(
                "SELECT create_distributed_table('{table}', '{column}', colocate_with => '{beside}')"
            ));
        }
    }
    let add = |key: &ForeignKey| {
        format!("ALTER TABLE {} ADD CONSTRAINT {} {}", key.table, key.name, key.text)
    };
    found.extend(keys.iter().map(add));
    found
}

/// Runs them in one transaction.
///
/// # Errors
///
/// [`DistributeError`]; nothing is changed then.
pub fn distribute(url: &Url, schema: &Schema) -> Result<(), DistributeError> {
    if matches!(url, Url::Sqlite(_)) {
        return Err(DistributeError::NotPostgres(url.clone()));
    }
    // A thread of its own, since a client must not be touched on an async thread.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| distribute_here(url, schema));
        thread.join().unwrap_or_else(|_| Err(failed("the thread", SqlError::Closed)))
    })
}

fn distribute_here(url: &Url, schema: &Schema) -> Result<(), DistributeError> {
    let options = Options::default();
    let closed = |source| DistributeError::Open(OpenError::Connect { url: url.clone(), source });
    let mut connection = Connection::open(url, schema, options).map_err(closed)?;
    connection.begin_write(Instant::now() + options.turn).map_err(closed)?;
    let found = migrate::applied(&mut connection, url, schema).map_err(DistributeError::Open)?;
    let known = schema.migrations.len();
    if found < known {
        return Err(DistributeError::Older { found, known });
    }
    for statement in statements(schema) {
        // The connection is dropped on failure, which undoes everything.
        let done = connection.run_text(&statement);
        done.map_err(|source| failed(&statement, source))?;
    }
    connection.commit().map_err(|source| failed("COMMIT", source))
}

fn failed(statement: &str, source: SqlError) -> DistributeError {
    DistributeError::Failed { statement: statement.to_owned(), source }
}

/// The foreign keys of all migrations, under the names that PostgreSQL gives them.
fn foreign_keys(schema: &Schema) -> Vec<ForeignKey> {
    postgres_tables(schema)
        .flat_map(|(table, parts)| {
            parts.into_iter().filter_map(move |part| foreign_key(&table, &part))
        })
        .collect()
}

/// The tables that are there after all migrations.
fn postgres_tables(schema: &Schema) -> impl Iterator<Item = (String, Vec<String>)> {
    let texts = schema.migrations.iter().map(|migration| migration.text(Backend::Postgres));
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for text in texts {
        found.extend(tables(&text));
        let gone: Vec<&str> = text.lines().filter_map(dropped).collect();
        found.retain(|(name, _)| !gone.contains(&name.as_str()));
    }
    found.into_iter()
}

fn dropped(line: &str) -> Option<&str> {
    line.trim().strip_prefix("DROP TABLE ")?.strip_suffix(';')
}

fn foreign_key(table: &str, part: &str) -> Option<ForeignKey> {
    let (before, after) = part.split_once("REFERENCES")?;
    let table = table.to_owned();
    if let Some(rest) = before.strip_prefix("CONSTRAINT ") {
        let (name, columns) = rest.split_once(' ')?;
        let text = format!("{columns}REFERENCES{after}");
        return Some(ForeignKey { table, name: name.to_owned(), text });
    }
    let column = before.split_whitespace().next()?;
    let name = format!("{table}_{column}_fkey");
    let text = format!("FOREIGN KEY ({column}) REFERENCES{after}");
    Some(ForeignKey { table, name, text })
}

/// Tables of the migrations that a distribution forgets, or that it has besides.
pub fn forgotten(schema: &Schema) -> Vec<String> {
    let known: Vec<String> = postgres_tables(schema).map(|(name, _)| name).collect();
    let listed = |name: &str| schema.distribution.iter().any(|(table, _)| *table == name);
    let absent = known.iter().filter(|name| !listed(name)).cloned();
    let besides = schema.distribution.iter().map(|(table, _)| (*table).to_owned());
    absent.chain(besides.filter(|table| !known.contains(table))).collect()
}
