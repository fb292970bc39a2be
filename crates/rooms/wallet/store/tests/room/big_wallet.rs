//! A long history, written straight into the tables: 32,000 transactions in 1,000 blocks.
//!
//! Every second transaction spends the coin of the one before it, so half of the coins are unspent.
//! Their raw bytes are of no use and their amounts too small to be chosen, so nothing parses them;
//! what the databases plan is the same.

use unspent_sql::{Arg, Backend, Door, Options, SqlError, Tx};
use unspent_wallet::schema::SCHEMA;

use crate::ledger::Ledger;

pub const TXS: i64 = 32_000;
const FIRST_TX: i64 = 1_000;
const FIRST_COIN: i64 = 100_000;
/// Below the first block that a [`Ledger`] mines.
const BLOCKS: i64 = 1_000;

/// Name of the transaction of a number, as the fill makes it.
const SQLITE_HASH: &str = "CAST(printf('%032d', HASHED) AS BLOB)";
const POSTGRES_HASH: &str = "convert_to(lpad(CAST(HASHED AS TEXT), 32, '0'), 'UTF8')";

/// `WALLET`, `ADDRESS`, … stand for numbers, `<n>` for the name of transaction n.
const FILL: [&str; 7] = [
    "WITH RECURSIVE k (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM k WHERE n + 1 < BLOCKS)
        INSERT INTO blocks SELECT n, <n + 500000>, n FROM k",
    "WITH RECURSIVE k (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < TXS)
        INSERT INTO transactions (wallet_id, id, tx_hash, block_height, block_position, status,
            is_coinbase, ever_published, withdrawn, is_own, fee, output_total, received_time,
            raw_tx)
        SELECT WALLET, FIRST_TX + n, <n>, n * BLOCKS / (TXS + 1), n, 'published', n % 97 = 1, TRUE,
            FALSE, FALSE, 10, 1000, n, <n> FROM k",
    "WITH RECURSIVE k (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < TXS)
        INSERT INTO tx_inputs (wallet_id, tx_id, input_index, prev_tx_hash, prev_output_index)
        SELECT WALLET, FIRST_TX + n, 0,
            CASE WHEN n % 2 = 0 THEN <n - 1> ELSE <n + 900000> END, 0 FROM k",
    "WITH RECURSIVE k (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < TXS)
        INSERT INTO utxos (wallet_id, id, tx_id, output_index, amount, address_id, spent_by_tx_id,
            spent_input_index)
        SELECT WALLET, FIRST_COIN + n, FIRST_TX + n, 0, 10 + n % 50, ADDRESS + n % 20,
            CASE WHEN n % 2 = 1 THEN FIRST_TX + n + 1 END, CASE WHEN n % 2 = 1 THEN 0 END FROM k",
    "WITH RECURSIVE k (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < TXS)
        INSERT INTO journal (wallet_id, id, at, cause, tx_hash)
        SELECT WALLET, FIRST_COIN + n, n, 'confirmed', <n> FROM k",
    "WITH RECURSIVE k (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < TXS)
        INSERT INTO labels (wallet_id, kind, ref, label)
        SELECT WALLET, 'tx', CAST(n AS TEXT), 'filled' FROM k",
    "UPDATE wallets SET next_id = 500000, next_line = 500000,
            confirmed_amount = (SELECT CAST(SUM(amount) AS BIGINT) FROM utxos
                WHERE wallet_id = WALLET AND spent_by_tx_id IS NULL),
            confirmed_coins = (SELECT COUNT(*) FROM utxos
                WHERE wallet_id = WALLET AND spent_by_tx_id IS NULL)
        WHERE id = WALLET",
];
const LAST_BLOCK: &str = "UPDATE blocks SET header_hash = $2 WHERE block_height = $1";
const FIRST_ADDRESS: &str = "SELECT MIN(id) AS id FROM addresses WHERE wallet_id = $1";

/// Fills the ledger's wallet, which must be new.
pub fn fill(l: &Ledger) {
    let door = Door::open(&l.url, &SCHEMA, Options::default()).unwrap();
    let wallet = l.wallet.0;
    door.write(move |tx| -> Result<(), SqlError> {
        let address = tx.one(FIRST_ADDRESS, &[Arg::Int(wallet)])?.int("id")?;
        for text in FILL {
            tx.execute(statement(tx, text, wallet, address), &[])?;
        }
        // What the first block of a ledger builds on.
        tx.execute(LAST_BLOCK, &[Arg::Int(BLOCKS - 1), Arg::Blob(&[0; 32])])?;
        Ok(())
    })
    .unwrap();
}

/// Gathers statistics, as a server does by itself and SQLite only when told.
pub fn analyze(l: &Ledger) {
    let door = Door::open(&l.url, &SCHEMA, Options::default()).unwrap();
    door.write(|tx| -> Result<(), SqlError> { tx.script("ANALYZE") }).unwrap();
}

fn statement(tx: &Tx<'_>, text: &str, wallet: i64, address: i64) -> &'static str {
    let hash = match tx.backend() {
        Backend::Sqlite => SQLITE_HASH,
        Backend::Postgres => POSTGRES_HASH,
    };
    let mut filled = text.to_owned();
    for number in ["n + 500000", "n + 900000", "n - 1", "n"] {
        filled = filled.replace(&format!("<{number}>"), &hash.replace("HASHED", number));
    }
    let values = [
        ("WALLET", wallet),
        ("ADDRESS", address),
        ("FIRST_TX", FIRST_TX),
        ("FIRST_COIN", FIRST_COIN),
        ("TXS", TXS),
        ("BLOCKS", BLOCKS),
    ];
    for (name, value) in values {
        filled = filled.replace(name, &value.to_string());
    }
    // A statement is a constant of the program; a test may make one.
    Box::leak(filled.into_boxed_str())
}
