//! `kill -9` at random times, and in the middle of each kind of work.
//!
//! One folder suffers kill after kill, each during the recovery from the last one or further on,
//! until a worker gets through to the end. After each kill a copy is opened and checked, so that the
//! next worker finds the folder as the kill left it.

use std::{
    collections::BTreeMap,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use unspent_chain::StoreKind;
use unspent_testkit::crash::{self, Rng};

use crate::{
    driver::{Run, data, note},
    history::{History, Phase},
    worker::{PATIENCE, Plan, last_words},
};

/// Where a kill landed: the phase, and whether there was something to recover.
type Landed = (Phase, bool);

struct Killer {
    plan: Plan,
    history: History,
    folder: TempDir,
    rng: Rng,
    /// Kills on this folder so far.
    wounds: u64,
    landed: BTreeMap<Landed, u64>,
    finished: u64,
}

impl Killer {
    fn new(seed: u64, self_contained: bool, store: StoreKind) -> Self {
        let plan = Plan { long: true, self_contained, seed, store };
        Self {
            plan,
            history: plan.history(),
            folder: crate::scratch(),
            rng: Rng::new(seed),
            wounds: 0,
            landed: BTreeMap::new(),
            finished: 0,
        }
    }

    fn renew(&mut self) {
        self.plan.seed += 1;
        self.history = self.plan.history();
        self.folder = crate::scratch();
        self.wounds = 0;
    }

    /// The kind of work hit least so far. Recovery only counts on a folder with a wound.
    fn neglected(&self) -> Phase {
        let phases = [Phase::Open, Phase::Bulk, Phase::Apply, Phase::Rollback, Phase::Prune];
        let hits = |phase: &Phase| self.hits(*phase);
        phases.into_iter().min_by_key(hits).unwrap()
    }

    fn hits(&self, phase: Phase) -> u64 {
        self.landed.get(&(phase, true)).copied().unwrap_or_default()
    }

    /// One worker, one kill. False when the worker got through.
    fn kill(&mut self) -> bool {
        let mut child = self.plan.worker("run", self.folder.path()).spawn().unwrap();
        if self.rng.below(2) == 0 {
            thread::sleep(Duration::from_micros(self.rng.below(120_000)));
        } else {
            let phase = self.neglected();
            self.wait_for(phase, &mut child);
            let span = match phase {
                Phase::Open => 40_000,
                Phase::Bulk => 20_000,
                _ => 200,
            };
            let pause = Duration::from_micros(self.rng.below(span));
            let started = Instant::now();
            while started.elapsed() < pause {
                std::hint::spin_loop();
            }
        }
        child.kill().unwrap();
        let status = crash::wait(&mut child, PATIENCE).unwrap();
        if !crash::was_killed(status) {
            assert!(status.success(), "{status}: {}", last_words(&mut child));
            return false;
        }
        let phase = Phase::from_number(note(self.folder.path()).read().unwrap().1);
        *self.landed.entry((phase, self.wounds > 0)).or_default() += 1;
        self.wounds += 1;
        true
    }

    fn wait_for(&self, phase: Phase, child: &mut Child) {
        let note = note(self.folder.path());
        let started = Instant::now();
        while note.read().unwrap().1 != phase as u64 {
            if started.elapsed() > Duration::from_millis(5) && child.try_wait().unwrap().is_some() {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "the worker hangs");
        }
    }

    /// Opens a copy of what the kill left.
    fn check(&self, what: &str) {
        let copy = crate::scratch();
        crash::copy_folder(self.folder.path(), copy.path()).unwrap();
        let run = Run::open(&self.history, copy.path()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
        run.check_boundary(what);
    }

    fn finish(&mut self) {
        let what = format!("{:?} after {} kills", self.plan, self.wounds);
        let mut run = Run::open(&self.history, self.folder.path()).unwrap();
        run.check_convergence(&what);
        drop(run);
        assert!(data(self.folder.path()).is_dir());
        self.finished += 1;
    }
}

fn survive(seed: u64, self_contained: bool, store: StoreKind, kills: u64) {
    let mut killer = Killer::new(seed, self_contained, store);
    let mut done = 0;
    while done < kills {
        if killer.kill() {
            done += 1;
            killer.check(&format!("{:?}, kill {done}, landed {:?}", killer.plan, killer.landed));
        } else {
            killer.finish();
            killer.renew();
        }
    }
    killer.finish();
    let Killer { landed, finished, .. } = &killer;
    println!(
        "{kills} kills, {finished} folders brought to the end, by (phase, wounded): {landed:?}"
    );
    for phase in [Phase::Open, Phase::Bulk, Phase::Apply, Phase::Rollback, Phase::Prune] {
        assert!(killer.hits(phase) > 0, "no kill landed in {phase:?}: {landed:?}");
    }
}

/// Two tests share the figure.
fn count_for_one_test() -> u64 {
    crate::count("UNSPENT_KILLS", 200).div_ceil(2)
}

#[test]
fn killed_workers_leave_a_block_boundary_and_the_next_one_goes_on() {
    survive(100, false, StoreKind::Classic, count_for_one_test());
}

#[test]
fn killed_workers_with_self_contained_deltas_leave_a_block_boundary_too() {
    survive(900, true, StoreKind::Classic, count_for_one_test());
}

#[test]
fn killed_workers_leave_a_block_boundary_in_the_mmr_store_too() {
    survive(500, false, StoreKind::Mmr, count_for_one_test().div_ceil(2));
}
