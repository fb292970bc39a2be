//! The description of the interface, completed: what a validator or a generator of clients needs
//! and the handlers don't say one by one.
//!
//! | what | why |
//! |---|---|
//! | every answer has a description | OpenAPI demands it |
//! | schemas lose the `Json` of their types | they become the names of classes |
//! | schemas are plain (`flatten`) | so are the classes made of them |
//! | one schema for each kind of event | `body` is another for each, and `kind` tells which |

use serde_json::{Map, Value, json};
use unspent_engine::events::{self, kind::KindShape};
use utoipa::openapi::{OpenApi, RefOr, schema::Schema};

use super::flatten::flatten;
use crate::room::Rooms;

/// Where schemas are in the document.
pub(super) const SCHEMAS: &str = "#/components/schemas/";
/// The schema that stands for all kinds of events.
const EVENT: &str = "Event";
/// How types that are answers end.
const SUFFIX: &str = "Json";

/// The document as it is served.
pub(super) fn completed(rooms: Rooms, document: OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_else(|error| {
        tracing::error!(%error, "can't describe the interface");
        Value::Null
    });
    if let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) {
        let items = paths.values_mut().filter_map(Value::as_object_mut);
        items.flat_map(|item| item.values_mut()).for_each(describe);
    }
    let schemas = document.pointer_mut("/components/schemas");
    if let Some(schemas) = schemas.and_then(Value::as_object_mut) {
        describe_events(rooms, schemas);
    }
    flatten(&mut document);
    rename(document)
}

/// What an operation does is what its answer shows.
fn describe(operation: &mut Value) {
    let summary = operation.get("summary").and_then(Value::as_str).unwrap_or("Done").to_owned();
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else {
        return;
    };
    for response in responses.values_mut().filter_map(Value::as_object_mut) {
        let described = response.get("description").and_then(Value::as_str);
        if described.is_none_or(str::is_empty) {
            response.insert("description".into(), summary.clone().into());
        }
    }
}

/// Puts one schema for each kind of event in the place of the one that has any body.
fn describe_events(rooms: Rooms, schemas: &mut Map<String, Value>) {
    let Some(common) = schemas.remove(EVENT) else { return };
    let (mut refs, mut mapping) = (Vec::new(), Map::new());
    for kind in events::kinds(&rooms.shapes()) {
        let mut parts = vec![((kind.body_name)().into_owned(), (kind.body)())];
        (kind.parts)(&mut parts);
        for (name, part) in parts {
            schemas.entry(name).or_insert_with(|| as_value(&part));
        }
        let name = format!("{}{EVENT}", camel(kind.name));
        let reference = format!("{SCHEMAS}{name}");
        refs.push(json!({ "$ref": reference }));
        mapping.insert(kind.name.to_owned(), reference.into());
        schemas.insert(name, event_schema(&common, &kind));
    }
    let union = json!({
        "description": "Something that happened; `kind` says what, and what `body` holds.",
        "oneOf": refs,
        "discriminator": { "propertyName": "kind", "mapping": mapping },
    });
    schemas.insert(EVENT.to_owned(), union);
}

/// The schema of all events, narrowed to one kind.
fn event_schema(common: &Value, kind: &KindShape) -> Value {
    let mut schema = common.clone();
    put(&mut schema, "description", kind.about.trim().into());
    if let Some(properties) = schema.get_mut("properties") {
        put(properties, "kind", json!({ "type": "string", "enum": [kind.name] }));
        put(properties, "room", json!({ "type": "string", "enum": [kind.room] }));
        let body = format!("{SCHEMAS}{}", (kind.body_name)());
        put(properties, "body", json!({ "$ref": body }));
    }
    schema
}

/// Sets a field of an object.
pub(super) fn put(object: &mut Value, field: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
}

/// Puts the schemas back where they belong.
pub(super) fn put_schemas(document: &mut Value, schemas: Map<String, Value>) {
    if let Some(components) = document.get_mut("components") {
        put(components, "schemas", schemas.into());
    }
}

fn as_value(schema: &RefOr<Schema>) -> Value {
    serde_json::to_value(schema).unwrap_or_default()
}

/// `block_applied` as `BlockApplied`.
pub(super) fn camel(word: &str) -> String {
    let parts = word.split('_').map(|part| {
        let (first, rest) = part.split_at(part.len().min(1));
        first.to_uppercase() + rest
    });
    parts.collect()
}

/// Takes the `Json` off the names of schemas, except where that name is taken.
fn rename(mut document: Value) -> Value {
    let Some(schemas) = document.pointer_mut("/components/schemas").map(Value::take) else {
        return document;
    };
    let Value::Object(schemas) = schemas else { return document };
    let short = |name: &str| match name.strip_suffix(SUFFIX) {
        Some(short) if !schemas.contains_key(short) => short.to_owned(),
        Some(_) | None => name.to_owned(),
    };
    point_to(&mut document, &short);
    let renamed: Map<String, Value> = schemas
        .iter()
        .map(|(name, schema)| {
            let mut schema = schema.clone();
            point_to(&mut schema, &short);
            (short(name), schema)
        })
        .collect();
    put_schemas(&mut document, renamed);
    document
}

/// Gives every reference to a schema its new name.
fn point_to(value: &mut Value, name: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => {
            if let Some(old) = text.strip_prefix(SCHEMAS) {
                *text = format!("{SCHEMAS}{}", name(old));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| point_to(item, name)),
        Value::Object(fields) => fields.values_mut().for_each(|field| point_to(field, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
