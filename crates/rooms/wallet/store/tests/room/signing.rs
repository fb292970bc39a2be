//! Payments of every kind of descriptor, signed by somebody else's code and shown to a real node.

use bitcoin::{
    Address, Block, Network, Psbt,
    bip32::{DerivationPath, Xpub},
    consensus::encode::{deserialize_hex, serialize_hex},
    secp256k1::Secp256k1,
};
use serde_json::json;
use unspent_model::{Micros, wallet::select::FeePerWeight};
use unspent_testkit::peers::{Knots, Signer};
use unspent_wallet::{
    NewAccount, NewWallet, WalletId,
    pay::{FeeBump, FinishOptions, Payment, SignedPayment, UnsignedPayment},
    placed_block::PlacedBlock,
    wallet_info::KeychainPurpose,
};

use crate::ledger::*;

/// The node relays nothing below five satoshis per virtual byte, and no payment offers more.
const FIVE: FeePerWeight = FeePerWeight { sat_per_kwu: 1_250 };

/// A key with its origin, as signers want it.
fn key(seed: u8) -> String {
    let secp = Secp256k1::new();
    let path: DerivationPath = "m/48h/1h/0h".parse().unwrap();
    let account = xpriv(seed).derive_priv(&secp, &path).unwrap();
    let fingerprint = xpriv(seed).fingerprint(&secp);
    format!("[{fingerprint}/48h/1h/0h]{}/<0;1>/*", Xpub::from_priv(&secp, &account))
}

/// Every kind, with the seeds that sign.
fn kinds() -> Vec<(String, Vec<u8>)> {
    let (a, b, c) = (key(61), key(62), key(63));
    vec![
        (format!("pkh({a})"), vec![61]),
        (format!("wpkh({a})"), vec![61]),
        (format!("sh(wpkh({a}))"), vec![61]),
        (format!("sh(multi(2,{a},{b}))"), vec![61, 62]),
        (format!("sh(sortedmulti(2,{a},{b},{c}))"), vec![62, 63]),
        (format!("wsh(multi(2,{a},{b}))"), vec![61, 62]),
        (format!("wsh(sortedmulti(2,{a},{b},{c}))"), vec![61, 63]),
        (format!("sh(wsh(multi(2,{a},{b})))"), vec![61, 62]),
        (format!("sh(wsh(sortedmulti(1,{a},{b})))"), vec![62]),
        (format!("tr({a})"), vec![61]),
        (format!("tr({a},pk({b}))"), vec![61]),
        (format!("tr({c},{{pk({a}),multi_a(2,{a},{b})}})"), vec![61]),
        (format!("wsh(and_v(v:pk({a}),older(20)))"), vec![61]),
        (format!("wsh(and_v(v:pk({a}),after(110)))"), vec![61]),
        (format!("wsh(or_d(pk({a}),and_v(v:pkh({b}),older(144))))"), vec![61]),
    ]
}

struct Signing {
    l: Ledger,
    node: Knots,
    signer: Signer,
    kinds: Vec<(WalletId, String, Vec<u8>)>,
    height: u64,
}

impl Signing {
    fn new(l: Ledger) -> Option<Self> {
        let (node, signer) = (Knots::start(&["-minrelaytxfee=0.00005"])?, Signer::find()?);
        let mut world = Self { l, node, signer, kinds: Vec::new(), height: 0 };
        for (n, (receive, seeds)) in kinds().into_iter().enumerate() {
            let account =
                NewAccount { name: "main".into(), receive: receive.clone(), change: None };
            let new = NewWallet {
                name: format!("kind {n}"),
                accounts: vec![account],
                birthday: 1,
                gap_limit: 5,
            };
            let wallet = world.l.room.create_wallet(&new, Micros(1)).unwrap();
            for _ in 0..2 {
                let next =
                    world.l.room.next_address(wallet, None, KeychainPurpose::Receive).unwrap();
                let address = Address::from_script(&next.script, Network::Regtest).unwrap();
                world.node.mine_to(1, &address.to_string());
            }
            world.kinds.push((wallet, receive, seeds));
        }
        world.mine(101);
        Some(world)
    }

    /// Mines to nobody, and brings the wallets up.
    fn mine(&mut self, count: u64) {
        let nobody = Address::from_script(&theirs(1), Network::Regtest).unwrap();
        self.node.mine_to(count, &nobody.to_string());
        let tip = self.node.call("getblockcount", json!([])).as_u64().unwrap();
        let blocks = (self.height + 1..=tip).map(|height| {
            let hash = self.node.call("getblockhash", json!([height]));
            let raw = self.node.call("getblock", json!([hash, 0]));
            let block: Block = deserialize_hex(raw.as_str().unwrap()).unwrap();
            PlacedBlock::of(height, block)
        });
        self.l.room.apply_blocks(blocks.collect(), Micros(self.l.tick())).unwrap();
        self.height = tip;
    }

    /// Has it signed elsewhere, takes it back, and shows it to the node.
    fn send(
        &self,
        wallet: WalletId,
        kind: &str,
        seeds: &[u8],
        made: &UnsignedPayment,
    ) -> bitcoin::Txid {
        let keys: Vec<String> = seeds.iter().map(|seed| xpriv(*seed).to_string()).collect();
        let (count, signed) = self.signer.sign(&made.psbt.to_string(), &keys);
        assert!(count >= made.psbt.inputs.len(), "{kind}: {count} signatures");
        let signed: Psbt = signed.parse().unwrap();
        let how = FinishOptions { lock: Some(lock(1)), ..FinishOptions::default() };
        let done = self.l.room.finalize(
            wallet,
            SignedPayment::Psbt(Box::new(signed)),
            how,
            Micros(self.l.tick()),
        );
        let (txid, _) = done.unwrap_or_else(|error| panic!("{kind}: {error}"));
        let tx = self.l.room.tx(wallet, txid).unwrap().tx;
        let answer = self.node.call("testmempoolaccept", json!([[serialize_hex(&tx)]]));
        assert_eq!(answer[0]["allowed"], true, "{kind}: {answer}");
        self.node.call("sendrawtransaction", json!([serialize_hex(&tx)]));
        self.l.room.mark_broadcast(wallet, txid, Micros(self.l.tick())).unwrap();
        txid
    }
}

#[test]
fn every_kind_of_descriptor_is_signed_elsewhere_and_taken_by_a_node() {
    let Some(mut world) = Signing::new(Ledger::sqlite()) else { return };
    let kinds = std::mem::take(&mut world.kinds);
    for (wallet, kind, seeds) in &kinds {
        let (l, wallet) = (&world.l, *wallet);
        // More than one coin holds, so that there are two inputs.
        let payment = Payment::new(vec![(theirs(2), 6_000_000_000)], FIVE, l.terms(1));
        let made = l.room.build_payment(wallet, &payment, Micros(l.now.get()));
        let made = made.unwrap_or_else(|error| panic!("{kind}: {error}"));
        let is_legacy = kind.starts_with("pkh")
            || kind.starts_with("sh(multi")
            || kind.starts_with("sh(sorted");
        for input in &made.psbt.inputs {
            assert_eq!(input.witness_utxo.is_none(), is_legacy, "{kind}");
        }
        assert_eq!(made.psbt.inputs.len(), 2, "{kind}");
        let txid = world.send(wallet, kind, seeds, &made);
        // The node applies the rules of replacement too.
        let bump = FeeBump::new(txid, FeePerWeight { sat_per_kwu: 1_300 }, l.terms(1));
        let bumped = l.room.build_payment(wallet, &bump, Micros(l.tick()));
        let bumped = bumped.unwrap_or_else(|error| panic!("{kind}: {error}"));
        world.send(wallet, kind, seeds, &bumped);
    }
    let held = world.node.call("getrawmempool", json!([]));
    assert_eq!(held.as_array().unwrap().len(), kinds.len());
    world.mine(1);
    for (wallet, kind, _) in &kinds {
        let balance = world.l.room.balance(*wallet, 1, Micros(world.l.now.get())).unwrap();
        assert_eq!(balance.confirmed.coins, 1, "{kind}: the change came back");
    }
}
