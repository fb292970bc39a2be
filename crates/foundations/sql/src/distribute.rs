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
    door::Options,
    error::{OpenError, SqlError},
    schema::{self, Schema},
    url::Url,
};

/// Where the rows of a table are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Spread by this column. All tables of a room that are spread by a column of the same meaning
    /// lie together.
    By(&'static str),
    /// Whole on every node.
    Everywhere,
    /// On the coordinator alone.
    Here,
}

/// Every table of a room, with where its rows are to be.
pub type Distribution = &'static [(&'static str, Spread)];

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
    #[error("{0} is no PostgreSQL database; nothing was changed")]
    NotPostgres(Url),
    /// The database can't be opened, or belongs to another room or release.
    #[error("the database can't be distributed: {0}; nothing was changed")]
    Open(OpenError),
    /// The room was never opened there, or by an earlier release.
    #[error(
        "the database is at schema version {found} and not at {known}; open the room once with \
         this program, nothing was changed"
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
pub fn statements(schema: &Schema, distribution: Distribution) -> Vec<String> {
    let keys = foreign_keys(schema);
    let mut found = vec!["SET LOCAL citus.multi_shard_modify_mode TO 'sequential'".to_owned()];
    let drop = |key: &ForeignKey| format!("ALTER TABLE {} DROP CONSTRAINT {}", key.table, key.name);
    found.extend(keys.iter().map(drop));
    let everywhere = distribution.iter().filter(|(_, spread)| *spread == Spread::Everywhere);
    found.extend(everywhere.map(|(table, _)| format!("SELECT create_reference_table('{table}')")));
    let mut first = None;
    for (table, spread) in distribution {
        if let Spread::By(column) = spread {
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
pub fn distribute(
    url: &Url,
    schema: &Schema,
    distribution: Distribution,
) -> Result<(), DistributeError> {
    if matches!(url, Url::Sqlite(_)) {
        return Err(DistributeError::NotPostgres(url.clone()));
    }
    // A thread of its own, since a client must not be touched on an async thread.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| distribute_here(url, schema, distribution));
        thread.join().unwrap_or_else(|_| Err(failed("the thread", SqlError::Closed)))
    })
}

fn distribute_here(
    url: &Url,
    schema: &Schema,
    distribution: Distribution,
) -> Result<(), DistributeError> {
    let options = Options::default();
    let closed = |source| DistributeError::Open(OpenError::Connect { url: url.clone(), source });
    let mut connection = Connection::open(url, schema.postgres_enter, options).map_err(closed)?;
    connection.begin_write(Instant::now() + options.turn).map_err(closed)?;
    let found = schema::applied(&mut connection, url, schema).map_err(DistributeError::Open)?;
    let known = schema.migrations.len();
    if found < known {
        return Err(DistributeError::Older { found, known });
    }
    for statement in statements(schema, distribution) {
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
    let tables = schema.migrations.iter().flat_map(|migration| tables(migration.postgres));
    tables
        .flat_map(|(table, parts)| {
            parts.into_iter().filter_map(move |part| foreign_key(&table, &part))
        })
        .collect()
}

/// The tables that a text makes, each with its columns and constraints.
fn tables(text: &str) -> Vec<(String, Vec<String>)> {
    let plain: Vec<&str> =
        text.lines().map(|line| line.split("--").next().unwrap_or_default().trim()).collect();
    let plain = plain.join(" ");
    let made = plain.split("CREATE TABLE ").skip(1);
    let made = made.filter_map(|rest| {
        let (name, rest) = rest.split_once('(')?;
        Some((name.trim().to_owned(), parts(rest)))
    });
    made.collect()
}

/// What stands between the commas of the outermost brackets, up to their end.
fn parts(text: &str) -> Vec<String> {
    let (mut found, mut part, mut level) = (Vec::new(), String::new(), 0_u32);
    for letter in text.chars() {
        match (letter, level) {
            (')', 0) => break,
            (',', 0) => found.push(std::mem::take(&mut part)),
            _ => {
                level = match letter {
                    '(' => level + 1,
                    ')' => level.saturating_sub(1),
                    _ => level,
                };
                part.push(letter);
            }
        }
    }
    found.push(part);
    found.iter().map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
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
pub fn forgotten(schema: &Schema, distribution: Distribution) -> Vec<String> {
    let texts = schema.migrations.iter().flat_map(|migration| tables(migration.postgres));
    let known: Vec<String> = texts.map(|(name, _)| name).collect();
    let listed = |name: &str| distribution.iter().any(|(table, _)| *table == name);
    let absent = known.iter().filter(|name| !listed(name)).cloned();
    let besides = distribution.iter().map(|(table, _)| (*table).to_owned());
    absent.chain(besides.filter(|table| !known.contains(table))).collect()
}
