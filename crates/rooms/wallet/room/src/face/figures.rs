//! The wallet room in numbers.

use serde::Serialize;
use serde_json::Value;
use unspent_engine::{Engine, clock};
use unspent_server::api::figures::{sum_of_bytes, value_at};
use unspent_wallet::metrics::WalletMetrics;

use crate::wallets;

#[derive(Serialize)]
struct TableJson {
    name: &'static str,
    rows: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct WalletFiguresJson {
    tables: Vec<TableJson>,
    active_leases: u64,
    expired_leases: u64,
    /// How long the oldest expired lease has been waiting.
    purge_latency_seconds: f64,
}

impl From<WalletMetrics> for WalletFiguresJson {
    #[allow(clippy::cast_precision_loss)]
    fn from(found: WalletMetrics) -> Self {
        let tables = found.tables.iter().map(|table| TableJson {
            name: table.name,
            rows: table.rows,
            bytes: table.bytes,
        });
        Self {
            tables: tables.collect(),
            active_leases: found.active_leases,
            expired_leases: found.expired_leases,
            purge_latency_seconds: found.purge_latency as f64 / 1e6,
        }
    }
}

pub(super) fn figures(engine: &Engine) -> Option<Value> {
    let found = wallets(engine)?.metrics(clock::now()).ok()?;
    serde_json::to_value(WalletFiguresJson::from(found)).ok()
}

pub(super) fn plotted(figures: &Value) -> Vec<(&'static str, Value)> {
    vec![
        ("wallet_bytes", sum_of_bytes(figures, "/tables")),
        ("active_leases", value_at(figures, "/active_leases")),
    ]
}
