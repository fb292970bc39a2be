//! Events: none lost, none doubled, and what they tell is the rooms' own.

use std::{collections::BTreeMap, time::Duration};

use unspent_engine::Event;
use unspent_wallet_room::scenario::Scenario;

use crate::rig::{Rig, wait_for};

/// Every event there is, checked for dense numbers.
pub fn all_events(rig: &Rig) -> Vec<Event> {
    let mut all: Vec<Event> = Vec::new();
    loop {
        let page = rig.engine.events().after(all.last().map_or(0, |e| e.id), 1_000).unwrap();
        if page.events.is_empty() {
            assert_eq!(page.last, all.len() as u64);
            break;
        }
        all.extend(page.events);
    }
    for (event, id) in all.iter().zip(1..) {
        assert_eq!(event.id, id, "ids are dense");
    }
    all
}

/// Follows the chain events from the beginning; the last height and hash they lead to.
pub fn replay_chain(events: &[Event]) -> Option<(u64, String)> {
    let mut chain: BTreeMap<u64, String> = BTreeMap::new();
    for event in events.iter().filter(|event| event.room == "chain") {
        let subject = event.subject.clone().unwrap();
        match event.kind.as_str() {
            "block_applied" => {
                let height = event.body["height"].as_u64().unwrap();
                let next = chain.keys().next_back().map_or(0, |last| last + 1);
                assert_eq!(height, next, "a block follows the one before: {event:?}");
                chain.insert(height, subject);
            }
            "catching_up" => {
                chain.insert(event.body["height"].as_u64().unwrap(), subject);
            }
            "reorganisation" => {
                let (at, tip) = chain.iter().next_back().unwrap();
                assert_eq!((tip, *at), (&subject, event.body["from"]["height"].as_u64().unwrap()));
                let to = event.body["to"]["height"].as_u64().unwrap();
                assert_eq!(event.body["depth"].as_u64().unwrap(), at - to);
                chain.retain(|height, _| *height <= to);
                // After a jump the block itself may not have been told one by one.
                let hash = event.body["to"]["block_hash"].as_str().unwrap().to_owned();
                assert_eq!(*chain.entry(to).or_insert(hash.clone()), hash);
            }
            other => panic!("{other}"),
        }
    }
    chain.into_iter().next_back()
}

/// Every line of every journal is an event exactly once, in order.
pub fn check_journals(rig: &Rig, events: &[Event]) {
    for wallet in rig.room().wallets(None).unwrap() {
        let mut lines = Vec::new();
        loop {
            let page = rig
                .room()
                .journal(wallet.id, None, lines.last().copied().unwrap_or(0), 1_000)
                .unwrap();
            if page.is_empty() {
                break;
            }
            lines.extend(page.iter().map(|line| line.id));
        }
        let ours = events.iter().filter(|event| {
            event.room == "wallet" && event.wallet.as_deref() == Some(wallet.name.as_str())
        });
        let told: Vec<i64> = ours.map(|event| event.body["line"].as_i64().unwrap()).collect();
        assert_eq!(told, lines, "journal of {}", wallet.name);
    }
}

/// Waits until everything is told, then checks all of it.
pub fn check_events(rig: &Rig) {
    let tip = rig.sim.look(|sim| (u64::from(sim.height()), sim.tip().to_string()));
    wait_for("the chain to be told", || {
        let events = rig.engine.events().after(0, 1).unwrap();
        events.last > 0 && replay_chain(&all_events(rig)) == Some(tip.clone())
    });
    // Nothing moves any more: one more round of the teller, then all lines are there.
    wait_for("the journals to be told", || {
        let events = all_events(rig);
        let told = events.iter().filter(|event| event.room == "wallet").count();
        let lines: usize = rig
            .room()
            .wallets(None)
            .unwrap()
            .iter()
            .map(|wallet| {
                let (mut count, mut after) = (0, 0);
                loop {
                    let page = rig.room().journal(wallet.id, None, after, 1_000).unwrap();
                    let Some(last) = page.last() else { return count };
                    after = last.id;
                    count += page.len();
                }
            })
            .sum();
        told == lines
    });
    check_journals(rig, &all_events(rig));
}

#[test]
fn events_over_restarts_are_neither_lost_nor_doubled() {
    let mut rig = Rig::start(30);
    rig.wallet("alice", 1);
    rig.wallet("bob", 2);
    for round in 0..6 {
        let scenario = Scenario::new(rig.engine.clone(), rig.sim.clone(), 30);
        for _ in 0..25 {
            scenario.step().unwrap();
        }
        drop(scenario);
        if round % 2 == 0 {
            rig.settle();
        }
        rig.restart();
    }
    rig.settle_and_check();
    // The mempool may still be read: wait for a quiet moment.
    std::thread::sleep(Duration::from_millis(200));
    check_events(&rig);
}

#[test]
fn a_reorganisation_while_the_engine_is_away_is_told_exactly() {
    let mut rig = Rig::start(31);
    rig.sim.mine(30).unwrap();
    rig.settle_room(unspent_chain_room::NAME);
    wait_for("all told", || replay_chain(&all_events(&rig)).is_some_and(|(at, _)| at == 30));
    rig.engine.shutdown();
    rig.sim.fork(4).unwrap();
    rig.restart();
    rig.settle_room(unspent_chain_room::NAME);
    let tip = rig.sim.look(|sim| (u64::from(sim.height()), sim.tip().to_string()));
    wait_for("all told", || replay_chain(&all_events(&rig)) == Some(tip.clone()));
    let events = all_events(&rig);
    let reorgs: Vec<&Event> = events.iter().filter(|e| e.kind == "reorganisation").collect();
    assert_eq!(reorgs.len(), 1);
    assert_eq!(reorgs[0].body["depth"], 4);
}

#[test]
fn listeners_are_woken_and_old_events_are_forgotten() {
    let rig = Rig::with(32, |config| config.events_kept = 10);
    let mut newest = rig.engine.events().subscribe();
    assert!(rig.engine.events().wait(0, Duration::from_secs(20)), "genesis is told");
    assert!(!rig.engine.events().wait(rig.engine.events().last_id(), Duration::from_millis(20)));
    rig.sim.mine(5).unwrap();
    assert!(rig.engine.events().wait(5, Duration::from_secs(20)), "five blocks and genesis");
    for _ in 0..20 {
        rig.sim.mine(1).unwrap();
        rig.settle_room(unspent_chain_room::NAME);
    }
    wait_for("26 events", || rig.engine.events().last_id() >= 26);
    let page = rig.engine.events().after(0, 1_000).unwrap();
    assert_eq!((page.events.len(), page.first_kept), (10, page.last - 9));
    assert!(*newest.borrow_and_update() >= 26);
    let rest = rig.engine.events().after(page.last - 3, 2).unwrap();
    assert_eq!(
        rest.events.iter().map(|e| e.id).collect::<Vec<_>>(),
        [page.last - 2, page.last - 1]
    );
}
