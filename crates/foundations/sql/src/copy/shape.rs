//! The tables of a schema, as they are once all migrations are in.
//!
//! Both dialects build the same tables, so an empty SQLite database in memory knows them all: their
//! columns, their keys, which table leans on which, and the rows they are born with.

use std::collections::BTreeSet;

use crate::{
    error::SqlError,
    schema::Schema,
    sqlite_side::explain,
    url::Backend,
    value::{Arg, Column, Value},
};

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ColumnKind {
    Int,
    Text,
    Blob,
    Flag,
}

impl ColumnKind {
    fn of(declared: &str) -> Result<Self, SqlError> {
        match declared {
            "BIGINT" => Ok(Self::Int),
            "TEXT" => Ok(Self::Text),
            "BLOB" => Ok(Self::Blob),
            "BOOLEAN" => Ok(Self::Flag),
            _ => Err(SqlError::Other(format!("columns of type {declared} can't be copied"))),
        }
    }

    /// SQLite has no truth values of its own.
    pub(super) fn plain(self, value: Value) -> Value {
        match (self, value) {
            (Self::Flag, Value::Int(number)) => Value::Flag(number != 0),
            (_, value) => value,
        }
    }
}

#[derive(Debug)]
pub(super) struct TableShape {
    pub(super) name: String,
    pub(super) columns: Vec<(String, ColumnKind)>,
    /// Places of the primary key's columns, in its order.
    pub(super) key: Vec<usize>,
    /// What the migrations put into it.
    pub(super) born_with: Vec<Vec<Value>>,
}

/// All tables, each after those it leans on.
pub(super) fn tables(schema: &Schema) -> Result<Vec<TableShape>, SqlError> {
    let memory = rusqlite::Connection::open_in_memory().map_err(explain)?;
    for migration in schema.migrations {
        memory.execute_batch(&migration.text(Backend::Sqlite)).map_err(explain)?;
    }
    let names = strings(&memory, "SELECT name FROM sqlite_master WHERE type = 'table'", &[])?;
    let mut waiting: BTreeSet<String> = names.into_iter().collect();
    let mut found = Vec::new();
    while !waiting.is_empty() {
        let is_ready = |name: &&String| {
            let parents = "SELECT \"table\" FROM pragma_foreign_key_list(?1)";
            let parents = strings(&memory, parents, &[name])?;
            Ok::<_, SqlError>(parents.iter().all(|p| p == *name || !waiting.contains(p)))
        };
        let ready = waiting.iter().map(|name| Ok((name.clone(), is_ready(&name)?)));
        let ready: Vec<(String, bool)> = ready.collect::<Result<_, SqlError>>()?;
        let ready: Vec<String> = ready.into_iter().filter(|(_, is)| *is).map(|(n, _)| n).collect();
        if ready.is_empty() {
            return Err(SqlError::Other(
                "tables that refer to each other in a circle can't be copied".into(),
            ));
        }
        for name in ready {
            waiting.remove(&name);
            found.push(TableShape::read(&memory, name)?);
        }
    }
    Ok(found)
}

fn strings(
    memory: &rusqlite::Connection,
    sql: &str,
    args: &[&str],
) -> Result<Vec<String>, SqlError> {
    let mut statement = memory.prepare(sql).map_err(explain)?;
    let rows = statement.query_map(rusqlite::params_from_iter(args), |row| row.get(0));
    rows.map_err(explain)?.collect::<Result<_, _>>().map_err(explain)
}

impl TableShape {
    fn read(memory: &rusqlite::Connection, name: String) -> Result<Self, SqlError> {
        let sql = "SELECT name, type, pk FROM pragma_table_info(?1) ORDER BY cid";
        let mut statement = memory.prepare(sql).map_err(explain)?;
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let rows = statement.query_map([&name], read).map_err(explain)?;
        let rows = rows.collect::<Result<Vec<(String, String, u32)>, _>>().map_err(explain)?;
        let mut key: Vec<(u32, usize)> = Vec::new();
        let mut columns = Vec::new();
        for (at, (column, declared, rank)) in rows.into_iter().enumerate() {
            columns.push((column, ColumnKind::of(&declared)?));
            key.extend((rank > 0).then_some((rank, at)));
        }
        key.sort_unstable();
        let key: Vec<usize> = key.into_iter().map(|(_, at)| at).collect();
        // Without a key two databases give rows in no common order, and nothing could be compared.
        if key.is_empty() {
            return Err(SqlError::Other(format!("{name} has no primary key and can't be copied")));
        }
        let mut table = Self { name, columns, key, born_with: Vec::new() };
        table.born_with = table.all(memory)?;
        Ok(table)
    }

    fn all(&self, memory: &rusqlite::Connection) -> Result<Vec<Vec<Value>>, SqlError> {
        let mut statement = memory.prepare(&self.select()).map_err(explain)?;
        let mut rows = statement.query([]).map_err(explain)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(explain)? {
            let values = self.columns.iter().enumerate().map(|(at, (_, kind))| {
                let stored = row.get_ref(at).map_err(explain)?;
                Ok(kind.plain(crate::sqlite_side::value(stored)?))
            });
            found.push(values.collect::<Result<_, SqlError>>()?);
        }
        Ok(found)
    }

    fn quoted(&self, places: impl Iterator<Item = usize>) -> Vec<String> {
        let names = places.filter_map(|at| self.columns.get(at));
        names.map(|(name, _)| format!("\"{name}\"")).collect()
    }

    fn names(&self) -> String {
        self.quoted(0..self.columns.len()).join(", ")
    }

    pub(super) fn select(&self) -> String {
        format!("SELECT {} FROM \"{}\"", self.names(), self.name)
    }

    pub(super) fn delete(&self) -> String {
        format!("DELETE FROM \"{}\"", self.name)
    }

    /// A page of SQLite's: the index of the primary key leads to its start.
    pub(super) fn page(&self, is_first: bool, rows: usize) -> String {
        let key = self.quoted(self.key.iter().copied()).join(", ");
        let places: Vec<String> = (1..=self.key.len()).map(|n| format!("?{n}")).collect();
        let after = format!(" WHERE ({key}) > ({})", places.join(", "));
        let after = if is_first { "" } else { &after };
        format!("{}{after} ORDER BY {key} LIMIT {rows}", self.select())
    }

    /// A cursor of PostgreSQL's, in SQLite's order of text.
    pub(super) fn cursor(&self) -> String {
        let key = self.key.iter().filter_map(|at| self.columns.get(*at));
        let key = key.map(|(name, kind)| match kind {
            ColumnKind::Text => format!("\"{name}\" COLLATE \"C\""),
            ColumnKind::Int | ColumnKind::Blob | ColumnKind::Flag => format!("\"{name}\""),
        });
        let order = key.collect::<Vec<_>>().join(", ");
        format!("DECLARE copied NO SCROLL CURSOR FOR {} ORDER BY {order}", self.select())
    }

    /// One row into SQLite.
    pub(super) fn insert(&self) -> String {
        let places: Vec<String> = (1..=self.columns.len()).map(|n| format!("?{n}")).collect();
        format!("INSERT INTO \"{}\" ({}) VALUES ({})", self.name, self.names(), places.join(", "))
    }

    /// Many rows into PostgreSQL. Truth values travel as text, since they may be null.
    pub(super) fn insert_many(&self) -> String {
        let (mut chosen, mut arrays) = (Vec::new(), Vec::new());
        for (at, (name, kind)) in self.columns.iter().enumerate() {
            let (array, cast) = match kind {
                ColumnKind::Int => ("bigint[]", ""),
                ColumnKind::Text => ("text[]", ""),
                ColumnKind::Blob => ("bytea[]", ""),
                ColumnKind::Flag => ("text[]", "::boolean"),
            };
            chosen.push(format!("k.\"{name}\"{cast}"));
            arrays.push(format!("${}::{array}", at + 1));
        }
        let (names, chosen, arrays) = (self.names(), chosen.join(", "), arrays.join(", "));
        let table = &self.name;
        format!(
            "INSERT INTO \"{table}\" ({names}) SELECT {chosen} FROM UNNEST({arrays}) AS k ({names})"
        )
    }

    /// The columns of these rows, for [`Self::insert_many`].
    pub(super) fn arrays(&self, rows: &[Vec<Value>]) -> Vec<Column> {
        let column = |at: usize, kind: ColumnKind| {
            let values = rows.iter().map(move |row| row.get(at));
            match kind {
                ColumnKind::Int => Column::Ints(values.map(int).collect()),
                ColumnKind::Blob => Column::Blobs(values.map(blob).collect()),
                ColumnKind::Text | ColumnKind::Flag => Column::Texts(values.map(text).collect()),
            }
        };
        self.columns.iter().enumerate().map(|(at, (_, kind))| column(at, *kind)).collect()
    }
}

fn int(value: Option<&Value>) -> Option<i64> {
    if let Some(Value::Int(number)) = value { Some(*number) } else { None }
}

fn blob(value: Option<&Value>) -> Option<Vec<u8>> {
    if let Some(Value::Blob(bytes)) = value { Some(bytes.clone()) } else { None }
}

fn text(value: Option<&Value>) -> Option<String> {
    match value {
        Some(Value::Text(text)) => Some(text.clone()),
        Some(Value::Flag(flag)) => Some(flag.to_string()),
        Some(Value::Null | Value::Int(_) | Value::Blob(_)) | None => None,
    }
}

/// A stored value as an argument.
pub(super) fn arg(value: &Value) -> Arg<'_> {
    match value {
        Value::Null => Arg::OptInt(None),
        Value::Int(number) => Arg::Int(*number),
        Value::Text(text) => Arg::Text(text),
        Value::Blob(bytes) => Arg::Blob(bytes),
        Value::Flag(flag) => Arg::Flag(*flag),
    }
}
