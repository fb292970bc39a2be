//! The statements that find coins which may be chosen.
//!
//! A wallet may hold a million coins, so a choice looks through windows of bounded size: the coins
//! just above and just below the amount wanted, where a match would lie, the largest and the
//! smallest. Each window is one walk along the index of unspent coins, and all of them are one
//! statement. On SQLite the walk is pinned (`CROSS JOIN` keeps the order of joins, `/*by …*/` the
//! index), as statistics, which it may or may not have, would turn it round.

use unspent_sql::BulkStatement;

/// A coin with all that decides whether it may be chosen; `$from` and `$join` pin the plan. A unary
/// plus keeps PostgreSQL from turning a join round.
macro_rules! candidates {
    ($from:literal, $join:literal, $where:literal, $order:literal) => {
        concat!(
            "SELECT u.id, t.id AS tx_id, t.tx_hash, u.output_index, u.amount, u.address_id,
                k.id AS keychain_id, k.input_weight, t.block_height,
                CASE WHEN k.descriptor LIKE '%older(%' OR k.descriptor LIKE '%after(%'
                    THEN k.descriptor END AS time_locked
            FROM ",
            $from,
            $join,
            " transactions t ON t.wallet_id = +u.wallet_id AND t.id = +u.tx_id ",
            $join,
            " addresses d ON d.wallet_id = +u.wallet_id AND d.id = +u.address_id ",
            $join,
            " keychains k ON k.wallet_id = +d.wallet_id AND k.id = +d.keychain_id
            WHERE ",
            $where,
            " AND u.amount > 0
                AND (CAST($9 AS BIGINT) IS NULL OR k.account_id = $9)
                AND ($10 OR k.purpose <> 'imported')
                AND (
                    (t.block_height IS NOT NULL AND t.block_height <= $3
                        AND (NOT t.is_coinbase OR t.block_height <= $4))
                    OR ($5 AND t.status = $6 AND t.is_own AND t.evicted_at IS NULL
                        AND NOT EXISTS (SELECT 1 FROM tx_replacements r
                            WHERE r.wallet_id = t.wallet_id AND r.replacement_tx_id = t.id))
                    OR ($7 AND t.status = $8))
                AND NOT EXISTS (SELECT 1 FROM utxo_leases l
                    WHERE l.wallet_id = u.wallet_id AND l.utxo_id = u.id AND l.expires_at > $2)
                AND NOT EXISTS (SELECT 1 FROM frozen_outputs f
                    WHERE f.wallet_id = u.wallet_id AND f.tx_hash = t.tx_hash
                        AND f.output_index = u.output_index)
            ",
            $order
        )
    };
}

/// Four windows on the unspent coins, by amount. $11 is the amount wanted, $12 the least that is
/// looked at, $13 to $16 the windows' sizes: above, below, largest, smallest.
macro_rules! windows {
    ($from:literal, $join:literal) => {
        concat!(
            "SELECT * FROM (",
            candidates!(
                $from,
                $join,
                "u.wallet_id = $1 AND u.spent_by_tx_id IS NULL AND u.amount >= $11",
                "ORDER BY u.amount, u.id LIMIT $13"
            ),
            ") above UNION ALL SELECT * FROM (",
            candidates!(
                $from,
                $join,
                "u.wallet_id = $1 AND u.spent_by_tx_id IS NULL AND u.amount < $11",
                "ORDER BY u.amount DESC, u.id DESC LIMIT $14"
            ),
            ") below UNION ALL SELECT * FROM (",
            candidates!(
                $from,
                $join,
                "u.wallet_id = $1 AND u.spent_by_tx_id IS NULL",
                "ORDER BY u.amount DESC, u.id DESC LIMIT $15"
            ),
            ") largest UNION ALL SELECT * FROM (",
            candidates!(
                $from,
                $join,
                "u.wallet_id = $1 AND u.spent_by_tx_id IS NULL AND u.amount >= $12",
                "ORDER BY u.amount, u.id LIMIT $16"
            ),
            ") smallest"
        )
    };
}

/// A coin by name, with everything that may speak against spending it.
macro_rules! named {
    ($from:literal, $where:literal) => {
        concat!(
            "SELECT u.id, t.id AS tx_id, t.tx_hash, u.output_index, u.amount, u.address_id,
                k.id AS keychain_id, k.input_weight, k.account_id, k.purpose, t.block_height,
                t.status, t.is_coinbase, s.tx_hash AS spent_by, l.external_lock_id, l.expires_at,
                f.frozen_at,
                CASE WHEN k.descriptor LIKE '%older(%' OR k.descriptor LIKE '%after(%'
                    THEN k.descriptor END AS time_locked
            ",
            $from,
            " LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
            LEFT JOIN utxo_leases l ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id
                AND l.expires_at > $2
            LEFT JOIN frozen_outputs f ON f.wallet_id = u.wallet_id AND f.tx_hash = t.tx_hash
                AND f.output_index = u.output_index ",
            $where
        )
    };
}

macro_rules! leased_now {
    ($join:literal) => {
        concat!(
            "SELECT u.id, t.id AS tx_id, t.tx_hash, u.output_index, u.amount, u.address_id,
                k.id AS keychain_id, k.input_weight, t.block_height,
                CASE WHEN k.descriptor LIKE '%older(%' OR k.descriptor LIKE '%after(%'
                    THEN k.descriptor END AS time_locked
            FROM utxo_leases l ",
            $join,
            " utxos u ON u.wallet_id = l.wallet_id AND u.id = l.utxo_id
                AND u.spent_by_tx_id IS NULL ",
            $join,
            " transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id ",
            $join,
            " addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id ",
            $join,
            " keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
            WHERE l.wallet_id = $1 AND l.external_lock_id = $2 AND l.leased_at = $3
                AND l.expires_at = $4"
        )
    };
}

macro_rules! ancestors {
    () => {
        "WITH RECURSIVE up (id) AS (
            SELECT $3
            UNION
            SELECT p.id FROM up
            CROSS JOIN tx_inputs i ON i.wallet_id = $1 AND i.tx_id = up.id
            CROSS JOIN transactions p ON p.tx_hash = i.prev_tx_hash AND p.wallet_id = $1
                AND p.block_height IS NULL AND p.status IN ('published', 'pending'))
        SELECT $3 AS root, t.id, t.is_own, t.status FROM up
        CROSS JOIN transactions t ON t.wallet_id = $1 AND t.id = up.id
        LIMIT $2"
    };
}

/// Four windows on the unspent coins, by amount.
pub(super) const WINDOWS: BulkStatement = BulkStatement {
    sqlite: windows!("utxos u /*by idx_utxos_unspent*/ ", "CROSS JOIN"),
    postgres: windows!("utxos u ", "JOIN"),
};

/// The oldest first. A unary plus keeps SQLite from sorting all unspent coins instead of walking
/// the rows in their order.
pub(super) const BY_AGE: BulkStatement = BulkStatement {
    sqlite: candidates!(
        "utxos u ",
        "CROSS JOIN",
        "u.wallet_id = $1 AND +u.spent_by_tx_id IS NULL",
        "ORDER BY u.id LIMIT $11"
    ),
    postgres: candidates!(
        "utxos u ",
        "JOIN",
        "u.wallet_id = $1 AND u.spent_by_tx_id IS NULL",
        "ORDER BY u.id LIMIT $11"
    ),
};

/// All coins of some addresses; $11 is the most of one address.
pub(super) const OF_ADDRESSES: BulkStatement = BulkStatement {
    sqlite: candidates!(
        "utxos u /*by idx_utxos_by_address*/ ",
        "CROSS JOIN",
        "u.wallet_id = $1 AND u.address_id = $12 AND u.spent_by_tx_id IS NULL",
        "ORDER BY u.id LIMIT $11"
    ),
    postgres: concat!(
        "SELECT c.* FROM UNNEST($12::bigint[]) q (address) CROSS JOIN LATERAL (",
        candidates!(
            "utxos u ",
            "JOIN",
            "u.wallet_id = $1 AND u.address_id = q.address AND u.spent_by_tx_id IS NULL",
            "ORDER BY u.id LIMIT $11"
        ),
        ") c"
    ),
};

/// Coins asked for by name, whatever their state.
pub(super) const NAMED: BulkStatement = BulkStatement {
    sqlite: named!(
        "FROM transactions t
        CROSS JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $4
        CROSS JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
        CROSS JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id",
        "WHERE t.wallet_id = $1 AND t.tx_hash = $3"
    ),
    postgres: named!(
        "FROM UNNEST($3::bytea[], $4::bigint[]) q (h, n)
        JOIN transactions t ON t.tx_hash = q.h AND t.wallet_id = $1
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = q.n
        JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
        JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id",
        ""
    ),
};

/// Coins that a lease holds, by the lease's holder, start and end.
pub(super) const LEASED_NOW: BulkStatement =
    BulkStatement { sqlite: leased_now!("CROSS JOIN"), postgres: leased_now!("JOIN") };

/// Unconfirmed ancestors of a transaction, itself included, one more than may be.
pub(super) const ANCESTORS: BulkStatement = BulkStatement {
    sqlite: ancestors!(),
    postgres: "SELECT q.id AS root, a.id, a.is_own, a.status
        FROM UNNEST($3::bigint[]) q (id) CROSS JOIN LATERAL (
            WITH RECURSIVE up (id) AS (
                SELECT q.id
                UNION
                SELECT p.id FROM up
                JOIN tx_inputs i ON i.wallet_id = $1 AND i.tx_id = up.id
                JOIN transactions p ON p.tx_hash = i.prev_tx_hash AND p.wallet_id = $1
                    AND p.block_height IS NULL AND p.status IN ('published', 'pending'))
            SELECT t.id, t.is_own, t.status FROM up
            JOIN transactions t ON t.wallet_id = $1 AND t.id = up.id
            LIMIT $2) a",
};

#[cfg(test)]
mod tests {
    use bitcoin::{Amount, OutPoint, Transaction, TxIn, TxOut, absolute, transaction::Version};
    use unspent_model::Micros;
    use unspent_model::Network;
    use unspent_sql::{Arg, Door, Options, SqlError};

    use crate::{
        NewAccount, NewWallet, TxBatch, TxSource, WalletStore, schema::SCHEMA,
        wallet_info::KeychainPurpose,
    };

    const EXPLAINED: [&str; 5] = [
        concat!("EXPLAIN QUERY PLAN ", windows!("utxos u /*by idx_utxos_unspent*/ ", "CROSS JOIN")),
        concat!(
            "EXPLAIN QUERY PLAN ",
            candidates!(
                "utxos u ",
                "CROSS JOIN",
                "u.wallet_id = $1 AND +u.spent_by_tx_id IS NULL",
                "ORDER BY u.id LIMIT $11"
            )
        ),
        concat!(
            "EXPLAIN QUERY PLAN ",
            candidates!(
                "utxos u /*by idx_utxos_by_address*/ ",
                "CROSS JOIN",
                "u.wallet_id = $1 AND u.address_id = $12 AND u.spent_by_tx_id IS NULL",
                "ORDER BY u.id LIMIT $11"
            )
        ),
        concat!("EXPLAIN QUERY PLAN ", leased_now!("CROSS JOIN")),
        concat!("EXPLAIN QUERY PLAN ", ancestors!()),
    ];

    fn coins(room: &WalletStore, n: u32) {
        let wallet = room.wallet("ours").unwrap();
        let script = room.next_address(wallet, None, KeychainPurpose::Receive).unwrap().script;
        let coin = TxOut { value: Amount::from_sat(5_000), script_pubkey: script };
        let previous_output = OutPoint { vout: n, ..OutPoint::default() };
        let tx = Transaction {
            version: Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            input: vec![TxIn { previous_output, ..TxIn::default() }],
            output: vec![coin; 50],
        };
        room.record(&TxBatch::one(tx, TxSource::Mempool), Micros(5)).unwrap();
    }

    fn check(door: &Door, when: &'static str) {
        for sql in EXPLAINED {
            let rows = door.read(move |tx| {
                let args = [Arg::Int(1); 16];
                let count = (1..=16).rev().find(|n| sql.contains(&format!("${n}"))).unwrap();
                tx.query(sql, &args[..count])
            });
            let rows: Vec<unspent_sql::Row> = rows.map_err(|error: SqlError| error).unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.text("detail").unwrap()).collect();
            // The windows and the ancestors at hand are walked; no table is, and nothing is sorted.
            let at_hand = ["above", "below", "largest", "smallest", "up", "CONSTANT"];
            let is_walk = |line: &&String| {
                let table = line.strip_prefix("SCAN ").and_then(|rest| rest.split(' ').next());
                line.contains("TEMP B-TREE") || table.is_some_and(|table| !at_hand.contains(&table))
            };
            let bad: Vec<_> = plan.iter().filter(is_walk).collect();
            assert!(bad.is_empty(), "{when}: {bad:?} in\n{}\n{sql}", plan.join("\n"));
        }
    }

    #[test]
    fn the_plans_hold_with_and_without_statistics() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("wallet.db").display());
        let url = url.parse().unwrap();
        let room = WalletStore::open(&url, Network::BitcoinRegtest, Options::default()).unwrap();
        let xpub = "tpubD6NzVbkrYhZ4XHndKkuB8FifXm8r5FQHwrN6oZuWCz13qb93rtgKvD4PQsqC4HP4yhV3tA2fqr\
                    2RbY5mNXfM7RxXUoeABoDtsFUq2zJq6YK";
        let receive = format!("wpkh({xpub}/<0;1>/*)");
        let accounts = vec![NewAccount { name: "main".into(), receive, change: None }];
        let new = NewWallet { name: "ours".into(), accounts, birthday: 0, gap_limit: 20 };
        room.create_wallet(&new, Micros(1)).unwrap();
        let door = Door::open(&url, &SCHEMA, Options::default()).unwrap();
        check(&door, "empty");
        (0..40).for_each(|n| coins(&room, n));
        check(&door, "large");
        door.write(|tx| -> Result<(), SqlError> { tx.script("ANALYZE") }).unwrap();
        let door = Door::open(&url, &SCHEMA, Options::default()).unwrap();
        check(&door, "with statistics");
    }
}
