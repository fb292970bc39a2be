//! Completions for shells, and the manual pages, both made from the arguments themselves.

use std::{fs, io, path::Path};

use anyhow::Context as _;
use clap_complete::Shell;
use serde_json::json;
use unspent_server::{Outcome, Output, Rooms};

use crate::cli;

/// Completions for a shell.
pub(crate) fn completions(
    rooms: Rooms,
    shell: Shell,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli::command(rooms), "unspent", &mut text);
    output.raw(&String::from_utf8(text)?)?;
    Ok(Outcome::Done)
}

/// The manual pages: that of the program to the output, or one for each command into a folder.
pub(crate) fn pages(
    rooms: Rooms,
    folder: Option<&Path>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let Some(folder) = folder else { return page(rooms, output) };
    let shown = folder.display();
    fs::create_dir_all(folder).with_context(|| format!("can't make {shown}"))?;
    clap_mangen::generate_to(cli::command(rooms), folder)
        .with_context(|| format!("can't write into {shown}"))?;
    let is_page = |entry: &io::Result<fs::DirEntry>| {
        let name = entry.as_ref().map(fs::DirEntry::file_name).unwrap_or_default();
        name.to_string_lossy().starts_with("unspent")
    };
    let written = fs::read_dir(folder).with_context(|| format!("can't read {shown}"))?;
    let written = written.filter(is_page).count();
    output.answer(&json!({ "done": "written", "pages": written }), || {
        format!("wrote {written} pages to {shown}; read one with: man -l {shown}/unspent-serve.1")
    })?;
    Ok(Outcome::Done)
}

/// The manual page of the program.
fn page(rooms: Rooms, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    clap_mangen::Man::new(cli::command(rooms)).render(&mut text)?;
    output.raw(&String::from_utf8(text)?)?;
    Ok(Outcome::Done)
}
