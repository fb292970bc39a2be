//! The coin set of a real node, by its own fingerprint.

use serde_json::{Value, json};
use unspent_chain::{Options, QueryError, RollbackTarget};
use unspent_model::{
    Network,
    chain::{Block, Output},
};
use unspent_networks::decode_block;
use unspent_testkit::peers::Knots;

use crate::driver::Store;

const NETWORK: Network = Network::BitcoinRegtest;

fn block(node: &Knots, height: u64) -> Block<Output> {
    let hash = node.call("getblockhash", json!([height]));
    let raw = node.call("getblock", json!([hash, 0]));
    let raw = hex::decode(raw.as_str().unwrap()).unwrap();
    decode_block(NETWORK, &raw, Some(height)).unwrap()
}

/// Core's hash, as Core shows it.
fn shown(store: &Store) -> String {
    let mut hash = store.reader().muhash(&mut |_| {}).unwrap().1;
    hash.reverse();
    hex::encode(hash)
}

#[test]
fn muhash_equals_the_nodes_after_payments_and_a_rollback() {
    let Some(node) = Knots::start(&[]) else { return };
    node.make_wallet();
    node.mine(102);
    let mut hashes = vec![];
    let theirs = |node: &Knots| {
        let info: Value = node.call("gettxoutsetinfo", json!(["muhash"]));
        (info["height"].as_u64().unwrap(), info["muhash"].as_str().unwrap().to_owned())
    };
    for kind in ["legacy", "p2sh-segwit", "bech32", "bech32m"] {
        let address = node.call("getnewaddress", json!(["", kind]));
        node.send(address.as_str().unwrap(), 7_654_321);
        node.mine(1);
        hashes.push(theirs(&node));
    }
    let tip = hashes.last().unwrap().0;
    let blocks: Vec<_> = (0..=tip).map(|height| block(&node, height)).collect();
    let mut store = Store::new(NETWORK, Options::for_network(NETWORK), &[]);
    store.bulk(&blocks, tip + 1);
    for (height, muhash) in hashes.iter().rev() {
        store.index().rollback(RollbackTarget::Height(*height)).unwrap();
        assert_eq!(&shown(&store), muhash, "at {height}");
    }
}

#[test]
fn cardano_has_no_muhash() {
    let store = Store::cardano(Options::for_network(Network::CardanoPreview));
    let refused = store.reader().muhash(&mut |_| {});
    assert!(matches!(refused, Err(QueryError::NoMuHash(Network::CardanoPreview))));
}
