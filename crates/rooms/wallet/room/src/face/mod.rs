//! The wallet room: `unspent wallet` and `/wallets`.
//!
//! A request is declared once and has two faces. Its type is what the command line parses and what
//! REST takes as a body or query; its `run` checks it, asks the room and makes the answer; beside
//! them stand the route and the command that prints a table.
//!
//! | module | requests |
//! |---|---|
//! | `wallets` | list, create, show; accounts, scripts |
//! | `manage` | rename, archive, gap limit, resume, unwatch |
//! | `addresses` | watched addresses, the next one, whose an address is |
//! | `queries`, `tables` | balance, coins, transactions, journal; as tables |
//! | `mempool` | unconfirmed transactions with their fee rates |
//! | `statement` | history with running balance, as pages or CSV |
//! | `freeze` | freeze, unfreeze |
//! | `leases` | lease, release, leases |
//! | `payments`, `bumps`, `policy` | select, pay; bump, cpfp; which coins may be chosen |
//! | `finishing`, `psbts` | finalize, broadcast; looking at PSBTs and combining them |
//! | `upkeep` | record, invalidate, rewind, prune, audit |
//! | `labels` | labels, BIP-329 out and in |
//! | `follow` | scan |
//! | `webhooks` | URLs that are told of a wallet's events |
//! | `import`, `import_core` | a `wallet.db` of btcwallet or lnd; Core's `listdescriptors` |
//!
//! | module | what they share |
//! |---|---|
//! | `args` | the subcommands |
//! | `context` | a wallet, its room and the time, for either face |
//! | `input` | values, rates, times and coins as people write them |
//! | `json` | the answers |
//! | `figures` | the room in numbers |
//! | `section` | `[wallet]` of the configuration |
//! | `search` | what the room adds to `/search` and to a coin's timeline |
//! | `whole` | its database as a whole, for `unspent db` |
//! | `error` | why not |
//!
//! Deliberately absent: rules of wallets. They live in `unspent-model` and `unspent-wallet`.

mod addresses;
mod args;
mod bumps;
mod context;
mod dashboard;
mod error;
mod figures;
mod finishing;
mod follow;
mod freeze;
mod import;
mod import_core;
mod input;
mod json;
mod labels;
mod leases;
mod manage;
mod mempool;
mod payments;
mod policy;
mod psbts;
mod queries;
mod search;
mod section;
mod statement;
mod tables;
mod upkeep;
mod wallets;
mod webhooks;
mod whole;

use std::{error::Error, sync::Arc, time::Duration};

use serde_json::Value;
use unspent_engine::{
    Engine,
    room::{Room, RoomShape},
    tenant::Tenant,
};
use unspent_server::{
    api::{
        error::ApiError,
        narrow::{self, TenantPath},
        search::{Matches, SearchText},
        state::App,
        timeline::Timeline,
        transaction::TxView,
    },
    asset::Asset,
    command::RoomCommand,
    config::{Config, SectionShape},
    room::{Classified, RoomFace, RoomTables},
};
use unspent_sql::Url;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{args::WalletArgs, error::no_wallet, section::NAME, wallets::known};
use crate::{WalletRoom, events::tenant, wallets};

pub use self::section::WalletSection;

/// How paths name a wallet.
const PATH: TenantPath = TenantPath { room: NAME, parameter: "wallet", unknown: no_wallet };

/// The wallet room, as the rest of the program knows it.
pub struct WalletFace;

impl RoomFace for WalletFace {
    fn shape(&self) -> &'static RoomShape {
        &crate::SHAPE
    }

    fn settings(&self) -> SectionShape {
        SectionShape::of::<WalletSection>()
    }

    fn check(&self, config: &Config) -> anyhow::Result<()> {
        config.room::<WalletSection>()?.check(config)
    }

    fn is_on(&self, config: &Config) -> anyhow::Result<bool> {
        Ok(config.room::<WalletSection>()?.is_on(config.network))
    }

    fn database(&self, config: &Config) -> anyhow::Result<Option<Url>> {
        config.room::<WalletSection>()?.database(config).map(Some)
    }

    fn assets(&self) -> &'static [Asset] {
        dashboard::ASSETS
    }

    fn engine_room(&self, config: &Config) -> anyhow::Result<Arc<dyn Room>> {
        let section = config.room::<WalletSection>()?;
        Ok(Arc::new(WalletRoom {
            url: section.database(config)?,
            purge_leases_every: Duration::from_secs(section.purge_leases_seconds),
            mempool_every: Duration::from_secs(section.mempool_seconds),
            rebroadcast_every: Duration::from_secs(section.rebroadcast_seconds),
            ..WalletRoom::new(&config.data_dir)
        }))
    }

    fn commands(&self) -> Vec<RoomCommand> {
        vec![RoomCommand::on_data::<WalletArgs>(
            "wallet",
            "Watch-only wallets: scan blocks, show coins, lease them, build payments",
        )]
    }

    fn figures(&self, engine: &Engine) -> Option<Value> {
        figures::figures(engine)
    }

    fn has_slow_figures(&self) -> bool {
        true // Rows of large tables are counted.
    }

    fn plotted(&self, found: &Value) -> Vec<(&'static str, Value)> {
        figures::plotted(found)
    }

    fn tables(&self) -> Option<RoomTables> {
        Some(whole::TABLES)
    }

    fn routes(&self) -> OpenApiRouter<App> {
        let own = OpenApiRouter::new()
            .routes(routes!(wallets::show))
            .routes(routes!(manage::resume))
            .routes(routes!(manage::unwatch))
            .routes(routes!(wallets::add_account))
            .routes(routes!(wallets::add_script))
            .routes(routes!(addresses::list, addresses::next))
            .routes(routes!(addresses::find))
            .routes(routes!(queries::balance))
            .routes(routes!(queries::coins))
            .routes(routes!(queries::coin))
            .routes(routes!(queries::txs))
            .routes(routes!(queries::tx))
            .routes(routes!(queries::journal))
            .routes(routes!(mempool::mempool))
            .routes(routes!(statement::history))
            .routes(routes!(freeze::freeze))
            .routes(routes!(freeze::unfreeze))
            .routes(routes!(leases::list, leases::create))
            .routes(routes!(leases::release))
            .routes(routes!(payments::select))
            .routes(routes!(payments::pay))
            .routes(routes!(bumps::bump))
            .routes(routes!(bumps::cpfp))
            .routes(routes!(finishing::finalize))
            .routes(routes!(finishing::broadcast))
            .routes(routes!(psbts::inspect))
            .routes(routes!(upkeep::record))
            .routes(routes!(upkeep::invalidate))
            .routes(routes!(upkeep::rewind))
            .routes(routes!(upkeep::prune))
            .routes(routes!(upkeep::audit))
            .routes(routes!(labels::list, labels::set))
            .routes(routes!(labels::export))
            .routes(routes!(labels::import))
            .routes(routes!(webhooks::create));
        // A new name would leave the token behind with the old one.
        let renaming = OpenApiRouter::new().routes(routes!(manage::change));
        let lists = OpenApiRouter::new().routes(routes!(wallets::list));
        OpenApiRouter::new()
            .routes(routes!(wallets::create))
            .routes(routes!(import_core::import))
            .merge(narrow::shared(lists))
            .merge(narrow::of_tenant(PATH, own))
            .merge(narrow::shut_of_tenant(PATH, renaming))
    }

    fn tenant(&self, engine: &Engine, name: &str) -> Result<Option<Tenant>, ApiError> {
        let Some(room) = wallets(engine) else { return Ok(None) };
        Ok(known(&room, name)?.map(|wallet| tenant(wallet, name)))
    }

    fn no_tenant(&self, name: &str) -> ApiError {
        no_wallet(name)
    }

    fn search(
        &self,
        engine: &Engine,
        asked: &SearchText,
        found: &mut Matches,
    ) -> Result<(), ApiError> {
        search::search(engine, asked, found)
    }

    fn timeline(&self, engine: &Engine, timeline: &mut Timeline) -> Result<(), ApiError> {
        search::timeline(engine, timeline)
    }

    fn transaction(&self, engine: &Engine, view: &mut TxView) -> Result<(), ApiError> {
        search::transaction_view(engine, view)
    }

    fn classify(&self, cause: &(dyn Error + 'static)) -> Option<Classified> {
        error::kind(cause).map(Classified::Kind)
    }
}
