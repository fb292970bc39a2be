//! A small simulated network with two wallets: one has much to show, the other is paid by it.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use bitcoin::{
    Address, Psbt, ScriptBuf,
    bip32::{DerivationPath, Xpriv, Xpub},
    secp256k1::Secp256k1,
};
use serde_json::{Value, json};
use unspent_source::sim::SimNetwork;

use super::daemon::Daemon;

/// Seed of the simulated network, here and in [`SETTINGS`].
const SEED: u64 = 5;

/// A block every other second with a few payments, and a reorganisation now and then.
pub(crate) const SETTINGS: [&str; 8] = [
    "txstore.enabled=true",
    "utxo.store=mmr",
    "source.sim.seed=5",
    "source.sim.block_seconds=2",
    "source.sim.payments=6",
    "source.sim.reorg_every=4",
    "source.sim.reorg_depth=2",
    "wallet.mempool_seconds=1",
];

/// The same network, standing still: what waits for a block goes on waiting.
pub(crate) const STILL: [&str; 5] = [
    "txstore.enabled=true",
    "utxo.store=mmr",
    "source.sim.seed=5",
    "source.sim.block_seconds=0",
    "wallet.mempool_seconds=1",
];

/// Reorganisations that go deeper than what the chain room can undo: it stops.
pub(crate) const STOPPING: [&str; 8] = [
    "source.sim.seed=5",
    "source.sim.block_seconds=1",
    "source.sim.reorg_every=4",
    "source.sim.reorg_depth=12",
    "utxo.rollback_window=6",
    "utxo.prune_depth=6",
    "wallet.enabled=false",
    "utxo.prune_seconds=1",
];

/// Payments to each wallet, by rounds of one block.
const ROUNDS: u32 = 10;
const PER_ROUND: u32 = 6;
const PATIENCE: Duration = Duration::from_secs(30);

/// Somebody with a wallet, who can sign.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) name: &'static str,
    seed: u8,
}

pub(crate) const ALICE: Owner = Owner { name: "alice", seed: 1 };
pub(crate) const BOB: Owner = Owner { name: "bob", seed: 2 };

impl Owner {
    fn key(self) -> Xpriv {
        Xpriv::new_master(bitcoin::Network::Regtest, &[self.seed; 32]).unwrap()
    }

    fn descriptor(self) -> String {
        format!("wpkh({}/<0;1>/*)", Xpub::from_priv(&Secp256k1::new(), &self.key()))
    }

    fn script(self, index: u32) -> ScriptBuf {
        let secp = Secp256k1::new();
        let path: DerivationPath = format!("0/{index}").parse().unwrap();
        let key = self.key().derive_priv(&secp, &path).unwrap().to_priv().public_key(&secp);
        ScriptBuf::new_p2wpkh(&key.wpubkey_hash().unwrap())
    }

    pub(crate) fn address(self, index: u32) -> String {
        Address::from_script(&self.script(index), bitcoin::Network::Regtest).unwrap().to_string()
    }

    fn signed(self, psbt: &Value) -> String {
        let mut psbt: Psbt = psbt.as_str().unwrap().parse().unwrap();
        psbt.sign(&self.key(), &Secp256k1::new()).unwrap();
        psbt.to_string()
    }
}

/// What happened on the network before the daemon came: sixty payments to Alice, a few to Bob.
pub(crate) fn prepare(data: &Path) {
    std::fs::create_dir_all(data).unwrap();
    let network = SimNetwork::open(&data.join("sim"), SEED).unwrap();
    network.mine(130).unwrap();
    for round in 0..ROUNDS {
        for at in 0..PER_ROUND {
            let sats = 10_000 * u64::from(round * PER_ROUND + at + 1);
            network.pay(&ALICE.script(at), sats, 300).unwrap();
        }
        network.pay(&BOB.script(round % 3), 250_000, 300).unwrap();
        network.mine_mempool().unwrap();
    }
    network.mine_busy(10, 6).unwrap();
}

/// Makes both wallets and waits until they have seen everything.
pub(crate) fn make_wallets(daemon: &Daemon) {
    for owner in [ALICE, BOB] {
        let body = json!({ "name": owner.name, "descriptor": owner.descriptor() });
        daemon.post("/wallets", &body);
    }
    let deadline = Instant::now() + PATIENCE;
    for owner in [ALICE, BOB] {
        let path = format!("/wallets/{}", owner.name);
        while daemon.get(&path)["scanned_height"].as_u64() < Some(150) {
            assert!(Instant::now() < deadline, "{} isn't scanned", owner.name);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Alice pays Bob, and then pays more for it: the first attempt is replaced. Two coins stay leased.
pub(crate) fn let_alice_pay(daemon: &Daemon) {
    let coins = daemon.get("/wallets/alice/coins?limit=2");
    let held: Vec<_> =
        coins["coins"].as_array().unwrap().iter().map(|c| c["outpoint"].clone()).collect();
    daemon
        .post("/wallets/alice/leases", &json!({ "outpoints": held, "lease": { "seconds": 3600 } }));
    let outputs = json!([{ "address": BOB.address(7), "value": "400000" }]);
    let unsigned = daemon
        .post("/wallets/alice/pay", &json!({ "outputs": outputs, "policy": { "fee_rate": 2.0 } }));
    let sent = finalize(daemon, &unsigned);
    // A block may have taken the first one already; then there is nothing to bump.
    let lease = json!({ "lock": unsigned["lock"] });
    let bump = json!({ "txid": sent["txid"], "lease": lease, "policy": { "fee_rate": 10.0 } });
    if let Some(unsigned) = daemon.try_post("/wallets/alice/bump", &bump) {
        // Nor once the block came between the two.
        daemon.try_post("/wallets/alice/finalize", &signed(&unsigned));
    }
}

/// Alice's signature on what was built, to be recorded and sent.
fn signed(unsigned: &Value) -> Value {
    let signed = ALICE.signed(&unsigned["psbt"]);
    json!({ "signed": signed, "lock": unsigned["lock"], "broadcast": true })
}

fn finalize(daemon: &Daemon, unsigned: &Value) -> Value {
    daemon.post("/wallets/alice/finalize", &signed(unsigned))
}
