//! ARCHITECTURE's "Where do I change …" names places that exist.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{demand, folders, root};

/// The rows of the table, from the whole page.
fn rows(page: &str) -> impl Iterator<Item = &str> {
    let table = page.split("### Where do I change").nth(1).unwrap_or_default();
    let table = table.split("\n### ").next().unwrap_or_default();
    table.lines().filter(|line| line.starts_with("| "))
}

/// What a row names: words in backticks that are paths.
fn paths(row: &str) -> Vec<&str> {
    let places = row.splitn(3, '|').nth(2).unwrap_or_default();
    let words = places.split('`').skip(1).step_by(2);
    let is_path = |word: &&str| !word.contains([' ', '*']) && word.contains(['/', '.']);
    words.filter(is_path).collect()
}

/// A path from the root, with a crate's name in the place of its folder.
fn from_root(path: &str) -> PathBuf {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let folder = folders().get(first).map(|folder| root().join(folder).join(rest));
    folder.unwrap_or_else(|| root().join(path))
}

/// Whether a name stands for a file of a room, which each room has under its own folder.
fn is_somewhere(name: &str, folder: &Path) -> bool {
    fs::read_dir(folder).into_iter().flatten().any(|entry| {
        let path = entry.unwrap().path();
        path.ends_with(name) || path.is_dir() && is_somewhere(name, &path)
    })
}

/// Names of a row that lead nowhere: a path from the root or a crate, from the folder of the path
/// before it or one above, or the name of a file that each room has.
fn missing<'a>(row: &'a str, crates: &Path) -> Vec<&'a str> {
    let (mut before, mut missing) = (PathBuf::new(), Vec::new());
    for path in paths(row) {
        let whole = from_root(path);
        let found = std::iter::once(whole)
            .chain(before.ancestors().map(|above| above.join(path)))
            .find(|place| place.starts_with(root()) && place.exists());
        match found {
            Some(place) => before = place,
            None if !path.contains('/') && is_somewhere(path, crates) => {}
            None => missing.push(path),
        }
    }
    missing
}

#[test]
fn every_place_where_something_is_changed_exists() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let crates = root().join("crates");
    assert!(rows(&page).count() > 30);
    let missing = rows(&page).flat_map(|row| {
        missing(row, &crates).into_iter().map(move |path| format!("{path}: {row}"))
    });
    demand("places are named that don't exist", &missing.collect::<Vec<_>>());
}

#[test]
fn a_place_that_does_not_exist_is_found() {
    let crates = root().join("crates");
    let row = "| a thing | `testkit/src/lib.rs`, `nowhere.rs`; `testkit/src/none.rs`, `a word` |";
    assert_eq!(missing(row, &crates), ["nowhere.rs", "testkit/src/none.rs"]);
    assert!(missing("| a thing | `testkit/tests/tidy`: `main.rs` |", &crates).is_empty());
}
