//! A simulated network with a wallet that has something to spend.

use bitcoin::{
    Psbt, ScriptBuf,
    bip32::{DerivationPath, Xpriv, Xpub},
    secp256k1::Secp256k1,
};
use serde_json::{Value, json};
use unspent_source::sim::SimNetwork;

use crate::daemon::{Client, Daemon, Folder};

/// The seed of the simulated network; the daemon's is set to the same.
pub(crate) const SEED: u64 = 7;
pub(crate) const SEED_SETTING: &str = "source.sim.seed=7";

/// The owner of the wallet, who can sign.
pub(crate) fn owner() -> Xpriv {
    Xpriv::new_master(bitcoin::Network::Regtest, &[9; 32]).unwrap()
}

/// What the wallet watches.
pub(crate) fn descriptor() -> String {
    let public = Xpub::from_priv(&Secp256k1::new(), &owner());
    format!("wpkh({public}/<0;1>/*)")
}

/// The script of a receiving address.
pub(crate) fn script(index: u32) -> ScriptBuf {
    let secp = Secp256k1::new();
    let path: DerivationPath = format!("0/{index}").parse().unwrap();
    let key = owner().derive_priv(&secp, &path).unwrap().to_priv().public_key(&secp);
    ScriptBuf::new_p2wpkh(&key.wpubkey_hash().unwrap())
}

pub(crate) fn address(index: u32) -> String {
    bitcoin::Address::from_script(&script(index), bitcoin::Network::Regtest).unwrap().to_string()
}

/// Signs what a payment left open.
pub(crate) fn signed(psbt: &str) -> String {
    let mut psbt: Psbt = psbt.parse().unwrap();
    psbt.sign(&owner(), &Secp256k1::new()).unwrap();
    psbt.to_string()
}

/// The network of a folder, while no daemon runs on it.
pub(crate) fn network(folder: &Folder) -> SimNetwork {
    SimNetwork::open(&folder.data().join("sim"), SEED).unwrap()
}

/// A folder whose network paid the wallet twice in a block and once in the mempool.
pub(crate) fn funded() -> Folder {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.data()).unwrap();
    let network = network(&folder);
    network.mine(110).unwrap();
    network.pay(&script(0), 70_000, 300).unwrap();
    network.pay(&script(1), 50_000, 300).unwrap();
    network.mine_mempool().unwrap();
    network.mine(2).unwrap();
    network.pay(&script(2), 25_000, 300).unwrap();
    folder
}

/// Makes the wallet and waits until it has seen everything.
pub(crate) fn make_wallet(daemon: &Daemon, name: &str) {
    let body = json!({ "name": name, "descriptor": descriptor() });
    daemon.admin().post("/api/v1/wallets", &body).ok();
    daemon
        .wait_for("the wallet sees its coins", |client| balance(client, name)["value"] == "145000");
}

pub(crate) fn balance(client: &Client, wallet: &str) -> Value {
    client.get(&format!("/api/v1/wallets/{wallet}/balance")).ok()
}
