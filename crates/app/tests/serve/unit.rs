//! The shipped systemd unit, as far as it can be tried without systemd.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::daemon::ended;

/// What the script ends with where the machine doesn't let it work.
const NOT_HERE: i32 = 77;

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

#[test]
fn the_unit_starts_a_daemon_for_which_root_makes_tokens() {
    let mut command = Command::new(packaging("test-unit"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UNSPENT_")) {
        command.env_remove(name);
    }
    command.arg(assert_cmd::cargo::cargo_bin("unspent"));
    let (code, out, err) = ended(command);
    if code == NOT_HERE {
        assert!(std::env::var_os("UNSPENT_REQUIRE_PEERS").is_none(), "{err}");
        eprintln!("SKIPPED: {err}");
        return;
    }
    assert_eq!(code, 0, "{out}\n{err}");
}

#[test]
fn systemd_understands_the_unit() {
    let text = std::fs::read_to_string(packaging("unspent.service")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("unspent.service");
    let binary = assert_cmd::cargo::cargo_bin("unspent");
    // It looks whether the program is there.
    let text = text.replace("/usr/local/bin/unspent", binary.to_str().unwrap());
    std::fs::write(&unit, text).unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no"]).arg(&unit);
    let Ok(found) = command.output() else {
        eprintln!("SKIPPED: there is no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&found.stderr);
    let about: Vec<&str> = said.lines().filter(|line| line.contains("unspent.service")).collect();
    assert!(found.status.success() && about.is_empty(), "{said}");
}
