//! The node's mempool in the wallets.

use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness};
use unspent_model::{
    Micros,
    wallet::TxStatus::{Failed, Pending, Published, Replaced},
};
use unspent_source::{Answer, Node};
use unspent_wallet::{TxBatch, TxSource, WalletId, wallet_info::KeychainPurpose};
use unspent_wallet_room::BroadcastError;

use crate::rig::{Rig, wait_for};

/// An engine whose wallet has one confirmed coin of 100,000 sats.
fn with_coin(seed: u64) -> (Rig, WalletId, OutPoint) {
    let rig = Rig::start(seed);
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(110).unwrap();
    rig.sim.pay(&rig.script(ours, 0), 100_000, 300).unwrap();
    rig.sim.mine_mempool().unwrap();
    rig.settle();
    let coin = rig.room().coins(ours, None, 10, Micros(0)).unwrap()[0].outpoint;
    (rig, ours, coin)
}

fn spend(rig: &Rig, wallet: WalletId, coin: OutPoint, fee: u64) -> Transaction {
    let change = rig.room().next_address(wallet, None, KeychainPurpose::Change).unwrap().script;
    Transaction {
        version: bitcoin::transaction::Version::TWO,
        lock_time: bitcoin::absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: coin,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
            witness: Witness::from_slice(&[[1_u8; 71]]),
        }],
        output: vec![TxOut { value: Amount::from_sat(100_000 - fee), script_pubkey: change }],
    }
}

fn record(rig: &Rig, wallet: WalletId, tx: &Transaction) {
    let batch = TxBatch::one(tx.clone(), TxSource::Created { lock: None, force: false });
    rig.room().record_for(wallet, &batch, unspent_engine::clock::now()).unwrap();
}

fn events(rig: &Rig, kind: &str) -> usize {
    let page = rig.engine.events().after(0, 1_000).unwrap();
    page.events.iter().filter(|event| event.kind == kind).count()
}

#[test]
fn payments_bumps_and_double_spends_show_at_once() {
    let rig = Rig::start(20);
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(110).unwrap();
    rig.settle();
    let first = rig.sim.pay(&rig.script(ours, 0), 40_000, 300).unwrap();
    rig.wait_tx(ours, first, (Published, None, false));
    let bumped = rig.sim.bump(first, 500).unwrap();
    rig.wait_tx(ours, bumped, (Published, None, false));
    rig.wait_tx(ours, first, (Replaced, None, false));
    rig.sim.mine_mempool().unwrap();
    rig.settle_and_check();
    let height = rig.sim.height();
    assert_eq!(rig.tx(ours, bumped), Some((Published, Some(height), false)));

    let victim = rig.sim.pay(&rig.script(ours, 1), 41_000, 300).unwrap();
    rig.wait_tx(ours, victim, (Published, None, false));
    rig.sim.double_spend(victim, 400).unwrap();
    rig.settle_and_check();
    // The rival pays nobody here, and still the wallet sees that it took the victim's input.
    rig.wait_tx(ours, victim, (Failed, None, false));
}

#[test]
fn an_evicted_payment_is_flagged_never_failed_and_comes_back() {
    let rig = Rig::start(21);
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(110).unwrap();
    rig.settle();
    let txid = rig.sim.pay(&rig.script(ours, 0), 40_000, 300).unwrap();
    rig.wait_tx(ours, txid, (Published, None, false));
    let tx = rig.room().tx(ours, txid).unwrap().tx;
    rig.sim.evict(txid).unwrap();
    rig.wait_tx(ours, txid, (Published, None, true));
    wait_for("the event", || events(&rig, "evicted") == 1);
    rig.sim.submit(&tx).unwrap();
    rig.wait_tx(ours, txid, (Published, None, false));
    rig.sim.mine_mempool().unwrap();
    rig.settle_and_check();
    assert_eq!(rig.tx(ours, txid), Some((Published, Some(rig.sim.height()), false)));
    assert_eq!(events(&rig, "evicted"), 1);
}

#[test]
fn own_payments_are_sent_and_the_answer_is_an_event() {
    let (rig, ours, coin) = with_coin(22);
    let tx = spend(&rig, ours, coin, 500);
    record(&rig, ours, &tx);
    let txid = tx.compute_txid();
    assert_eq!(unspent_wallet_room::broadcast(&rig.engine, ours, txid).unwrap(), Answer::Accepted);
    assert_eq!(rig.tx(ours, txid), Some((Published, None, false)));
    assert!(rig.sim.look(|sim| sim.mempool().get(&txid).is_some()));
    rig.sim.mine_mempool().unwrap();
    rig.settle_and_check();
    let late = unspent_wallet_room::broadcast(&rig.engine, ours, txid);
    assert!(matches!(late, Err(BroadcastError::NotLive("confirmed"))), "{late:?}");
    assert!(events(&rig, "broadcast_accepted") >= 1);
}

#[test]
fn a_refused_payment_stays_pending_and_the_refusal_is_told_once() {
    let (rig, ours, coin) = with_coin(23);
    // The node has a rival that the wallets haven't heard of: it pays the network itself.
    let mut rival = spend(&rig, ours, coin, 9_000);
    rival.output[0].script_pubkey = unspent_sim::address_script(1);
    rig.engine.run_job(unspent_wallet_room::READ_MEMPOOL).unwrap();
    let tx = spend(&rig, ours, coin, 500);
    record(&rig, ours, &tx);
    let txid = tx.compute_txid();
    rig.sim.submit(&rival).unwrap();
    match unspent_wallet_room::broadcast(&rig.engine, ours, txid) {
        Ok(Answer::Rejected { reason }) => assert!(reason.contains("fee"), "{reason}"),
        // The rival was read from the mempool first, and is what the node holds.
        Err(BroadcastError::NotLive(_)) => {}
        other => panic!("{other:?}"),
    }
    rig.wait_tx(ours, rival.compute_txid(), (Published, None, false));
    rig.wait_tx(ours, txid, (Failed, None, false));
    rig.engine.run_job(unspent_wallet_room::REBROADCAST).unwrap();
    assert!(events(&rig, "broadcast_rejected") <= 2);
}

#[test]
fn pending_payments_are_sent_again_after_a_restart_before_the_mempool_is_read() {
    let (mut rig, ours, coin) = with_coin(24);
    let first = spend(&rig, ours, coin, 500);
    record(&rig, ours, &first);
    unspent_wallet_room::broadcast(&rig.engine, ours, first.compute_txid()).unwrap();
    rig.wait_tx(ours, first.compute_txid(), (Published, None, false));
    // A bump is made, and the process ends before it is sent.
    let bump = spend(&rig, ours, coin, 5_000);
    rig.engine.shutdown();
    let url = unspent_sql::Url::Sqlite(rig.folder.path().join("wallet.db"));
    let room =
        unspent_wallet::WalletStore::open_existing(&url, unspent_sql::Options::default()).unwrap();
    let batch = TxBatch::one(bump.clone(), TxSource::Created { lock: None, force: false });
    room.record_for(ours, &batch, unspent_engine::clock::now()).unwrap();
    assert_eq!(room.tx(ours, bump.compute_txid()).unwrap().summary.status, Pending);
    drop(room);
    rig.restart();
    rig.wait_tx(ours, bump.compute_txid(), (Published, None, false));
    rig.wait_tx(ours, first.compute_txid(), (Replaced, None, false));
    let held = rig.sim.mempool().unwrap().txids;
    assert_eq!(held, vec![bump.compute_txid()]);
}

#[test]
fn reading_everything_again_does_not_let_an_older_rival_win() {
    let (rig, ours, coin) = with_coin(27);
    let first = spend(&rig, ours, coin, 500);
    record(&rig, ours, &first);
    unspent_wallet_room::broadcast(&rig.engine, ours, first.compute_txid()).unwrap();
    // From here on every reading knows the first one, and none is under way that doesn't.
    rig.engine.run_job(unspent_wallet_room::READ_MEMPOOL).unwrap();
    let bump = spend(&rig, ours, coin, 5_000);
    record(&rig, ours, &bump);
    rig.engine.run_job(unspent_wallet_room::READ_MEMPOOL).unwrap();
    assert_eq!(rig.tx(ours, bump.compute_txid()), Some((Published, None, false)));
    assert_eq!(rig.tx(ours, first.compute_txid()), Some((Replaced, None, false)));
}

#[test]
fn after_a_reorganisation_the_wallets_know_what_waits_again() {
    let rig = Rig::start(25);
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(120).unwrap();
    for round in 0..6 {
        for at in 0..4 {
            rig.sim.pay(&rig.script(ours, at), 30_000 + round, 300).unwrap();
        }
        rig.sim.mine_mempool().unwrap();
        rig.sim.pay(&rig.script(ours, 5), 31_000 + round, 300).unwrap();
        rig.settle();
        rig.sim.fork(2).unwrap();
        rig.settle_and_check();
        rig.settle_mempool();
    }
}

#[test]
fn a_double_spend_that_waits_again_still_beats_its_victim() {
    let rig = Rig::start(28);
    let ours = rig.wallet("ours", 1);
    rig.sim.mine(120).unwrap();
    let victim = rig.sim.pay(&rig.script(ours, 0), 40_000, 300).unwrap();
    rig.settle();
    rig.wait_tx(ours, victim, (Published, None, false));
    let rival = rig.sim.double_spend(victim, 400).unwrap();
    rig.settle();
    rig.wait_tx(ours, victim, (Failed, None, false));
    // Branches are random: go on until one leaves the rival out, so that it waits again.
    for _ in 0..50 {
        rig.sim.fork(1).unwrap();
        if rig.sim.look(|sim| sim.mempool().get(&rival).is_some()) {
            rig.settle();
            rig.settle_mempool();
            assert_eq!(
                rig.tx(ours, rival),
                Some((Published, None, false)),
                "known, though not ours"
            );
            assert_ne!(rig.tx(ours, victim).unwrap().0, Published);
            return;
        }
    }
    panic!("no branch left the rival out");
}

#[test]
fn a_new_wallet_hears_of_what_already_waits() {
    let rig = Rig::start(26);
    rig.wallet("first", 1);
    rig.sim.mine(110).unwrap();
    rig.settle();
    let script = unspent_wallet::descriptor::Keychain::parse(
        &crate::rig::descriptor(2),
        bitcoin::Network::Regtest,
    )
    .unwrap()[0]
        .script(0)
        .unwrap();
    let txid = rig.sim.pay(&script, 9_000, 300).unwrap();
    rig.engine.run_job(unspent_wallet_room::READ_MEMPOOL).unwrap();
    let second = crate::rig::wallet(&rig.room(), "second", 2, 0);
    rig.wait_tx(second, txid, (Published, None, false));
}

#[test]
fn that_a_payment_was_made_is_told_before_it_was_sent() {
    let (rig, ours, coin) = with_coin(29);
    let tx = spend(&rig, ours, coin, 500);
    record(&rig, ours, &tx);
    let answer = unspent_wallet_room::broadcast(&rig.engine, ours, tx.compute_txid()).unwrap();
    assert_eq!(answer, Answer::Accepted);
    let name = tx.compute_txid().to_string();
    let told = rig.engine.events().after(0, 1_000).unwrap().events;
    let about = |event: &&unspent_engine::events::Event| {
        event.body["txid"] == name.as_str() || event.subject.as_ref() == Some(&name)
    };
    let kinds: Vec<&str> = told.iter().filter(about).map(|event| event.kind.as_str()).collect();
    let at = |kind: &str| kinds.iter().position(|found| *found == kind);
    let (made, sent) = (at("created"), at("broadcast_accepted"));
    assert!(made.is_some() && sent.is_some() && made < sent, "{kinds:?}");
}

#[test]
fn a_payment_to_another_wallet_of_ours_shows_there_at_once() {
    let (rig, ours, coin) = with_coin(30);
    let theirs = rig.wallet("theirs", 2);
    rig.settle();
    for fee in [500, 5_000] {
        let mut tx = spend(&rig, ours, coin, fee);
        tx.output[0].script_pubkey = rig.script(theirs, 0);
        record(&rig, ours, &tx);
        let txid = tx.compute_txid();
        assert_eq!(
            unspent_wallet_room::broadcast(&rig.engine, ours, txid).unwrap(),
            Answer::Accepted
        );
        assert_eq!(rig.tx(ours, txid), Some((Published, None, false)));
        assert_eq!(rig.tx(theirs, txid), Some((Published, None, false)), "fee {fee}");
    }
    rig.sim.mine_mempool().unwrap();
    rig.settle_and_check();
}

#[test]
fn what_one_wallet_knew_before_is_read_for_the_others() {
    let (rig, ours, coin) = with_coin(31);
    let theirs = rig.wallet("theirs", 2);
    rig.settle();
    // Everything has been read with both wallets there: from now on only what is new is.
    rig.engine.run_job(unspent_wallet_room::READ_MEMPOOL).unwrap();
    let mut tx = spend(&rig, ours, coin, 500);
    tx.output[0].script_pubkey = rig.script(theirs, 0);
    let batch = TxBatch::one(tx.clone(), TxSource::Mempool);
    rig.room().record_for(ours, &batch, unspent_engine::clock::now()).unwrap();
    rig.sim.submit(&tx).unwrap();
    let txid = tx.compute_txid();
    rig.wait_tx(theirs, txid, (Published, None, false));
    rig.wait_tx(ours, txid, (Published, None, false));
}
