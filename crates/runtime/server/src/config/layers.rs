//! What was given, key by key: the file, over it the environment, over that the flags. Who gave a
//! key is kept beside its value, so that errors and `config show` can name it.

// Of TOML's values a few mean something here; all others stay as they are.
#![allow(clippy::wildcard_enum_match_arm)]

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

use super::{
    declare::{DeclaredKey, PREFIX},
    flags::GivenFlag,
    text::{list, scalar},
};
use crate::error::CliError;

/// Who gave a setting.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    /// Nobody.
    Default,
    /// The configuration.
    File(PathBuf),
    /// A variable of the environment.
    Variable(String),
    /// As it was written.
    Flag(String),
}

impl Origin {
    /// What counts more has a higher rank.
    fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File(_) => 1,
            Self::Variable(_) => 2,
            Self::Flag(_) => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(file) => write!(f, "file {}", file.display()),
            Self::Variable(name) => write!(f, "environment {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// One key's value, and who gave it.
#[derive(Clone, Debug)]
pub(super) struct GivenSetting {
    /// As TOML has it.
    pub(crate) value: Value,
    /// Who gave it.
    pub(crate) origin: Origin,
}

/// Everything that was given, by the key's path.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    declared: BTreeMap<String, DeclaredKey>,
    given: BTreeMap<String, GivenSetting>,
    /// What is understood, but should be written in another way.
    pub(crate) warnings: Vec<String>,
}

impl Layers {
    pub(super) fn new(declared: &[DeclaredKey]) -> Self {
        let declared = declared.iter().map(|key| (key.path(), key.clone())).collect();
        Self { declared, given: BTreeMap::new(), warnings: Vec::new() }
    }

    /// Who gave a key.
    pub(super) fn origin(&self, path: &str) -> &Origin {
        self.given.get(path).map_or(&Origin::Default, |given| &given.origin)
    }

    /// What was given of a key.
    pub(super) fn get(&self, path: &str) -> Option<&GivenSetting> {
        self.given.get(path)
    }

    /// Everything that was given.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &GivenSetting)> {
        self.given.iter().map(|(path, given)| (path.as_str(), given))
    }

    pub(super) fn inside(&self, section: &str) -> impl Iterator<Item = (&str, &GivenSetting)> {
        let start = format!("{section}.");
        self.all().filter(move |(path, _)| path.starts_with(&start))
    }

    pub(super) fn add_file(&mut self, file: &Path, table: Table) {
        let origin = Origin::File(file.to_owned());
        for (name, value) in table {
            self.put_leaves(name, value, &origin);
        }
    }

    /// A path of the file is meant from the file's own folder: whoever names the file from another
    /// folder means the same databases.
    fn beside_file(&self, path: &str, value: Value, file: &Path) -> Value {
        let folder = file.parent().filter(|folder| *folder != Path::new(""));
        let is_path = self.declared.get(path).is_some_and(DeclaredKey::is_path);
        let (Some(folder), true) = (folder, is_path) else { return value };
        let joined = |path: &str| folder.join(path.strip_prefix("./").unwrap_or(path));
        let absolute = |text: String| match text.strip_prefix("sqlite:") {
            Some(path) => format!("sqlite:{}", joined(path).display()),
            None if text.contains("://") || text.is_empty() => text,
            None => joined(&text).display().to_string(),
        };
        match value {
            Value::String(text) => Value::String(absolute(text)),
            Value::Array(all) => {
                let each = |value| match value {
                    Value::String(text) => Value::String(absolute(text)),
                    other => other,
                };
                Value::Array(all.into_iter().map(each).collect())
            }
            other => other,
        }
    }

    /// Takes what belongs here: the variables of declared keys under their names and under those
    /// that they had, and every other one whose name holds two underscores in a row.
    pub(super) fn add_environment(
        &mut self,
        environment: &[(String, String)],
    ) -> Result<(), CliError> {
        let find = |name: &str| environment.iter().find(|(known, _)| known == name);
        for key in self.declared.clone().into_values() {
            let name = key.variable();
            let new = find(&name);
            for old in key.old_variables().filter_map(find) {
                self.warnings.push(format!("{} is called {name} now", old.0));
                match new {
                    Some(new) if new.1 != old.1 => {
                        let (old, new) = (&old.0, &new.0);
                        let message = format!("{old} is the older name of {new}");
                        let hint = "they are set to different values; unset the older one";
                        return Err(CliError::usage(message).hint(hint));
                    }
                    Some(_) => {}
                    None => self.put_old(&key, &name, old)?,
                }
            }
            if let Some((name, text)) = new {
                self.put_text(&key.path(), &[text], Origin::Variable(name.clone()));
            }
        }
        for (name, text) in environment {
            let path = name.strip_prefix(PREFIX).filter(|rest| rest.contains("__"));
            let Some(path) = path.map(|path| path.to_lowercase().replace("__", ".")) else {
                continue;
            };
            if !self.declared.contains_key(&path) {
                self.put_text(&path, &[text], Origin::Variable(name.clone()));
            }
        }
        Ok(())
    }

    /// An older variable may stand somewhere forgotten. It must not lead away from what the file
    /// says under today's name.
    fn put_old(
        &mut self,
        key: &DeclaredKey,
        name: &str,
        (old, text): &(String, String),
    ) -> Result<(), CliError> {
        let path = key.path();
        let rival = key.rival_path().and_then(|rival| self.given.get(&rival).map(|_| rival));
        let before = self.given.get(&path).map(|given| given.value.clone());
        self.put_text(&path, &[text], Origin::Variable(old.clone()));
        let now = self.given.get(&path).map(|given| &given.value);
        let other = match (before, rival) {
            (Some(before), _) if Some(&before) != now => path,
            (_, Some(rival)) => rival,
            (Some(_) | None, None) => return Ok(()),
        };
        let message = format!("{old}, the older name of {name}, and {other} in the file differ");
        Err(CliError::usage(message).hint("unset the older one"))
    }

    pub(super) fn add_flags(&mut self, flags: &[GivenFlag]) {
        for flag in flags {
            if let Some(name) = &flag.renamed {
                self.warnings.push(format!("{} is called {name} now", flag.written));
            }
            let texts: Vec<&str> = flag.texts.iter().map(String::as_str).collect();
            self.put_text(&flag.key, &texts, Origin::Flag(flag.written.clone()));
        }
    }

    fn put_text(&mut self, path: &str, texts: &[&str], origin: Origin) {
        let value = match (self.declared.get(path), texts) {
            (Some(key), texts) if key.is_list() => list(texts),
            (Some(key), [text]) if key.is_text() => match scalar(text) {
                Value::String(text) => Value::String(text),
                // A folder may be called 2026-11-19 or true.
                _ => Value::String((*text).to_owned()),
            },
            (Some(key), ["1" | "yes"]) if key.is_switch() => Value::Boolean(true),
            (Some(key), ["0" | "no"]) if key.is_switch() => Value::Boolean(false),
            (_, [text]) => scalar(text),
            (_, texts) => list(texts),
        };
        self.put_leaves(path.to_owned(), value, &origin);
    }

    /// A table counts key by key, also where it is written in one line. An empty one is kept: an
    /// unknown name is still an unknown name.
    fn put_leaves(&mut self, path: String, value: Value, origin: &Origin) {
        match value {
            Value::Table(inner) if !inner.is_empty() => {
                for (name, value) in inner {
                    self.put_leaves(format!("{path}.{name}"), value, origin);
                }
            }
            value => {
                let value = match origin {
                    Origin::File(file) => self.beside_file(&path, value, file),
                    _ => value,
                };
                self.put(path, value, origin.clone());
            }
        }
    }

    fn put(&mut self, path: String, value: Value, origin: Origin) {
        let rival = self.declared.get(&path).and_then(DeclaredKey::rival_path);
        if let Some(rival) = rival
            // Of the same rank both stay, so that the contradiction is told and not decided by
            // their order.
            && self.origin(&rival).rank() < origin.rank()
        {
            self.given.remove(&rival);
        }
        self.given.insert(path, GivenSetting { value, origin });
    }

    /// All of it as one document.
    pub(super) fn table(&self) -> Result<Table, CliError> {
        let mut whole = Table::new();
        for (path, given) in &self.given {
            let names: Vec<&str> = path.split('.').collect();
            let Some((last, way)) = names.split_last() else { continue };
            let mut place = &mut whole;
            for name in way {
                let next = place.entry((*name).to_owned());
                let Value::Table(inner) = next.or_insert_with(|| Value::Table(Table::new())) else {
                    let message = format!("`{name}` is not a section ({})", given.origin);
                    return Err(CliError::usage(message));
                };
                place = inner;
            }
            place.insert((*last).to_owned(), given.value.clone());
        }
        Ok(whole)
    }
}
