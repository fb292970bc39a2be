//! The daemon is killed at random and comes back; nothing is lost, nothing is doubled.

use std::time::Duration;

use serde_json::Value;

use crate::{
    daemon::Daemon,
    world::{self, SEED_SETTING, funded, network},
};

const ROUNDS: u64 = 6;

/// Every event, by pages.
fn events(daemon: &Daemon) -> Vec<Value> {
    let (client, mut all, mut after) = (daemon.admin(), Vec::new(), 0);
    loop {
        let page = client.get(&format!("/api/v1/events?limit=500&after={after}")).ok();
        all.extend(page["events"].as_array().unwrap().iter().cloned());
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => return all,
        }
    }
}

#[test]
fn a_daemon_killed_at_random_times_comes_back_whole() {
    let folder = funded();
    let settings = [SEED_SETTING, "source.sim.block_seconds=1"];
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    drop(daemon);
    for round in 0..ROUNDS {
        let net = network(&folder);
        net.pay(&world::script(4), 1_000 + round, 300).unwrap();
        net.mine_mempool().unwrap();
        if round % 2 == 1 {
            net.fork(3).unwrap();
        }
        drop(net);
        let daemon = folder.start(&settings);
        std::thread::sleep(Duration::from_millis(150 * round));
        daemon.kill();
    }
    let daemon = folder.start(&[SEED_SETTING]);
    let tip = network_tip(&daemon);
    daemon.wait_for("both rooms stand at the tip", |client| {
        let status = client.get("/api/v1/status").ok();
        let at = |room: usize| status["rooms"][room]["tip"]["block_hash"].clone();
        at(0) == *tip && at(1) == *tip
    });
    let audit = daemon.admin().get("/api/v1/wallets/alice/audit").ok();
    assert_eq!(audit["differences"].as_array().unwrap().len(), 0, "{audit}");
    let ids: Vec<u64> = events(&daemon).iter().map(|e| e["id"].as_u64().unwrap()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{ids:?}");
    assert_eq!(daemon.end(), 0);
    let mut verify = crate::daemon::unspent(&folder.data());
    verify.args(["chain", "verify"]);
    assert_eq!(crate::daemon::ended(verify).0, 0);
}

fn network_tip(daemon: &Daemon) -> String {
    let mut tip = String::new();
    daemon.wait_for("the source has a tip", |client| {
        let status = client.get("/api/v1/status").ok();
        let found = status["source"]["tip"]["block_hash"].as_str().map(str::to_owned);
        tip = found.unwrap_or_default();
        !tip.is_empty()
    });
    tip
}

#[test]
fn a_reorganisation_while_the_daemon_was_away_is_told() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    assert_eq!(daemon.end(), 0);
    network(&folder).fork(3).unwrap();
    let daemon = folder.start(&[SEED_SETTING]);
    daemon.wait_for("the reorganisation is undone", |client| {
        client.get("/api/v1/blocks/tip").ok()["height"] == 114
    });
    daemon.wait_for("the reorganisation is told", |_| {
        let told = events(&daemon);
        eprintln!("{:?}", told.iter().map(|e| e["kind"].clone()).collect::<Vec<_>>());
        told.iter().any(|event| event["kind"] == "reorganisation")
    });
    let told = events(&daemon);
    let reorg = told.iter().find(|event| event["kind"] == "reorganisation").unwrap();
    assert_eq!(reorg["body"]["depth"], 3, "{reorg}");
    daemon.wait_for("the daemon is ready", |client| client.get("/readyz").status == 200);
}
