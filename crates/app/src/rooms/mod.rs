//! The rooms as users meet them: a folder each, and one port.
//!
//! A room's folder holds its section of the configuration, its requests with their routes and
//! commands, its answers, and what its errors mean. Whatever serves all rooms (the configuration,
//! the server, `/search`, a coin's timeline, exit codes) is given the one value [`Rooms`].
//!
//! A further room is a folder here, a line where `main` makes that value, and a variant of
//! `cli::OnData`.

pub(crate) mod chain;
pub(crate) mod ecash;
#[cfg(test)]
pub(crate) mod example;
pub(crate) mod txstore;
pub(crate) mod wallet;

use std::{error::Error, fmt, path::PathBuf, sync::Arc};

use serde_json::Value;
use unspent_engine::{
    Engine,
    room::{Room, RoomShape},
};
use unspent_model::Kind;
use unspent_sql::{Schema, Url};
use utoipa_axum::router::OpenApiRouter;

use crate::{
    api::{
        error::ApiError,
        search::{Matches, SearchText},
        state::App,
        timeline::Timeline,
        transaction::TxView,
    },
    config::{Config, DeclaredKey, RoomSection, SectionReader},
};

pub(crate) use self::wallet::{Seconds, no_wallet};

/// The rooms that this program has, in the order in which they are configured and shown. `main`
/// makes it; whoever serves all rooms is given it.
#[derive(Clone, Copy)]
pub(crate) struct Rooms(&'static [&'static dyn AppRoom]);

impl Rooms {
    pub(crate) const fn new(rooms: &'static [&'static dyn AppRoom]) -> Self {
        Self(rooms)
    }

    pub(crate) fn iter(self) -> std::iter::Copied<std::slice::Iter<'static, &'static dyn AppRoom>> {
        self.0.iter().copied()
    }

    /// What the engine knows of all of them.
    pub(crate) fn shapes(self) -> Vec<&'static RoomShape> {
        self.iter().map(AppRoom::shape).collect()
    }
}

impl fmt::Debug for Rooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(AppRoom::name)).finish()
    }
}

/// What the rest of the program asks of a room.
pub(crate) trait AppRoom: Sync {
    /// What the engine knows of it without opening it.
    fn shape(&self) -> &'static RoomShape;

    /// Its name, as the engine knows it.
    fn name(&self) -> &'static str {
        self.shape().name.name()
    }

    /// Its section of the configuration.
    fn section(&self) -> &'static str;

    /// That section with comments and defaults.
    fn template(&self) -> String;

    /// Its keys, as they were declared.
    fn keys(&self) -> Vec<DeclaredKey>;

    /// Takes that section out of a configuration.
    fn read(&self, from: &mut SectionReader<'_>) -> anyhow::Result<Arc<dyn RoomSection>>;

    /// Refuses what can't work, naming the key.
    fn check(&self, config: &Config) -> anyhow::Result<()>;

    /// Whether the configuration switches it on.
    fn is_on(&self, config: &Config) -> anyhow::Result<bool>;

    /// Where its rows are; `None` for a room that keeps files of its own in the data folder.
    fn database(&self, _: &Config) -> anyhow::Result<Option<Url>> {
        Ok(None)
    }

    /// Files that open its data and that a backup doesn't hold, since the settings keep them apart.
    fn kept_apart(&self, _: &Config) -> anyhow::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    /// The room as the engine opens it; `None` when it is off.
    fn engine_room(&self, config: &Config) -> anyhow::Result<Option<Arc<dyn Room>>>;

    /// Its numbers, for `/status` and the plots; `None` when it can't be asked. May block.
    fn figures(&self, engine: &Engine) -> Option<Value>;

    /// Whether its figures take so long that they may be a little old.
    fn has_slow_figures(&self) -> bool {
        false
    }

    /// The numbers that are plotted, by name, out of [`figures`](Self::figures).
    fn plotted(&self, figures: &Value) -> Vec<(&'static str, Value)>;

    /// Its routes under `/api/v1`.
    fn routes(&self) -> OpenApiRouter<App>;

    /// Adds what a text may be the name of. May block.
    fn search(
        &self,
        engine: &Engine,
        asked: &SearchText,
        found: &mut Matches,
    ) -> Result<(), ApiError>;

    /// Adds what it knows of a coin. May block.
    fn timeline(&self, engine: &Engine, timeline: &mut Timeline) -> Result<(), ApiError>;

    /// Adds what it knows of a transaction, after the rooms below it in [`Rooms`]. May block.
    fn transaction(&self, _: &Engine, _: &mut TxView) -> Result<(), ApiError> {
        Ok(())
    }

    /// Its rows, where they are in SQLite or PostgreSQL.
    fn tables(&self) -> Option<RoomTables> {
        None
    }

    /// What one of its errors means to the command line; `None` for errors of others.
    fn classify(&self, cause: &(dyn Error + 'static)) -> Option<Classified>;
}

/// A room's rows in SQLite or PostgreSQL.
#[derive(Clone, Copy)]
pub(crate) struct RoomTables {
    pub(crate) schema: &'static Schema,
    /// What doesn't agree in such a database; empty when everything does.
    pub(crate) audit: fn(&Url) -> anyhow::Result<Vec<String>>,
}

/// What an error means to the command line.
pub(crate) enum Classified {
    /// The request makes no sense.
    Usage,
    /// The room's own kind of trouble.
    Kind(Kind),
}
