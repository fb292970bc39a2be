//! Questions on the command line while an import is at work on the folder: the answer is right, or
//! that there is nothing yet, or that the folder is busy. It is never called damaged.
#![allow(clippy::print_stdout)]

use std::process::Stdio;

use serde_json::Value;

use crate::{
    chain_faults::{blocks, count, import},
    run::{Ended, Folder, text},
};

/// Questions in the usual run, a process each; `UNSPENT_ASIDE` raises it.
const QUESTIONS: u64 = 200;

/// What the questions came to.
#[derive(Default, Debug)]
struct Tally {
    answered: u64,
    too_early: u64,
    busy: u64,
}

impl Tally {
    fn asked(&self) -> u64 {
        self.answered + self.too_early + self.busy
    }

    /// Notes an answer; the document, if there was one.
    fn note(&mut self, ended: &Ended) -> Option<Value> {
        if ended.code == 0 {
            self.answered += 1;
            return Some(ended.json());
        }
        let error = ended.error(1);
        if error["code"] == "busy" {
            self.busy += 1;
        } else {
            assert!(text(&error["message"]).contains("no chain data"), "{self:?}: {error}");
            self.too_early += 1;
        }
        None
    }
}

/// Asks while an import into a new folder lasts.
fn beside_one(file: &std::path::Path, tally: &mut Tally) {
    let folder = Folder::new();
    let mut importing = import(&folder.data(), file, &["--bulk-memory-mb", "1"]);
    let mut child = importing.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut last = 0;
    while child.try_wait().unwrap().is_none() {
        let Some(status) = tally.note(&folder.chain(&["status"])) else { continue };
        let height = status["tip"]["height"].as_u64().unwrap_or(0);
        assert!((last..=4312).contains(&height), "after {last}: {status}");
        last = height;
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(folder.digest()["height"], 4312);
}

#[test]
fn nothing_is_called_damaged_while_an_import_is_at_work() {
    let first = Folder::new();
    let Some(file) = blocks(&first) else { return };
    let (wanted, mut tally) = (count("UNSPENT_ASIDE", QUESTIONS), Tally::default());
    while tally.asked() < wanted {
        beside_one(&file, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.answered > wanted / 4, "{tally:?}");
}
