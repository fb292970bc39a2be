//! Faults at a chosen system call: a small library is loaded into the worker before libc.
//!
//! `strace` can inject faults too, but counts each system call of each thread by itself, so it can't
//! name every point of a program with several threads. This one counts them all in one row.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use unspent_testkit::crash;

use crate::{driver::data, worker::Plan};

/// What happens at the chosen call.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The process is killed in place of the call.
    Kill,
    /// A write is done by half, then the process is killed.
    Torn,
    /// The call says that the disk is full.
    Once,
    /// From this call on the disk is full.
    Full,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Torn => "torn",
            Self::Once => "once",
            Self::Full => "full",
        }
    }
}

/// The compiled library.
pub struct Interposer {
    _folder: TempDir,
    library: PathBuf,
}

impl Interposer {
    /// Compiles it; `None`, after saying so, where there is no C compiler.
    pub fn build() -> Option<Self> {
        let folder = crate::scratch();
        let library = folder.path().join("syscalls.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/syscalls.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]);
        compiler.arg(&library).args([source, "-ldl"]);
        match compiler.output() {
            Ok(output) => {
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{errors}");
                Some(Self { _folder: folder, library })
            }
            Err(error) => {
                let required = env::var_os("UNSPENT_REQUIRE_PEERS").is_some_and(|set| set == "1");
                assert!(!required, "no C compiler: {error}");
                eprintln!("SKIPPED: no C compiler to build the fault injector: {error}");
                None
            }
        }
    }

    /// A worker for `plan` with the fault at the given call.
    pub fn worker(
        &self,
        plan: &Plan,
        job: &str,
        folder: &Path,
        fault: Fault,
        call: u64,
    ) -> Command {
        let mut worker = plan.worker(job, folder);
        worker.env("LD_PRELOAD", &self.library);
        worker.env("UNSPENT_FAULT_UNDER", data(folder));
        worker.env("UNSPENT_FAULT", format!("{}:{call}", fault.name()));
        worker
    }

    /// How many calls an undisturbed run makes.
    pub fn calls(&self, plan: &Plan) -> u64 {
        let folder = crate::scratch();
        let count = folder.path().join("count");
        let mut worker = self.worker(plan, "run", folder.path(), Fault::Once, 0);
        let mut child = worker.env("UNSPENT_FAULT_COUNT", &count).spawn().unwrap();
        let status = crash::wait(&mut child, crate::worker::PATIENCE).unwrap();
        assert!(status.success(), "{status}: {}", crate::worker::last_words(&mut child));
        fs::read_to_string(count).unwrap().trim().parse().unwrap()
    }
}
