//! Events of a whole story, each against the schema of its kind.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    daemon::{Client, Daemon},
    world::{self, SEED_SETTING, address, funded, signed},
};

const SCHEMAS: &str = "#/components/schemas/";

/// What is wrong with a value, by the schemas of a document. Fields that no schema names are wrong.
fn wrong(document: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let target = &document["components"]["schemas"][name.strip_prefix(SCHEMAS).unwrap()];
        assert!(target.is_object(), "{name} is nowhere");
        return wrong(document, target, value, at);
    }
    if let Some(variants) = schema["oneOf"].as_array() {
        let misses = variants.iter().map(|one| wrong(document, one, value, at));
        let misses: Vec<String> = misses.flatten().collect();
        return (misses.len() + 1 != variants.len()).then(|| format!("{at}: {misses:?}"));
    }
    if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
        return Some(format!("{at}: {value} is none of {}", schema["enum"]));
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() || number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let types = schema["type"].as_array().cloned().unwrap_or(vec![schema["type"].clone()]);
    if !types.contains(&json!(kind)) {
        return Some(format!("{at}: {value} is no {}", schema["type"]));
    }
    let fields = value.as_object()?;
    let required = schema["required"].as_array().into_iter().flatten();
    let mut missing = required.filter(|name| !fields.contains_key(name.as_str().unwrap()));
    if let Some(name) = missing.next() {
        return Some(format!("{at}: {name} is missing"));
    }
    fields.iter().find_map(|(name, field)| {
        let at = format!("{at}/{name}");
        match (schema["properties"].get(name), &schema["additionalProperties"]) {
            (Some(known), _) => wrong(document, known, field, &at),
            (None, Value::Object(any)) => wrong(document, &any.clone().into(), field, &at),
            (None, _) => Some(format!("{at} is not described")),
        }
    })
}

/// Pays, replaces the payment, mines, and lets the chain change its mind.
fn story(daemon: &Daemon) {
    let client = daemon.admin();
    let paid = json!({ "outputs": [{ "address": address(7), "value": "20000" }] });
    let unsigned = client.keyed("/api/v1/wallets/alice/pay", "one", &paid).ok();
    let finalize = |key: &str, unsigned: &Value| {
        let psbt = signed(unsigned["psbt"].as_str().unwrap());
        let lock = &unsigned["lock"];
        let body = json!({ "signed": psbt, "lock": lock, "broadcast": true });
        client.keyed("/api/v1/wallets/alice/finalize", key, &body).ok()
    };
    let sent = finalize("two", &unsigned);
    let bump = json!({ "txid": sent["txid"], "policy": { "fee_rate": 20 } });
    let unsigned = client.keyed("/api/v1/wallets/alice/bump", "three", &bump).ok();
    finalize("four", &unsigned);
    client.post("/api/v1/sim/mine", &json!({ "blocks": 1 })).ok();
    seen(daemon, "confirmed", 3);
    client.post("/api/v1/sim/reorganise", &json!({ "depth": 2 })).ok();
    seen(daemon, "reorganisation", 1);
    seen(daemon, "disconnected", 1);
    let run = client.post("/api/v1/jobs/prune_chain/run", &json!({}));
    assert_eq!(run.status, 202, "{}", run.text);
    client.post("/api/v1/sim/mine", &json!({ "blocks": 150 })).ok();
    seen(daemon, "job_done", 1);
}

fn events(client: &Client, query: &str) -> Vec<Value> {
    let page = client.get(&format!("/api/v1/events?limit=500{query}")).ok();
    page["events"].as_array().unwrap().clone()
}

fn seen(daemon: &Daemon, kind: &str, count: usize) {
    daemon.wait_for(&format!("{count} events {kind}"), |client| {
        events(client, &format!("&kind={kind}")).len() >= count
    });
}

#[test]
fn every_event_of_a_story_is_as_its_kind_is_described() {
    let folder = funded();
    let rooms = ["txstore.enabled=true", "utxo.store=mmr"];
    let daemon = folder.start(&[&[SEED_SETTING], &rooms[..]].concat());
    world::make_wallet(&daemon, "alice");
    story(&daemon);
    let client = daemon.admin();
    let document = client.get("/api/v1/openapi.json").ok();
    let mapping = &document["components"]["schemas"]["Event"]["discriminator"]["mapping"];
    let mut kinds = BTreeSet::new();
    for event in events(&client, "") {
        let kind = event["kind"].as_str().unwrap().to_owned();
        let schema = json!({ "$ref": mapping[&kind] });
        assert_eq!(wrong(&document, &schema, &event, &kind), None, "{event}");
        // Of all kinds, it is this one alone.
        let any = json!({ "$ref": format!("{SCHEMAS}Event") });
        assert_eq!(wrong(&document, &any, &event, &kind), None, "{event}");
        kinds.insert(kind);
    }
    for kind in ["block_applied", "reorganisation", "created", "mempool", "replaced", "confirmed"] {
        assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
    for kind in ["disconnected", "broadcast_accepted", "transactions_applied", "job_done"] {
        assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
}

#[test]
fn an_event_that_is_not_as_described_is_noticed() {
    let document = json!({ "components": { "schemas": { "Body": { "type": "object",
        "required": ["height"], "properties": { "height": { "type": ["integer", "null"] } } } } } });
    let schema = json!({ "$ref": format!("{SCHEMAS}Body") });
    let found = |value: Value| wrong(&document, &schema, &value, "").is_some();
    assert!(!found(json!({ "height": 7 })) && !found(json!({ "height": null })));
    assert!(found(json!({})) && found(json!({ "height": "7" })) && found(json!(7)));
    assert!(found(json!({ "height": 7, "more": 1 })));
}
