//! A wallet of another program into the tables, step by step inside one transaction.

use std::collections::HashMap;

use bitcoin::{OutPoint, ScriptBuf, Txid};
use unspent_model::{Micros, TxId, wallet::TxStatus};
use unspent_sql::{Arg, BulkStatement, Column, RowId, Tx};

use super::{AccountImport, ImportResult, LeaseImport, TxImport, WalletImport, compare::compare};
use crate::{
    additions::{FIND_ACCOUNT, ParsedAccount, account_row, add_account},
    apply_mode::ApplyMode,
    balance::balance,
    batch::{BlockRef, ObservedTx, TxBatch, TxSource},
    birthday::StoredBirthday,
    descriptor::{guessed_input_weight, script_hash},
    error::WalletError,
    ids::{WalletId, model_txid},
    keychains::{NewKeychain, extend, watch_one},
    lease,
    record::record,
    rows::txid,
    wallet_info::KeychainPurpose,
    wallet_row::{WalletRow, lock_room},
    wallets::{FIND_WALLET, INSERT_WALLET, TAKE_WALLET_ID},
};

/// Transactions recorded in one step.
const BATCH: usize = 500;

const CHAINS: &str = "SELECT id, purpose, descriptor FROM keychains
    WHERE wallet_id = $1 AND account_id = $2 ORDER BY id";
const ACCOUNT_OF: &str = "SELECT a.name FROM keychains k
    JOIN accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    WHERE k.wallet_id = $1 AND k.descriptor = $2";
const SCRIPT_KNOWN: &str = "SELECT id FROM addresses WHERE script_hash = $2 AND wallet_id = $1";
const USE_ADDRESS: BulkStatement = BulkStatement {
    sqlite: "UPDATE addresses SET is_used = TRUE
        WHERE wallet_id = $1 AND keychain_id = $2 AND address_index = $3 AND NOT is_used",
    postgres: "UPDATE addresses a SET is_used = TRUE
        FROM UNNEST($2::bigint[], $3::bigint[]) k (chain, n)
        WHERE a.wallet_id = $1 AND a.keychain_id = k.chain AND a.address_index = k.n
            AND NOT a.is_used",
};
const KNOWN_TXS: BulkStatement = BulkStatement {
    sqlite: "SELECT tx_hash, block_height FROM transactions WHERE wallet_id = $1 AND tx_hash = $2",
    postgres: "SELECT t.tx_hash, t.block_height FROM UNNEST($2::bytea[]) k (h)
        JOIN transactions t ON t.tx_hash = k.h AND t.wallet_id = $1",
};
const SET_RECEIVED: BulkStatement = BulkStatement {
    sqlite: "UPDATE transactions SET received_time = $3 WHERE wallet_id = $1 AND tx_hash = $2",
    postgres: "UPDATE transactions t SET received_time = k.at
        FROM UNNEST($2::bytea[], $3::bigint[]) k (h, at)
        WHERE t.tx_hash = k.h AND t.wallet_id = $1",
};
const ADD_LABEL: &str = "INSERT INTO labels (wallet_id, kind, ref, label) VALUES ($1, 'tx', $2, $3)
    ON CONFLICT (wallet_id, kind, ref) DO NOTHING";
const LEASE_OF: &str =
    "SELECT external_lock_id, expires_at FROM utxo_leases WHERE wallet_id = $1 AND utxo_id = $2";

/// Writes everything and compares.
pub(super) fn write(
    tx: &mut Tx<'_>,
    import: &WalletImport,
    accounts: &[ParsedAccount],
    now: Micros,
) -> Result<ImportResult, WalletError> {
    let (wallet, is_new) = find_or_make(tx, import, now)?;
    let mut step = ImportStep { tx, wallet, now };
    let accounts = step.accounts(import, accounts)?;
    let scripts = step.scripts(&import.scripts)?;
    let recorded = step.transactions(&import.txs)?;
    let has_gone_on = step.tip(import.tip)?;
    let labels = step.labels(&import.labels)?;
    let (leases, leases_left) = step.leases(&import.leases)?;
    let differences = compare(step.tx, wallet, &import.coins)?;
    let mut at = |minconf| Ok::<_, WalletError>((minconf, balance(step.tx, wallet, minconf, now)?));
    let balances = [at(1)?, at(2)?, at(6)?];
    Ok(ImportResult {
        wallet,
        is_new,
        has_gone_on,
        accounts,
        scripts,
        txs: recorded.new,
        confirmed: recorded.confirmed,
        coins: recorded.coins,
        labels,
        leases,
        leases_left,
        differences,
        balances,
    })
}

fn find_or_make(
    tx: &mut Tx<'_>,
    import: &WalletImport,
    now: Micros,
) -> Result<(WalletId, bool), WalletError> {
    let id = lock_room(tx)?;
    if let Some(row) = tx.maybe(FIND_WALLET, &[Arg::Text(&import.name)])? {
        return Ok((WalletId(row.row_id("id")?.0), false));
    }
    tx.execute(TAKE_WALLET_ID, &[])?;
    let birthday = StoredBirthday::new(import.birthday, import.born)?;
    let args = [
        Arg::Int(id.0),
        Arg::Text(&import.name),
        Arg::Int(now.0),
        Arg::Int(birthday.height),
        Arg::Int(import.gap_limit.into()),
        Arg::OptInt(birthday.time),
        Arg::Flag(birthday.time.is_some()),
    ];
    tx.execute(INSERT_WALLET, &args)?;
    Ok((id, true))
}

struct ImportStep<'s, 'c> {
    tx: &'s mut Tx<'c>,
    wallet: WalletId,
    now: Micros,
}

#[derive(Default)]
struct TxCounts {
    new: usize,
    confirmed: usize,
    coins: usize,
}

impl ImportStep<'_, '_> {
    /// Makes the accounts that are missing and derives every chain as far as the source did.
    fn accounts(
        &mut self,
        import: &WalletImport,
        parsed: &[ParsedAccount],
    ) -> Result<usize, WalletError> {
        let mut row = WalletRow::lock(self.tx, self.wallet)?;
        let mut made = 0;
        for (new, parsed) in import.accounts.iter().zip(parsed) {
            let args = [Arg::Int(self.wallet.0), Arg::Text(&parsed.name)];
            if self.tx.maybe(FIND_ACCOUNT, &args)?.is_none() {
                self.refuse_known_keys(parsed)?;
                add_account(self.tx, &mut row, parsed)?;
                made += 1;
            }
            self.chains(&mut row, new, parsed)?;
        }
        row.save(self.tx)?;
        Ok(made)
    }

    /// The same keys under another name would be two accounts that own the same coins.
    fn refuse_known_keys(&mut self, parsed: &ParsedAccount) -> Result<(), WalletError> {
        for (_, chain) in &parsed.chains {
            let descriptor = chain.to_string();
            let args = [Arg::Int(self.wallet.0), Arg::Text(&descriptor)];
            if let Some(row) = self.tx.maybe(ACCOUNT_OF, &args)? {
                let (here, there) = (row.text("name")?, &parsed.name);
                let why = format!("the keys of account `{there}` are already those of `{here}`");
                return Err(WalletError::Argument(why));
            }
        }
        Ok(())
    }

    fn chains(
        &mut self,
        row: &mut WalletRow,
        new: &AccountImport,
        parsed: &ParsedAccount,
    ) -> Result<(), WalletError> {
        let args = [Arg::Int(self.wallet.0), Arg::Text(&parsed.name)];
        let account = self.tx.one(FIND_ACCOUNT, &args)?.row_id("id")?;
        let known = self.tx.query(CHAINS, &[Arg::Int(self.wallet.0), Arg::Int(account.0)])?;
        for ((purpose, chain), next) in parsed.chains.iter().zip(new.next) {
            let (name, text) = (purpose.name(), chain.to_string());
            let same = known.iter().find(|known| {
                known.text("purpose").is_ok_and(|known| known == name)
                    && known.text("descriptor").is_ok_and(|known| known == text)
            });
            let Some(same) = same else {
                let why = format!("account `{}` already exists with other keys", parsed.name);
                return Err(WalletError::Argument(why));
            };
            let id = same.row_id("id")?;
            self.use_addresses(row, id, *purpose, next, new)?;
        }
        Ok(())
    }

    fn use_addresses(
        &mut self,
        row: &mut WalletRow,
        chain: RowId,
        purpose: KeychainPurpose,
        next: u32,
        new: &AccountImport,
    ) -> Result<(), WalletError> {
        let used = new.used.iter().filter(|(of, _)| *of == purpose).map(|(_, index)| *index);
        let used: Vec<u32> = used.collect();
        extend(self.tx, row, chain, used.iter().max().copied(), next)?;
        let columns = [
            Column::ints(used.iter().map(|_| chain.0)),
            Column::ints(used.iter().map(|index| i64::from(*index))),
        ];
        self.tx.execute_set(USE_ADDRESS, &[Arg::Int(self.wallet.0)], &columns)?;
        Ok(())
    }

    /// Watches scripts by themselves, unless an account already knows them.
    fn scripts(&mut self, scripts: &[ScriptBuf]) -> Result<usize, WalletError> {
        let mut row = WalletRow::lock(self.tx, self.wallet)?;
        let mut made = 0;
        for script in scripts {
            let hash = script_hash(script);
            let args = [Arg::Int(self.wallet.0), Arg::Blob(&hash)];
            if self.tx.maybe(SCRIPT_KNOWN, &args)?.is_some() {
                continue;
            }
            let account = account_row(self.tx, &mut row, "imported")?;
            let chain = row.new_id();
            let new = NewKeychain {
                id: chain,
                account,
                purpose: KeychainPurpose::Imported,
                descriptor: format!("raw({})", script.to_hex_string()),
                weight: guessed_input_weight(script),
            };
            new.insert(self.tx, &row)?;
            watch_one(self.tx, &mut row, chain, script)?;
            made += 1;
        }
        row.save(self.tx)?;
        Ok(made)
    }

    /// Records what isn't known yet, and confirmations of what is.
    fn transactions(&mut self, txs: &[TxImport]) -> Result<TxCounts, WalletError> {
        let mut counts = TxCounts::default();
        for part in txs.chunks(BATCH) {
            let named: Vec<(TxId, &TxImport)> =
                part.iter().map(|new| (model_txid(new.tx.compute_txid()), new)).collect();
            let known = self.known(named.iter().map(|(txid, _)| *txid))?;
            let news = named.iter().filter(|(txid, new)| match known.get(txid) {
                None => true,
                Some(height) => height.is_none() && new.block.is_some(),
            });
            let news: Vec<&(TxId, &TxImport)> = news.collect();
            let fresh: Vec<_> = news.iter().filter(|(txid, _)| !known.contains_key(txid)).collect();
            counts.new += fresh.len();
            counts.confirmed += news.len() - fresh.len();
            let batch = batch(news.iter().map(|(_, new)| *new));
            let done = record(self.tx, &batch, Some(self.wallet), ApplyMode::Isolated, self.now)?;
            counts.coins += done.new_coins;
            let columns = [
                Column::blobs(fresh.iter().map(|(txid, _)| txid.0)),
                Column::ints(fresh.iter().map(|(_, new)| new.received.0)),
            ];
            // Recording notes the present time, but the source saw them first.
            self.tx.execute_set(SET_RECEIVED, &[Arg::Int(self.wallet.0)], &columns)?;
        }
        Ok(counts)
    }

    /// Stored transactions of these names, each with its height.
    fn known(
        &mut self,
        names: impl Iterator<Item = TxId>,
    ) -> Result<HashMap<TxId, Option<u64>>, WalletError> {
        let names = [Column::blobs(names.map(|txid| txid.0))];
        let rows = self.tx.query_set(KNOWN_TXS, &[Arg::Int(self.wallet.0)], &names)?;
        let found = rows.iter().map(|row| Ok((txid(row, "tx_hash")?, height(row)?)));
        found.collect()
    }

    /// The wallet stands where the source stood, unless it has gone on since: then that is told.
    fn tip(&mut self, tip: Option<BlockRef>) -> Result<bool, WalletError> {
        let row = WalletRow::lock(self.tx, self.wallet)?;
        let Some(tip) = tip else { return Ok(row.tip().is_some()) };
        if let Some(here) = row.tip().filter(|here| *here >= tip.height) {
            return Ok(here > tip.height);
        }
        let batch = TxBatch { txs: Vec::new(), blocks: vec![tip], tip: Some(tip) };
        record(self.tx, &batch, Some(self.wallet), ApplyMode::Isolated, self.now)?;
        Ok(false)
    }

    fn labels(&mut self, labels: &[(Txid, String)]) -> Result<usize, WalletError> {
        let mut made = 0;
        for (txid, label) in labels {
            let reference = txid.to_string();
            let args = [Arg::Int(self.wallet.0), Arg::Text(&reference), Arg::Text(label)];
            // A label that is here stays: people may have changed it since the last import.
            made += usize::from(self.tx.execute(ADD_LABEL, &args)? > 0);
        }
        Ok(made)
    }

    /// Leases what can be leased; the rest is named.
    fn leases(&mut self, leases: &[LeaseImport]) -> Result<(usize, Vec<OutPoint>), WalletError> {
        let (mut taken, mut left) = (0, Vec::new());
        for lease in leases {
            let found = match lease::unspent(self.tx, self.wallet, &[lease.coin]) {
                Err(WalletError::CoinNotFound(_)) => {
                    left.push(lease.coin);
                    continue;
                }
                other => other?,
            };
            let Some((_, id)) = found.first() else { continue };
            let held = self.tx.maybe(LEASE_OF, &[Arg::Int(self.wallet.0), Arg::Int(id.0)])?;
            let held = held.filter(|row| row.micros("expires_at").is_ok_and(|end| end > self.now));
            if let Some(row) = held {
                if row.blob("external_lock_id")? != lease.lock.as_bytes() {
                    left.push(lease.coin);
                }
                continue;
            }
            // No time is near the ends of what can be counted.
            let duration = lease.expires_at.0.saturating_sub(self.now.0);
            let terms = lease::LeaseTerms { lock: lease.lock, duration, hold_confirmations: None };
            lease::take(self.tx, self.wallet, &found, &terms, self.now)?;
            taken += 1;
        }
        Ok((taken, left))
    }
}

fn height(row: &unspent_sql::Row) -> Result<Option<u64>, WalletError> {
    Ok(row.opt_natural("block_height")?)
}

fn batch<'n>(news: impl Iterator<Item = &'n TxImport>) -> TxBatch {
    let mut batch = TxBatch::default();
    for new in news {
        let source = match new.block {
            Some((block, place)) => {
                batch.blocks.push(block);
                TxSource::Block(block, place)
            }
            // The file is no node: what waits is believed once a mempool or a block has it.
            None => TxSource::Relayed,
        };
        batch.txs.push(ObservedTx::new(new.tx.clone(), source));
    }
    batch.blocks.dedup();
    batch
}

/// Whether a transaction of that status lost against another.
pub(super) fn has_lost(status: TxStatus) -> bool {
    matches!(status, TxStatus::Failed | TxStatus::Replaced)
}
