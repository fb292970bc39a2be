//! How a command ends, and errors of the program itself.

use std::{error::Error, fmt, process::ExitCode};

use crate::interrupt;

/// How a command that did not fail ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It did its work.
    Done,
    /// A check found something, or some of what was asked was refused: the answer says what.
    Differences,
    /// It was asked to stop, and stopped at a block boundary.
    Interrupted,
}

impl Outcome {
    /// What the process reports.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::SUCCESS,
            Self::Differences => ExitCode::from(3),
            Self::Interrupted => ExitCode::from(interrupt::EXIT_CODE),
        }
    }
}

/// An error of the command line itself.
#[derive(Debug)]
pub struct CliError {
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl CliError {
    /// The request makes no sense as it is written.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: "usage", message: message.into(), hint: None }
    }

    /// The files given can't be imported.
    pub fn input(message: impl Into<String>) -> Self {
        Self { code: "input", message: message.into(), hint: None }
    }

    /// The request is clear but can't be carried out.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { code: "refused", message: message.into(), hint: None }
    }

    /// Something that should have been impossible.
    pub fn bug(message: impl Into<String>) -> Self {
        let hint = Some("this is a bug; please report it".into());
        Self { code: "bug", message: message.into(), hint }
    }

    /// What programs read.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// What to do about it, if anything is known to help.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Whether the request makes no sense as it is written.
    pub fn is_usage(&self) -> bool {
        self.code == "usage"
    }

    /// A hint beside the one that is there.
    pub fn more_hint(self, more: &str) -> Self {
        let hint =
            self.hint.as_ref().map_or_else(|| more.to_owned(), |hint| format!("{hint}; {more}"));
        self.hint(hint)
    }

    /// What to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for CliError {}

/// A line for people on standard error.
#[allow(clippy::print_stderr)]
pub fn complain(kind: &str, message: &str) {
    eprintln!("{kind}: {message}");
}
