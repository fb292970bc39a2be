//! The room's database as a whole, for `unspent db`.

use unspent_ecash::schema::SCHEMA;
use unspent_sql::{Options, Url};

use crate::rooms::RoomTables;

pub(super) const TABLES: RoomTables = RoomTables { schema: &SCHEMA, audit };

fn audit(url: &Url) -> anyhow::Result<Vec<String>> {
    Ok(unspent_ecash::audit::audit(url, Options::default())?)
}
