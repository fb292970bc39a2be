//! Bytes rot in the files of a closed store: an error or the right answer, never a wrong one.
//!
//! The one loss that is allowed is that of the log's end, which can't be told from a power failure:
//! then the store stands at an earlier block, is consistent there, and says that blocks are lost.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use unspent_chain::{ChainIndex, Kind, QueryError, Reader, StoreKind};
use unspent_testkit::crash::{self, Rng};

use crate::{
    driver::{Run, data},
    history::{History, NETWORK},
};

/// A closed store with tables on disk and blocks in the log.
pub struct Store {
    pub history: History,
    pub folder: TempDir,
}

impl Store {
    pub fn build(seed: u64, self_contained: bool) -> Self {
        Self::build_on(StoreKind::Classic, seed, self_contained)
    }

    pub fn build_on(store: StoreKind, seed: u64, self_contained: bool) -> Self {
        let history = History::stored(seed, self_contained).on(store);
        let folder = crate::scratch();
        Run::open(&history, folder.path()).unwrap().finish().unwrap();
        Self { history, folder }
    }

    pub fn copy(&self) -> TempDir {
        let copy = crate::scratch();
        crash::copy_folder(self.folder.path(), copy.path()).unwrap();
        copy
    }

    /// The folder's files by kind, in a fixed order.
    fn files(&self) -> BTreeMap<&'static str, Vec<PathBuf>> {
        let root = self.folder.path();
        let mut files = BTreeMap::<_, Vec<_>>::new();
        files.insert("acknowledged", vec![PathBuf::from("data/acknowledged")]);
        for entry in fs::read_dir(data(root).join("db")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let kind = match name {
                _ if name.ends_with(".sst") => "table",
                _ if name.ends_with(".log") => "log",
                _ if name.starts_with("MANIFEST") => "MANIFEST",
                _ if name.starts_with("OPTIONS") => "OPTIONS",
                "CURRENT" => "CURRENT",
                "IDENTITY" => "IDENTITY",
                _ => continue,
            };
            let not_empty = fs::metadata(&path).unwrap().len() > 0;
            let path = path.strip_prefix(root).unwrap().to_owned();
            if not_empty {
                files.entry(kind).or_default().push(path);
            }
        }
        files.values_mut().for_each(|paths| paths.sort());
        files
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    Right,
    OpenError,
    VerifyError,
    VerifyFindings,
    EarlierBlock,
}

fn flip(path: &Path, rng: &mut Rng) -> String {
    let length = fs::metadata(path).unwrap().len();
    let (at, bit) = (rng.below(length), rng.below(8));
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    byte[0] ^= 1 << bit;
    file.write_all_at(&byte, at).unwrap();
    format!("bit {bit} of byte {at}")
}

fn truncate(path: &Path, rng: &mut Rng) -> String {
    let length = rng.below(fs::metadata(path).unwrap().len());
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
    format!("cut to {length} bytes")
}

/// What a damaged store does; panics on a wrong answer.
fn examine(store: &Store, folder: &Path, what: &str) -> Outcome {
    let options = store.history.options(30);
    let (index, report) = match ChainIndex::open(&data(folder), NETWORK, options, &[]) {
        Ok(opened) => opened,
        Err(error) => {
            let kind = error.kind();
            assert!(matches!(kind, Kind::Corrupt | Kind::Unavailable), "{what}: {kind:?} {error}");
            return Outcome::OpenError;
        }
    };
    let tip = index.tip();
    let right = store.history.tip_after(store.history.steps.len());
    match answers(store, &index.reader(), what) {
        Outcome::Right if tip == right.map(|right| store.history.point(right)) => {
            assert_eq!(report.torn, None, "{what}");
            Outcome::Right
        }
        Outcome::Right => {
            assert!(report.torn.is_some(), "{what}: writes are lost and nobody says so");
            Outcome::EarlierBlock
        }
        other => other,
    }
}

/// `verify` finds something, or every answer is right as of the tip.
fn answers(store: &Store, reader: &Reader, what: &str) -> Outcome {
    let named = |error: QueryError| {
        assert!(matches!(error.kind(), Kind::Corrupt | Kind::Unavailable), "{what}: {error}");
        Outcome::VerifyError
    };
    match reader.verify(&mut |_| {}) {
        Err(error) => return named(error),
        Ok(report) if !report.is_clean() => return Outcome::VerifyFindings,
        Ok(_) => {}
    }
    match reader.digest() {
        Err(error) => named(error),
        Ok(digest) => {
            let tip = digest.at.map(|at| store.history.find(at).expect(what));
            assert_eq!(digest, store.history.digest(tip), "{what}");
            Outcome::Right
        }
    }
}

/// Damages one file after the other, all kinds in turn.
fn damage(seed: u64, how: fn(&Path, &mut Rng) -> String, cases: u64) {
    let store = Store::build(seed, seed % 2 == 1);
    let files = store.files();
    let kinds = ["table", "log", "MANIFEST", "CURRENT", "OPTIONS", "acknowledged", "IDENTITY"];
    let mut rng = Rng::new(seed);
    let mut outcomes = BTreeMap::<(&str, Outcome), u64>::new();
    for case in 0..cases {
        let kind = kinds[case as usize % kinds.len()];
        let paths = &files[kind];
        let path = &paths[rng.below(paths.len() as u64) as usize];
        let copy = store.copy();
        let done = how(&copy.path().join(path), &mut rng);
        let what = format!("case {case} of seed {seed}: {}, {done}", path.display());
        // A reader that stands beside a writer sees the damage first.
        if let Ok(reader) = Reader::open(&data(copy.path()), 1 << 20) {
            answers(&store, &reader, &what);
        }
        let outcome = examine(&store, copy.path(), &what);
        *outcomes.entry((kind, outcome)).or_default() += 1;
    }
    println!("{cases} damaged files: {outcomes:#?}");
    let detected = outcomes.iter().filter(|((_, outcome), _)| *outcome != Outcome::Right);
    assert!(detected.count() > 0, "no damage was ever seen");
}

fn cases() -> u64 {
    crate::count("UNSPENT_FLIPS", 500).div_ceil(2)
}

#[test]
fn a_flipped_bit_is_an_error_or_makes_no_difference() {
    damage(40, flip, cases());
}

#[test]
fn a_truncated_file_is_an_error_or_a_block_boundary_with_the_loss_reported() {
    damage(41, truncate, cases());
}

/// What a store does without one of its files.
fn without(kind: &str) -> Vec<Outcome> {
    let store = Store::build(42, false);
    let removed = store.files()[kind].clone();
    let outcomes = removed.iter().map(|path| {
        let copy = store.copy();
        fs::remove_file(copy.path().join(path)).unwrap();
        examine(&store, copy.path(), &format!("without {}", path.display()))
    });
    outcomes.collect()
}

#[test]
fn a_missing_table_or_catalogue_is_an_error() {
    for kind in ["table", "MANIFEST", "CURRENT"] {
        let outcomes = without(kind);
        assert!(outcomes.iter().all(|o| *o == Outcome::OpenError), "{kind}: {outcomes:?}");
    }
}

#[test]
fn a_missing_log_is_a_loss_that_is_reported() {
    assert_eq!(without("log"), [Outcome::EarlierBlock]);
}

#[test]
fn files_that_hold_no_coins_may_be_missing() {
    for kind in ["OPTIONS", "IDENTITY", "acknowledged"] {
        let outcomes = without(kind);
        assert!(outcomes.iter().all(|o| *o == Outcome::Right), "{kind}: {outcomes:?}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_unavailable_not_damaged() {
    let folder = crate::scratch();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let options = History::stored(42, false).options(30);
    let error = ChainIndex::open(&file, NETWORK, options, &[]).err().unwrap();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
}
