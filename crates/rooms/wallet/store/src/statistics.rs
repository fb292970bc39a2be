//! What SQLite's planner is told about the tables, once and for all.
//!
//! SQLite plans by statistics that only `ANALYZE` gathers. Without them it takes `wallet_id = ?`
//! for a good find, since an unknown index is supposed to hold ten rows of each value, and walks
//! all coins of a wallet instead of asking the index that has the transaction too. With statistics
//! of a small wallet it reads whole tables, and goes on doing so when the wallet has grown. Joins
//! can be pinned in the statement; the look-ups behind foreign keys can't.
//!
//! So the room writes the statistics of one big wallet when it is opened, in place of whatever is
//! there: a plan that is right for a big wallet is quick for a small one. Each number says how many
//! rows the index has, then how many share its first column, its first two, and so on.

use unspent_sql::{Arg, Backend, Door, Options, Tx, Url};

use crate::{error::WalletError, schema::SCHEMA};

/// Table, index as it was declared, and numbers. The key of a table that is its own index goes by
/// the table's name.
const STATISTICS: [(&str, &str, &str); 32] = [
    ("blocks", "blocks_pkey", "1000000 1"),
    ("wallets", "wallets_pkey", "1000 1"),
    ("wallets", "uidx_wallets_name", "1000 1"),
    ("wallets", "idx_wallets_scanned", "100 2 2"),
    ("wallets", "idx_wallets_unborn", "10 1"),
    ("wallets", "idx_wallets_following", "1000 1"),
    ("accounts", "accounts", "2000 10 1"),
    ("accounts", "uidx_accounts_name", "2000 10 1"),
    ("keychains", "keychains", "4000 20 1"),
    ("keychains", "uidx_keychains_descriptor", "4000 20 1"),
    ("addresses", "addresses", "1000000 1000000 1"),
    ("addresses", "uidx_addresses_index", "1000000 1000000 250000 1"),
    ("addresses", "uidx_addresses_script", "1000000 2 1"),
    ("transactions", "pidx_transactions", "1000000 1000000 1"),
    ("transactions", "uidx_transactions_hash", "1000000 2 1"),
    ("transactions", "idx_transactions_unconfirmed", "1000 1000 100 1"),
    ("transactions", "idx_transactions_in_no_block", "1000 1000 1"),
    ("transactions", "idx_transactions_waiting", "1000 1000 1"),
    ("transactions", "idx_transactions_by_block", "1000000 1000000 10 1"),
    ("transactions", "idx_transactions_by_height", "1000000 10"),
    ("transactions", "idx_transactions_coinbase", "10000 10000 1 1"),
    ("transactions", "idx_transactions_by_received_time", "1000000 1000000 10 1"),
    ("tx_inputs", "tx_inputs", "2000000 2000000 2 1"),
    ("tx_inputs", "idx_tx_inputs_prevout", "2000000 4 2 1 1"),
    ("utxos", "utxos", "1000000 1000000 1"),
    ("utxos", "uidx_utxos_outpoint", "1000000 1000000 2 1"),
    ("utxos", "idx_utxos_unspent", "500000 500000 5 1 1 1"),
    ("utxos", "idx_utxos_by_address", "1000000 1000000 10 1"),
    ("utxos", "idx_utxos_spent_by", "500000 500000 2"),
    ("pruned_txs", "idx_pruned_txs_settled", "1000000 10"),
    ("tx_replacements", "tx_replacements", "10000 10000 2 1"),
    ("tx_replacements", "idx_tx_replacements_winner", "10000 10000 2"),
];

const THERE: &str = "SELECT name FROM sqlite_master WHERE name = $1";
const FOUND: &str = "SELECT idx FROM sqlite_stat1 WHERE tbl = $1 AND idx = $2 AND stat = $3";
const FORGET: &str = "DELETE FROM sqlite_stat1 WHERE tbl = $1";
/// Samples of what columns hold; only `ANALYZE` takes them, and they weigh more than the numbers.
const SAMPLED: &str = "SELECT idx FROM sqlite_stat4 WHERE tbl = $1 LIMIT 1";
const FORGET_SAMPLES: &str = "DELETE FROM sqlite_stat4 WHERE tbl = $1";
const KEEP: &str = "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ($1, $2, $3)";
/// Makes the table of statistics where it is missing, and takes in what it holds.
const LOAD: &str = "ANALYZE sqlite_schema";

/// Opens the database and sees to it that its planner knows what it is dealing with; PostgreSQL
/// finds out by itself.
pub(crate) fn open(url: &Url, options: Options) -> Result<Door, WalletError> {
    let door = Door::open(url, &SCHEMA, options)?;
    if door.backend() == Backend::Postgres || door.read(is_pinned)? {
        return Ok(door);
    }
    door.write(write)?;
    // A connection takes statistics in once, when it first reads the schema.
    drop(door);
    Ok(Door::open(url, &SCHEMA, options)?)
}

fn has(tx: &mut Tx<'_>, table: &str) -> Result<bool, WalletError> {
    Ok(tx.maybe(THERE, &[Arg::Text(table)])?.is_some())
}

fn is_pinned(tx: &mut Tx<'_>) -> Result<bool, WalletError> {
    if !has(tx, "sqlite_stat1")? {
        return Ok(false);
    }
    let may_be_sampled = has(tx, "sqlite_stat4")?;
    let names = SCHEMA.index_names();
    for (table, index, numbers) in STATISTICS {
        let index = names.on_sqlite(index);
        let args = [Arg::Text(table), Arg::Text(index), Arg::Text(numbers)];
        let is_known = tx.maybe(FOUND, &args)?.is_some();
        if !is_known || (may_be_sampled && tx.maybe(SAMPLED, &args[..1])?.is_some()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn write(tx: &mut Tx<'_>) -> Result<(), WalletError> {
    tx.script(LOAD)?;
    let may_be_sampled = has(tx, "sqlite_stat4")?;
    for (table, ..) in STATISTICS {
        tx.execute(FORGET, &[Arg::Text(table)])?;
        if may_be_sampled {
            tx.execute(FORGET_SAMPLES, &[Arg::Text(table)])?;
        }
    }
    let names = SCHEMA.index_names();
    for (table, index, numbers) in STATISTICS {
        let index = names.on_sqlite(index);
        tx.execute(KEEP, &[Arg::Text(table), Arg::Text(index), Arg::Text(numbers)])?;
    }
    Ok(tx.script(LOAD)?)
}
