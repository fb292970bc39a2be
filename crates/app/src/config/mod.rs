//! The configuration of the daemon: one TOML file, overridden by the environment and by flags.
//!
//! | module | keeps |
//! |---|---|
//! | `declare` | how a section is declared: each key once |
//! | `sections` | the sections that belong to no room; each room has its own in its folder |
//! | `whole` | all of it together, and the commented file that `unspent config init` writes |
//! | `load` | file, environment and flags laid over each other |
//! | `check` | what can't be, before anything is opened |
//! | `secret` | what stands in a file of its own |
//! | `command` | `unspent config init` and `check` |
//!
//! Invariant: an unknown key is an error that names it; a secret stands in a file of its own or in
//! the environment, never in an argument.

mod check;
mod command;
mod database;
mod declare;
mod load;
mod secret;
mod sections;
#[cfg(test)]
mod tests;
mod whole;

pub(crate) use self::{
    check::{check_span, wrong},
    command::{ConfigArgs, run},
    database::{check_database, database},
    declare::{KeyText, Section, default_of, section, section_text, shown_default, toml_text},
    load::{environment, load, read_section},
    secret::secret,
    sections::{LogFormat, LogSection, SimSection, SourceKind, SourceSection},
    whole::{Config, DATA_DIR, RoomSection, TOKENS_FILE},
};
