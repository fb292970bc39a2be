//! History as an account statement: what each confirmed transaction changed, and what was held
//! after it, in the order of the chain.

use crate::{
    error::WalletError,
    history::{ChainCursor, TxListing, TxSummary},
    ids::WalletId,
    store::WalletStore,
};

/// A confirmed transaction and what the wallet held after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementLine {
    /// The transaction.
    pub tx: TxSummary,
    /// Confirmed satoshis after it.
    pub balance: i128,
}

/// Where a page ended, and what was held there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementCursor {
    /// The last transaction's place.
    pub place: ChainCursor,
    /// Confirmed satoshis after it.
    pub balance: i128,
}

/// A page of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatementPage {
    /// Oldest first.
    pub lines: Vec<StatementLine>,
    /// The next page starts after it; `None` at the end.
    pub next: Option<StatementCursor>,
}

/// The blocks of a statement, both ends among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatementHeights {
    /// By default the first that is still known.
    pub from: Option<u64>,
    /// By default there is no end.
    pub to: Option<u64>,
}

impl WalletStore {
    /// A page of a statement. Pages are read one by one: a reorganisation between two of them shows
    /// in the later.
    ///
    /// # Errors
    ///
    /// [`WalletError::HistoryPruned`] below the first height that is still known.
    pub fn statement(
        &self,
        wallet: WalletId,
        heights: StatementHeights,
        after: Option<StatementCursor>,
        limit: u32,
    ) -> Result<StatementPage, WalletError> {
        let to = heights.to.unwrap_or(i64::MAX.unsigned_abs());
        let (listing, mut balance) = match after {
            Some(end) => (TxListing::BlocksAfter(end.place, to), end.balance),
            None => {
                let (from, opening) = self.opening(wallet, heights.from)?;
                (TxListing::Blocks(from, to), opening)
            }
        };
        let mut page = StatementPage::default();
        for tx in self.txs(wallet, listing, limit)? {
            balance += tx.net();
            page.next = tx.cursor().map(|place| StatementCursor { place, balance });
            page.lines.push(StatementLine { tx, balance });
        }
        if page.lines.len() < limit as usize {
            page.next = None;
        }
        Ok(page)
    }

    /// Where a statement starts, and what was held before that.
    fn opening(&self, wallet: WalletId, from: Option<u64>) -> Result<(u64, i128), WalletError> {
        let known_from = self.history_from(wallet)?;
        let from = from.unwrap_or_else(|| known_from.map_or(0, |height| height + 1));
        let tip = self.wallet_info(wallet)?.scanned.map(|place| place.height);
        let Some(before) = from.checked_sub(1).and_then(|before| Some(before.min(tip?))) else {
            // Nothing is held before the first block, unless what came before was pruned.
            return match known_from {
                Some(known_from) if from <= known_from && tip.is_some() => {
                    Err(WalletError::HistoryPruned { height: from, known_from })
                }
                Some(_) | None => Ok((from, 0)),
            };
        };
        Ok((from, self.balance_as_of(wallet, before)?.sats.into()))
    }
}
