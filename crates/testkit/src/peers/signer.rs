//! A signer that shares no code with ours: `embit`, in a Python environment of its own.
#![allow(clippy::expect_used)]

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{python::environment, required};

/// The version that the tests were written against.
const EMBIT: &str = "embit==0.8.0";
/// Reads a PSBT and private keys, one a line; signs with each and prints the PSBT.
const SIGN: &str = "
import sys
from embit import bip32
from embit.psbt import PSBT
lines = sys.stdin.read().split()
psbt = PSBT.from_string(lines[0])
print(sum(psbt.sign_with(bip32.HDKey.from_string(key)) for key in lines[1:]))
print(psbt.to_string())
";

/// A signer that can be started here.
#[derive(Clone, Debug)]
pub struct Signer {
    python: PathBuf,
}

impl Signer {
    /// Makes the environment where it isn't there; `None` after saying that the test is skipped.
    ///
    /// # Panics
    ///
    /// When it can't be had though `UNSPENT_REQUIRE_PEERS` is set.
    pub fn find() -> Option<Self> {
        let programs = required("the signer (embit)", environment("embit", &[EMBIT]))?;
        Some(Self { python: programs.join("python") })
    }

    /// The Python that has the signer's package, for scripts of others.
    pub fn python(&self) -> &Path {
        &self.python
    }

    /// Signs a PSBT (base64) with extended private keys: how many signatures were made, and the
    /// signed PSBT.
    ///
    /// # Panics
    ///
    /// When the signer fails.
    pub fn sign(&self, psbt: &str, keys: &[String]) -> (usize, String) {
        let mut child = Command::new(&self.python)
            .args(["-c", SIGN])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the signer can be started");
        let mut to = child.stdin.take().expect("its input is ours");
        to.write_all(format!("{psbt}\n{}\n", keys.join("\n")).as_bytes()).expect("it reads");
        drop(to);
        let done = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "the signer failed: {said}");
        let answer = String::from_utf8_lossy(&done.stdout);
        let mut lines = answer.lines();
        let count = lines.next().and_then(|line| line.parse().ok()).expect("a count");
        (count, lines.next().expect("a PSBT").to_owned())
    }
}
