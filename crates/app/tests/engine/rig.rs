//! An engine on a simulated network, and the comparison with the simulator's own truth.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bitcoin::{
    OutPoint, ScriptBuf, Txid,
    bip32::{DerivationPath, Xpriv, Xpub},
    hashes::Hash as _,
    secp256k1::Secp256k1,
};
use unspent_chain::{CoinState, Reader};
use unspent_chain_room::ChainRoom;
use unspent_engine::{Config, Engine, RoomName, RoomState, RoomStatus};
use unspent_model::{Family, Micros, Outpoint, TxId, wallet::TxStatus};
use unspent_source::{Origin, sim::SimNetwork};
use unspent_wallet::{NewAccount, NewWallet, WalletId, WalletStore, history::TxListing};
use unspent_wallet_room::WalletRoom;

/// Nothing here takes so long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A descriptor with receive and change chains.
pub fn descriptor(seed: u8) -> String {
    let secp = Secp256k1::new();
    let master = Xpriv::new_master(bitcoin::Network::Regtest, &[seed; 32]).unwrap();
    let path: DerivationPath = "m/84h/1h/0h".parse().unwrap();
    let public = Xpub::from_priv(&secp, &master.derive_priv(&secp, &path).unwrap());
    format!("wpkh([{}/84h/1h/0h]{public}/<0;1>/*)", master.fingerprint(&secp))
}

/// Makes a wallet, or finds the one of that name.
pub fn wallet(room: &WalletStore, name: &str, seed: u8, birthday: u64) -> WalletId {
    if let Ok(there) = room.wallet(name) {
        return there;
    }
    let new = NewWallet {
        name: name.into(),
        accounts: vec![NewAccount { name: "main".into(), receive: descriptor(seed), change: None }],
        birthday,
        gap_limit: 10,
    };
    room.create_wallet(&new, Micros(1)).unwrap()
}

/// The chain room, and the wallet room where the network has one; the others are known and off.
pub fn both(folder: &Path, origin: Arc<dyn Origin>) -> Config {
    let network = origin.network();
    let mut config = Config::new(folder.to_owned(), origin);
    config.known = vec![
        &unspent_chain_room::SHAPE,
        &unspent_wallet_room::SHAPE,
        &unspent_txstore_room::SHAPE,
        &unspent_ecash_room::SHAPE,
    ];
    let config = config.with(ChainRoom::new(folder, network));
    match network.family() {
        Family::Bitcoin => config.with(WalletRoom::new(folder)),
        Family::Cardano => config,
    }
}

/// Short pauses everywhere, and both rooms.
pub fn quick(folder: &Path, origin: Arc<dyn Origin>) -> Config {
    let mut config = both(folder, origin);
    config.follow.poll = Duration::from_millis(20);
    config.follow.retry = Duration::from_millis(20);
    if let Some(room) = config.room::<WalletRoom>() {
        room.mempool_every = Duration::from_millis(40);
        room.rebroadcast_every = Duration::from_millis(200);
        room.purge_leases_every = Duration::from_millis(100);
    }
    let chain = config.room::<ChainRoom>().unwrap();
    chain.prune_every = Duration::from_millis(200);
    chain.options.block_cache = 4 << 20;
    chain.options.write_buffer = 1 << 20;
    config
}

pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub struct Rig {
    pub sim: SimNetwork,
    pub engine: Engine,
    pub folder: tempfile::TempDir,
}

impl Rig {
    pub fn start(seed: u64) -> Self {
        Self::with(seed, |_| ())
    }

    pub fn with(seed: u64, change: impl Fn(&mut Config)) -> Self {
        let sim = SimNetwork::in_memory(seed);
        Self::on(sim.clone(), Arc::new(sim), change)
    }

    pub fn on(sim: SimNetwork, origin: Arc<dyn Origin>, change: impl Fn(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = quick(folder.path(), origin);
        change(&mut config);
        Self { sim, engine: Engine::start(config).unwrap(), folder }
    }

    /// Ends the engine and starts another on the same folder.
    pub fn restart(&mut self) {
        self.engine.shutdown();
        let config = quick(self.folder.path(), Arc::new(self.sim.clone()));
        self.engine = Engine::start(config).unwrap();
    }

    pub fn room(&self) -> Arc<WalletStore> {
        unspent_wallet_room::wallets(&self.engine).unwrap()
    }

    pub fn wallet(&self, name: &str, seed: u8) -> WalletId {
        wallet(&self.room(), name, seed, 0)
    }

    pub fn status(&self, room: RoomName) -> RoomStatus {
        self.engine.status().rooms.into_iter().find(|status| status.room == room).unwrap()
    }

    pub fn state(&self, room: RoomName) -> RoomState {
        self.status(room).state
    }

    /// Waits until a room is at the network's tip.
    pub fn settle_room(&self, room: RoomName) {
        let tip = || self.sim.look(|sim| sim.tip()).to_string();
        wait_for(&format!("{room:?} at the tip"), || {
            let status = self.status(room);
            status.state == RoomState::Following
                && status.tip.is_some_and(|at| at.block_hash == tip())
        });
    }

    /// Waits until both rooms are at the tip and every wallet is with them.
    pub fn settle(&self) {
        self.settle_room(unspent_chain_room::NAME);
        if self.room().wallets(None).unwrap().is_empty() {
            return;
        }
        self.settle_room(unspent_wallet_room::NAME);
        wait_for("all wallets at the tip", || {
            let tip = self.room().tip().unwrap();
            self.room().wallets(None).unwrap().iter().all(|wallet| wallet.scanned == tip)
        });
    }

    /// Both rooms agree with the simulator.
    pub fn check(&self) {
        check_chain(&self.sim, &unspent_chain_room::reader(&self.engine).unwrap());
        for wallet in self.room().wallets(None).unwrap() {
            check_wallet(&self.sim, &self.room(), wallet.id);
        }
    }

    pub fn settle_and_check(&self) {
        self.settle();
        self.check();
    }

    /// Waits until every wallet knows what the mempool holds of it, and believes nothing to be in
    /// there that isn't. It may know more: rivals of its own payments that pay somebody else.
    pub fn settle_mempool(&self) {
        let started = Instant::now();
        for wallet in self.room().wallets(None).unwrap() {
            loop {
                let [ours, known] = unconfirmed(&self.sim, &self.room(), wallet.id);
                let held: BTreeSet<Txid> =
                    self.sim.look(|sim| sim.mempool().iter().map(|entry| entry.txid).collect());
                let wrong: Vec<&Txid> =
                    ours.difference(&known).chain(known.difference(&held)).collect();
                if wrong.is_empty() {
                    break;
                }
                if started.elapsed() > PATIENCE {
                    self.explain(wallet.id, wrong.into_iter());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Fails with all that is known of some transactions.
    fn explain<'a>(&self, wallet: WalletId, txids: impl Iterator<Item = &'a Txid>) -> ! {
        for txid in txids {
            let held = self.sim.look(|sim| sim.mempool().get(txid).is_some());
            eprintln!("{txid}: in the mempool {held}");
            let Ok(detail) = self.room().tx(wallet, *txid) else { continue };
            eprintln!("  {:?} {:?} {:?}", detail.summary, detail.inputs, detail.replaced_by);
            for line in self.room().journal(wallet, Some(*txid), 0, 100).unwrap() {
                eprintln!("  {line:?}");
            }
        }
        panic!("wallet {wallet:?} doesn't know the mempool: {:?}", self.engine.status().jobs);
    }

    /// A script of the wallet, by its place.
    pub fn script(&self, wallet: WalletId, at: usize) -> ScriptBuf {
        self.room().addresses(wallet, 0, 100).unwrap()[at].script.clone()
    }

    /// The status of a wallet's transaction, its height, and whether it is flagged.
    pub fn tx(&self, wallet: WalletId, txid: Txid) -> Option<(TxStatus, Option<u64>, bool)> {
        let found = self.room().tx(wallet, txid).ok()?.summary;
        Some((found.status, found.height, found.evicted_at.is_some()))
    }

    pub fn wait_tx(&self, wallet: WalletId, txid: Txid, wanted: (TxStatus, Option<u64>, bool)) {
        wait_for(&format!("{txid} to be {wanted:?}"), || self.tx(wallet, txid) == Some(wanted));
    }
}

pub fn model(outpoint: &OutPoint) -> Outpoint {
    Outpoint::new(TxId(outpoint.txid.to_byte_array()), outpoint.vout)
}

/// Every coin of the simulator is in the index, and no other.
pub fn check_chain(sim: &SimNetwork, reader: &Reader) {
    let truth = sim.look(|sim| sim.coins().clone());
    assert_eq!(reader.digest().unwrap().coins, truth.len() as u64);
    for (outpoint, coin) in truth {
        let CoinState::Unspent(record) = reader.coin(&model(&outpoint)).unwrap() else {
            panic!("{outpoint} is not unspent");
        };
        assert_eq!(record.output.addr, coin.output.script_pubkey.as_bytes());
        assert_eq!(record.output.value, coin.output.value.to_sat());
        assert_eq!(record.born.block_number, u64::from(coin.height));
    }
}

/// The wallet's confirmed coins are the simulator's coins on its scripts, and its books are right.
pub fn check_wallet(sim: &SimNetwork, room: &WalletStore, wallet: WalletId) {
    let scripts: HashSet<ScriptBuf> = scripts(room, wallet);
    let mut truth = BTreeMap::new();
    sim.look(|sim| {
        for (outpoint, coin) in sim.coins() {
            if scripts.contains(&coin.output.script_pubkey) {
                truth.insert(*outpoint, coin.output.value.to_sat());
            }
        }
    });
    let height = room.tip().unwrap().unwrap().height;
    let sum = room.balance_as_of(wallet, height).unwrap();
    assert_eq!(sum.coins, truth.len() as u64, "coins of wallet {wallet:?}");
    assert_eq!(u128::from(sum.sats), truth.values().map(|v| u128::from(*v)).sum::<u128>());
    for (outpoint, sats) in &truth {
        let coin = room.coin(wallet, *outpoint, Micros(0)).unwrap();
        assert_eq!((coin.amount, coin.height.is_some()), (*sats, true), "{outpoint}");
    }
    assert_eq!(room.audit(wallet).unwrap(), Vec::<String>::new());
}

fn scripts(room: &WalletStore, wallet: WalletId) -> HashSet<ScriptBuf> {
    let (mut found, mut after) = (HashSet::new(), 0);
    loop {
        let page = room.addresses(wallet, after, 1_000).unwrap();
        let Some(last) = page.last() else { return found };
        after = last.id;
        found.extend(page.into_iter().map(|address| address.script));
    }
}

/// Transactions of the mempool that concern a wallet, by the simulator and by the room.
fn unconfirmed(sim: &SimNetwork, room: &WalletStore, wallet: WalletId) -> [BTreeSet<Txid>; 2] {
    let scripts = scripts(room, wallet);
    let own: HashSet<OutPoint> = room
        .all_coins(wallet, 0, 1_000, Micros(0))
        .unwrap()
        .iter()
        .map(|coin| coin.outpoint)
        .collect();
    let truth = sim.look(|sim| {
        let ours = sim.mempool().iter().filter(|entry| {
            entry.tx.output.iter().any(|output| scripts.contains(&output.script_pubkey))
                || entry.tx.input.iter().any(|input| own.contains(&input.previous_output))
        });
        ours.map(|entry| entry.txid).collect()
    });
    let mut known = BTreeSet::new();
    let mut after = 0;
    loop {
        let page = room.txs(wallet, TxListing::Unconfirmed(after), 1_000).unwrap();
        let Some(last) = page.last() else { return [truth, known] };
        after = last.id;
        let live = page.iter().filter(|tx| {
            tx.status == TxStatus::Published && tx.evicted_at.is_none() && tx.height.is_none()
        });
        known.extend(live.map(|tx| tx.txid));
    }
}
