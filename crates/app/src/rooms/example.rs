//! The example room as users would meet it: a section, a route, figures. In tests alone; the room
//! itself is the crate `unspent-example-room`, and the line in `crate::ROOMS` is
//! all that plugs this file in.

use std::{error::Error, sync::Arc};

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use unspent_engine::{
    Engine,
    room::{Room, RoomShape},
};
use unspent_example_room::{self as counting, CountingRoom};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{AppRoom, Classified};
use crate::{
    api::{
        May, Read,
        error::{ApiError, Failures},
        search::{Matches, SearchText},
        state::App,
        timeline::Timeline,
    },
    config::{
        self, Config, DeclaredKey, GivenFlag, RoomSection, Section as _, SectionReader,
        SettingSources, section,
    },
    serve::{Daemon, build},
};

section! {
    /// The example room.
    pub(crate) struct CountingSection in "counting" {
        /// Whether blocks and payments are counted
        enabled: bool = false;
    }
}

/// The example room, as the table of rooms knows it.
pub(crate) struct CountingEntry;

impl AppRoom for CountingEntry {
    fn shape(&self) -> &'static RoomShape {
        &counting::SHAPE
    }

    fn section(&self) -> &'static str {
        CountingSection::NAME
    }

    fn template(&self) -> String {
        CountingSection::template()
    }

    fn keys(&self) -> Vec<DeclaredKey> {
        CountingSection::keys()
    }

    fn read(&self, from: &mut SectionReader<'_>) -> anyhow::Result<Arc<dyn RoomSection>> {
        Ok(Arc::new(from.section::<CountingSection>()?))
    }

    fn check(&self, _: &Config) -> anyhow::Result<()> {
        Ok(())
    }

    fn is_on(&self, config: &Config) -> anyhow::Result<bool> {
        Ok(config.room::<CountingSection>()?.enabled)
    }

    fn engine_room(&self, config: &Config) -> anyhow::Result<Option<Arc<dyn Room>>> {
        let room = || Arc::new(CountingRoom::new(&config.data_dir)) as Arc<dyn Room>;
        Ok(self.is_on(config)?.then(room))
    }

    fn figures(&self, engine: &Engine) -> Option<Value> {
        let (blocks, payments) = counting::figures(engine)?;
        Some(json!({ "blocks": blocks, "payments": payments }))
    }

    fn plotted(&self, figures: &Value) -> Vec<(&'static str, Value)> {
        vec![("payments", crate::api::figures::value_at(figures, "/payments"))]
    }

    fn routes(&self) -> OpenApiRouter<App> {
        OpenApiRouter::new().routes(routes!(counts))
    }

    fn search(&self, _: &Engine, _: &SearchText, _: &mut Matches) -> Result<(), ApiError> {
        Ok(())
    }

    fn timeline(&self, _: &Engine, _: &mut Timeline) -> Result<(), ApiError> {
        Ok(())
    }

    fn classify(&self, _: &(dyn Error + 'static)) -> Option<Classified> {
        None
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
        let counted = counting::figures(&engine);
        counted.ok_or_else(|| ApiError::room_off(counting::NAME.name()))
    });
    let (blocks, payments) = found.await?;
    Ok(Json(CountsJson { blocks, payments }))
}

fn get(url: &str, cookie: &str) -> Value {
    let mut answer = ureq::get(url)
        .header("authorization", &format!("Bearer {cookie}"))
        .call()
        .expect("the daemon answers");
    answer.body_mut().read_json().expect("the answer is JSON")
}

#[test]
fn a_room_is_served_by_its_folder_and_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path().display().to_string();
    let over = [
        ("data_dir", data_dir.as_str()),
        ("counting.enabled", "true"),
        ("source.sim.blocks", "20"),
        ("source.sim.block_seconds", "0"),
        ("http.listen", "127.0.0.1:0"),
    ];
    let flags = over.map(|(key, value)| GivenFlag::new(key, "--set", value)).into();
    let sources = SettingSources { flags, ..SettingSources::default() };
    let config = config::load(crate::ROOMS, &sources).expect("a configuration");
    let daemon = Daemon::new(config.clone()).expect("a daemon");
    let url = daemon.url().to_owned();
    let engine = daemon.start(build::origin(&config).expect("a source")).expect("an engine");
    let end = Arc::new(Notify::new());
    let (ended, served) = (end.clone(), engine.clone());
    let server = std::thread::spawn(move || daemon.serve(served, ended, |_| Ok(())));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while counting::figures(&engine) != Some((21, 0)) {
        assert!(std::time::Instant::now() < until, "{:?}", engine.status());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    while !folder.path().join(".cookie").exists() {
        assert!(std::time::Instant::now() < until, "the cookie is never written");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let cookie = std::fs::read_to_string(folder.path().join(".cookie")).expect("a cookie");
    let api = format!("{url}/api/v1");
    assert_eq!(get(&format!("{api}/counting"), cookie.trim())["blocks"], 21);
    // Figures are kept for a moment.
    let mut status = get(&format!("{api}/status"), cookie.trim());
    while status["counting"]["blocks"] != 21 {
        assert!(std::time::Instant::now() < until, "{status}");
        std::thread::sleep(std::time::Duration::from_millis(100));
        status = get(&format!("{api}/status"), cookie.trim());
    }
    let rooms = status["rooms"].as_array().expect("rooms");
    assert!(rooms.iter().any(|room| room["room"] == "counting"), "{status}");
    let document = get(&format!("{api}/openapi.json"), cookie.trim());
    assert!(document["paths"]["/api/v1/counting"].is_object(), "it is described");
    end.notify_one();
    server.join().expect("the server ends").expect("the server ends well");
    engine.shutdown();
}
