//! The disk of the data folder is full: requests say so, and everything goes on once it isn't.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    daemon::{Daemon, Folder},
    world::{self, SEED_SETTING, address, funded},
};

/// Starts a daemon whose data folder is a disk of its own, in a mount namespace of its own; the
/// simulated network and the cookie stay outside. `None` where the system doesn't allow that.
fn on_small_disk(folder: &Folder) -> Option<(Daemon, PathBuf)> {
    let (disk, sim) = (folder.beside("disk"), folder.data().join("sim"));
    std::fs::create_dir(&disk).unwrap();
    let allowed = Command::new("unshare")
        .args(["--mount", "--map-root-user", "mount", "-t", "tmpfs", "tmpfs"])
        .arg(&disk)
        .output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this system lets nobody mount a small disk");
        return None;
    }
    let cookie = format!("auth.cookie_file={}", folder.beside("cookie").display());
    let settings = [
        SEED_SETTING,
        &cookie,
        "source.sim.block_seconds=1",
        "source.sim.payments=20",
        "txstore.enabled=true",
    ];
    let serve = Daemon::command(&disk.join("data"), &settings);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c"]);
    let script = "mount -t tmpfs -o size=200m tmpfs \"$0\" && mkdir \"$0/data\" && \
                  ln -s \"$1\" \"$0/data/sim\" || exit 99; shift; exec \"$@\"";
    command.arg(script).arg(&disk).arg(&sim);
    command.arg(serve.get_program()).args(serve.get_args());
    for (name, _) in serve.get_envs() {
        command.env_remove(name);
    }
    let daemon = Daemon::spawn(command);
    // The same disk, as seen from here.
    let inside = Path::new("/proc").join(daemon.id().to_string()).join("root");
    let inside = inside.join(disk.strip_prefix("/").unwrap());
    Some((daemon, inside))
}

/// Writes until nothing fits any more.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("filler");
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
    for size in [1 << 20, 1 << 12, 1] {
        while file.write_all(&vec![7; size]).is_ok() {}
    }
    path
}

fn states(daemon: &Daemon) -> Vec<String> {
    let rooms = daemon.admin().get("/api/v1/rooms").ok()["rooms"].clone();
    let on = rooms.as_array().unwrap().iter().filter(|room| room["state"] != "off");
    on.map(|room| room["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn on_a_full_disk_payments_are_refused_with_the_reason_and_all_goes_on_afterwards() {
    let folder = funded();
    let Some((daemon, disk)) = on_small_disk(&folder) else { return };
    world::make_wallet(&daemon, "alice");
    daemon.wait_for("it is ready", |client| client.get("/readyz").status == 200);
    let filler = fill(&disk);
    let outputs = json!([{ "address": address(9), "value": "1000" }]);
    let pay = |key: &str, dry_run: bool| {
        let body = json!({ "outputs": outputs, "dry_run": dry_run, "policy": { "fee_rate": 2 } });
        daemon.admin().keyed("/api/v1/wallets/alice/pay", key, &body)
    };
    // A database may have room inside for one or two more.
    let mut keys = 0;
    daemon.wait_for("a payment meets the full disk", |_| {
        fill(&disk);
        keys += 1;
        // What goes through must hold no coin: there are few.
        let answer = pay(&format!("key-{keys}"), true);
        if answer.status == 503 {
            assert_eq!(answer.refused(503), "unavailable");
            let error = answer.json()["error"].clone();
            assert!(error["message"].as_str().unwrap().contains("disk is full"), "{error}");
            assert!(answer.header("retry-after").is_some());
            return true;
        }
        assert!([200, 201].contains(&answer.status), "{} {}", answer.status, answer.text);
        false
    });
    assert_eq!(pay("in-earnest", false).refused(503), "unavailable");
    let ready = daemon.nobody().get("/readyz");
    let said = ready.json();
    assert_eq!(ready.status, 503, "{said}");
    assert!(said["reason"].as_str().unwrap().contains("disk"), "{said}");
    // Blocks come all the time: rooms stand and wait, and none needs a person. The chain's log has
    // space set aside, which may last it for hours.
    daemon.wait_for("the rooms wait", |_| {
        fill(&disk);
        let states = states(&daemon);
        let waiting = states.iter().filter(|state| *state == "waiting").count();
        assert!(!states.iter().any(|state| state == "stopped"), "{states:?}");
        waiting >= states.len() - 1
    });
    let before = daemon.admin().get("/api/v1/events?limit=1").ok()["last"].as_u64().unwrap();
    std::fs::remove_file(&filler).unwrap();
    daemon.wait_for("it is ready again", |client| client.get("/readyz").status == 200);
    assert!(states(&daemon).iter().all(|state| state == "following"), "{:?}", states(&daemon));
    daemon.wait_for("events are written again", |client| {
        let page = client.get(&format!("/api/v1/events?after={before}&limit=500")).ok();
        let applied = |event: &Value| event["kind"] == "block_applied";
        page["events"].as_array().unwrap().iter().any(applied)
    });
    // The same request again: what was refused held nothing.
    let paid = pay("in-earnest", false);
    assert!([200, 201].contains(&paid.status), "{} {}", paid.status, paid.text);
    assert_eq!(pay("in-earnest", false).text, paid.text, "and is remembered");
    let audit = daemon.admin().get("/api/v1/wallets/alice/audit").ok();
    assert_eq!(audit["differences"], json!([]));
    assert_eq!(daemon.end(), 0);
}
