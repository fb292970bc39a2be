//! Completions for shells, and the manual page, both made from the arguments themselves.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::{cli::Cli, error::Outcome, output::Output};

/// Completions for a shell.
pub(crate) fn completions(shell: Shell, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "unspent", &mut text);
    output.raw(&String::from_utf8(text)?)?;
    Ok(Outcome::Done)
}

/// The manual page of the program; each command has its own `--help`.
pub(crate) fn page(output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut text)?;
    output.raw(&String::from_utf8(text)?)?;
    Ok(Outcome::Done)
}
