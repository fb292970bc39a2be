//! File, environment and flags, laid over each other in this order.
//!
//! `UNSPENT_HTTP__LISTEN` stands for `listen` in `[http]`, `UNSPENT_UTXO__DELTA__SELF_CONTAINED`
//! for `utxo.delta.self_contained`: a variable whose name holds two underscores in a row belongs
//! here.

use std::{ffi::OsString, fs, path::Path};

use anyhow::Context as _;
use toml::{Table, Value};
use unspent_model::Network;

use super::{
    check,
    declare::Section,
    sections::SourceKind,
    whole::{Config, DATA_DIR, NETWORK, section_names},
};
use crate::{error::CliError, rooms::ROOMS};

/// The largest configuration file taken in.
const MAX_FILE: u64 = 1 << 20;
const PREFIX: &str = "UNSPENT_";

/// Reads and checks the configuration. `over` holds `KEY=VALUE` from flags, `data_dir` counts most.
pub(crate) fn load(
    file: Option<&Path>,
    environment: &[(String, String)],
    over: &[(String, String)],
) -> anyhow::Result<Config> {
    let mut table = match file {
        Some(path) => read(path)?,
        None => Table::new(),
    };
    for (name, value) in environment {
        if let Some(path) = name.strip_prefix(PREFIX).filter(|rest| rest.contains("__")) {
            let keys = path.to_lowercase();
            let keys: Vec<&str> = keys.split("__").collect();
            put(&mut table, &keys, value)
                .with_context(|| format!("in the environment variable {name}"))?;
        }
    }
    for (key, value) in over {
        let keys: Vec<&str> = key.split('.').collect();
        put(&mut table, &keys, value).with_context(|| format!("in the option {key}"))?;
    }
    let config = build(table)?;
    check::check(&config)?;
    Ok(config)
}

/// The environment, as far as it is text.
pub(crate) fn environment() -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}

fn read(path: &Path) -> anyhow::Result<Table> {
    let shown = path.display();
    let size = fs::metadata(path).with_context(|| format!("can't read {shown}"))?.len();
    if size > MAX_FILE {
        return Err(CliError::usage(format!("{shown} is larger than 1 MiB")).into());
    }
    let text = fs::read_to_string(path).with_context(|| format!("can't read {shown}"))?;
    let parsed = text.parse::<Table>();
    parsed.map_err(|error| CliError::usage(format!("{shown} is no TOML: {error}")).into())
}

/// Sets a key, making the tables on the way.
fn put(table: &mut Table, keys: &[&str], text: &str) -> anyhow::Result<()> {
    let Some((last, way)) = keys.split_last() else { return Ok(()) };
    let mut place = table;
    for key in way {
        let next = place.entry((*key).to_owned()).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(inner) = next else {
            return Err(CliError::usage(format!("`{key}` is no section")).into());
        };
        place = inner;
    }
    place.insert((*last).to_owned(), scalar(text));
    Ok(())
}

/// Text as TOML understands it; anything it doesn't is a plain string.
fn scalar(text: &str) -> Value {
    let parsed = format!("v = {text}").parse::<Table>().ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("v"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn build(mut table: Table) -> anyhow::Result<Config> {
    let network = match table.remove("network") {
        Some(Value::String(name)) => Some(name.parse::<Network>().map_err(usage)?),
        Some(_) => return Err(CliError::usage("`network` is a name in quotes").into()),
        None => None,
    };
    let data_dir = match table.remove("data_dir") {
        Some(Value::String(path)) => path.into(),
        Some(_) => return Err(CliError::usage("`data_dir` is a path in quotes").into()),
        None => DATA_DIR.into(),
    };
    let known = section_names();
    if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
        let hint = format!("known: network, data_dir and the sections {}", known.join(", "));
        return Err(CliError::usage(format!("unknown key `{key}`")).hint(hint).into());
    }
    let mut config = Config {
        network: NETWORK,
        data_dir,
        source: read_section(&mut table)?,
        http: read_section(&mut table)?,
        auth: read_section(&mut table)?,
        log: read_section(&mut table)?,
        events: read_section(&mut table)?,
        webhooks: read_section(&mut table)?,
        rooms: ROOMS.iter().map(|room| room.read(&mut table)).collect::<Result<_, _>>()?,
    };
    match network {
        Some(network) => config.network = network,
        None if config.source.kind == SourceKind::Sim => {}
        None => return Err(CliError::usage("`network` must be set for this source").into()),
    }
    Ok(config)
}

/// Takes a section out of a configuration; one that isn't there has its defaults.
pub(crate) fn read_section<T: Section>(table: &mut Table) -> anyhow::Result<T> {
    match table.remove(T::NAME) {
        None => Ok(T::default()),
        Some(value) => value.try_into().map_err(|error: toml::de::Error| {
            let said = error.message().trim_end();
            CliError::usage(format!("in [{}]: {said}", T::NAME)).into()
        }),
    }
}

fn usage(error: impl std::fmt::Display) -> anyhow::Error {
    CliError::usage(error.to_string()).into()
}
