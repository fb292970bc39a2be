//! Errors as people and programs read them, and exit codes.

use std::{io, process::ExitCode};

use serde::Serialize;
use unspent_model::Kind;
use unspent_networks::address::AddressError;
use unspent_server::{
    CliError, Output, Rooms, error::complain, interrupt, request::BadRequest, room::Classified,
};
use unspent_source::files::FilesError;

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
pub(crate) fn report(rooms: Rooms, error: &anyhow::Error, output: &mut Output<'_>) -> ExitCode {
    // Whoever reads may have enough, as `head` has: that is no failure of ours.
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
pub(crate) fn refuse_arguments(error: &clap::Error, json: bool) -> ExitCode {
    // Nothing can be done about a closed output.
    let _ = error.print();
    if json && error.use_stderr() {
        let mut stdout = io::stdout().lock();
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let report = ErrorReport { code: "usage", message, hint: Some("see --help") };
        let _ = Output::new(&mut stdout, true).document(&ErrorDocument { error: report });
    }
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
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
            return (error.code(), error.advice().map(str::to_owned));
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
            let hint = "block files are named *.chunk, *.cbor, blk*.dat or *.blk, each also with \
                        .zst; a file given by name is always read";
            ("input", Some(hint))
        }
        FilesError::OtherNetwork { .. } => ("input", Some("pass the right --network")),
        FilesError::NoBlock { .. } => {
            ("input", Some("check the network, and the key in xor.dat if there is one"))
        }
        FilesError::TooDeep(_) | FilesError::BadKey(_) | FilesError::TooLarge { .. } => {
            ("input", None)
        }
        FilesError::Interrupted => ("interrupted", None),
        FilesError::Unknown => ("bug", Some("this is a bug; please report it")),
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
        Kind::Busy => "wait for the other command to end; queries can run alongside it",
        Kind::Unavailable => "check the disk (space, permissions), then run the command again",
        Kind::Corrupt => {
            "keep a copy for analysis; restore a backup, or import again into a new folder"
        }
        Kind::Bug => "this is a bug; please report it",
    };
    Some(advice.into())
}
