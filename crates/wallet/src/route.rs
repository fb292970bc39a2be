//! Which wallets a transaction concerns: matched by index, never by scanning wallets.
//!
//! A block has thousands of transactions and a room may have thousands of wallets; comparing each
//! with each is out of the question. So scripts, outputs and names are asked for as sets, over all
//! wallets at once, and answer with the few that care.
//!
//! A wallet is concerned when an output pays one of its scripts, when an input spends one of its
//! coins, when it stores a transaction that spends the same output (a conflict, be the output ours
//! or not), or when it stores the transaction itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bitcoin::{Transaction, Txid};
use unspent_model::{Outpoint, TxId};
use unspent_sql::{Column, Row, Set, SqlError, Tx};

use crate::{
    descriptor::script_hash,
    error::WalletError,
    record::TxSource,
    room::{WalletId, model_outpoint, model_txid},
    rows::{prevout, txid},
    watch::Watch,
};

/// A transaction that was seen, taken apart as far as routing and planning need.
pub(crate) struct SeenTx<'t> {
    pub(crate) tx: &'t Transaction,
    pub(crate) txid: TxId,
    pub(crate) source: TxSource,
    pub(crate) fee: Option<u64>,
    /// What it spends; nothing for a coinbase, whose one input names no output.
    pub(crate) inputs: Vec<Outpoint>,
    /// The hash of each output's script, by which owners are found.
    pub(crate) scripts: Vec<[u8; 32]>,
    pub(crate) is_coinbase: bool,
}

impl<'t> SeenTx<'t> {
    pub(crate) fn new(tx: &'t Transaction, txid: Txid, source: TxSource) -> Self {
        let is_coinbase = tx.is_coinbase();
        let inputs = tx.input.iter().map(|input| model_outpoint(input.previous_output));
        Self {
            tx,
            txid: model_txid(txid),
            source,
            fee: None,
            inputs: if is_coinbase { Vec::new() } else { inputs.collect() },
            scripts: tx.output.iter().map(|output| script_hash(&output.script_pubkey)).collect(),
            is_coinbase,
        }
    }
}

/// An address that a script belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) wallet: WalletId,
    pub(crate) address: i64,
    pub(crate) keychain: i64,
    pub(crate) index: u32,
}

impl Owner {
    fn read(row: &Row) -> Result<Self, SqlError> {
        Ok(Self {
            wallet: WalletId(row.int("wallet_id")?),
            address: row.int("id")?,
            keychain: row.int("keychain_id")?,
            index: row.index("address_index")?,
        })
    }
}

/// What a batch means to wallets.
#[derive(Default)]
pub(crate) struct Routes {
    /// Owners of scripts paid in the batch.
    pub(crate) owners: HashMap<[u8; 32], Vec<Owner>>,
    /// For each wallet, the places of the transactions that concern it.
    pub(crate) concerned: BTreeMap<WalletId, BTreeSet<usize>>,
}

const BY_SCRIPT: Set = Set {
    sqlite: "SELECT script_hash, wallet_id, id, keychain_id, address_index FROM addresses
        WHERE script_hash = $1",
    postgres: "SELECT a.script_hash, a.wallet_id, a.id, a.keychain_id, a.address_index
        FROM UNNEST($1::bytea[]) k (h) JOIN addresses a ON a.script_hash = k.h",
};
const BY_PREVOUT: Set = Set {
    sqlite: "SELECT prev_tx_hash, prev_output_index, wallet_id FROM tx_inputs
        WHERE prev_tx_hash = $1 AND prev_output_index = $2",
    postgres: "SELECT i.prev_tx_hash, i.prev_output_index, i.wallet_id
        FROM UNNEST($1::bytea[], $2::bigint[]) k (h, n)
        JOIN tx_inputs i ON i.prev_tx_hash = k.h AND i.prev_output_index = k.n",
};
/// The offset keeps PostgreSQL from starting with all coins of an index: on young tables it takes
/// that for selective, and nearly every coin is output 0 or 1.
const BY_COIN: Set = Set {
    sqlite: "SELECT t.tx_hash AS prev_tx_hash, u.output_index AS prev_output_index, t.wallet_id
        FROM transactions t
        JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $2
        WHERE t.tx_hash = $1",
    postgres: "SELECT t.tx_hash AS prev_tx_hash, u.output_index AS prev_output_index, t.wallet_id
        FROM UNNEST($1::bytea[], $2::bigint[]) k (h, n)
        JOIN transactions t ON t.tx_hash = k.h
        CROSS JOIN LATERAL (SELECT c.output_index FROM utxos c WHERE c.wallet_id = t.wallet_id
            AND c.tx_id = t.id AND c.output_index = k.n OFFSET 0) u",
};
const BY_TXID: Set = Set {
    sqlite: "SELECT tx_hash, wallet_id FROM transactions WHERE tx_hash = $1",
    postgres: "SELECT t.tx_hash, t.wallet_id
        FROM UNNEST($1::bytea[]) k (h) JOIN transactions t ON t.tx_hash = k.h",
};

/// Routes a batch to the wallets that `allowed` lets in. The database is asked only for what the
/// watch can't rule out.
pub(crate) fn route(
    tx: &mut Tx<'_>,
    batch: &[SeenTx<'_>],
    watch: &Watch,
    allowed: &dyn Fn(WalletId) -> bool,
) -> Result<Routes, WalletError> {
    let mut routes = Routes::default();
    let paid = batch.iter().flat_map(|seen| seen.tx.output.iter().zip(&seen.scripts));
    let scripts: HashSet<[u8; 32]> = paid
        .filter(|(output, _)| watch.may_hold_script(&output.script_pubkey))
        .map(|(_, hash)| *hash)
        .collect();
    for row in tx.query_set(BY_SCRIPT, &[], &[Column::blobs(&scripts)])? {
        let owner = Owner::read(&row)?;
        if allowed(owner.wallet) {
            routes.owners.entry(row.hash("script_hash")?).or_default().push(owner);
        }
    }
    let mut stored = stored_interest(tx, batch, watch)?;
    stored.txs.values_mut().for_each(|wallets| wallets.retain(|wallet| allowed(*wallet)));
    stored.outpoints.values_mut().for_each(|wallets| wallets.retain(|wallet| allowed(*wallet)));
    routes.stored_concerns(batch, stored);
    Ok(routes)
}

/// Who has an interest in an output or a transaction because of what is stored.
struct Interest {
    outpoints: HashMap<Outpoint, BTreeSet<WalletId>>,
    txs: HashMap<TxId, BTreeSet<WalletId>>,
}

fn stored_interest(
    tx: &mut Tx<'_>,
    batch: &[SeenTx<'_>],
    watch: &Watch,
) -> Result<Interest, WalletError> {
    let inputs = batch.iter().flat_map(|seen| seen.inputs.iter().copied());
    let inputs: HashSet<Outpoint> = inputs.filter(|input| watch.may_name(&input.tx)).collect();
    let keys = [
        Column::blobs(inputs.iter().map(|input| input.tx.0)),
        Column::ints(inputs.iter().map(|input| i64::from(input.index))),
    ];
    let mut found = Interest { outpoints: HashMap::new(), txs: HashMap::new() };
    for set in [BY_PREVOUT, BY_COIN] {
        for row in tx.query_set(set, &[], &keys)? {
            let wallet = WalletId(row.int("wallet_id")?);
            found.outpoints.entry(prevout(&row)?).or_default().insert(wallet);
        }
    }
    let names = batch.iter().map(|seen| seen.txid).filter(|txid| watch.may_name(txid));
    let names = [Column::blobs(names.map(|txid| txid.0))];
    for row in tx.query_set(BY_TXID, &[], &names)? {
        let wallet = WalletId(row.int("wallet_id")?);
        found.txs.entry(txid(&row, "tx_hash")?).or_default().insert(wallet);
    }
    Ok(found)
}

impl Routes {
    fn stored_concerns(&mut self, batch: &[SeenTx<'_>], stored: Interest) {
        for (place, seen) in batch.iter().enumerate() {
            let by_txid = stored.txs.get(&seen.txid).into_iter().flatten();
            let by_input = seen.inputs.iter().filter_map(|input| stored.outpoints.get(input));
            let wallets: Vec<WalletId> = by_txid.chain(by_input.flatten()).copied().collect();
            for wallet in wallets {
                self.concerned.entry(wallet).or_default().insert(place);
            }
        }
        self.concern_again(batch);
    }

    /// Adds what follows from the batch itself: payments, spends of those payments, and conflicts
    /// between members; repeated until nothing new is found.
    pub(crate) fn concern_again(&mut self, batch: &[SeenTx<'_>]) {
        let mut interest: HashMap<Outpoint, BTreeSet<WalletId>> = HashMap::new();
        for (place, seen) in batch.iter().enumerate() {
            for (index, script) in (0_u32..).zip(&seen.scripts) {
                for owner in self.owners.get(script).into_iter().flatten() {
                    self.concerned.entry(owner.wallet).or_default().insert(place);
                    let coin = Outpoint::new(seen.txid, index);
                    interest.entry(coin).or_default().insert(owner.wallet);
                }
            }
        }
        // A member that concerns a wallet makes its inputs a matter of that wallet's, and so every
        // other member that spends one of them; which may come earlier in the batch.
        loop {
            let mut grew = false;
            for (wallet, places) in &self.concerned {
                for input in places.iter().filter_map(|at| batch.get(*at)).flat_map(|p| &p.inputs) {
                    grew |= interest.entry(*input).or_default().insert(*wallet);
                }
            }
            for (place, seen) in batch.iter().enumerate() {
                for wallet in seen.inputs.iter().filter_map(|i| interest.get(i)).flatten() {
                    grew |= self.concerned.entry(*wallet).or_default().insert(place);
                }
            }
            if !grew {
                return;
            }
        }
    }
}
