//! Leases on coins: who may spend which, until when.
//!
//! Invariant: at most one lease per coin, by the primary key; taking one is a single guarded
//! statement. Rows outlive spends, so that a coin which comes back before its lease ran out is held
//! again; they go when they have expired and somebody purges.
//!
//! Deliberately absent: any lock in memory. Two processes on one database are safe.

use bitcoin::{OutPoint, ScriptBuf};
use unspent_model::{
    Micros, Outpoint,
    wallet::{LockId, TxStatus},
};
use unspent_sql::{Arg, BulkStatement, Column, Row, RowId, Tx};

use crate::{
    error::WalletError,
    freeze::refuse_frozen,
    ids::{WalletId, bitcoin_outpoint, model_outpoint, sql_int},
    rows::{self, lock},
    store::WalletStore,
    wallet_row::WalletRow,
};

/// How long a lease lasts unless said otherwise: ten minutes, in microseconds.
pub const DEFAULT_DURATION: i64 = 10 * 60 * 1_000_000;

/// A lease to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// By which the holder shows that the lease is theirs.
    pub lock: LockId,
    /// How long, in microseconds.
    pub duration: i64,
    /// Keep holding the coin after its spend, whatever the clock says, until that spend has this
    /// many confirmations.
    pub hold_confirmations: Option<u32>,
}

impl LeaseTerms {
    /// A plain lease for the default time.
    pub fn new(lock: LockId) -> Self {
        Self { lock, duration: DEFAULT_DURATION, hold_confirmations: None }
    }

    /// When it ends, if its terms can be.
    pub(crate) fn expires_at(&self, now: Micros) -> Result<Micros, WalletError> {
        if self.hold_confirmations == Some(0) {
            return Err(WalletError::BadHold);
        }
        let end = now.checked_add(self.duration).filter(|_| self.duration > 0);
        end.ok_or(WalletError::BadDuration)
    }
}

/// An active lease as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseInfo {
    /// What is held.
    pub coin: OutPoint,
    /// What the coin holds, in satoshis.
    pub amount: u64,
    /// What the coin pays to.
    pub script: ScriptBuf,
    /// By which the holder shows that the lease is theirs.
    pub lock: LockId,
    /// When it ends, in microseconds.
    pub expires_at: Micros,
    /// Confirmations that its spend must reach, where asked for.
    pub hold_confirmations: Option<u32>,
    /// Whether it is held only because its spend isn't deep enough yet.
    pub is_spent: bool,
}

const UNSPENT_COINS: BulkStatement = BulkStatement {
    sqlite: "SELECT t.tx_hash, u.output_index, u.id FROM transactions t
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $5
        WHERE t.wallet_id = $1 AND t.tx_hash = $4 AND t.status IN ($2, $3)
            AND +u.spent_by_tx_id IS NULL",
    postgres: "SELECT t.tx_hash, u.output_index, u.id
        FROM UNNEST($4::bytea[], $5::bigint[]) k (h, n)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = $1 AND t.status IN ($2, $3)
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = k.n
            AND +u.spent_by_tx_id IS NULL",
};
const ALL_COINS: BulkStatement = BulkStatement {
    sqlite: "SELECT t.tx_hash, u.output_index, u.id FROM transactions t
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $3
        WHERE t.wallet_id = $1 AND t.tx_hash = $2",
    postgres: "SELECT t.tx_hash, u.output_index, u.id
        FROM UNNEST($2::bytea[], $3::bigint[]) k (h, n)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = $1
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = k.n",
};
/// Takes a lease that is free, expired or already ours: one statement, so no race.
const TAKE: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO utxo_leases (wallet_id, external_lock_id, expires_at, leased_at,
            hold_confirmations, utxo_id) VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (wallet_id, utxo_id) DO UPDATE
            SET external_lock_id = excluded.external_lock_id, expires_at = excluded.expires_at,
                leased_at = excluded.leased_at, hold_confirmations = excluded.hold_confirmations
            WHERE utxo_leases.expires_at <= $4
                OR utxo_leases.external_lock_id = excluded.external_lock_id",
    postgres: "INSERT INTO utxo_leases (wallet_id, external_lock_id, expires_at, leased_at,
            hold_confirmations, utxo_id)
        SELECT $1, $2, $3, $4, $5, k.id FROM UNNEST($6::bigint[]) k (id)
        ON CONFLICT (wallet_id, utxo_id) DO UPDATE
            SET external_lock_id = excluded.external_lock_id, expires_at = excluded.expires_at,
                leased_at = excluded.leased_at, hold_confirmations = excluded.hold_confirmations
            WHERE utxo_leases.expires_at <= $4
                OR utxo_leases.external_lock_id = excluded.external_lock_id",
};
const HELD: BulkStatement = BulkStatement {
    sqlite: "SELECT utxo_id, external_lock_id, expires_at FROM utxo_leases
        WHERE wallet_id = $1 AND expires_at > $2 AND utxo_id = $3",
    postgres: "SELECT l.utxo_id, l.external_lock_id, l.expires_at FROM UNNEST($3::bigint[]) k (id)
        JOIN utxo_leases l ON l.wallet_id = $1 AND l.utxo_id = k.id AND l.expires_at > $2",
};
/// Ends leases whoever holds them.
const END: BulkStatement = BulkStatement {
    sqlite: "DELETE FROM utxo_leases WHERE wallet_id = $1 AND utxo_id = $2",
    postgres: "DELETE FROM utxo_leases l USING UNNEST($2::bigint[]) k (id)
        WHERE l.wallet_id = $1 AND l.utxo_id = k.id",
};
const RELEASE: &str = "DELETE FROM utxo_leases
    WHERE wallet_id = $1 AND utxo_id = $2 AND (external_lock_id = $3 OR expires_at <= $4)";
const PURGE: &str = "DELETE FROM utxo_leases WHERE expires_at <= $1 AND hold_confirmations IS NULL";
const PURGE_ONE: &str = "DELETE FROM utxo_leases
    WHERE wallet_id = $2 AND expires_at <= $1 AND hold_confirmations IS NULL";
/// A held lease goes when its coin is unspent and the time is over, or its spend is deep enough.
const PURGE_HELD: &str = "DELETE FROM utxo_leases WHERE wallet_id = $2 AND expires_at <= $1
    AND hold_confirmations IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM utxos u
        JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
        JOIN wallet_places w ON w.wallet_id = u.wallet_id
        WHERE u.wallet_id = utxo_leases.wallet_id AND u.id = utxo_leases.utxo_id
            AND (s.block_height IS NULL
                OR COALESCE(w.scanned_height, 0) - s.block_height + 1
                    < utxo_leases.hold_confirmations))";
const WALLETS_WITH_HELD: &str = "SELECT DISTINCT wallet_id FROM utxo_leases WHERE expires_at <= $1
        AND hold_confirmations IS NOT NULL";
const LIST: &str = "SELECT t.tx_hash, u.output_index, u.amount, d.script_pub_key,
        l.external_lock_id, l.expires_at, l.hold_confirmations, u.spent_by_tx_id
    FROM utxo_leases l
    JOIN utxos u ON u.wallet_id = +l.wallet_id AND u.id = +l.utxo_id
    JOIN transactions t ON t.wallet_id = +u.wallet_id AND t.id = +u.tx_id AND t.status IN ($3, $4)
    JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
    JOIN wallet_places w ON w.wallet_id = l.wallet_id
    LEFT JOIN transactions s ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
    WHERE l.wallet_id = $1 AND (
        (u.spent_by_tx_id IS NULL AND l.expires_at > $2)
        OR (u.spent_by_tx_id IS NOT NULL AND l.hold_confirmations IS NOT NULL
            AND (s.block_height IS NULL
                OR COALESCE(w.scanned_height, 0) - s.block_height + 1 < l.hold_confirmations)))
    ORDER BY l.expires_at, u.id";

impl WalletStore {
    /// Leases coins: all of them or none. The holder may ask again and so renew.
    ///
    /// # Errors
    ///
    /// [`WalletError::CoinNotFound`], [`WalletError::CoinFrozen`] or
    /// [`WalletError::AlreadyLeased`]; then no lease changed.
    pub fn lease(
        &self,
        wallet: WalletId,
        coins: &[OutPoint],
        terms: LeaseTerms,
        now: Micros,
    ) -> Result<Micros, WalletError> {
        let expires_at = terms.expires_at(now)?;
        let coins = coins.to_vec();
        self.door.write_for(wallet.0, move |tx| {
            // With this row nobody spends, freezes or prunes a coin between the look and the lease.
            WalletRow::lock(tx, wallet)?;
            let ids = unspent(tx, wallet, &coins)?;
            refuse_frozen(tx, wallet, &coins)?;
            take(tx, wallet, &ids, &terms, now)?;
            Ok(expires_at)
        })
    }

    /// Releases coins. Releasing what isn't leased is no error; releasing what somebody else holds
    /// is, and then nothing is released.
    ///
    /// # Errors
    ///
    /// [`WalletError::CoinNotFound`] or [`WalletError::NotYourLease`].
    pub fn release(
        &self,
        wallet: WalletId,
        coins: &[OutPoint],
        lock: LockId,
        now: Micros,
    ) -> Result<(), WalletError> {
        let coins = coins.to_vec();
        self.door.write_for(wallet.0, move |tx| {
            WalletRow::lock(tx, wallet)?;
            let ids = any(tx, wallet, &coins)?;
            for (coin, id) in &ids {
                let key = [Arg::Int(wallet.0), Arg::Int(id.0)];
                let rest = [Arg::Blob(lock.as_bytes()), Arg::Int(now.0)];
                // The statement itself decides who may. What is held after it
                // is another's, and the error undoes the releases before it.
                tx.execute(RELEASE, &[key, rest].concat())?;
                if !held(tx, wallet, &[*id], now)?.is_empty() {
                    return Err(WalletError::NotYourLease(*coin));
                }
            }
            Ok(())
        })
    }

    /// Active leases, soonest to end first, each with value and script.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn leases(&self, wallet: WalletId, now: Micros) -> Result<Vec<LeaseInfo>, WalletError> {
        self.door.read(move |tx| {
            let args = [
                Arg::Int(wallet.0),
                Arg::Int(now.0),
                Arg::Text(TxStatus::Published.name()),
                Arg::Text(TxStatus::Pending.name()),
            ];
            tx.query(LIST, &args)?.iter().map(info).collect()
        })
    }

    /// Removes leases that have run out, of one wallet or of all, and counts them.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn purge_leases(&self, wallet: Option<WalletId>, now: Micros) -> Result<u64, WalletError> {
        self.door.write(move |tx| {
            let (mut gone, holders) = match wallet {
                Some(wallet) => {
                    let args = [Arg::Int(now.0), Arg::Int(wallet.0)];
                    (tx.execute(PURGE_ONE, &args)?, vec![wallet.0])
                }
                None => {
                    let rows = tx.query(WALLETS_WITH_HELD, &[Arg::Int(now.0)])?;
                    let ids =
                        rows.iter().map(|row| row.int("wallet_id")).collect::<Result<_, _>>()?;
                    (tx.execute(PURGE, &[Arg::Int(now.0)])?, ids)
                }
            };
            // One by one: how deep a spend is depends on how far its own wallet has come.
            for holder in holders {
                gone += tx.execute(PURGE_HELD, &[Arg::Int(now.0), Arg::Int(holder)])?;
            }
            Ok(gone)
        })
    }
}

type CoinRows = Vec<(OutPoint, RowId)>;

/// Rows of coins that may be leased, in the stable order of their rows.
pub(crate) fn unspent(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    coins: &[OutPoint],
) -> Result<CoinRows, WalletError> {
    let scalars = [
        Arg::Int(wallet.0),
        Arg::Text(TxStatus::Published.name()),
        Arg::Text(TxStatus::Pending.name()),
    ];
    found(tx, UNSPENT_COINS, &scalars, coins)
}

fn any(tx: &mut Tx<'_>, wallet: WalletId, coins: &[OutPoint]) -> Result<CoinRows, WalletError> {
    found(tx, ALL_COINS, &[Arg::Int(wallet.0)], coins)
}

fn found(
    tx: &mut Tx<'_>,
    set: BulkStatement,
    scalars: &[Arg<'_>],
    coins: &[OutPoint],
) -> Result<CoinRows, WalletError> {
    let mut wanted: Vec<Outpoint> = coins.iter().map(|coin| model_outpoint(*coin)).collect();
    wanted.sort_unstable();
    // A coin named twice answers with one row, and would seem to be missing.
    wanted.dedup();
    let keys = [
        Column::blobs(wanted.iter().map(|coin| coin.tx.0)),
        Column::ints(wanted.iter().map(|coin| i64::from(coin.index))),
    ];
    let mut rows = Vec::with_capacity(wanted.len());
    for row in tx.query_set(set, scalars, &keys)? {
        rows.push((bitcoin_outpoint(rows::coin(&row)?), row.row_id("id")?));
    }
    let missing =
        |coin: &&Outpoint| !rows.iter().any(|(found, _)| *found == bitcoin_outpoint(**coin));
    if rows.len() < wanted.len()
        && let Some(coin) = wanted.iter().find(missing)
    {
        return Err(WalletError::CoinNotFound(bitcoin_outpoint(*coin)));
    }
    rows.sort_by_key(|(_, id)| *id);
    Ok(rows)
}

/// An active lease, by the row of its coin.
struct HeldLease {
    coin: RowId,
    lock: LockId,
    expires_at: Micros,
}

impl HeldLease {
    fn read(row: &Row) -> Result<Self, WalletError> {
        Ok(Self {
            coin: row.row_id("utxo_id")?,
            lock: lock(row, "external_lock_id")?,
            expires_at: row.micros("expires_at")?,
        })
    }
}

fn held(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    ids: &[RowId],
    now: Micros,
) -> Result<Vec<HeldLease>, WalletError> {
    let scalars = [Arg::Int(wallet.0), Arg::Int(now.0)];
    let rows = tx.query_set(HELD, &scalars, &[Column::row_ids(ids.iter().copied())])?;
    rows.iter().map(HeldLease::read).collect()
}

/// Takes all leases or fails; the caller's transaction is then undone.
pub(crate) fn take(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    coins: &[(OutPoint, RowId)],
    terms: &LeaseTerms,
    now: Micros,
) -> Result<(), WalletError> {
    let expires_at = terms.expires_at(now)?;
    let scalars = [
        Arg::Int(wallet.0),
        Arg::Blob(terms.lock.as_bytes()),
        Arg::Int(expires_at.0),
        Arg::Int(now.0),
        Arg::OptInt(terms.hold_confirmations.map(i64::from)),
    ];
    let ids: Vec<RowId> = coins.iter().map(|(_, id)| *id).collect();
    let taken = tx.execute_set(TAKE, &scalars, &[Column::row_ids(ids.iter().copied())])?;
    if taken == coins.len() as u64 {
        return Ok(());
    }
    // Who holds what is asked only after a refusal: the usual lease costs one statement.
    for HeldLease { coin: row, lock: holder, expires_at } in held(tx, wallet, &ids, now)? {
        if holder != terms.lock
            && let Some((coin, _)) = coins.iter().find(|(_, found)| *found == row)
        {
            return Err(WalletError::AlreadyLeased { coin: *coin, holder, expires_at });
        }
    }
    Err(WalletError::Bug("a lease was refused though nobody holds it"))
}

/// Ends the leases on coins that the caller's transaction takes over, whoever holds them.
pub(crate) fn take_over(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    coins: Vec<RowId>,
) -> Result<(), WalletError> {
    if !coins.is_empty() {
        tx.execute_set(END, &[Arg::Int(wallet.0)], &[Column::row_ids(coins)])?;
    }
    Ok(())
}

fn info(row: &Row) -> Result<LeaseInfo, WalletError> {
    Ok(LeaseInfo {
        coin: bitcoin_outpoint(rows::coin(row)?),
        amount: row.natural("amount")?,
        script: ScriptBuf::from_bytes(row.blob("script_pub_key")?),
        lock: lock(row, "external_lock_id")?,
        expires_at: row.micros("expires_at")?,
        hold_confirmations: row.opt_index("hold_confirmations")?,
        is_spent: row.opt_int("spent_by_tx_id")?.is_some(),
    })
}

/// A height as an argument, or one that no block reaches.
pub(crate) fn height_arg(height: Option<u64>) -> Result<Arg<'static>, WalletError> {
    Ok(Arg::Int(height.map(sql_int).transpose()?.unwrap_or(-1)))
}
