//! The demonstration.

use std::path::Path;

use crate::run::Folder;

#[test]
fn the_demonstration_reorganises_agrees_with_its_truth_and_leaves_a_folder() {
    let folder = Folder::new();
    let dir = folder.beside("demo");
    let dir = dir.to_str().unwrap();
    let ended = folder.run(&["demo", "--dir", dir]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.out.contains("rolled back"), "{}", ended.out);
    assert!(ended.out.contains("found 0 differences"), "{}", ended.out);
    // Again, over its own folder, for programs.
    let story = folder.run(&["--json", "demo", "--dir", dir, "--seed", "5"]).json();
    assert_eq!(story["checked"]["equals_simulator"], true);
    assert_eq!(story["reorganisation"]["rolled_back"]["blocks"], 6);
    assert_eq!(story["reorganisation"]["blocks"], 7);
    assert_ne!(story["contested_coin"]["before"], story["contested_coin"]["after"]);
    let data = Path::new(dir).join("data");
    let status = folder.run_on(&data, &["--json", "chain", "status"]).json();
    assert_eq!(status["utxos"], story["checked"]["utxos"]);
}

#[test]
fn the_demonstration_does_not_touch_a_folder_that_is_not_its_own() {
    let folder = Folder::new();
    let dir = folder.beside("demo");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("thesis.txt"), "years of work").unwrap();
    let ended = folder.run(&["--json", "demo", "--dir", dir.to_str().unwrap()]);
    ended.error(1);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
}
