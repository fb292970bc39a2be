//! The txstore room in numbers.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::Value;
use unspent_engine::Engine;
use unspent_model::{Network, txstore::DeletionWindows};
use unspent_server::{
    api::{
        error::{ApiError, Failures},
        extract::{May, Read},
        figures::{sum_of_bytes, value_at},
        state::App,
    },
    error::Outcome,
    json::PointJson,
    output::{Output, facts},
    text,
};
use unspent_txstore::{StoreStatus, TxStore};
use utoipa::ToSchema;

use crate::{KeptCounts, figures as measured};

use super::NAME;

/// The transaction store in numbers.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoreFiguresJson {
    network: &'static str,
    tip: Option<PointJson>,
    /// The height that deletions are judged by
    height: Option<u64>,
    /// No block at or below it can be undone
    horizon: u64,
    windows: WindowsJson,
    records: u64,
    unmined: u64,
    backlog: BacklogJson,
    deleted: u64,
    losers_deleted: u64,
    dropped: u64,
    repaired: u64,
    /// Inputs of blocks whose parents were not in the store
    absent_inputs: u64,
    /// How often the cleaner kept a due record since the daemon's start, by reason
    kept: BTreeMap<&'static str, u64>,
    sizes: Vec<StoreSizeJson>,
}

/// Records that are on their way out, by what they wait for.
#[derive(Serialize, ToSchema)]
pub(crate) struct BacklogJson {
    /// Those whose height has come, and that no cleaner has looked at since
    due: u64,
    /// The lowest height among these
    oldest_due: Option<u64>,
    /// Those that wait for a later height
    later: u64,
    /// Those with an unmined child
    child_unmined: u64,
    /// Those with a child that isn't in the store and, as far as is known, never was
    child_unknown: u64,
}

/// The windows, in blocks.
#[derive(Serialize, ToSchema)]
pub(crate) struct WindowsJson {
    retention: u64,
    safety: u64,
    rollback: u64,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct StoreSizeJson {
    name: &'static str,
    bytes: u64,
}

impl StoreFiguresJson {
    fn new(
        network: Network,
        windows: DeletionWindows,
        status: &StoreStatus,
        kept: &KeptCounts,
    ) -> Self {
        Self {
            network: network.name(),
            tip: status.tip.map(|tip| PointJson::new(network, &tip)),
            height: status.height,
            horizon: status.horizon,
            windows: WindowsJson {
                retention: windows.retention.0,
                safety: windows.safety,
                rollback: windows.rollback,
            },
            records: status.records,
            unmined: status.unmined,
            backlog: BacklogJson {
                due: status.due_backlog,
                oldest_due: status.oldest_due,
                later: status.queued,
                child_unmined: status.kept_by_unmined_child,
                child_unknown: status.kept_by_unknown_child,
            },
            deleted: status.deleted,
            losers_deleted: status.losers_deleted,
            dropped: status.dropped,
            repaired: status.repaired,
            absent_inputs: status.absent_inputs,
            kept: kept.iter().map(|(reason, count)| (reason.name(), *count)).collect(),
            sizes: vec![StoreSizeJson { name: "database", bytes: status.bytes }],
        }
    }

    fn of(engine: &Engine) -> Option<Self> {
        let (status, kept) = measured(engine)?;
        let store = crate::store(engine)?;
        Some(Self::new(store.network(), store.windows(), &status, &kept))
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let number = |number: u64| text::grouped(u128::from(number));
        let BacklogJson { due, oldest_due, later, child_unmined, child_unknown } = &self.backlog;
        let WindowsJson { retention, safety, rollback } = &self.windows;
        let since = oldest_due.map_or(String::new(), |height| format!(", since height {height}"));
        vec![
            ("network", self.network.to_owned()),
            ("tip", self.tip.as_ref().map_or("origin".into(), text::point)),
            ("can undo down to", number(self.horizon)),
            ("retention, safety, rollback", format!("{retention}, {safety}, {rollback} blocks")),
            ("transactions", number(self.records)),
            ("unmined", number(self.unmined)),
            ("due", format!("{}{since}", number(*due))),
            ("due later", number(*later)),
            ("kept by an unmined child", number(*child_unmined)),
            ("kept by an unknown child", number(*child_unknown)),
            ("deleted", number(self.deleted)),
            ("conflict losers deleted", number(self.losers_deleted)),
            ("dropped by hand", number(self.dropped)),
            ("outputs repaired", number(self.repaired)),
            ("absent inputs", number(self.absent_inputs)),
            ("size", text::bytes(self.sizes.iter().map(|size| size.bytes).sum())),
        ]
    }
}

pub(super) fn figures(engine: &Engine) -> Option<Value> {
    serde_json::to_value(StoreFiguresJson::of(engine)?).ok()
}

pub(super) fn plotted(figures: &Value) -> Vec<(&'static str, Value)> {
    vec![
        ("txstore_bytes", sum_of_bytes(figures, "/sizes")),
        ("transactions", value_at(figures, "/records")),
        ("transactions_due", value_at(figures, "/backlog/due")),
    ]
}

/// The transaction store in numbers
#[utoipa::path(get, path = "/transactions", operation_id = "get_transactions_status",
    tag = "txstore",
    responses((status = 200, body = StoreFiguresJson), Failures))]
pub(super) async fn status(
    _: May<Read>,
    State(app): State<App>,
) -> Result<Json<StoreFiguresJson>, ApiError> {
    let engine = app.engine.clone();
    let work = move || StoreFiguresJson::of(&engine).ok_or_else(|| ApiError::room_off(NAME));
    Ok(Json(app.pool.run(work).await?))
}

pub(super) fn print(store: &TxStore, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let status = store.status()?;
    // Only the daemon counts verdicts, from its start on: a command has seen none.
    let none = KeptCounts::new();
    let shown = StoreFiguresJson::new(store.network(), store.windows(), &status, &none);
    output.answer(&shown, || facts(&shown.rows()))?;
    Ok(Outcome::Done)
}
