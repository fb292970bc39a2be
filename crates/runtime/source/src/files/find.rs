//! Which files are meant by the paths given, in which order.
//!
//! A file named by hand is always taken. In a folder, what looks like block files is taken, in
//! natural order of the names, and companions (indexes, undo files, notes) are left alone.

use std::{
    cmp::Ordering,
    fs,
    path::{Path, PathBuf},
};

use super::FilesError;

/// Folders nested deeper than this are a loop of links.
const MAX_DEPTH: usize = 32;
/// How names of block files end, apart from `blk*.dat`.
const ENDINGS: [&str; 6] = ["chunk", "cbor", "blk", "block", "raw", "bin"];
/// The part of a Cardano node's database that holds settled blocks.
const IMMUTABLE: &str = "immutable";

/// One file of blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputFile {
    /// Where it lies.
    pub path: PathBuf,
    /// It is packed with zstd.
    pub is_packed: bool,
}

impl InputFile {
    /// A file, packed when its name says so.
    pub fn new(path: PathBuf) -> Self {
        let is_packed = path.extension().is_some_and(|ending| ending == "zst");
        Self { path, is_packed }
    }
}

/// All files meant by `paths`, in the order in which they are to be read, each once.
///
/// # Errors
///
/// [`FilesError`] when a path can't be read or a folder holds no block files.
pub fn find(paths: &[PathBuf]) -> Result<Vec<InputFile>, FilesError> {
    let mut found = Vec::new();
    for path in paths {
        let kind = fs::metadata(path).map_err(FilesError::unreadable(path))?;
        if kind.is_dir() {
            let before = found.len();
            walk(path, 0, &mut found)?;
            if found.len() == before {
                return Err(FilesError::NoFiles(path.clone()));
            }
        } else {
            found.push(path.clone());
        }
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    Ok(found.into_iter().map(InputFile::new).collect())
}

fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), FilesError> {
    if depth > MAX_DEPTH {
        return Err(FilesError::TooDeep(folder.to_owned()));
    }
    let immutable = folder.join(IMMUTABLE);
    if immutable.is_dir() {
        return walk(&immutable, depth + 1, found);
    }
    let entries = fs::read_dir(folder).map_err(FilesError::unreadable(folder))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(FilesError::unreadable(folder))?;
    paths.sort_by(|a, b| natural(&name(a), &name(b)));
    for path in &paths {
        if path.is_dir() {
            // Bitcoin Core keeps a database named `index` beside its block files.
            if name(path) != "index" && !name(path).starts_with('.') {
                walk(path, depth + 1, found)?;
            }
        } else if is_block_file(&name(path)) && !has_unpacked_twin(path, &paths) {
            found.push(path.clone());
        }
    }
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_block_file(name: &str) -> bool {
    let inner = name.strip_suffix(".zst");
    let plain = inner.unwrap_or(name);
    match plain.rsplit_once('.') {
        Some(("", _)) => false,
        Some((stem, "dat")) => stem.starts_with("blk"),
        Some((_, ending)) => ENDINGS.contains(&ending),
        None => inner.is_some(),
    }
}

fn has_unpacked_twin(path: &Path, all: &[PathBuf]) -> bool {
    path.extension().is_some_and(|ending| ending == "zst") && all.contains(&path.with_extension(""))
}

/// Compares names so that runs of digits count as numbers: `9.chunk` before `10.chunk`.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let ((text_a, number_a, rest_a), (text_b, number_b, rest_b)) = (split(left), split(right));
        let order = text_a.cmp(text_b).then_with(|| compare_numbers(number_a, number_b));
        if order != Ordering::Equal || (rest_a.is_empty() && rest_b.is_empty()) {
            return order.then_with(|| a.cmp(b));
        }
        (left, right) = (rest_a, rest_b);
    }
}

/// Text up to the first digit, the digits, and the rest.
fn split(name: &str) -> (&str, &str, &str) {
    let start = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (text, rest) = name.split_at(start);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    (text, number, rest)
}

/// Compares digits of any length without their leading zeros.
fn compare_numbers(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_names_count_as_numbers() {
        let mut names = ["blk10.dat", "blk9.dat", "blk009.dat", "a2b", "a10", "a2"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a2", "a2b", "a10", "blk009.dat", "blk9.dat", "blk10.dat"]);
        assert_eq!(
            natural("x99999999999999999999999", "x100000000000000000000000"),
            Ordering::Less
        );
    }

    #[test]
    fn companions_of_block_files_are_left_alone() {
        for yes in ["00000.chunk", "blk00000.dat", "x.cbor.zst", "chunks-1.zst", "a.blk"] {
            assert!(is_block_file(yes), "{yes}");
        }
        for no in ["00000.primary", "00000.secondary", "xor.dat", "rev00000.dat", "README.md"] {
            assert!(!is_block_file(no), "{no}");
        }
        for no in ["lock", "clean", ".chunk", "expected.json", "tx-blocks.csv"] {
            assert!(!is_block_file(no), "{no}");
        }
    }
}
