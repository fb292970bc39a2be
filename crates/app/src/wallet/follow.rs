//! Bringing wallets up to block files, and back.

use bitcoin::{Block, consensus::encode};
use indicatif::ProgressBar;
use serde_json::json;
use unspent_engine::files::{catalogue::Catalogue, find, workroom::Workroom};
use unspent_model::{BlockHash, headers::Branch};
use unspent_wallet::{WalletError, block::PlacedBlock, reorg::Comparison, wallets::WalletInfo};

use super::{
    Desk,
    args::{RewindArgs, ScanArgs},
    json::RewoundJson,
};
use crate::{
    cli::Cli,
    fault::{Fault, Outcome},
    import::look::Look,
    interrupt::Interrupt,
    output::{Output, facts},
};

/// Blocks and bytes that go into one database transaction.
const BLOCKS_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: usize = 32 << 20;

/// The files' best branch with the height of its first block.
struct Source {
    /// Holds unpacked files until the reading is over.
    _workroom: Workroom,
    catalogue: Catalogue,
    branch: Branch,
    start: u64,
}

impl Source {
    /// The block at a height, or the one just below the first.
    fn hash_at(&self, height: u64) -> Option<BlockHash> {
        if height.checked_add(1) == Some(self.start) {
            return Some(self.branch.base);
        }
        let place = usize::try_from(height.checked_sub(self.start)?).ok()?;
        self.branch.blocks.get(place).copied()
    }

    fn tip(&self) -> u64 {
        (self.start + self.branch.blocks.len() as u64).saturating_sub(1)
    }

    fn read(&mut self, height: u64) -> anyhow::Result<(PlacedBlock, usize)> {
        let hash = self.hash_at(height).ok_or_else(|| Fault::bug("a block left the branch"))?;
        let raw = self.catalogue.read(&hash, Some(height))?;
        let block: Block = encode::deserialize(&raw.bytes).map_err(|error| {
            Fault::input(format!("{} holds no block: {error}", raw.place.name()))
        })?;
        Ok((PlacedBlock::of(height, block), raw.bytes.len()))
    }
}

fn open_source(cli: &Cli, desk: &Desk, args: &ScanArgs) -> anyhow::Result<Source> {
    let network = desk.room.network();
    let found = find::find(&args.paths)?;
    let interrupt = Interrupt::listen();
    let workroom = Workroom::new(&cli.data_dir());
    let folder =
        if found.iter().any(|file| file.is_packed) { workroom.open()? } else { cli.data_dir() };
    let look = Look::new(ProgressBar::hidden(), &interrupt);
    let mut catalogue = Catalogue::build(network, &found, &folder, &|| look.goes_on())?;
    let best = catalogue.tree.best_branches().into_iter().max_by_key(|branch| branch.work);
    let branch = best.ok_or_else(|| Fault::input("there are no blocks in these files"))?;
    let start = start_height(&mut catalogue, &branch, network)?;
    let mut source = Source { _workroom: workroom, catalogue, branch, start };
    if let Some(stop) = args.stop_at {
        let keep = stop.checked_add(1).and_then(|end| end.checked_sub(source.start)).unwrap_or(0);
        source.branch.blocks.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
    }
    Ok(source)
}

/// 0 on genesis, 1 above it, otherwise what the first coinbase says.
fn start_height(
    catalogue: &mut Catalogue,
    branch: &Branch,
    network: unspent_model::Network,
) -> anyhow::Result<u64> {
    if branch.base == BlockHash::default() {
        return Ok(0);
    }
    if Some(branch.base) == unspent_networks::genesis_hash(network) {
        return Ok(1);
    }
    for (above, hash) in (0_u64..).zip(&branch.blocks) {
        let raw = catalogue.read(hash, None)?;
        let block: Option<Block> = encode::deserialize(&raw.bytes).ok();
        let named = block.and_then(|block| block.bip34_block_height().ok());
        if let Some(start) = named.and_then(|height| height.checked_sub(above)) {
            return Ok(start);
        }
    }
    Err(Fault::input("the height of these blocks is unknown: none names it, none is the first")
        .into())
}

pub(super) fn scan(
    cli: &Cli,
    desk: &Desk,
    args: &ScanArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let mut source = open_source(cli, desk, args)?;
    let undone = leave_fork(desk, &source)?;
    if args.from_first {
        desk.room.start_unscanned_at(source.start)?;
    }
    let first = first_needed(desk, &source)?;
    let interrupt = Interrupt::listen();
    let (mut blocks, mut txs, mut coins) = (0_u64, 0, 0);
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut stopped = false;
    let tip = source.tip();
    let mut height = first;
    while height <= tip && !source.branch.blocks.is_empty() {
        if interrupt.asked() {
            stopped = true;
            break;
        }
        let (block, size) = source.read(height)?;
        batch.push(block);
        bytes += size;
        blocks += 1;
        if batch.len() >= BLOCKS_AT_ONCE || bytes >= BYTES_AT_ONCE || height == tip {
            let applied = desk.room.apply_blocks(std::mem::take(&mut batch), desk.now)?;
            bytes = 0;
            txs += applied.recorded.new_txs;
            coins += applied.recorded.new_coins;
        }
        height += 1;
    }
    let lagging = lagging(desk, tip)?;
    let document = json!({
        "blocks": blocks, "disconnected": undone, "new_txs": txs, "new_coins": coins,
        "tip": desk.room.tip()?.map(|(height, _)| height), "lagging": lagging,
        "interrupted": stopped,
    });
    output.answer(&document, || {
        let mut rows = vec![
            ("blocks read", blocks.to_string()),
            ("blocks disconnected", undone.to_string()),
            ("new transactions", txs.to_string()),
            ("new coins", coins.to_string()),
        ];
        for name in &lagging {
            rows.push((
                "not up to date",
                format!("{name} (its birthday is below these files; --from-first takes it in)"),
            ));
        }
        facts(&rows)
    })?;
    Ok(if stopped { Outcome::Interrupted } else { Outcome::Done })
}

/// Disconnects stored blocks that the files' branch, being longer, does not have.
fn leave_fork(desk: &Desk, source: &Source) -> anyhow::Result<u64> {
    let Some((stored, _)) = desk.room.tip()? else { return Ok(0) };
    // Where the files end below what is stored, only what both have can differ.
    let known =
        |height: u64| -> Result<Option<BlockHash>, WalletError> { Ok(source.hash_at(height)) };
    let comparison = desk.room.compare(known)?;
    let Comparison::Differs { last_common } = comparison else { return Ok(0) };
    if source.tip() < stored && last_common.is_none() {
        // Older blocks, for a wallet that has to catch up.
        return Ok(0);
    }
    let Some(common) = last_common else {
        let message = "these blocks don't connect to what was scanned before";
        return Err(Fault::input(message).hint("give the blocks between as well").into());
    };
    if source.tip() <= stored {
        return Ok(0);
    }
    Ok(desk.room.disconnect_above(Some(common), desk.now)?.blocks)
}

/// The lowest block that some wallet still needs.
fn first_needed(desk: &Desk, source: &Source) -> anyhow::Result<u64> {
    let all = desk.room.all_wallets()?;
    let first = all.iter().map(WalletInfo::next_block).min().unwrap_or(u64::MAX);
    let stored = desk.room.tip()?.map_or(u64::MAX, |(height, _)| height + 1);
    Ok(first.min(stored).max(source.start))
}

fn lagging(desk: &Desk, tip: u64) -> anyhow::Result<Vec<String>> {
    let all = desk.room.all_wallets()?.into_iter();
    let behind = all.filter(|info| info.scanned.is_none_or(|(at, _)| at < tip));
    Ok(behind.map(|info| info.name).collect())
}

pub(super) fn rewind(
    desk: &Desk,
    args: &RewindArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let done = desk.room.rewind(wallet, Some(args.height), desk.now)?;
    output.answer(&RewoundJson { txs: done.txs, steps: done.steps }, || {
        format!("{} transactions are unconfirmed again; scan to bring them back", done.txs)
    })?;
    Ok(Outcome::Done)
}
