//! Every command of every room, taken from clap's own tree, with a configuration in which every
//! declared key differs from its default and every database lies elsewhere: each setting is the
//! configured one, and nothing comes into being in the data folder.

#![allow(clippy::wildcard_enum_match_arm)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command as Process, Stdio},
    time::{Duration, Instant},
};

use clap::{
    Arg, ArgAction, Command,
    error::{ContextKind, ContextValue},
};
use toml::{Table, Value};
use unspent_engine::room::OnDisk;
use unspent_model::network::NETWORKS;
use unspent_server::config::{
    Config, DeclaredKey, GivenFlag, Origin, SettingSources, declared_keys, load,
};
use unspent_server::output::Output;
use unspent_testkit::wallet::postgres;

use crate::{
    ROOMS,
    cli::{self, Cli},
};

/// A command that isn't at its end by then waits for somebody; it has opened what it opens.
const PATIENCE: Duration = Duration::from_secs(5);
/// Tells the test below which command it is.
const ARGUMENTS: &str = "WALK_ARGUMENTS";
/// And this file it makes, so that the walk sees that it ran.
const MARKER: &str = "WALK_MARKER";

/// A generated configuration with everything that it names.
struct World {
    room: tempfile::TempDir,
    /// `url_file` and `passphrase_file` instead of `url` and `key_file`.
    by_file: bool,
    /// PostgreSQL instead of SQLite files.
    server: Option<String>,
}

impl World {
    fn new(by_file: bool, server: Option<String>) -> Self {
        let world = Self { room: tempfile::tempdir().unwrap(), by_file, server };
        fs::create_dir(world.elsewhere()).unwrap();
        fs::create_dir(world.data()).unwrap();
        fs::write(world.file(), world.text()).unwrap();
        world
    }

    fn data(&self) -> PathBuf {
        self.room.path().join("data")
    }

    fn elsewhere(&self) -> PathBuf {
        self.room.path().join("elsewhere")
    }

    fn file(&self) -> PathBuf {
        self.room.path().join("unspent.toml")
    }

    /// The keys that are set: of two that exclude each other one.
    fn keys(&self) -> Vec<DeclaredKey> {
        let left_out = match self.by_file {
            true => ["url", "key_file"],
            false => ["url_file", "passphrase_file"],
        };
        let mut keys = declared_keys(ROOMS);
        keys.retain(|key| key.rival.is_none() || !left_out.contains(&key.name));
        keys
    }

    fn url(&self, section: &str) -> String {
        match &self.server {
            Some(url) => url.clone(),
            None => format!("sqlite:{}", self.elsewhere().join(format!("{section}.db")).display()),
        }
    }

    /// A value that isn't the default, of the kind that the key takes.
    fn value(&self, key: &DeclaredKey) -> Value {
        let is_room = ROOMS.iter().any(|room| room.section() == key.section);
        let path = self.elsewhere().join(format!("{}-{}", key.section, key.name));
        let file = |content: &str| {
            fs::write(&path, content).unwrap();
            Value::String(path.display().to_string())
        };
        match (key.section, key.name) {
            ("", "data_dir") => return Value::String(self.data().display().to_string()),
            ("", "network") => return Value::String(NETWORKS[2].1.to_owned()),
            (section, "url") if is_room && key.rival.is_some() => {
                return Value::String(self.url(section));
            }
            (section, "url_file") => return file(&self.url(section)),
            (_, name) if name.ends_with("_file") => {
                return file("0123456789abcdef0123456789abcdef");
            }
            _ => {}
        }
        let shown = key.default.as_deref().unwrap_or(key.example);
        let mut shown: Table = format!("v = {shown}").parse().unwrap();
        let shown = shown.remove("v").unwrap();
        if key.default.is_none() {
            return shown;
        }
        match shown {
            Value::Boolean(is) => Value::Boolean(!is),
            Value::Integer(number) => Value::Integer(number + 1),
            Value::Array(_) => Value::Array(vec![Value::String("https://a.example".into())]),
            Value::String(text) => Value::String(another(key, &text)),
            other => panic!("{}: {other:?}", key.path()),
        }
    }

    fn text(&self) -> String {
        let mut whole = Table::new();
        for key in self.keys() {
            let mut place = &mut whole;
            for name in key.section.split('.').filter(|name| !name.is_empty()) {
                let inner = place.entry(name).or_insert_with(|| Value::Table(Table::new()));
                place = inner.as_table_mut().unwrap();
            }
            place.insert(key.name.to_owned(), self.value(&key));
        }
        toml::to_string(&whole).unwrap()
    }

    /// What lies in the data folder, but for what a room keeps there whatever its settings are.
    fn in_data(&self) -> BTreeSet<String> {
        let own = ROOMS.iter().flat_map(|room| room.shape().keeps.iter());
        let own: BTreeSet<&str> = own
            .filter_map(|kept| match kept {
                OnDisk::Folder(name) => Some(*name),
                OnDisk::Database(_) => None,
            })
            .collect();
        let names = fs::read_dir(self.data()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !own.contains(name.as_str())).collect()
    }

    /// Every setting that was configured holds, and the file gave it.
    fn assert_holds(&self, config: &Config, command: &str) {
        for key in self.keys() {
            let path = key.path();
            assert!(matches!(config.origin(&path), Origin::File(_)), "{command}: {path}");
            let held = config.given(&path).unwrap();
            let standard = key.default.as_ref().map(|text| format!("v = {text}"));
            let standard = standard.map(|text| text.parse::<Table>().unwrap()["v"].clone());
            assert_ne!(Some(held), standard.as_ref(), "{command}: {path} is the default");
        }
        let alone = SettingSources { file: Some(self.file()), ..SettingSources::default() };
        let alone = load(ROOMS, &alone).unwrap();
        let rooms = |config: &Config| format!("{:?} {:?}", config.sections(), config.webhooks);
        assert_eq!(rooms(config), rooms(&alone), "{command}");
    }
}

/// Another text where only some are taken; an error names them.
fn another(key: &DeclaredKey, standard: &str) -> String {
    let given = |text: &str| {
        let flag = GivenFlag::new(&key.path(), "--set", text);
        load(ROOMS, &SettingSources { flags: vec![flag], ..SettingSources::default() })
    };
    for text in ["zzz", "127.0.0.1:1"] {
        if given(text).is_ok() {
            return text.to_owned();
        }
    }
    let Err(refused) = given("zzz") else { return String::new() };
    let told = refused.to_string();
    let words = told.split('`').skip(1).step_by(2).map(str::to_owned);
    let mut fine = words.filter(|word| word != standard && given(word).is_ok());
    fine.next().unwrap_or_else(|| panic!("{}: {told}", key.path()))
}

/// The commands at the ends of the tree, with the words that lead there.
fn leaves(command: &Command, way: &[String], found: &mut Vec<(Vec<String>, Command)>) {
    let inner: Vec<&Command> =
        command.get_subcommands().filter(|inner| inner.get_name() != "help").collect();
    if inner.is_empty() {
        found.push((way.to_vec(), command.clone()));
    }
    for inner in inner {
        leaves(inner, &[way, &[inner.get_name().to_owned()]].concat(), found);
    }
}

/// Every command of the rooms.
fn commands() -> Vec<(Vec<String>, Command)> {
    let mut tree = cli::command(ROOMS);
    tree.build();
    let mut found = Vec::new();
    for room in tree.get_subcommands() {
        if ROOMS.iter().any(|known| known.name() == room.get_name()) {
            leaves(room, &[room.get_name().to_owned()], &mut found);
        }
    }
    assert!(found.len() > 60, "{} commands", found.len());
    found
}

/// Words that the arguments of commands take.
const WORDS: [&str; 10] = [
    "1",
    "bitcoin-signet",
    "x",
    "x=1",
    "30m",
    "2026-01-01",
    "https://a.example",
    "bc1q=1",
    "1111111111111111111111111111111111111111111111111111111111111111",
    "1111111111111111111111111111111111111111111111111111111111111111:0",
];

/// A line that clap takes: what it asks for, with whatever word each argument takes.
fn line(way: &[String], command: &Command, file: &Path) -> Vec<String> {
    let mut line: Vec<String> = ["unspent", "--json", "--config"].map(str::to_owned).into();
    line.push(file.display().to_string());
    line.extend_from_slice(way);
    while let Err(error) = Cli::try_parse_from(ROOMS, &line) {
        let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
            panic!("{line:?}: {error}");
        };
        let named = command.get_arguments().find(|arg| {
            // In brackets where it is only needed together with another one.
            let name = arg.to_string();
            let name = name.trim_matches(['<', '>', '[', ']']);
            // Of a group one is enough.
            missing.iter().any(|missing| missing.contains(name))
        });
        let arg = named.unwrap_or_else(|| panic!("{line:?}: {error}"));
        let word = WORDS.iter().find(|word| takes(&line, arg, word)).unwrap_or(&WORDS[0]);
        line.extend(arg.get_long().map(|long| format!("--{long}")));
        if matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
            line.push((*word).to_owned());
        }
    }
    line
}

/// Whether a word isn't refused as a value; what else is missing doesn't count.
fn takes(line: &[String], arg: &Arg, word: &str) -> bool {
    use clap::error::ErrorKind as E;
    let long = arg.get_long().map(|long| format!("--{long}"));
    let words = line.iter().cloned().chain(long).chain([word.to_owned()]);
    match Cli::try_parse_from(ROOMS, words) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), E::ValueValidation | E::InvalidValue),
    }
}

/// Runs a command as a process of its own, like a user; one that waits is ended.
fn run(line: &[String], marker: &Path) {
    let _ = fs::remove_file(marker);
    let mut process = Process::new(std::env::current_exe().unwrap());
    process.args(["--exact", "config::walk::one_command", "--ignored", "--nocapture"]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UNSPENT_")) {
        process.env_remove(name);
    }
    process.env(ARGUMENTS, line.join("\n")).env(MARKER, marker);
    process.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut child, started) = (process.spawn().unwrap(), Instant::now());
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(marker.exists(), "{line:?} never ran");
}

#[test]
#[ignore = "a command that the walk below runs"]
fn one_command() {
    let Ok(line) = std::env::var(ARGUMENTS) else { return };
    let cli = Cli::try_parse_from(ROOMS, line.lines()).unwrap();
    fs::write(std::env::var(MARKER).unwrap(), "").unwrap();
    let mut out = Vec::new();
    // Most of them find nothing of that name.
    let _ = cli.run(ROOMS, &mut Output::new(&mut out, true));
}

fn walk(world: &World) {
    for (way, command) in commands() {
        let (name, line) = (way.join(" "), line(&way, &command, &world.file()));
        let cli = Cli::try_parse_from(ROOMS, &line).unwrap();
        world.assert_holds(&cli.resolved(ROOMS).unwrap(), &name);
        run(&line, &world.room.path().join("ran"));
        // Their webhooks and locks belong to the data folder, which the settings name.
        let mut found = world.in_data();
        for expected in [unspent_engine::lock::LOCK_FILE, "engine.db"] {
            found.retain(|name| !name.starts_with(expected));
        }
        assert_eq!(found, BTreeSet::new(), "{name} made them in the data folder");
    }
}

/// The databases that commands are to find, made as a daemon makes them.
fn make_databases(world: &World) {
    let sources = SettingSources { file: Some(world.file()), ..SettingSources::default() };
    let config = load(ROOMS, &sources).unwrap();
    for room in ROOMS.iter() {
        let Some(url) = room.database(&config).unwrap() else { continue };
        let tables = room.tables().unwrap();
        unspent_sql::Door::open(&url, tables.schema, unspent_sql::Options::default()).unwrap();
    }
}

#[test]
fn every_command_goes_by_the_configuration_alone() {
    for by_file in [false, true] {
        let world = World::new(by_file, None);
        walk(&world);
        make_databases(&world);
        walk(&world);
    }
}

#[test]
fn every_command_goes_by_the_configuration_alone_on_postgresql() {
    for by_file in [false, true] {
        let Some(server) = postgres::database() else { return };
        let world = World::new(by_file, Some(server));
        walk(&world);
        make_databases(&world);
        walk(&world);
    }
}

/// An argument of its own under a setting's name would not be resolved with the others.
#[test]
fn no_command_declares_a_setting_by_itself() {
    for (way, command) in commands() {
        let room = ROOMS.iter().find(|room| room.name() == way[0]).unwrap();
        for key in (room.settings().keys)().into_iter().filter(|key| key.flag.is_some()) {
            let name = key.flag_name();
            let own = command.get_arguments().find(|arg| arg.get_long() == Some(name.as_str()));
            let is_own = own.is_some_and(|arg| arg.get_id().as_str() != key.path());
            assert!(!is_own, "{}: --{name} is the setting {}", way.join(" "), key.path());
        }
        for arg in command.get_arguments() {
            let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned());
            let is_setting = variable.as_ref().is_some_and(|name| name.contains("__"));
            assert!(!is_setting, "{}: {variable:?} is read twice", way.join(" "));
        }
    }
}
