//! The databases use the indexes: no statement on a hot path walks a table.

use unspent_sql::{Door, Options, Row, SqlError};
use unspent_wallet::schema::SCHEMA;

use crate::ledger::*;

/// Hot statements as SQLite would plan them; each must search, never scan a table of history.
const HOT: [(&str, &str); 10] = [
    (
        "EXPLAIN QUERY PLAN SELECT id FROM transactions WHERE wallet_id = 1 AND tx_hash = x'00'",
        "uidx_transactions_hash",
    ),
    (
        "EXPLAIN QUERY PLAN SELECT tx_id FROM tx_inputs
            WHERE prev_tx_hash = x'00' AND prev_output_index = 1 AND wallet_id = 1",
        "idx_tx_inputs_prevout",
    ),
    (
        "EXPLAIN QUERY PLAN SELECT wallet_id FROM addresses WHERE script_hash = x'00'",
        "uidx_addresses_script",
    ),
    (
        "EXPLAIN QUERY PLAN SELECT u.id FROM utxos u
            JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
            WHERE u.wallet_id = 1 AND u.spent_by_tx_id IS NULL
            ORDER BY u.amount DESC, u.id DESC LIMIT 9",
        "idx_utxos_unspent",
    ),
    (
        "EXPLAIN QUERY PLAN SELECT id FROM transactions
            WHERE wallet_id = 1 AND block_height IS NULL AND status IN ('published', 'pending')",
        "idx_transactions_unconfirmed",
    ),
    (
        "EXPLAIN QUERY PLAN SELECT id FROM transactions
            WHERE wallet_id = 1 AND is_coinbase AND block_height > 5 AND block_height <= 9",
        "idx_transactions_coinbase",
    ),
    (
        "EXPLAIN QUERY PLAN SELECT wallet_id FROM transactions WHERE block_height >= 5",
        "idx_transactions_by_height",
    ),
    (
        "EXPLAIN QUERY PLAN SELECT w.id, w.name FROM transactions t
            JOIN wallets w ON w.id = t.wallet_id WHERE t.tx_hash = x'00' ORDER BY w.id",
        "uidx_transactions_hash",
    ),
    (
        "EXPLAIN QUERY PLAN SELECT w.name, u.id, d.script_pub_key, s.tx_hash, l.expires_at
            FROM transactions t
            JOIN wallets w ON w.id = t.wallet_id
            JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = 1
            JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
            LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
            LEFT JOIN utxo_leases l
                ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id AND l.expires_at > 5
            WHERE t.tx_hash = x'00' ORDER BY w.id",
        "uidx_transactions_hash",
    ),
    (
        "EXPLAIN QUERY PLAN SELECT tx_hash FROM transactions
            WHERE wallet_id = 1 AND id >= 5 AND id < 9 LIMIT 3",
        "sqlite_autoindex_transactions_1",
    ),
];

#[test]
fn hot_statements_search_by_index_on_sqlite() {
    let l = Ledger::sqlite();
    let door = Door::open(&l.url, &SCHEMA, Options::default()).unwrap();
    for (sql, index) in HOT {
        let rows: Vec<Row> = door.read(move |tx| tx.query(sql, &[])).unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.text("detail").unwrap()).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(index) && !plan.contains("SCAN"), "{sql}\n{plan}");
    }
}

#[test]
fn hot_statements_search_by_index_on_postgresql() {
    let Some(l) = Ledger::postgres() else { return };
    let script = l.ours(0);
    for n in 0..300 {
        l.see(&tx(&[foreign(n)], &vec![(&script, 5); 20]), unspent_wallet::TxSource::Mempool)
            .unwrap();
    }
    let door = Door::open(&l.url, &SCHEMA, Options::default()).unwrap();
    let explained: [(&str, &str); 5] = [
        (
            "EXPLAIN SELECT id FROM transactions WHERE wallet_id = 1 AND tx_hash = '\\x00'",
            "uidx_transactions_hash",
        ),
        (
            "EXPLAIN SELECT tx_id FROM tx_inputs
                WHERE prev_tx_hash = '\\x00' AND prev_output_index = 1 AND wallet_id = 1",
            "idx_tx_inputs_prevout",
        ),
        (
            "EXPLAIN SELECT u.id FROM utxos u WHERE u.wallet_id = 1 AND u.spent_by_tx_id IS NULL
                ORDER BY u.amount DESC, u.id DESC LIMIT 9",
            "idx_utxos_unspent",
        ),
        (
            "EXPLAIN SELECT w.id, w.name FROM transactions t
                JOIN wallets w ON w.id = t.wallet_id WHERE t.tx_hash = '\\x00' ORDER BY w.id",
            "uidx_transactions_hash",
        ),
        (
            "EXPLAIN SELECT w.name, u.id FROM transactions t
                JOIN wallets w ON w.id = t.wallet_id
                JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id
                    AND u.output_index = 1
                WHERE t.tx_hash = '\\x00' ORDER BY w.id",
            "uidx_transactions_hash",
        ),
    ];
    for (sql, index) in explained {
        let rows: Vec<Row> = door
            .write(move |tx| -> Result<_, SqlError> {
                tx.script("ANALYZE transactions; ANALYZE tx_inputs; ANALYZE utxos")?;
                tx.query(sql, &[])
            })
            .unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.text("QUERY PLAN").unwrap()).collect();
        assert!(plan.join("\n").contains(index), "{sql}\n{}", plan.join("\n"));
    }
}
