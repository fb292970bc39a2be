//! Where results go: tables for people, or one JSON document.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

/// The result's writer and form.
pub struct Output<'a> {
    writer: &'a mut dyn Write,
    json: bool,
}

impl<'a> Output<'a> {
    /// Results go to this writer, as JSON or as text.
    pub fn new(writer: &'a mut dyn Write, json: bool) -> Self {
        Self { writer, json }
    }

    /// Whether a program reads the result.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Writes the result in the form asked for.
    pub fn answer(
        &mut self,
        document: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> io::Result<()> {
        if self.json { self.document(document) } else { self.line(&text()) }
    }

    /// One JSON document.
    pub fn document(&mut self, document: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *self.writer, document)?;
        writeln!(self.writer)?;
        self.writer.flush()
    }

    /// Text for people; nothing with `--json`.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { self.line(text) }
    }

    /// Text that is the result itself, in either form.
    pub fn raw(&mut self, text: &str) -> io::Result<()> {
        self.writer.write_all(text.as_bytes())?;
        self.writer.flush()
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.writer, "{text}")?;
        self.writer.flush()
    }
}

/// A table with a heading for each column.
pub fn table<const N: usize>(
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings);
    for row in rows {
        table.add_row(row);
    }
    table
}

/// A table of names and values.
pub fn facts(rows: &[(&str, String)]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    for (name, value) in rows {
        table.add_row([(*name).to_owned(), value.clone()]);
    }
    table.to_string()
}
