//! A section as a whole, and how it is taken out of what was given.

use std::{any::Any, fmt::Debug, sync::Arc};

use toml::{Table, Value};

use super::{
    declare::{DeclaredKey, Section},
    layers::{Layers, Origin},
};
use crate::error::CliError;

/// A section that its room has read, and that the room alone knows the type of.
pub trait RoomSection: Any + Debug + Send + Sync {}

impl<T: Any + Debug + Send + Sync> RoomSection for T {}

/// One section as a whole: its heading, its part of the template, its keys, and how it is read.
#[derive(Clone, Copy)]
pub struct SectionShape {
    /// Its heading.
    pub name: &'static str,
    /// With comments and defaults.
    pub(crate) template: fn() -> String,
    /// As they were declared.
    pub keys: fn() -> Vec<DeclaredKey>,
    /// Takes it out of a configuration.
    pub(super) read: fn(&mut SectionReader<'_>) -> anyhow::Result<Arc<dyn RoomSection>>,
}

impl SectionShape {
    /// The section that a type declares.
    pub fn of<S: Section + RoomSection>() -> Self {
        let read = |from: &mut SectionReader<'_>| -> anyhow::Result<Arc<dyn RoomSection>> {
            Ok(Arc::new(from.section::<S>()?))
        };
        Self { name: S::NAME, template: S::template, keys: S::keys, read }
    }
}

/// What is left of the configuration while sections are taken out of it.
pub(super) struct SectionReader<'a> {
    layers: &'a Layers,
    table: Table,
}

impl<'a> SectionReader<'a> {
    pub(super) fn new(layers: &'a Layers, table: Table) -> Self {
        Self { layers, table }
    }

    /// Takes a section; one that isn't there has its defaults.
    pub(super) fn section<S: Section>(&mut self) -> anyhow::Result<S> {
        let Some(value) = self.table.remove(S::NAME) else { return Ok(S::default()) };
        let read = value.try_into();
        read.map_err(|error: toml::de::Error| self.explained::<S>(&error).into())
    }

    /// Names the key that can't be read, and who gave it.
    fn explained<S: Section>(&self, error: &toml::de::Error) -> CliError {
        // The whole section's error names no origin, so each key is tried alone to find who gave
        // it.
        let single = self.layers.inside(S::NAME).find_map(|(path, given)| {
            let names = path.split('.').skip(1).collect::<Vec<_>>();
            let alone = names.iter().rev().fold(given.value.clone(), |value, name| {
                Value::Table(Table::from_iter([((*name).to_owned(), value)]))
            });
            let error = alone.try_into::<S>().err()?;
            Some((path, &given.origin, error))
        });
        let said = |error: &toml::de::Error| error.message().trim_end().to_owned();
        let section = S::NAME;
        let Some((path, origin, error)) = single else {
            let origin = self.layers.origin(section);
            let from =
                if *origin == Origin::Default { String::new() } else { format!(" ({origin})") };
            return CliError::usage(format!("in [{section}]: {}{from}", said(error)));
        };
        let (said, key) = (said(&error), path.rsplit('.').next().unwrap_or(path));
        if said.contains(&format!("`{key}`")) {
            return CliError::usage(format!("in [{section}]: {said} ({origin})"));
        }
        CliError::usage(format!("in [{section}]: `{path}`: {said} ({origin})"))
    }
}
