//! The one entry for transactions seen anywhere, in any order, as often as the teller likes.
//!
//! A batch is atomic with the wallet's tip: either all of it is recorded or nothing is. Recording
//! the same again changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bitcoin::{Transaction, Txid, consensus::encode};
use unspent_model::{
    BlockHash, Micros, Point, TxId,
    network::MOST_BITCOIN_MONEY,
    wallet::{Confirmation, SightingPlace, TxSighting, WalletEvent},
};
use unspent_sql::{Arg, RowId, SqlError, Tx};

use crate::{
    apply_mode::ApplyMode,
    apply_plan::{RawTxs, WalletShare, apply_plan, apply_plans},
    batch::{BlockRef, ObservedTx, RecordedChanges, TxBatch, TxSource},
    descriptor::script_hash,
    error::WalletError,
    ids::{WalletId, bitcoin_txid, model_txid, sql_int},
    keychains::DerivedScript,
    labels,
    load::LoadedFacts,
    route::{BatchRoutes, ScriptOwner, SeenTx, route},
    settled::settled,
    stopped::stop_or_fail,
    store::WalletStore,
    wallet_row::{WalletRow, lock_room},
    watch::WatchFilter,
    writes::PendingWrites,
};

impl WalletStore {
    /// Records a batch for all wallets it concerns.
    ///
    /// # Errors
    ///
    /// [`WalletError`]; nothing of the batch is kept then.
    pub fn record(&self, batch: &TxBatch, now: Micros) -> Result<RecordedChanges, WalletError> {
        if batch.tip.is_some() {
            let why = "a tip belongs to one wallet; apply blocks, or give the wallet";
            return Err(WalletError::Argument(why.into()));
        }
        let batch = batch.clone();
        self.batched_first(move |tx, mode| record(tx, &batch, None, mode, now))
    }

    /// Records a batch for one wallet. Every transaction must concern it.
    ///
    /// # Errors
    ///
    /// As for [`WalletStore::record`], and [`WalletError::NotOurs`].
    pub fn record_for(
        &self,
        wallet: WalletId,
        batch: &TxBatch,
        now: Micros,
    ) -> Result<RecordedChanges, WalletError> {
        let batch = batch.clone();
        self.batched_first_for(wallet, move |tx, mode| record(tx, &batch, Some(wallet), mode, now))
    }

    /// Marks a pending transaction as sent.
    ///
    /// # Errors
    ///
    /// [`WalletError::Refused`] when it isn't known or no longer valid.
    pub fn mark_broadcast(
        &self,
        wallet: WalletId,
        tx: Txid,
        now: Micros,
    ) -> Result<(), WalletError> {
        self.one_event(wallet, WalletEvent::Broadcast(model_txid(tx)), now)
    }

    /// Notes that a node's mempool no longer holds a transaction. Its status stays.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn mark_evicted(&self, wallet: WalletId, tx: Txid, now: Micros) -> Result<(), WalletError> {
        self.one_event(wallet, WalletEvent::Evicted(model_txid(tx)), now)
    }

    fn one_event(
        &self,
        wallet: WalletId,
        event: WalletEvent,
        now: Micros,
    ) -> Result<(), WalletError> {
        self.door.write_for(wallet.0, move |tx| {
            let mut row = WalletRow::lock(tx, wallet)?;
            apply_plan(tx, &mut row, std::slice::from_ref(&event), &RawTxs::new(), now)?;
            row.save(tx)
        })
    }
}

/// Records a batch inside an open transaction.
pub(crate) fn record(
    tx: &mut Tx<'_>,
    batch: &TxBatch,
    only: Option<WalletId>,
    mode: ApplyMode,
    now: Micros,
) -> Result<RecordedChanges, WalletError> {
    let needs_chain =
        batch.tip.is_some() || batch.txs.iter().any(|t| matches!(t.source, TxSource::Block(..)));
    if needs_chain {
        // Before any wallet's row, as whoever applies blocks takes them: in another order two
        // callers could wait for each other.
        lock_room(tx)?;
        check_blocks(tx, batch)?;
    }
    batch.txs.iter().try_for_each(|observed| check_money(&observed.tx))?;
    let txs: Vec<SeenTx<'_>> = batch.txs.iter().map(seen_tx).collect();
    let allowed = move |wallet: WalletId| only.is_none_or(|only| only == wallet);
    // Which rows to lock shows only by routing, which reads without a lock; so what it found is
    // asked once more under the locks.
    let mut routes = route(tx, &txs, &WatchFilter::off(), &allowed)?;
    let wallets: BTreeSet<WalletId> = routes.concerned.keys().copied().chain(only).collect();
    let mut rows = WalletRow::lock_all(tx, wallets.iter().copied())?;
    if let Some(gone) = wallets.iter().find(|wallet| !rows.contains_key(wallet)) {
        return Err(WalletError::NoWallet(gone.0.to_string()));
    }
    routes = still_the_same(tx, &txs, routes, &allowed)?;
    match only {
        Some(wallet) => all_concern(&txs, &routes, wallet)?,
        None => rows.retain(|_, row| !row.is_idle),
    }
    let mut recording = BatchRecorder::new(&txs, routes, RecordedChanges::default(), now);
    // A request to one wallet is answered with what went wrong; it stops nobody.
    if mode == ApplyMode::Batched || only.is_some() {
        recording.record_in(tx, &mut rows, mode, Some(batch))?;
        return Ok(recording.done);
    }
    recording.record_apart(tx, rows, batch)
}

fn seen_tx(observed: &ObservedTx) -> SeenTx<'_> {
    let (tx, txid) = (&observed.tx, observed.tx.compute_txid());
    let ObservedTx { fee, ref known_to, source, .. } = *observed;
    SeenTx { fee, known_to, ..SeenTx::new(tx, txid, source) }
}

pub(crate) type LockedRows = BTreeMap<WalletId, WalletRow>;

/// A batch on its way into the wallets.
pub(crate) struct BatchRecorder<'b> {
    pub(crate) txs: &'b [SeenTx<'b>],
    pub(crate) routes: BatchRoutes,
    pub(crate) done: RecordedChanges,
    /// A chain came to watch more scripts.
    pub(crate) has_derived: bool,
    pub(crate) now: Micros,
}

impl<'b> BatchRecorder<'b> {
    pub(crate) fn new(
        txs: &'b [SeenTx<'b>],
        routes: BatchRoutes,
        done: RecordedChanges,
        now: Micros,
    ) -> Self {
        Self { txs, routes, done, has_derived: false, now }
    }
}

impl BatchRecorder<'_> {
    /// Records for each wallet by itself. What a wallet refuses, others may take; it stays as it
    /// was and goes on. One whose data is broken is stopped.
    fn record_apart(
        mut self,
        tx: &mut Tx<'_>,
        rows: LockedRows,
        batch: &TxBatch,
    ) -> Result<RecordedChanges, WalletError> {
        let mut refusal = None;
        for (wallet, row) in rows {
            let place = row.scanned;
            let mut one = LockedRows::from([(wallet, row)]);
            let into_one =
                |tx: &mut Tx<'_>| self.record_in(tx, &mut one, ApplyMode::Isolated, Some(batch));
            match tx.apart(into_one)? {
                Ok(()) => {}
                Err(error @ WalletError::Refused(_)) => refusal = Some(error),
                Err(error) => stop_or_fail(tx, (wallet, place), None, error, self.now)?,
            }
        }
        match refusal {
            Some(refused) if self.done.wallets.is_empty() => Err(refused),
            Some(_) | None => Ok(self.done),
        }
    }

    /// Records for locked wallets: extends their chains until nothing new is found, plans for all
    /// of them, and writes everything with their rows. A batch brings labels and a tip.
    pub(crate) fn record_in(
        &mut self,
        tx: &mut Tx<'_>,
        rows: &mut LockedRows,
        mode: ApplyMode,
        batch: Option<&TxBatch>,
    ) -> Result<(), WalletError> {
        let mut writes = PendingWrites::default();
        for row in rows.values_mut() {
            self.widen(tx, row, mode, &mut writes)?;
        }
        let settled = settled(tx, rows.values().map(|row| (row, self.txids(row))))?;
        let mut raws = RawTxs::new();
        let mut shares: Vec<WalletShare<'_>> =
            rows.values_mut().map(|row| self.share(row, &settled, &mut raws)).collect();
        let plans = apply_plans(tx, &mut shares, &raws, &mut writes, self.now)?;
        for (share, plan) in shares.iter().zip(&plans) {
            if !share.events.is_empty() {
                self.done.wallets.insert(share.wallet.id);
            }
            self.done.new_txs += plan.new_txs.len();
            self.done.changed_txs += plan.changed_txs.len();
            self.done.new_coins += plan.new_coins.len();
        }
        for row in rows.values_mut() {
            if let Some(batch) = batch {
                batch.txs.iter().try_for_each(|seen| labels::label_new(tx, row, seen))?;
                if let Some(tip) = batch.tip {
                    row.stand_at(Some(Point::at_height(tip.height, tip.hash)));
                }
            }
            writes.wallet(row)?;
        }
        writes.send(tx)
    }

    /// The transactions of the batch that concern a wallet.
    fn concerning(&self, wallet: WalletId) -> impl Iterator<Item = &SeenTx<'_>> {
        let places = self.routes.concerned.get(&wallet).into_iter().flatten();
        places.filter_map(|at| self.txs.get(*at))
    }

    fn txids(&self, row: &WalletRow) -> Vec<TxId> {
        self.concerning(row.id).map(|seen| seen.txid).collect()
    }

    /// A wallet's part of the batch, with what routing has found out about it.
    fn share<'w>(
        &self,
        row: &'w mut WalletRow,
        settled: &HashSet<(WalletId, TxId)>,
        raws: &mut RawTxs,
    ) -> WalletShare<'w> {
        let wallet = row.id;
        let mut share =
            WalletShare { wallet: row, events: Vec::new(), loaded: LoadedFacts::default() };
        for seen in self.concerning(wallet) {
            // What a prune took must not come back as news, with coins that were spent long ago.
            if settled.contains(&(wallet, seen.txid)) || seen.known_to.contains(&wallet) {
                continue;
            }
            raws.entry(seen.txid).or_insert_with(|| encode::serialize(seen.tx));
            self.routes.hand_on(wallet, seen, &mut share.loaded.facts);
            share.events.push(WalletEvent::Seen(Box::new(self.fact(seen, wallet))));
        }
        share
    }

    /// A used address extends its chain; the batch is then matched against the new scripts, until
    /// none of them is paid.
    fn widen(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: &mut WalletRow,
        mode: ApplyMode,
        writes: &mut PendingWrites,
    ) -> Result<(), WalletError> {
        let id = wallet.id;
        let owners = self.routes.owners.values().flatten().copied();
        let mut used: Vec<ScriptOwner> = owners.filter(|owner| owner.wallet == id).collect();
        if used.is_empty() {
            return Ok(());
        }
        let paid: HashSet<[u8; 32]> =
            self.txs.iter().flat_map(|seen| seen.scripts.iter().copied()).collect();
        let mut touched = BTreeSet::new();
        let mut widened = false;
        // One extension isn't enough: the batch may pay a script that only the next one derives, as
        // when somebody else handed out many addresses of the same keys.
        while !used.is_empty() {
            for owner in used.iter().filter(|owner| !owner.is_used) {
                writes.used(wallet.id, owner.address);
            }
            if mode == ApplyMode::Isolated {
                // Whoever looks for scripts to adopt must see which were used.
                writes.send(tx)?;
            }
            // Only the highest index moves a chain's end; the others lie within its gap already.
            let highest = highest_used(&used);
            used.clear();
            for (chain, index) in highest {
                let Some(chain) = self.routes.chains.get_mut(&(id, chain)) else { continue };
                touched.insert(chain.id);
                chain.note_use(index);
                for fresh in chain.extend(tx, wallet, mode, writes)? {
                    self.has_derived = true;
                    let hash = script_hash(&fresh.script);
                    if paid.contains(&hash) {
                        let owner = owner_of(&fresh, id);
                        self.routes.owners.entry(hash).or_default().push(owner);
                        used.push(owner);
                        widened = true;
                    }
                }
            }
        }
        // At the end, since a set statement that changes a row twice leaves open which of the two
        // stays.
        for chain in touched {
            if let Some(chain) = self.routes.chains.get_mut(&(id, chain)) {
                chain.store(wallet, writes);
            }
        }
        if widened {
            // Rebuilding is rare: only when a payment jumped beyond the gap.
            self.routes.concern_again(self.txs);
        }
        Ok(())
    }

    /// What the planner is told of a transaction: for this wallet, only its own outputs are coins.
    fn fact(&self, seen: &SeenTx<'_>, wallet: WalletId) -> TxSighting {
        let outputs = (0_u32..).zip(seen.tx.output.iter().zip(&seen.scripts));
        let credits = outputs.filter_map(|(index, (output, script))| {
            let owners = self.routes.owners.get(script)?;
            let owner = owners.iter().find(|owner| owner.wallet == wallet)?;
            Some((index, output.value.to_sat(), owner.address))
        });
        // Leases bind only whoever makes a transaction here: what others made has happened.
        let (how, lock, force) = match seen.source {
            TxSource::Created { lock, force } => (SightingPlace::Created, lock, force),
            TxSource::Relayed => (SightingPlace::Relayed, None, true),
            TxSource::Mempool => (SightingPlace::Mempool, None, true),
            TxSource::Block(block, position) => {
                (SightingPlace::Block(Confirmation { height: block.height, position }), None, true)
            }
        };
        TxSighting {
            txid: seen.txid,
            inputs: seen.inputs.clone(),
            output_total: seen.tx.output.iter().map(|output| output.value.to_sat()).sum(),
            fee: seen.fee,
            is_coinbase: seen.is_coinbase,
            credits: credits.collect(),
            how,
            lock,
            force,
        }
    }
}

fn highest_used(owners: &[ScriptOwner]) -> HashMap<RowId, u32> {
    let mut highest: HashMap<RowId, u32> = HashMap::new();
    for owner in owners {
        let best = highest.entry(owner.keychain).or_insert(owner.index);
        *best = (*best).max(owner.index);
    }
    highest
}

fn owner_of(fresh: &DerivedScript, wallet: WalletId) -> ScriptOwner {
    let DerivedScript { address, keychain, index, .. } = *fresh;
    ScriptOwner { wallet, address, keychain, index, is_used: false }
}

fn all_concern(
    batch: &[SeenTx<'_>],
    routes: &BatchRoutes,
    wallet: WalletId,
) -> Result<(), WalletError> {
    let ours = routes.concerned.get(&wallet);
    let stranger = batch
        .iter()
        .enumerate()
        .find(|(place, _)| !ours.is_some_and(|places| places.contains(place)));
    match stranger {
        Some((_, seen)) => Err(WalletError::NotOurs(bitcoin_txid(seen.txid))),
        None => Ok(()),
    }
}

/// Between routing and locking another writer may have given a wallet an interest in the batch, or
/// changed what was found: what is planned on is what stands under the locks.
pub(crate) fn still_the_same(
    tx: &mut Tx<'_>,
    batch: &[SeenTx<'_>],
    routes: BatchRoutes,
    allowed: &dyn Fn(WalletId) -> bool,
) -> Result<BatchRoutes, WalletError> {
    // One writer at a time: nobody came between.
    if tx.backend() == unspent_sql::Backend::Sqlite {
        return Ok(routes);
    }
    let again = route(tx, batch, &WatchFilter::off(), allowed)?;
    if again.concerned.keys().eq(routes.concerned.keys()) {
        return Ok(again);
    }
    Err(SqlError::Conflict("another writer changed what the batch concerns".into()).into())
}

fn check_money(tx: &Transaction) -> Result<(), WalletError> {
    let too_much = || WalletError::TooMuchMoney(tx.compute_txid());
    // No block would hold it. Whoever hands it over needs no work for that, and sums of such
    // amounts would pass what a column holds.
    let mut total: u64 = 0;
    for output in &tx.output {
        total = total.checked_add(output.value.to_sat()).ok_or_else(too_much)?;
    }
    if total > MOST_BITCOIN_MONEY { Err(too_much()) } else { Ok(()) }
}

const BLOCK: &str = "SELECT header_hash, block_time FROM blocks WHERE block_height = $1";
const INSERT_BLOCK: &str =
    "INSERT INTO blocks (block_height, header_hash, block_time) VALUES ($1, $2, $3)";

pub(crate) fn stored_block(tx: &mut Tx<'_>, height: u64) -> Result<Option<BlockRef>, WalletError> {
    let Some(row) = tx.maybe(BLOCK, &[Arg::Int(sql_int(height)?)])? else { return Ok(None) };
    let (hash, time) = (BlockHash(row.hash("header_hash")?), row.index("block_time")?);
    Ok(Some(BlockRef { height, hash, time }))
}

/// Stores a block that isn't there yet.
pub(crate) fn store_block(tx: &mut Tx<'_>, block: &BlockRef) -> Result<(), WalletError> {
    let args =
        [Arg::Int(sql_int(block.height)?), Arg::Blob(&block.hash.0), Arg::Int(block.time.into())];
    tx.execute(INSERT_BLOCK, &args)?;
    Ok(())
}

/// Every block that the batch speaks of must be stored as it says, or be named to be stored.
fn check_blocks(tx: &mut Tx<'_>, batch: &TxBatch) -> Result<(), WalletError> {
    let seen = batch.txs.iter().filter_map(|observed| match observed.source {
        TxSource::Block(block, _) => Some(block),
        TxSource::Created { .. } | TxSource::Relayed | TxSource::Mempool => None,
    });
    let mut wanted: Vec<BlockRef> = seen.chain(batch.tip).collect();
    wanted.extend(&batch.blocks);
    wanted.sort_by_key(|block| block.height);
    wanted.dedup();
    for block in wanted {
        match stored_block(tx, block.height)? {
            Some(stored) if stored == block => {}
            Some(_) => return Err(WalletError::BlockMismatch { height: block.height }),
            None if batch.blocks.contains(&block) => store_block(tx, &block)?,
            None => return Err(WalletError::BlockNotFound { height: block.height }),
        }
    }
    Ok(())
}
