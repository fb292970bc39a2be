//! The command line around the daemon: configuration, writes beside it, completions, manual pages.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    daemon::{Daemon, Folder, ended, unspent},
    world::{self, SEED_SETTING, funded},
};

fn run(folder: &Folder, arguments: &[&str]) -> (i32, String, String) {
    let mut command = unspent(&folder.data());
    command.args(arguments);
    ended(command)
}

#[test]
fn a_configuration_is_written_checked_and_never_overwritten() {
    let folder = Folder::new();
    let (code, template, _) = run(&folder, &["config", "init"]);
    assert_eq!((code, template.contains("[utxo]")), (0, true));
    let file = folder.beside("unspent.toml");
    let name = file.to_str().unwrap();
    assert_eq!(run(&folder, &["config", "init", name]).0, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), template);
    std::fs::write(&file, "[utxo]\nprunedepth = 1").unwrap();
    assert_eq!(run(&folder, &["config", "init", name]).0, 1);
    let (code, _, err) = run(&folder, &["config", "check", name]);
    assert_eq!((code, err.contains("`prunedepth`")), (2, true), "{err}");
    let (code, _, err) = run(&folder, &["serve", "--config", name]);
    assert_eq!((code, err.contains("`prunedepth`")), (2, true), "{err}");
    std::fs::write(&file, "[http]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let (code, out, _) = run(&folder, &["--json", "config", "check", name]);
    let checked: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &checked["listen"]), (0, &json!("127.0.0.1:0")));
    let mut command = unspent(&folder.data());
    command.args(["config", "check", name]).env("UNSPENT_UTXO__PRUNE_DEPHT", "3");
    let (code, _, err) = ended(command);
    assert_eq!((code, err.contains("prune_depht")), (2, true), "{err}");
}

#[test]
fn the_daemons_cookie_is_sent_through_no_proxy() {
    let folder = Folder::new();
    let _daemon = folder.start(&[SEED_SETTING]);
    let mut command = unspent(&folder.data());
    command.args(["token", "add", "till", "--scope", "read"]);
    // Nobody listens there.
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(variable, "http://127.0.0.1:9");
    }
    let (code, _, err) = ended(command);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn beside_a_daemon_the_command_line_reads_and_writes_nothing() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    for read in [
        &["chain", "status"][..],
        &["chain", "digest"],
        &["wallet", "list"],
        &["wallet", "balance", "alice"],
        &["wallet", "coins", "alice"],
        &["wallet", "audit", "alice"],
    ] {
        let (code, _, err) = run(&folder, read);
        assert_eq!(code, 0, "{read:?} {err}");
    }
    for write in [
        &["chain", "rollback", "--to", "100"][..],
        &["chain", "prune"],
        &["wallet", "address", "alice"],
        &["wallet", "pay", "alice", "--to", "x=1"],
        &["wallet", "rewind", "alice", "5"],
    ] {
        let (code, _, err) = run(&folder, write);
        let by_name = err.contains("`unspent serve` (process ");
        assert_eq!((code, by_name), (1, true), "{write:?} {err}");
    }
    // Nor does a second daemon start, nor does it take the first one's cookie away.
    let (code, _, err) = run(&folder, &["serve", "--listen", "127.0.0.1:0", "--set", SEED_SETTING]);
    assert_eq!((code, err.contains("another daemon")), (1, true), "{err}");
    daemon.admin().get("/api/v1/status").ok();
    assert_eq!(daemon.end(), 0);
    assert_eq!(run(&folder, &["wallet", "address", "alice"]).0, 0);
}

#[test]
fn completions_and_the_manual_pages_are_written() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = run(&folder, &["completions", shell]);
        assert_eq!((code, out.contains("serve")), (0, true), "{shell}");
    }
    let (code, page, _) = run(&folder, &["man"]);
    assert_eq!((code, page.contains(".TH unspent")), (0, true));
    let pages = folder.beside("man/man1");
    let (code, out, err) = run(&folder, &["--json", "man", pages.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    let written: Vec<_> = std::fs::read_dir(&pages).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(told["pages"], written.len());
    // Commands of commands have theirs too, and each is called as it is typed.
    for (name, typed) in [
        ("unspent", "unspent"),
        ("unspent-serve", "unspent serve"),
        ("unspent-wallet-pay", "unspent wallet pay"),
        ("unspent-db-backup", "unspent db backup"),
    ] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        let synopsis = page.split_once(".SH SYNOPSIS").unwrap().1.lines().nth(1).unwrap();
        let synopsis = synopsis.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-");
        assert!(synopsis.starts_with(typed), "{name}: {synopsis}");
    }
    let is_there = Command::new("man").arg("--version").output().is_ok();
    if !is_there {
        eprintln!("SKIPPED: there is no man to read the pages with");
        return;
    }
    for page in written {
        let mut man = Command::new("man");
        let shown = man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(&page).output().unwrap();
        let warned = String::from_utf8_lossy(&shown.stderr).into_owned();
        assert!(shown.status.success() && warned.is_empty(), "{}: {warned}", page.display());
    }
}

#[test]
fn a_daemon_says_where_its_dashboard_its_cookie_and_its_log_are() {
    let folder = Folder::new();
    let (daemon, told) = Daemon::spawn_told(Daemon::command(&folder.data(), &[]));
    let url = format!("http://{}", daemon.address);
    assert_eq!(told["dashboard"], format!("{url}/"));
    assert_eq!(told["log"], "standard error");
    assert_eq!(told["data_dir"], folder.data().to_str().unwrap());
    assert!(daemon.nobody().get("/").text.contains("<html"), "the dashboard is there");
    assert_eq!(daemon.end(), 0);
}

#[test]
fn a_daemon_goes_on_when_nobody_reads_what_it_prints() {
    let folder = Folder::new();
    let mut command = Daemon::command(&folder.data(), &[]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let told = folder.data().join("daemon.json");
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_there = || {
        let told: Value = serde_json::from_slice(&std::fs::read(&told).ok()?).ok()?;
        let url = format!("{}/healthz", told["listening"].as_str()?);
        ureq::get(url).call().ok()
    };
    while is_there().is_none() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended because nobody reads");
        assert!(Instant::now() < deadline, "it doesn't answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    // What it prints comes after the file that was found, so it may still be about to.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(child.try_wait().unwrap(), None, "it ended because nobody reads");
    child.kill().unwrap();
    child.wait().unwrap();
}
