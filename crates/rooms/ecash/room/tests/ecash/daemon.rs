//! The room in an engine: a payment that was begun by somebody else comes to its end, and is told.

use std::{sync::Arc, time::Duration};

use unspent_ecash::KeySource;
use unspent_ecash_room::{
    EcashRoom, NAME,
    events::{CREATED, MOVED},
    executor, figures,
    mint::check::MintBlocklist,
    watch::ListenerOptions,
    work::{payments::RequestKey, worker::WorkerOptions},
};
use unspent_engine::{Config, Engine};
use unspent_model::ecash::EntityState;
use unspent_source::sim::SimNetwork;
use unspent_testkit::ecash::{MintSettings, Nutshell};

use crate::purse::{options, wait_for};

fn config(folder: &std::path::Path) -> Config {
    let mut config = Config::new(folder.to_owned(), Arc::new(SimNetwork::in_memory(7)));
    config.rooms.clear();
    config.follow.poll = Duration::from_millis(50);
    let key = Arc::new(KeySource::KeyFile(vec![7; 32].into()));
    let listener = ListenerOptions { allow_private: true, ..ListenerOptions::default() };
    config.rooms.push(Arc::new(EcashRoom {
        mints: options(),
        worker: WorkerOptions { listener, ..WorkerOptions::default() },
        ..EcashRoom::new(folder, key)
    }));
    config
}

#[test]
fn the_daemon_brings_payments_of_others_to_their_end_and_tells_of_it() {
    let Some(mint) = Nutshell::start(MintSettings::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::start(config(folder.path())).unwrap();
    let executor = executor(&engine).unwrap();
    let account =
        executor.add_account(&mint.url(), "sat", "purse", &MintBlocklist::default()).unwrap();
    let begun = executor.receive(&account.id, 64, &RequestKey::default()).unwrap();
    wait_for("the worker has claimed it", || {
        executor.store.entity(&begun.id).unwrap().state == EntityState::Completed
    });
    let found = figures(&engine).unwrap();
    assert_eq!(found.accounts[0].1.unspent, 64);
    wait_for("every change is told once", || {
        let told = engine.events().after(0, 500).unwrap().events;
        let told = told.iter().filter(|event| event.subject.as_ref() == Some(&begun.id));
        let kinds: Vec<_> = told.map(|event| event.kind.clone()).collect();
        let lines = executor.store.journal_of(&begun.id).unwrap().len();
        kinds.first().is_some_and(|kind| kind == CREATED.name)
            && kinds.len() == lines
            && kinds[1..].iter().all(|kind| kind == MOVED.name)
    });
    assert_eq!(NAME.name(), "ecash");
    drop(executor);
    engine.shutdown();
    // Opened again, nothing is told twice.
    let engine = Engine::start(config(folder.path())).unwrap();
    let before = engine.events().after(0, 500).unwrap().events.len();
    wait_for("a pass", || figures(&engine).is_some());
    assert_eq!(engine.events().after(0, 500).unwrap().events.len(), before);
    engine.shutdown();
}
