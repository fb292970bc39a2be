//! Which wallets a transaction concerns: matched by index, never by scanning wallets.
//!
//! A block has thousands of transactions and a room may have thousands of wallets; comparing each
//! with each is out of the question. So scripts, outputs and names are asked for as sets, over all
//! wallets at once, and answer with the few that care.
//!
//! A wallet is concerned when an output pays one of its scripts, when an input spends one of its
//! coins, when it stores a transaction that spends the same output (a conflict, be the output ours
//! or not), or when it stores the transaction itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, btree_map::Entry};

use bitcoin::{Transaction, Txid};
use unspent_model::{
    Outpoint, TxId,
    wallet::{AddressId, KnownFacts},
};
use unspent_sql::{Backend, BulkStatement, Column, Row, RowId, SqlError, Tx};

use crate::{
    batch::TxSource,
    descriptor::script_hash,
    error::WalletError,
    ids::{WalletId, model_outpoint, model_txid},
    keychains::KeychainState,
    placed_block::PlacedBlock,
    watch::WatchFilter,
};

/// A transaction that was seen, taken apart as far as routing and planning need.
pub(crate) struct SeenTx<'t> {
    pub(crate) tx: &'t Transaction,
    pub(crate) txid: TxId,
    pub(crate) source: TxSource,
    pub(crate) fee: Option<u64>,
    /// Wallets that are not told of it.
    pub(crate) known_to: &'t [WalletId],
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
            known_to: &[],
            inputs: if is_coinbase { Vec::new() } else { inputs.collect() },
            scripts: tx.output.iter().map(|output| script_hash(&output.script_pubkey)).collect(),
            is_coinbase,
        }
    }
}

impl PlacedBlock {
    /// Its transactions, each seen at its place.
    pub(crate) fn seen_txs(&self) -> Vec<SeenTx<'_>> {
        let block = self.reference();
        let named = (0_u64..).zip(self.block.txdata.iter().zip(self.txids.iter()));
        let seen =
            named.map(|(place, (tx, txid))| SeenTx::new(tx, *txid, TxSource::Block(block, place)));
        seen.collect()
    }
}

/// An address that a script belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScriptOwner {
    pub(crate) wallet: WalletId,
    pub(crate) address: AddressId,
    pub(crate) keychain: RowId,
    pub(crate) index: u32,
    pub(crate) is_used: bool,
}

impl ScriptOwner {
    fn read(row: &Row) -> Result<Self, SqlError> {
        Ok(Self {
            wallet: WalletId(row.int("wallet_id")?),
            address: AddressId(row.int("id")?),
            keychain: row.row_id("keychain_id")?,
            index: row.index("n")?,
            is_used: row.flag("is_used")?,
        })
    }
}

/// What a batch means to wallets.
#[derive(Default)]
pub(crate) struct BatchRoutes {
    /// Owners of scripts paid in the batch.
    pub(crate) owners: HashMap<[u8; 32], Vec<ScriptOwner>>,
    /// The chains those belong to.
    pub(crate) chains: BTreeMap<(WalletId, RowId), KeychainState>,
    /// For each wallet, the places of the transactions that concern it.
    pub(crate) concerned: BTreeMap<WalletId, BTreeSet<usize>>,
    stored: StoredNames,
}

/// What wallets store of the outputs and transactions that a batch names. What isn't among it they
/// don't store: nobody has to ask again.
#[derive(Default)]
struct StoredNames {
    txs: HashSet<(WalletId, TxId)>,
    coins: HashSet<(WalletId, Outpoint)>,
    spent: HashSet<(WalletId, Outpoint)>,
    parents: HashSet<(WalletId, TxId)>,
}

/// What kind of row an answer is, in the column `kind`.
const SCRIPT: i64 = 1;
const SPENT: i64 = 2;
const PARENT: i64 = 3;
const STORED: i64 = 4;
const CHILD: i64 = 5;

/// Owners of scripts, with their chains.
const OWNERS: BulkStatement = BulkStatement {
    sqlite: "SELECT 1 AS kind, d.script_hash AS hash, d.address_index AS n, d.wallet_id, d.id,
            d.is_used, d.keychain_id, c.descriptor, c.purpose, c.next_index, c.last_used,
            c.derived_to
        FROM addresses d /*by uidx_addresses_script*/
        CROSS JOIN keychains c ON c.wallet_id = d.wallet_id AND c.id = d.keychain_id
        WHERE d.script_hash = $1",
    postgres: "",
};
/// Stored spenders of outputs.
const SPENDERS: BulkStatement = BulkStatement {
    sqlite: "SELECT 2 AS kind, prev_tx_hash AS hash, prev_output_index AS n, wallet_id
        FROM tx_inputs WHERE prev_tx_hash = $1 AND prev_output_index = $2",
    postgres: "",
};
/// Stored transactions whose outputs are spent, and whether the output is a coin of ours.
const PARENTS: BulkStatement = BulkStatement {
    sqlite: "SELECT 3 AS kind, t.tx_hash AS hash, u.output_index AS n, t.wallet_id
        FROM transactions t /*by uidx_transactions_hash*/
        LEFT JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $2
        WHERE t.tx_hash = $1",
    postgres: "",
};
const NAMES: BulkStatement = BulkStatement {
    sqlite: "SELECT 4 AS kind, tx_hash AS hash, wallet_id FROM transactions WHERE tx_hash = $1",
    postgres: "",
};
const CHILDREN: BulkStatement = BulkStatement {
    sqlite: "SELECT 5 AS kind, prev_tx_hash AS hash, wallet_id FROM tx_inputs
        WHERE prev_tx_hash = $1",
    postgres: "",
};
/// The same five questions in one statement. The offset keeps PostgreSQL from starting with all
/// coins of an index: on young tables it takes that for selective, and nearly every coin is output
/// 0 or 1.
const TOGETHER: &str = "SELECT 1::bigint AS kind, d.script_hash AS hash, d.address_index AS n,
        d.wallet_id, d.id, d.is_used, d.keychain_id, c.descriptor, c.purpose, c.next_index,
        c.last_used, c.derived_to
    FROM UNNEST($1::bytea[]) k (h)
    JOIN addresses d ON d.script_hash = k.h
    JOIN keychains c ON c.wallet_id = d.wallet_id AND c.id = d.keychain_id
    UNION ALL
    SELECT 2, i.prev_tx_hash, i.prev_output_index, i.wallet_id,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM UNNEST($2::bytea[], $3::bigint[]) k (h, n)
    JOIN tx_inputs i ON i.prev_tx_hash = k.h AND i.prev_output_index = k.n
    UNION ALL
    SELECT 3, t.tx_hash, u.output_index, t.wallet_id,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM UNNEST($2::bytea[], $3::bigint[]) k (h, n)
    JOIN transactions t ON t.tx_hash = k.h
    LEFT JOIN LATERAL (SELECT x.output_index FROM utxos x WHERE x.wallet_id = t.wallet_id
        AND x.tx_id = t.id AND x.output_index = k.n OFFSET 0) u ON TRUE
    UNION ALL
    SELECT 4, t.tx_hash, NULL, t.wallet_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM UNNEST($4::bytea[]) k (h) JOIN transactions t ON t.tx_hash = k.h
    UNION ALL
    SELECT 5, i.prev_tx_hash, NULL, i.wallet_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM UNNEST($4::bytea[]) k (h) JOIN tx_inputs i ON i.prev_tx_hash = k.h";

/// Routes a batch to the wallets that `allowed` lets in. The database is asked only for what the
/// watch can't rule out.
pub(crate) fn route(
    tx: &mut Tx<'_>,
    batch: &[SeenTx<'_>],
    watch: &WatchFilter,
    allowed: &dyn Fn(WalletId) -> bool,
) -> Result<BatchRoutes, WalletError> {
    let mut routes = BatchRoutes::default();
    for row in ask(tx, batch, watch)? {
        let wallet = WalletId(row.int("wallet_id")?);
        if allowed(wallet) {
            routes.note(wallet, &row)?;
        }
    }
    routes.stored_concerns(batch);
    Ok(routes)
}

fn ask(
    tx: &mut Tx<'_>,
    batch: &[SeenTx<'_>],
    watch: &WatchFilter,
) -> Result<Vec<Row>, WalletError> {
    let paid = batch.iter().flat_map(|seen| seen.tx.output.iter().zip(&seen.scripts));
    let scripts: HashSet<[u8; 32]> = paid
        .filter(|(output, _)| watch.may_hold_script(&output.script_pubkey))
        .map(|(_, hash)| *hash)
        .collect();
    let inputs = batch.iter().flat_map(|seen| seen.inputs.iter().copied());
    let inputs: HashSet<Outpoint> = inputs.filter(|input| watch.may_name(&input.tx)).collect();
    let names = batch.iter().map(|seen| seen.txid).filter(|txid| watch.may_name(txid));
    let columns = [
        Column::blobs(&scripts),
        Column::blobs(inputs.iter().map(|input| input.tx.0)),
        Column::ints(inputs.iter().map(|input| i64::from(input.index))),
        Column::blobs(names.map(|txid| txid.0)),
    ];
    if columns.iter().all(Column::is_empty) {
        return Ok(Vec::new());
    }
    // One trip to the server in place of five; inside the process there is no trip to save.
    if tx.backend() == Backend::Postgres {
        return Ok(tx.query_columns(TOGETHER, &columns)?);
    }
    let [scripts, hashes, places, names] = columns;
    let outpoints = [hashes, places];
    let mut rows = tx.query_set(OWNERS, &[], &[scripts])?;
    for set in [SPENDERS, PARENTS] {
        rows.extend(tx.query_set(set, &[], &outpoints)?);
    }
    let names = [names];
    for set in [NAMES, CHILDREN] {
        rows.extend(tx.query_set(set, &[], &names)?);
    }
    Ok(rows)
}

impl BatchRoutes {
    /// Notes one row of the answer.
    fn note(&mut self, wallet: WalletId, row: &Row) -> Result<(), WalletError> {
        let hash = row.hash("hash")?;
        match row.int("kind")? {
            SCRIPT => {
                let owner = ScriptOwner::read(row)?;
                self.owners.entry(hash).or_default().push(owner);
                if let Entry::Vacant(place) = self.chains.entry((wallet, owner.keychain)) {
                    place.insert(KeychainState::read(row)?);
                }
            }
            SPENT => {
                self.stored.spent.insert((wallet, Outpoint::new(TxId(hash), row.index("n")?)));
            }
            PARENT => {
                self.stored.txs.insert((wallet, TxId(hash)));
                if let Some(index) = row.opt_index("n")? {
                    self.stored.coins.insert((wallet, Outpoint::new(TxId(hash), index)));
                }
            }
            STORED => {
                self.stored.txs.insert((wallet, TxId(hash)));
            }
            CHILD => {
                self.stored.parents.insert((wallet, TxId(hash)));
            }
            _ => return Err(WalletError::Bug("an answer of no known kind")),
        }
        Ok(())
    }

    /// What is known of a transaction to be planned, before anything is loaded: mostly that there
    /// is nothing.
    pub(crate) fn hand_on(&self, wallet: WalletId, seen: &SeenTx<'_>, facts: &mut KnownFacts) {
        let stored = &self.stored;
        if !stored.txs.contains(&(wallet, seen.txid)) {
            facts.txs.entry(seen.txid).or_insert(None);
        }
        if !stored.parents.contains(&(wallet, seen.txid)) {
            facts.children.entry(seen.txid).or_default();
        }
        for input in &seen.inputs {
            if !stored.txs.contains(&(wallet, input.tx)) {
                facts.txs.entry(input.tx).or_insert(None);
            }
            if !stored.spent.contains(&(wallet, *input)) {
                facts.spenders.entry(*input).or_default();
            }
            if !stored.coins.contains(&(wallet, *input)) {
                facts.coins.entry(*input).or_insert(None);
            }
        }
    }

    fn stored_concerns(&mut self, batch: &[SeenTx<'_>]) {
        let mut by_tx: HashMap<TxId, BTreeSet<WalletId>> = HashMap::new();
        let mut by_outpoint: HashMap<Outpoint, BTreeSet<WalletId>> = HashMap::new();
        for (wallet, txid) in &self.stored.txs {
            by_tx.entry(*txid).or_default().insert(*wallet);
        }
        for (wallet, outpoint) in self.stored.spent.iter().chain(&self.stored.coins) {
            by_outpoint.entry(*outpoint).or_default().insert(*wallet);
        }
        for (place, seen) in batch.iter().enumerate() {
            let own = by_tx.get(&seen.txid).into_iter().flatten();
            let by_input = seen.inputs.iter().filter_map(|input| by_outpoint.get(input));
            for wallet in own.chain(by_input.flatten()) {
                self.concerned.entry(*wallet).or_default().insert(place);
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
