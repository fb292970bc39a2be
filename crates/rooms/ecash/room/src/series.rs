//! The figures of the room.

use metrics::Label;
use unspent_engine::series::{LabelSets, Series, each};

/// What a mint or a Spark wallet is asked for, by the names of the requests.
const REQUESTS: [&str; 8] =
    ["melt_quote", "mint_quote", "melt", "swap", "mint", "restore", "check_state", "spark"];

/// What is counted.
pub(super) const SERIES: [Series; 4] = [
    Series::gauge("unspent_ecash_open", "Payments that are under way"),
    Series::gauge("unspent_ecash_unclear", "Payments whose fate isn't known yet"),
    Series::counter("unspent_ecash_asks_total", "Questions to mints, by kind and outcome").by(asks),
    Series::histogram("unspent_ecash_ask_seconds", "Time until a mint answered, by kind")
        .by(|| each("request", REQUESTS)),
];

fn asks() -> LabelSets {
    let outcomes = ["answer", "fault"];
    let pair =
        |request| outcomes.map(|o| vec![Label::new("request", request), Label::new("outcome", o)]);
    REQUESTS.into_iter().flat_map(pair).collect()
}
