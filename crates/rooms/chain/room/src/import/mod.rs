//! Block files to the chain room.
//!
//! First everything is looked at and a plan is made; only then is the folder opened for writing
//! (or, where it exists, changed). A refused import of a new folder leaves no folder behind. The
//! blocks themselves take the road that every block takes (`unspent_engine::road`).

mod bitcoin;
mod branch;
mod cardano;
pub(crate) mod look;
mod plan;
mod progress;
mod source;
mod summary;

use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::PoisonError,
    time::Instant,
};

use anyhow::Context;
use unspent_chain::{ChainIndex, OpenError, OpenReport, Options, Reader, StoreStatus};
use unspent_engine::{
    config::Follow,
    road::{End, Ended, Trip},
};
use unspent_model::{Family, Network, chain::GenesisCoin};
use unspent_networks::cardano::genesis::genesis_coins;
use unspent_server::{error::CliError, interrupt::Interrupt, progress::Show};
use unspent_source::files::{
    chunks,
    find::{self, InputFile},
    workroom::Workroom,
};

use self::{
    bitcoin::CatalogueFolders,
    branch::Limits,
    look::Look,
    plan::{Fork, Plan, Stored},
    source::PlannedBlocks,
};
use crate::{ChainFollower, face::ChainOptions};

pub(crate) use progress::Progress;
pub(crate) use summary::Summary;

/// Memory for reading what a folder says of itself.
const SMALL_CACHE: usize = 8 << 20;

/// No genesis file is larger; the main network's has about a megabyte.
const GENESIS_LIMIT: u64 = 64 << 20;

/// Where the catalogue of block files is kept between imports, in the data folder.
const KEPT_CATALOGUE: &str = "block-files.kept";

/// What to import and how.
pub(crate) struct Request<'a> {
    pub(crate) data_dir: &'a Path,
    pub(crate) network: Option<Network>,
    pub(crate) genesis: &'a [PathBuf],
    pub(crate) stop_at: Option<u64>,
    pub(crate) allow_holes: bool,
    pub(crate) no_bulk: bool,
    pub(crate) options: &'a ChainOptions,
    pub(crate) paths: &'a [PathBuf],
}

/// Imports; the summary says what came of it.
pub(crate) fn run(
    request: &Request<'_>,
    show: Show,
    interrupt: &Interrupt,
) -> anyhow::Result<Summary> {
    let started = Instant::now();
    let folder = request.data_dir.join("chain");
    let known = known(&folder)?;
    let network = network(request, known.as_ref())?;
    let options = request.options.resolve(network, known.as_ref())?;
    let genesis = read_genesis(network, request.genesis)?;
    let files = find::find(request.paths)?;
    let workroom = Workroom::new(request.data_dir);
    let look = Look::new(show.counter(files.len() as u64, "files looked through"), interrupt);
    let make_plan = |stored: Stored| make_plan(request, network, files, &workroom, &stored, &look);
    let open = || ChainIndex::open(&folder, network, options.clone(), &genesis);
    // A new folder is made once the plan stands; an existing one must be open first, since opening
    // may cut or undo blocks that the plan would count on.
    let ((mut index, found), plan) = if known.is_some() {
        let (index, found) = open()?;
        let plan = make_plan(Stored::seen_by(index.reader())?)?;
        ((index, found), plan)
    } else {
        let plan = make_plan(Stored::nothing())?;
        (open()?, plan)
    };
    if request.allow_holes {
        index.allow_holes();
    }
    let warnings = warnings(request, known.as_ref(), &options, &found);
    let Plan { blocks, coming, fork, left_out, passed_over } = plan;
    let rolled_back = fork.map(|fork| change_branch(&mut index, &fork)).transpose()?;
    let reader = index.reader();
    // After the change of branch: blocks at the heights of those undone are new.
    let known = index.tip().map(|tip| tip.height);
    let source = PlannedBlocks::new(network, blocks, coming, known).up_to(request.stop_at);
    let mut room = ChainFollower::new(index);
    let size = progress::ImportSize { blocks: coming, coins: reader.status()?.cursor.coins };
    let progress = Progress::start(show, size, room.tally(), interrupt);
    let interrupted = take_in(&mut room, source, network, request.no_bulk, &progress)?;
    progress.finish();
    let report = summary::Report {
        rolled_back,
        left_out,
        passed_over,
        warnings,
        interrupted,
        took: started.elapsed(),
    };
    let tally = *room.tally().lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Summary::new(&reader.status()?, tally, report))
}

/// Sends the plan's blocks down the road; says whether somebody stopped it.
fn take_in(
    room: &mut ChainFollower,
    mut source: PlannedBlocks,
    network: Network,
    no_bulk: bool,
    progress: &Progress,
) -> anyhow::Result<bool> {
    let mut follow = Follow::default();
    if no_bulk {
        follow.bulk_threshold = u64::MAX;
    }
    let trip = Trip::new(room, &mut source, network, follow, progress).named(source::NAME.into());
    Ok(trip.go_on(End::Tip)? == Ended::Asked)
}

/// What an existing folder says of itself; `None` when there is none.
pub(crate) fn known(folder: &Path) -> anyhow::Result<Option<StoreStatus>> {
    match Reader::open(folder, SMALL_CACHE) {
        Ok(reader) => Ok(Some(reader.status()?)),
        Err(OpenError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn network(request: &Request<'_>, known: Option<&StoreStatus>) -> anyhow::Result<Network> {
    match (request.network, known.map(|status| status.network)) {
        (Some(wanted), Some(found)) if wanted != found => {
            Err(OpenError::OtherNetwork { found, wanted }.into())
        }
        (Some(network), _) | (None, Some(network)) => Ok(network),
        (None, None) => {
            let error = CliError::usage("the folder is new, so it needs a network");
            Err(error.hint("pass --network NAME, for example --network bitcoin").into())
        }
    }
}

pub(crate) fn read_genesis(
    network: Network,
    paths: &[PathBuf],
) -> anyhow::Result<Vec<GenesisCoin>> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let files = paths.iter().map(|path| {
        let file = InputFile::new(path.clone());
        let mut bytes = Vec::new();
        // One byte beyond the limit tells a file that is too large from one that just fits.
        let read = chunks::open(&file)?.take(GENESIS_LIMIT + 1).read_to_end(&mut bytes);
        let length = read.with_context(|| format!("can't read {}", path.display()))?;
        if length as u64 > GENESIS_LIMIT {
            return Err(CliError::input(format!("{} is too large", path.display())).into());
        }
        Ok(bytes)
    });
    let files = files.collect::<anyhow::Result<Vec<_>>>()?;
    let slices: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    Ok(genesis_coins(network, &slices)?)
}

fn make_plan(
    request: &Request<'_>,
    network: Network,
    files: Vec<InputFile>,
    workroom: &Workroom,
    stored: &Stored,
    look: &Look<'_>,
) -> anyhow::Result<Plan> {
    match network.family() {
        Family::Cardano => cardano::plan(network, files, stored, request.stop_at, look),
        Family::Bitcoin => {
            let limits = Limits { stop_at: request.stop_at, allow_holes: request.allow_holes };
            let is_packed = files.iter().any(|file| file.is_packed);
            let unpacked = if is_packed { workroom.open()? } else { PathBuf::new() };
            let rooms = CatalogueFolders { unpacked, kept: request.data_dir.join(KEPT_CATALOGUE) };
            bitcoin::plan(network, &files, &rooms, stored, &limits, look)
        }
    }
}

fn warnings(
    request: &Request<'_>,
    known: Option<&StoreStatus>,
    options: &Options,
    found: &OpenReport,
) -> Vec<String> {
    let is_new = known.is_none_or(|status| status.chain.is_none());
    let mut warnings = Vec::new();
    let network = request.network.or(known.map(|status| status.network));
    let is_cardano = network.is_some_and(|network| network.family() == Family::Cardano);
    if is_cardano && is_new && request.genesis.is_empty() {
        warnings.push(
            "no --genesis was given: coins that existed before the first block are unknown".into(),
        );
    }
    if !options.enabled {
        warnings.push("the UTXO index is switched off: only the chain's points are kept".into());
    }
    if found.torn.is_some() {
        warnings
            .push("the last writes were lost in a crash; their blocks are being read again".into());
    }
    if found.reconciled > 0 {
        let undone = found.reconciled;
        warnings.push(format!("{undone} blocks of the index were rolled back to match the chain"));
    }
    warnings
}

fn change_branch(index: &mut ChainIndex, fork: &Fork) -> anyhow::Result<summary::RolledBack> {
    let from = index.tip();
    let undone = index.rollback(fork.target).with_context(|| {
        let at = fork.height.map_or("the origin".into(), |height| format!("height {height}"));
        let depth = fork.undoes;
        format!(
            "a branch with more work leaves the stored chain at {at}, {depth} blocks below the tip"
        )
    })?;
    Ok(summary::RolledBack { from, to: undone.tip, blocks: undone.blocks })
}
