//! Every file is served, every file named exists, and nothing reaches beyond this server.

use std::{collections::BTreeSet, fs, path::Path};

use unspent_server::asset::{Asset, SCRIPT};

use super::{INDEX, POLICY, tag_of};

const MAX_LINES: usize = 600;
const MAX_COLUMNS: usize = 100;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web")
}

/// Every file but the first page.
fn assets() -> impl Iterator<Item = &'static Asset> {
    super::assets(crate::ROOMS)
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
    for room in rooms() {
        let web = folder().join(format!("../../../rooms/{room}/room/web"));
        files(&web, &format!("rooms/{room}/"), &mut there);
    }
    let served = assets().chain([&INDEX]).map(|(name, ..)| (*name).to_owned());
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
    for (name, _, text) in assets().chain([&INDEX]) {
        let outside = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("://"), "{name} names an address elsewhere");
        for wrong in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!text.contains(wrong), "{name}: {wrong}");
        }
    }
}

#[test]
fn every_import_leads_to_a_file() {
    let served: BTreeSet<_> = assets().map(|(name, ..)| Path::new(*name).to_owned()).collect();
    let scripts = assets().filter(|(_, kind, _)| *kind == SCRIPT);
    for (name, _, text) in scripts {
        for line in text.lines().filter(|line| line.contains(" from \".")) {
            let import = line.rsplit('"').nth(1).unwrap();
            let mut found = Path::new(name).parent().unwrap().to_owned();
            for step in Path::new(import).components() {
                match step.as_os_str().to_str().unwrap() {
                    "." => {}
                    ".." => assert!(found.pop(), "{name}: {import}"),
                    piece => found.push(piece),
                }
            }
            assert!(served.contains(&found), "{name}: {import}");
        }
    }
}

/// The room whose folder a file stands in.
fn room_of(name: &str) -> Option<&str> {
    Some(name.strip_prefix("rooms/")?.split_once('/')?.0)
}

/// Every room that has a folder.
fn rooms() -> BTreeSet<&'static str> {
    assets().filter_map(|(name, ..)| room_of(name)).collect()
}

/// Whether a line has a room's name in a string of its own, as a field, or in a path.
fn names_room(line: &str, room: &str) -> bool {
    let field = format!(".{room}");
    let is_field = line.match_indices(&field).any(|(at, _)| {
        !line[at + field.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_')
    });
    let words = [format!("\"{room}\""), format!("/{room}/")];
    is_field || words.iter().any(|word| line.contains(word.as_str()))
}

/// Lines of a script that name a room other than its own; the list of rooms may.
fn named_rooms(name: &str, text: &str) -> Vec<String> {
    if name == "rooms.js" {
        return Vec::new();
    }
    let own = room_of(name);
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap();
        // The API calls a tenant, and a scope, by what a room is called as well.
        if ["tenant", "scope"].iter().any(|word| code.contains(word)) {
            continue;
        }
        let others = rooms().into_iter().filter(|room| Some(*room) != own);
        let named = others.filter(|room| names_room(code, room));
        found.extend(named.map(|room| format!("{name}:{} names the {room} room", at + 1)));
    }
    found
}

#[test]
fn a_script_names_no_room_but_its_own() {
    let scripts = assets().filter(|(_, kind, _)| *kind == SCRIPT);
    let found: Vec<_> = scripts.flat_map(|(name, _, text)| named_rooms(name, text)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_script_that_names_another_room_is_found() {
    let none: [&str; 0] = [];
    for line in [
        "import { chain } from \"./rooms/chain/index.js\";",
        "if (isOn(\"ecash\")) return;",
        "const records = status.txstore?.records;",
    ] {
        assert_eq!(named_rooms("live.js", line).len(), 1, "{line}");
        assert_eq!(named_rooms("rooms.js", line), none);
    }
    let import = "import * as api from \"../chain/api.js\";";
    assert_eq!(named_rooms("rooms/wallet/acts.js", import).len(), 1);
    assert_eq!(named_rooms("rooms/chain/tip.js", import), none);
    for line in ["// the \"chain\" room", "value.chained", "  tenant: value.wallet ?? null,"] {
        assert_eq!(named_rooms("live.js", line), none, "{line}");
    }
}

#[test]
fn each_room_is_one_line_of_the_list() {
    let (_, _, list) = assets().find(|(name, ..)| *name == "rooms.js").unwrap();
    let listed = list.lines().filter(|line| line.starts_with("export ")).map(str::to_owned);
    let line = |room| format!("export {{ {room} }} from \"./rooms/{room}/index.js\";");
    let wanted = rooms().into_iter().map(line);
    assert_eq!(listed.collect::<BTreeSet<_>>(), wanted.collect());
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    for (name, kind, text) in assets() {
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
