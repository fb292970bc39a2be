//! The room's database as a whole, for `unspent db`.

use unspent_server::room::RoomTables;
use unspent_sql::{Options, Url};
use unspent_wallet::{WalletStore, schema::SCHEMA};

pub(super) const TABLES: RoomTables = RoomTables { schema: &SCHEMA, audit };

/// What the audits of all wallets find.
fn audit(url: &Url) -> anyhow::Result<Vec<String>> {
    let room = WalletStore::open_existing(url, Options::default())?;
    let mut found = Vec::new();
    for wallet in room.all_wallets()? {
        let differences = room.audit(wallet.id)?;
        found.extend(differences.into_iter().map(|said| format!("{}: {said}", wallet.name)));
    }
    Ok(found)
}
