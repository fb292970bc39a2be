//! All rows of a room from one database into another, SQLite or PostgreSQL.
//!
//! | module | keeps |
//! |---|---|
//! | `shape` | the tables of a schema, and the statements that read and write whole ones |
//!
//! The source is read as it stands at one moment; others may go on using it. Everything goes into
//! the target in one transaction, is read again there and compared row by row with the source, and
//! only then committed: the target is whole or as it was.
//!
//! Here alone statements are made at run time, from the names of a schema's own tables.

mod shape;

use std::time::Instant;

use sha2::{Digest as _, Sha256};

use self::shape::{TableShape, arg, tables};
use crate::{
    connection::Connection,
    error::{OpenError, SqlError},
    migrate,
    options::Options,
    schema::{Schema, hex},
    url::Url,
    value::Value,
};

/// Rows read and written at a time.
const ROWS: usize = 500;

/// A table that was copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopiedTable {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// SHA-256 of its rows in the order of their key, the same on both databases, as hex.
    pub sha256: String,
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug)]
pub struct CopyProgress<'a> {
    /// The table under way.
    pub table: &'a str,
    /// Rows of it so far.
    pub rows: u64,
    /// Whether they are being compared, after all were written.
    pub is_comparing: bool,
}

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// Both are the same database.
    #[error("source and target are the same database; nothing was copied")]
    Same,
    /// There is no such file.
    #[error("there is no database at {0}; nothing was copied")]
    Absent(Url),
    /// The source can't be read, or belongs to another room or release.
    #[error("the source can't be copied: {0}; nothing was copied")]
    Source(OpenError),
    /// The source is of an earlier release.
    #[error(
        "the source is at schema version {found}, not {known}; open it once with this program; \
         nothing was copied"
    )]
    Older {
        /// Its version.
        found: usize,
        /// The version it must have.
        known: usize,
    },
    /// The target can't be opened.
    #[error("the target can't be opened: {0}; nothing was copied")]
    Target(OpenError),
    /// The target is in use.
    #[error("the target's table {0} already holds rows; nothing was copied")]
    NotEmpty(String),
    /// What was written isn't what was read.
    #[error("after copying, table {table} differs at row {row}; the copy was undone")]
    Different {
        /// Which table.
        table: String,
        /// Counted from 1.
        row: u64,
    },
    /// A statement failed.
    #[error("table {table} can't be copied: {source}; the copy was undone")]
    Failed {
        /// Which table.
        table: String,
        /// What the database said.
        source: SqlError,
    },
    /// The transaction as a whole failed.
    #[error("the copy was refused: {0}")]
    Undone(SqlError),
}

/// Copies every table of `schema`. The target must be empty and is made when absent.
///
/// # Errors
///
/// [`CopyError`]; the target holds nothing then.
pub fn copy(
    from: &Url,
    to: &Url,
    schema: &Schema,
    tell: &mut (dyn FnMut(CopyProgress<'_>) + Send),
) -> Result<Vec<CopiedTable>, CopyError> {
    if from == to {
        return Err(CopyError::Same);
    }
    // A thread of its own, since a client must not be touched on an async thread.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| copy_here(from, to, schema, tell));
        thread.join().unwrap_or(Err(CopyError::Undone(SqlError::Closed)))
    })
}

fn copy_here(
    from: &Url,
    to: &Url,
    schema: &Schema,
    tell: &mut dyn FnMut(CopyProgress<'_>),
) -> Result<Vec<CopiedTable>, CopyError> {
    let options = Options::default();
    let tables = tables(schema).map_err(CopyError::Undone)?;
    let mut source = open_source(from, schema, options)?;
    let mut target = open_target(to, schema, options)?;
    let begun = target.begin_write(Instant::now() + options.turn);
    begun.map_err(CopyError::Undone)?;
    let mut copying = RowCopier { source: &mut source, target: &mut target, tell };
    match copying.all(&tables) {
        Ok(copied) => {
            target.commit().map_err(CopyError::Undone)?;
            Ok(copied)
        }
        Err(error) => {
            // The connection is dropped, which undoes it too.
            let _ = target.rollback();
            Err(error)
        }
    }
}

fn open_source(url: &Url, schema: &Schema, options: Options) -> Result<Connection, CopyError> {
    if matches!(url, Url::Sqlite(path) if !path.is_file()) {
        return Err(CopyError::Absent(url.clone()));
    }
    let failed = |source| CopyError::Source(OpenError::Connect { url: url.clone(), source });
    let mut connection = Connection::open(url, schema, options).map_err(failed)?;
    connection.begin_read().map_err(failed)?;
    let found = migrate::applied(&mut connection, url, schema).map_err(CopyError::Source)?;
    let known = schema.migrations.len();
    if found < known { Err(CopyError::Older { found, known }) } else { Ok(connection) }
}

fn open_target(url: &Url, schema: &Schema, options: Options) -> Result<Connection, CopyError> {
    let failed = |source| CopyError::Target(OpenError::Connect { url: url.clone(), source });
    let mut connection = Connection::open(url, schema, options).map_err(failed)?;
    let migrated = migrate::migrate(&mut connection, url, schema, options.turn);
    migrated.map_err(CopyError::Target)?;
    Ok(connection)
}

struct RowCopier<'a> {
    source: &'a mut Connection,
    target: &'a mut Connection,
    tell: &'a mut dyn FnMut(CopyProgress<'_>),
}

impl RowCopier<'_> {
    fn all(&mut self, tables: &[TableShape]) -> Result<Vec<CopiedTable>, CopyError> {
        for table in tables {
            self.must_be_empty(table)?;
        }
        // Backwards: rows that lean on others go before those.
        for table in tables.iter().rev().filter(|table| !table.born_with.is_empty()) {
            let emptied = self.target.query_text(&table.delete(), &[]);
            emptied.map_err(|source| failed(table, source))?;
        }
        for table in tables {
            self.write(table).map_err(|source| failed(table, source))?;
        }
        // From what the target gives back, not from what was sent: a driver may lose what a type
        // can't hold.
        tables.iter().map(|table| self.compare(table)).collect()
    }

    fn must_be_empty(&mut self, table: &TableShape) -> Result<(), CopyError> {
        let mut pages =
            RowPages::new(table, self.target).map_err(|source| failed(table, source))?;
        let rows = pages.next(self.target).map_err(|source| failed(table, source))?;
        pages.close(self.target).map_err(|source| failed(table, source))?;
        if rows == table.born_with { Ok(()) } else { Err(CopyError::NotEmpty(table.name.clone())) }
    }

    fn write(&mut self, table: &TableShape) -> Result<(), SqlError> {
        let mut pages = RowPages::new(table, self.source)?;
        let mut count = 0;
        loop {
            let rows = pages.next(self.source)?;
            if rows.is_empty() {
                return pages.close(self.source);
            }
            self.insert(table, &rows)?;
            count += rows.len() as u64;
            (self.tell)(CopyProgress { table: &table.name, rows: count, is_comparing: false });
        }
    }

    fn insert(&mut self, table: &TableShape, rows: &[Vec<Value>]) -> Result<(), SqlError> {
        match self.target {
            Connection::Sqlite(side) => {
                let text = table.insert();
                rows.iter().try_for_each(|row| {
                    let args: Vec<_> = row.iter().map(arg).collect();
                    side.query_text(&text, &args).map(|_| ())
                })
            }
            Connection::Postgres(side) => {
                side.execute_text(&table.insert_many(), &table.arrays(rows))
            }
        }
    }

    /// Reads both sides and sums up what they hold.
    fn compare(&mut self, table: &TableShape) -> Result<CopiedTable, CopyError> {
        let failed = |source| failed(table, source);
        let mut ours = RowPages::new(table, self.source).map_err(failed)?;
        let mut theirs = RowPages::new(table, self.target).map_err(failed)?;
        let (mut sum, mut count) = (Sha256::new(), 0);
        loop {
            let read = ours.next(self.source).map_err(failed)?;
            let written = theirs.next(self.target).map_err(failed)?;
            let same = read.iter().zip(&written).take_while(|(a, b)| a == b).count();
            if same != read.len() || same != written.len() {
                let (table, row) = (table.name.clone(), count + same as u64 + 1);
                return Err(CopyError::Different { table, row });
            }
            if read.is_empty() {
                break;
            }
            count += same as u64;
            read.iter().flatten().for_each(|value| add(&mut sum, value));
            (self.tell)(CopyProgress { table: &table.name, rows: count, is_comparing: true });
        }
        ours.close(self.source).map_err(failed)?;
        theirs.close(self.target).map_err(failed)?;
        let sha256 = hex(&sum.finalize());
        Ok(CopiedTable { name: table.name.clone(), rows: count, sha256 })
    }
}

fn failed(table: &TableShape, source: SqlError) -> CopyError {
    CopyError::Failed { table: table.name.clone(), source }
}

/// A value with its kind and length, so that no two rows have the same bytes.
fn add(sum: &mut Sha256, value: &Value) {
    let number;
    let (kind, bytes): (u8, &[u8]) = match value {
        Value::Null => (0, &[]),
        Value::Int(stored) => {
            number = stored.to_be_bytes();
            (1, &number)
        }
        Value::Text(text) => (2, text.as_bytes()),
        Value::Blob(bytes) => (3, bytes),
        Value::Flag(false) => (4, &[]),
        Value::Flag(true) => (5, &[]),
    };
    sum.update([kind]);
    sum.update((bytes.len() as u64).to_be_bytes());
    sum.update(bytes);
}

/// The rows of a table in the order of its key, page by page.
struct RowPages<'t> {
    table: &'t TableShape,
    after: Vec<Value>,
}

impl<'t> RowPages<'t> {
    fn new(table: &'t TableShape, connection: &mut Connection) -> Result<Self, SqlError> {
        if let Connection::Postgres(_) = connection {
            connection.query_text(&table.cursor(), &[])?;
        }
        Ok(Self { table, after: Vec::new() })
    }

    fn next(&mut self, connection: &mut Connection) -> Result<Vec<Vec<Value>>, SqlError> {
        let args: Vec<_> = self.after.iter().map(arg).collect();
        let rows = match connection {
            Connection::Sqlite(side) => {
                side.query_text(&self.table.page(args.is_empty(), ROWS), &args)?
            }
            Connection::Postgres(side) => {
                side.query_text(&format!("FETCH {ROWS} FROM copied"), &[])?
            }
        };
        let kinds = || self.table.columns.iter().map(|(_, kind)| *kind);
        let plain = |row: Vec<Value>| kinds().zip(row).map(|(kind, v)| kind.plain(v)).collect();
        let rows: Vec<Vec<Value>> = rows.into_iter().map(plain).collect();
        if let Some(last) = rows.last() {
            // By the last key, since an OFFSET reads all that it passes over once more for each
            // page.
            let key = self.table.key.iter().filter_map(|at| last.get(*at));
            self.after = key.cloned().collect();
        }
        Ok(rows)
    }

    fn close(self, connection: &mut Connection) -> Result<(), SqlError> {
        if let Connection::Postgres(_) = connection {
            connection.query_text("CLOSE copied", &[])?;
        }
        Ok(())
    }
}
