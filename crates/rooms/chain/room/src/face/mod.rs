//! The chain room: `unspent chain`, `/addresses`, `/utxos`, `/blocks`, `/deltas`, `/roots`,
//! `/proofs`.
//!
//! | module | what |
//! |---|---|
//! | `coins` | coins by owner, one coin; as routes and commands |
//! | `lookups` | many coins or addresses in one request |
//! | `blocks` | blocks and deltas; as routes and a command |
//! | `block_detail` | a block with amounts, owners, totals and size |
//! | `roots` | roots of blocks and proofs; as routes and commands |
//! | `verify_proof` | the checking of a proof, without a folder |
//! | `upkeep` | rollback, prune, verify, digest |
//! | `status` | where the folder stands |
//! | `ask` | how handlers ask the room |
//! | `args`, `options` | the subcommands; the options of the index |
//! | `section` | `[utxo]` of the configuration |
//! | `search` | what the room adds to `/search` and to a coin's timeline |
//! | `json`, `parse` | the answers; what people type |
//! | `error` | why not |
//!
//! Deliberately absent: rules of the chain. They live in `unspent-model` and `unspent-chain`.

mod args;
mod ask;
mod block_detail;
mod blocks;
mod coins;
mod dashboard;
mod error;
mod json;
mod lookups;
mod options;
mod parse;
mod roots;
mod search;
mod section;
pub(crate) mod status;
mod upkeep;
mod verify_proof;

use std::{error::Error, sync::Arc, time::Duration};

use serde_json::Value;
use unspent_engine::{
    Engine,
    room::{Room, RoomShape},
};
use unspent_server::{
    api::{
        error::ApiError,
        narrow,
        search::{Matches, SearchText},
        state::App,
        timeline::Timeline,
        transaction::TxView,
    },
    asset::Asset,
    command::RoomCommand,
    config::{Config, SectionShape},
    room::{Classified, RoomFace},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{
    args::ChainArgs,
    ask::{ChainQueries, NAME, folder},
    status::FiguresJson,
    verify_proof::VerifyProofArgs,
};
use crate::{ChainRoom, import, reader};

pub(crate) use self::options::ChainOptions;
pub use self::section::UtxoSection;

/// The chain room, as the rest of the program knows it.
pub struct ChainFace;

impl RoomFace for ChainFace {
    fn shape(&self) -> &'static RoomShape {
        &crate::SHAPE
    }

    fn settings(&self) -> SectionShape {
        SectionShape::of::<UtxoSection>()
    }

    fn check(&self, config: &Config) -> anyhow::Result<()> {
        config.room::<UtxoSection>()?.check()
    }

    fn is_on(&self, config: &Config) -> anyhow::Result<bool> {
        Ok(config.room::<UtxoSection>()?.enabled)
    }

    fn assets(&self) -> &'static [Asset] {
        dashboard::ASSETS
    }

    fn engine_room(&self, config: &Config) -> anyhow::Result<Arc<dyn Room>> {
        let section = config.room::<UtxoSection>()?;
        let standard = ChainRoom::new(&config.data_dir, config.network);
        let known = import::known(&standard.folder)?;
        Ok(Arc::new(ChainRoom {
            options: section.options()?.resolve(config.network, known.as_ref())?,
            genesis: import::read_genesis(config.network, &config.source.genesis)?,
            prune_every: Duration::from_secs(section.prune_seconds),
            ..standard
        }))
    }

    fn commands(&self) -> Vec<RoomCommand> {
        vec![
            RoomCommand::on_data::<ChainArgs>(
                "chain",
                "Every unspent output of a chain: import, query, roll back, verify",
            ),
            RoomCommand::alone::<VerifyProofArgs>(
                "verify-proof",
                "Check a proof against a root: prints UNSPENT or SPENT, or REFUSED (exit code 1); \
                 needs no data folder",
            ),
        ]
    }

    fn figures(&self, engine: &Engine) -> Option<Value> {
        let status = reader(engine)?.status().ok()?;
        serde_json::to_value(FiguresJson::new(&status)).ok()
    }

    fn plotted(&self, figures: &Value) -> Vec<(&'static str, Value)> {
        status::plotted(figures)
    }

    fn routes(&self) -> OpenApiRouter<App> {
        // Everybody can see the chain.
        let routes = OpenApiRouter::new()
            .routes(routes!(coins::address_utxos))
            .routes(routes!(coins::address_balance))
            .routes(routes!(coins::credential_utxos))
            .routes(routes!(coins::credential_balance))
            .routes(routes!(coins::utxo))
            .routes(routes!(lookups::utxos))
            .routes(routes!(lookups::addresses))
            .routes(routes!(blocks::blocks))
            .routes(routes!(blocks::tip))
            .routes(routes!(blocks::one))
            .routes(routes!(block_detail::block_detail))
            .routes(routes!(blocks::deltas))
            .routes(routes!(roots::root))
            .routes(routes!(roots::proof));
        narrow::shared(routes)
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
        error::classify(cause)
    }
}
