//! A crash at every single call that changes a file, from the creation of the folder to the end.
//!
//! The points are taken one after the other until workers get through undisturbed. How many calls a
//! run makes varies a little with the background threads, so one that gets through is not the end
//! yet. Two tests share each sequence, so that both cores have work.

use unspent_chain::StoreKind;
use unspent_testkit::crash;

use crate::{
    driver::Run,
    interpose::{Fault, Interposer},
    worker::{PATIENCE, Plan, last_words},
};

/// Tests that share a sequence of points.
const SHARES: u64 = 2;
/// Workers in a row that must get through before the end is believed.
const UNDISTURBED: u32 = 8;

/// The MMR store writes in the same batches: of its points every so manieth is taken.
const MMR_STRIDE: u64 = 5;

fn crash_everywhere(fault: Fault, self_contained: bool, share: u64) {
    let stride = SHARES * crate::count("UNSPENT_CRASH_STRIDE", 1);
    crash_on(StoreKind::Classic, fault, self_contained, (share, stride));
}

fn crash_on(store: StoreKind, fault: Fault, self_contained: bool, (share, stride): (u64, u64)) {
    let Some(interposer) = Interposer::build() else { return };
    for seed in 0..crate::count("UNSPENT_CRASH_HISTORIES", 1) {
        let self_contained = self_contained ^ (seed % 2 == 1);
        let plan = Plan { long: false, self_contained, seed, store };
        let survived = crash_along(&interposer, &plan, fault, (1 + share, stride));
        println!("{plan:?}: {survived} crashes ({fault:?}) survived, share {share} of {SHARES}");
        assert!(survived > 2, "the faults did not reach the worker");
    }
}

/// Crashes at the first call and at each one a stride further, to the end; returns how many.
fn crash_along(
    interposer: &Interposer,
    plan: &Plan,
    fault: Fault,
    (first, stride): (u64, u64),
) -> u64 {
    let (mut call, mut survived, mut undisturbed) = (first, 0, 0);
    while undisturbed < UNDISTURBED {
        if crash_at(interposer, plan, fault, call) {
            (survived, undisturbed) = (survived + 1, 0);
        } else {
            undisturbed += 1;
        }
        call += stride;
    }
    survived
}

/// Crashes a worker at the given call; false when it has no such call.
fn crash_at(interposer: &Interposer, plan: &Plan, fault: Fault, call: u64) -> bool {
    let folder = crate::scratch();
    let mut child = interposer.worker(plan, "run", folder.path(), fault, call).spawn().unwrap();
    let status = crash::wait(&mut child, PATIENCE).unwrap();
    if !crash::was_killed(status) {
        assert!(status.success(), "{status}: {}", last_words(&mut child));
        return false;
    }
    let what = format!("{plan:?}, {fault:?} at call {call}");
    let history = plan.history();
    let mut run = Run::open(&history, folder.path()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    run.check_boundary(&what);
    run.check_convergence(&what);
    true
}

#[test]
fn a_kill_at_any_odd_write_point_leaves_a_block_boundary() {
    crash_everywhere(Fault::Kill, false, 0);
}

#[test]
fn a_kill_at_any_even_write_point_leaves_a_block_boundary() {
    crash_everywhere(Fault::Kill, false, 1);
}

#[test]
fn a_write_torn_at_any_odd_point_leaves_a_block_boundary() {
    crash_everywhere(Fault::Torn, true, 0);
}

#[test]
fn a_write_torn_at_any_even_point_leaves_a_block_boundary() {
    crash_everywhere(Fault::Torn, true, 1);
}

#[test]
fn a_kill_at_a_write_point_leaves_a_block_boundary_in_the_mmr_store() {
    let stride = MMR_STRIDE * crate::count("UNSPENT_CRASH_STRIDE", 1);
    crash_on(StoreKind::Mmr, Fault::Kill, false, (2, stride));
}

#[test]
fn a_torn_write_leaves_a_block_boundary_in_the_mmr_store() {
    let stride = MMR_STRIDE * crate::count("UNSPENT_CRASH_STRIDE", 1);
    crash_on(StoreKind::Mmr, Fault::Torn, true, (4, stride));
}
