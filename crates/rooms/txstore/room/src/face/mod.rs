//! The txstore room: `unspent txstore` and `/transactions`.
//!
//! | module | what |
//! |---|---|
//! | `records` | a record, its outputs, why it is still there; as routes and commands |
//! | `outputs` | freeze, unfreeze, reassign |
//! | `upkeep` | clean, unmined, drop, preserve, repair |
//! | `import` | block files into the store |
//! | `figures` | the store in numbers; as a route and a command |
//! | `ask` | how handlers ask the room |
//! | `args` | the subcommands |
//! | `section` | `[txstore]` of the configuration |
//! | `search` | what the room adds to `/search` |
//! | `json` | the answers |
//! | `whole` | its database as a whole, for `unspent db` |
//! | `error` | why not |
//!
//! Deliberately absent: rules of deletion. They live in `unspent-model` and `unspent-txstore`.

mod args;
mod ask;
mod dashboard;
mod error;
mod figures;
mod import;
mod json;
mod outputs;
mod records;
mod search;
mod section;
mod upkeep;
mod whole;

use std::{error::Error, sync::Arc, time::Duration};

use serde_json::Value;
use unspent_engine::{
    Engine,
    room::{Room, RoomShape},
};
use unspent_server::{
    api::{
        error::ApiError,
        search::{Matches, SearchText},
        state::App,
        transaction::TxView,
    },
    asset::Asset,
    command::RoomCommand,
    config::{Config, SectionShape},
    room::{Classified, RoomFace, RoomTables},
};
use unspent_sql::Url;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{
    args::TxStoreArgs,
    ask::{NAME, TxStoreQueries},
    section::TxStoreSection,
};
use crate::TxStoreRoom;

/// The txstore room, as the rest of the program knows it.
pub struct TxStoreFace;

impl RoomFace for TxStoreFace {
    fn shape(&self) -> &'static RoomShape {
        &crate::SHAPE
    }

    fn settings(&self) -> SectionShape {
        SectionShape::of::<TxStoreSection>()
    }

    fn check(&self, config: &Config) -> anyhow::Result<()> {
        config.room::<TxStoreSection>()?.check(config)
    }

    fn is_on(&self, config: &Config) -> anyhow::Result<bool> {
        Ok(config.room::<TxStoreSection>()?.enabled)
    }

    fn database(&self, config: &Config) -> anyhow::Result<Option<Url>> {
        config.room::<TxStoreSection>()?.database(config).map(Some)
    }

    fn assets(&self) -> &'static [Asset] {
        dashboard::ASSETS
    }

    fn engine_room(&self, config: &Config) -> anyhow::Result<Arc<dyn Room>> {
        let section = config.room::<TxStoreSection>()?;
        Ok(Arc::new(TxStoreRoom {
            url: section.database(config)?,
            settings: section.settings(),
            clean_every: Duration::from_secs(section.clean_seconds),
            unmined_every: Duration::from_secs(section.mempool_seconds),
            ..TxStoreRoom::new(&config.data_dir)
        }))
    }

    fn commands(&self) -> Vec<RoomCommand> {
        vec![RoomCommand::on_data::<TxStoreArgs>(
            "txstore",
            "A node's transactions with their spenders, deleted once nobody can need them",
        )]
    }

    fn figures(&self, engine: &Engine) -> Option<Value> {
        figures::figures(engine)
    }

    fn has_slow_figures(&self) -> bool {
        true // Records are counted.
    }

    fn plotted(&self, found: &Value) -> Vec<(&'static str, Value)> {
        figures::plotted(found)
    }

    fn tables(&self) -> Option<RoomTables> {
        Some(whole::TABLES)
    }

    fn routes(&self) -> OpenApiRouter<App> {
        OpenApiRouter::new()
            .routes(routes!(figures::status))
            .routes(routes!(records::record))
            .routes(routes!(records::outputs))
            .routes(routes!(records::why))
    }

    fn search(
        &self,
        engine: &Engine,
        asked: &SearchText,
        found: &mut Matches,
    ) -> Result<(), ApiError> {
        search::search(engine, asked, found)
    }

    fn transaction(&self, engine: &Engine, view: &mut TxView) -> Result<(), ApiError> {
        search::transaction_view(engine, view)
    }

    fn classify(&self, cause: &(dyn Error + 'static)) -> Option<Classified> {
        error::classify(cause)
    }
}
