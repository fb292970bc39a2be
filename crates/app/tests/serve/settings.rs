//! One configuration for the daemon, the command line and backups: databases and keys that lie
//! elsewhere are found, and nobody who only looks makes another one.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use unspent_testkit::wallet::postgres;

use crate::daemon::{Daemon, Folder, ended};

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9";

/// A configuration whose ecash and transactions lie outside the data folder.
struct Configured {
    folder: Folder,
}

impl Configured {
    fn new(more: &str) -> Self {
        let configured = Self { folder: Folder::new() };
        std::fs::create_dir(configured.elsewhere()).unwrap();
        std::fs::write(configured.elsewhere().join("key"), [7; 32]).unwrap();
        configured.write("unspent.toml", "data", "elsewhere", more);
        configured
    }

    fn elsewhere(&self) -> PathBuf {
        self.folder.beside("elsewhere")
    }

    fn data(&self) -> PathBuf {
        self.folder.data()
    }

    /// A file of that name, for a data folder and a folder of databases.
    fn write(&self, name: &str, data: &str, elsewhere: &str, more: &str) {
        let shown = |name: &str| self.folder.beside(name).display().to_string();
        let (data, there, key) = (shown(data), shown(elsewhere), shown("elsewhere/key"));
        let text = format!(
            "network = \"bitcoin-regtest\"\ndata_dir = \"{data}\"\n\
             [source]\nkind = \"sim\"\n[source.sim]\nblocks = 3\nblock_seconds = 0\n\
             [http]\nlisten = \"127.0.0.1:0\"\n\
             [txstore]\nenabled = true\nurl = \"sqlite:{there}/txstore.db\"\n\
             [ecash]\nenabled = true\nurl = \"sqlite:{there}/ecash.db\"\nkey_file = \"{key}\"\n\
             allow_private = true\n{more}"
        );
        std::fs::write(self.folder.beside(name), text).unwrap();
    }

    /// A command that is told of nothing but a file.
    fn command(&self, file: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("unspent"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UNSPENT_")) {
            command.env_remove(name);
        }
        command.arg("--config").arg(self.folder.beside(file)).arg("--json").args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        ended(self.command("unspent.toml", arguments))
    }

    fn ok(&self, arguments: &[&str]) -> Value {
        let (code, out, err) = self.run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {err}");
        serde_json::from_str(&out).unwrap()
    }

    fn serve(&self, file: &str) -> Daemon {
        let daemon = Daemon::spawn(self.command(file, &["serve"]));
        daemon.wait_for("it stands", |client| client.get("/readyz").status == 200);
        daemon
    }

    fn backup(&self, name: &str, more: &[&str]) -> (i32, Value, String) {
        let to = self.folder.beside(name).display().to_string();
        let (code, out, err) = self.run(&[&["db", "backup", &to], more].concat());
        (code, serde_json::from_str(&out).unwrap(), err)
    }
}

fn names(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeSet::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn texts(list: &Value) -> String {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

/// Reading commands of the ecash room.
const READING: [&[&str]; 5] = [
    &["ecash", "balance"],
    &["ecash", "account", "list"],
    &["ecash", "quotes"],
    &["ecash", "swaps"],
    &["ecash", "txs"],
];

#[test]
fn whoever_reads_ecash_finds_the_daemons_database_and_makes_none() {
    let world = Configured::new("");
    let before = names(&world.elsewhere());
    let working: [&[&str]; 2] = [&["ecash", "recover"], &["ecash", "send", "5"]];
    for command in READING.into_iter().chain(working) {
        let (code, _, err) = world.run(command);
        assert_eq!((code, err.contains("there is no ecash database")), (1, true), "{err}");
    }
    assert_eq!(names(&world.elsewhere()), before);
    assert!(!world.data().exists(), "nothing was there, and nothing is");
    assert_eq!(world.serve("unspent.toml").end(), 0);
    let (data, there) = (names(&world.data()), names(&world.elsewhere()));
    assert!(there.contains("ecash.db") && !data.contains("ecash.db"), "{there:?} {data:?}");
    for command in READING {
        world.ok(command);
    }
    assert_eq!(names(&world.data()), data, "a reading command made something");
    assert_eq!(world.ok(&["ecash", "balance"]), json!({ "balances": [] }));
    // Without the configuration there is no such database here, and it isn't made.
    let mut bare = Command::new(assert_cmd::cargo::cargo_bin("unspent"));
    bare.arg("--data-dir").arg(world.data()).args(["ecash", "balance"]);
    let (code, _, err) = ended(bare);
    assert_eq!((code, err.contains("there is no ecash database")), (1, true), "{err}");
    assert_eq!(names(&world.data()), data);
}

#[test]
fn the_configured_blocklist_holds_for_commands_too() {
    let world = Configured::new(&format!("mint_blocklist = [\"{NOWHERE}\"]\n"));
    let (code, _, err) = world.run(&["ecash", "account", "add", NOWHERE]);
    assert_eq!((code, err.contains("blocked")), (1, true), "{err}");
    let (code, out, _) = world.run(&["ecash", "mint", "check", NOWHERE]);
    assert_eq!((code, out.contains("blocked")), (3, true), "{out}");
}

#[test]
fn a_backup_takes_each_database_from_where_the_settings_put_it() {
    let world = Configured::new("");
    let daemon = world.serve("unspent.toml");
    // A stray one, as older commands left them: with another seed, under another key.
    let stray = world.data().join("ecash.db");
    std::fs::write(&stray, "another database").unwrap();
    let (code, hot, err) = world.backup("hot", &[]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(daemon.end(), 0);
    let (code, cold, err) = world.backup("cold", &[]);
    assert_eq!(code, 0, "{err}");
    for (name, answer) in [("hot", &hot), ("cold", &cold)] {
        let holds = texts(&answer["holds"]);
        assert!(holds.contains("ecash.db") && holds.contains("txstore.db"), "{holds}");
        let left_out = texts(&answer["left_out"]);
        assert!(left_out.contains(&stray.display().to_string()), "the stray is named: {left_out}");
        assert!(left_out.contains("elsewhere/key"), "the key is named: {left_out}");
        let saved = std::fs::read(world.folder.beside(name).join("ecash.db")).unwrap();
        assert!(saved.starts_with(b"SQLite format 3"), "it isn't the stray");
    }
    restored_where_the_settings_say(&world);
    // Left out in silence is what it must never be: neither by a command that is told of nothing,
    let told_nothing = |to: &str, more: &[&str]| {
        let mut bare = Command::new(assert_cmd::cargo::cargo_bin("unspent"));
        bare.arg("--data-dir").arg(world.data()).args(["db", "backup"]);
        ended({
            bare.arg(world.folder.beside(to)).args(more);
            bare
        })
    };
    let (code, _, err) = told_nothing("third", &["--without", "txstore"]);
    assert_eq!((code, err.contains("kept the ecash room in sqlite:")), (1, true), "{err}");
    assert!(!world.folder.beside("third").exists());
    assert_eq!(told_nothing("rest", &["--without", "txstore", "--without", "ecash"]).0, 0);
    // nor where it is gone, in whose place the daemon makes no other one.
    std::fs::remove_file(world.elsewhere().join("ecash.db")).unwrap();
    let (code, _, err) = ended(world.command("unspent.toml", &["serve"]));
    assert_eq!((code, err.contains("ecash.db, is missing")), (1, true), "{err}");
    assert!(!world.elsewhere().join("ecash.db").exists());
    let (code, _, err) = world.backup("third", &[]);
    assert_eq!((code, err.contains("elsewhere/ecash.db")), (1, true), "{err}");
    assert!(!world.folder.beside("third").exists());
    assert_eq!(world.backup("third", &["--without", "ecash"]).0, 0);
}

fn restored_where_the_settings_say(world: &Configured) {
    world.write("new.toml", "new-data", "new-elsewhere", "");
    let from = world.folder.beside("cold").display().to_string();
    let restore = || ended(world.command("new.toml", &["db", "restore", &from]));
    let there = world.folder.beside("new-elsewhere");
    // A file in the way ends it before anything is changed.
    std::fs::create_dir(&there).unwrap();
    std::fs::write(there.join("txstore.db"), "somebody else's").unwrap();
    let (code, _, err) = restore();
    assert_eq!((code, err.contains("txstore.db exists and differs")), (1, true), "{err}");
    assert!(!world.folder.beside("new-data").exists());
    assert_eq!(names(&there), BTreeSet::from(["txstore.db".to_owned()]));
    std::fs::remove_file(there.join("txstore.db")).unwrap();
    let (code, _, err) = restore();
    assert_eq!(code, 0, "{err}");
    assert_eq!(names(&there), BTreeSet::from(["ecash.db", "txstore.db"].map(str::to_owned)));
    let data = names(&world.folder.beside("new-data"));
    assert!(data.contains("wallet.db") && !data.contains("ecash.db"), "{data:?}");
    let (code, out, err) = ended(world.command("new.toml", &["ecash", "balance"]));
    assert_eq!((code, out.contains("balances")), (0, true), "{err}");
    assert_eq!(world.serve("new.toml").end(), 0);
}

#[test]
fn a_room_in_postgresql_is_never_left_out_in_silence() {
    let Some(server) = postgres::database() else { return };
    let world = Configured::new("");
    assert_eq!(world.serve("unspent.toml").end(), 0);
    let (code, _, err) = world.backup("saved", &[]);
    assert_eq!(code, 0, "{err}");
    let text = std::fs::read_to_string(world.folder.beside("unspent.toml")).unwrap();
    let there = format!("sqlite:{}/ecash.db", world.elsewhere().display());
    std::fs::write(world.folder.beside("unspent.toml"), text.replace(&there, &server)).unwrap();
    let (code, answer, err) = world.backup("more", &[]);
    let hint = answer["error"]["hint"].as_str().unwrap();
    assert_eq!((code, hint.contains("pg_dump --schema=ecash")), (1, true), "{err}");
    let host = server.split('@').next_back().unwrap();
    assert!(hint.contains(&format!("@{host}")) || !server.contains('@'), "{hint}");
    let (code, answer, err) = world.backup("more", &["--without", "ecash"]);
    assert_eq!((code, texts(&answer["holds"]).contains("ecash")), (0, false), "{err}");
    // Where it was saved as a file it doesn't go into PostgreSQL by itself.
    let saved = world.folder.beside("saved").display().to_string();
    let fresh = world.folder.beside("fresh").display().to_string();
    let (code, out, _) = world.run(&["--data-dir", &fresh, "db", "restore", &saved]);
    assert_eq!((code, out.contains("db copy --room ecash")), (1, true), "{out}");
    assert!(!world.folder.beside("fresh").exists());
}

#[test]
fn what_holds_is_shown_with_where_it_comes_from() {
    let world = Configured::new("");
    let mut command = world.command("unspent.toml", &["config", "show"]);
    command.env("UNSPENT_WALLET__URL", "postgres://me:hush@host/db");
    command.env("UNSPENT_UTXO_PRUNE_DEPTH", "7");
    let (code, out, err) = ended(command);
    assert_eq!((code, out.contains("hush")), (0, false), "{err}");
    let renamed = "UNSPENT_UTXO_PRUNE_DEPTH is called UNSPENT_UTXO__PRUNE_DEPTH now";
    assert!(err.contains(renamed), "{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["wallet.url"]["value"], "postgres://me:***@host/db");
    assert_eq!(shown["wallet.url"]["from"], "environment UNSPENT_WALLET__URL");
    assert_eq!(shown["utxo.prune_depth"]["value"], 7);
    assert_eq!(shown["txstore.retention"], json!({ "value": 288, "from": "default" }));
    let from = shown["ecash.key_file"]["from"].as_str().unwrap();
    assert!(from.starts_with("file ") && from.ends_with("unspent.toml"), "{from}");
    let (code, _, err) =
        world.run(&["ecash", "--db", "sqlite:/a", "--url", "sqlite:/b", "balance"]);
    assert_eq!((code, err.contains("--db is the older name of --url")), (2, true), "{err}");
    let (_, _, err) = world.run(&["ecash", "--db", "sqlite:/a", "balance"]);
    assert!(err.contains("--db is called --url now") && err.contains("sqlite:/a"), "{err}");
}

/// Beside the usual place, but in the data folder: it comes back with everything else, at once.
#[test]
fn a_database_deeper_in_the_data_folder_is_restored_there() {
    let world = Configured::new("");
    world.write("deep.toml", "deep", "deep/money", "");
    assert_eq!(world.serve("deep.toml").end(), 0);
    let to = world.folder.beside("saved").display().to_string();
    let (code, _, err) = ended(world.command("deep.toml", &["db", "backup", &to]));
    assert_eq!(code, 0, "{err}");
    let deep = world.folder.beside("deep");
    std::fs::remove_dir_all(&deep).unwrap();
    let (code, _, err) = ended(world.command("deep.toml", &["db", "restore", &to]));
    assert_eq!(code, 0, "{err}");
    let money = names(&deep.join("money"));
    assert_eq!(money, BTreeSet::from(["ecash.db", "txstore.db"].map(str::to_owned)));
    assert!(deep.join("wallet.db").is_file() && !deep.join("ecash.db").exists());
    assert_eq!(world.serve("deep.toml").end(), 0);
    let folder = deep.with_file_name("deep.restoring");
    assert!(!folder.exists());
}
