//! The whole engine on a real node: paid and paying, fee bumps, reorganisations, restarts of either
//! side in the middle.

use std::{sync::Arc, time::Duration};

use bitcoin::{Psbt, Txid, bip32::Xpriv, secp256k1::Secp256k1};
use serde_json::json;
use unspent_chain::{ChainIndex, Options, RollbackTarget, prepare};
use unspent_engine::{Engine, RoomName, RoomState};
use unspent_model::{
    Micros, Network, Point,
    wallet::{LockId, TxStatus, select::FeePerWeight},
};
use unspent_networks::decode_block;
use unspent_source::{
    Answer, FeeEstimate, Origin, Step,
    core::{Auth, CoreConfig, CoreNode},
};
use unspent_testkit::peers::Knots;
use unspent_wallet::{
    WalletId, WalletStore,
    choose::CoinPolicy,
    descriptor::{parse_address, show_script},
    lease::LeaseTerms,
    pay::{CpfpRequest, FeeBump, FinishOptions, Payment, SignedPayment},
};

use crate::rig::{quick, wait_for, wallet};

const NETWORK: Network = Network::BitcoinRegtest;
const REGTEST: bitcoin::Network = bitcoin::Network::Regtest;
const OURS: u8 = 7;

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_micros() as i64
}

fn core(node: &Knots) -> CoreNode {
    CoreNode::new(CoreConfig {
        url: node.url(),
        roots: None,
        auth: Auth::Cookie(node.cookie()),
        network: NETWORK,
        zmq: None,
        poll: Duration::from_millis(100),
    })
}

/// An engine beside a node.
struct Pair {
    node: Knots,
    engine: Engine,
    folder: tempfile::TempDir,
    wallet: WalletId,
}

impl Pair {
    fn start(with_zmq: bool) -> Option<Self> {
        let zmq = ["-zmqpubhashblock={zmq}", "-zmqpubsequence={zmq}"];
        let node = Knots::start(if with_zmq { &zmq } else { &[] })?;
        node.make_wallet();
        node.mine(110);
        let folder = tempfile::tempdir().unwrap();
        let engine = Self::engine(&node, &folder);
        let wallet = wallet(&unspent_wallet_room::wallets(&engine).unwrap(), "ours", OURS, 0);
        let pair = Self { node, engine, folder, wallet };
        pair.settle();
        Some(pair)
    }

    fn engine(node: &Knots, folder: &tempfile::TempDir) -> Engine {
        Engine::start(quick(folder.path(), Arc::new(core(node)))).unwrap()
    }

    fn room(&self) -> Arc<WalletStore> {
        unspent_wallet_room::wallets(&self.engine).unwrap()
    }

    fn state(&self, room: RoomName) -> RoomState {
        let rooms = self.engine.status().rooms;
        rooms.into_iter().find(|status| status.room == room).unwrap().state
    }

    /// Waits until both rooms are where the node is, then compares what they know.
    fn settle(&self) {
        let best = self.node.best_hash();
        wait_for("both rooms at the node's tip", || {
            let rooms = self.engine.status().rooms;
            rooms.iter().filter(|status| status.state != RoomState::Off).all(|status| {
                status.state == RoomState::Following
                    && status.tip.as_ref().is_some_and(|tip| tip.block_hash == best)
            })
        });
        let theirs = self.node.call("gettxoutsetinfo", json!([]));
        let digest = unspent_chain_room::reader(&self.engine).unwrap().digest().unwrap();
        assert_eq!(Some(digest.coins), theirs["txouts"].as_u64());
        let total = (theirs["total_amount"].as_f64().unwrap() * 1e8).round();
        assert_eq!(u64::try_from(digest.value).unwrap(), total as u64);
        assert_eq!(self.room().audit(self.wallet).unwrap(), Vec::<String>::new());
    }

    fn mine_and_settle(&self, count: u64) {
        self.node.mine(count);
        self.settle();
    }

    fn our_address(&self, at: usize) -> String {
        let found = self.room().addresses(self.wallet, 0, 100).unwrap();
        show_script(&found[at].script, REGTEST)
    }

    fn tx(&self, txid: Txid) -> Option<(TxStatus, bool)> {
        let found = self.room().tx(self.wallet, txid).ok()?.summary;
        Some((found.status, found.height.is_some()))
    }

    fn wait_tx(&self, txid: Txid, wanted: (TxStatus, bool)) {
        wait_for(&format!("{txid} to be {wanted:?}"), || self.tx(txid) == Some(wanted));
    }

    fn terms() -> LeaseTerms {
        LeaseTerms::new(LockId::new(&[OURS; 32]).unwrap())
    }

    /// Signs, hands over and sends.
    fn send(&self, mut psbt: Psbt) -> Txid {
        let master = Xpriv::new_master(REGTEST, &[OURS; 32]).unwrap();
        psbt.sign(&master, &Secp256k1::new()).unwrap();
        let (lock, signed) = (Self::terms().lock, SignedPayment::Psbt(Box::new(psbt)));
        let how = FinishOptions { lock: Some(lock), ..FinishOptions::default() };
        let done = self.room().finalize(self.wallet, signed, how, Micros(now()));
        let (txid, _) = done.unwrap();
        // The engine's own rounds may have sent it already; the node then says that it has it.
        assert_eq!(
            unspent_wallet_room::broadcast(&self.engine, self.wallet, txid).unwrap(),
            Answer::Accepted
        );
        self.wait_tx(txid, (TxStatus::Published, false));
        txid
    }

    fn pay(&self, to: &str, sats: u64) -> Txid {
        let outputs = vec![(parse_address(to, REGTEST).unwrap(), sats)];
        let payment = Payment::new(outputs, FeePerWeight { sat_per_kwu: 500 }, Self::terms());
        self.send(self.room().build_payment(self.wallet, &payment, Micros(now())).unwrap().psbt)
    }

    fn bump(&self, txid: Txid) -> Txid {
        let bump = FeeBump::new(txid, FeePerWeight { sat_per_kwu: 2_500 }, Self::terms());
        let unsigned = self.room().build_payment(self.wallet, &bump, Micros(now())).unwrap();
        self.send(unsigned.psbt)
    }

    fn knows(&self, txid: Txid) -> bool {
        let held = self.node.call("getrawmempool", json!([]));
        held.as_array().unwrap().iter().any(|name| name == &json!(txid.to_string()))
    }
}

fn parse(txid: &str) -> Txid {
    txid.parse().unwrap()
}

fn paid_and_paying(with_zmq: bool) {
    let Some(pair) = Pair::start(with_zmq) else { return };
    let first = pair.node.send(&pair.our_address(0), 1_000_000);
    pair.wait_tx(parse(&first), (TxStatus::Published, false));
    let bumped = pair.node.bump_fee(&first);
    pair.wait_tx(parse(&bumped), (TxStatus::Published, false));
    assert_eq!(pair.tx(parse(&first)), Some((TxStatus::Replaced, false)));
    pair.mine_and_settle(1);
    assert_eq!(pair.tx(parse(&bumped)), Some((TxStatus::Published, true)));
    let theirs = pair.node.new_address();
    let payment = pair.pay(&theirs, 250_000);
    // What the node says without taking anything.
    let known = pair.room().tx(pair.wallet, payment).unwrap();
    let pooled = unspent_wallet_room::with_ancestors(&pair.engine, payment).unwrap();
    assert_eq!((pooled.len(), Some(pooled[0].fee)), (1, known.summary.fee));
    assert_eq!(pooled[0].virtual_size, known.tx.vsize() as u64);
    let mut forged = known.tx.clone();
    assert_eq!(unspent_wallet_room::test(&pair.engine, &known.tx).unwrap(), Some(Answer::Accepted));
    forged.output[0].value = bitcoin::Amount::from_sat(1_000);
    let refused = unspent_wallet_room::test(&pair.engine, &forged).unwrap();
    assert!(matches!(refused, Some(Answer::Rejected { .. })), "{refused:?}");
    // So young a chain has no estimate, or one that relays.
    let rate = unspent_wallet_room::fee_rate(&pair.engine, 6).unwrap();
    assert!(!matches!(rate, FeeEstimate::Rate { sat_per_kvb: 0, .. }), "{rate:?}");
    let better = pair.bump(payment);
    assert_eq!(pair.tx(payment), Some((TxStatus::Replaced, false)));
    assert!(pair.knows(better) && !pair.knows(payment), "the node replaced it too");
    pair.mine_and_settle(1);
    assert_eq!(pair.tx(better), Some((TxStatus::Published, true)));
    let received = pair.node.call("getreceivedbyaddress", json!([theirs]));
    assert_eq!(received.as_f64(), Some(0.0025));
    // The last two blocks go: the payments wait again, and are mined again.
    let height = pair.node.call("getblockcount", json!([])).as_u64().unwrap();
    let fork = pair.node.call("getblockhash", json!([height - 1]));
    pair.node.invalidate(fork.as_str().unwrap());
    pair.wait_tx(better, (TxStatus::Published, false));
    // Ours names the height it was made at, so the node dropped it and won't have it on the shorter
    // chain; when the chain has grown again it is sent again.
    pair.mine_and_settle(3);
    wait_for("the node to have our payment again", || pair.knows(better));
    pair.mine_and_settle(1);
    assert_eq!(pair.tx(better), Some((TxStatus::Published, true)));
    let balance = pair.room().balance(pair.wallet, 1, Micros(now())).unwrap();
    let fee = pair.room().tx(pair.wallet, better).unwrap().summary.fee.unwrap();
    assert_eq!(balance.total(), u128::from(750_000 - fee));
}

#[test]
fn a_wallet_is_paid_and_pays_through_a_node_that_publishes() {
    paid_and_paying(true);
}

#[test]
fn a_wallet_is_paid_and_pays_through_a_node_that_is_polled() {
    paid_and_paying(false);
}

/// Somebody pays us out of an unconfirmed payment that spends another one.
#[test]
fn cpfp_brings_a_chain_of_cheap_payments_to_its_rate_as_the_node_counts() {
    let Some(pair) = Pair::start(true) else { return };
    let node = &pair.node;
    let hop = node.new_address();
    let mut last = node.send(&hop, 2_000_000);
    let sent = node.call("gettransaction", json!([last, true, true]));
    let outputs = sent["decoded"]["vout"].as_array().unwrap().clone();
    let place = outputs.iter().position(|out| out["scriptPubKey"]["address"] == *hop).unwrap();
    let mut vout = place;
    for (to, btc) in [(node.new_address(), 0.019_998), (pair.our_address(0), 0.019_996)] {
        let spend = json!([[{ "txid": last, "vout": vout }], [{ to: btc }]]);
        let raw = node.call("createrawtransaction", spend);
        let signed = node.call("signrawtransactionwithwallet", json!([raw]));
        last = node.call("sendrawtransaction", json!([signed["hex"]])).as_str().unwrap().to_owned();
        vout = 0;
    }
    let parent = parse(&last);
    pair.wait_tx(parent, (TxStatus::Published, false));
    let rate = FeePerWeight { sat_per_kwu: 12_500 };
    let mut lift = CpfpRequest {
        tx: parent,
        parent_fee: Some(200),
        pool: Vec::new(),
        rate,
        allow_high_fee: false,
        policy: CoinPolicy::default(),
        terms: Pair::terms(),
    };
    let alone = pair.room().build_payment(pair.wallet, &lift, Micros(now())).unwrap();
    assert_eq!(alone.package.unwrap().unsure, [parent], "without the node nobody knows");
    lift.pool = unspent_wallet_room::with_ancestors(&pair.engine, parent).unwrap();
    lift.parent_fee = None;
    let child = pair.room().build_payment(pair.wallet, &lift, Micros(now())).unwrap();
    let package = child.package.unwrap();
    assert_eq!((package.ancestors, package.unpaid.count), (3, 3));
    assert!(package.unsure.is_empty());
    let txid = pair.send(child.psbt);
    let entry = node.call("getmempoolentry", json!([txid.to_string()]));
    let (fees, size) = (entry["fees"]["ancestor"].as_f64().unwrap(), &entry["ancestorsize"]);
    let fees = bitcoin::Amount::from_btc(fees).unwrap().to_sat();
    let size = size.as_u64().unwrap();
    assert_eq!(entry["ancestorcount"], 4);
    assert!(fees >= 50 * size && fees < 50 * (size + 5), "{fees} for {size} vB at 50 sat/vB");
}

#[test]
fn node_and_daemon_may_be_restarted_in_the_middle() {
    let Some(mut pair) = Pair::start(true) else { return };
    let paid = parse(&pair.node.send(&pair.our_address(0), 500_000));
    pair.mine_and_settle(1);
    let waiting = pair.pay(&pair.node.new_address(), 100_000);
    pair.node.stop();
    wait_for("the rooms to wait for the node", || {
        [unspent_chain_room::NAME, unspent_wallet_room::NAME]
            .iter()
            .all(|room| matches!(pair.state(*room), RoomState::Waiting { .. }))
    });
    // It comes back with another cookie and whatever mempool it kept.
    pair.node.start_again();
    pair.node.call("loadwallet", json!(["tests"]));
    pair.mine_and_settle(1);
    wait_for("the payment to be mined or waiting", || {
        pair.tx(waiting).is_some_and(|(status, _)| status == TxStatus::Published)
    });
    // While the daemon is away, the chain it knows is replaced.
    let address = pair.our_address(1);
    pair.engine.shutdown();
    let height = pair.node.call("getblockcount", json!([])).as_u64().unwrap();
    let fork = pair.node.call("getblockhash", json!([height - 4]));
    pair.node.invalidate(fork.as_str().unwrap());
    let second = parse(&pair.node.send(&address, 300_000));
    pair.node.mine(8);
    pair.engine = Pair::engine(&pair.node, &pair.folder);
    pair.settle();
    // The node's own payment names a height too, and its wallet takes its time to send it again.
    let theirs = pair.node.call("gettransaction", json!([paid.to_string()]));
    if theirs["confirmations"].as_i64().unwrap() <= 0 {
        pair.node.call("sendrawtransaction", json!([theirs["hex"]]));
    }
    for txid in [paid, waiting, second] {
        wait_for("the node to have it, or to have mined it", || {
            pair.knows(txid) || pair.tx(txid) == Some((TxStatus::Published, true))
        });
    }
    pair.mine_and_settle(1);
    for txid in [paid, waiting, second] {
        assert_eq!(pair.tx(txid), Some((TxStatus::Published, true)), "{txid}");
    }
}

#[test]
fn the_coin_set_equals_the_nodes() {
    let Some(node) = Knots::start(&[]) else { return };
    node.make_wallet();
    node.mine(120);
    for round in 0..6 {
        for _ in 0..4 {
            node.send(&node.new_address(), 10_000_000 + round);
        }
        node.mine(1);
    }
    let folder = tempfile::tempdir().unwrap();
    let options = Options::for_network(NETWORK);
    let (mut index, _) = ChainIndex::open(folder.path(), NETWORK, options, &[]).unwrap();
    let mut source = core(&node).open().unwrap();
    source.intersect(&[]).unwrap();
    let compare = |index: &ChainIndex| {
        let theirs = node.call("gettxoutsetinfo", json!([]));
        let digest = index.reader().digest().unwrap();
        let at = NETWORK.show_hash(&digest.at.unwrap().hash.0);
        assert_eq!(Some(at.as_str()), theirs["bestblock"].as_str());
        assert_eq!(Some(digest.coins), theirs["txouts"].as_u64());
        let total = (theirs["total_amount"].as_f64().unwrap() * 1e8).round();
        assert_eq!(u64::try_from(digest.value).unwrap(), total as u64);
        digest.coins
    };
    let mut follow = |index: &mut ChainIndex| {
        loop {
            match source.next(Duration::ZERO).unwrap() {
                Step::Forward(block) => {
                    let height = Some(block.point.height);
                    let decoded = decode_block(NETWORK, &block.bytes, height).unwrap();
                    index.apply(prepare(decoded)).unwrap();
                }
                Step::Backward(point) => {
                    let Point { height, hash, .. } = point.unwrap();
                    index.rollback(RollbackTarget::Point { height, hash }).unwrap();
                }
                Step::Nothing => return,
            }
        }
    };
    follow(&mut index);
    assert!(compare(&index) > 120);
    node.invalidate(node.call("getblockhash", json!([123])).as_str().unwrap());
    node.mine(6);
    follow(&mut index);
    compare(&index);
}
