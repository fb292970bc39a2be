//! A database with one wallet, a chain to put into it, and how results are said.

use std::time::{Duration, Instant};

use bitcoin::{
    Amount, Block, BlockHash, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxMerkleNode,
    TxOut, Txid, WPubkeyHash, Witness,
    absolute::LockTime,
    bip32::{Xpriv, Xpub},
    block::{Header, Version as BlockVersion},
    hashes::Hash as _,
    pow::CompactTarget,
    secp256k1::Secp256k1,
    transaction::Version,
};
use unspent_model::{Micros, Network};
use unspent_sql::{Options, Url};
use unspent_wallet::{
    NewAccount, NewWallet, TxBatch, TxSource, WalletId, WalletStore, descriptor::Keychain,
    placed_block::PlacedBlock,
};

pub(crate) const SECOND: i64 = 1_000_000;

pub(crate) fn is_full() -> bool {
    std::env::var("UNSPENT_BENCH").is_ok_and(|value| value == "full")
}

pub(crate) fn descriptor(seed: u8) -> String {
    let secp = Secp256k1::new();
    let master = Xpriv::new_master(bitcoin::Network::Regtest, &[seed; 32]).unwrap();
    format!("wpkh({}/<0;1>/*)", Xpub::from_priv(&secp, &master))
}

pub(crate) fn foreign(n: u64) -> OutPoint {
    OutPoint::new(Txid::hash(&n.to_le_bytes()), 0)
}

pub(crate) fn theirs(n: u64) -> ScriptBuf {
    ScriptBuf::new_p2wpkh(&WPubkeyHash::hash(&n.to_le_bytes()))
}

pub(crate) fn tx(inputs: &[OutPoint], outputs: &[(ScriptBuf, u64)]) -> Transaction {
    let input = |previous_output: &OutPoint| TxIn {
        previous_output: *previous_output,
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::from_slice(&[[7_u8; 107]]),
    };
    let output = |(script, sats): &(ScriptBuf, u64)| TxOut {
        value: Amount::from_sat(*sats),
        script_pubkey: script.clone(),
    };
    Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: inputs.iter().map(input).collect(),
        output: outputs.iter().map(output).collect(),
    }
}

/// A database with one wallet and a chain to put into it.
pub(crate) struct World {
    pub room: WalletStore,
    pub wallet: WalletId,
    pub url: String,
    pub scripts: Vec<ScriptBuf>,
    pub tip: BlockHash,
    pub height: u64,
    pub next: u64,
    _folder: Option<tempfile::TempDir>,
}

impl World {
    /// On both databases, or on the one that `UNSPENT_BENCH_ON` names.
    pub(crate) fn all(name: &str, run: impl Fn(&mut World, &str)) {
        let only = std::env::var("UNSPENT_BENCH_ON").unwrap_or_default();
        if only != "postgres" {
            let folder = tempfile::tempdir().unwrap();
            let url = format!("sqlite:{}", folder.path().join("wallet.db").display());
            run(&mut Self::open(url, Some(folder)), &format!("{name} sqlite"));
        }
        let postgres = unspent_testkit::wallet::postgres::database;
        if only != "sqlite"
            && let Some(url) = postgres()
        {
            run(&mut Self::open(url, None), &format!("{name} postgres"));
        }
    }

    pub(crate) fn open(url: String, folder: Option<tempfile::TempDir>) -> Self {
        let parsed: Url = url.parse().unwrap();
        let room = WalletStore::open(&parsed, Network::BitcoinRegtest, Options::default()).unwrap();
        let wallet = new_wallet(&room, "first", 1);
        let keys = Keychain::parse(&descriptor(1), bitcoin::Network::Regtest).unwrap();
        let scripts = (0..20).map(|n| keys[0].script(n).unwrap()).collect();
        Self {
            room,
            wallet,
            url,
            scripts,
            tip: BlockHash::all_zeros(),
            height: 0,
            next: 1,
            _folder: folder,
        }
    }

    pub(crate) fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn payment(&mut self, sats: u64) -> Transaction {
        let n = self.fresh();
        let script = self.scripts[(n % 20) as usize].clone();
        tx(&[foreign(n)], &[(script, sats), (theirs(n), 1_000)])
    }

    pub(crate) fn block(&mut self, txs: Vec<Transaction>) -> PlacedBlock {
        let salt = self.fresh();
        let mut coinbase = tx(&[OutPoint::null()], &[(theirs(0), 1)]);
        coinbase.input[0].script_sig = ScriptBuf::from_bytes(salt.to_le_bytes().to_vec());
        let header = Header {
            version: BlockVersion::TWO,
            prev_blockhash: self.tip,
            merkle_root: TxMerkleNode::all_zeros(),
            time: 1,
            bits: CompactTarget::from_consensus(0x207f_ffff),
            nonce: salt as u32,
        };
        let txdata = [vec![coinbase], txs].concat();
        let placed = PlacedBlock::of(self.height, Block { header, txdata });
        self.tip = placed.block.block_hash();
        self.height += 1;
        placed
    }

    pub(crate) fn mine(&mut self, txs: Vec<Transaction>) -> Duration {
        let block = self.block(txs);
        let start = Instant::now();
        self.room.apply_blocks(vec![block], Micros(1)).unwrap();
        start.elapsed()
    }

    /// Grows the history to a number of transactions.
    pub(crate) fn grow(&mut self, from: usize, to: usize) {
        let mut left = to.saturating_sub(from);
        while left > 0 {
            let count = left.min(2_000);
            let txs = (0..count).map(|n| self.payment(10_000 + n as u64)).collect();
            self.mine(txs);
            left -= count;
        }
    }

    /// Payments in no block yet, as every wallet in use has some.
    pub(crate) fn unconfirmed(&mut self, count: u64) {
        for n in 0..count {
            let pay = self.payment(5_000 + n);
            self.room.record(&TxBatch::one(pay, TxSource::Mempool), Micros(5)).unwrap();
        }
    }
}

pub(crate) fn new_wallet(room: &WalletStore, name: &str, seed: u8) -> WalletId {
    let account = NewAccount { name: "main".into(), receive: descriptor(seed), change: None };
    let new = NewWallet {
        name: name.into(),
        accounts: vec![account],
        birthday: 1_000_000_000,
        gap_limit: 20,
    };
    room.create_wallet(&new, Micros(1)).unwrap()
}

pub(crate) fn timed(times: usize, mut work: impl FnMut()) -> Vec<Duration> {
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    let mut taken: Vec<Duration> = (0..times).map(once).collect();
    taken.sort();
    taken
}

pub(crate) fn median(taken: &[Duration]) -> f64 {
    taken[taken.len() / 2].as_secs_f64() * 1e3
}

pub(crate) fn say(what: &str, size: impl std::fmt::Display, value: f64, unit: &str) {
    println!("{what:<42} {size:>12} {value:>12.3} {unit}");
}
