//! What every request is checked for, whichever way it came: the command line and REST take the
//! same types, and these are their common rules.

use std::{error::Error, fmt};

/// Most rows on one page.
pub const PAGE_LIMIT: u32 = 500;
/// Rows on a page unless asked otherwise.
pub const PAGE_DEFAULT: u32 = 100;
/// Coins, outputs or transactions in one request.
pub const MAX_ITEMS: usize = 1_000;
/// The longest cursor or name in a query.
const MAX_TEXT: usize = 1_000;

/// A request that can't be met, whatever the rooms hold.
#[derive(Debug, PartialEq, Eq)]
pub enum BadRequest {
    /// A part of it can't be read.
    Malformed(String),
    /// It is understood, but asks for what can't be.
    Invalid(String),
    /// What it brings along (a transaction, a file) can't be read.
    Unreadable(String),
}

impl BadRequest {
    /// It asks for what can't be.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Malformed(message) | Self::Invalid(message) | Self::Unreadable(message)) = self;
        f.write_str(message)
    }
}

impl Error for BadRequest {}

/// A page size inside its bounds.
pub fn page_limit(asked: Option<u32>) -> Result<u32, BadRequest> {
    let limit = asked.unwrap_or(PAGE_DEFAULT);
    if (1..=PAGE_LIMIT).contains(&limit) {
        return Ok(limit);
    }
    Err(BadRequest::Malformed(format!("limit must be 1 to {PAGE_LIMIT}")))
}

/// Text that isn't longer than makes sense.
pub fn short(text: Option<&str>) -> Result<Option<&str>, BadRequest> {
    match text {
        Some(long) if long.len() > MAX_TEXT => {
            Err(BadRequest::Malformed("a parameter is too long".into()))
        }
        Some(_) | None => Ok(text),
    }
}

/// A cursor that isn't one of ours.
pub fn bad_cursor() -> BadRequest {
    BadRequest::Malformed("`after` takes the `next` of the previous page".into())
}

/// A row number given back to us.
pub fn cursor_number(after: Option<&str>) -> Result<i64, BadRequest> {
    let number = short(after)?.map_or(Ok(0), str::parse::<i64>);
    number.ok().filter(|number| *number >= 0).ok_or_else(bad_cursor)
}

/// Two numbers given back to us.
pub fn cursor_pair(after: Option<&str>) -> Result<Option<(i64, i64)>, BadRequest> {
    let Some(text) = short(after)? else { return Ok(None) };
    let pair = text.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    pair.filter(|(a, b): &(i64, i64)| *a >= 0 && *b >= 0).map(Some).ok_or_else(bad_cursor)
}

/// Cuts what was read for looking ahead; returns the last row when there is a next page.
pub fn cut<T>(rows: &mut Vec<T>, limit: u32) -> Option<&T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    rows.truncate(limit);
    if more { rows.last() } else { None }
}

/// A list that isn't longer than makes sense, nor shorter than `least`.
pub fn bounded(count: usize, least: usize) -> Result<(), BadRequest> {
    if (least..=MAX_ITEMS).contains(&count) {
        return Ok(());
    }
    Err(BadRequest::Invalid(format!("a request takes {least} to {MAX_ITEMS} items, not {count}")))
}
