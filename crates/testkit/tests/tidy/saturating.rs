//! Arithmetic that saturates: where money and coins are counted it hides a contradiction, so each
//! place says why it can't matter there.

use super::{code, demand, numbered, shipped, shipped_lines};

/// Where money and coins are counted.
const COUNTING: [&str; 2] = ["crates/foundations/model/src/", "crates/rooms/"];
/// Lines before the arithmetic on which the reason may stand, besides its own.
const LINES_BEFORE: usize = 2;

/// Clocks aren't counted.
fn saturates(line: &str) -> bool {
    code(line).replace("saturating_duration_since", "").contains("saturating_")
}

/// A comment for whoever reads the code; documentation says what, not why.
fn has_reason(line: &str) -> bool {
    let is_doc = ["///", "//!"].iter().any(|doc| line.trim_start().starts_with(doc));
    !is_doc && line.contains("//")
}

fn unreasoned(path: &str, text: &str) -> Vec<String> {
    if !COUNTING.iter().any(|place| path.starts_with(place)) {
        return Vec::new();
    }
    let all = numbered(text);
    let found = shipped_lines(path, text).into_iter().filter(|(at, line)| {
        let first = at.saturating_sub(1 + LINES_BEFORE);
        saturates(line) && !all[first..*at].iter().any(|(_, near)| has_reason(near))
    });
    found.map(|(at, line)| format!("{path}:{at}: {}", line.trim())).collect()
}

#[test]
fn what_saturates_where_money_is_counted_says_why_it_may() {
    let sources = shipped();
    let findings = sources.iter().flat_map(|source| unreasoned(&source.path, &source.text));
    let rule = "arithmetic that saturates without a `//` comment that says why it can't matter \
                (else use checked_…)";
    demand(rule, &findings.collect::<Vec<_>>());
}

#[test]
fn the_rule_about_what_saturates_can_fail() {
    let path = "crates/rooms/wallet/store/src/a.rs";
    let count = |text: &str| unreasoned(path, text).len();
    assert_eq!(
        unreasoned(path, "\nlet a = b.saturating_sub(c);"),
        ["crates/rooms/wallet/store/src/a.rs:2: let a = b.saturating_sub(c);"]
    );
    assert_eq!(count("/// Adds.\nlet a = b.saturating_add(c);"), 1, "documentation is no reason");
    assert_eq!(count("// Because.\n\n\nlet a = b.saturating_add(c);"), 1, "too far away");
    assert_eq!(count("fold(0, u64::saturating_add)"), 1);
    assert_eq!(count("// Because.\n\nlet a = b.saturating_add(c);"), 0);
    assert_eq!(count("let a = b.saturating_add(c); // Because."), 0);
    assert_eq!(count("let a = b.saturating_duration_since(c);"), 0);
    assert_eq!(count("#[cfg(test)]\nmod tests {\n    a.saturating_sub(b);\n}"), 0);
    let elsewhere = unreasoned("crates/runtime/engine/src/a.rs", "a.saturating_sub(b);");
    assert!(elsewhere.is_empty(), "clocks and pauses");
}
