//! What lies on the disk is for its owner alone, whatever the umask; and so are descriptors.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    access::token,
    daemon::{Daemon, Folder, ended, umasked, unspent},
    world::{self, SEED_SETTING, address, descriptor, funded},
};

/// Everything below a folder that others may read, write or enter.
fn open_to_others(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        let is = std::fs::symlink_metadata(&path).unwrap();
        let mode = is.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            found.push((path.clone(), mode));
        }
        if is.is_dir() {
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

/// Runs a command of the binary without any mask on modes.
fn unmasked(data: &Path, arguments: &[&str]) {
    let mut command = unspent(data);
    command.args(arguments);
    let (code, out, err) = ended(umasked("000", &command));
    assert_eq!(code, 0, "{out} {err}");
}

const NONE: [(PathBuf, u32); 0] = [];

#[test]
fn whatever_the_umask_only_the_owner_reads_the_folder_and_its_backups() {
    let folder = Folder::new();
    let data = folder.data();
    unmasked(&data, &["token", "add", "r"]);
    let settings = [SEED_SETTING, "txstore.enabled=true", "source.sim.blocks=5"];
    let daemon = Daemon::start_umasked("000", &data, &settings);
    daemon.wait_for("it follows", |client| client.get("/readyz").status == 200);
    let names = ["wallet.db", "wallet.db-wal", "engine.db", "txstore.db", ".cookie", "tokens.json"];
    for name in names.iter().chain(&["chain", "LOCK", "daemon.json", "sim"]) {
        assert!(data.join(name).exists(), "{name} is part of this test");
    }
    assert_eq!(open_to_others(&data), NONE);
    let saved = folder.beside("beside");
    unmasked(&data, &["db", "backup", saved.to_str().unwrap()]);
    assert_eq!(open_to_others(&saved), NONE);
    assert_eq!(daemon.end(), 0);
    let saved = folder.beside("alone");
    unmasked(&data, &["db", "backup", saved.to_str().unwrap()]);
    assert_eq!(open_to_others(&saved), NONE);
    // Somebody was careless with the backup; what is restored is private all the same.
    let chmod = Command::new("chmod").args(["-R", "a+rwX"]).arg(&saved).status().unwrap();
    assert!(chmod.success());
    let back = folder.beside("back");
    unmasked(&back, &["db", "restore", saved.to_str().unwrap()]);
    assert_eq!(open_to_others(&back), NONE);
    // A folder of an older version, whose files anybody could read.
    let chmod = Command::new("chmod").args(["-R", "go+rX"]).arg(&back).status().unwrap();
    assert!(chmod.success());
    std::fs::remove_file(back.join("tokens.json")).unwrap();
    std::fs::write(back.join("notes.txt"), "not ours").unwrap();
    let daemon = Daemon::start_umasked("000", &back, &settings);
    let left: Vec<PathBuf> = open_to_others(&back).into_iter().map(|(path, _)| path).collect();
    // The folder itself is the operator's, and so is what we didn't make.
    assert_eq!(left, [back.clone(), back.join("notes.txt")]);
    assert_eq!(daemon.end(), 0);
}

#[test]
fn a_configuration_that_root_writes_can_be_read_by_the_daemons_user() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.data()).unwrap();
    let file = folder.beside("unspent.toml");
    let mut init = unspent(&folder.data());
    init.args(["config", "init"]).arg(&file);
    assert_eq!(ended(umasked("022", &init)).0, 0);
    // The daemon's user must be able to read what root wrote.
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn descriptors_are_for_those_who_may_change_wallets() {
    let folder = funded();
    let (read, wallet) = (token(&folder, "r", "read"), token(&folder, "w", "wallet"));
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    let xpub = descriptor().split_once('(').unwrap().1.split_once('/').unwrap().0.to_owned();
    let label = format!("{{\"type\":\"xpub\",\"ref\":\"{xpub}\",\"label\":\"mine\"}}");
    let kind = [("content-type", "text/plain")];
    let import = "/api/v1/wallets/alice/labels/import";
    let imported = daemon.admin().send("POST", import, &kind, Some(label.as_bytes()));
    assert_eq!(imported.status, 200, "{}", imported.text);
    let one = format!("/api/v1/wallets/alice/addresses/{}", address(0));
    let paths = [
        "/api/v1/wallets/alice",
        &one,
        "/api/v1/wallets/alice/labels",
        "/api/v1/wallets/alice/labels/export",
    ];
    let cookie = daemon.nobody().get("/").header("set-cookie").unwrap().to_owned();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    for path in paths {
        let seen = daemon.with(&wallet).get(path);
        assert!(seen.status == 200 && seen.text.contains(&xpub), "{path}: {}", seen.text);
        let read = daemon.with(&read).get(path);
        assert_eq!((read.status, read.text.contains(&xpub)), (200, false), "{path}");
        let guest = daemon.nobody().send("GET", path, &[("cookie", &cookie)], None);
        assert_eq!((guest.status, guest.text.contains("pub")), (200, false), "{}", guest.text);
    }
}
