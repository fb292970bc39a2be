//! Coins that are asked for by name.

use std::collections::{BTreeSet, HashMap};

use unspent_model::{
    Outpoint,
    wallet::{
        LockId,
        maturity::{self, ChainTip},
    },
};
use unspent_sql::{Arg, Column, Row, RowId, Tx};

use super::{
    ChosenCoin, CoinChoice, candidate,
    candidates::NAMED,
    time_locks::{TimeLocks, refusal},
};
use crate::{
    error::WalletError,
    ids::model_outpoint,
    rows::{opt_lock, opt_txid, status},
    wallet_info::KeychainPurpose,
};

impl CoinChoice<'_> {
    /// The coins asked for by name. They must be live, mature, unspent, not frozen, of the account
    /// that is paid from, and not held by somebody else.
    pub(super) fn required(
        &self,
        tx: &mut Tx<'_>,
        account: Option<RowId>,
        lock: Option<LockId>,
    ) -> Result<Vec<ChosenCoin>, WalletError> {
        let require = &self.policy.require;
        if require.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<Outpoint> = require.iter().map(|coin| model_outpoint(*coin)).collect();
        let keys = [
            Column::blobs(names.iter().map(|coin| coin.tx.0)),
            Column::ints(names.iter().map(|coin| i64::from(coin.index))),
        ];
        let scalars = [Arg::Int(self.wallet.id.0), Arg::Int(self.now.0)];
        let mut found = HashMap::new();
        let mut locks = TimeLocks::default();
        for row in tx.query_set(NAMED, &scalars, &keys)? {
            if let Some(coin) = self.spendable(&row, account, lock, &mut locks)? {
                found.insert(coin.outpoint, coin);
            }
        }
        let mut coins = Vec::new();
        // A coin named twice is still one input.
        for name in require.iter().collect::<BTreeSet<_>>() {
            coins.push(found.get(name).copied().ok_or(WalletError::CoinNotFound(*name))?);
        }
        Ok(coins)
    }

    fn spendable(
        &self,
        row: &Row,
        account: Option<RowId>,
        lock: Option<LockId>,
        locks: &mut TimeLocks,
    ) -> Result<Option<ChosenCoin>, WalletError> {
        let mut coin = candidate(row, true)?;
        let spender = opt_txid(row, "spent_by")?;
        // What the replaced transaction spends is ours to spend again, whoever leased it for that.
        coin.is_freed = spender.is_some() && spender == self.replaces;
        if let Some(holder) = opt_lock(row, "external_lock_id")?
            && Some(holder) != lock
            && !coin.is_freed
        {
            let expires_at = row.micros("expires_at")?;
            return Err(WalletError::AlreadyLeased { coin: coin.outpoint, holder, expires_at });
        }
        let name = coin.outpoint;
        let refuse =
            |why: &str| Err(WalletError::Payment(format!("coin {name} can't be spent: {why}")));
        if row.opt_micros("frozen_at")?.is_some() && !coin.is_freed {
            return Err(WalletError::CoinFrozen(name));
        }
        let owner = row.row_id("account_id")?;
        let is_foreign = account.is_some_and(|account| account != owner);
        if is_foreign && row.text("purpose")? != KeychainPurpose::Imported.name() {
            return refuse("it does not belong to the account that pays");
        }
        let height = row.opt_natural("block_height")?;
        let tip = ChainTip(self.wallet.tip());
        coin.time_lock = locks.of(row)?;
        if let Some(why) = refusal(coin.time_lock.spendability(height, tip)) {
            return refuse(&why);
        }
        let is_unspent = spender.is_none() || coin.is_freed;
        let is_mature = !row.flag("is_coinbase")? || maturity::wallet_may_spend(height, tip);
        Ok((status(row)?.is_live() && is_unspent && is_mature).then_some(coin))
    }
}
