//! The number by which one table names a row of another.

use std::fmt;

use unspent_model::Micros;

use crate::{
    error::SqlError,
    value::{Column, ColumnPlace, Row},
};

/// A row's number inside the database. It never leaves it: what users see has ids of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RowId(pub i64);

impl RowId {
    /// The number alone, as it is stored.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Column {
    /// A column of rows.
    pub fn row_ids(rows: impl IntoIterator<Item = RowId>) -> Self {
        Self::ints(rows.into_iter().map(RowId::get))
    }
}

impl Row {
    /// The row that `column` names.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it names none.
    pub fn row_id(&self, column: impl ColumnPlace) -> Result<RowId, SqlError> {
        self.int(column).map(RowId)
    }

    /// The row that `column` names, or none.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it holds something else.
    pub fn opt_row_id(&self, column: impl ColumnPlace) -> Result<Option<RowId>, SqlError> {
        Ok(self.opt_int(column)?.map(RowId))
    }

    /// The moment in `column`.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when there is none.
    pub fn micros(&self, column: impl ColumnPlace) -> Result<Micros, SqlError> {
        self.int(column).map(Micros)
    }

    /// The moment in `column`, or none.
    ///
    /// # Errors
    ///
    /// [`SqlError::Damaged`] when it holds something else.
    pub fn opt_micros(&self, column: impl ColumnPlace) -> Result<Option<Micros>, SqlError> {
        Ok(self.opt_int(column)?.map(Micros))
    }
}
