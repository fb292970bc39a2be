//! A data folder and the binary that works on it.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

/// A fresh data folder.
pub(crate) struct Folder {
    room: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// The JSON document of a command that did its work.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.err);
        serde_json::from_str(&self.out).expect("one JSON document")
    }

    /// The JSON of an error with this exit code.
    pub(crate) fn error(&self, code: i32) -> Value {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(self.err.starts_with("error: "), "{}", self.err);
        let document: Value = serde_json::from_str(&self.out).expect("one JSON document");
        document["error"].clone()
    }
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { room: tempfile::tempdir().unwrap() }
    }

    /// A place beside the data folder.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.room.path().join(name)
    }

    /// The data folder itself.
    pub(crate) fn data(&self) -> PathBuf {
        self.beside("data")
    }

    /// Runs `unspent` with these arguments and no settings from outside.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.run_on(&self.data(), arguments)
    }

    /// As [`Self::run`], on another data folder.
    pub(crate) fn run_on(&self, data: &Path, arguments: &[&str]) -> Ended {
        let mut command = assert_cmd::Command::cargo_bin("unspent").unwrap();
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UNSPENT_")) {
            command.env_remove(name);
        }
        command.arg("--data-dir").arg(data).args(arguments);
        let output = command.output().unwrap();
        Ended {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs `unspent --json chain …`.
    pub(crate) fn chain(&self, arguments: &[&str]) -> Ended {
        self.run(&[&["--json", "chain"], arguments].concat())
    }

    /// Imports files of a network.
    pub(crate) fn import(&self, options: &[&str], files: &[&Path]) -> Ended {
        let files: Vec<_> = files.iter().map(|file| file.to_str().unwrap()).collect();
        self.chain(&[&["import"], options, files.as_slice()].concat())
    }

    /// Height, count, value and fingerprint.
    pub(crate) fn digest(&self) -> Value {
        self.chain(&["digest"]).json()
    }

    /// `verify` finds nothing.
    pub(crate) fn assert_consistent(&self) {
        let report = self.chain(&["verify"]).json();
        assert_eq!(report["is_clean"], true, "{report}");
    }
}

/// Text of a JSON value that is a string.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
