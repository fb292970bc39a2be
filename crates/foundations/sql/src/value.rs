//! Arguments, columns of arguments, and rows.

use std::{fmt, sync::Arc};

use crate::error::SqlError;

/// One argument of a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg<'a> {
    /// A number that is never null.
    Int(i64),
    /// A number or null.
    OptInt(Option<i64>),
    /// Text that is never null.
    Text(&'a str),
    /// Text or null.
    OptText(Option<&'a str>),
    /// Bytes that are never null.
    Blob(&'a [u8]),
    /// Bytes or null.
    OptBlob(Option<&'a [u8]>),
    /// A truth value.
    Flag(bool),
}

/// One argument for each row of a set.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Numbers, null allowed.
    Ints(Vec<Option<i64>>),
    /// Text, null allowed.
    Texts(Vec<Option<String>>),
    /// Bytes, null allowed.
    Blobs(Vec<Option<Vec<u8>>>),
    /// Truth values.
    Flags(Vec<bool>),
    /// Hashes, none of them null: names, without a piece of memory for each.
    Hashes(Vec<[u8; 32]>),
}

impl Column {
    /// A column of numbers.
    pub fn ints(values: impl IntoIterator<Item = i64>) -> Self {
        Self::Ints(values.into_iter().map(Some).collect())
    }

    /// A column of byte strings.
    pub fn blobs<B: AsRef<[u8]>>(values: impl IntoIterator<Item = B>) -> Self {
        Self::Blobs(values.into_iter().map(|value| Some(value.as_ref().to_vec())).collect())
    }

    /// A column of hashes.
    pub fn hashes(values: impl IntoIterator<Item = [u8; 32]>) -> Self {
        Self::Hashes(values.into_iter().collect())
    }

    /// A column of text.
    pub fn texts<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Self {
        Self::Texts(values.into_iter().map(|value| Some(value.into())).collect())
    }

    /// How many rows it serves.
    pub fn len(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::Blobs(values) => values.len(),
            Self::Flags(values) => values.len(),
            Self::Hashes(values) => values.len(),
        }
    }

    /// Whether it serves none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn at(&self, row: usize) -> Result<Arg<'_>, SqlError> {
        let found = match self {
            Self::Ints(values) => values.get(row).map(|value| Arg::OptInt(*value)),
            Self::Texts(values) => values.get(row).map(|value| Arg::OptText(value.as_deref())),
            Self::Blobs(values) => values.get(row).map(|value| Arg::OptBlob(value.as_deref())),
            Self::Flags(values) => values.get(row).map(|value| Arg::Flag(*value)),
            Self::Hashes(values) => values.get(row).map(|value| Arg::OptBlob(Some(value))),
        };
        found.ok_or(SqlError::UnevenColumns { shortest: self.len(), longest: row + 1 })
    }
}

/// How many rows the columns of one statement serve. PostgreSQL's `UNNEST` would fill a shorter
/// one with nulls and say nothing, so this is asked before either database sees them.
pub(crate) fn rows_served(columns: &[Column]) -> Result<usize, SqlError> {
    let shortest = columns.iter().map(Column::len).min().unwrap_or(0);
    let longest = columns.iter().map(Column::len).max().unwrap_or(0);
    if shortest == longest {
        return Ok(longest);
    }
    Err(SqlError::UnevenColumns { shortest, longest })
}

/// One stored value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Absent.
    Null,
    /// A number; SQLite stores truth values as 0 and 1.
    Int(i64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// A truth value, from PostgreSQL.
    Flag(bool),
}

/// The names of an answer's columns. They are found out once for a statement; all its rows share
/// them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnNames(Arc<[Option<Box<str>>]>);

impl ColumnNames {
    /// A name that two columns bear names neither: reading it would be a guess.
    pub(crate) fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        let is_alone = |name: &str| names.iter().filter(|other| **other == name).count() == 1;
        let kept = names.iter().map(|name| is_alone(name).then(|| Box::from(*name)));
        Self(kept.collect())
    }
}

/// A column: by its name, or by its place where an answer gives none.
pub trait ColumnPlace: Copy + fmt::Display + sealed::Sealed {
    #[doc(hidden)]
    fn position(self, row: &Row) -> Option<usize>;

    #[doc(hidden)]
    fn find(self, row: &Row) -> Option<&Value> {
        row.values.get(self.position(row)?)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for &str {}
}

impl ColumnPlace for usize {
    fn position(self, _: &Row) -> Option<usize> {
        Some(self)
    }
}

impl ColumnPlace for &str {
    fn position(self, row: &Row) -> Option<usize> {
        // A handful of short names: comparing them is quicker than hashing one.
        row.names.0.iter().position(|name| name.as_deref() == Some(self))
    }
}

/// One row of an answer. Reading a column as what it isn't is an error, never a guess.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    names: ColumnNames,
    values: Vec<Value>,
}

impl Row {
    pub(crate) fn new(names: ColumnNames, values: Vec<Value>) -> Self {
        Self { names, values }
    }

    /// The values in order.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    pub(crate) fn into_values(self) -> Vec<Value> {
        self.values
    }

    fn wrong(&self, column: impl ColumnPlace, wanted: &'static str) -> SqlError {
        let found = match column.find(self) {
            None => "no such column",
            Some(Value::Null) => "null",
            Some(Value::Int(_)) => "a number",
            Some(Value::Text(_)) => "text",
            Some(Value::Blob(_)) => "bytes",
            Some(Value::Flag(_)) => "a truth value",
        };
        SqlError::Damaged { what: format!("column `{column}` holds {found}, not {wanted}") }
    }

    /// The number in `column`.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when there is none.
    pub fn int(&self, column: impl ColumnPlace) -> Result<i64, SqlError> {
        self.opt_int(column)?.ok_or_else(|| self.wrong(column, "a number"))
    }

    /// The number in `column`, or nothing.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it holds something else.
    pub fn opt_int(&self, column: impl ColumnPlace) -> Result<Option<i64>, SqlError> {
        match column.find(self) {
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(Value::Null) => Ok(None),
            Some(Value::Text(_) | Value::Blob(_) | Value::Flag(_)) | None => {
                Err(self.wrong(column, "a number"))
            }
        }
    }

    /// The number in `column`, which must not be negative.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it isn't such a number.
    pub fn natural(&self, column: impl ColumnPlace) -> Result<u64, SqlError> {
        u64::try_from(self.int(column)?).map_err(|_| self.wrong(column, "a non-negative number"))
    }

    /// The number in `column`, which must not be negative, or nothing.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it holds something else.
    pub fn opt_natural(&self, column: impl ColumnPlace) -> Result<Option<u64>, SqlError> {
        let number = self.opt_int(column)?.map(u64::try_from).transpose();
        number.map_err(|_| self.wrong(column, "a non-negative number"))
    }

    /// The index in `column`: a number of 32 bits, in a column that could hold more.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it isn't such a number.
    pub fn index(&self, column: impl ColumnPlace) -> Result<u32, SqlError> {
        self.opt_index(column)?.ok_or_else(|| self.wrong(column, "a 32-bit index"))
    }

    /// The index in `column`, or nothing.
    ///
    /// # Errors
    ///
    /// As for [`Row::index`].
    pub fn opt_index(&self, column: impl ColumnPlace) -> Result<Option<u32>, SqlError> {
        let number = self.opt_int(column)?.map(u32::try_from).transpose();
        number.map_err(|_| self.wrong(column, "a 32-bit index"))
    }

    /// The truth value in `column`.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when there is none.
    pub fn flag(&self, column: impl ColumnPlace) -> Result<bool, SqlError> {
        match column.find(self) {
            Some(Value::Flag(flag)) => Ok(*flag),
            Some(Value::Int(0)) => Ok(false),
            Some(Value::Int(1)) => Ok(true),
            Some(Value::Int(_) | Value::Null | Value::Text(_) | Value::Blob(_)) | None => {
                Err(self.wrong(column, "a truth value"))
            }
        }
    }

    /// The text in `column`.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when there is none.
    pub fn text(&self, column: impl ColumnPlace) -> Result<String, SqlError> {
        self.opt_text(column)?.ok_or_else(|| self.wrong(column, "text"))
    }

    /// The text in `column`, or nothing.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it holds something else.
    pub fn opt_text(&self, column: impl ColumnPlace) -> Result<Option<String>, SqlError> {
        match column.find(self) {
            Some(Value::Text(text)) => Ok(Some(text.clone())),
            Some(Value::Null) => Ok(None),
            Some(Value::Int(_) | Value::Blob(_) | Value::Flag(_)) | None => {
                Err(self.wrong(column, "text"))
            }
        }
    }

    /// The bytes in `column`.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when there are none.
    pub fn blob(&self, column: impl ColumnPlace) -> Result<Vec<u8>, SqlError> {
        self.opt_blob(column)?.ok_or_else(|| self.wrong(column, "bytes"))
    }

    /// The bytes in `column`, or nothing.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it holds something else.
    pub fn opt_blob(&self, column: impl ColumnPlace) -> Result<Option<Vec<u8>>, SqlError> {
        Ok(self.bytes(column)?.map(<[u8]>::to_vec))
    }

    /// The bytes in `column`, which is null afterwards, or nothing. For long ones, which would
    /// otherwise be copied.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it holds something else.
    pub fn take_blob(&mut self, column: impl ColumnPlace) -> Result<Option<Vec<u8>>, SqlError> {
        self.bytes(column)?;
        let place = column.position(self).and_then(|at| self.values.get_mut(at));
        match place.map(|value| std::mem::replace(value, Value::Null)) {
            Some(Value::Blob(bytes)) => Ok(Some(bytes)),
            Some(Value::Null | Value::Int(_) | Value::Text(_) | Value::Flag(_)) | None => Ok(None),
        }
    }

    fn bytes(&self, column: impl ColumnPlace) -> Result<Option<&[u8]>, SqlError> {
        match column.find(self) {
            Some(Value::Blob(bytes)) => Ok(Some(bytes)),
            Some(Value::Null) => Ok(None),
            Some(Value::Int(_) | Value::Text(_) | Value::Flag(_)) | None => {
                Err(self.wrong(column, "bytes"))
            }
        }
    }

    /// Exactly 32 bytes in `column`.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when they are more, fewer or none.
    pub fn hash(&self, column: impl ColumnPlace) -> Result<[u8; 32], SqlError> {
        self.opt_hash(column)?.ok_or_else(|| self.wrong(column, "32 bytes"))
    }

    /// Exactly 32 bytes in `column`, or nothing.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when they are more or fewer.
    pub fn opt_hash(&self, column: impl ColumnPlace) -> Result<Option<[u8; 32]>, SqlError> {
        let hash = self.bytes(column)?.map(<[u8; 32]>::try_from).transpose();
        hash.map_err(|_| self.wrong(column, "32 bytes"))
    }
}
