//! Every transition that the reference was seen to make, beside ours.

use serde_json::Value;
use unspent_model::ecash::{
    BIRTHS, DEPARTURES, EntityEffect, EntityEvent, EntityFacts, EntityKind, EntityState,
    EntityVariant, TransactionState, step,
};
use unspent_testkit::data;

/// What came of one cell.
#[derive(Debug, PartialEq, Eq)]
struct Cell {
    /// The new state and the versions raised; `None` for an error.
    outcome: Option<(EntityState, TransactionState, [i64; 3])>,
    is_repeat: bool,
    counter: bool,
}

fn kind(row: &Value) -> EntityKind {
    match row["entity"].as_str().unwrap() {
        "cashu_send_quotes" => EntityKind::CashuSendQuote,
        "cashu_send_swaps" => EntityKind::CashuSendSwap,
        "cashu_receive_quotes" => EntityKind::CashuReceiveQuote,
        "cashu_receive_swaps" => EntityKind::CashuReceiveSwap,
        "spark_send_quotes" => EntityKind::SparkSendQuote,
        "spark_receive_quotes" => EntityKind::SparkReceiveQuote,
        other => panic!("unknown entity {other}"),
    }
}

fn variant(row: &Value) -> EntityVariant {
    match (row["type"].as_str(), row["needs_swap"].as_bool()) {
        (Some("LIGHTNING"), _) => EntityVariant::Lightning,
        (Some("CASHU_TOKEN"), _) => EntityVariant::CashuToken,
        (None, Some(true)) => EntityVariant::NeedsSwap,
        (None, Some(false)) => EntityVariant::Exact,
        (None, None) => EntityVariant::Plain,
        other => panic!("unknown variant {other:?}"),
    }
}

fn event(row: &Value) -> EntityEvent {
    match row["op"].as_str().unwrap() {
        "fail_token_already_claimed" => EntityEvent::FailClaimed,
        other => other.parse().unwrap(),
    }
}

fn theirs(row: &Value) -> Cell {
    let state = |name: &str| row[name].as_str().unwrap();
    let number = |name: &str| row[name].as_i64().unwrap();
    let is_error = row["outcome"] == "error";
    let outcome = (!is_error).then(|| {
        let deltas = ["version_delta", "tx_version_delta", "account_version_delta"].map(number);
        (state("new_state").parse().unwrap(), state("tx_after").parse().unwrap(), deltas)
    });
    let counter = !is_error && number("counter_delta") != 0;
    Cell { outcome, is_repeat: row["outcome"] == "noop", counter }
}

/// The transaction of an entity in this state, as the reference had it there.
fn transaction(row: &Value, kind: EntityKind, state: EntityState) -> TransactionState {
    let birth = BIRTHS.iter().find(|birth| (birth.kind, birth.variant) == (kind, variant(row)));
    let begun = birth.unwrap().transaction;
    let stated = row["tx_before"].as_str().map(|name| name.parse().unwrap());
    let end = kind.is_terminal(state).then(|| unspent_model::ecash::transaction_at_end(state));
    stated.or(end.flatten()).unwrap_or(begun)
}

fn ours(row: &Value) -> Cell {
    let (kind, state) = (kind(row), row["state"].as_str().unwrap().parse().unwrap());
    let facts = EntityFacts {
        is_past_expiry: row["past_expiry"].as_bool().unwrap(),
        // The reference gives them with `mark_pending`, and a pending payment has them.
        has_spark_ids: row["op"] == "mark_pending",
        ..EntityFacts::of(variant(row))
    };
    let Ok(step) = step(kind, state, event(row), &facts) else {
        return Cell { outcome: None, is_repeat: false, counter: false };
    };
    let birth = BIRTHS.iter().find(|birth| (birth.kind, birth.variant) == (kind, facts.variant));
    let (tx_kind, way) = (birth.unwrap().transaction_kind, birth.unwrap().direction);
    let mut after = transaction(row, kind, state);
    let mut raised = [i64::from(!step.is_repeat), 0, 0];
    for effect in step.effects {
        match effect {
            EntityEffect::Transaction(on) => {
                after = after.after(*on, tx_kind, way).unwrap();
                raised[1] = 1;
            }
            EntityEffect::MarkMelt | EntityEffect::RaiseAlarm | EntityEffect::Partner(_) => {}
            _ => raised[2] = 1,
        }
    }
    let counter = step.effects.contains(&EntityEffect::TakeRange);
    Cell { outcome: Some((step.next, after, raised)), is_repeat: step.is_repeat, counter }
}

/// Which departure explains a cell that differs.
fn reason(row: &Value) -> Option<&'static str> {
    let (state, op) = (row["state"].as_str().unwrap(), row["op"].as_str().unwrap());
    match (kind(row), state, op) {
        (EntityKind::CashuSendQuote, "PAID", "mark_pending") => Some("D1"),
        (
            EntityKind::CashuReceiveQuote | EntityKind::SparkReceiveQuote,
            "PAID" | "COMPLETED" | "FAILED" | "EXPIRED",
            "mark_melt_initiated",
        ) => Some("D10"),
        _ => None,
    }
}

#[test]
fn every_cell_of_the_reference_is_ours_or_a_listed_departure() {
    let Some(bytes) = data::bytes("cashu/reference-transitions.json") else { return };
    let all: Value = serde_json::from_slice(&bytes).unwrap();
    let rows = all["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 170, "rows of the reference");
    let (mut differing, mut used) = (Vec::new(), Vec::new());
    for row in rows {
        let (theirs, ours) = (theirs(row), ours(row));
        if theirs == ours {
            continue;
        }
        match reason(row) {
            Some(number) => used.push(number),
            None => differing.push(format!("{row}\n  theirs {theirs:?}\n  ours   {ours:?}")),
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    used.sort_unstable();
    used.dedup();
    assert_eq!(used, ["D1", "D10"]);
    assert!(used.iter().all(|number| DEPARTURES.iter().any(|known| known.number == *number)));
}
