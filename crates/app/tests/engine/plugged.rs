//! The example room: plugged in by one line, it follows like the rooms of the product.

use std::sync::Arc;

use unspent_engine::Engine;
use unspent_example_room::{self as counting, CountingRoom};
use unspent_source::sim::SimNetwork;

use crate::rig::{Rig, wait_for};

/// Payments on the simulator's best chain, and its blocks.
pub fn truth(sim: &SimNetwork) -> (i64, i64) {
    sim.look(|sim| {
        let heights = 0..=sim.height();
        let payments = heights.map(|height| sim.block_at(height).unwrap().block.txdata.len() - 1);
        (i64::from(sim.height()) + 1, payments.sum::<usize>() as i64)
    })
}

pub fn check_counts(sim: &SimNetwork, engine: &Engine) {
    wait_for("every block to be counted", || counting::figures(engine) == Some(truth(sim)));
}

/// The events, replayed, give what is counted.
pub fn check_count_events(engine: &Engine) {
    wait_for("the events to agree with the counts", || {
        let (mut blocks, mut payments, mut after) = (0, 0, 0);
        loop {
            let page = engine.events().after(after, 1_000).unwrap();
            let Some(last) = page.events.last() else { break };
            after = last.id;
            for event in page.events.iter().filter(|event| event.room == counting::NAME.name()) {
                let sign = if event.kind == counting::COUNTED.name { 1 } else { -1 };
                blocks += sign;
                payments += sign * event.body["payments"].as_i64().unwrap();
            }
        }
        counting::figures(engine) == Some((blocks, payments))
    });
}

fn with_counting(seed: u64) -> Rig {
    let sim = SimNetwork::in_memory(seed);
    let folder = tempfile::tempdir().unwrap();
    let config = crate::rig::quick(folder.path(), Arc::new(sim.clone()));
    let config = config.with(CountingRoom::new(folder.path()));
    Rig { sim, engine: Engine::start(config).unwrap(), folder }
}

#[test]
fn a_room_that_is_plugged_in_follows_reorganisations() {
    let rig = with_counting(71);
    rig.wallet("alice", 1);
    rig.sim.mine_busy(130, 3).unwrap();
    rig.settle();
    check_counts(&rig.sim, &rig.engine);
    for depth in [1, 3, 7] {
        rig.sim.fork(depth).unwrap();
        rig.sim.mine_busy(2, 2).unwrap();
        check_counts(&rig.sim, &rig.engine);
        rig.settle_and_check();
    }
    check_count_events(&rig.engine);
    let undone = rig.engine.events().after(0, 1_000).unwrap().events;
    assert!(
        undone.iter().any(|event| event.kind == counting::UNCOUNTED.name),
        "nothing was undone"
    );
}

#[test]
fn its_job_its_status_and_its_end_are_the_engines_business() {
    let rig = with_counting(72);
    rig.sim.mine(5).unwrap();
    check_counts(&rig.sim, &rig.engine);
    rig.engine.run_job(counting::REPORT).unwrap();
    let status = rig.engine.status();
    let job = status.jobs.iter().find(|job| job.job == counting::REPORT).unwrap();
    assert_eq!(job.last_outcome.as_deref(), Some("0 payments in 6 blocks"));
    assert!(status.rooms.iter().any(|room| room.room == counting::NAME));
    rig.engine.shutdown();
    assert_eq!(counting::figures(&rig.engine), None, "it is closed with the engine");
}
