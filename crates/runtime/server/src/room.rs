//! A room as users meet it: one port, [`RoomFace`].
//!
//! Behind it are a room's section of the configuration, its requests with their routes and
//! commands, its answers, and what its errors mean. Whatever serves all rooms (the configuration,
//! the server, `/search`, a coin's timeline, exit codes) is given the one value [`Rooms`], which
//! `main` makes.

use std::{error::Error, fmt, path::PathBuf, sync::Arc};

use serde_json::Value;
use unspent_engine::{
    Engine,
    room::{Room, RoomShape},
    tenant::{Tenant, TenantName},
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
    asset::Asset,
    command::RoomCommand,
    config::{Config, SectionShape},
};

/// The rooms that this program has, in the order in which they are configured and shown. `main`
/// makes it; whoever serves all rooms is given it.
#[derive(Clone, Copy)]
pub struct Rooms(&'static [&'static dyn RoomFace]);

impl Rooms {
    /// These rooms, in this order.
    pub const fn new(rooms: &'static [&'static dyn RoomFace]) -> Self {
        Self(rooms)
    }

    /// In order.
    pub fn iter(self) -> std::iter::Copied<std::slice::Iter<'static, &'static dyn RoomFace>> {
        self.0.iter().copied()
    }

    /// A tenant by the name that people give it; `None` where there is none. May block.
    pub fn tenant(self, engine: &Engine, named: &TenantName) -> Result<Option<Tenant>, ApiError> {
        let room = self.iter().find(|room| room.name() == named.room);
        room.map_or(Ok(None), |room| room.tenant(engine, &named.name))
    }

    /// What is said of a tenant that isn't there, or that the one who asks may not see.
    pub fn no_tenant(self, named: &TenantName) -> ApiError {
        let room = self.iter().find(|room| room.name() == named.room);
        let unknown = || ApiError::not_found(format!("there is no `{}`", named.name));
        room.map_or_else(unknown, |room| room.no_tenant(&named.name))
    }

    /// Those that the configuration switches on, as the engine opens them.
    pub fn switched_on(self, config: &Config) -> anyhow::Result<Vec<Arc<dyn Room>>> {
        let mut rooms = Vec::new();
        for room in self.iter() {
            if room.is_on(config)? {
                rooms.push(room.engine_room(config)?);
            }
        }
        Ok(rooms)
    }

    /// What the engine knows of all of them.
    pub fn shapes(self) -> Vec<&'static RoomShape> {
        self.iter().map(RoomFace::shape).collect()
    }
}

impl fmt::Debug for Rooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(RoomFace::name)).finish()
    }
}

/// What the rest of the program asks of a room.
pub trait RoomFace: Sync {
    /// What the engine knows of it without opening it.
    fn shape(&self) -> &'static RoomShape;

    /// Its name, as the engine knows it.
    fn name(&self) -> &'static str {
        self.shape().name.name()
    }

    /// Its section of the configuration.
    fn settings(&self) -> SectionShape;

    /// The name of that section.
    fn section(&self) -> &'static str {
        self.settings().name
    }

    /// Refuses what can't work, naming the key.
    fn check(&self, _: &Config) -> anyhow::Result<()> {
        Ok(())
    }

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

    /// The room as the engine opens it, where it is on.
    fn engine_room(&self, config: &Config) -> anyhow::Result<Arc<dyn Room>>;

    /// Its commands, in the order in which they are shown.
    fn commands(&self) -> Vec<RoomCommand> {
        Vec::new()
    }

    /// Its numbers, for `/status` and the plots; `None` when it can't be asked. May block.
    fn figures(&self, _: &Engine) -> Option<Value> {
        None
    }

    /// Whether its figures take so long that they may be a little old.
    fn has_slow_figures(&self) -> bool {
        false
    }

    /// The numbers that are plotted, by name, out of [`figures`](Self::figures).
    fn plotted(&self, _: &Value) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Its part of the dashboard: scripts, of which `rooms/NAME/index.js` plugs them all in.
    fn assets(&self) -> &'static [Asset] {
        &[]
    }

    /// Its routes under `/api/v1`.
    fn routes(&self) -> OpenApiRouter<App> {
        OpenApiRouter::new()
    }

    /// A tenant by its name: what events, tokens and webhooks can be about. `None` in a room
    /// without tenants, and where it has none of that name. May block.
    fn tenant(&self, _: &Engine, _: &str) -> Result<Option<Tenant>, ApiError> {
        Ok(None)
    }

    /// What is said of a tenant that isn't there, or that the one who asks may not see.
    fn no_tenant(&self, name: &str) -> ApiError {
        ApiError::not_found(format!("there is no `{name}`"))
    }

    /// Adds what a text may be the name of. May block.
    fn search(&self, _: &Engine, _: &SearchText, _: &mut Matches) -> Result<(), ApiError> {
        Ok(())
    }

    /// Adds what it knows of a coin. May block.
    fn timeline(&self, _: &Engine, _: &mut Timeline) -> Result<(), ApiError> {
        Ok(())
    }

    /// Adds what it knows of a transaction, after the rooms below it in [`Rooms`]. May block.
    fn transaction(&self, _: &Engine, _: &mut TxView) -> Result<(), ApiError> {
        Ok(())
    }

    /// Its rows, where they are in SQLite or PostgreSQL.
    fn tables(&self) -> Option<RoomTables> {
        None
    }

    /// What one of its errors means to the command line; `None` for errors of others.
    fn classify(&self, _: &(dyn Error + 'static)) -> Option<Classified> {
        None
    }
}

/// A room's rows in SQLite or PostgreSQL.
#[derive(Clone, Copy)]
pub struct RoomTables {
    /// The tables.
    pub schema: &'static Schema,
    /// What doesn't agree in such a database; empty when everything does.
    pub audit: fn(&Url) -> anyhow::Result<Vec<String>>,
}

/// What an error means to the command line.
pub enum Classified {
    /// The request makes no sense.
    Usage,
    /// The room's own kind of trouble.
    Kind(Kind),
}
