//! A backup comes back whole, and what was unconfirmed is judged again.

use serde_json::{Value, json};

use unspent_testkit::wallet::postgres;

use crate::{
    daemon::{Daemon, Folder, ended, unspent},
    world::{self, SEED_SETTING, balance, funded, network, script},
};

fn db(folder: &Folder, data: &str, verb: &str, with: &str) -> (i32, String, String) {
    let mut command = unspent(&folder.beside(data));
    command.args(["--json", "db", verb]).arg(folder.beside(with));
    ended(command)
}

#[test]
fn a_backup_is_restored_and_the_mempool_is_read_again() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    let before = balance(&daemon.admin(), "alice");
    assert_eq!(before["unconfirmed_foreign"]["value"], "25000");
    assert_eq!(daemon.end(), 0);
    let (code, out, err) = db(&folder, "data", "backup", "saved");
    assert_eq!(code, 0, "{err}");
    let saved: Value = serde_json::from_str(&out).unwrap();
    assert!(saved["files"].as_u64().unwrap() > 3, "{saved}");
    assert_eq!(db(&folder, "data", "backup", "saved").0, 1, "it is there already");
    assert_eq!(db(&folder, "data", "restore", "saved").0, 1, "the folder holds something");
    // What waited is confirmed, and something else waits: the backup knows neither.
    let net = network(&folder);
    net.mine_mempool().unwrap();
    net.pay(&script(3), 11_000, 300).unwrap();
    drop(net);
    assert_eq!(db(&folder, "restored", "restore", "saved").0, 0);
    // The network has gone on; only what we keep was brought back.
    let sim = folder.beside("restored").join("sim");
    std::fs::remove_dir_all(&sim).unwrap();
    std::fs::rename(folder.data().join("sim"), &sim).unwrap();
    let daemon = crate::daemon::Daemon::start(&folder.beside("restored"), &[SEED_SETTING]);
    daemon.wait_for("every unconfirmed row is judged again", |client| {
        let now = balance(client, "alice");
        now["confirmed"]["value"] == "145000" && now["unconfirmed_foreign"]["value"] == "11000"
    });
    let audit = daemon.admin().get("/api/v1/wallets/alice/audit").ok();
    assert_eq!(audit["differences"].as_array().unwrap().len(), 0);
    assert_eq!(daemon.end(), 0);
}

#[test]
fn a_damaged_or_half_written_backup_is_refused_whole() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    assert_eq!(daemon.end(), 0);
    assert_eq!(db(&folder, "data", "backup", "saved").0, 0);
    let wallet = folder.beside("saved").join("wallet.db");
    let mut bytes = std::fs::read(&wallet).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&wallet, &bytes).unwrap();
    let (code, _, err) = db(&folder, "fresh", "restore", "saved");
    assert_eq!((code, err.contains("wallet.db")), (1, true), "{err}");
    assert!(!folder.beside("fresh").join("chain").exists());
    std::fs::remove_file(folder.beside("saved").join("backup.json")).unwrap();
    let (code, _, err) = db(&folder, "fresh", "restore", "saved");
    assert_eq!((code, err.contains("list of files is missing")), (1, true), "{err}");
    let list = r#"{"version":1,"files":[{"path":"../x","bytes":0,"sha256":""}]}"#;
    std::fs::write(folder.beside("saved").join("backup.json"), list).unwrap();
    assert_eq!(db(&folder, "fresh", "restore", "saved").0, 1, "a path that leads out");
}

/// Starts a restore and kills it as soon as it has begun to put files together.
fn killed_restore(folder: &Folder, data: &str, saved: &str) -> bool {
    let side = folder.beside(&format!("{data}.restoring"));
    let mut command = unspent(&folder.beside(data));
    command.args(["db", "restore"]).arg(folder.beside(saved));
    let mut child = command.spawn().unwrap();
    while !side.exists() {
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(ended.success(), "{ended}");
            return false;
        }
        std::thread::yield_now();
    }
    let _ = child.kill();
    child.wait().unwrap();
    side.exists()
}

#[test]
fn a_killed_restore_is_refused_by_name_and_done_again() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    assert_eq!(daemon.end(), 0);
    // Something that takes a moment to copy.
    std::fs::write(folder.data().join("sim/large"), vec![7; 96 << 20]).unwrap();
    assert_eq!(db(&folder, "data", "backup", "saved").0, 0);
    let mut tries = (0..20).map(|at| format!("back-{at}"));
    let data = tries.find(|data| killed_restore(&folder, data, "saved"));
    let data = data.expect("no kill hit a restore at work");
    let path = folder.beside(&data);
    assert!(!path.join("wallet.db").exists(), "nothing is in its place yet");
    let serve = Daemon::command(&path, &[SEED_SETTING]);
    let (code, _, err) = ended(serve);
    let named = err.contains("restore") && err.contains(&format!("{data}.restoring"));
    assert_eq!((code, named), (1, true), "{err}");
    for arguments in [&["wallet", "list"][..], &["chain", "status"], &["token", "list"]] {
        let (code, _, err) = run(&path, arguments);
        assert_eq!((code, err.contains("was interrupted")), (1, true), "{arguments:?}: {err}");
    }
    let (code, _, err) = db(&folder, &data, "backup", "again");
    assert_eq!((code, err.contains("was interrupted")), (1, true), "{err}");
    let (code, _, err) = db(&folder, &data, "restore", "saved");
    assert_eq!(code, 0, "{err}");
    assert!(!folder.beside(&format!("{data}.restoring")).exists());
    let daemon = Daemon::start(&path, &[SEED_SETTING]);
    assert_eq!(balance(&daemon.admin(), "alice")["confirmed"]["value"], "120000");
    assert_eq!(daemon.end(), 0);
}

/// A volume can't be renamed over: what is inside it is put into place instead.
#[test]
fn a_mount_point_is_restored_into_and_a_half_one_is_refused_too() {
    let folder = funded();
    assert_eq!(folder.start(&[SEED_SETTING]).end(), 0);
    assert_eq!(db(&folder, "data", "backup", "saved").0, 0);
    let volume = folder.beside("volume");
    std::fs::create_dir(&volume).unwrap();
    let unspent = assert_cmd::cargo::cargo_bin("unspent");
    let script = "mount -t tmpfs tmpfs \"$1\" || exit 99
        \"$0\" --data-dir \"$1\" db restore \"$2\" || exit 1
        test -e \"$1/engine.db\" -a ! -e \"$1/restoring\" || exit 2
        mkdir \"$1/restoring\"; mv \"$1/engine.db\" \"$1/restoring\"
        \"$0\" --data-dir \"$1\" chain status 2>&1 | grep -q 'was interrupted' || exit 3
        \"$0\" --data-dir \"$1\" db restore \"$2\" || exit 4
        \"$0\" --data-dir \"$1\" chain status || exit 5";
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script]);
    command.arg(unspent).arg(&volume).arg(folder.beside("saved"));
    let (code, out, err) = ended(command);
    if code == 99 || err.starts_with("unshare") {
        eprintln!("skipped: this system lets nobody mount a volume");
        return;
    }
    assert_eq!(code, 0, "{out} {err}");
}

fn run(data: &std::path::Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = unspent(data);
    command.args(arguments);
    ended(command)
}

fn height(daemon: &Daemon) -> u64 {
    let status = daemon.admin().get("/api/v1/status").ok();
    let rooms = status["rooms"].as_array().unwrap();
    let on = rooms.iter().filter(|room| room["state"] != "off");
    on.map(|room| room["tip"]["height"].as_u64().unwrap_or(0)).min().unwrap()
}

/// Blocks with payments and reorganisations come all the time.
const LIVELY: [&str; 6] = [
    SEED_SETTING,
    "txstore.enabled=true",
    "source.sim.block_seconds=1",
    "source.sim.payments=30",
    "source.sim.reorg_every=3",
    "http.listen=127.0.0.1:0",
];

#[test]
fn a_daemon_that_follows_is_saved_and_what_is_restored_agrees() {
    let folder = funded();
    let daemon = folder.start(&LIVELY);
    world::make_wallet(&daemon, "alice");
    let before = height(&daemon);
    for (round, name) in ["first", "second", "third"].into_iter().enumerate() {
        daemon.wait_for("blocks come in", |_| height(&daemon) > before + round as u64);
        let (code, out, err) = db(&folder, "data", "backup", name);
        assert_eq!(code, 0, "{err}");
        let saved: Value = serde_json::from_str(&out).unwrap();
        assert!(saved["files"].as_u64().unwrap() > 3, "{saved}");
    }
    let after = height(&daemon);
    daemon.wait_for("it goes on", |_| height(&daemon) > after);
    let (code, _, err) = db(&folder, "data", "backup", "third");
    assert_eq!((code, err.contains("is not empty")), (1, true), "{err}");
    assert_eq!(daemon.end(), 0);
    assert!(!folder.data().join("daemon.json").exists());
    for name in ["first", "third"] {
        let restored = folder.beside(&format!("{name}-restored"));
        assert_eq!(db(&folder, &format!("{name}-restored"), "restore", name).0, 0);
        assert!(!restored.join("wallet.db-queue").exists(), "no part of a backup");
        let (code, out, err) = run(&restored, &["chain", "verify"]);
        assert_eq!(code, 0, "{out} {err}");
        let (code, out, err) = run(&restored, &["wallet", "audit", "alice"]);
        assert_eq!(code, 0, "{out} {err}");
        let (code, out, err) = run(&restored, &["--json", "txstore", "repair"]);
        assert_eq!((code, out.contains("\"unknown\": []")), (0, true), "{out} {err}");
        let daemon = Daemon::start(&restored, &LIVELY);
        let from = height(&daemon);
        daemon.wait_for("it follows from there", |_| height(&daemon) > from.max(before) + 2);
        let audit = daemon.admin().get("/api/v1/wallets/alice/audit").ok();
        assert_eq!(audit["differences"], json!([]));
        assert_eq!(daemon.end(), 0);
        assert_eq!(run(&restored, &["chain", "verify"]).0, 0);
    }
}

#[test]
fn a_backup_over_rest_says_how_it_went() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    let to = folder.beside("saved");
    let body = json!({ "folder": to.to_str().unwrap() });
    assert_eq!(daemon.admin().post("/api/v1/backup", &body).status, 202);
    let state = || daemon.admin().get("/api/v1/backup").ok();
    daemon.wait_for("it is saved", |_| state()["state"] == "done");
    assert_eq!(state()["folder"], to.to_str().unwrap());
    assert!(to.join("backup.json").is_file());
    // The folder holds something now.
    assert_eq!(daemon.admin().post("/api/v1/backup", &body).status, 202);
    daemon.wait_for("it is refused", |_| state()["state"] == "failed");
    assert!(state()["reason"].as_str().unwrap().contains("is not empty"));
    daemon.nobody().post("/api/v1/backup", &body).refused(401);
    assert_eq!(daemon.end(), 0);
}

#[test]
fn wallets_are_copied_to_postgresql_and_back() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    assert_eq!(daemon.end(), 0);
    let Some(server) = postgres::database() else { return };
    let (data, back) = (folder.data(), folder.beside("back.db"));
    let here = format!("sqlite:{}", data.join("wallet.db").display());
    let back = format!("sqlite:{}", back.display());
    let secret = folder.beside("url");
    std::fs::write(&secret, format!("{server}\n")).unwrap();
    let at = format!("@{}", secret.display());
    let copy =
        |from: &str, to: &str| run(&data, &["--json", "db", "copy", "--room", "wallet", from, to]);
    let (code, out, err) = copy(&here, &at);
    assert_eq!(code, 0, "{err}");
    let there: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&there["room"], &there["differences"]), (&json!("wallet"), &json!([])));
    let (code, _, err) = copy(&here, &at);
    assert_eq!((code, err.contains("already holds rows")), (1, true), "{err}");
    let (code, out, err) = copy(&at, &back);
    assert_eq!(code, 0, "{err}");
    let again: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(again["tables"], there["tables"], "the same rows, and so the same sums");
    let shown = |url: &str| run(&data, &["--json", "wallet", "--url", url, "txs", "alice"]);
    assert_eq!(shown(&here), shown(&server));
    assert_eq!(shown(&here), shown(&back));
    let (code, _, err) = run(&data, &["db", "copy", &here, "mysql://x", "--room", "wallet"]);
    assert_eq!(code, 2, "{err}");
    assert_eq!(run(&data, &["db", "copy", &here, &back, "--room", "chain"]).0, 2);
}

/// What `--only wallet` saves is all that it takes to have the wallets again: the chain is read
/// anew, or put back by hand.
#[test]
fn wallets_alone_are_saved_while_the_daemon_runs_and_come_back() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    let saved = |name: &str, rooms: &[&str]| {
        let mut command = unspent(&folder.data());
        command.args(["--json", "db", "backup"]).arg(folder.beside(name)).args(rooms);
        ended(command)
    };
    let (code, out, err) = saved("hot", &["--only", "wallet"]);
    assert_eq!((code, out.contains("\"files\": 1")), (0, true), "{out} {err}");
    let to = folder.beside("hot-rest");
    let body = json!({ "folder": to.to_str().unwrap(), "only": ["wallet"] });
    assert_eq!(daemon.admin().post("/api/v1/backup", &body).status, 202);
    daemon.wait_for("it is saved", |client| client.get("/api/v1/backup").ok()["state"] == "done");
    let both = json!({ "folder": "/x", "only": ["wallet"], "without": ["chain"] });
    assert_eq!(daemon.admin().post("/api/v1/backup", &both).refused(422), "invalid");
    assert_eq!(daemon.end(), 0);
    assert_eq!(saved("cold", &["--only", "wallet"]).0, 0);
    for name in ["hot", "hot-rest", "cold"] {
        let mut held: Vec<_> = std::fs::read_dir(folder.beside(name)).unwrap().collect();
        held.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
        let held = held.into_iter().map(|entry| entry.unwrap().file_name());
        assert_eq!(held.collect::<Vec<_>>(), ["backup.json", "wallet.db"], "{name}");
    }
    for (rooms, code, words) in [
        (&["--only", "wallet", "--without", "chain"][..], 2, "cannot be used with"),
        (&["--only", "kitchen"], 2, "no room is called kitchen"),
        (&["--only", "txstore"], 1, "holds none of the requested data"),
    ] {
        let (got, _, err) = saved("never", rooms);
        assert_eq!((got, err.contains(words)), (code, true), "{err}");
        assert!(!folder.beside("never").exists());
    }
    // The chain is read anew in the one, and was brought along into the other.
    for (name, has_chain) in [("hot", false), ("cold", true)] {
        let restored = format!("{name}-restored");
        let (code, out, err) = db(&folder, &restored, "restore", name);
        assert_eq!((code, out.contains("wallet.db")), (0, true), "{out} {err}");
        let data = folder.beside(&restored);
        let copied = |part: &str| {
            let mut copy = std::process::Command::new("cp");
            copy.arg("-a").arg(folder.data().join(part)).arg(&data);
            assert!(copy.status().unwrap().success());
        };
        copied("sim");
        if has_chain {
            copied("chain");
        }
        let daemon = Daemon::start(&data, &[SEED_SETTING]);
        daemon.wait_for("the wallet is as it was", |client| {
            let now = balance(client, "alice");
            now["confirmed"]["value"] == "120000" && now["unconfirmed_foreign"]["value"] == "25000"
        });
        daemon.wait_for("all rooms follow", |client| client.get("/readyz").status == 200);
        let audit = daemon.admin().get("/api/v1/wallets/alice/audit").ok();
        assert_eq!(audit["differences"], json!([]));
        assert_eq!(daemon.end(), 0);
    }
}
