//! Other databases, other chains, restored folders, and what a monitor sees.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use unspent_chain::{ChainIndex, Options, prepare};
use unspent_engine::{Config, Engine, RoomState, StartError};
use unspent_model::{Network, Point};
use unspent_networks::{cardano::framing::split_cbor_items, decode_block};
use unspent_source::{Node, Origin, RawBlock, Source, SourceError, Step};
use unspent_testkit::{crash::copy_folder, data, wallet::postgres};
use unspent_wallet_room::scenario::Scenario;

use crate::{
    rig::{Rig, quick, wait_for},
    telling::check_events,
};

#[test]
fn wallets_on_postgresql_follow_too() {
    let Some(url) = postgres::database() else { return };
    let rig = Rig::with(50, |config| {
        config.room::<unspent_wallet_room::WalletRoom>().unwrap().url = url.parse().unwrap()
    });
    rig.wallet("ours", 1);
    rig.sim.mine(110).unwrap();
    let scenario = Scenario::new(rig.engine.clone(), rig.sim.clone(), 50);
    for round in 0..60 {
        scenario.step().unwrap();
        if round == 30 {
            // The server goes away for a moment; nothing is lost.
            rig.settle();
            postgres::break_connections(&url);
        }
    }
    rig.settle_and_check();
    rig.settle_mempool();
}

#[test]
fn a_restored_folder_catches_up_and_every_unconfirmed_payment_is_judged_again() {
    let mut rig = Rig::start(51);
    rig.wallet("alice", 1);
    rig.wallet("bob", 2);
    let tell = |rig: &Rig, steps: u32| {
        let scenario = Scenario::new(rig.engine.clone(), rig.sim.clone(), 51);
        for _ in 0..steps {
            scenario.step().unwrap();
        }
    };
    tell(&rig, 80);
    rig.settle();
    rig.engine.shutdown();
    let backup = tempfile::tempdir().unwrap();
    copy_folder(rig.folder.path(), backup.path()).unwrap();
    rig.restart();
    tell(&rig, 80);
    rig.settle();
    rig.engine.shutdown();
    std::fs::remove_dir_all(rig.folder.path()).unwrap();
    copy_folder(backup.path(), rig.folder.path()).unwrap();
    rig.restart();
    rig.settle_and_check();
    rig.settle_mempool();
    check_events(&rig);
}

/// Real Cardano blocks, of which the source shows the first `shown`.
#[derive(Clone)]
struct Blocks {
    blocks: Arc<Vec<RawBlock>>,
    shown: Arc<AtomicUsize>,
}

impl Origin for Blocks {
    fn network(&self) -> Network {
        Network::CardanoPreview
    }

    fn name(&self) -> String {
        "a list of blocks".into()
    }

    fn open(&self) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(BlocksReader { origin: self.clone(), next: 0 }))
    }

    fn node(&self) -> Option<Arc<dyn Node>> {
        None
    }
}

struct BlocksReader {
    origin: Blocks,
    next: usize,
}

impl BlocksReader {
    fn shown(&self) -> &[RawBlock] {
        &self.origin.blocks[..self.origin.shown.load(Ordering::SeqCst)]
    }
}

impl Source for BlocksReader {
    fn intersect(&mut self, points: &[Point]) -> Result<Option<Point>, SourceError> {
        let place = |point: &Point| self.shown().iter().position(|block| block.point == *point);
        let found = points.iter().find_map(|point| Some((*point, place(point)?)));
        self.next = found.map_or(0, |(_, at)| at + 1);
        Ok(found.map(|(point, _)| point))
    }

    fn next(&mut self, patience: Duration) -> Result<Step, SourceError> {
        let shown = self.shown().len();
        if self.next > shown {
            self.next = shown;
            return Ok(Step::Backward(self.shown().last().map(|block| block.point)));
        }
        if let Some(block) = self.shown().get(self.next).cloned() {
            self.next += 1;
            return Ok(Step::Forward(block));
        }
        std::thread::sleep(patience);
        Ok(Step::Nothing)
    }

    fn tip(&self) -> Option<Point> {
        self.shown().last().map(|block| block.point)
    }
}

#[test]
fn real_cardano_blocks_are_followed_back_and_forth() {
    let Some(bytes) = data::bytes("cardano/preview/00000.chunk") else { return };
    let network = Network::CardanoPreview;
    let raw = |item: &[u8]| {
        let header = decode_block(network, item, None).unwrap().header;
        RawBlock::new(header.point, Some(header.parent), item)
    };
    let blocks: Vec<RawBlock> = split_cbor_items(&bytes).map(|item| raw(item.unwrap())).collect();
    assert!(blocks.len() > 200);
    let origin =
        Blocks { blocks: Arc::new(blocks), shown: Arc::new(AtomicUsize::new(blocks_at_start())) };
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::start(quick(folder.path(), Arc::new(origin.clone()))).unwrap();
    let digest_of = |count: usize| {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::for_network(network);
        let (mut index, _) = ChainIndex::open(folder.path(), network, options, &[]).unwrap();
        for block in &origin.blocks[..count] {
            index.apply(prepare(decode_block(network, &block.bytes, None).unwrap())).unwrap();
        }
        index.reader().digest().unwrap()
    };
    for shown in [blocks_at_start(), origin.blocks.len(), 150, origin.blocks.len(), 1] {
        origin.shown.store(shown, Ordering::SeqCst);
        let tip = origin.blocks[shown - 1].point;
        wait_for("the tip", || {
            unspent_chain_room::reader(&engine).unwrap().tip().unwrap() == Some(tip)
        });
        assert_eq!(
            unspent_chain_room::reader(&engine).unwrap().digest().unwrap(),
            digest_of(shown)
        );
    }
    wait_for("both rollbacks to be noted", || engine.status().rooms[0].reorgs == 2);
    let last = engine.status().rooms[0].last_reorg.clone().unwrap();
    assert_eq!(last.depth, origin.blocks.len() as u64 - 1);
    assert_eq!(engine.status().rooms[1].state, RoomState::Off);
}

fn blocks_at_start() -> usize {
    130
}

#[test]
fn wallets_on_cardano_and_a_source_of_another_network_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Blocks { blocks: Arc::default(), shown: Arc::default() };
    let config = Config::new(folder.path().to_owned(), Arc::new(origin));
    let mut config = config.with(unspent_wallet_room::WalletRoom::new(folder.path()));
    assert!(matches!(Engine::start(config.clone()), Err(StartError::Unsupported { .. })));
    config.without(unspent_wallet_room::NAME);
    config.network = Network::Bitcoin;
    assert!(matches!(Engine::start(config), Err(StartError::Network { .. })));
}

#[test]
fn a_monitor_sees_what_the_engine_does() {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    recorder.install().unwrap();
    let rig = Rig::start(52);
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(140).unwrap();
    rig.settle();
    rig.sim.pay(&rig.script(ours, 0), 20_000, 300).unwrap();
    rig.sim.mine_busy(3, 2).unwrap();
    rig.settle();
    rig.sim.fork(2).unwrap();
    rig.settle();
    rig.engine.run_job(unspent_engine::jobs::MEASURE).unwrap();
    rig.engine.run_job(unspent_wallet_room::READ_MEMPOOL).unwrap();
    assert_eq!(rig.status(unspent_chain_room::NAME).lag, Some(0));
    let seen = snapshots.snapshot().into_vec();
    let names: Vec<String> = seen.iter().map(|(key, ..)| key.key().name().to_owned()).collect();
    for name in [
        "unspent_engine_blocks_applied_total",
        "unspent_engine_apply_seconds",
        "unspent_engine_reorgs_total",
        "unspent_engine_reorg_depth",
        "unspent_engine_lag_blocks",
        "unspent_engine_mempool_transactions",
        "unspent_engine_job_runs_total",
        "unspent_engine_job_seconds",
        "unspent_engine_events_total",
        "unspent_engine_cache_blocks",
        "unspent_engine_cache_bytes",
        "unspent_engine_batches_waiting",
        "unspent_chain_disk_bytes",
        "unspent_wallet_table_rows",
        "unspent_wallet_table_bytes",
        "unspent_wallet_active_leases",
        "unspent_wallet_purge_latency_seconds",
    ] {
        assert!(names.iter().any(|seen| seen == name), "{name} is missing: {names:?}");
    }
}
