//! The demonstration.

use std::{path::Path, process::Command};

use unspent_testkit::pages::commands;

use crate::run::Folder;

/// Runs what README.md shows of the folder that a demonstration has left.
fn look_as_the_readme_says(folder: &Folder) {
    let page = include_str!("../../../../README.md");
    let script = format!("set -eu\n{}", commands(page, "demo"));
    let binary = assert_cmd::cargo::cargo_bin("unspent");
    let mut path = vec![binary.parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(folder.beside(""));
    let output = shell.env("PATH", std::env::join_paths(path).unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{wrong}");
    for told in ["tip", "confirmed", "replaced"] {
        assert!(said.contains(told), "{told}: {said}");
    }
}

#[test]
fn the_demonstration_tells_its_story_agrees_with_its_truth_and_leaves_a_folder() {
    let folder = Folder::new();
    let dir = folder.beside("demo-data");
    let dir = dir.to_str().unwrap();
    let quickly = ["demo", "--dir", dir, "--seconds", "8", "--pace", "20"];
    let port = ["--listen", "127.0.0.1:0"];
    let ended = folder.run(&[&quickly[..], &port].concat());
    assert_eq!(ended.code, 0, "{}", ended.err);
    for told in ["The dashboard: http://127.0.0.1:", "blocks are replaced", "pruned:", "0 wrong"] {
        assert!(ended.out.contains(told), "{told}: {}", ended.out);
    }
    // Again, over its own folder, for programs.
    let story = folder.run(&[&["--json"], &quickly[..], &port, &["--seed", "5"]].concat()).json();
    let checked = &story["checked"];
    assert_eq!((&checked["coins_wrong"], &checked["wallets"]), (&0.into(), &2.into()));
    for kind in ["payments", "fee_bumps", "double_spends", "reorganisations", "leases"] {
        assert!(story["actions"][kind].as_u64() > Some(0), "{kind}: {story}");
    }
    assert!(story["reorganisations_followed"].as_u64() > Some(0), "{story}");
    let data = Path::new(dir).join("data");
    let status = folder.run_on(&data, &["--json", "chain", "status"]).json();
    assert_eq!(status["utxos"], checked["coins"]);
    let balance = folder.run_on(&data, &["--json", "wallet", "balance", "alice"]);
    assert_eq!(balance.code, 0, "{}", balance.err);
    look_as_the_readme_says(&folder);
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
