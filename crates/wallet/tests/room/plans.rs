//! The databases use the indexes: no statement on a hot path walks a table.

use unspent_sql::{Door, Options, Row, SqlError};
use unspent_wallet::schema::SCHEMA;

use crate::ledger::*;

/// Hot statements as SQLite would plan them; each must search, never scan a table of history.
const HOT: [(&str, &str); 7] = [
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
        l.see(&tx(&[foreign(n)], &vec![(&script, 5); 20]), unspent_wallet::TxSource::Mempool).unwrap();
    }
    let door = Door::open(&l.url, &SCHEMA, Options::default()).unwrap();
    let explained: [(&str, &str); 3] = [
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
