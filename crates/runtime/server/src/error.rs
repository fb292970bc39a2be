//! Errors as people and programs read them, and exit codes.

use std::{error::Error, fmt, io, process::ExitCode};

use serde::Serialize;
use unspent_model::Kind;
use unspent_networks::address::AddressError;
use unspent_source::files::FilesError;

use crate::{
    interrupt,
    output::Output,
    request::BadRequest,
    room::{Classified, Rooms},
};

/// How a command that did not fail ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It did its work.
    Done,
    /// `verify` found differences.
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
        let hint = Some("this is a defect of the program; please report it".into());
        Self { code: "bug", message: message.into(), hint }
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

/// An error in the form of `--json`.
#[derive(Serialize)]
struct ErrorReport<'a> {
    code: &'a str,
    message: &'a str,
    hint: Option<&'a str>,
}

#[derive(Serialize)]
struct ErrorDocument<'a> {
    error: ErrorReport<'a>,
}

/// Tells people on standard error and programs in the output; returns the exit code.
pub fn report(rooms: Rooms, error: &anyhow::Error, output: &mut Output<'_>) -> ExitCode {
    if is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    let (code, hint) = classify(rooms, error);
    let message = sentence(error);
    complain("error", &message);
    if let Some(hint) = &hint {
        complain(" hint", hint);
    }
    if output.is_json() {
        let report = ErrorReport { code, message: &message, hint: hint.as_deref() };
        // A closed output can't be told anything any more.
        let _ = output.document(&ErrorDocument { error: report });
    }
    ExitCode::from(match code {
        "usage" => 2,
        "interrupted" => interrupt::EXIT_CODE,
        _ => 1,
    })
}

/// Whoever read our output has seen enough, as `head` does.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(closed))
}

/// Tells what is wrong with the arguments, or shows the help that was asked for.
pub fn refuse_arguments(error: &clap::Error, json: bool) -> ExitCode {
    // Nothing can be done about a closed output.
    let _ = error.print();
    if json && error.use_stderr() {
        let mut stdout = io::stdout().lock();
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let report = ErrorReport { code: "usage", message, hint: Some("try --help") };
        let _ = Output::new(&mut stdout, true).document(&ErrorDocument { error: report });
    }
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}

/// A line for people on standard error.
#[allow(clippy::print_stderr)]
pub fn complain(kind: &str, message: &str) {
    eprintln!("{kind}: {message}");
}

/// The error and its causes, without saying anything twice.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let more = cause.to_string();
        if text.is_empty() {
            text = more;
        } else if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}

fn classify(rooms: Rooms, error: &anyhow::Error) -> (&'static str, Option<String>) {
    for cause in error.chain() {
        if let Some(error) = cause.downcast_ref::<CliError>() {
            return (error.code, error.hint.clone());
        }
        if let Some(error) = cause.downcast_ref::<FilesError>() {
            let (code, hint) = files(error);
            return (code, hint.map(str::to_owned));
        }
        if let Some(error) = cause.downcast_ref::<BadRequest>() {
            let is_input = matches!(error, BadRequest::Unreadable(_));
            return (if is_input { "input" } else { "usage" }, None);
        }
        if cause.is::<AddressError>() {
            return ("usage", None);
        }
        match rooms.iter().find_map(|room| room.classify(cause)) {
            Some(Classified::Usage) => return ("usage", None),
            Some(Classified::Kind(kind)) => return (kind.name(), advice(kind)),
            None => {}
        }
    }
    ("failed", None)
}

/// Files that can't be read: what kind of error that is, and what to do about it.
fn files(error: &FilesError) -> (&'static str, Option<&'static str>) {
    match error {
        FilesError::NoFiles(_) => {
            let hint = "known names: *.chunk, *.cbor, blk*.dat, *.blk, each also with .zst; a file \
                        named by hand is always read";
            ("input", Some(hint))
        }
        FilesError::OtherNetwork { .. } => ("input", Some("give the right --network")),
        FilesError::NoBlock { .. } => {
            ("input", Some("check the network, and the key in xor.dat if there is one"))
        }
        FilesError::TooDeep(_) | FilesError::BadKey(_) | FilesError::TooLarge { .. } => {
            ("input", None)
        }
        FilesError::Interrupted => ("interrupted", None),
        FilesError::Unknown => ("bug", Some("this is a defect of the program; please report it")),
        FilesError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            ("input", None)
        }
        FilesError::Unreadable { .. }
        | FilesError::Packed { .. }
        | FilesError::NoRoom { .. }
        | FilesError::Frames { .. }
        | FilesError::Chunk { .. }
        | FilesError::Block { .. }
        | FilesError::Moved { .. } => ("failed", None),
    }
}

fn advice(kind: Kind) -> Option<String> {
    let advice = match kind {
        Kind::Refused => return None,
        Kind::Busy => "wait for the other command to end; queries may run beside it",
        Kind::Unavailable => "look at the disk (space, permissions), then run the command again",
        Kind::Corrupt => {
            "keep a copy for analysis; restore a backup, or import again into a new folder"
        }
        Kind::Bug => "this is a defect of the program; please report it",
    };
    Some(advice.into())
}
