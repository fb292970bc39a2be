//! The example room as users meet it: a section, a route, figures.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::{Value, json};
use unspent_engine::{
    Engine,
    room::{Room, RoomShape},
};
use unspent_server::{
    api::{
        May, Read,
        error::{ApiError, Failures},
        state::App,
    },
    config::{Config, SectionShape, section},
    room::RoomFace,
};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::CountingRoom;

section! {
    /// The example room.
    pub(crate) struct CountingSection in "counting" {
        /// Whether blocks and payments are counted
        enabled: bool = false;
    }
}

/// The example room, as the table of rooms knows it.
pub struct CountingFace;

impl RoomFace for CountingFace {
    fn shape(&self) -> &'static RoomShape {
        &crate::SHAPE
    }

    fn settings(&self) -> SectionShape {
        SectionShape::of::<CountingSection>()
    }

    fn is_on(&self, config: &Config) -> anyhow::Result<bool> {
        Ok(config.room::<CountingSection>()?.enabled)
    }

    fn engine_room(&self, config: &Config) -> anyhow::Result<Arc<dyn Room>> {
        Ok(Arc::new(CountingRoom::new(&config.data_dir)))
    }

    fn figures(&self, engine: &Engine) -> Option<Value> {
        let (blocks, payments) = crate::figures(engine)?;
        Some(json!({ "blocks": blocks, "payments": payments }))
    }

    fn plotted(&self, figures: &Value) -> Vec<(&'static str, Value)> {
        vec![("payments", unspent_server::api::figures::value_at(figures, "/payments"))]
    }

    fn routes(&self) -> OpenApiRouter<App> {
        OpenApiRouter::new().routes(routes!(counts))
    }
}

/// What was counted.
#[derive(Serialize, ToSchema)]
struct CountsJson {
    blocks: i64,
    payments: i64,
}

/// Blocks and payments counted
#[utoipa::path(get, path = "/counting", operation_id = "get_counts", tag = "example",
    responses((status = 200, body = CountsJson), Failures))]
async fn counts(_: May<Read>, State(app): State<App>) -> Result<Json<CountsJson>, ApiError> {
    let engine = app.engine.clone();
    let found = app.pool.run(move || {
        let counted = crate::figures(&engine);
        counted.ok_or_else(|| ApiError::room_off(crate::NAME.name()))
    });
    let (blocks, payments) = found.await?;
    Ok(Json(CountsJson { blocks, payments }))
}
