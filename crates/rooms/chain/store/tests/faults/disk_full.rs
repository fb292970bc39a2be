//! The disk is full: a typed error, no more writes, reads that are right, and all is well once there
//! is space again.

use std::{collections::BTreeMap, fs, path::Path};

use unspent_chain::{Kind, StoreError, StoreKind, prepare};
use unspent_testkit::crash;

use crate::{
    driver::{Failure, Run, data},
    history::History,
    interpose::{Fault, Interposer},
    worker::{PATIENCE, Plan, last_words},
};

/// Points tried by each test.
const POINTS: u64 = 25;

fn fill_up(fault: Fault, self_contained: bool) {
    let Some(interposer) = Interposer::build() else { return };
    let plan = Plan { long: false, self_contained, seed: 3, store: StoreKind::Classic };
    let calls = interposer.calls(&plan);
    let points = crate::count("UNSPENT_FULL_POINTS", POINTS).min(calls);
    let mut outcomes = BTreeMap::<String, u64>::new();
    for point in 0..points {
        let call = 1 + point * calls / points;
        let outcome = fill_at(&interposer, &plan, fault, call);
        *outcomes.entry(outcome).or_default() += 1;
    }
    println!("{points} of {calls} calls fail ({fault:?}): {outcomes:?}");
    let errors: u64 = outcomes.iter().filter(|(what, _)| *what != "no error").map(|(_, n)| n).sum();
    assert!(errors > points / 4, "the faults did not reach the worker: {outcomes:?}");
}

fn fill_at(interposer: &Interposer, plan: &Plan, fault: Fault, call: u64) -> String {
    let folder = crate::scratch();
    fs::create_dir_all(data(folder.path()).join("db")).unwrap();
    let mut child = interposer.worker(plan, "full", folder.path(), fault, call).spawn().unwrap();
    let what = format!("{plan:?}, {fault:?} at call {call}");
    let status = crash::wait(&mut child, PATIENCE);
    let status = status.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(status.success(), "{what}: {status}: {}", last_words(&mut child));
    let history = plan.history();
    let mut run = Run::open(&history, folder.path()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    run.check_tip(&what);
    run.check_convergence(&what);
    fs::read_to_string(outcome_file(folder.path())).unwrap()
}

fn outcome_file(folder: &Path) -> std::path::PathBuf {
    folder.join("outcome")
}

/// The worker's part: goes on until a write fails, and looks at what is left then.
pub fn work_until_full(history: &History, folder: &Path) {
    let outcome = match Run::open(history, folder) {
        Err(failure) => typed(&failure),
        Ok(mut run) => match run.finish() {
            Ok(()) => "no error".to_owned(),
            Err(failure) => {
                let outcome = typed(&failure);
                // Without an index the failing step was an opening.
                if run.index.is_some() {
                    refuses_writes(&mut run);
                    reads_are_right(&run);
                }
                // Closing on a full disk must come to an end too.
                drop(run);
                outcome
            }
        },
    };
    fs::write(outcome_file(folder), outcome).unwrap();
}

fn typed(failure: &Failure) -> String {
    assert_eq!(failure.kind(), Kind::Unavailable, "{failure:?}");
    let text = format!("{failure:?}");
    text.split('(').next().unwrap().to_owned()
}

fn refuses_writes(run: &mut Run<'_>) {
    let any = prepare(run.history.nodes[0].block.clone());
    let refused = run.index().apply(any).unwrap_err();
    assert!(
        matches!(&refused, unspent_chain::ApplyError::Store(StoreError::NeedsReopen)),
        "{refused:?}"
    );
    let refused = run.index().prune().unwrap_err();
    assert!(matches!(&refused, StoreError::NeedsReopen), "{refused:?}");
}

fn reads_are_right(run: &Run<'_>) {
    match run.reader().digest() {
        Ok(digest) => {
            let tip = digest.at.map(|point| run.history.find(point).unwrap());
            assert_eq!(digest, run.history.digest(tip));
        }
        Err(error) => assert_eq!(error.kind(), Kind::Unavailable, "{error}"),
    }
}

#[test]
fn a_call_that_finds_no_space_is_a_typed_error_and_nothing_acknowledged_is_lost() {
    fill_up(Fault::Once, false);
}

#[test]
fn a_disk_that_stays_full_is_a_typed_error_and_work_resumes_when_there_is_space() {
    fill_up(Fault::Full, true);
}
