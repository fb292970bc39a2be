//! Settings as flags: what a section declares, as arguments of the commands that take it.

use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, error::ErrorKind};

use super::declare::{DeclaredKey, FlagKind, Section};

/// A setting that the command line names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GivenFlag {
    /// The key's path, such as `ecash.url`.
    pub(crate) key: String,
    /// Several where the key is a list.
    pub(crate) texts: Vec<String>,
    /// As it was written: `--url`.
    pub(crate) written: String,
    /// The name that stands in its place today, where it was written with an older one.
    pub(crate) renamed: Option<String>,
}

impl GivenFlag {
    /// A key with one value, as `flag` gave it.
    pub fn new(key: &str, flag: &str, text: impl Into<String>) -> Self {
        let (key, written) = (key.to_owned(), flag.to_owned());
        Self { key, texts: vec![text.into()], written, renamed: None }
    }
}

/// The flags of a section, as far as they were given.
pub struct SettingFlags<S> {
    given: Vec<GivenFlag>,
    section: PhantomData<fn() -> S>,
}

impl<S> SettingFlags<S> {
    /// Those that were given.
    pub fn given(&self) -> Vec<GivenFlag> {
        self.given.clone()
    }
}

/// A key's flag, and the flags that it had before.
fn arguments(key: &DeclaredKey, kind: FlagKind) -> Vec<Arg> {
    let shaped = |arg: Arg| match kind {
        FlagKind::Value(name) => arg.value_name(name),
        FlagKind::List(name) => arg.value_name(name).action(ArgAction::Append),
        FlagKind::Switch => arg
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
    };
    // A setting may stand before or after the command's own name.
    let named = |id: String, flag: String| shaped(Arg::new(id).long(flag).global(true));
    let flag = named(key.path(), key.flag_name()).help(help(key)).help_heading("Settings");
    let old = key.old_flags().map(|old| named(old_id(key, old), old.to_owned()).hide(true));
    std::iter::once(flag).chain(old).collect()
}

fn old_id(key: &DeclaredKey, old: &str) -> String {
    format!("{} as --{old}", key.path())
}

fn help(key: &DeclaredKey) -> String {
    let about: Vec<&str> = key.about.iter().map(|line| line.trim()).collect();
    let about = about.join(" ");
    let default = key.default.as_ref().filter(|_| key.flag != Some(FlagKind::Switch));
    let default = default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
    format!("{about}{default} [env: {}]", key.variable())
}

fn flags<S: Section>() -> impl Iterator<Item = (DeclaredKey, FlagKind)> {
    S::keys().into_iter().filter_map(|key| key.flag.map(|kind| (key, kind)))
}

/// What was given of one key: under its name, or under one that it had before.
fn given(key: &DeclaredKey, matches: &mut ArgMatches) -> Result<Option<GivenFlag>, Error> {
    let mut taken = |id: &str| -> Option<Vec<String>> {
        let texts = matches.try_remove_many::<String>(id).ok()??;
        Some(texts.collect())
    };
    let name = format!("--{}", key.flag_name());
    let found =
        |texts, written: String, renamed| GivenFlag { key: key.path(), texts, written, renamed };
    let mut all: Vec<GivenFlag> = Vec::new();
    all.extend(taken(&key.path()).map(|texts| found(texts, name.clone(), None)));
    for old in key.old_flags() {
        let texts = taken(&old_id(key, old));
        all.extend(texts.map(|texts| found(texts, format!("--{old}"), Some(name.clone()))));
    }
    if let [first, second, ..] = all.as_slice()
        && first.texts != second.texts
    {
        let message = format!(
            "{} is the older name of {}; they were given different values\n",
            second.written, first.written
        );
        return Err(Error::raw(ErrorKind::ArgumentConflict, message));
    }
    Ok(all.into_iter().next())
}

impl<S: Section> FromArgMatches for SettingFlags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        let all = flags::<S>().filter_map(|(key, _)| given(&key, matches).transpose());
        Ok(Self { given: all.collect::<Result<_, _>>()?, section: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<S: Section> Args for SettingFlags<S> {
    fn augment_args(command: Command) -> Command {
        command.args(flags::<S>().flat_map(|(key, kind)| arguments(&key, kind)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
