//! The one entry for transactions seen anywhere, in any order, as often as the teller likes.
//!
//! A batch is atomic with the wallet's tip: either all of it is recorded or nothing is. Recording
//! the same again changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bitcoin::{Transaction, Txid, consensus::encode};
use unspent_model::{
    BlockHash, TxId,
    network::MOST_BITCOIN_MONEY,
    wallet::{Confirmation, Event, LockId, Seen, Sighting},
};
use unspent_sql::{Arg, SqlError, Tx};

use crate::{
    apply_plan::{RawTxs, WalletShare, apply_plan, apply_plans},
    block::Care,
    descriptor::script_hash,
    error::WalletError,
    keychains::DerivedScript,
    labels,
    load::Loaded,
    pay::change::give_back,
    prune::settled,
    room::{Room, WalletId, WalletRow, bitcoin_txid, lock_room, model_txid, sql_int},
    route::{Owner, Routes, SeenTx, route},
    stopped::stop_or_fail,
    watch::Watch,
    writes::Writes,
};

/// A block, by all that a wallet keeps of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRef {
    /// Blocks between it and genesis.
    pub height: u64,
    /// Its hash, in wire order.
    pub hash: BlockHash,
    /// Its time, in seconds, as its header says.
    pub time: u32,
}

/// Where a transaction comes from. It decides what is believed of it: a block settles it, a node's
/// mempool vouches for it, hearsay does neither.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxSource {
    /// Made here; its leases may be those of `lock`, others only by `force`.
    Created {
        /// Whose leases it may use.
        lock: Option<LockId>,
        /// Whether it may take coins that others leased.
        force: bool,
    },
    /// Heard of, without a node that vouches for it.
    Relayed,
    /// In a node's mempool.
    Mempool,
    /// In a block, at a place.
    Block(BlockRef, u64),
}

/// A transaction that was seen.
#[derive(Clone, Debug)]
pub struct Observed {
    /// With its signatures, as it was seen.
    pub tx: Transaction,
    /// Where it comes from.
    pub source: TxSource,
    /// Its fee where the teller knows it.
    pub fee: Option<u64>,
    /// A label to give it.
    pub label: Option<String>,
    /// Wallets that are not told, because they know it: their own view of it stays.
    pub known_to: Vec<WalletId>,
}

impl Observed {
    /// A transaction without further news about it.
    pub fn new(tx: Transaction, source: TxSource) -> Self {
        Self { tx, source, fee: None, label: None, known_to: Vec::new() }
    }
}

/// Transactions that belong together, with the tip they lead to.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// In any order.
    pub txs: Vec<Observed>,
    /// Blocks that may be stored along the way.
    pub blocks: Vec<BlockRef>,
    /// Where the wallet stands afterwards. Only for a batch of one wallet.
    pub tip: Option<BlockRef>,
}

impl Batch {
    /// One transaction.
    pub fn one(tx: Transaction, source: TxSource) -> Self {
        Self { txs: vec![Observed::new(tx, source)], ..Self::default() }
    }
}

/// What a batch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Wallets that it concerned.
    pub wallets: BTreeSet<WalletId>,
    /// Transactions stored for the first time, over all wallets.
    pub new_txs: usize,
    /// Transactions whose state changed, over all wallets.
    pub changed_txs: usize,
    /// Coins found, over all wallets.
    pub new_coins: usize,
}

impl Room {
    /// Records a batch for all wallets it concerns.
    ///
    /// # Errors
    ///
    /// [`WalletError`]; nothing of the batch is kept then.
    pub fn record(&self, batch: &Batch, now: i64) -> Result<Recorded, WalletError> {
        if batch.tip.is_some() {
            let why = "a tip belongs to one wallet; apply blocks, or name the wallet";
            return Err(WalletError::Argument(why.into()));
        }
        let batch = batch.clone();
        self.with_care(move |tx, care| record(tx, &batch, None, care, now))
    }

    /// Records a batch for one wallet. Every transaction must concern it.
    ///
    /// # Errors
    ///
    /// As for [`Room::record`], and [`WalletError::NotOurs`].
    pub fn record_for(
        &self,
        wallet: WalletId,
        batch: &Batch,
        now: i64,
    ) -> Result<Recorded, WalletError> {
        let batch = batch.clone();
        self.with_care_for(wallet, move |tx, care| record(tx, &batch, Some(wallet), care, now))
    }

    /// Marks a pending transaction as sent.
    ///
    /// # Errors
    ///
    /// [`WalletError::Refused`] when it isn't known or no longer valid.
    pub fn mark_broadcast(&self, wallet: WalletId, tx: Txid, now: i64) -> Result<(), WalletError> {
        self.one_event(wallet, Event::Broadcast(model_txid(tx)), now)
    }

    /// Takes back a pending transaction that was never sent; its descendants fail with it.
    ///
    /// # Errors
    ///
    /// [`WalletError::Refused`] for anything that isn't pending.
    pub fn invalidate(&self, wallet: WalletId, txid: Txid, now: i64) -> Result<(), WalletError> {
        let event = Event::Withdraw(model_txid(txid));
        self.door.write_for(wallet.0, move |tx| {
            let mut row = WalletRow::lock(tx, wallet)?;
            apply_plan(tx, &mut row, std::slice::from_ref(&event), &RawTxs::new(), now)?;
            // The next payment may have the index of its change.
            give_back(tx, &row, txid)?;
            row.save(tx)
        })
    }

    /// Notes that a node's mempool no longer holds a transaction. Its status stays.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn mark_evicted(&self, wallet: WalletId, tx: Txid, now: i64) -> Result<(), WalletError> {
        self.one_event(wallet, Event::Evicted(model_txid(tx)), now)
    }

    fn one_event(&self, wallet: WalletId, event: Event, now: i64) -> Result<(), WalletError> {
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
    batch: &Batch,
    only: Option<WalletId>,
    care: Care,
    now: i64,
) -> Result<Recorded, WalletError> {
    let needs_chain =
        batch.tip.is_some() || batch.txs.iter().any(|t| matches!(t.source, TxSource::Block(..)));
    if needs_chain {
        lock_room(tx)?;
        check_blocks(tx, batch)?;
    }
    batch.txs.iter().try_for_each(|observed| check_money(&observed.tx))?;
    let txs: Vec<SeenTx<'_>> = batch.txs.iter().map(seen_tx).collect();
    let allowed = move |wallet: WalletId| only.is_none_or(|only| only == wallet);
    let mut routes = route(tx, &txs, &Watch::off(), &allowed)?;
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
    let mut recording = Recording::new(&txs, routes, Recorded::default(), now);
    // A request to one wallet is answered with what went wrong; it stops nobody.
    if care == Care::Together || only.is_some() {
        recording.record_in(tx, &mut rows, care, Some(batch))?;
        return Ok(recording.done);
    }
    recording.record_apart(tx, rows, batch)
}

fn seen_tx(observed: &Observed) -> SeenTx<'_> {
    let (tx, txid) = (&observed.tx, observed.tx.compute_txid());
    let Observed { fee, ref known_to, source, .. } = *observed;
    SeenTx { fee, known_to, ..SeenTx::new(tx, txid, source) }
}

/// Locked wallets.
pub(crate) type LockedRows = BTreeMap<WalletId, WalletRow>;

/// A batch on its way into the wallets.
pub(crate) struct Recording<'b> {
    pub(crate) txs: &'b [SeenTx<'b>],
    pub(crate) routes: Routes,
    pub(crate) done: Recorded,
    /// A chain came to watch more scripts.
    pub(crate) has_derived: bool,
    pub(crate) now: i64,
}

impl<'b> Recording<'b> {
    pub(crate) fn new(txs: &'b [SeenTx<'b>], routes: Routes, done: Recorded, now: i64) -> Self {
        Self { txs, routes, done, has_derived: false, now }
    }
}

impl Recording<'_> {
    /// Records for each wallet by itself. What a wallet refuses, others may take; it stays as it
    /// was and goes on. One whose data is broken is stopped.
    fn record_apart(
        mut self,
        tx: &mut Tx<'_>,
        rows: LockedRows,
        batch: &Batch,
    ) -> Result<Recorded, WalletError> {
        let mut refusal = None;
        for (wallet, row) in rows {
            let place = row.scanned;
            let mut one = LockedRows::from([(wallet, row)]);
            let into_one = |tx: &mut Tx<'_>| self.record_in(tx, &mut one, Care::Apart, Some(batch));
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
        care: Care,
        batch: Option<&Batch>,
    ) -> Result<(), WalletError> {
        let mut writes = Writes::default();
        for row in rows.values_mut() {
            self.widen(tx, row, care, &mut writes)?;
        }
        let settled = settled(tx, rows.values().map(|row| (row, self.txids(row))))?;
        let mut raws = RawTxs::new();
        let mut shares: Vec<WalletShare<'_>> =
            rows.values_mut().map(|row| self.share(row, &settled, &mut raws)).collect();
        let plans = apply_plans(tx, &mut shares, &raws, &mut writes, self.now)?;
        for (share, plan) in shares.iter().zip(&plans) {
            if !share.events.is_empty() {
                self.done.wallets.insert(WalletId(share.wallet.id));
            }
            self.done.new_txs += plan.new_txs.len();
            self.done.changed_txs += plan.changed_txs.len();
            self.done.new_coins += plan.new_coins.len();
        }
        for row in rows.values_mut() {
            if let Some(batch) = batch {
                batch.txs.iter().try_for_each(|seen| labels::label_new(tx, row, seen))?;
                if let Some(tip) = batch.tip {
                    row.stand_at(Some((tip.height, tip.hash)));
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
        self.concerning(WalletId(row.id)).map(|seen| seen.txid).collect()
    }

    /// A wallet's part of the batch, with what routing has found out about it.
    fn share<'w>(
        &self,
        row: &'w mut WalletRow,
        settled: &HashSet<(WalletId, TxId)>,
        raws: &mut RawTxs,
    ) -> WalletShare<'w> {
        let wallet = WalletId(row.id);
        let mut share = WalletShare { wallet: row, events: Vec::new(), loaded: Loaded::default() };
        for seen in self.concerning(wallet) {
            if settled.contains(&(wallet, seen.txid)) || seen.known_to.contains(&wallet) {
                continue;
            }
            raws.entry(seen.txid).or_insert_with(|| encode::serialize(seen.tx));
            self.routes.hand_on(wallet, seen, &mut share.loaded.facts);
            share.events.push(Event::Seen(Box::new(self.fact(seen, wallet))));
        }
        share
    }

    /// A used address extends its chain; the batch is then matched against the new scripts, until
    /// none of them is paid.
    fn widen(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: &mut WalletRow,
        care: Care,
        writes: &mut Writes,
    ) -> Result<(), WalletError> {
        let id = WalletId(wallet.id);
        let owners = self.routes.owners.values().flatten().copied();
        let mut used: Vec<Owner> = owners.filter(|owner| owner.wallet == id).collect();
        if used.is_empty() {
            return Ok(());
        }
        let paid: HashSet<[u8; 32]> =
            self.txs.iter().flat_map(|seen| seen.scripts.iter().copied()).collect();
        let mut touched = BTreeSet::new();
        let mut widened = false;
        while !used.is_empty() {
            for owner in used.iter().filter(|owner| !owner.is_used) {
                writes.used(wallet.id, owner.address);
            }
            if care == Care::Apart {
                // Whoever looks for scripts to adopt must see which were used.
                writes.send(tx)?;
            }
            let highest = highest_used(&used);
            used.clear();
            for (chain, index) in highest {
                let Some(chain) = self.routes.chains.get_mut(&(id, chain)) else { continue };
                touched.insert(chain.id);
                chain.note_use(index);
                for fresh in chain.extend(tx, wallet, care, writes)? {
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
    fn fact(&self, seen: &SeenTx<'_>, wallet: WalletId) -> Seen {
        let outputs = (0_u32..).zip(seen.tx.output.iter().zip(&seen.scripts));
        let credits = outputs.filter_map(|(index, (output, script))| {
            let owners = self.routes.owners.get(script)?;
            let owner = owners.iter().find(|owner| owner.wallet == wallet)?;
            Some((index, output.value.to_sat(), owner.address))
        });
        // Leases bind only whoever makes a transaction here: what others made has happened.
        let (how, lock, force) = match seen.source {
            TxSource::Created { lock, force } => (Sighting::Created, lock, force),
            TxSource::Relayed => (Sighting::Relayed, None, true),
            TxSource::Mempool => (Sighting::Mempool, None, true),
            TxSource::Block(block, position) => {
                (Sighting::Block(Confirmation { height: block.height, position }), None, true)
            }
        };
        Seen {
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

fn highest_used(owners: &[Owner]) -> HashMap<i64, u32> {
    let mut highest: HashMap<i64, u32> = HashMap::new();
    for owner in owners {
        let best = highest.entry(owner.keychain).or_insert(owner.index);
        *best = (*best).max(owner.index);
    }
    highest
}

fn owner_of(fresh: &DerivedScript, wallet: WalletId) -> Owner {
    let DerivedScript { address, keychain, index, .. } = *fresh;
    Owner { wallet, address, keychain, index, is_used: false }
}

fn all_concern(batch: &[SeenTx<'_>], routes: &Routes, wallet: WalletId) -> Result<(), WalletError> {
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
    routes: Routes,
    allowed: &dyn Fn(WalletId) -> bool,
) -> Result<Routes, WalletError> {
    if tx.backend() == unspent_sql::Backend::Sqlite {
        return Ok(routes);
    }
    let again = route(tx, batch, &Watch::off(), allowed)?;
    if again.concerned.keys().eq(routes.concerned.keys()) {
        return Ok(again);
    }
    Err(SqlError::Conflict("another writer changed what the batch concerns".into()).into())
}

fn check_money(tx: &Transaction) -> Result<(), WalletError> {
    let too_much = || WalletError::TooMuchMoney(tx.compute_txid());
    let mut total: u64 = 0;
    for output in &tx.output {
        total = total.checked_add(output.value.to_sat()).ok_or_else(too_much)?;
    }
    if total > MOST_BITCOIN_MONEY { Err(too_much()) } else { Ok(()) }
}

const BLOCK: &str = "SELECT header_hash, block_time FROM blocks WHERE block_height = $1";
const INSERT_BLOCK: &str =
    "INSERT INTO blocks (block_height, header_hash, block_time) VALUES ($1, $2, $3)";

/// The stored block at a height.
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
fn check_blocks(tx: &mut Tx<'_>, batch: &Batch) -> Result<(), WalletError> {
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
