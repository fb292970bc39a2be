//! File, environment and flags, laid over each other in this order: once, for the daemon and for
//! every command alike.
//!
//! `UNSPENT_HTTP__LISTEN` stands for `listen` in `[http]`, `UNSPENT_UTXO__DELTA__SELF_CONTAINED`
//! for `utxo.delta.self_contained`: a variable whose name holds two underscores in a row belongs
//! here.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use toml::{Table, Value};
use unspent_model::Network;

use super::{
    check,
    declare::PREFIX,
    flags::GivenFlag,
    layers::Layers,
    section::SectionReader,
    whole::{Config, DATA_DIR, NETWORK, declared_keys, section_names},
};
use crate::{error::CliError, room::Rooms};

/// The largest configuration file taken in.
const MAX_FILE: u64 = 1 << 20;

/// Where settings come from, besides the defaults.
#[derive(Clone, Default, Debug)]
pub struct SettingSources {
    /// `--config`, or the variable of that name.
    pub file: Option<PathBuf>,
    /// Variables with their values.
    pub environment: Vec<(String, String)>,
    /// Flags that are settings.
    pub flags: Vec<GivenFlag>,
}

impl SettingSources {
    /// As this process was started.
    ///
    /// # Errors
    ///
    /// When one of our variables holds no text: a folder that is passed over would be another one.
    pub fn of_process(file: Option<PathBuf>, flags: Vec<GivenFlag>) -> anyhow::Result<Self> {
        let mut environment = Vec::new();
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
                continue;
            };
            let text = value.into_string();
            let text = text.map_err(|_| CliError::usage(format!("{name} is not valid UTF-8")))?;
            environment.push((name.to_owned(), text));
        }
        Ok(Self { file, environment, flags })
    }
}

/// Resolves the settings, and checks each section by itself.
pub fn load(rooms: Rooms, sources: &SettingSources) -> anyhow::Result<Config> {
    let mut layers = Layers::new(&declared_keys(rooms));
    if let Some(file) = &sources.file {
        layers.add_file(file, read(file)?);
    }
    layers.add_environment(&sources.environment)?;
    layers.add_flags(&sources.flags);
    // All layers first: a value in the file that a flag replaces need not be right.
    let config = build(rooms, layers)?;
    check::check(&config).map_err(|error| with_origins(error, &config))?;
    Ok(config)
}

/// Names who gave the keys that an error speaks of.
pub(super) fn with_origins(error: anyhow::Error, config: &Config) -> anyhow::Error {
    let told = format!("{error:#}");
    let names = |path: &str| {
        told.split(|c: char| !(c.is_ascii_alphanumeric() || "._".contains(c)))
            .any(|word| word.trim_end_matches('.') == path)
    };
    let given = config.layers.all().filter(|(path, _)| names(path));
    let given = given.map(|(path, given)| format!("{path} comes from: {}", given.origin));
    let given: Vec<String> = given.collect();
    match error.downcast::<CliError>() {
        Ok(error) if !given.is_empty() => error.more_hint(&given.join("; ")).into(),
        Ok(error) => error.into(),
        Err(error) => error,
    }
}

fn read(path: &Path) -> anyhow::Result<Table> {
    let shown = path.display();
    let size = fs::metadata(path).with_context(|| format!("can't read {shown}"))?.len();
    if size > MAX_FILE {
        return Err(CliError::usage(format!("{shown} is larger than 1 MiB")).into());
    }
    let text = fs::read_to_string(path).with_context(|| format!("can't read {shown}"))?;
    let parsed = text.parse::<Table>();
    parsed.map_err(|error| CliError::usage(format!("{shown} is not valid TOML: {error}")).into())
}

fn build(rooms: Rooms, layers: Layers) -> anyhow::Result<Config> {
    let mut table = layers.table()?;
    let network = match table.remove("network") {
        Some(Value::String(name)) => name.parse::<Network>().map_err(|error| {
            CliError::usage(format!("`network`: {error} ({})", layers.origin("network")))
        })?,
        Some(_) => return Err(CliError::usage("`network` is a name in quotes").into()),
        None => NETWORK,
    };
    let data_dir = match table.remove("data_dir") {
        Some(Value::String(path)) if !path.is_empty() => path.into(),
        Some(_) => return Err(CliError::usage("`data_dir` is a path in quotes").into()),
        None => DATA_DIR.into(),
    };
    let known = section_names(rooms);
    if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
        let hint = format!("known: network, data_dir and the sections {}", known.join(", "));
        let given = layers.inside(key).next().map(|(_, given)| &given.origin);
        let origin = given.unwrap_or_else(|| layers.origin(key));
        return Err(CliError::usage(format!("unknown key `{key}` ({origin})")).hint(hint).into());
    }
    let mut take = SectionReader::new(&layers, table);
    let (source, http, auth) = (take.section()?, take.section()?, take.section()?);
    let (log, events, webhooks) = (take.section()?, take.section()?, take.section()?);
    let kept =
        rooms.iter().map(|room| (room.settings().read)(&mut take)).collect::<Result<_, _>>()?;
    Ok(Config { network, data_dir, source, http, auth, log, events, webhooks, rooms, kept, layers })
}
