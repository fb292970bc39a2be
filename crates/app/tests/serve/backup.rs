//! A backup comes back whole, and what was unconfirmed is judged again.

use serde_json::Value;

use crate::{
    daemon::{Folder, ended, unspent},
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
    assert_eq!((code, err.contains("list is missing")), (1, true), "{err}");
    let list = r#"{"version":1,"files":[{"path":"../x","bytes":0,"sha256":""}]}"#;
    std::fs::write(folder.beside("saved").join("backup.json"), list).unwrap();
    assert_eq!(db(&folder, "fresh", "restore", "saved").0, 1, "a path that leads out");
}
