//! The room's database as a whole, for `unspent db`.

use unspent_ecash::schema::SCHEMA;
use unspent_server::room::RoomTables;
use unspent_sql::{Options, Url};

pub(super) const TABLES: RoomTables = RoomTables { schema: &SCHEMA, audit };

fn audit(url: &Url) -> anyhow::Result<Vec<String>> {
    Ok(unspent_ecash::audit::audit(url, Options::default())?)
}
