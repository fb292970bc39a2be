//! The shape of the workspace, as tests: who may depend on whom, what a room may not touch, and how
//! large things may grow. Sources and manifests are read as text.
//!
//! Each rule is a function from text to findings and one test over the workspace. The module at the
//! end shows that each rule can fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

mod circles;
mod names;
mod places;
mod saturating;
mod shape;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Lines of a source file, its inline tests apart.
const MAX_FILE_LINES: usize = 600;
/// Lines of a function, from `fn` to the closing brace.
const MAX_FUNCTION_LINES: usize = 70;
/// Characters of a line.
const MAX_COLUMNS: usize = 100;

/// Which crates of ours a crate may depend on. Rooms never import each other. A crate that isn't
/// here has to be added with thought.
const DIRECTION: [(&str, &[&str]); 20] = [
    ("verify", &[]),
    ("model", &[]),
    ("sim", &[]),
    ("networks", &["model"]),
    ("sql", &["model"]),
    ("source", &["model", "networks", "sim"]),
    ("engine", &["model", "networks", "sql", "source"]),
    ("server", &["model", "networks", "sql", "source", "engine"]),
    ("chain", &["model", "verify"]),
    ("chain-room", &["model", "networks", "verify", "sql", "source", "engine", "server", "chain"]),
    ("btcwallet", &["model"]),
    ("wallet", &["model", "sql", "btcwallet"]),
    (
        "wallet-room",
        &["model", "networks", "sim", "sql", "source", "engine", "server", "btcwallet", "wallet"],
    ),
    ("ecash", &["model", "sql"]),
    ("ecash-room", &["model", "sql", "source", "engine", "server", "ecash"]),
    ("txstore", &["model", "sql"]),
    ("txstore-room", &["model", "networks", "sql", "source", "engine", "server", "txstore"]),
    ("example-room", &["model", "sql", "engine", "server"]),
    (
        "app",
        &[
            "model",
            "networks",
            "sim",
            "sql",
            "verify",
            "source",
            "engine",
            "server",
            "chain",
            "chain-room",
            "btcwallet",
            "wallet",
            "wallet-room",
            "ecash",
            "ecash-room",
            "txstore",
            "txstore-room",
        ],
    ),
    ("testkit", &["model"]),
];

/// What tests and benchmarks of any crate may use besides.
const FOR_TESTS: [&str; 4] = ["model", "networks", "sim", "testkit"];
/// The room that shows how one is plugged in; tests alone plug it in.
const EXAMPLE: &str = "example-room";

const DATABASES: [&str; 4] = ["rocksdb", "rusqlite", "postgres", "sqlx"];

/// What a crate may not touch: paths of the standard library, and crates from outside.
const BANS: [(&str, &[&str]); 13] = [
    ("model", &["std::fs", "std::net", "std::time", "std::process", "std::env", "rand", "tokio"]),
    ("verify", &["std::fs", "std::net", "std::time", "std::process", "std::env", "rand", "tokio"]),
    ("networks", &["std::fs", "std::net", "tokio"]),
    ("btcwallet", &["std::fs", "std::net", "std::time", "tokio"]),
    ("sim", &["std::fs", "std::net", "std::time", "tokio"]),
    ("chain", &["std::net", "tokio", "rusqlite", "postgres", "axum"]),
    ("sql", &["rocksdb", "axum"]),
    ("wallet", &["rocksdb", "axum"]),
    ("ecash", &["rocksdb", "axum"]),
    ("txstore", &["rocksdb", "axum"]),
    ("source", &["rocksdb", "rusqlite", "postgres", "axum", "cashu"]),
    ("engine", &["rocksdb", "axum", "cashu"]),
    ("server", &["rocksdb", "rusqlite", "postgres", "cashu"]),
];

/// Crates that know no database at all.
const WITHOUT_DATABASE: [&str; 5] = ["model", "verify", "networks", "sim", "btcwallet"];

/// A source file or a manifest.
struct Source {
    /// From the root of the workspace.
    path: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every crate by its name without `unspent-` (`app` for the binary), with its folder from the root.
fn folders() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![root().join("crates")];
    while let Some(folder) = left.pop() {
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else {
            let inside = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
            left.extend(inside.filter(|path| path.is_dir()));
            continue;
        };
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")).unwrap();
        let name = name.trim_end_matches('"');
        let name = if name == "unspent" { "app" } else { name.trim_start_matches("unspent-") };
        let folder = folder.strip_prefix(root()).unwrap().display().to_string();
        found.insert(name.to_owned(), folder);
    }
    assert!(found.len() >= 6, "crates are missing: {found:?}");
    found
}

fn crates() -> Vec<String> {
    folders().into_keys().collect()
}

/// The sources of a crate, or of its tests.
fn sources_of(name: &str, part: &str) -> Vec<Source> {
    sources(&format!("{}/{part}", folders()[name]))
}

fn read(path: &Path) -> Source {
    let text = fs::read_to_string(path).unwrap();
    Source { path: path.strip_prefix(root()).unwrap().display().to_string(), text }
}

fn manifest(name: &str) -> Source {
    read(&root().join(&folders()[name]).join("Cargo.toml"))
}

/// Every `.rs` file under a folder of the workspace; none when there is no such folder.
fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn walk(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(read(&path));
        }
    }
}

/// The sources of every crate.
fn shipped() -> Vec<Source> {
    let found = crates().into_iter().flat_map(|name| sources_of(&name, "src"));
    let found: Vec<_> = found.collect();
    assert!(found.len() > 50, "only {} sources were found", found.len());
    found
}

fn demand(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

fn over_sources(rule: &str, check: impl Fn(&str, &str) -> Vec<String>) {
    let findings = shipped().into_iter().flat_map(|source| check(&source.path, &source.text));
    demand(rule, &findings.collect::<Vec<_>>());
}

fn over_manifests(rule: &str, check: impl Fn(&str, &str, &str) -> Vec<String>) {
    let findings = crates().into_iter().flat_map(|name| {
        let Source { path, text } = manifest(&name);
        check(&name, &path, &text)
    });
    demand(rule, &findings.collect::<Vec<_>>());
}

fn numbered(text: &str) -> Vec<(usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line)).collect()
}

/// Numbered lines of the part that ships: up to the inline tests; none of a file of tests.
fn shipped_lines<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    if path.ends_with("/tests.rs") {
        return Vec::new();
    }
    let mut lines = numbered(text);
    let tests = lines.windows(2).position(|pair| {
        pair[0].1.trim() == "#[cfg(test)]" && pair[1].1.contains("mod ") && pair[1].1.ends_with('{')
    });
    lines.truncate(tests.unwrap_or(lines.len()));
    lines
}

/// The line without its comment. A `//` inside a string cuts too much, which hides nothing that is
/// looked for here.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

// ---- who depends on whom

/// A dependency in a manifest.
struct Dependency {
    section: String,
    name: String,
    line: usize,
}

fn dependencies(manifest: &str) -> Vec<Dependency> {
    let (mut section, mut found) = (String::new(), Vec::new());
    for (line, text) in numbered(manifest) {
        let text = text.trim();
        if let Some(heading) = text.strip_prefix('[') {
            heading.trim_end_matches(']').clone_into(&mut section);
            // `[dependencies.name]`
            if let Some((kind, name)) = section.split_once("dependencies.") {
                let (section, name) = (format!("{kind}dependencies"), name.to_owned());
                found.push(Dependency { section, name, line });
            }
        } else if section.ends_with("dependencies")
            && let Some((name, _)) = text.split_once(['.', ' ', '='])
            && !name.starts_with('#')
        {
            found.push(Dependency { section: section.clone(), name: name.to_owned(), line });
        }
    }
    found
}

fn wrong_direction(name: &str, path: &str, manifest: &str) -> Vec<String> {
    let Some((_, allowed)) = DIRECTION.iter().find(|(known, _)| *known == name) else {
        return vec![format!("{path}:1: `{name}` has no place in the direction of dependencies")];
    };
    let wrong = dependencies(manifest).into_iter().filter_map(|found| {
        let Dependency { section, name: dependency, line } = found;
        let ours = dependency.strip_prefix("unspent-")?;
        let is_test_help = FOR_TESTS.contains(&ours) || (name, ours) == ("app", EXAMPLE);
        let for_tests = section.ends_with("dev-dependencies") && is_test_help;
        let is_wrong = !for_tests && !allowed.contains(&ours);
        is_wrong
            .then(|| format!("{path}:{line}: `{name}` may not depend on `{ours}` ([{section}])"))
    });
    wrong.collect()
}

#[test]
fn dependencies_point_one_way() {
    over_manifests("the direction of dependencies is broken", wrong_direction);
}

fn missing_lints(path: &str, manifest: &str) -> Vec<String> {
    let shared = manifest.contains("[lints]\nworkspace = true");
    if shared { Vec::new() } else { vec![format!("{path}:1: no `[lints] workspace = true`")] }
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    over_manifests("lints are missing", |_, path, text| missing_lints(path, text));
}

// ---- what a room may not touch

/// Modules like `std::fs` that a source names, written out or inside `std::{…}`, with their lines.
fn std_modules(lines: &[(usize, &str)]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut level = 0_usize;
    for (at, line) in lines {
        let mut rest = code(line);
        while level > 0 || rest.contains("std::") {
            if level == 0 {
                rest = rest.split_once("std::").unwrap().1;
                match rest.strip_prefix('{') {
                    Some(inside) => (level, rest) = (1, inside),
                    None => found.push((*at, format!("std::{}", first_word(rest)))),
                }
                continue;
            }
            let end = rest.find(['{', '}', ',']).unwrap_or(rest.len());
            let word = first_word(rest[..end].trim_start());
            if level == 1 && !word.is_empty() {
                found.push((*at, format!("std::{word}")));
            }
            match rest[end..].chars().next() {
                None => break,
                Some('{') => level += 1,
                Some('}') => level -= 1,
                Some(_) => {}
            }
            rest = &rest[end + 1..];
        }
    }
    found
}

/// Whether code names a crate: as the start of a path, or as an import.
fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = &code[at + name.len()..];
        let is_import = code.trim_start().starts_with("use ") || code.contains("extern crate ");
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | ':'))
            && (after.starts_with("::") || (is_import && after.starts_with([';', ' '])))
    })
}

fn banned_code(banned: &[&str], path: &str, text: &str) -> Vec<String> {
    let lines = numbered(text);
    let std = std_modules(&lines).into_iter().filter(|(_, name)| banned.contains(&&**name));
    let mut found: Vec<_> = std.map(|(at, name)| format!("{path}:{at}: `{name}`")).collect();
    for (at, line) in &lines {
        let crates = banned.iter().filter(|name| !name.contains("::"));
        let named = crates.filter(|name| names_crate(code(line), name));
        found.extend(named.map(|name| format!("{path}:{at}: `{name}`")));
    }
    found
}

fn banned_crates(banned: &[&str], path: &str, manifest: &str) -> Vec<String> {
    let found = dependencies(manifest).into_iter().filter(|dependency| {
        !dependency.section.ends_with("dev-dependencies") && banned.contains(&&*dependency.name)
    });
    found.map(|Dependency { name, line, .. }| format!("{path}:{line}: `{name}`")).collect()
}

fn banned_in(name: &str, banned: &[&str]) -> Vec<String> {
    if !crates().iter().any(|known| known == name) {
        return Vec::new();
    }
    let Source { path, text } = manifest(name);
    let mut found = banned_crates(banned, &path, &text);
    for Source { path, text } in sources_of(name, "src") {
        found.extend(banned_code(banned, &path, &text));
    }
    found
}

#[test]
fn rooms_keep_their_bans() {
    let bans = BANS.iter().flat_map(|(name, banned)| banned_in(name, banned));
    let databases = WITHOUT_DATABASE.iter().flat_map(|name| banned_in(name, &DATABASES));
    let found: Vec<_> = bans.chain(databases).collect();
    demand("a room touches what it may not", &found);
}

#[test]
fn anyhow_stays_where_people_are_answered() {
    let answers = |name: &String| name == "app" || name == "server" || name.ends_with("-room");
    let libraries = crates().into_iter().filter(|name| !answers(name));
    let found: Vec<_> = libraries.flat_map(|name| banned_in(&name, &["anyhow"])).collect();
    demand("libraries have typed errors", &found);
}

fn sql(path: &str, text: &str) -> Vec<String> {
    let statements = ["\"SELECT ", "\"INSERT ", "\"UPDATE ", "\"DELETE ", "\"CREATE TABLE "];
    let lines = numbered(text).into_iter();
    let found = lines.filter(|(_, line)| statements.iter().any(|word| code(line).contains(word)));
    found.map(|(at, _)| format!("{path}:{at}: SQL")).collect()
}

#[test]
fn only_the_sql_rooms_write_sql() {
    let others = ["model", "verify", "networks", "sim", "chain", "server", "app"];
    let all = others.into_iter().flat_map(|name| sources_of(name, "src"));
    let found: Vec<_> = all.flat_map(|source| sql(&source.path, &source.text)).collect();
    demand("SQL outside of the SQL rooms", &found);
}

// ---- how large things may grow

fn long_file(path: &str, text: &str) -> Vec<String> {
    let lines = shipped_lines(path, text).len();
    let long = lines > MAX_FILE_LINES;
    long.then(|| format!("{path}:{lines}: {lines} lines")).into_iter().collect()
}

#[test]
fn files_are_short() {
    over_sources("files are too long", long_file);
}

fn is_function(line: &str) -> bool {
    let modifier = |word: &&str| {
        word.starts_with("pub") || matches!(*word, "const" | "async" | "unsafe" | "extern")
    };
    line.split_whitespace().find(|word| !modifier(word)) == Some("fn")
}

/// Relies on rustfmt: a function ends at the next `}` indented like its `fn`.
fn long_functions(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_function(line)) {
        if line.trim_end().ends_with([';', '}']) {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let close = format!("{:indent$}}}", "");
        let length = lines[at..].iter().position(|line| *line == close).map_or(1, |end| end + 1);
        if length > MAX_FUNCTION_LINES {
            found.push(format!("{path}:{}: a function of {length} lines", at + 1));
        }
    }
    found
}

#[test]
fn functions_are_short() {
    over_sources("functions are too long", long_functions);
}

/// What is left of a line when its strings are empty.
fn columns_without_strings(line: &str) -> usize {
    line.split('"').step_by(2).map(|piece| piece.chars().count()).sum()
}

/// Tables in documentation, addresses and strings can't be wrapped.
fn long_lines(path: &str, text: &str) -> Vec<String> {
    let is_table = |line: &str| {
        let line = line.trim_start();
        line.starts_with("//! |") || line.starts_with("/// |")
    };
    let long = shipped_lines(path, text).into_iter().filter(|(_, line)| {
        line.chars().count() > MAX_COLUMNS
            && columns_without_strings(line) > MAX_COLUMNS
            && !is_table(line)
            && !line.contains("://")
    });
    long.map(|(at, line)| format!("{path}:{at}: {} columns", line.chars().count())).collect()
}

#[test]
fn lines_are_short() {
    over_sources("lines are too long", long_lines);
}

// ---- the rest

fn unfinished(path: &str, text: &str) -> Vec<String> {
    let marks = ["todo!(", "unimplemented!(", "FIXME"];
    let lines = numbered(text).into_iter();
    let found = lines.filter(|(_, line)| marks.iter().any(|mark| line.contains(mark)));
    found.map(|(at, line)| format!("{path}:{at}: {}", line.trim())).collect()
}

#[test]
fn nothing_is_left_unfinished() {
    over_sources("unfinished work", unfinished);
}

fn no_front_page(path: &str, text: &str) -> Vec<String> {
    let has_one = text.starts_with("//! ");
    if has_one { Vec::new() } else { vec![format!("{path}:1: does not start with `//!`")] }
}

#[test]
fn every_file_says_what_it_is_for() {
    over_sources("files without a front page", no_front_page);
}

/// Names of column families: the lines of their table.
fn family_names(schema: &str) -> Vec<String> {
    let lines = schema.lines().filter(|line| line.contains("= FamilyFacts::"));
    let names = lines.filter_map(|line| line.split_once("(\"")?.1.split_once('"'));
    names.map(|(name, _)| name.to_owned()).collect()
}

fn repeated_names(names: &[String], sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        let literal = format!("\"{name}\"");
        let places = sources.iter().flat_map(|Source { path, text }| {
            let lines = shipped_lines(path, text).into_iter();
            let lines = lines.filter(|(_, line)| code(line).contains(&literal));
            lines.map(move |(at, _)| format!("{path}:{at}"))
        });
        let places: Vec<_> = places.collect();
        if places.len() != 1 {
            found.push(format!("{literal} stands {} times: {places:?}", places.len()));
        }
    }
    found
}

#[test]
fn each_column_family_is_named_in_one_place() {
    let sources = sources("crates/rooms/chain/store/src");
    let schema = sources.iter().find(|source| source.path.ends_with("/schema.rs")).unwrap();
    let names = family_names(&schema.text);
    assert!(names.len() >= 8, "column families are missing: {names:?}");
    demand("names of column families are repeated", &repeated_names(&names, &sources));
}

/// Names in backticks that look like tests, but are none.
fn unknown_tests(document: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let named = numbered(document).into_iter().flat_map(|(at, line)| {
        let names = line.split('`').skip(1).step_by(2);
        names.map(move |name| (at, name))
    });
    let unknown = named.filter(|(_, name)| {
        name.matches('_').count() >= 3 && name.chars().all(is_letter) && !tests.contains(*name)
    });
    unknown.map(|(at, name)| format!("TESTING.md:{at}: there is no test `{name}`")).collect()
}

/// Names of all functions in tests, inline tests included.
fn test_names() -> BTreeSet<String> {
    let folders = ["tests", "src"];
    let all = crates()
        .into_iter()
        .flat_map(|name| folders.into_iter().flat_map(move |folder| sources_of(&name, folder)));
    let mut names = BTreeSet::new();
    for source in all {
        let functions = source.text.lines().filter_map(|line| line.trim().strip_prefix("fn "));
        names.extend(functions.map(|rest| first_word(rest).to_owned()));
    }
    names
}

#[test]
fn every_test_that_the_test_plan_names_exists() {
    let document = read(&root().join("TESTING.md"));
    demand("the test plan is out of date", &unknown_tests(&document.text, &test_names()));
}

/// Every rule on samples that break it, and on some that don't.
mod each_rule_can_fail {
    use super::*;

    #[test]
    fn direction() {
        let bad = "[dependencies]\nunspent-chain.workspace = true\n";
        let finding = &wrong_direction("model", "crates/foundations/model/Cargo.toml", bad)[0];
        assert!(finding.starts_with("crates/foundations/model/Cargo.toml:2:"), "{finding}");
        assert!(finding.contains("`model` may not depend on `chain`"), "{finding}");
        let table = "[dependencies.unspent-wallet]\npath = \"x\"\n";
        assert_eq!(wrong_direction("chain", "m", table).len(), 1);
        let target = "[target.'cfg(unix)'.dependencies]\nunspent-app = { path = \"x\" }\n";
        assert_eq!(wrong_direction("chain", "m", target).len(), 1);
        let testkit = "[dependencies]\nunspent-testkit.workspace = true\n";
        assert_eq!(wrong_direction("app", "m", testkit).len(), 1);
        let room_in_tests = "[dev-dependencies]\nunspent-wallet.workspace = true\n";
        assert_eq!(wrong_direction("chain", "m", room_in_tests).len(), 1);
        assert_eq!(wrong_direction("utils", "m", "").len(), 1);
        let good = "[dependencies]\nunspent-model.workspace = true\n\
                    [dev-dependencies]\nunspent-testkit.workspace = true\n";
        assert!(wrong_direction("chain", "m", good).is_empty());
    }

    #[test]
    fn lints() {
        assert_eq!(missing_lints("m", "[package]\n").len(), 1);
        assert!(missing_lints("m", "[lints]\nworkspace = true\n").is_empty());
    }

    #[test]
    fn bans() {
        let banned = ["std::fs", "std::time", "rand"];
        let count = |text: &str| banned_code(&banned, "a.rs", text).len();
        assert_eq!(banned_code(&banned, "a.rs", "\nuse std::fs;"), ["a.rs:2: `std::fs`"]);
        assert_eq!(count("use std::{fmt, fs};"), 1);
        assert_eq!(count("use std::{\n    collections::{HashMap, HashSet},\n    fs,\n};"), 1);
        assert_eq!(count("use std::{fs::{self, File}, io, time::Instant};"), 2);
        assert_eq!(count("let now = std::time::Instant::now();"), 1);
        assert_eq!(count("let x = rand::random();"), 1);
        assert_eq!(count("use rand;"), 1);
        assert_eq!(count("use std::{fmt, collections::fs};\n// std::fs\nlet g = grand::x();"), 0);
        let manifest = "[dependencies]\nrand = \"1\"\n[dev-dependencies]\nrand = \"1\"\n";
        assert_eq!(banned_crates(&banned, "m", manifest), ["m:2: `rand`"]);
        assert_eq!(sql("a.rs", "let q = \"SELECT 1\";"), ["a.rs:1: SQL"]);
        assert!(sql("a.rs", "// \"SELECT 1\"").is_empty());
    }

    #[test]
    fn sizes() {
        let lines = "x\n".repeat(MAX_FILE_LINES);
        assert!(long_file("a.rs", &lines).is_empty());
        assert_eq!(long_file("a.rs", &format!("{lines}x\n")).len(), 1);
        assert!(long_file("a.rs", &format!("{lines}#[cfg(test)]\nmod tests {{\n}}\n")).is_empty());
        let function = |lines: usize| {
            let body = "        x;\n".repeat(lines - 2);
            format!("impl A {{\n    pub(crate) fn f() {{\n{body}    }}\n}}\n")
        };
        assert!(long_functions("a.rs", &function(MAX_FUNCTION_LINES)).is_empty());
        let finding = &long_functions("a.rs", &function(MAX_FUNCTION_LINES + 1))[0];
        assert!(finding.starts_with("a.rs:2:"), "{finding}");
        let long = "x".repeat(MAX_COLUMNS + 1);
        assert_eq!(long_lines("a.rs", &format!("\n// {long}")), ["a.rs:2: 104 columns"]);
        assert!(long_lines("a.rs", &format!("//! | {long}\nlet a = \"{long}\";")).is_empty());
        assert!(long_lines("a.rs", &"x".repeat(MAX_COLUMNS)).is_empty());
    }

    #[test]
    fn unfinished_work_and_front_pages() {
        assert_eq!(unfinished("a.rs", "\n    todo!()"), ["a.rs:2: todo!()"]);
        assert_eq!(unfinished("a.rs", "// FIXME later").len(), 1);
        assert!(unfinished("a.rs", "let todo = 1;").is_empty());
        assert_eq!(no_front_page("a.rs", "use std::fmt;"), ["a.rs:1: does not start with `//!`"]);
        assert!(no_front_page("a.rs", "//! Coins.").is_empty());
    }

    #[test]
    fn family_names_and_test_names() {
        let table =
            "    A = FamilyFacts::new(\"cf_a\", x),\n    B = FamilyFacts::pruned(\"cf_b\"),";
        let names = family_names(table);
        assert_eq!(names, ["cf_a", "cf_b"]);
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let twice = [source("a.rs", "\"cf_a\", \"cf_b\""), source("b.rs", "// x\nget(\"cf_a\")")];
        let finding = &repeated_names(&names, &twice)[0];
        assert_eq!(finding, "\"cf_a\" stands 2 times: [\"a.rs:1\", \"b.rs:2\"]");
        assert_eq!(repeated_names(&["cf_c".into()], &twice).len(), 1);
        let tests = BTreeSet::from(["a_coin_is_kept_whole".to_owned()]);
        assert!(unknown_tests("see `a_coin_is_kept_whole`", &tests).is_empty());
        assert_eq!(unknown_tests("see `a_coin_is_lost_whole`", &tests).len(), 1);
    }
}
