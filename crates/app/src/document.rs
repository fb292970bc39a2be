//! The description of the interface, with every room's routes and events.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use unspent_engine::events::{self, kind::KindShape};
use unspent_server::api;

use crate::{ROOMS, backup};

/// Where schemas are in the document.
const SCHEMAS: &str = "#/components/schemas/";

fn description(is_simulated: bool) -> Value {
    api::description(ROOMS, backup::routes(&backup::Backups::default()), is_simulated).1
}

fn document() -> Value {
    description(true)
}

#[test]
fn every_operation_has_an_id_of_its_own_and_every_answer_a_description() {
    let document = document();
    let mut ids = BTreeSet::new();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(ids.insert(id.clone()), "{id} appears twice: set `operation_id = …`");
            for answer in operation["responses"].as_object().unwrap().values() {
                assert!(!answer["description"].as_str().unwrap().is_empty(), "{operation}");
            }
        }
    }
    assert!(ids.len() > 90, "only {} operations", ids.len());
}

#[test]
fn every_kind_of_event_is_described_with_its_body() {
    let schemas = &document()["components"]["schemas"];
    let mapping = schemas["Event"]["discriminator"]["mapping"].as_object().unwrap();
    for kind in events::kinds(&ROOMS.shapes()) {
        let name = mapping[kind.name].as_str().unwrap().strip_prefix(SCHEMAS).unwrap();
        let schema = &schemas[name];
        assert_eq!(schema["properties"]["kind"]["enum"], json!([kind.name]));
        let body = schema["properties"]["body"]["$ref"].as_str().unwrap();
        let body = &schemas[body.strip_prefix(SCHEMAS).unwrap()];
        assert_eq!(body["type"], "object", "{name}: {body}");
        assert!(!schema["description"].as_str().unwrap().is_empty(), "{name}");
    }
    assert_eq!(
        mapping.len(),
        events::kinds(&ROOMS.shapes()).count(),
        "two rooms use the same event kind"
    );
}

#[test]
fn the_page_about_the_interface_names_every_kind_of_event() {
    let page = include_str!("../../../docs/api.md");
    // The example room is plugged into tests alone.
    let is_ours = |kind: &KindShape| kind.room != "counting";
    for KindShape { name, room, .. } in events::kinds(&ROOMS.shapes()).filter(is_ours) {
        assert!(page.contains(&format!("\n| `{name}` | {room} |")), "{name} of {room}");
    }
}

#[test]
fn only_a_daemon_on_the_simulated_network_describes_its_routes() {
    let has = |document: &Value| document["paths"].get("/api/v1/sim/mine").is_some();
    assert!(has(&document()) && !has(&description(false)));
}
