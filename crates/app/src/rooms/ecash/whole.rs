//! The room's database as a whole, for `unspent db`.

use unspent_ecash::schema::SCHEMA;
use unspent_sql::{
    Options, Url,
    distribute::{Distribution, Spread::Here},
};

use crate::rooms::RoomTables;

pub(super) const TABLES: RoomTables =
    RoomTables { schema: &SCHEMA, audit, distribution: DISTRIBUTION };

/// Everything stays in one place: each change takes the next number of one journal.
const DISTRIBUTION: Distribution = &[
    ("store", Here),
    ("accounts", Here),
    ("keysets", Here),
    ("proofs", Here),
    ("entities", Here),
    ("transactions", Here),
    ("journal", Here),
    ("lease", Here),
];

fn audit(url: &Url) -> anyhow::Result<Vec<String>> {
    Ok(unspent_ecash::audit::audit(url, Options::default())?)
}
