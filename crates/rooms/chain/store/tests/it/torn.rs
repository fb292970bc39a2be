//! A log cut short by a power failure: an earlier block boundary, and never without a word.

use std::fs::{self, OpenOptions};

use unspent_chain::{ChainIndex, RollbackTarget, prepare};
use unspent_testkit::chain::{Event, Step, World};

use crate::driver::{Store, folder, small_windows};

#[test]
fn a_lost_change_of_branch_is_reported() {
    let mut store = Store::cardano(small_windows(30, 30));
    let mut world = World::new(store.rules(), &[]);
    let mut next = |store: &mut Store, seed| {
        let Step::Apply(block) = world.step(&Event::Apply(seed)) else { panic!("a block") };
        world.feed(&Step::Apply(block.clone()));
        store.index().apply(prepare(block)).unwrap();
    };
    (0..6).for_each(|seed| next(&mut store, seed));
    let point = store.index().tip().unwrap();
    (6..9).for_each(|seed| next(&mut store, seed));
    let back = RollbackTarget::Point { height: point.height, hash: point.hash };
    store.index().rollback(back).unwrap();
    world.reference.rollback(6);
    let mut next = |store: &mut Store, seed| {
        let Step::Apply(block) = world.step(&Event::Apply(seed)) else { panic!("a block") };
        world.feed(&Step::Apply(block.clone()));
        store.index().apply(prepare(block)).unwrap();
    };
    // As many blocks as before: counting blocks alone would not notice the loss.
    (106..109).for_each(|seed| next(&mut store, seed));
    let right = store.reader().digest().unwrap();
    store.close();
    let logs = fs::read_dir(store.folder.path().join("db")).unwrap();
    let logs = logs.map(|entry| entry.unwrap().path());
    let log = logs
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    let length = fs::metadata(&log).unwrap().len();
    let (mut cut_back, mut whole) = (0, 0);
    for cut in (0..=length).rev().step_by(211) {
        let copy = folder();
        fs::create_dir(copy.path().join("db")).unwrap();
        for entry in fs::read_dir(store.folder.path().join("db")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, copy.path().join("db").join(path.file_name().unwrap())).unwrap();
        }
        fs::copy(store.folder.path().join("acknowledged"), copy.path().join("acknowledged"))
            .unwrap();
        let torn = copy.path().join("db").join(log.file_name().unwrap());
        OpenOptions::new().write(true).open(torn).unwrap().set_len(cut).unwrap();
        let options = small_windows(30, 30);
        let (index, report) = ChainIndex::open(copy.path(), store.network, options, &[]).unwrap();
        assert!(index.reader().verify(&mut |_| {}).unwrap().is_clean(), "cut at {cut}");
        if index.reader().digest().unwrap() == right {
            whole += 1;
        } else {
            assert!(report.torn.is_some(), "cut at {cut}: lost without a word");
            cut_back += 1;
        }
    }
    assert!(cut_back > 10 && whole > 0, "{cut_back} {whole}");
}
