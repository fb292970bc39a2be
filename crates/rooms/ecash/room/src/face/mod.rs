//! The ecash room: `unspent ecash` and `/ecash`.
//!
//! | module | what |
//! |---|---|
//! | `requests` | what can be asked for: an account, receive, pay, send, claim, reverse, cancel |
//! | `lists` | what is read: payments, proofs, transactions, one payment with its journal |
//! | `routes` | both over REST |
//! | `accounts`, `payments`, `shown` | the same on the command line |
//! | `work` | recover and run: the worker in the foreground |
//! | `whole` | its database as a whole, for `unspent db` |
//! | `args` | the subcommands, and how the room is opened for them |
//! | `key` | the key that secrets are sealed with |
//! | `section` | `[ecash]` of the configuration |
//! | `json` | the answers |
//! | `error` | why not |
//!
//! Deliberately absent: rules of payments. They live in `unspent-model` and `unspent-ecash`.

mod accounts;
mod args;
mod dashboard;
mod error;
mod json;
mod key;
mod lists;
mod payments;
mod requests;
mod routes;
mod section;
mod shown;
mod whole;
mod work;

use std::{error::Error, path::PathBuf, sync::Arc};

use serde_json::Value;
use unspent_engine::{
    Engine,
    room::{Room, RoomShape},
    tenant::Tenant,
};
use unspent_server::{
    api::{
        error::ApiError,
        figures::{sum_of_bytes, value_at},
        narrow,
        search::{Matches, SearchText},
        state::App,
        timeline::Timeline,
    },
    asset::Asset,
    command::RoomCommand,
    config::{Config, SectionShape},
    room::{Classified, RoomFace, RoomTables},
};
use unspent_sql::Url;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{
    args::EcashArgs,
    json::EcashFiguresJson,
    requests::no_account,
    section::{EcashSection, MayMake},
};
use crate::{events::tenant, executor, figures};

/// The room's name in the engine, in events and in metrics.
const NAME: &str = "ecash";

/// The ecash room, as the rest of the program knows it.
pub struct EcashFace;

impl RoomFace for EcashFace {
    fn shape(&self) -> &'static RoomShape {
        &crate::SHAPE
    }

    fn settings(&self) -> SectionShape {
        SectionShape::of::<EcashSection>()
    }

    fn check(&self, config: &Config) -> anyhow::Result<()> {
        config.room::<EcashSection>()?.check(config)
    }

    fn is_on(&self, config: &Config) -> anyhow::Result<bool> {
        Ok(config.room::<EcashSection>()?.enabled)
    }

    fn database(&self, config: &Config) -> anyhow::Result<Option<Url>> {
        config.room::<EcashSection>()?.database(config).map(Some)
    }

    fn kept_apart(&self, config: &Config) -> anyhow::Result<Vec<PathBuf>> {
        Ok(vec![config.room::<EcashSection>()?.key_place(config)])
    }

    fn assets(&self) -> &'static [Asset] {
        dashboard::ASSETS
    }

    fn engine_room(&self, config: &Config) -> anyhow::Result<Arc<dyn Room>> {
        let section = config.room::<EcashSection>()?;
        Ok(Arc::new(section.room(config, MayMake::DatabaseAndKey)?))
    }

    fn commands(&self) -> Vec<RoomCommand> {
        vec![RoomCommand::on_data::<EcashArgs>(
            "ecash",
            "Cashu and Spark payments: receive, pay, send and claim tokens, whatever crashes in between",
        )]
    }

    fn figures(&self, engine: &Engine) -> Option<Value> {
        serde_json::to_value(EcashFiguresJson::new(&figures(engine)?)).ok()
    }

    fn has_slow_figures(&self) -> bool {
        true // Payments are counted.
    }

    fn plotted(&self, figures: &Value) -> Vec<(&'static str, Value)> {
        vec![
            ("ecash_bytes", sum_of_bytes(figures, "/sizes")),
            ("ecash_open_payments", value_at(figures, "/open_payments")),
        ]
    }

    fn tables(&self) -> Option<RoomTables> {
        Some(whole::TABLES)
    }

    fn routes(&self) -> OpenApiRouter<App> {
        let own = OpenApiRouter::new()
            .routes(routes!(routes::accounts))
            .routes(routes!(routes::proofs))
            .routes(routes!(routes::payments))
            .routes(routes!(routes::payment))
            .routes(routes!(routes::token))
            .routes(routes!(routes::transactions))
            .routes(routes!(routes::receive))
            .routes(routes!(routes::pay))
            .routes(routes!(routes::send))
            .routes(routes!(routes::claim))
            .routes(routes!(routes::reverse))
            .routes(routes!(routes::cancel));
        OpenApiRouter::new()
            .routes(routes!(routes::status))
            .routes(routes!(routes::add_account))
            .routes(routes!(routes::change_account, routes::remove_account))
            .routes(routes!(routes::scan_account))
            .routes(routes!(routes::add_webhook))
            .routes(routes!(routes::check_mint))
            .merge(narrow::of_room(NAME, own))
    }

    fn tenant(&self, engine: &Engine, name: &str) -> Result<Option<Tenant>, ApiError> {
        let Some(executor) = executor(engine) else { return Ok(None) };
        let account = routes::known(&executor, name)?;
        Ok(account.map(|account| tenant(&account.id, &account.name)))
    }

    fn no_tenant(&self, name: &str) -> ApiError {
        no_account(name)
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
