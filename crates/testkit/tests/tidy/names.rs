//! Names: a room is named in its own places, a type name means one thing in a crate, a column is
//! read by its name.

use std::collections::BTreeMap;

use super::{
    Source, code, crates, demand, first_word, numbered, over_sources, shipped_lines, sources_of,
};

/// The rooms: each has crates of its own.
const ROOMS: [&str; 4] = ["chain", "wallet", "ecash", "txstore"];

/// Files of `app` that may name a room: the list, and what is about several rooms on purpose. That
/// the engine and the server know none is Cargo's to hold.
const MAY_NAME_ROOMS: [&str; 3] = [
    // The list.
    "crates/app/src/lib.rs",
    // The demonstration pays wallets, on purpose.
    "crates/app/src/demo/",
    // A filter of log lines names where they come from.
    "crates/app/src/logging.rs",
];

/// Code that names a room: its crate, or its module.
fn names_room(line: &str, room: &str) -> bool {
    let code = code(line);
    let words =
        [format!("unspent_{room}::"), format!("unspent_{room};"), format!("unspent_{room}_room")];
    words.iter().any(|word| code.contains(word.as_str()))
}

fn misplaced_rooms(path: &str, text: &str) -> Vec<String> {
    let is_shared = path.starts_with("crates/app/src/");
    if !is_shared || MAY_NAME_ROOMS.iter().any(|place| path.starts_with(place)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for room in ROOMS {
        let lines = shipped_lines(path, text).into_iter();
        let lines = lines.filter(|(_, line)| names_room(line, room));
        found.extend(lines.map(|(at, _)| format!("{path}:{at}: names the {room} room")));
    }
    found
}

#[test]
fn a_room_is_named_in_its_own_places() {
    over_sources("rooms are named elsewhere", misplaced_rooms);
}

/// The name of a type that a line defines.
fn defined_type(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("pub").map_or(line, |rest| {
        let rest = rest.strip_prefix('(').map_or(rest, |rest| rest.split_once(')').unwrap().1);
        rest.trim_start()
    });
    let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|w| rest.strip_prefix(w))?;
    let name = first_word(rest);
    // A type of a trait is the trait's.
    let is_associated = line.starts_with("type ") && line.contains(';') && line.contains("Self::");
    (!name.is_empty() && !is_associated).then_some(name)
}

fn repeated_types(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Source { path, text } in sources {
        for (at, line) in shipped_lines(path, text) {
            // Only what stands at the top of a module: inside a function or an impl it is local.
            let is_top = !line.starts_with(' ');
            if let Some(name) = defined_type(code(line)).filter(|_| is_top) {
                places.entry(name).or_default().push(format!("{path}:{at}"));
            }
        }
    }
    let twice = places.into_iter().filter(|(_, places)| places.len() > 1);
    twice.map(|(name, places)| format!("`{name}` is defined at {}", places.join(", "))).collect()
}

#[test]
fn a_type_name_means_one_thing_in_a_crate() {
    let found = crates().into_iter().flat_map(|name| repeated_types(&sources_of(&name, "src")));
    demand("type names are used twice", &found.collect::<Vec<_>>());
}

/// A column read by its number.
fn positional_reads(path: &str, text: &str) -> Vec<String> {
    if path.starts_with("crates/foundations/sql/") {
        return Vec::new();
    }
    let readers = [
        "int",
        "natural",
        "text",
        "blob",
        "hash",
        "bool",
        "opt_int",
        "opt_natural",
        "opt_text",
        "opt_blob",
        "opt_hash",
    ];
    let is_positional = |line: &str| {
        readers.iter().any(|reader| {
            let call = format!(".{reader}(");
            let after = code(line).split(call.as_str()).nth(1).unwrap_or_default();
            after.starts_with(|c: char| c.is_ascii_digit())
        })
    };
    let lines = numbered(text).into_iter().filter(|(_, line)| is_positional(line));
    lines.map(|(at, line)| format!("{path}:{at}: {}", line.trim())).collect()
}

#[test]
fn columns_are_read_by_name() {
    over_sources("columns are read by their number", positional_reads);
}

#[test]
fn each_rule_on_names_can_fail() {
    let reader = "use unspent_chain::Reader;";
    assert_eq!(misplaced_rooms("crates/app/src/api/search.rs", reader).len(), 1);
    assert!(misplaced_rooms("crates/app/src/lib.rs", reader).is_empty());
    let shape = "unspent_wallet_room::SHAPE";
    assert_eq!(misplaced_rooms("crates/app/src/backup/make.rs", shape).len(), 1);
    assert!(
        misplaced_rooms("crates/rooms/wallet/store/src/lib.rs", "use unspent_wallet::x;")
            .is_empty()
    );
    let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let two = [source("a.rs", "pub(crate) struct Desk {"), source("b.rs", "enum Desk {")];
    assert_eq!(repeated_types(&two), ["`Desk` is defined at a.rs:1, b.rs:1"]);
    assert!(
        repeated_types(&[source("a.rs", "struct A;\nimpl B for A {\n    type A = u8;")]).is_empty()
    );
    assert_eq!(positional_reads("crates/rooms/wallet/store/src/a.rs", "row.int(3)?").len(), 1);
    assert!(
        positional_reads("crates/rooms/wallet/store/src/a.rs", "row.int(\"height\")?").is_empty()
    );
}
