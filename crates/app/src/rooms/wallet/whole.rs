//! The room's database as a whole, for `unspent db`.

use unspent_sql::{
    Options, Url,
    distribute::{
        Distribution,
        Spread::{By, Everywhere},
    },
};
use unspent_wallet::{WalletStore, schema::SCHEMA};

use crate::rooms::RoomTables;

pub(super) const TABLES: RoomTables =
    RoomTables { schema: &SCHEMA, audit, distribution: DISTRIBUTION };

/// A wallet's rows lie together. `wallets` is whole everywhere, as names are unique over all of
/// them, which a table spread by its id could not promise.
const DISTRIBUTION: Distribution = &[
    ("room", Everywhere),
    ("blocks", Everywhere),
    ("wallets", Everywhere),
    ("accounts", By("wallet_id")),
    ("keychains", By("wallet_id")),
    ("addresses", By("wallet_id")),
    ("transactions", By("wallet_id")),
    ("tx_inputs", By("wallet_id")),
    ("utxos", By("wallet_id")),
    ("tx_replacements", By("wallet_id")),
    ("utxo_leases", By("wallet_id")),
    ("labels", By("wallet_id")),
    ("journal", By("wallet_id")),
    ("pruned_txs", By("wallet_id")),
    ("frozen_outputs", By("wallet_id")),
    ("label_origins", By("wallet_id")),
    ("backfills", By("wallet_id")),
];

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
