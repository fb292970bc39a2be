//! The txstore room beside the others: it holds what the chain can still need, and nothing else.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use bitcoin::{OutPoint, Txid, hashes::Hash as _};
use unspent_engine::{Config, Engine, RoomState, StartError, room::Room as _};
use unspent_model::{
    Network, TxId,
    txstore::{DeletionVerdict, DeletionWindows, RetentionBlocks, Slot, TxRecord},
};
use unspent_source::sim::SimNetwork;
use unspent_txstore::{Settings, TxStore};
use unspent_txstore_room::{CLEAN, TxStoreRoom, events};

use crate::rig::{Rig, wait_for};

/// Windows that a test can outlive.
pub const SMALL: DeletionWindows =
    DeletionWindows { retention: RetentionBlocks(6), safety: 12, rollback: 12 };

/// Switches the room on, with short pauses.
pub fn switch_on(config: &mut Config, windows: DeletionWindows) {
    let mut txstore = TxStoreRoom::new(&config.data_dir);
    txstore.settings = Settings { windows };
    txstore.clean_every = Duration::from_millis(50);
    txstore.unmined_every = Duration::from_millis(40);
    config.rooms.push(Arc::new(txstore));
}

fn rig(seed: u64, windows: DeletionWindows) -> Rig {
    Rig::with(seed, |config| switch_on(config, windows))
}

fn name(txid: Txid) -> TxId {
    TxId(txid.to_byte_array())
}

fn record(store: &TxStore, txid: Txid) -> Option<TxRecord> {
    store.get(name(txid)).unwrap().map(|found| found.record)
}

/// A transaction of the best chain, as the simulator has it.
struct Mined {
    height: u64,
    /// For each output who spends it in the best chain, and at which height; `None` for a coin.
    outputs: Vec<Option<(Txid, u32, u64)>>,
    spendable: Vec<bool>,
}

fn best_chain(sim: &SimNetwork) -> HashMap<Txid, Mined> {
    sim.look(|sim| {
        let mut spenders: HashMap<OutPoint, (Txid, u32, u64)> = HashMap::new();
        for block in sim.active_blocks() {
            for tx in block.block.txdata.iter().filter(|tx| !tx.is_coinbase()) {
                let txid = tx.compute_txid();
                for (vin, input) in tx.input.iter().enumerate() {
                    let by = (txid, vin as u32, u64::from(block.height));
                    spenders.insert(input.previous_output, by);
                }
            }
        }
        let mut all = HashMap::new();
        for block in sim.active_blocks() {
            for tx in &block.block.txdata {
                let txid = tx.compute_txid();
                let coin = |vout: usize| OutPoint { txid, vout: vout as u32 };
                let outputs = 0..tx.output.len();
                let mined = Mined {
                    height: u64::from(block.height),
                    outputs: outputs.map(|vout| spenders.get(&coin(vout)).copied()).collect(),
                    spendable: tx
                        .output
                        .iter()
                        .map(|output| {
                            let is_data = output.script_pubkey.is_op_return();
                            !is_data && block.height > 0
                        })
                        .collect(),
                };
                all.insert(txid, mined);
            }
        }
        all
    })
}

/// Every transaction of the best chain is there with its spenders, or deep and spent to the last
/// output.
pub fn check_store(sim: &SimNetwork, store: &TxStore) {
    let tip = store.tip().unwrap().unwrap().height;
    assert_eq!(tip, sim.height());
    let safety = store.windows().safety;
    for (txid, mined) in best_chain(sim) {
        let Some(record) = record(store, txid) else {
            let outputs = mined.outputs.iter().zip(&mined.spendable).filter(|(_, is)| **is);
            let is_settled = |by: &Option<(Txid, u32, u64)>| {
                by.is_some_and(|(_, _, height)| height + safety <= tip)
            };
            assert!(mined.height + safety <= tip, "{txid} went too early");
            assert!(outputs.into_iter().all(|(by, _)| is_settled(by)), "{txid} went too early");
            continue;
        };
        assert_eq!(record.mined_height(), Some(mined.height), "{txid}");
        assert!(!record.is_conflicting, "{txid}");
        for (vout, slot) in record.slots.iter() {
            let by = mined.outputs[vout as usize];
            let named = slot.spender().map(|by| (by.tx, by.vin));
            match by {
                Some((child, vin, _)) => {
                    assert_eq!(named, Some((name(child), vin)), "{txid}:{vout}");
                }
                None if !mined.spendable[vout as usize] => assert_eq!(slot, Slot::Unspendable),
                // A coin, unless somebody waits to spend it.
                None => {
                    let Some((child, _)) = named else { continue };
                    let child = store.records(vec![child]).unwrap().remove(0).unwrap();
                    assert!(!child.is_mined() && !child.is_conflicting, "{txid}:{vout}");
                }
            }
        }
    }
}

/// The events, replayed, give where the store stands and what it deleted.
pub fn check_store_events(engine: &Engine) {
    let store = unspent_txstore_room::store(engine).unwrap();
    wait_for("the events to agree with the store", || {
        let (mut blocks, mut after) = (0, 0);
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        loop {
            let page = engine.events().after(after, 1_000).unwrap();
            let Some(last) = page.events.last() else { break };
            after = last.id;
            for event in
                page.events.iter().filter(|event| event.room == unspent_txstore_room::NAME.name())
            {
                let number = |field: &str| event.body[field].as_i64().unwrap_or(0);
                match event.kind.as_str() {
                    kind if kind == events::APPLIED.name => blocks += number("blocks"),
                    kind if kind == events::UNDONE.name => blocks -= number("blocks"),
                    kind => *counted.entry(kind.into()).or_default() += number("count") as u64,
                }
            }
        }
        let tallies = store.tallies().unwrap();
        let of = |kind: &str| counted.get(kind).copied().unwrap_or(0);
        blocks == store.tip().unwrap().map_or(0, |tip| tip.height as i64 + 1)
            && of(events::DELETED.name) == tallies.deleted
            && of(events::LOSERS_DELETED.name) == tallies.losers_deleted
    });
}

/// Nothing is left that may go.
fn check_clean(sim: &SimNetwork, store: &TxStore) {
    for txid in best_chain(sim).into_keys() {
        let why = store.why(name(txid)).unwrap();
        assert!(
            why.is_none_or(|why| why.verdict != DeletionVerdict::Delete),
            "{txid} should have gone"
        );
    }
}

#[test]
fn it_follows_reorganisations_beside_the_others() {
    let rig = rig(81, DeletionWindows::default());
    rig.wallet("alice", 1);
    rig.sim.mine_busy(130, 3).unwrap();
    rig.settle_and_check();
    rig.settle_room(unspent_txstore_room::NAME);
    let store = unspent_txstore_room::store(&rig.engine).unwrap();
    check_store(&rig.sim, &store);
    for depth in [1, 3, 7] {
        rig.sim.fork(depth).unwrap();
        rig.sim.mine_busy(2, 2).unwrap();
        rig.settle_and_check();
        rig.settle_room(unspent_txstore_room::NAME);
        check_store(&rig.sim, &store);
    }
    check_store_events(&rig.engine);
    let told = rig.engine.events().after(0, 1_000).unwrap().events;
    assert!(told.iter().any(|event| event.kind == events::UNDONE.name), "nothing was undone");
}

#[test]
fn the_cleaner_leaves_what_can_still_matter_and_nothing_else() {
    let rig = rig(82, SMALL);
    rig.sim.mine_busy(200, 4).unwrap();
    rig.settle_room(unspent_txstore_room::NAME);
    let store = unspent_txstore_room::store(&rig.engine).unwrap();
    rig.engine.run_job(CLEAN).unwrap();
    check_store(&rig.sim, &store);
    check_clean(&rig.sim, &store);
    let status = store.status().unwrap();
    assert!(status.deleted > 50, "{status:?}");
    assert_eq!(status.due_backlog, 0, "{status:?}");
    // All others have a coin, are not deep enough, or have a child that isn't.
    let all = best_chain(&rig.sim).len() as u64;
    assert_eq!(status.records + status.deleted, all, "{status:?}");
    check_store_events(&rig.engine);
    let job = rig.engine.status().jobs.into_iter().find(|job| job.job == CLEAN).unwrap();
    assert!(job.last_outcome.unwrap().contains("deleted"));
}

#[test]
fn the_mempool_is_taken_in_and_the_node_says_who_wins() {
    let rig = rig(83, DeletionWindows::default());
    rig.sim.mine(110).unwrap();
    rig.settle_room(unspent_txstore_room::NAME);
    let store = unspent_txstore_room::store(&rig.engine).unwrap();
    let script = bitcoin::ScriptBuf::from_bytes(vec![0x51]);
    let first = rig.sim.pay(&script, 40_000, 300).unwrap();
    wait_for("the payment to be unmined", || {
        record(&store, first).is_some_and(|tx| tx.unmined_since.is_some())
    });
    let bumped = rig.sim.bump(first, 500).unwrap();
    let is_loser = |txid| record(&store, txid).is_some_and(|tx| tx.is_conflicting);
    wait_for("the replacement to win", || {
        is_loser(first) && record(&store, bumped).is_some_and(|tx| !tx.is_conflicting)
    });
    let inputs = store.get(name(bumped)).unwrap().unwrap().inputs;
    let parent = store.get(inputs[0].tx).unwrap().unwrap().record;
    let by = parent.slots.get(inputs[0].index).unwrap().spender().unwrap();
    assert_eq!(by.tx, name(bumped), "the parent names the winner");

    let rival = rig.sim.double_spend(bumped, 900).unwrap();
    rig.settle_room(unspent_txstore_room::NAME);
    assert!(is_loser(bumped), "a block has decided");
    assert_eq!(record(&store, rival).unwrap().mined_height(), Some(rig.sim.height()));
    check_store(&rig.sim, &store);

    // What leaves the mempool stays unmined; an operator may drop it.
    let lost = rig.sim.pay(&script, 41_000, 300).unwrap();
    wait_for("the payment to be there", || record(&store, lost).is_some());
    rig.sim.evict(lost).unwrap();
    rig.engine.run_job(unspent_txstore_room::READ_UNMINED).unwrap();
    assert!(record(&store, lost).unwrap().unmined_since.is_some());
    store.drop_unmined(name(lost)).unwrap();
    assert_eq!(record(&store, lost), None);
    check_store_events(&rig.engine);
    check_store(&rig.sim, &store);
}

#[test]
fn a_reorganisation_beyond_the_rollback_window_stops_this_room_alone() {
    let rig = rig(84, DeletionWindows { retention: RetentionBlocks(4), safety: 4, rollback: 4 });
    rig.sim.mine_busy(40, 2).unwrap();
    rig.settle_room(unspent_txstore_room::NAME);
    rig.settle_room(unspent_chain_room::NAME);
    rig.sim.fork(9).unwrap();
    let stops_with = |words: &str| {
        wait_for(words, || {
            matches!(rig.state(unspent_txstore_room::NAME), RoomState::Stopped { ref reason, ref remedy, .. }
                if reason.contains(words) && remedy.contains("rebuild the store"))
        });
    };
    // The source says where it left.
    stops_with("9 blocks deep can't be followed: only 4");
    // Looked for anew, the place is unknown: five of the blocks here are strange to the source.
    rig.engine.resume(unspent_txstore_room::NAME).unwrap();
    stops_with("at least 5 blocks ago, and only the last 4");
    rig.settle_room(unspent_chain_room::NAME);
}

#[test]
fn another_store_is_told_from_its_start() {
    let mut rig = rig(85, SMALL);
    rig.sim.mine_busy(30, 2).unwrap();
    rig.settle_room(unspent_txstore_room::NAME);
    check_store_events(&rig.engine);
    rig.engine.shutdown();
    let told = |engine: &Engine| {
        let page = engine.events().after(0, 1_000).unwrap().events;
        page.iter().filter(|event| event.kind == events::APPLIED.name).count()
    };
    let before = told(&rig.engine);
    assert!(before > 0, "nothing was told");
    for entry in std::fs::read_dir(rig.folder.path()).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with(unspent_txstore_room::DATABASE) {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let mut config = crate::rig::quick(rig.folder.path(), std::sync::Arc::new(rig.sim.clone()));
    // Few lines instead of many, so that the new store has fewer than were told.
    config.follow.bulk_threshold = 8;
    switch_on(&mut config, SMALL);
    rig.engine = Engine::start(config).unwrap();
    rig.settle_room(unspent_txstore_room::NAME);
    wait_for("the new store's blocks to be told", || told(&rig.engine) > before);
}

#[test]
fn cardano_has_no_such_room() {
    let folder = tempfile::tempdir().unwrap();
    let refused = TxStoreRoom::new(folder.path()).check(Network::CardanoPreview);
    assert!(
        matches!(refused, Err(StartError::Unsupported { room, .. }) if room == unspent_txstore_room::NAME)
    );
}
