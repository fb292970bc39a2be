//! bdk_wallet with its own SQLite persistence on the same history as `cargo bench -p unspent-wallet`
//! (`peers' history`): 200 blocks of 50 payments, each block persisted; balance; reopening.
//!
//! It stands in a workspace of its own because its SQLite can't link beside ours.

use std::time::{Duration, Instant};

use bdk_wallet::{
    KeychainKind, Wallet,
    bitcoin::{
        Amount, Block, BlockHash, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn,
        TxMerkleNode, TxOut, Txid, WPubkeyHash, Witness,
        absolute::LockTime,
        bip32::{Xpriv, Xpub},
        block::{Header, Version as BlockVersion},
        hashes::Hash as _,
        pow::CompactTarget,
        secp256k1::Secp256k1,
        transaction::Version,
    },
    rusqlite::Connection,
};

const BLOCKS: u32 = 200;
const PER_BLOCK: u64 = 50;

fn tx(n: u64, script: ScriptBuf, sats: u64) -> Transaction {
    let previous_output = OutPoint::new(Txid::hash(&n.to_le_bytes()), 0);
    let theirs = ScriptBuf::new_p2wpkh(&WPubkeyHash::hash(&n.to_le_bytes()));
    let out = |script_pubkey, sats| TxOut { value: Amount::from_sat(sats), script_pubkey };
    Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: vec![TxIn {
            previous_output,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::MAX,
            witness: Witness::from_slice(&[[7_u8; 107]]),
        }],
        output: vec![out(script, sats), out(theirs, 1_000)],
    }
}

fn block(parent: BlockHash, txdata: Vec<Transaction>, nonce: u32) -> Block {
    let header = Header {
        version: BlockVersion::TWO,
        prev_blockhash: parent,
        merkle_root: TxMerkleNode::all_zeros(),
        time: 1,
        bits: CompactTarget::from_consensus(0x207f_ffff),
        nonce,
    };
    Block { header, txdata }
}

fn median(mut taken: Vec<Duration>) -> f64 {
    taken.sort();
    taken[taken.len() / 2].as_secs_f64() * 1e3
}

fn timed(times: usize, mut work: impl FnMut()) -> f64 {
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    median((0..times).map(once).collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let master = Xpriv::new_master(Network::Regtest, &[1; 32])?;
    let xpub = Xpub::from_priv(&Secp256k1::new(), &master);
    let (receive, change) = (format!("wpkh({xpub}/0/*)"), format!("wpkh({xpub}/1/*)"));
    let path = std::env::temp_dir().join(format!("bdk-bench-{}.db", std::process::id()));
    let mut db = Connection::open(&path)?;
    let mut wallet =
        Wallet::create(receive, change).network(Network::Regtest).create_wallet(&mut db)?;
    let scripts: Vec<ScriptBuf> = (0..20)
        .map(|n| wallet.peek_address(KeychainKind::External, n).address.script_pubkey())
        .collect();
    let mut parent = wallet.latest_checkpoint().hash();
    let mut n = 1;
    let start = Instant::now();
    for height in 1..=BLOCKS {
        let mut txs = Vec::new();
        for sats in 0..PER_BLOCK {
            n += 1;
            txs.push(tx(n, scripts[(n % 20) as usize].clone(), 1_000 + sats));
        }
        let next = block(parent, txs, height);
        parent = next.block_hash();
        wallet.apply_block(&next, height)?;
        wallet.persist(&mut db)?;
    }
    let each = start.elapsed().as_secs_f64() * 1e3 / f64::from(BLOCKS);
    println!("bdk_wallet sqlite: block of {PER_BLOCK}, persisted {each:>12.3} ms");
    let balance = timed(20, || drop(wallet.balance()));
    println!("bdk_wallet sqlite: balance                {balance:>12.3} ms");
    drop(wallet);
    let reopen = timed(5, || {
        let mut db = Connection::open(&path).expect("the file is there");
        let wallet = Wallet::load().load_wallet(&mut db).expect("it can be read");
        drop(wallet.expect("a wallet is there").balance());
    });
    println!("bdk_wallet sqlite: open and balance       {reopen:>12.3} ms");
    std::fs::remove_file(&path)?;
    Ok(())
}
