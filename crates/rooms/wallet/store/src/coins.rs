//! Coins with their derived states, by page.
//!
//! States, accounts and labels aren't in the order of any index, so a list of some coins reads page
//! after page and leaves out the others; how far one answer may read is bounded, and its cursor
//! says where to go on.

use bitcoin::{OutPoint, ScriptBuf};
use unspent_model::{
    Micros,
    wallet::{CoinFacts, CoinState, LockId, TxStatus, coin::depth, maturity::ChainTip},
};
use unspent_sql::{Arg, Row, Tx};

use crate::{
    descriptor::{script_hash, show_script},
    error::WalletError,
    ids::{WalletId, bitcoin_outpoint, bitcoin_txid, model_txid, sql_int},
    labels::{LabelKey, labels_of},
    rows::{self, opt_lock, opt_txid, status},
    store::WalletStore,
    wallet_info::MAX_PAGE,
    wallet_row::WalletRow,
};

/// A coin as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoinInfo {
    /// Its row, which is also the second half of a cursor.
    pub id: i64,
    /// The output that it is, by transaction and index.
    pub outpoint: OutPoint,
    /// In satoshis.
    pub amount: u64,
    /// The watched script that it pays.
    pub script: ScriptBuf,
    /// Height of its block.
    pub height: Option<u64>,
    /// Derived from its facts, the wallet's tip and the time; never stored.
    pub state: CoinState,
    /// Whether a transaction of our own made it.
    pub is_own: bool,
    /// The live transaction that spends it.
    pub spent_by: Option<bitcoin::Txid>,
    /// Who holds it.
    pub lock: Option<LockId>,
    /// Blocks that hold it or build on the one that does.
    pub confirmations: u64,
    /// Whether it is not to be spent, whatever its state says first.
    pub is_frozen: bool,
    /// The account whose script it pays.
    pub account: String,
    /// Its own label, or else that of its address; only where one wallet was asked.
    pub label: Option<String>,
}

/// Which coins a list shows; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoinFilter {
    /// Only those that pay this script.
    pub script: Option<ScriptBuf>,
    /// Only those of this account.
    pub account: Option<String>,
    /// Only those of at least so many satoshis.
    pub min: Option<u64>,
    /// Only those of at most so many satoshis.
    pub max: Option<u64>,
    /// Only those whose label holds this text, in whatever case.
    pub label: Option<String>,
    /// Only those in this state.
    pub state: Option<CoinState>,
}

impl CoinFilter {
    fn takes(&self, coin: &CoinInfo) -> bool {
        let has = |text: &String| {
            let label = coin.label.as_deref().unwrap_or_default().to_lowercase();
            label.contains(&text.to_lowercase())
        };
        self.script.as_ref().is_none_or(|script| *script == coin.script)
            && self.account.as_ref().is_none_or(|account| *account == coin.account)
            && self.min.is_none_or(|min| coin.amount >= min)
            && self.max.is_none_or(|max| coin.amount <= max)
            && self.state.is_none_or(|state| state == coin.state)
            && self.label.as_ref().is_none_or(has)
    }
}

/// A page of coins, and where to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoinPage {
    /// Those that the filter takes.
    pub coins: Vec<CoinInfo>,
    /// The next page starts after it; `None` at the end.
    pub next: Option<CoinCursor>,
}

/// A coin in one of the wallets that know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCoin {
    /// Whose view of the coin this is.
    pub wallet: WalletId,
    /// What people call that wallet.
    pub name: String,
    /// The coin as that wallet sees it.
    pub coin: CoinInfo,
}

/// Where a page of coins ended: the next one starts after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoinCursor {
    /// Satoshis of the last coin.
    pub amount: u64,
    /// Row of the last coin.
    pub id: i64,
}

/// What is read of a coin. `u` is the coin and `t` its transaction, which the statement has joined.
macro_rules! coins_from {
    ($extra:literal, $from:literal, $where:literal) => {
        concat!(
            "SELECT u.id, t.tx_hash, u.output_index, u.amount, d.script_pub_key, t.block_height,
                t.status, t.is_coinbase, t.is_own, t.evicted_at, s.tx_hash AS spent_by,
                l.external_lock_id, a.name AS account,
                CASE WHEN f.frozen_at IS NULL THEN 0 ELSE 1 END AS is_frozen",
            $extra,
            " FROM ",
            $from,
            " JOIN /*then*/ addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
            JOIN /*then*/ keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
            JOIN /*then*/ accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
            LEFT JOIN transactions s /*by pidx_transactions*/
                ON s.wallet_id = u.wallet_id AND s.id = u.spent_by_tx_id
            LEFT JOIN utxo_leases l
                ON l.wallet_id = u.wallet_id AND l.utxo_id = u.id AND l.expires_at > $2
            LEFT JOIN frozen_outputs f ON f.wallet_id = t.wallet_id AND f.tx_hash = t.tx_hash
                AND f.output_index = u.output_index
            WHERE ",
            $where
        )
    };
}

const PAGE: &str = coins_from!(
    "",
    "utxos u /*by idx_utxos_unspent*/
        JOIN /*then*/ transactions t /*by pidx_transactions*/
            ON t.wallet_id = u.wallet_id AND t.id = u.tx_id",
    "u.wallet_id = $1 AND u.spent_by_tx_id IS NULL AND (u.amount, u.id) > ($3, $4)
        AND u.amount <= $8 AND t.status IN ($5, $6)
        ORDER BY u.amount, u.id LIMIT $7"
);
const OF_ADDRESS: &str = coins_from!(
    "",
    "addresses q /*by uidx_addresses_script*/
        JOIN /*then*/ utxos u /*by idx_utxos_by_address*/
            ON u.wallet_id = q.wallet_id AND u.address_id = q.id
        JOIN /*then*/ transactions t /*by pidx_transactions*/
            ON t.wallet_id = u.wallet_id AND t.id = u.tx_id",
    "q.script_hash = $9 AND q.wallet_id = $1 AND u.spent_by_tx_id IS NULL
        AND (u.amount, u.id) > ($3, $4) AND u.amount <= $8 AND t.status IN ($5, $6)
        ORDER BY u.amount, u.id LIMIT $7"
);
const ONE: &str = coins_from!(
    "",
    "transactions t /*by uidx_transactions_hash*/
        JOIN /*then*/ utxos u /*by uidx_utxos_outpoint*/
            ON u.wallet_id = t.wallet_id AND u.tx_id = t.id",
    "t.wallet_id = $1 AND t.tx_hash = $3 AND u.output_index = $4"
);
const EVERY: &str = coins_from!(
    "",
    "utxos u JOIN /*then*/ transactions t /*by pidx_transactions*/
            ON t.wallet_id = u.wallet_id AND t.id = u.tx_id",
    "u.wallet_id = $1 AND u.id > $3 ORDER BY u.id LIMIT $4"
);
/// One coin in every wallet that knows it: the same output may pay a script that several watch.
const EVERYWHERE: &str = coins_from!(
    ", w.id AS wallet_id, w.name, p.scanned_height, p.scanned_hash",
    "transactions t /*by uidx_transactions_hash*/
        JOIN /*then*/ wallets w ON w.id = t.wallet_id
        JOIN /*then*/ wallet_places p ON p.wallet_id = w.id
        JOIN /*then*/ utxos u /*by uidx_utxos_outpoint*/
            ON u.wallet_id = t.wallet_id AND u.tx_id = t.id",
    "t.tx_hash = $1 AND u.output_index = $3 ORDER BY w.id"
);

/// Coins read at most for one page of a list that leaves coins out.
const LOOKED_AT_MOST: usize = 20_000;

impl WalletStore {
    /// A page of live, unspent coins, smallest first.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn coins(
        &self,
        wallet: WalletId,
        after: Option<CoinCursor>,
        limit: u32,
        now: Micros,
    ) -> Result<Vec<CoinInfo>, WalletError> {
        Ok(self.coins_where(wallet, &CoinFilter::default(), after, limit, now)?.coins)
    }

    /// A page of all coins there ever were, in order of their rows.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn all_coins(
        &self,
        wallet: WalletId,
        after: i64,
        limit: u32,
        now: Micros,
    ) -> Result<Vec<CoinInfo>, WalletError> {
        Ok(self.all_coins_where(wallet, &CoinFilter::default(), after, limit, now)?.coins)
    }

    /// A page of those live, unspent coins that a filter takes, smallest first. It may hold fewer
    /// than asked for, even none, and still have a next one.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn coins_where(
        &self,
        wallet: WalletId,
        filter: &CoinFilter,
        after: Option<CoinCursor>,
        limit: u32,
        now: Micros,
    ) -> Result<CoinPage, WalletError> {
        let lowest = filter.min.unwrap_or(0);
        // Before the first coin of that amount.
        let start = CoinCursor { amount: lowest, id: -1 };
        let after = after.filter(|cursor| cursor.amount >= lowest).unwrap_or(start);
        self.page_of(wallet, filter, after, limit, now, unspent)
    }

    /// A page of those coins there ever were that a filter takes, in order of their rows.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn all_coins_where(
        &self,
        wallet: WalletId,
        filter: &CoinFilter,
        after: i64,
        limit: u32,
        now: Micros,
    ) -> Result<CoinPage, WalletError> {
        let after = CoinCursor { amount: 0, id: after };
        self.page_of(wallet, filter, after, limit, now, ever)
    }

    fn page_of(
        &self,
        wallet: WalletId,
        filter: &CoinFilter,
        mut after: CoinCursor,
        limit: u32,
        now: Micros,
        read: ReadCoins,
    ) -> Result<CoinPage, WalletError> {
        let (filter, network) = (filter.clone(), self.bitcoin_network());
        let (limit, plain) = (limit.min(MAX_PAGE) as usize, filter == CoinFilter::default());
        self.door.read(move |tx| {
            let asked = CoinQuery {
                wallet,
                filter: &filter,
                tip: WalletRow::read(tx, wallet)?.tip(),
                now,
                // A filter may leave out nearly all: small pages
                // would mean a round trip for a coin or two.
                limit: if plain { limit } else { MAX_PAGE as usize },
            };
            let (mut page, mut looked_at) = (CoinPage::default(), 0);
            // No coin would ever fill such a page.
            if limit == 0 {
                return Ok(page);
            }
            loop {
                let mut coins = read(tx, &asked, after)?;
                let is_last = coins.len() < asked.limit;
                looked_at += coins.len();
                // Before the filter, since it may ask for a label.
                label(tx, wallet, network, &mut coins)?;
                for coin in coins {
                    after = CoinCursor { amount: coin.amount, id: coin.id };
                    if filter.takes(&coin) {
                        page.coins.push(coin);
                    }
                    if page.coins.len() == limit {
                        page.next = Some(after);
                        return Ok(page);
                    }
                }
                if is_last {
                    return Ok(page);
                }
                // Others wait for this reader too: whoever asks may come again with the cursor.
                if looked_at >= LOOKED_AT_MOST {
                    page.next = Some(after);
                    return Ok(page);
                }
            }
        })
    }

    /// One coin, spent, dead or alive.
    ///
    /// # Errors
    ///
    /// [`WalletError::CoinNotFound`] when it isn't one of this wallet's.
    pub fn coin(
        &self,
        wallet: WalletId,
        coin: OutPoint,
        now: Micros,
    ) -> Result<CoinInfo, WalletError> {
        let network = self.bitcoin_network();
        self.door.read(move |tx| {
            let tip = WalletRow::read(tx, wallet)?.tip();
            let txid = model_txid(coin.txid);
            let args = [
                Arg::Int(wallet.0),
                Arg::Int(now.0),
                Arg::Blob(&txid.0),
                Arg::Int(coin.vout.into()),
            ];
            let row = tx.maybe(ONE, &args)?.ok_or(WalletError::CoinNotFound(coin))?;
            let mut found = [info(&row, tip)?];
            label(tx, wallet, network, &mut found)?;
            let [found] = found;
            Ok(found)
        })
    }

    /// A coin as each wallet sees it that knows it, with the wallets' names; asked by index, not
    /// wallet by wallet.
    ///
    /// # Errors
    ///
    /// Whatever the database says; a coin that no wallet knows is no error.
    pub fn coins_at(&self, coin: OutPoint, now: Micros) -> Result<Vec<FoundCoin>, WalletError> {
        self.door.read(move |tx| {
            let txid = model_txid(coin.txid);
            let args = [Arg::Blob(&txid.0), Arg::Int(now.0), Arg::Int(coin.vout.into())];
            tx.query(EVERYWHERE, &args)?.iter().map(found).collect()
        })
    }
}

/// A question for coins, and how many are read at once.
struct CoinQuery<'a> {
    wallet: WalletId,
    filter: &'a CoinFilter,
    tip: Option<u64>,
    now: Micros,
    limit: usize,
}

type ReadCoins = fn(&mut Tx<'_>, &CoinQuery<'_>, CoinCursor) -> Result<Vec<CoinInfo>, WalletError>;

fn unspent(
    tx: &mut Tx<'_>,
    asked: &CoinQuery<'_>,
    after: CoinCursor,
) -> Result<Vec<CoinInfo>, WalletError> {
    let most = asked.filter.max.map(sql_int).transpose()?.unwrap_or(i64::MAX);
    let args = [
        Arg::Int(asked.wallet.0),
        Arg::Int(asked.now.0),
        Arg::Int(sql_int(after.amount)?),
        Arg::Int(after.id),
        Arg::Text(TxStatus::Published.name()),
        Arg::Text(TxStatus::Pending.name()),
        Arg::Int(sql_int(asked.limit as u64)?),
        Arg::Int(most),
    ];
    let rows = match asked.filter.script.as_ref().map(|script| script_hash(script)) {
        Some(hash) => tx.query(OF_ADDRESS, &[&args[..], &[Arg::Blob(&hash)]].concat())?,
        None => tx.query(PAGE, &args)?,
    };
    rows.iter().map(|row| info(row, asked.tip)).collect()
}

fn ever(
    tx: &mut Tx<'_>,
    asked: &CoinQuery<'_>,
    after: CoinCursor,
) -> Result<Vec<CoinInfo>, WalletError> {
    let limit = Arg::Int(sql_int(asked.limit as u64)?);
    let args = [Arg::Int(asked.wallet.0), Arg::Int(asked.now.0), Arg::Int(after.id), limit];
    tx.query(EVERY, &args)?.iter().map(|row| info(row, asked.tip)).collect()
}

/// Gives coins their labels: their own, or those of their addresses.
fn label(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    network: bitcoin::Network,
    coins: &mut [CoinInfo],
) -> Result<(), WalletError> {
    let names = |coin: &CoinInfo| {
        [
            LabelKey::new("output", coin.outpoint.to_string()),
            LabelKey::new("addr", show_script(&coin.script, network)),
        ]
    };
    let labels = labels_of(tx, wallet, coins.iter().flat_map(names))?;
    for coin in coins {
        coin.label = names(coin).iter().find_map(|name| labels.get(name).cloned());
    }
    Ok(())
}

fn found(row: &Row) -> Result<FoundCoin, WalletError> {
    // Each wallet counts confirmations from its own tip.
    let tip = rows::scanned(row)?.map(|place| place.height);
    let (wallet, name) = (WalletId(row.int("wallet_id")?), row.text("name")?);
    Ok(FoundCoin { wallet, name, coin: info(row, tip)? })
}

fn info(row: &Row, tip: Option<u64>) -> Result<CoinInfo, WalletError> {
    let height = row.opt_natural("block_height")?;
    let spent_by = opt_txid(row, "spent_by")?.map(bitcoin_txid);
    let lock = opt_lock(row, "external_lock_id")?;
    let facts = CoinFacts {
        parent: status(row)?,
        height,
        is_coinbase: row.flag("is_coinbase")?,
        is_spent: spent_by.is_some(),
        is_leased: lock.is_some(),
        is_frozen: row.flag("is_frozen")?,
        is_dropped: row.opt_micros("evicted_at")?.is_some(),
    };
    Ok(CoinInfo {
        id: row.int("id")?,
        outpoint: bitcoin_outpoint(rows::coin(row)?),
        amount: row.natural("amount")?,
        script: ScriptBuf::from_bytes(row.blob("script_pub_key")?),
        height,
        state: CoinState::of(facts, tip),
        is_own: row.flag("is_own")?,
        spent_by,
        lock,
        confirmations: depth(height, ChainTip(tip)),
        is_frozen: facts.is_frozen,
        account: row.text("account")?,
        label: None,
    })
}
