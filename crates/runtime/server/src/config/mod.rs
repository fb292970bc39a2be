//! The settings of the daemon and of every command: one TOML file, the environment over it, flags
//! over that. They are resolved once, before anything is opened.
//!
//! | module | keeps |
//! |---|---|
//! | `declare` | how a section is declared: each key once |
//! | `sections` | the sections that belong to no room; each room has its own in its folder |
//! | `section` | a section as a whole, and how it is read |
//! | `whole` | all of it together, and the commented file that `unspent config init` writes |
//! | `flags` | declared keys as arguments of commands |
//! | `layers` | what was given, key by key, and by whom |
//! | `text` | text of variables and flags as values |
//! | `load` | file, environment and flags laid over each other |
//! | `check` | what can't be, before anything is opened |
//! | `database` | where a room's database is |
//! | `secret` | what stands in a file of its own |
//! | `webhooks` | how webhooks are called |
//!
//! Invariant: an unknown key is an error that names it; a secret stands in a file of its own or in
//! the environment, never in an argument.

mod check;
mod database;
mod declare;
mod flags;
mod layers;
mod load;
mod secret;
mod section;
mod sections;
mod text;
mod webhooks;
mod whole;

pub use self::{
    check::{check_daemon, check_span, wrong},
    database::{check_database, database},
    declare::{DeclaredKey, FlagKind, Section, section_text, toml_text},
    flags::{GivenFlag, SettingFlags},
    layers::Origin,
    load::{SettingSources, load},
    secret::secret,
    section::{RoomSection, SectionShape},
    sections::{
        AuthSection, EventsSection, HttpSection, LogFormat, LogSection, SimSection, SourceKind,
        SourceSection, WebhooksSection,
    },
    webhooks::{trusted_roots, webhook_options},
    whole::{Config, declared_keys, template},
};
pub use crate::section;
