//! What a prune took and the chain has settled: seen again, it changes nothing, until its block is
//! disconnected.

use std::collections::HashSet;

use unspent_model::TxId;
use unspent_sql::{Arg, BulkStatement, Column, Tx};

use crate::{
    error::WalletError,
    ids::{WalletId, sql_int},
    rows::txid,
    wallet_row::WalletRow,
};

const REMEMBERED: BulkStatement = BulkStatement {
    sqlite: "SELECT wallet_id, tx_hash FROM pruned_txs WHERE wallet_id = $1 AND tx_hash = $2",
    postgres: "SELECT p.wallet_id, p.tx_hash FROM UNNEST($1::bigint[], $2::bytea[]) k (w, h)
        JOIN pruned_txs p ON p.wallet_id = k.w AND p.tx_hash = k.h",
};
const FORGET_ALL: &str = "DELETE FROM pruned_txs WHERE settled_height >= $1";
const FORGET: &str = "DELETE FROM pruned_txs WHERE wallet_id = $2 AND settled_height >= $1";
/// Nothing is missing any more below any height: what was pruned is back.
const WHOLE: &str = "UPDATE wallets SET history_from = NULL WHERE id = $1
    AND history_from IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM pruned_txs p WHERE p.wallet_id = $1)";

/// Which of the transactions that concern wallets were pruned and are settled.
pub(crate) fn settled<'w>(
    tx: &mut Tx<'_>,
    wanted: impl Iterator<Item = (&'w WalletRow, Vec<TxId>)>,
) -> Result<HashSet<(WalletId, TxId)>, WalletError> {
    // Most wallets were never pruned.
    let pruned = wanted.filter(|(row, _)| row.history_from.is_some());
    let names = pruned.flat_map(|(row, txids)| txids.into_iter().map(|txid| (row.id, txid)));
    let names: Vec<(WalletId, TxId)> = names.collect();
    let keys = [
        Column::ints(names.iter().map(|(wallet, _)| wallet.0)),
        Column::blobs(names.iter().map(|(_, txid)| txid.0)),
    ];
    let rows = tx.query_set(REMEMBERED, &[], &keys)?;
    let found = rows.iter().map(|row| Ok((WalletId(row.int("wallet_id")?), txid(row, "tx_hash")?)));
    found.collect()
}

/// Blocks from a height on are gone for this wallet: what they settled is open again.
pub(crate) fn unsettle(tx: &mut Tx<'_>, wallet: WalletId, from: u64) -> Result<(), WalletError> {
    tx.execute(FORGET, &[Arg::Int(sql_int(from)?), Arg::Int(wallet.0)])?;
    Ok(())
}

/// Blocks from a height on are gone for all wallets.
pub(crate) fn unsettle_all(tx: &mut Tx<'_>, from: u64) -> Result<(), WalletError> {
    tx.execute(FORGET_ALL, &[Arg::Int(sql_int(from)?)])?;
    Ok(())
}

/// All blocks have been read: balances are known as far back as nothing is pruned.
pub(crate) fn whole_again(tx: &mut Tx<'_>, wallet: WalletId) -> Result<(), WalletError> {
    tx.execute(WHOLE, &[Arg::Int(wallet.0)])?;
    Ok(())
}
