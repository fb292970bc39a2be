//! `unspent config show`: what holds, and who said so.

// Only text may hold a password.
#![allow(clippy::wildcard_enum_match_arm)]

use serde_json::{Map, Value as Json, json};
use toml::Value;
use unspent_server::{
    Config, Outcome, Output,
    config::{DeclaredKey, declared_keys},
    output::table,
};
use unspent_sql::without_password;

/// Every key with its value and where it comes from; passwords are left out.
pub(super) fn print(config: &Config, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let all: Vec<_> = declared_keys(config.rooms()).iter().map(|key| shown(config, key)).collect();
    let document: Map<String, Json> = all
        .iter()
        .map(|(path, value, origin)| (path.clone(), json!({ "value": value, "from": origin })))
        .collect();
    output.answer(&document, || {
        let rows = all.iter().map(|(path, value, origin)| {
            let value = value.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            [path.clone(), value, origin.clone()]
        });
        table(["key", "value", "from"], rows).to_string()
    })?;
    Ok(Outcome::Done)
}

fn shown(config: &Config, key: &DeclaredKey) -> (String, Option<Json>, String) {
    let path = key.path();
    let given = config.given(&path).cloned();
    let value = given.or_else(|| standard(key)).map(hidden);
    let value = value.and_then(|value| serde_json::to_value(value).ok());
    let origin = config.origin(&path).to_string();
    (path, value, origin)
}

/// What holds where nobody says anything.
fn standard(key: &DeclaredKey) -> Option<Value> {
    let text = key.default.as_ref()?;
    let mut table: toml::Table = format!("v = {text}").parse().ok()?;
    table.remove("v")
}

fn hidden(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(without_password(&text)),
        Value::Array(all) => Value::Array(all.into_iter().map(hidden).collect()),
        other => other,
    }
}
