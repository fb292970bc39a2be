//! Single entries rot: the checksums of the files are right, what is written in them is not.

use std::path::Path;

use rocksdb::{DB, IteratorMode, Options};
use unspent_chain::ChainIndex;

use crate::{corruption::Store, driver::data, history::NETWORK};

type Entry = (Vec<u8>, Vec<u8>);

fn raw(folder: &Path) -> DB {
    let path = data(folder).join("db");
    let families = DB::list_cf(&Options::default(), &path).unwrap();
    DB::open_cf(&Options::default(), &path, families).unwrap()
}

fn entries(db: &DB, family: &str) -> Vec<Entry> {
    let family = db.cf_handle(family).unwrap();
    let entries = db.iterator_cf(family, IteratorMode::Start);
    entries.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

/// Everything that opening, `verify` and the fingerprint have to say.
fn complaints(store: &Store, folder: &Path) -> Vec<String> {
    let options = store.history.options(30);
    let index = match ChainIndex::open(&data(folder), NETWORK, options, &[]) {
        Ok((index, _)) => index,
        Err(error) => return vec![error.to_string()],
    };
    let reader = index.reader();
    let mut complaints = match reader.verify(&mut |_| {}) {
        Ok(report) => report.findings.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    };
    complaints.extend(reader.digest().err().map(|error| error.to_string()));
    complaints
}

#[test]
fn explore() {
    let store = Store::build(7, std::env::var_os("SC").is_some());
    for family in ["chain_points","chain_hashes","chain_meta","utxo_unspent","utxo_spent","utxo_addr","utxo_block_delta","utxo_meta"] {
        let db = raw(store.folder.path());
        let all = entries(&db, family);
        drop(db);
        println!("== {family}: {} entries", all.len());
        let chosen: Vec<Entry> = if family.ends_with("meta") { all.clone() } else { vec![all[all.len()/2].clone()] };
        for (key, value) in &chosen {
            println!("-- key {} ({}) value {} bytes", String::from_utf8_lossy(key), hex::encode(key), value.len());
            for byte in 0..value.len() {
                let copy = store.copy();
                let db = raw(copy.path());
                let mut bad = value.clone();
                bad[byte] ^= 1 << (byte % 8);
                db.put_cf(db.cf_handle(family).unwrap(), key, &bad).unwrap();
                drop(db);
                let c = complaints(&store, copy.path());
                if c.is_empty() { println!("UNSEEN flip of byte {byte} ({:02x})", value[byte]); }
                else if !c.iter().any(|c| c.contains(family)) { println!("unnamed flip of byte {byte}: {}", c[0]); }
            }
            let copy = store.copy();
            let db = raw(copy.path());
            db.delete_cf(db.cf_handle(family).unwrap(), key).unwrap();
            drop(db);
            println!("missing: {:?}", complaints(&store, copy.path()));
        }
        let copy = store.copy();
        let db = raw(copy.path());
        let (mut key, value) = all[all.len()/2].clone();
        let n = key.len() - 1;
        key[n] ^= 0x40;
        db.put_cf(db.cf_handle(family).unwrap(), &key, &value).unwrap();
        drop(db);
        println!("surplus: {:?}", complaints(&store, copy.path()));
    }
}
