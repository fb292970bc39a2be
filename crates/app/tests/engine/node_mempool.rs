//! A mempool of 100,000 transactions: read once, and from then on by difference. The node is a
//! script that counts what it is asked.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bitcoin::{
    Amount, OutPoint, ScriptBuf, Transaction, TxIn, TxOut, Txid, absolute::LockTime,
    consensus::encode::serialize_hex, hashes::Hash as _, transaction::Version,
};
use serde_json::{Value, json};
use unspent_engine::Engine;
use unspent_model::{Micros, Network};
use unspent_source::core::{Auth, CoreConfig, CoreNode};
use unspent_testkit::scripted_node::{Manner, ScriptedNode};
use unspent_wallet::{NewWallet, WalletId, WalletStore};
use unspent_wallet_room::{WalletRoom, wallets};

use crate::rig::both;

const TRANSACTIONS: u32 = 100_000;
/// For a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// What the node holds, and how often it was asked for what.
#[derive(Default)]
struct Scripted {
    names: Vec<String>,
    bodies: HashMap<String, String>,
    asked: BTreeMap<String, usize>,
}

impl Scripted {
    fn put(&mut self, tx: &Transaction) {
        let name = tx.compute_txid().to_string();
        self.bodies.insert(name.clone(), serialize_hex(tx));
        self.names.push(name);
    }

    fn answer(&mut self, method: &str, params: &Value) -> Option<Result<Value, Value>> {
        *self.asked.entry(method.to_owned()).or_default() += 1;
        match method {
            "getrawmempool" => Some(Ok(json!(self.names))),
            "getrawtransaction" => Some(Ok(json!(self.bodies[params[0].as_str().unwrap()]))),
            _ => None,
        }
    }

    fn asked(&self, method: &str) -> usize {
        self.asked.get(method).copied().unwrap_or(0)
    }
}

fn tx(number: u32, to: &ScriptBuf) -> Transaction {
    let previous_output = OutPoint { txid: Txid::from_byte_array([9; 32]), vout: number };
    Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: vec![TxIn { previous_output, ..TxIn::default() }],
        output: vec![TxOut { value: Amount::from_sat(1_000), script_pubkey: to.clone() }],
    }
}

fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn has(room: &WalletStore, wallet: WalletId, tx: &Transaction) -> bool {
    room.tx(wallet, tx.compute_txid()).is_ok()
}

#[test]
fn a_large_mempool_is_read_once_and_then_by_difference() {
    let (ours, theirs) = (ScriptBuf::from_bytes(vec![0x51]), ScriptBuf::from_bytes(vec![0x52]));
    let node = Arc::new(Mutex::new(Scripted::default()));
    let is_ours = |number: u32| number == 0 || number == TRANSACTIONS - 1;
    let first: Vec<Transaction> = (0..TRANSACTIONS)
        .map(|number| tx(number, if is_ours(number) { &ours } else { &theirs }))
        .collect();
    first.iter().for_each(|tx| node.lock().unwrap().put(tx));
    let scripted = node.clone();
    let rule = Box::new(move |method: &str, params: &Value| {
        scripted.lock().unwrap().answer(method, params)
    });
    let fake = ScriptedNode::start(Manner::Proper, rule);
    let folder = tempfile::tempdir().unwrap();
    let mut config = both(
        folder.path(),
        Arc::new(CoreNode::new(CoreConfig {
            url: fake.url(),
            roots: None,
            auth: Auth::None,
            network: Network::BitcoinRegtest,
            zmq: None,
            poll: Duration::from_millis(20),
        })),
    );
    config.room::<WalletRoom>().unwrap().mempool_every = Duration::from_millis(200);
    let engine = Engine::start(config).unwrap();
    let room = wallets(&engine).unwrap();
    let new = NewWallet { name: "ours".into(), accounts: Vec::new(), birthday: 0, gap_limit: 1 };
    let wallet =
        room.create_wallet_born(&new, std::slice::from_ref(&ours), None, Micros(1)).unwrap();
    engine.wake();
    let started = Instant::now();
    wait_for("the first and the last of the mempool are in the wallet", || {
        has(&room, wallet, &first[0]) && has(&room, wallet, first.last().unwrap())
    });
    eprintln!("{TRANSACTIONS} transactions read in {:?}", started.elapsed());
    let all = TRANSACTIONS as usize;
    assert_eq!(node.lock().unwrap().asked("getrawtransaction"), all, "each once");
    // Some readings later nothing was asked for again.
    let reads = node.lock().unwrap().asked("getrawmempool");
    wait_for("further readings", || node.lock().unwrap().asked("getrawmempool") > reads + 3);
    assert_eq!(node.lock().unwrap().asked("getrawtransaction"), all);
    // Three that come are the only ones asked for; one that leaves costs nothing.
    let more: Vec<Transaction> =
        (0..3).map(|at| tx(TRANSACTIONS + at, if at == 2 { &ours } else { &theirs })).collect();
    {
        let mut node = node.lock().unwrap();
        more.iter().for_each(|tx| node.put(tx));
        node.names.remove(5);
    }
    let started = Instant::now();
    wait_for("the new payment", || has(&room, wallet, &more[2]));
    eprintln!("3 more among them found in {:?}", started.elapsed());
    assert_eq!(node.lock().unwrap().asked("getrawtransaction"), all + 3);
    engine.shutdown();
}
