//! Old blocks for scripts that came late, or for history that was pruned too early.
//!
//! A wallet that has been scanned gets a further account, or a single script. Payments to it may
//! stand in blocks that the wallet has passed, and nobody would ever look there again: its balance
//! would be wrong and nothing would say so. So the heights that are still to be read are written
//! down in the step that adds the scripts. Whoever has the blocks feeds them to this one wallet,
//! in order, while the tip goes on moving it like the others; what it knows already is met again
//! and changes nothing.
//!
//! A chain that grows on the way, because an address near its end was used, has been watched by the
//! tip only from then on. Then the backfill goes on to where the wallet stands at that moment.

use std::sync::Arc;

use unspent_model::Micros;
use unspent_sql::{Arg, Tx};

use crate::{
    apply_mode::ApplyMode,
    batch::RecordedChanges,
    error::WalletError,
    ids::{WalletId, sql_int},
    placed_block::PlacedBlock,
    record::{BatchRecorder, LockedRows, store_block, stored_block},
    route::route,
    settled::whole_again,
    stopped::or_stop,
    store::WalletStore,
    wallet_info::BackfillRange,
    wallet_row::{WalletRow, lock_room},
    watch::WatchFilter,
};

const FIND: &str = "SELECT first_height, next_height, end_height FROM backfills
    WHERE wallet_id = $1";
const PUT: &str = "INSERT INTO backfills (wallet_id, first_height, next_height, end_height)
    VALUES ($1, $2, $3, $4) ON CONFLICT (wallet_id) DO UPDATE
    SET first_height = excluded.first_height, next_height = excluded.next_height,
        end_height = excluded.end_height";
const ALL_ABOVE: &str = "SELECT wallet_id FROM backfills WHERE next_height > $1";
const DROP_ABOVE: &str = "DELETE FROM backfills WHERE next_height > $1";
const CUT_ABOVE: &str = "UPDATE backfills SET end_height = $1 WHERE end_height > $1";
const DONE: &str = "DELETE FROM backfills WHERE wallet_id = $1";

impl WalletStore {
    /// Feeds old blocks to a wallet whose history isn't whole; says what is left. Blocks that it
    /// doesn't wait for change nothing.
    ///
    /// # Errors
    ///
    /// [`WalletError::BlockMismatch`] when the blocks are of another chain than the stored ones;
    /// nothing is changed then.
    pub fn backfill(
        &self,
        wallet: WalletId,
        blocks: Vec<PlacedBlock>,
        now: Micros,
    ) -> Result<(Option<BackfillRange>, RecordedChanges), WalletError> {
        let blocks: Arc<[PlacedBlock]> = blocks.into();
        self.door.write(move |tx| {
            lock_room(tx)?;
            let place = WalletRow::lock(tx, wallet)?.scanned;
            let Some(mut left) = find(tx, wallet)? else {
                return Ok((None, RecordedChanges::default()));
            };
            let transactions = blocks.iter().map(|placed| placed.txids.len()).sum();
            let mut watch = WatchFilter::new(transactions);
            let mut done = RecordedChanges::default();
            for placed in blocks.iter() {
                // After an answer that got lost, blocks come again which have been read already.
                if placed.height != left.next {
                    continue;
                }
                let height = Some(placed.height);
                let mut into_one =
                    |tx: &mut Tx<'_>| read_block(tx, wallet, placed, &mut watch, &mut done, now);
                // What was read before the stop stays read; once
                // resumed, the wallet goes on from there.
                let Some(end) = or_stop(tx, (wallet, place), height, now, &mut into_one)? else {
                    break;
                };
                let (next, end) = (placed.height + 1, end.unwrap_or(left.end));
                left = BackfillRange { next, end, ..left };
            }
            Ok((put(tx, wallet, left)?, done))
        })
    }
}

/// Notes that blocks from a height to the wallet's tip have to be read for what it now watches.
pub(crate) fn begin(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    from: u64,
) -> Result<Option<BackfillRange>, WalletError> {
    let id = wallet.id;
    let Some(tip) = wallet.tip().filter(|tip| *tip >= from) else { return find(tx, id) };
    let earlier = find(tx, id)?;
    let todo = match earlier {
        // Blocks that are still to come for the earlier scripts meet the new ones as well.
        Some(earlier) if earlier.next <= from => BackfillRange { end: tip, ..earlier },
        Some(_) | None => BackfillRange { first: from, next: from, end: tip },
    };
    put(tx, id, todo)
}

/// All wallets stand at `tip` or below: what lies above is brought by the tip itself, with all that
/// they watch by now.
pub(crate) fn cut_above(tx: &mut Tx<'_>, tip: Option<u64>) -> Result<(), WalletError> {
    let tip = [Arg::Int(tip.map_or(Ok(-1), sql_int)?)];
    // Asked before they go: afterwards nothing tells whose history became whole by it.
    let done = tx.query(ALL_ABOVE, &tip)?;
    for sql in [DROP_ABOVE, CUT_ABOVE] {
        tx.execute(sql, &tip)?;
    }
    done.iter().try_for_each(|row| whole_again(tx, WalletId(row.int("wallet_id")?)))
}

/// The same for one wallet that goes back by itself.
pub(crate) fn cut_above_for(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    tip: Option<u64>,
) -> Result<(), WalletError> {
    let Some(left) = find(tx, wallet)? else { return Ok(()) };
    match tip {
        Some(tip) if left.next <= tip => {
            put(tx, wallet, BackfillRange { end: left.end.min(tip), ..left }).map(drop)
        }
        Some(_) | None => end(tx, wallet),
    }
}

pub(crate) fn find(
    tx: &mut Tx<'_>,
    wallet: WalletId,
) -> Result<Option<BackfillRange>, WalletError> {
    let row = tx.maybe(FIND, &[Arg::Int(wallet.0)])?;
    Ok(row.map(|row| BackfillRange::read(&row)).transpose()?.flatten())
}

fn put(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    left: BackfillRange,
) -> Result<Option<BackfillRange>, WalletError> {
    if left.next > left.end {
        end(tx, wallet)?;
        return Ok(None);
    }
    let BackfillRange { first, next, end } = left;
    let places = [sql_int(first)?, sql_int(next)?, sql_int(end)?];
    let args = [wallet.0, places[0], places[1], places[2]].map(Arg::Int);
    tx.execute(PUT, &args)?;
    Ok(Some(left))
}

fn end(tx: &mut Tx<'_>, wallet: WalletId) -> Result<(), WalletError> {
    tx.execute(DONE, &[Arg::Int(wallet.0)])?;
    whole_again(tx, wallet)
}

/// Reads one old block for one wallet; says how far the backfill has to go now, where that changed.
fn read_block(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    placed: &PlacedBlock,
    watch: &mut WatchFilter,
    done: &mut RecordedChanges,
    now: Micros,
) -> Result<Option<u64>, WalletError> {
    // Read again for every block: the one before may have derived scripts and moved its counters.
    let row = WalletRow::lock(tx, wallet)?;
    let tip = row.tip();
    watch.catch_up(tx, &[(wallet, row.next_id)].into())?;
    let block = placed.reference();
    let stored = stored_block(tx, block.height)?;
    if stored.is_some_and(|stored| stored.hash != block.hash) {
        return Err(WalletError::BlockMismatch { height: block.height });
    }
    if !watch.may_concern(placed) {
        return Ok(None);
    }
    let txs = placed.seen_txs();
    let routes = route(tx, &txs, watch, &|one| one == wallet)?;
    if routes.concerned.is_empty() {
        return Ok(None);
    }
    // Only where something is found. A confirmation needs its block's row: the audit asks for it.
    if stored.is_none() {
        store_block(tx, &block)?;
    }
    let mut recording = BatchRecorder::new(&txs, routes, std::mem::take(done), now);
    recording.record_in(tx, &mut LockedRows::from([(wallet, row)]), ApplyMode::Isolated, None)?;
    let has_grown = recording.has_derived;
    *done = recording.done;
    Ok(tip.filter(|_| has_grown))
}
