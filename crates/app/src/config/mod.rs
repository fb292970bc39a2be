//! The configuration of the daemon: one TOML file, overridden by the environment and by flags.
//!
//! | module | keeps |
//! |---|---|
//! | `sections` | what may be configured, with defaults |
//! | `load` | file, environment and flags laid over each other |
//! | `check` | what can't be, before anything is opened |
//! | `template` | the commented file that `unspent config init` writes |
//! | `command` | `unspent config init` and `check` |
//!
//! Invariant: an unknown key is an error that names it; a secret stands in a file of its own or in
//! the environment, never in an argument.

mod check;
mod command;
mod load;
mod sections;
mod template;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    command::{ConfigArgs, run},
    load::load,
    sections::{Config, LogFormat, LogSection, SimSection, SourceKind, SourceSection, UtxoSection},
};
