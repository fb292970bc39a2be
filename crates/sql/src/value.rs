//! Arguments, columns of arguments, and rows.

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
        }
    }

    /// Whether it serves none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn at(&self, row: usize) -> Arg<'_> {
        match self {
            Self::Ints(values) => Arg::OptInt(values.get(row).copied().flatten()),
            Self::Texts(values) => Arg::OptText(values.get(row).and_then(Option::as_deref)),
            Self::Blobs(values) => Arg::OptBlob(values.get(row).and_then(Option::as_deref)),
            Self::Flags(values) => Arg::Flag(values.get(row).copied().unwrap_or(false)),
        }
    }
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

/// One row of an answer. Reading a column as what it isn't is an error, never a guess.
#[derive(Clone, Debug, PartialEq)]
pub struct Row(pub(crate) Vec<Value>);

impl Row {
    /// The values in order.
    pub fn values(&self) -> &[Value] {
        &self.0
    }

    fn wrong(&self, column: usize, wanted: &'static str) -> SqlError {
        let found = match self.0.get(column) {
            None => "no such column",
            Some(Value::Null) => "null",
            Some(Value::Int(_)) => "a number",
            Some(Value::Text(_)) => "text",
            Some(Value::Blob(_)) => "bytes",
            Some(Value::Flag(_)) => "a truth value",
        };
        SqlError::Damaged { what: format!("column {column} holds {found}, not {wanted}") }
    }

    /// The number in `column`.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when there is none.
    pub fn int(&self, column: usize) -> Result<i64, SqlError> {
        self.opt_int(column)?.ok_or_else(|| self.wrong(column, "a number"))
    }

    /// The number in `column`, or nothing.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it holds something else.
    pub fn opt_int(&self, column: usize) -> Result<Option<i64>, SqlError> {
        match self.0.get(column) {
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
    pub fn natural(&self, column: usize) -> Result<u64, SqlError> {
        u64::try_from(self.int(column)?).map_err(|_| self.wrong(column, "a natural number"))
    }

    /// The truth value in `column`.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when there is none.
    pub fn flag(&self, column: usize) -> Result<bool, SqlError> {
        match self.0.get(column) {
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
    pub fn text(&self, column: usize) -> Result<String, SqlError> {
        self.opt_text(column)?.ok_or_else(|| self.wrong(column, "text"))
    }

    /// The text in `column`, or nothing.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it holds something else.
    pub fn opt_text(&self, column: usize) -> Result<Option<String>, SqlError> {
        match self.0.get(column) {
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
    pub fn blob(&self, column: usize) -> Result<Vec<u8>, SqlError> {
        self.opt_blob(column)?.ok_or_else(|| self.wrong(column, "bytes"))
    }

    /// The bytes in `column`, or nothing.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it holds something else.
    pub fn opt_blob(&self, column: usize) -> Result<Option<Vec<u8>>, SqlError> {
        match self.0.get(column) {
            Some(Value::Blob(bytes)) => Ok(Some(bytes.clone())),
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
    pub fn hash(&self, column: usize) -> Result<[u8; 32], SqlError> {
        self.opt_hash(column)?.ok_or_else(|| self.wrong(column, "32 bytes"))
    }

    /// Exactly 32 bytes in `column`, or nothing.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when they are more or fewer.
    pub fn opt_hash(&self, column: usize) -> Result<Option<[u8; 32]>, SqlError> {
        let bytes = self.opt_blob(column)?;
        let hash = bytes.map(|bytes| <[u8; 32]>::try_from(bytes.as_slice()));
        hash.transpose().map_err(|_| self.wrong(column, "32 bytes"))
    }
}
