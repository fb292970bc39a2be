//! SQLite: one file, WAL, foreign keys on, every commit on the disk.
//!
//! `$n` becomes `?n`, since SQLite numbers `$n` by appearance; a trailing `FOR UPDATE` goes, since
//! `BEGIN IMMEDIATE` already keeps other writers out. Before it a writer waits for its turn, and so
//! does whoever opens or closes the file: the first to open turns it to WAL, the last to close ends
//! the WAL, and both need the file alone.
//!
//! Two comments, which PostgreSQL passes over, pin a plan here, where nobody ever gathers
//! statistics: `JOIN /*then*/` becomes `CROSS JOIN`, so that what stands on the left comes first,
//! and `/*by NAME*/` becomes `INDEXED BY NAME`. A key of a table goes by the name that its
//! declaration gives it, for which SQLite has a private one.

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant},
};

use rusqlite::{
    ErrorCode, OpenFlags, ToSql,
    config::DbConfig,
    types::{ToSqlOutput, ValueRef},
};

use crate::{
    ddl::IndexNames,
    error::SqlError,
    options::Options,
    schema::Schema,
    turn::WriterQueue,
    value::{Arg, Column, ColumnNames, Row, Value, rows_served},
};

/// Bytes of a SQLite database that are in use: the log left out, and pages that are free.
pub const SQLITE_BYTES: &str = "SELECT (c.page_count - f.freelist_count) * s.page_size AS bytes
    FROM pragma_page_count c, pragma_freelist_count f, pragma_page_size s";
/// How long a copy waits for a writer.
const COPY_BUSY: Duration = Duration::from_secs(5);

/// Copies a SQLite database as it stands at one moment into a file that must not be there yet.
/// Others may go on reading and writing meanwhile.
///
/// # Errors
///
/// [`SqlError`]; what was begun of the copy is of no use then.
pub fn copy_sqlite(from: &Path, to: &Path) -> Result<(), SqlError> {
    let connection = rusqlite::Connection::open(from).map_err(explain)?;
    connection.busy_timeout(COPY_BUSY).map_err(explain)?;
    let name = to.to_str().ok_or_else(|| SqlError::Other("the path is not valid UTF-8".into()))?;
    connection.execute("VACUUM INTO ?1", [name]).map_err(explain)?;
    let copy = std::fs::File::open(to).map_err(|error| SqlError::Other(error.to_string()))?;
    copy.sync_all().map_err(|error| SqlError::Other(error.to_string()))
}

/// The newest migration that is written down in a SQLite file; 0 in one that is absent or has none.
pub(crate) fn sqlite_version(file: &Path) -> Result<i64, SqlError> {
    if !file.exists() {
        return Ok(0);
    }
    // Not to be made, should it go meanwhile; a log that a crash left must be written to.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = rusqlite::Connection::open_with_flags(file, flags).map_err(explain)?;
    connection.busy_timeout(COPY_BUSY).map_err(explain)?;
    let has_ledger = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'schema_migrations'";
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(explain);
    if number(has_ledger)? == 0 {
        return Ok(0);
    }
    number("SELECT COALESCE(MAX(version), 0) FROM schema_migrations")
}

/// Statements kept prepared.
const CACHED_STATEMENTS: usize = 256;

pub(crate) struct SqliteSide {
    // Closed before the turn is given back.
    connection: rusqlite::Connection,
    known: HashMap<&'static str, KnownStatement>,
    indexes: IndexNames,
    queue: WriterQueue,
    busy: Duration,
}

/// How long an opener sleeps before it tries again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The log is carried over into the file when it holds so many pages (32 MB), not already after
/// 1,000 as SQLite proposes: names are random, so the same pages of their index are written with
/// every commit, and need to be carried over once.
const SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
    PRAGMA wal_autocheckpoint = 8000; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; \
    PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY;";

/// Turning a new file to WAL needs it alone, and SQLite doesn't wait for that by itself. Ours wait
/// for their turn; this is for other programs.
fn settle(connection: &rusqlite::Connection, busy: Duration) -> Result<(), SqlError> {
    let since = Instant::now();
    loop {
        match connection.execute_batch(SETTINGS).map_err(explain) {
            Err(SqlError::Busy(_)) if since.elapsed() < busy => std::thread::sleep(LOOK_AGAIN),
            done => return done,
        }
    }
}

impl SqliteSide {
    pub(crate) fn open(path: &Path, schema: &Schema, options: Options) -> Result<Self, SqlError> {
        let mut queue = WriterQueue::open(path)?;
        queue.take(Instant::now() + options.turn)?;
        let connection = rusqlite::Connection::open(path).map_err(explain)?;
        connection.busy_timeout(options.busy).map_err(explain)?;
        connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        // Otherwise SQLite plans a statement anew when an argument that a partial index could
        // depend on has changed, which takes longer than running it.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(explain)?;
        settle(&connection, options.busy)?;
        queue.leave();
        let (known, indexes) = (HashMap::new(), schema.index_names());
        Ok(Self { connection, known, indexes, queue, busy: options.busy })
    }

    /// Begins to write when it is our turn.
    pub(crate) fn begin_write(&mut self, until: Instant) -> Result<(), SqlError> {
        self.queue.take(until)?;
        // A transaction that reads first and then wants to write is refused at once, without a
        // wait, when another has written since.
        let begun = self.script("BEGIN IMMEDIATE");
        if begun.is_err() {
            self.queue.leave();
        }
        begun
    }

    pub(crate) fn script(&mut self, text: &str) -> Result<(), SqlError> {
        self.connection.execute_batch(text).map_err(explain)
    }

    pub(crate) fn commit(&mut self) -> Result<(), SqlError> {
        // A commit that fails leaves the transaction open: the turn is kept until it is rolled
        // back.
        self.connection.execute_batch("COMMIT").map_err(explain)?;
        self.queue.leave();
        Ok(())
    }

    /// Some errors make SQLite roll back by itself.
    pub(crate) fn is_in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }

    pub(crate) fn rollback(&mut self) -> Result<(), SqlError> {
        if self.is_in_transaction() {
            self.connection.execute_batch("ROLLBACK").map_err(explain)?;
        }
        self.queue.leave();
        Ok(())
    }

    fn prepared(&mut self, sql: &'static str) -> Result<PreparedStatement<'_>, SqlError> {
        let known =
            self.known.entry(sql).or_insert_with(|| KnownStatement::new(sql, &self.indexes));
        let statement = self.connection.prepare_cached(&known.text).map_err(explain)?;
        let names = known.names.get_or_insert_with(|| ColumnNames::new(statement.column_names()));
        Ok(PreparedStatement { names: names.clone(), statement })
    }

    pub(crate) fn execute(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<u64, SqlError> {
        let mut statement = self.prepared(sql)?.statement;
        let changed = statement.execute(rusqlite::params_from_iter(args)).map_err(explain)?;
        Ok(changed as u64)
    }

    pub(crate) fn query_into(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
        into: &mut Vec<Row>,
    ) -> Result<(), SqlError> {
        self.prepared(sql)?.collect(args.iter().copied(), into)
    }

    /// A statement made at run time.
    pub(crate) fn query_text(
        &mut self,
        text: &str,
        args: &[Arg<'_>],
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let statement = self.connection.prepare_cached(text).map_err(explain)?;
        let names = ColumnNames::new(statement.column_names());
        let mut rows = Vec::new();
        PreparedStatement { names, statement }.collect(args.iter().copied(), &mut rows)?;
        Ok(rows.into_iter().map(Row::into_values).collect())
    }

    pub(crate) fn query_set(
        &mut self,
        sql: &'static str,
        scalars: &[Arg<'_>],
        columns: &[Column],
    ) -> Result<Vec<Row>, SqlError> {
        let mut prepared = self.prepared(sql)?;
        let mut rows = Vec::new();
        let mut args = Vec::with_capacity(scalars.len() + columns.len());
        for row in 0..rows_served(columns)? {
            args_of(row, scalars, columns, &mut args)?;
            prepared.collect(args.iter().copied(), &mut rows)?;
        }
        Ok(rows)
    }

    /// How a statement is going to be run, as `EXPLAIN QUERY PLAN` tells it.
    pub(crate) fn plan(
        &mut self,
        sql: &str,
        scalars: &[Arg<'_>],
        columns: &[Column],
    ) -> Result<String, SqlError> {
        let text = format!("EXPLAIN QUERY PLAN {}", rewrite(sql, &self.indexes));
        let mut statement = self.connection.prepare(&text).map_err(explain)?;
        let mut args = Vec::new();
        args_of(0, scalars, columns, &mut args)?;
        let rows = statement.query_map(rusqlite::params_from_iter(&args), |row| row.get("detail"));
        let lines: Result<Vec<String>, _> = rows.map_err(explain)?.collect();
        Ok(lines.map_err(explain)?.join("\n"))
    }

    pub(crate) fn execute_set(
        &mut self,
        sql: &'static str,
        scalars: &[Arg<'_>],
        columns: &[Column],
    ) -> Result<u64, SqlError> {
        let mut statement = self.prepared(sql)?.statement;
        let mut changed = 0;
        let mut args = Vec::with_capacity(scalars.len() + columns.len());
        for row in 0..rows_served(columns)? {
            args_of(row, scalars, columns, &mut args)?;
            changed += statement.execute(rusqlite::params_from_iter(&args)).map_err(explain)?;
        }
        Ok(changed as u64)
    }
}

/// The arguments of one row, in a vector that is used again for the next.
fn args_of<'a>(
    row: usize,
    scalars: &[Arg<'a>],
    columns: &'a [Column],
    into: &mut Vec<Arg<'a>>,
) -> Result<(), SqlError> {
    into.clear();
    into.extend_from_slice(scalars);
    columns.iter().try_for_each(|column| {
        into.push(column.at(row)?);
        Ok(())
    })
}

impl Drop for SqliteSide {
    /// Who gets no turn closes all the same: then another one is there, and nothing ends.
    fn drop(&mut self) {
        let _ = self.queue.take(Instant::now() + self.busy);
    }
}

/// A statement as SQLite takes it, and the columns of its answers once it was prepared.
struct KnownStatement {
    text: String,
    names: Option<ColumnNames>,
}

impl KnownStatement {
    fn new(sql: &str, indexes: &IndexNames) -> Self {
        Self { text: rewrite(sql, indexes), names: None }
    }
}

struct PreparedStatement<'c> {
    statement: rusqlite::CachedStatement<'c>,
    names: ColumnNames,
}

impl PreparedStatement<'_> {
    fn collect<'a>(
        &mut self,
        args: impl Iterator<Item = Arg<'a>>,
        into: &mut Vec<Row>,
    ) -> Result<(), SqlError> {
        let width = self.statement.column_count();
        let mut rows = self.statement.query(rusqlite::params_from_iter(args)).map_err(explain)?;
        while let Some(row) = rows.next().map_err(explain)? {
            let mut values = Vec::with_capacity(width);
            for column in 0..width {
                values.push(value(row.get_ref(column).map_err(explain)?)?);
            }
            into.push(Row::new(self.names.clone(), values));
        }
        Ok(())
    }
}

pub(crate) fn value(stored: ValueRef<'_>) -> Result<Value, SqlError> {
    match stored {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(number) => Ok(Value::Int(number)),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::Text(text.to_owned())),
            Err(_) => Err(SqlError::Damaged { what: "text that is not valid UTF-8".into() }),
        },
        ValueRef::Blob(bytes) => Ok(Value::Blob(bytes.to_vec())),
        ValueRef::Real(_) => {
            Err(SqlError::Damaged { what: "a fraction where only whole numbers are stored".into() })
        }
    }
}

impl ToSql for Arg<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Arg::Int(number) => ValueRef::Integer(number),
            Arg::OptInt(number) => number.map_or(ValueRef::Null, ValueRef::Integer),
            Arg::Text(text) => ValueRef::Text(text.as_bytes()),
            Arg::OptText(text) => text.map_or(ValueRef::Null, |t| ValueRef::Text(t.as_bytes())),
            Arg::Blob(bytes) => ValueRef::Blob(bytes),
            Arg::OptBlob(bytes) => bytes.map_or(ValueRef::Null, ValueRef::Blob),
            Arg::Flag(flag) => ValueRef::Integer(i64::from(flag)),
        }))
    }
}

/// How PostgreSQL is asked for locks on rows; a writer of SQLite has the file.
const ROW_LOCKS: [&str; 3] = ["FOR NO KEY UPDATE", "FOR UPDATE", "FOR KEY SHARE"];

/// `$12` to `?12`, no `FOR UPDATE`, and the pins of a plan.
fn rewrite(sql: &str, indexes: &IndexNames) -> String {
    let text = sql.replace('$', "?").replace("JOIN /*then*/", "CROSS JOIN");
    let mut parts = text.split("/*by ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (index, rest) = part.split_once("*/").unwrap_or((part, ""));
        text.push_str("INDEXED BY ");
        text.push_str(indexes.on_sqlite(index));
        text.push_str(rest);
    }
    let lock = ROW_LOCKS.iter().find_map(|lock| text.trim_end().strip_suffix(lock));
    lock.map(str::to_owned).unwrap_or(text)
}

pub(crate) fn explain(error: rusqlite::Error) -> SqlError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => SqlError::Busy(text),
        Some(ErrorCode::ConstraintViolation) => SqlError::Constraint(text),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            SqlError::Damaged { what: text }
        }
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => SqlError::Disk(text),
        Some(ErrorCode::CannotOpen) => SqlError::Unavailable(text),
        _ => SqlError::Other(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(sql: &str) -> String {
        rewrite(sql, &IndexNames::default())
    }

    #[test]
    fn placeholders_keep_their_numbers_and_row_locks_go() {
        assert_eq!(rewritten("SELECT $2, $1, $12"), "SELECT ?2, ?1, ?12");
        assert_eq!(rewritten("SELECT a FROM t WHERE b = $1\n FOR UPDATE\n").trim_end(), {
            "SELECT a FROM t WHERE b = ?1"
        });
        for lock in ROW_LOCKS {
            assert_eq!(rewritten(&format!("SELECT 1 {lock}")), "SELECT 1 ");
        }
    }

    #[test]
    fn plans_are_pinned_by_comments() {
        let pinned = "SELECT 1 FROM a /*by ia*/ JOIN /*then*/ b /*by ib*/ ON b.x = a.x JOIN c";
        let text = "SELECT 1 FROM a INDEXED BY ia CROSS JOIN b INDEXED BY ib ON b.x = a.x JOIN c";
        assert_eq!(rewritten(pinned), text);
        assert_eq!(rewritten("SELECT /* kept */ 1"), "SELECT /* kept */ 1");
    }

    #[test]
    fn a_key_is_named_as_it_was_declared() {
        let ddl = "CREATE TABLE cups (id BIGINT, CONSTRAINT uidx_cups_id UNIQUE (id));";
        let text = "SELECT 1 FROM cups /*by uidx_cups_id*/ WHERE id = $1";
        let plain = "SELECT 1 FROM cups INDEXED BY sqlite_autoindex_cups_1 WHERE id = ?1";
        assert_eq!(rewrite(text, &IndexNames::of([ddl.to_owned()])), plain);
    }
}
