//! Schemas as generators of clients like them.
//!
//! What types say with `flatten`, as newtypes and as enums comes out as `allOf` of references,
//! references to plain texts and `oneOf` of nameless objects. Generated classes are better when an
//! object has all its fields, a plain text is one, and each variant has a name.

use serde_json::{Map, Value, json};

use super::document::{SCHEMAS, camel, put, put_schemas};

/// Schemas by name.
pub(super) type Schemas = Map<String, Value>;

/// Makes the schemas of a document plain.
pub(super) fn flatten(document: &mut Value) {
    let Some(found) = document.pointer_mut("/components/schemas").map(Value::take) else { return };
    let Value::Object(mut schemas) = found else { return };
    let before = schemas.clone();
    settle(document, &before);
    for schema in schemas.values_mut() {
        settle(schema, &before);
    }
    name_variants(&mut schemas);
    keep_used(document, &mut schemas);
    put_schemas(document, schemas);
}

/// Settles a schema and what is in it, from the inside out.
fn settle(value: &mut Value, schemas: &Schemas) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| settle(item, schemas)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| settle(field, schemas));
            if let Some(better) = plain(fields, schemas)
                .or_else(|| with_default(fields, schemas))
                .or_else(|| nullable(fields))
                .or_else(|| all_fields(fields, schemas))
            {
                *value = better;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn target<'a>(schema: &Value, schemas: &'a Schemas) -> Option<&'a Value> {
    schemas.get(schema.get("$ref")?.as_str()?.strip_prefix(SCHEMAS)?)
}

/// A text or a number, whose only name is a type of ours.
fn is_plain(schema: &Value) -> bool {
    let kind = schema.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind != "object" && kind != "array") && schema.get("enum").is_none()
}

/// A reference to a plain schema becomes that schema; what stands beside it counts more.
fn plain(fields: &Map<String, Value>, schemas: &Schemas) -> Option<Value> {
    let found = target(&Value::Object(fields.clone()), schemas).filter(|found| is_plain(found))?;
    let mut made = found.as_object()?.clone();
    made.extend(
        fields.iter().filter(|(key, _)| *key != "$ref").map(|(k, v)| (k.clone(), v.clone())),
    );
    Some(made.into())
}

/// `allOf` an enum and its default becomes that enum with the default.
fn with_default(fields: &Map<String, Value>, schemas: &Schemas) -> Option<Value> {
    let [reference, beside] = fields.get("allOf")?.as_array()?.as_slice() else { return None };
    let found = target(reference, schemas).unwrap_or(reference);
    found.get("enum")?;
    let mut made = found.as_object()?.clone();
    let beside = beside.as_object()?.iter().filter(|(key, _)| *key != "type");
    made.extend(beside.map(|(key, value)| (key.clone(), value.clone())));
    Some(made.into())
}

/// `oneOf` a plain schema and null becomes that schema, or null.
fn nullable(fields: &Map<String, Value>) -> Option<Value> {
    let [one, null] = fields.get("oneOf")?.as_array()?.as_slice() else { return None };
    if null.get("type")? != "null" || !is_plain(one) {
        return None;
    }
    let mut made = one.as_object()?.clone();
    let beside = fields.iter().filter(|(key, _)| *key != "oneOf");
    made.extend(beside.map(|(key, value)| (key.clone(), value.clone())));
    made.insert("type".into(), json!([one.get("type")?, "null"]));
    Some(made.into())
}

/// `allOf` objects becomes one object with all their fields.
fn all_fields(fields: &Map<String, Value>, schemas: &Schemas) -> Option<Value> {
    fields.get("allOf")?;
    let mut made = object(&Value::Object(fields.clone()), schemas)?;
    // Fields may hold what has to be settled too.
    settle(&mut made, schemas);
    Some(made)
}

/// The schema as one object; `None` when a part of it is none.
fn object(schema: &Value, schemas: &Schemas) -> Option<Value> {
    if let Some(found) = target(schema, schemas) {
        return object(found, schemas);
    }
    let mut made = if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        let parts = parts.iter().map(|part| object(part, schemas)).collect::<Option<Vec<_>>>()?;
        parts.iter().fold(json!({ "type": "object" }), joined)
    } else if let Some(variants) = schema.get("oneOf").and_then(Value::as_array) {
        let variants = variants.iter().map(|one| object(one, schemas));
        any_of(&variants.collect::<Option<Vec<_>>>()?)
    } else {
        return (schema.get("type")? == "object").then(|| schema.clone());
    };
    if let Some(text) = schema.get("description") {
        put(&mut made, "description", text.clone());
    }
    Some(made)
}

fn texts(schema: &Value, key: &str) -> Vec<Value> {
    schema.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn properties(schema: &Value) -> Map<String, Value> {
    schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Both objects in one. A part that names no field may have any.
fn joined(mut all: Value, part: &Value) -> Value {
    let (mut fields, mut required) = (properties(&all), texts(&all, "required"));
    if part.get("properties").is_none() {
        put(&mut all, "additionalProperties", true.into());
    }
    fields.extend(properties(part));
    required.extend(texts(part, "required"));
    put(&mut all, "properties", fields.into());
    if !required.is_empty() {
        put(&mut all, "required", required.into());
    }
    all
}

/// One of several objects: all their fields, of which those of every variant are required.
fn any_of(variants: &[Value]) -> Value {
    let mut fields = Map::new();
    for (name, field) in variants.iter().flat_map(properties) {
        match fields.get_mut(&name) {
            Some(known) => known_too(known, &field),
            None => {
                fields.insert(name, field);
            }
        }
    }
    let first = variants.first().map(|first| texts(first, "required")).unwrap_or_default();
    let in_all = |name: &Value| variants.iter().all(|one| texts(one, "required").contains(name));
    let required: Vec<Value> = first.into_iter().filter(in_all).collect();
    json!({ "type": "object", "properties": fields, "required": required })
}

/// A field that another variant has too may have the values of both.
fn known_too(known: &mut Value, other: &Value) {
    let more = texts(other, "enum");
    if let Some(values) = known.get_mut("enum").and_then(Value::as_array_mut) {
        values.extend(more);
    }
}

/// The field that says which variant it is, with its value.
fn tag(variant: &Value) -> Option<(String, String)> {
    let required = texts(variant, "required");
    properties(variant).iter().find_map(|(name, field)| {
        let values = texts(field, "enum");
        let [only] = values.as_slice() else { return None };
        let is_required = required.iter().any(|required| required == name);
        is_required.then(|| Some((name.clone(), only.as_str()?.to_owned())))?
    })
}

/// Gives the variants of tagged enums names, and says which field tells them apart.
fn name_variants(schemas: &mut Schemas) {
    for name in schemas.keys().cloned().collect::<Vec<_>>() {
        let Some(schema) = schemas.get(&name) else { continue };
        let variants = texts(schema, "oneOf");
        let tags: Option<Vec<_>> = variants.iter().map(tag).collect();
        let Some(tags) = tags.filter(|tags| tags.len() > 1) else { continue };
        let (mut refs, mut mapping) = (Vec::new(), Map::new());
        for ((_, value), variant) in tags.iter().zip(variants) {
            let variant_name = format!("{}{name}", camel(value));
            let reference = format!("{SCHEMAS}{variant_name}");
            refs.push(json!({ "$ref": reference }));
            mapping.insert(value.clone(), reference.into());
            schemas.insert(variant_name, variant);
        }
        let property = tags.first().map(|(property, _)| property.clone());
        if let Some(schema) = schemas.get_mut(&name) {
            put(schema, "oneOf", refs.into());
            let told_by = json!({ "propertyName": property, "mapping": mapping });
            put(schema, "discriminator", told_by);
        }
    }
}

/// Drops the schemas that nobody refers to any more.
fn keep_used(document: &Value, schemas: &mut Schemas) {
    let mut used = Vec::new();
    references(document, &mut used);
    let mut looked = 0;
    while let Some(name) = used.get(looked).cloned() {
        looked += 1;
        if let Some(schema) = schemas.get(&name) {
            references(schema, &mut used);
        }
    }
    schemas.retain(|name, _| used.contains(name));
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            if let Some(name) = text.strip_prefix(SCHEMAS)
                && !found.iter().any(|known| known == name)
            {
                found.push(name.to_owned());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| references(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
