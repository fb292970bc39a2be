//! The ecash room: `unspent ecash`.
//!
//! | module | what |
//! |---|---|
//! | `accounts` | accounts, mints, balances |
//! | `payments` | receive, pay, send, claim, reverse |
//! | `lists` | quotes, swaps, proofs, transactions, one payment with its journal |
//! | `work` | recover and run: the worker in the foreground |
//! | `args` | the subcommands, and how the room is opened for them |
//! | `key` | the key that secrets are sealed with |
//! | `section` | `[ecash]` of the configuration |
//! | `json` | the answers |
//! | `error` | why not |
//!
//! Deliberately absent: rules of payments. They live in `unspent-model` and `unspent-ecash`.

mod accounts;
mod args;
mod error;
mod json;
mod key;
mod lists;
mod payments;
mod section;
mod work;

use std::{error::Error, sync::Arc};

use serde_json::Value;
use toml::Table;
use unspent_engine::{
    Engine,
    rooms::{
        Room,
        ecash::room::{EcashRoom, figures},
    },
};
use utoipa_axum::router::OpenApiRouter;

pub(crate) use self::args::{EcashArgs, run};
use self::{json::EcashFiguresJson, section::EcashSection};
use super::{AppRoom, Classified};
use crate::{
    api::{
        error::ApiError,
        search::{Matches, SearchText},
        state::App,
        timeline::Timeline,
    },
    config::{self, Config, RoomSection, Section as _},
};

/// The room's name in the engine, in events and in metrics.
const NAME: &str = "ecash";

/// The ecash room, as the table of rooms knows it.
pub(super) struct EcashEntry;

impl AppRoom for EcashEntry {
    fn name(&self) -> &'static str {
        NAME
    }

    fn section(&self) -> &'static str {
        EcashSection::NAME
    }

    fn template(&self) -> String {
        EcashSection::template()
    }

    fn read(&self, table: &mut Table) -> anyhow::Result<Arc<dyn RoomSection>> {
        Ok(Arc::new(config::read_section::<EcashSection>(table)?))
    }

    fn check(&self, config: &Config) -> anyhow::Result<()> {
        config.room::<EcashSection>()?.check()
    }

    fn is_on(&self, config: &Config) -> anyhow::Result<bool> {
        Ok(config.room::<EcashSection>()?.enabled)
    }

    fn engine_room(&self, config: &Config) -> anyhow::Result<Option<Box<dyn Room>>> {
        let section = config.room::<EcashSection>()?;
        if !section.enabled {
            return Ok(None);
        }
        Ok(Some(Box::new(EcashRoom {
            url: section.database(&config.data_dir)?,
            mints: section.mints(),
            worker: section.worker(),
            spark_url: section.spark_url.clone(),
            fence: section.fence,
            ..EcashRoom::new(&config.data_dir, section.key(&config.data_dir)?)
        })))
    }

    fn figures(&self, engine: &Engine) -> Option<Value> {
        serde_json::to_value(EcashFiguresJson::new(&figures(engine)?)).ok()
    }

    fn plotted(&self, _: &Value) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    fn routes(&self) -> OpenApiRouter<App> {
        OpenApiRouter::new()
    }

    /// Names of payments are no names of a chain.
    fn search(&self, _: &Engine, _: &SearchText, _: &mut Matches) -> Result<(), ApiError> {
        Ok(())
    }

    /// Ecash knows no coins of a chain.
    fn timeline(&self, _: &Engine, _: &mut Timeline) -> Result<(), ApiError> {
        Ok(())
    }

    fn classify(&self, cause: &(dyn Error + 'static)) -> Option<Classified> {
        error::classify(cause)
    }
}
