//! `kill -9` of a whole engine, at random, many times.
//!
//! A child process runs an engine on a simulated network that is kept in a folder, and lets a scenario
//! happen. It is killed at random, also while it starts. Every few kills, and at the end, the folder
//! is opened here: the rooms must agree with the simulator, with each other, and with the events.

use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use unspent_engine::Engine;
use unspent_model::txstore::{DeletionWindows, RetentionBlocks};
use unspent_source::sim::SimNetwork;
use unspent_testkit::crash::{self, Note, Rng};
use unspent_wallet_room::scenario::Scenario;

use crate::{
    plugged::{check_count_events, check_counts},
    rig::{PATIENCE, Rig, quick, wallet},
    telling::check_events,
    txstore::{check_store, check_store_events, switch_on},
};
use unspent_example_room::CountingRoom;

const WORKER: &str = "kill::does_nothing_unless_another_test_started_it";
/// Phases of a worker, as its note tells them.
const STARTING: u64 = 1;
const RUNNING: u64 = 2;
/// Blocks that came while nobody looked; more than the window, and than is taken one by one.
const BURST: u32 = 40;

fn count(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The seed of the network and of every choice; a soak run takes another one each time.
fn seed() -> u64 {
    count("UNSPENT_ENGINE_SEED", 40)
}

fn note(folder: &Path) -> Note {
    Note::open(&folder.join("note")).unwrap()
}

fn network(folder: &Path) -> SimNetwork {
    SimNetwork::open(&folder.join("network"), seed()).unwrap()
}

fn start(folder: &Path, sim: &SimNetwork) -> Engine {
    let mut config = quick(&folder.join("data"), Arc::new(sim.clone()));
    // A small window, so that pruning and the horizon are at work too.
    let options = &mut config.room::<unspent_chain_room::ChainRoom>().unwrap().options;
    (options.rollback_window, options.prune_depth) = (30, 30);
    config.follow.bulk_threshold = 20;
    // A room that knows nothing of kills comes through them as well.
    config.rooms.push(Arc::new(CountingRoom::new(&folder.join("data"))));
    switch_on(
        &mut config,
        DeletionWindows { retention: RetentionBlocks(10), safety: 30, rollback: 30 },
    );
    Engine::start(config).unwrap()
}

#[test]
fn does_nothing_unless_another_test_started_it() {
    let Some((_, folder)) = crash::role() else { return };
    let note = note(&folder);
    let (mut done, _) = note.read().unwrap();
    note.write(done, STARTING).unwrap();
    let sim = network(&folder);
    if sim.commands() % 4 == 3 {
        // Far behind at the start: the rooms catch up in bulk.
        sim.mine_busy(BURST, 2).unwrap();
    }
    let engine = start(&folder, &sim);
    let room = unspent_wallet_room::wallets(&engine).unwrap();
    wallet(&room, "alice", 1, 0);
    wallet(&room, "bob", 2, 0);
    if done > 300 {
        wallet(&room, "carol", 3, 50);
    }
    let scenario = Scenario::new(engine, sim, seed()).with_deepest(8);
    note.write(done, RUNNING).unwrap();
    // Nothing stays behind when the test itself is ended.
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        scenario.step().unwrap();
        done += 1;
        note.write(done, RUNNING).unwrap();
    }
}

/// Opens what a kill left and compares everything with everything.
fn check(folder: &Path) {
    let sim = network(folder);
    let engine = start(folder, &sim);
    let rig = Rig { sim, engine, folder: tempfile::tempdir().unwrap() };
    rig.settle_and_check();
    rig.settle_mempool();
    check_events(&rig);
    check_counts(&rig.sim, &rig.engine);
    check_count_events(&rig.engine);
    rig.settle_room(unspent_txstore_room::NAME);
    check_store(&rig.sim, &unspent_txstore_room::store(&rig.engine).unwrap());
    check_store_events(&rig.engine);
    rig.engine.shutdown();
}

#[test]
fn killed_engines_find_their_place_again() {
    let kills = count("UNSPENT_ENGINE_KILLS", 40);
    let steps = count("UNSPENT_ENGINE_STEPS", 2_000);
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(seed());
    let (mut landed, mut last) = ([0_u64; 3], 0);
    let mut round = 0;
    while round < kills || note(folder.path()).read().unwrap().0 < steps {
        let mut child = crash::worker(WORKER, "run", folder.path()).unwrap().spawn().unwrap();
        let started = Instant::now();
        if rng.below(3) == 0 {
            // Somewhere in the start, recovery included.
            thread::sleep(Duration::from_millis(rng.below(120)));
        } else {
            let wanted = last + 1 + rng.below(2 * steps / kills.max(1));
            while note(folder.path()).read().unwrap().0 < wanted {
                assert!(child.try_wait().unwrap().is_none(), "the worker ended by itself");
                assert!(started.elapsed() < PATIENCE, "the worker hangs");
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_micros(rng.below(5_000)));
        }
        child.kill().unwrap();
        let status = crash::wait(&mut child, PATIENCE).unwrap();
        assert!(crash::was_killed(status), "{status}");
        let (done, phase) = note(folder.path()).read().unwrap();
        landed[phase as usize] += 1;
        last = done;
        round += 1;
        if round % 8 == 0 {
            check(folder.path());
        }
    }
    check(folder.path());
    println!("{round} kills, {last} steps; killed before the start, in it and after: {landed:?}");
    assert!(landed[STARTING as usize] > 0 && landed[RUNNING as usize] > 0, "{landed:?}");
}
