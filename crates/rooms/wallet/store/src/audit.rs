//! Recomputing what is stored from the facts it rests on, and naming every difference.
//!
//! The facts are the transactions with their inputs and blocks; what is recomputed are the spenders
//! of coins, the liveness of families, the credits against the raw transactions, the confirmed
//! totals, and what the history of debits and credits comes to, block by block.

use std::collections::{BTreeMap, HashMap};

use bitcoin::{Transaction, consensus::encode};
use unspent_model::{
    Micros, Outpoint, TxId,
    wallet::{StoredTx, TxStatus, facts::NeededFacts},
};
use unspent_sql::{Arg, Tx};

use crate::{
    error::WalletError,
    ids::{WalletId, bitcoin_outpoint, bitcoin_txid, model_txid},
    load::{LoadedFacts, inputs_of},
    rows::{prevout, txid},
    store::WalletStore,
    wallet_row::WalletRow,
};

const HASHES: &str = "SELECT tx_hash, id, raw_tx FROM transactions
    WHERE wallet_id = $1 AND id > $2 ORDER BY id LIMIT $3";
const STRAY_LEASES: &str = "SELECT COUNT(*) AS rows FROM utxo_leases l WHERE l.wallet_id = $1
    AND NOT EXISTS (SELECT 1 FROM utxos u WHERE u.wallet_id = l.wallet_id AND u.id = l.utxo_id)";
const TX_BLOCKS: &str = "SELECT COUNT(*) AS rows FROM transactions t WHERE t.wallet_id = $1
    AND t.block_height IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.block_height = t.block_height)";

/// What inputs spent whose coins a prune took.
const PRUNED: &str = "SELECT t.tx_hash, i.prev_tx_hash, i.prev_output_index, i.pruned_amount
    FROM tx_inputs i JOIN /*then*/ transactions t /*by pidx_transactions*/
        ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
    WHERE i.wallet_id = $1 AND i.pruned_amount IS NOT NULL";

/// Transactions read at once.
const PAGE: i64 = 1_000;

impl WalletStore {
    /// Checks one wallet; an empty list means that everything agrees.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn audit(&self, wallet: WalletId) -> Result<Vec<String>, WalletError> {
        self.door.read(move |tx| {
            let row = WalletRow::read(tx, wallet)?;
            let mut audit = AuditRun { found: Vec::new(), loaded: LoadedFacts::default() };
            audit.read(tx, wallet)?;
            audit.spenders();
            audit.families();
            audit.totals(&row);
            audit.history(tx, &row)?;
            audit.strays(tx, wallet)?;
            Ok(audit.found)
        })
    }
}

struct AuditRun {
    found: Vec<String>,
    loaded: LoadedFacts,
}

impl AuditRun {
    /// Reads everything, page by page, and checks raw bytes against names, inputs and credits.
    fn read(&mut self, tx: &mut Tx<'_>, wallet: WalletId) -> Result<(), WalletError> {
        let mut after = 0;
        loop {
            let args = [Arg::Int(wallet.0), Arg::Int(after), Arg::Int(PAGE)];
            let rows = tx.query(HASHES, &args)?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.row_id("id")?.0;
            let mut needs = NeededFacts::default();
            for row in &rows {
                needs.txs.insert(txid(row, "tx_hash")?);
                needs.credits.insert(txid(row, "tx_hash")?);
            }
            // Leases have no part in what is recomputed, so any time will do.
            self.loaded.load(tx, wallet, &needs, Micros(i64::MIN))?;
            let ids = rows.iter().map(|row| row.row_id("id")).collect::<Result<Vec<_>, _>>()?;
            let mut inputs = inputs_of(tx, wallet, ids)?;
            for row in &rows {
                let stored = inputs.remove(&row.row_id("id")?).unwrap_or_default();
                self.check_raw(txid(row, "tx_hash")?, &row.blob("raw_tx")?, &stored);
            }
        }
    }

    fn check_raw(&mut self, txid: TxId, raw: &[u8], inputs: &[Outpoint]) {
        let name = bitcoin_txid(txid);
        let Ok(tx) = encode::deserialize::<Transaction>(raw) else {
            return self.found.push(format!("{name}: its raw bytes can't be read"));
        };
        if model_txid(tx.compute_txid()) != txid {
            self.found.push(format!("{name}: its raw bytes belong to another transaction"));
        }
        let spent = tx.input.iter().map(|input| crate::ids::model_outpoint(input.previous_output));
        // The one input of a coinbase names no output, and is not stored.
        let spent: Vec<Outpoint> = if tx.is_coinbase() { Vec::new() } else { spent.collect() };
        if spent != inputs {
            self.found.push(format!("{name}: its stored inputs differ from its raw bytes"));
        }
        for index in self.loaded.facts.credits.get(&txid).into_iter().flatten() {
            let outpoint = Outpoint::new(txid, *index);
            let stored = self.loaded.facts.coins.get(&outpoint).copied().flatten();
            let place = usize::try_from(*index).unwrap_or(usize::MAX);
            let real = tx.output.get(place).map(|output| output.value.to_sat());
            if real != stored.map(|coin| coin.amount) {
                let coin = bitcoin_outpoint(outpoint);
                self.found.push(format!("{coin}: its amount differs from the raw transaction"));
            }
        }
    }

    fn txs(&self) -> impl Iterator<Item = &StoredTx> {
        self.loaded.facts.txs.values().flatten()
    }

    /// A coin's spender must be the one live transaction that spends it.
    fn spenders(&mut self) {
        let mut live: HashMap<Outpoint, (TxId, u32)> = HashMap::new();
        let mut twice = Vec::new();
        for tx in self.txs().filter(|tx| tx.is_live()) {
            for (at, input) in (0_u32..).zip(&tx.inputs) {
                if live.insert(*input, (tx.txid, at)).is_some() {
                    twice.push(format!(
                        "{}: two live transactions spend it",
                        bitcoin_outpoint(*input)
                    ));
                }
            }
        }
        self.found.extend(twice);
        let mut wrong = Vec::new();
        for (outpoint, coin) in &self.loaded.facts.coins {
            let Some(coin) = coin else { continue };
            if coin.spent_by != live.get(outpoint).copied() {
                let name = bitcoin_outpoint(*outpoint);
                wrong.push(format!(
                    "{name}: its spender is not the live transaction that spends it"
                ));
            }
        }
        self.found.extend(wrong);
    }

    /// A live, unconfirmed transaction has no dead parent.
    fn families(&mut self) {
        let mut wrong = Vec::new();
        // A block proves its transactions, whatever is believed of their parents.
        for tx in self.txs().filter(|tx| tx.is_live() && tx.confirmed.is_none()) {
            let parents = tx.inputs.iter().filter_map(|input| self.loaded.facts.txs.get(&input.tx));
            if parents.flatten().any(|parent| !parent.is_live()) {
                wrong.push(format!("{}: it is live but a parent is not", bitcoin_txid(tx.txid)));
            }
        }
        self.found.extend(wrong);
    }

    fn totals(&mut self, row: &WalletRow) {
        let (mut sats, mut coins) = (0_i128, 0_i64);
        for (outpoint, coin) in &self.loaded.facts.coins {
            let Some(coin) = coin.filter(|coin| coin.spent_by.is_none()) else { continue };
            let maker = self.loaded.facts.txs.get(&outpoint.tx).and_then(Option::as_ref);
            let counts =
                maker.is_some_and(|tx| tx.confirmed.is_some() && tx.status == TxStatus::Published);
            if counts {
                sats += i128::from(coin.amount);
                coins += 1;
            }
        }
        if (sats, coins) != (i128::from(row.confirmed_amount), row.confirmed_coins) {
            self.found.push(format!(
                "the stored confirmed total is {} sats in {} coins, but the coins add up to \
                 {sats} in {coins}",
                row.confirmed_amount, row.confirmed_coins
            ));
        }
    }

    /// What came in and went out, block by block, must never be less than nothing and must come to
    /// what is held now. What a prune took is known by what its spenders kept of it.
    fn history(&mut self, tx: &mut Tx<'_>, row: &WalletRow) -> Result<(), WalletError> {
        let pruned = self.pruned(tx, row.id)?;
        self.fees(&pruned);
        let (mut held, mut by_height) = (0, BTreeMap::<u64, i128>::new());
        for tx in self.txs().filter(|tx| tx.status == TxStatus::Published) {
            let Some(height) = tx.confirmed.map(|place| place.height) else { continue };
            let amounts = tx.inputs.iter().filter_map(|input| pruned.get(&(tx.txid, *input)));
            let before: i128 = amounts.copied().map(i128::from).sum();
            // Pruned coins were there before anything that is still known.
            held += before;
            *by_height.entry(height).or_default() += self.credit(tx) - before;
            for (made_at, amount) in self.debits(tx) {
                // A coin can't go before it came, whatever the order in which blocks tell of it.
                *by_height.entry(height.max(made_at)).or_default() -= amount;
            }
        }
        for (height, net) in by_height {
            held += net;
            if held < 0 {
                self.found.push(format!("after block {height} its history adds up to {held} sats"));
            }
        }
        // The kept total lets a coin go with any live spend, the history only with a confirmed one.
        let expected = i128::from(row.confirmed_amount) + self.leaving();
        if held != expected {
            self.found.push(format!(
                "its history adds up to {held} confirmed sats, its coins to {expected}"
            ));
        }
        Ok(())
    }

    /// What inputs keep of coins that are gone; a coin that is there must agree.
    fn pruned(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: WalletId,
    ) -> Result<HashMap<(TxId, Outpoint), u64>, WalletError> {
        let mut pruned = HashMap::new();
        for input in tx.query(PRUNED, &[Arg::Int(wallet.0)])? {
            let (coin, amount) = (prevout(&input)?, input.natural("pruned_amount")?);
            match self.loaded.facts.coins.get(&coin).copied().flatten() {
                None => {
                    pruned.insert((txid(&input, "tx_hash")?, coin), amount);
                }
                Some(there) if there.amount == amount => {}
                Some(_) => self.found.push(format!(
                    "{}: its spender has a different amount stored for it",
                    bitcoin_outpoint(coin)
                )),
            }
        }
        Ok(pruned)
    }

    /// A fee is what the inputs hold beyond the outputs, where all of them are known.
    fn fees(&mut self, pruned: &HashMap<(TxId, Outpoint), u64>) {
        let mut wrong = Vec::new();
        for tx in self.txs() {
            let amount = |input: &Outpoint| {
                let coin = self.loaded.facts.coins.get(input).copied().flatten();
                let kept = pruned.get(&(tx.txid, *input)).copied();
                coin.map(|coin| coin.amount).or(kept).map(i128::from)
            };
            let Some(fee) = tx.fee else { continue };
            let spent: Option<Vec<i128>> = tx.inputs.iter().map(amount).collect();
            let Some(spent) = spent.filter(|spent| !spent.is_empty()) else { continue };
            if spent.iter().sum::<i128>() - i128::from(tx.output_total) != i128::from(fee) {
                wrong.push(format!(
                    "{}: its fee is not inputs minus outputs",
                    bitcoin_txid(tx.txid)
                ));
            }
        }
        self.found.extend(wrong);
    }

    /// A coin that a confirmed transaction made: at which height, and what it holds.
    fn confirmed_coin(&self, coin: &Outpoint) -> Option<(u64, i128)> {
        let maker = self.loaded.facts.txs.get(&coin.tx)?.as_ref()?;
        let known = self.loaded.facts.coins.get(coin).copied().flatten()?;
        Some((maker.confirmed?.height, i128::from(known.amount)))
    }

    /// What a confirmed transaction brought.
    fn credit(&self, tx: &StoredTx) -> i128 {
        let credits = self.loaded.facts.credits.get(&tx.txid).into_iter().flatten();
        let coins = credits.map(|index| Outpoint::new(tx.txid, *index));
        coins.filter_map(|coin| self.confirmed_coin(&coin)).map(|(_, amount)| amount).sum()
    }

    /// What it took, by the confirmed coins that are still known.
    fn debits(&self, tx: &StoredTx) -> Vec<(u64, i128)> {
        tx.inputs.iter().filter_map(|input| self.confirmed_coin(input)).collect()
    }

    /// Confirmed coins that unconfirmed transactions spend.
    fn leaving(&self) -> i128 {
        let is_confirmed = |txid: &TxId| {
            let tx = self.loaded.facts.txs.get(txid).and_then(Option::as_ref);
            tx.is_some_and(|tx| tx.confirmed.is_some())
        };
        let coins = self.loaded.facts.coins.iter().filter_map(|(name, coin)| {
            let coin = (*coin)?;
            let (spender, _) = coin.spent_by?;
            (is_confirmed(&name.tx) && !is_confirmed(&spender)).then_some(i128::from(coin.amount))
        });
        coins.sum()
    }

    fn strays(&mut self, tx: &mut Tx<'_>, wallet: WalletId) -> Result<(), WalletError> {
        let checks =
            [(STRAY_LEASES, "leases without a coin"), (TX_BLOCKS, "confirmations without a block")];
        for (sql, what) in checks {
            let count = tx.one(sql, &[Arg::Int(wallet.0)])?.natural("rows")?;
            if count > 0 {
                self.found.push(format!("{count} {what}"));
            }
        }
        Ok(())
    }
}
