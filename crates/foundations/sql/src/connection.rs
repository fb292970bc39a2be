//! One connection and the transaction that runs on it.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use crate::{
    error::{Failure, SqlError},
    explain::PlanHook,
    options::Options,
    postgres_side::PostgresSide,
    schema::Schema,
    sqlite_side::SqliteSide,
    url::{Backend, Url},
    value::{Arg, Column, Row, Value, rows_served},
};

/// A statement over many rows: scalars come first, then one argument per column.
///
/// On SQLite the text speaks of one row and is run once for each; on PostgreSQL the columns arrive
/// as arrays to be unnested, in one round trip.
#[derive(Clone, Copy, Debug)]
pub struct BulkStatement {
    /// Text for one row.
    pub sqlite: &'static str,
    /// Text for all rows at once.
    pub postgres: &'static str,
}

impl BulkStatement {
    fn text(self, backend: Backend) -> &'static str {
        match backend {
            Backend::Sqlite => self.sqlite,
            Backend::Postgres => self.postgres,
        }
    }
}

pub(crate) enum Connection {
    Sqlite(Box<SqliteSide>),
    Postgres(Box<PostgresSide>),
}

impl Connection {
    pub(crate) fn open(url: &Url, schema: &Schema, options: Options) -> Result<Self, SqlError> {
        Ok(match url {
            Url::Sqlite(path) => Self::Sqlite(Box::new(SqliteSide::open(path, schema, options)?)),
            Url::Postgres(text) => {
                let side = PostgresSide::open(text, schema.postgres_enter, options.busy)?;
                Self::Postgres(Box::new(side))
            }
        })
    }

    pub(crate) fn backend(&self) -> Backend {
        match self {
            Self::Sqlite(_) => Backend::Sqlite,
            Self::Postgres(_) => Backend::Postgres,
        }
    }

    pub(crate) fn run_script(&mut self, text: &str) -> Result<(), SqlError> {
        match self {
            Self::Sqlite(side) => side.script(text),
            Self::Postgres(side) => side.script(text),
        }
    }

    /// Begins to write. Only SQLite has a queue in which to wait, at most until then.
    pub(crate) fn begin_write(&mut self, until: Instant) -> Result<(), SqlError> {
        match self {
            Self::Sqlite(side) => side.begin_write(until),
            Self::Postgres(side) => side.begin("BEGIN ISOLATION LEVEL READ COMMITTED"),
        }
    }

    pub(crate) fn begin_read(&mut self) -> Result<(), SqlError> {
        match self {
            // Takes no lock: in WAL a reader never waits for a writer, nor a writer for a reader.
            Self::Sqlite(side) => side.script("BEGIN DEFERRED"),
            // READ COMMITTED gives each statement a moment of its own, and one answer takes
            // several.
            Self::Postgres(side) => side.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        }
    }

    pub(crate) fn commit(&mut self) -> Result<(), SqlError> {
        match self {
            Self::Sqlite(side) => side.commit(),
            Self::Postgres(side) => side.commit(),
        }
    }

    pub(crate) fn rollback(&mut self) -> Result<(), SqlError> {
        match self {
            Self::Sqlite(side) => side.rollback(),
            Self::Postgres(side) => side.script("ROLLBACK"),
        }
    }
}

/// Part of a transaction that may be undone alone.
impl Connection {
    fn control(&mut self, sql: &'static str) -> Result<(), SqlError> {
        match self {
            Self::Sqlite(side) => side.execute(sql, &[]).map(|_| ()),
            Self::Postgres(side) => side.script(sql),
        }
    }

    fn roll_back_to(&mut self, sql: &'static str) -> Result<(), SqlError> {
        match self {
            Self::Sqlite(side) => side.execute(sql, &[]).map(|_| ()),
            Self::Postgres(side) => side.roll_back_to(sql),
        }
    }

    pub(crate) fn savepoint(&mut self) -> Result<(), SqlError> {
        self.control("SAVEPOINT request")
    }

    pub(crate) fn release(&mut self) -> Result<(), SqlError> {
        self.control("RELEASE SAVEPOINT request")
    }

    pub(crate) fn undo(&mut self) -> Result<(), SqlError> {
        self.roll_back_to("ROLLBACK TO SAVEPOINT request")?;
        // Going back leaves the savepoint itself in place: one more would pile up with each
        // request.
        self.release()
    }

    /// A statement made at run time whose answer nobody wants; on PostgreSQL alone.
    pub(crate) fn run_text(&mut self, text: &str) -> Result<(), SqlError> {
        match self {
            Self::Sqlite(_) => Err(SqlError::Other("this is for PostgreSQL".into())),
            Self::Postgres(side) => side.script(text),
        }
    }

    /// A statement made at run time.
    pub(crate) fn query_text(
        &mut self,
        text: &str,
        args: &[Arg<'_>],
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        match self {
            Self::Sqlite(side) => side.query_text(text, args),
            Self::Postgres(side) => side.query_text(text, args),
        }
    }

    /// Some errors make SQLite roll back by itself, others leave PostgreSQL nothing to commit.
    pub(crate) fn is_in_transaction(&self) -> bool {
        match self {
            Self::Sqlite(side) => side.is_in_transaction(),
            Self::Postgres(side) => side.is_in_transaction(),
        }
    }
}

/// An open transaction. What it did stands only if the closure that got it returns `Ok`.
pub struct Tx<'c> {
    connection: &'c mut Connection,
    sent: &'c AtomicU64,
    after_unclear_commit: bool,
    on_plan: Option<PlanHook>,
}

impl<'c> Tx<'c> {
    pub(crate) fn new(
        connection: &'c mut Connection,
        sent: &'c AtomicU64,
        after_unclear_commit: bool,
    ) -> Self {
        Self { connection, sent, after_unclear_commit, on_plan: None }
    }

    /// Every statement passes here, so that [`crate::Door::statements`] misses none.
    fn sending(&mut self) -> &mut Connection {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.connection
    }

    /// Tells somebody how each statement is going to be run.
    pub(crate) fn explained_to(self, on_plan: Option<PlanHook>) -> Self {
        Self { on_plan, ..self }
    }

    fn explain(
        &mut self,
        sql: &'static str,
        scalars: &[Arg<'_>],
        columns: &[Column],
    ) -> Result<(), SqlError> {
        let Some(tell) = self.on_plan else { return Ok(()) };
        let plan = match self.connection {
            Connection::Sqlite(side) => side.plan(sql, scalars, columns),
            Connection::Postgres(side) => side.plan(sql, scalars, columns),
        };
        tell(sql, &plan?);
        Ok(())
    }

    /// Whether an earlier run of this closure may already have been committed. A closure whose
    /// repetition would do something twice looks for its own traces first.
    pub fn after_unclear_commit(&self) -> bool {
        self.after_unclear_commit
    }

    /// Which database this is. Only statements that can't be shared need to ask.
    pub fn backend(&self) -> Backend {
        self.connection.backend()
    }

    /// Runs a statement and counts the rows it changed.
    ///
    /// # Errors
    ///
    /// Whatever the database says; the closure should pass it on.
    pub fn execute(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<u64, SqlError> {
        self.explain(sql, args, &[])?;
        match self.sending() {
            Connection::Sqlite(side) => side.execute(sql, args),
            Connection::Postgres(side) => side.execute(sql, args),
        }
    }

    /// Runs a statement and returns its rows.
    ///
    /// # Errors
    ///
    /// As for [`Tx::execute`].
    pub fn query(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<Vec<Row>, SqlError> {
        self.explain(sql, args, &[])?;
        match self.sending() {
            Connection::Sqlite(side) => {
                let mut rows = Vec::new();
                side.query_into(sql, args, &mut rows)?;
                Ok(rows)
            }
            Connection::Postgres(side) => side.query(sql, args),
        }
    }

    /// The first row, if there is one.
    ///
    /// # Errors
    ///
    /// As for [`Tx::execute`].
    pub fn maybe(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<Option<Row>, SqlError> {
        Ok(self.query(sql, args)?.into_iter().next())
    }

    /// The one row a statement always returns.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when there is none.
    pub fn one(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<Row, SqlError> {
        let row = self.maybe(sql, args)?;
        row.ok_or_else(|| SqlError::Damaged { what: format!("no row for: {sql}") })
    }

    /// Reads for a whole set of keys. Rows come in no promised order.
    ///
    /// # Errors
    ///
    /// As for [`Tx::execute`]; [`SqlError::UnevenColumns`].
    pub fn query_set(
        &mut self,
        set: BulkStatement,
        scalars: &[Arg<'_>],
        columns: &[Column],
    ) -> Result<Vec<Row>, SqlError> {
        if rows_served(columns)? == 0 {
            // Without rows PostgreSQL would still be asked, and answer nothing.
            return Ok(Vec::new());
        }
        self.explain(set.text(self.backend()), scalars, columns)?;
        match self.sending() {
            Connection::Sqlite(side) => side.query_set(set.sqlite, scalars, columns),
            Connection::Postgres(side) => side.query_set(set.postgres, scalars, columns),
        }
    }

    /// Runs a statement of PostgreSQL's over several arrays. They may differ in length, since its
    /// parts may each write a table of their own: the caller answers for those of one part.
    ///
    /// # Errors
    ///
    /// As for [`Tx::execute`]; SQLite has no arrays and refuses.
    pub fn query_columns(
        &mut self,
        sql: &'static str,
        columns: &[Column],
    ) -> Result<Vec<Row>, SqlError> {
        self.explain(sql, &[], columns)?;
        match self.sending() {
            Connection::Sqlite(_) => Err(SqlError::Other("SQLite has no arrays".into())),
            Connection::Postgres(side) => side.query_set(sql, &[], columns),
        }
    }

    /// Writes a whole set of rows and counts those changed.
    ///
    /// # Errors
    ///
    /// As for [`Tx::execute`]; [`SqlError::UnevenColumns`].
    pub fn execute_set(
        &mut self,
        set: BulkStatement,
        scalars: &[Arg<'_>],
        columns: &[Column],
    ) -> Result<u64, SqlError> {
        if rows_served(columns)? == 0 {
            return Ok(0);
        }
        self.explain(set.text(self.backend()), scalars, columns)?;
        match self.sending() {
            Connection::Sqlite(side) => side.execute_set(set.sqlite, scalars, columns),
            Connection::Postgres(side) => side.execute_set(set.postgres, scalars, columns),
        }
    }

    /// Runs several statements that take no arguments.
    ///
    /// # Errors
    ///
    /// As for [`Tx::execute`].
    pub fn script(&mut self, text: &'static str) -> Result<(), SqlError> {
        self.sending().run_script(text)
    }

    /// As [`Tx::script`], for what is made from a migration's declaration.
    pub(crate) fn migration(&mut self, text: &str) -> Result<(), SqlError> {
        self.sending().run_script(text)
    }

    /// Runs `work` so that its failure undoes what it did and nothing else of the transaction.
    ///
    /// # Errors
    ///
    /// The outer error is one that makes the whole transaction void: a connection that broke, a
    /// server that wants all of it again. Pass it on. The inner result is what `work` said.
    pub fn apart<T, E: Failure>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<Result<T, E>, E> {
        self.connection.control("SAVEPOINT apart")?;
        let result = work(self);
        match result.as_ref().err().map(|error| error.sql().is_some_and(SqlError::is_retryable)) {
            None => self.connection.control("RELEASE SAVEPOINT apart")?,
            Some(true) => return result.map(Ok),
            Some(false) => {
                self.connection.roll_back_to("ROLLBACK TO SAVEPOINT apart")?;
                self.connection.control("RELEASE SAVEPOINT apart")?;
            }
        }
        Ok(result)
    }
}
