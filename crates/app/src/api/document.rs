//! The description of the interface, completed: what a validator or a generator of clients needs
//! and the handlers don't say one by one.
//!
//! OpenAPI demands a description of every answer and an id of its own for every operation; handlers
//! of different nouns share short names such as `list`.

use utoipa::openapi::{OpenApi, RefOr, path::Operation};

/// Gives every operation an id made of its method and path, and every answer a description.
pub(super) fn complete(document: &mut OpenApi, base: &str) {
    for (path, item) in &mut document.paths.paths {
        let words = path.strip_prefix(base).unwrap_or(path).replace(['{', '}'], "");
        let words = words.trim_matches('/').replace(['/', '-', '.'], "_");
        let methods = [
            ("get", &mut item.get),
            ("put", &mut item.put),
            ("post", &mut item.post),
            ("delete", &mut item.delete),
            ("patch", &mut item.patch),
        ];
        for (method, operation) in methods {
            if let Some(operation) = operation {
                operation.operation_id = Some(format!("{method}_{words}"));
                describe(operation);
            }
        }
    }
}

/// What an operation does is what its answer shows.
fn describe(operation: &mut Operation) {
    let summary = operation.summary.clone().unwrap_or_else(|| "Done".into());
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            response.description.clone_from(&summary);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::api::description;

    #[test]
    fn every_operation_has_an_id_of_its_own_and_every_answer_a_description() {
        let document = serde_json::to_value(description().1).unwrap();
        let mut ids = BTreeSet::new();
        for item in document["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                let id = operation["operationId"].as_str().unwrap().to_owned();
                assert!(ids.insert(id.clone()), "{id} is there twice");
                for answer in operation["responses"].as_object().unwrap().values() {
                    assert!(!answer["description"].as_str().unwrap().is_empty(), "{operation}");
                }
            }
        }
        assert!(ids.len() > 40, "only {} operations", ids.len());
    }
}
