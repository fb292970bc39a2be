//! The one entry for transactions seen anywhere, in any order, as often as the teller likes.
//!
//! A batch is atomic with the wallet's tip: either all of it is recorded or nothing is. Recording
//! the same again changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bitcoin::{Transaction, Txid, consensus::encode};
use unspent_model::{
    BlockHash,
    wallet::{Confirmation, Event, LockId, Seen, Sighting, amount::MAX_MONEY},
};
use unspent_sql::{Arg, SqlError, Tx};

use crate::{
    apply_plan::{RawTxs, apply_plan},
    descriptor::script_hash,
    error::WalletError,
    keychains::{DerivedScript, extend, mark_used},
    labels,
    pay::change::give_back,
    prune::settled,
    room::{Room, WalletId, WalletRow, bitcoin_txid, lock_room, model_txid, sql_int},
    route::{Owner, Routes, SeenTx, route},
    watch::Watch,
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
}

impl Observed {
    /// A transaction without further news about it.
    pub fn new(tx: Transaction, source: TxSource) -> Self {
        Self { tx, source, fee: None, label: None }
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
        self.door.write(move |tx| record(tx, &batch, None, now))
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
        self.door.write(move |tx| record(tx, &batch, Some(wallet), now))
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
        self.door.write(move |tx| {
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
        self.door.write(move |tx| {
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
    let routes = route(tx, &txs, &Watch::off(), &allowed)?;
    let mut rows = lock_all(tx, routes.concerned.keys().copied())?;
    if let Some(wallet) = only {
        all_concern(&txs, &routes, wallet)?;
        rows.entry(wallet).or_insert(WalletRow::lock(tx, wallet)?);
    } else {
        still_the_same(tx, &txs, &routes)?;
    }
    let mut recording = Recording { txs: &txs, routes, done: Recorded::default(), now };
    for row in rows.values_mut() {
        recording.record_in(tx, row)?;
        for observed in &batch.txs {
            labels::label_new(tx, row, observed)?;
        }
        if let Some(tip) = batch.tip {
            row.scanned = Some((tip.height, tip.hash));
        }
        row.save(tx)?;
    }
    Ok(recording.done)
}

fn seen_tx(observed: &Observed) -> SeenTx<'_> {
    let (tx, txid) = (&observed.tx, observed.tx.compute_txid());
    SeenTx { fee: observed.fee, ..SeenTx::new(tx, txid, observed.source) }
}

/// A batch on its way into the wallets, one after the other.
pub(crate) struct Recording<'b> {
    pub(crate) txs: &'b [SeenTx<'b>],
    pub(crate) routes: Routes,
    pub(crate) done: Recorded,
    pub(crate) now: i64,
}

impl Recording<'_> {
    /// Records for one locked wallet: extends its chains until nothing new is found, then plans.
    pub(crate) fn record_in(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: &mut WalletRow,
    ) -> Result<(), WalletError> {
        let id = WalletId(wallet.id);
        self.widen(tx, wallet)?;
        let Some(places) = self.routes.concerned.get(&id) else { return Ok(()) };
        let concerned = places.iter().filter_map(|at| self.txs.get(*at));
        let settled = settled(tx, id, concerned.clone().map(|seen| seen.txid))?;
        let concerned = concerned.filter(|seen| !settled.contains(&seen.txid));
        let mut raws = RawTxs::new();
        let mut events = Vec::new();
        for seen in concerned {
            raws.insert(seen.txid, encode::serialize(seen.tx));
            events.push(Event::Seen(Box::new(self.fact(seen, id))));
        }
        let plan = apply_plan(tx, wallet, &events, &raws, self.now)?;
        self.done.wallets.insert(id);
        self.done.new_txs += plan.new_txs.len();
        self.done.changed_txs += plan.changed_txs.len();
        self.done.new_coins += plan.new_coins.len();
        Ok(())
    }

    /// A used address extends its chain; the batch is then matched against the new scripts, until
    /// none of them is paid.
    fn widen(&mut self, tx: &mut Tx<'_>, wallet: &mut WalletRow) -> Result<(), WalletError> {
        let id = WalletId(wallet.id);
        let owners = self.routes.owners.values().flatten().copied();
        let mut used: Vec<Owner> = owners.filter(|owner| owner.wallet == id).collect();
        if used.is_empty() {
            return Ok(());
        }
        let paid: HashSet<[u8; 32]> =
            self.txs.iter().flat_map(|seen| seen.scripts.iter().copied()).collect();
        let mut widened = false;
        while !used.is_empty() {
            mark_used(tx, wallet, used.iter().map(|owner| owner.address).collect())?;
            let highest = highest_used(&used);
            used.clear();
            for (chain, index) in highest {
                for fresh in extend(tx, wallet, chain, Some(index), 0)? {
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
    Owner { wallet, address: fresh.address, keychain: fresh.keychain, index: fresh.index }
}

fn lock_all(
    tx: &mut Tx<'_>,
    wallets: impl Iterator<Item = WalletId>,
) -> Result<BTreeMap<WalletId, WalletRow>, WalletError> {
    wallets.map(|wallet| Ok((wallet, WalletRow::lock(tx, wallet)?))).collect()
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

/// Between routing and locking another writer may have given a wallet an interest in the batch.
fn still_the_same(
    tx: &mut Tx<'_>,
    batch: &[SeenTx<'_>],
    routes: &Routes,
) -> Result<(), WalletError> {
    if tx.backend() == unspent_sql::Backend::Sqlite {
        return Ok(());
    }
    let again = route(tx, batch, &Watch::off(), &|_| true)?;
    if again.concerned.keys().eq(routes.concerned.keys()) {
        return Ok(());
    }
    Err(SqlError::Conflict("another writer changed what the batch concerns".into()).into())
}

fn check_money(tx: &Transaction) -> Result<(), WalletError> {
    let too_much = || WalletError::TooMuchMoney(tx.compute_txid());
    let mut total: u64 = 0;
    for output in &tx.output {
        total = total.checked_add(output.value.to_sat()).ok_or_else(too_much)?;
    }
    if total > MAX_MONEY { Err(too_much()) } else { Ok(()) }
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
