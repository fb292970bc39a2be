//! The room's database as a whole, for `unspent db`.

use unspent_server::room::RoomTables;
use unspent_sql::{Options, Url};
use unspent_txstore::{Settings, TxStore, schema::SCHEMA};

/// Records looked through at once.
const PAGE: u32 = 1_000;

pub(super) const TABLES: RoomTables = RoomTables { schema: &SCHEMA, audit };

/// Outputs whose spenders are not there though nobody deleted them.
fn audit(url: &Url) -> anyhow::Result<Vec<String>> {
    let store = TxStore::open_existing(url, Settings::default(), Options::default())?;
    let network = store.network();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.unknown_spenders(after, PAGE)?;
        found.extend(page.found.iter().map(|unknown| {
            let coin = unknown.coin;
            let (txid, by) = (network.show_hash(&coin.tx.0), network.show_hash(&unknown.by.tx.0));
            format!("{txid}:{} names {by} as its spender, which is not there", coin.index)
        }));
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}
