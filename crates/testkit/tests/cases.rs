//! The table of all tests, `docs/tests.md`: made from the sources, and compared with what is stored.
//! `make cases` writes it anew.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Names of the tests of a file, in its order: the function after each `#[test]`.
fn tests_of(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while lines.by_ref().any(|line| line == "#[test]") {
        // Other attributes and comments may stand between.
        let name = lines.by_ref().find_map(|line| line.strip_prefix("fn "));
        names.extend(name.and_then(|rest| rest.split(['(', '<']).next()));
    }
    names
}

/// The folder of every crate.
fn crates() -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![root().join("crates")]);
    while let Some(folder) = left.pop() {
        if folder.join("Cargo.toml").exists() {
            found.push(folder);
            continue;
        }
        let inside = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        left.extend(inside.filter(|path| path.is_dir()));
    }
    found
}

/// Tests by crate, then by file.
fn all_tests() -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
    let mut all: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for folder in crates() {
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        sources(&folder.join("tests"), &mut files);
        for path in files {
            let text = fs::read_to_string(&path).unwrap();
            let tests: Vec<_> = tests_of(&text).into_iter().map(str::to_owned).collect();
            if !tests.is_empty() {
                let file = path.strip_prefix(&folder).unwrap().display().to_string();
                let name = folder.strip_prefix(root().join("crates")).unwrap();
                let name = name.display().to_string();
                all.entry(name).or_default().insert(file, tests);
            }
        }
    }
    all
}

fn page() -> String {
    let all = all_tests();
    let count: usize = all.values().flat_map(BTreeMap::values).map(Vec::len).sum();
    let mut page = format!(
        "# Tests\n\nEvery test, by crate and file; its name is what it shows. Generated from the sources by\n\
         `make cases`; what they are for is in [TESTING.md](../TESTING.md). {count} tests.\n"
    );
    for (name, files) in all {
        write!(page, "\n## {name}\n\n| file | test |\n|---|---|\n").unwrap();
        for (file, tests) in files {
            for (index, test) in tests.iter().enumerate() {
                let place = if index == 0 { format!("`{file}`") } else { String::new() };
                writeln!(page, "| {place} | `{test}` |").unwrap();
            }
        }
    }
    page
}

#[test]
fn the_table_of_tests_is_that_of_the_sources() {
    let path = root().join("docs/tests.md");
    if std::env::var_os("UNSPENT_WRITE_DOCS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == page(), "docs/tests.md is old; run `make cases`");
}

#[test]
fn a_test_is_the_function_after_its_attribute() {
    let text =
        "#[test]\n#[ignore]\nfn one() {}\nfn none() {}\n    #[test]\n    fn two(a in 0..1) {}";
    assert_eq!(tests_of(text), ["one", "two"]);
}
