//! The one entry for transactions seen anywhere, in any order, as often as the teller likes.
//!
//! A batch is atomic with the wallet's tip: either all of it is recorded or nothing is. Recording
//! the same again changes nothing.

use std::collections::{BTreeSet, HashMap};

use bitcoin::{Transaction, Txid, consensus::encode};
use unspent_model::{
    BlockHash,
    wallet::{Confirmation, Event, LockId, Seen, Sighting, amount::MAX_MONEY},
};
use unspent_sql::{Arg, SqlError, Tx};

use crate::{
    carry::{Raws, carry},
    error::WalletError,
    labels,
    prune::settled,
    room::{Room, WalletId, WalletRow, bitcoin_txid, lock_room, model_txid, sql_int},
    route::{Owner, Parsed, Routes, route},
    wallets::{Fresh, extend, mark_used},
    watch::Watch,
};

/// A block, by all that a wallet keeps of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRef {
    /// Its height.
    pub height: u64,
    /// Its hash, in wire order.
    pub hash: BlockHash,
    /// Its time, in seconds, as its header says.
    pub time: u32,
}

/// How a transaction came to be seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
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
    /// The transaction.
    pub tx: Transaction,
    /// How it was seen.
    pub how: How,
    /// Its fee where the teller knows it.
    pub fee: Option<u64>,
    /// A label to give it.
    pub label: Option<String>,
}

impl Observed {
    /// A transaction without further news about it.
    pub fn new(tx: Transaction, how: How) -> Self {
        Self { tx, how, fee: None, label: None }
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
    pub fn one(tx: Transaction, how: How) -> Self {
        Self { txs: vec![Observed::new(tx, how)], ..Self::default() }
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
    pub fn invalidate(&self, wallet: WalletId, tx: Txid, now: i64) -> Result<(), WalletError> {
        self.one_event(wallet, Event::Withdraw(model_txid(tx)), now)
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
            carry(tx, &mut row, std::slice::from_ref(&event), &Raws::new(), now)?;
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
        batch.tip.is_some() || batch.txs.iter().any(|t| matches!(t.how, How::Block(..)));
    if needs_chain {
        lock_room(tx)?;
        check_blocks(tx, batch)?;
    }
    batch.txs.iter().try_for_each(|observed| check_money(&observed.tx))?;
    let parsed: Vec<Parsed<'_>> =
        batch.txs.iter().map(|seen| Parsed::new(&seen.tx, seen.tx.compute_txid())).collect();
    let allowed = move |wallet: WalletId| only.is_none_or(|only| only == wallet);
    let mut routes = route(tx, &parsed, &Watch::off(), &allowed)?;
    let mut rows = lock_all(tx, routes.concerned.keys().copied())?;
    if let Some(wallet) = only {
        all_concern(&parsed, &routes, wallet)?;
        rows.entry(wallet).or_insert(WalletRow::lock(tx, wallet)?);
    } else {
        still_the_same(tx, &parsed, &routes)?;
    }
    let sightings: Vec<Sighted<'_>> = batch.txs.iter().zip(&parsed).map(Sighted::of).collect();
    let mut done = Recorded::default();
    let wallets: Vec<WalletId> = rows.keys().copied().collect();
    for wallet in wallets {
        let Some(row) = rows.get_mut(&wallet) else { continue };
        record_in(tx, row, &sightings, &mut routes, &mut done, now)?;
        for observed in &batch.txs {
            labels::label_new(tx, row, observed)?;
        }
        if let Some(tip) = batch.tip {
            row.scanned = Some((tip.height, tip.hash));
        }
        row.save(tx)?;
    }
    Ok(done)
}

/// A transaction with everything one wallet's plan needs to know of it.
pub(crate) struct Sighted<'b> {
    pub(crate) parsed: &'b Parsed<'b>,
    pub(crate) how: How,
    pub(crate) fee: Option<u64>,
}

impl<'b> Sighted<'b> {
    fn of((observed, parsed): (&Observed, &'b Parsed<'b>)) -> Self {
        Self { parsed, how: observed.how, fee: observed.fee }
    }
}

/// Records for one locked wallet: extends its chains until nothing new is found, then plans.
pub(crate) fn record_in(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    sightings: &[Sighted<'_>],
    routes: &mut Routes,
    done: &mut Recorded,
    now: i64,
) -> Result<(), WalletError> {
    let id = WalletId(wallet.id);
    widen(tx, wallet, sightings, routes)?;
    let Some(places) = routes.concerned.get(&id) else { return Ok(()) };
    let concerned = places.iter().filter_map(|at| sightings.get(*at));
    let settled = settled(tx, id, concerned.clone().map(|sighted| sighted.parsed.txid))?;
    let concerned: Vec<&Sighted<'_>> =
        concerned.filter(|sighted| !settled.contains(&sighted.parsed.txid)).collect();
    let mut raws = Raws::new();
    let mut events = Vec::with_capacity(concerned.len());
    for sighted in concerned {
        raws.insert(sighted.parsed.txid, encode::serialize(sighted.parsed.tx));
        events.push(Event::Seen(Box::new(seen(sighted, routes, id))));
    }
    let plan = carry(tx, wallet, &events, &raws, now)?;
    done.wallets.insert(id);
    done.new_txs += plan.new_txs.len();
    done.changed_txs += plan.changed_txs.len();
    done.new_coins += plan.new_coins.len();
    Ok(())
}

/// A used address extends its chain; the batch is then matched against the new scripts, until none
/// of them is paid.
fn widen(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    sightings: &[Sighted<'_>],
    routes: &mut Routes,
) -> Result<(), WalletError> {
    let id = WalletId(wallet.id);
    let paid: BTreeSet<[u8; 32]> =
        sightings.iter().flat_map(|sighted| sighted.parsed.scripts.iter().copied()).collect();
    let owners = routes.owners.values().flatten().copied();
    let mut used: Vec<Owner> = owners.filter(|owner| owner.wallet == id).collect();
    let mut widened = false;
    while !used.is_empty() {
        mark_used(tx, wallet, used.iter().map(|owner| owner.address).collect())?;
        let mut highest: HashMap<i64, u32> = HashMap::new();
        for owner in &used {
            let best = highest.entry(owner.keychain).or_insert(owner.index);
            *best = (*best).max(owner.index);
        }
        used.clear();
        for (chain, index) in highest {
            for fresh in extend(tx, wallet, chain, Some(index), 0)? {
                let hash = crate::descriptor::script_hash(&fresh.script);
                if paid.contains(&hash) {
                    let owner = owner_of(&fresh, id);
                    routes.owners.entry(hash).or_default().push(owner);
                    used.push(owner);
                    widened = true;
                }
            }
        }
    }
    if widened {
        // Rebuilding is rare: only when a payment jumped beyond the gap.
        let batch: Vec<&Parsed<'_>> = sightings.iter().map(|sighted| sighted.parsed).collect();
        routes.concern_again(&batch);
    }
    Ok(())
}

fn owner_of(fresh: &Fresh, wallet: WalletId) -> Owner {
    Owner { wallet, address: fresh.address, keychain: fresh.keychain, index: fresh.index }
}

fn seen(sighted: &Sighted<'_>, routes: &Routes, wallet: WalletId) -> Seen {
    let parsed = sighted.parsed;
    let outputs = (0_u32..).zip(parsed.tx.output.iter().zip(&parsed.scripts));
    let credits = outputs.filter_map(|(index, (output, script))| {
        let owners = routes.owners.get(script)?;
        let owner = owners.iter().find(|owner| owner.wallet == wallet)?;
        Some((index, output.value.to_sat(), owner.address))
    });
    let (how, lock, force) = match sighted.how {
        How::Created { lock, force } => (Sighting::Created, lock, force),
        How::Relayed => (Sighting::Relayed, None, true),
        How::Mempool => (Sighting::Mempool, None, true),
        How::Block(block, position) => {
            (Sighting::Block(Confirmation { height: block.height, position }), None, true)
        }
    };
    Seen {
        txid: parsed.txid,
        inputs: parsed.inputs.clone(),
        output_total: parsed.tx.output.iter().map(|output| output.value.to_sat()).sum(),
        fee: sighted.fee,
        is_coinbase: parsed.is_coinbase,
        credits: credits.collect(),
        how,
        lock,
        force,
    }
}

fn lock_all(
    tx: &mut Tx<'_>,
    wallets: impl Iterator<Item = WalletId>,
) -> Result<std::collections::BTreeMap<WalletId, WalletRow>, WalletError> {
    wallets.map(|wallet| Ok((wallet, WalletRow::lock(tx, wallet)?))).collect()
}

fn all_concern(batch: &[Parsed<'_>], routes: &Routes, wallet: WalletId) -> Result<(), WalletError> {
    let ours = routes.concerned.get(&wallet);
    let stranger = batch
        .iter()
        .enumerate()
        .find(|(place, _)| !ours.is_some_and(|places| places.contains(place)));
    match stranger {
        Some((_, parsed)) => Err(WalletError::NotOurs(bitcoin_txid(parsed.txid))),
        None => Ok(()),
    }
}

/// Between routing and locking another writer may have given a wallet an interest in the batch.
fn still_the_same(
    tx: &mut Tx<'_>,
    batch: &[Parsed<'_>],
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
    let seen = batch.txs.iter().filter_map(|observed| match observed.how {
        How::Block(block, _) => Some(block),
        How::Created { .. } | How::Relayed | How::Mempool => None,
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
