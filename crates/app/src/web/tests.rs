//! Every file is served, every file named exists, and nothing reaches beyond this server.

use std::{collections::BTreeSet, fs, path::Path};

use super::{ASSETS, INDEX, POLICY, SCRIPT, tag_of};

const MAX_LINES: usize = 600;
const MAX_COLUMNS: usize = 100;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web")
}

fn files(folder: &Path, above: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{above}{}", entry.file_name().into_string().unwrap());
        if entry.path().is_dir() {
            files(&entry.path(), &format!("{name}/"), found);
        } else if !name.ends_with(".rs") {
            found.insert(name);
        }
    }
}

#[test]
fn every_file_of_the_folder_is_in_the_binary() {
    let mut there = BTreeSet::new();
    files(&folder(), "", &mut there);
    let served = ASSETS.iter().chain([&INDEX]).map(|(name, ..)| (*name).to_owned());
    assert_eq!(served.collect::<BTreeSet<_>>(), there);
}

#[test]
fn nothing_is_inline_and_nothing_comes_from_elsewhere() {
    assert!(POLICY.starts_with("default-src 'self';"));
    let (_, _, page) = INDEX;
    for wrong in ["<style", "style=", "onclick", "javascript:"] {
        assert!(!page.contains(wrong), "{wrong}");
    }
    for script in page.split("<script").skip(1) {
        assert!(script.contains("src=\"/assets/"), "an inline script");
    }
    for (name, _, text) in ASSETS.iter().chain([&INDEX]) {
        let outside = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("://"), "{name} names an address elsewhere");
        for wrong in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!text.contains(wrong), "{name}: {wrong}");
        }
    }
}

#[test]
fn every_import_leads_to_a_file() {
    let scripts = ASSETS.iter().filter(|(_, kind, _)| *kind == SCRIPT);
    for (name, _, text) in scripts {
        let above = Path::new(name).parent().unwrap();
        for line in text.lines().filter(|line| line.contains(" from \".")) {
            let import = line.rsplit('"').nth(1).unwrap();
            let found = folder().join(above).join(import);
            assert!(found.is_file(), "{name}: {import}");
        }
    }
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    for (name, kind, text) in ASSETS {
        assert!(text.lines().count() <= MAX_LINES, "{name} is too long");
        for (at, line) in text.lines().enumerate() {
            assert!(line.chars().count() <= MAX_COLUMNS, "{name}:{}", at + 1);
        }
        assert!(*kind != SCRIPT || text.starts_with("// "), "{name} has no front line");
    }
}

#[test]
fn another_text_has_another_tag() {
    assert_ne!(tag_of("a"), tag_of("b"));
    assert_eq!(tag_of("a").len(), 34);
}
