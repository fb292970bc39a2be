//! PostgreSQL: one client, statements prepared once, sets as arrays.
//!
//! Writes run at READ COMMITTED: whoever plans a change first locks the row it hangs on
//! (`FOR UPDATE`), and every later statement sees what was committed before the lock was given.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use postgres::{
    Client, Statement,
    error::SqlState,
    types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked},
};

use crate::{
    error::SqlError,
    tls::{ConnectError, TlsTerms, refusal},
    value::{Arg, Column, ColumnNames, Row, Value, rows_served},
};

/// One plan for every statement, whatever the tables hold and whether they were analysed: joins run
/// in the order in which they are written, row by row through indexes, as on SQLite. The planner's
/// own choice is wrong for as long as its statistics are, which on a new database, or for a wallet
/// that grows fast, is when it matters. Compiling (`jit`) takes longer than statements this short.
const SESSION: &str = "SET synchronous_commit = on; SET jit = off;
    SET plan_cache_mode = force_generic_plan;
    SET join_collapse_limit = 1; SET from_collapse_limit = 1;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
    SET enable_seqscan = off; SET enable_bitmapscan = off";

/// How old a plan may get, at first and at last.
const PLAN_AGE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(30)];

pub(crate) struct PostgresSide {
    client: Client,
    prepared: HashMap<&'static str, (Statement, ColumnNames)>,
    opened: Instant,
    planned: Instant,
    /// A statement of the transaction failed, so that its COMMIT would undo it, and without a word.
    has_failed: bool,
}

impl PostgresSide {
    pub(crate) fn open(url: &str, enter: &'static str, busy: Duration) -> Result<Self, SqlError> {
        let (url, terms) = TlsTerms::split(url)?;
        let mut config: postgres::Config = url.parse().map_err(explain)?;
        if config.get_connect_timeout().is_none() {
            // A host that answers nothing would hold the thread for as long as TCP tries.
            config.connect_timeout(busy.max(Duration::from_secs(1)));
        }
        let mut client = terms.connect(&config).map_err(unreachable)?;
        // Two sessions that create the same schema at once: the second try finds it.
        if client.batch_execute(enter).is_err() {
            client.batch_execute(enter).map_err(explain)?;
        }
        client.batch_execute(SESSION).map_err(explain)?;
        let limit = busy.as_millis().to_string();
        client
            .execute("SELECT set_config('lock_timeout', $1, false)", &[&limit])
            .map_err(explain)?;
        let (prepared, opened) = (HashMap::new(), Instant::now());
        Ok(Self { client, prepared, opened, planned: opened, has_failed: false })
    }

    pub(crate) fn script(&mut self, text: &str) -> Result<(), SqlError> {
        let done = self.client.batch_execute(text);
        self.noted(done)
    }

    /// Begins a transaction, with such a text.
    pub(crate) fn begin(&mut self, text: &'static str) -> Result<(), SqlError> {
        self.has_failed = false;
        self.forget_old_plans()?;
        self.script(text)
    }

    /// Which index a plan goes by was chosen for tables as long as they were then: of a table of
    /// one page any will do. So plans are made anew, ever more rarely, as tables grow ever more
    /// slowly.
    fn forget_old_plans(&mut self) -> Result<(), SqlError> {
        let [least, most] = PLAN_AGE;
        let limit = self.planned.duration_since(self.opened).clamp(least, most);
        if self.planned.elapsed() >= limit {
            self.script("DISCARD PLANS")?;
            self.planned = Instant::now();
        }
        Ok(())
    }

    /// Goes back to a savepoint, after which the transaction is whole again.
    pub(crate) fn roll_back_to(&mut self, text: &'static str) -> Result<(), SqlError> {
        self.script(text)?;
        self.has_failed = false;
        Ok(())
    }

    /// Whether there is something that could be committed.
    pub(crate) fn is_in_transaction(&self) -> bool {
        !self.has_failed
    }

    fn noted<T>(&mut self, result: Result<T, postgres::Error>) -> Result<T, SqlError> {
        self.has_failed |= result.is_err();
        result.map_err(explain)
    }

    /// A commit that broke off may have happened; a commit that was refused has not.
    pub(crate) fn commit(&mut self) -> Result<(), SqlError> {
        let Err(error) = self.client.batch_execute("COMMIT") else { return Ok(()) };
        let said = explain(error);
        if let SqlError::Unavailable(text) = said {
            return Err(SqlError::UnclearCommit(text));
        }
        Err(said)
    }

    fn statement(&mut self, sql: &'static str) -> Result<(Statement, ColumnNames), SqlError> {
        if let Some(found) = self.prepared.get(sql) {
            return Ok(found.clone());
        }
        let statement = self.client.prepare(sql);
        let statement = self.noted(statement)?;
        let names = ColumnNames::new(statement.columns().iter().map(postgres::Column::name));
        let made = (statement, names);
        // Texts are constants of the program, so this grows no further than there are statements.
        self.prepared.insert(sql, made.clone());
        Ok(made)
    }

    pub(crate) fn execute(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<u64, SqlError> {
        let (statement, _) = self.statement(sql)?;
        let done = self.client.execute(&statement, &scalars(args));
        self.noted(done)
    }

    pub(crate) fn query(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<Vec<Row>, SqlError> {
        let (statement, names) = self.statement(sql)?;
        let rows = self.client.query(&statement, &scalars(args));
        let rows = self.noted(rows)?;
        rows.iter().map(|stored| row(&names, stored)).collect()
    }

    /// A statement made at run time.
    pub(crate) fn query_text(
        &mut self,
        text: &str,
        args: &[Arg<'_>],
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let rows = self.client.query(text, &scalars(args));
        let rows = self.noted(rows)?;
        let names = ColumnNames::new([]);
        rows.iter().map(|stored| Ok(row(&names, stored)?.into_values())).collect()
    }

    /// A statement made at run time, over columns of arguments.
    pub(crate) fn execute_text(&mut self, text: &str, columns: &[Column]) -> Result<(), SqlError> {
        rows_served(columns)?;
        let all: Vec<_> = columns.iter().map(|column| column as &(dyn ToSql + Sync)).collect();
        let done = self.client.execute(text, &all);
        self.noted(done).map(|_| ())
    }

    pub(crate) fn query_set(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
        columns: &[Column],
    ) -> Result<Vec<Row>, SqlError> {
        let (statement, names) = self.statement(sql)?;
        let mut all = scalars(args);
        all.extend(columns.iter().map(|column| column as &(dyn ToSql + Sync)));
        let rows = self.client.query(&statement, &all);
        let rows = self.noted(rows)?;
        rows.iter().map(|stored| row(&names, stored)).collect()
    }

    /// How a statement is going to be run, as `EXPLAIN` tells it for these arguments.
    pub(crate) fn plan(
        &mut self,
        sql: &str,
        args: &[Arg<'_>],
        columns: &[Column],
    ) -> Result<String, SqlError> {
        let mut all = scalars(args);
        all.extend(columns.iter().map(|column| column as &(dyn ToSql + Sync)));
        let text = format!("EXPLAIN (COSTS OFF) {sql}");
        let rows = self.client.query(&text, &all).map_err(explain)?;
        let lines: Result<Vec<String>, _> = rows.iter().map(|row| row.try_get(0)).collect();
        Ok(lines.map_err(explain)?.join("\n"))
    }

    pub(crate) fn execute_set(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
        columns: &[Column],
    ) -> Result<u64, SqlError> {
        let (statement, _) = self.statement(sql)?;
        let mut all = scalars(args);
        all.extend(columns.iter().map(|column| column as &(dyn ToSql + Sync)));
        let done = self.client.execute(&statement, &all);
        self.noted(done)
    }
}

fn scalars<'a>(args: &'a [Arg<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    args.iter().map(|arg| arg as &(dyn ToSql + Sync)).collect()
}

type Encoded = Result<IsNull, Box<dyn std::error::Error + Sync + Send>>;

impl ToSql for Arg<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Encoded {
        match self {
            Self::Int(number) => number.to_sql(ty, out),
            Self::OptInt(number) => number.to_sql(ty, out),
            Self::Text(text) => text.to_sql(ty, out),
            Self::OptText(text) => text.to_sql(ty, out),
            Self::Blob(bytes) => bytes.to_sql(ty, out),
            Self::OptBlob(bytes) => bytes.to_sql(ty, out),
            Self::Flag(flag) => flag.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::VARCHAR, Type::BYTEA, Type::BOOL].contains(ty)
    }

    to_sql_checked!();
}

impl ToSql for Column {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Encoded {
        match self {
            Self::Ints(values) => values.to_sql(ty, out),
            Self::Texts(values) => values.to_sql(ty, out),
            Self::Blobs(values) => values.to_sql(ty, out),
            Self::Flags(values) => values.to_sql(ty, out),
            Self::Hashes(values) => {
                values.iter().map(<[u8; 32]>::as_slice).collect::<Vec<_>>().to_sql(ty, out)
            }
        }
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::BYTEA_ARRAY, Type::BOOL_ARRAY].contains(ty)
    }

    to_sql_checked!();
}

fn row(names: &ColumnNames, stored: &postgres::Row) -> Result<Row, SqlError> {
    let values = stored.columns().iter().enumerate().map(|(at, column)| {
        let value = match *column.type_() {
            Type::INT8 => stored.try_get::<_, Option<i64>>(at).map(|v| v.map(Value::Int)),
            Type::INT4 => {
                stored.try_get::<_, Option<i32>>(at).map(|v| v.map(|v| Value::Int(v.into())))
            }
            Type::BOOL => stored.try_get::<_, Option<bool>>(at).map(|v| v.map(Value::Flag)),
            Type::BYTEA => stored.try_get::<_, Option<Vec<u8>>>(at).map(|v| v.map(Value::Blob)),
            _ => stored.try_get::<_, Option<String>>(at).map(|v| v.map(Value::Text)),
        };
        value.map(|found| found.unwrap_or(Value::Null)).map_err(explain)
    });
    Ok(Row::new(names.clone(), values.collect::<Result<_, _>>()?))
}

fn unreachable(error: ConnectError) -> SqlError {
    let error = match error {
        ConnectError::Terms(error) => return error,
        ConnectError::Client(error) => error,
    };
    if let Some(refused) = refusal(&error) {
        return refused;
    }
    let said = explain(error);
    if let SqlError::Other(text) = said {
        return SqlError::Unavailable(text);
    }
    said
}

fn explain(error: postgres::Error) -> SqlError {
    let text = match error.as_db_error() {
        Some(said) => format!("{}: {}", said.code().code(), said.message()),
        None => with_cause(&error),
    };
    let Some(code) = error.code() else {
        let gone = error.is_closed() || std::error::Error::source(&error).is_some_and(is_io);
        return if gone { SqlError::Unavailable(text) } else { SqlError::Other(text) };
    };
    if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) {
        return SqlError::Conflict(text);
    }
    if *code == SqlState::LOCK_NOT_AVAILABLE {
        return SqlError::Busy(text);
    }
    if *code == SqlState::DISK_FULL {
        return SqlError::Disk(text);
    }
    match code.code().get(..2) {
        Some("23") => SqlError::Constraint(text),
        // Connection exceptions, a server that shuts down, too many clients.
        Some("08" | "57" | "53") => SqlError::Unavailable(text),
        Some("XX") => SqlError::Damaged { what: text },
        _ => SqlError::Other(text),
    }
}

/// The client's errors leave out what caused them.
fn with_cause(error: &postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn is_io(source: &(dyn std::error::Error + 'static)) -> bool {
    source.is::<std::io::Error>()
}
