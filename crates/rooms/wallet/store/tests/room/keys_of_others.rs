//! Keys as other programs write them: SLIP-132 and Bitcoin Core's `listdescriptors`.

use bitcoin::{Network, base58};
use serde_json::{Value, json};
use unspent_wallet::{
    NewAccount, NewWallet, WalletError,
    descriptor::{Keychain, show_script},
    import::core::{CoreList, prepare},
};

use super::ledger::{Ledger, descriptor, on_both, xpriv, xpub};

use unspent_model::Micros;

/// The vectors of SLIP-132: the seed of eleven times `abandon` and `about`.
const XPUB: &str = "xpub6BosfCnifzxcFwrSzQiqu2DBVTshkCXacvNsWGYJVVhhawA7d4R5WSWGFNbi8Aw6ZRc1brxMyWMzG3DSSSSoekkudhUd9yLb6qx39T9nMdj";
const YPUB: &str = "ypub6Ww3ibxVfGzLrAH1PNcjyAWenMTbbAosGNB6VvmSEgytSER9azLDWCxoJwW7Ke7icmizBMXrzBx9979FfaHxHcrArf3zbeJJJUZPf663zsP";
const ZPUB: &str = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs";

fn first_address(text: &str, network: Network) -> Result<String, String> {
    let chains = Keychain::parse(text, network).map_err(|error| error.to_string())?;
    let first = chains[0].script(0).map_err(|error| error.to_string())?;
    Ok(show_script(&first, network))
}

/// The same key with other version bytes.
fn versioned(key: &str, version: [u8; 4]) -> String {
    let mut bytes = base58::decode_check(key).unwrap();
    bytes[..4].copy_from_slice(&version);
    base58::encode_check(&bytes)
}

#[test]
fn a_bare_zpub_or_ypub_is_the_descriptor_it_stands_for() {
    let main = Network::Bitcoin;
    let segwit = "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu";
    let nested = "37VucYSaXLCAsxYyAPfbSi9eh4iEcbShgf";
    assert_eq!(first_address(ZPUB, main).unwrap(), segwit);
    assert_eq!(first_address(YPUB, main).unwrap(), nested);
    assert_eq!(first_address(&format!("wpkh({ZPUB}/0/*)"), main).unwrap(), segwit);
    assert_eq!(first_address(&format!("sh(wpkh({YPUB}/0/*))"), main).unwrap(), nested);
    let legacy = first_address(&format!("pkh({XPUB}/0/*)"), main).unwrap();
    assert_eq!(legacy, "1LqBGSKuX5yYUonjxT5qGfpUsXKYYWeabA");
    assert_eq!(Keychain::parse(ZPUB, main).unwrap().len(), 2, "receive and change");
}

#[test]
fn keys_of_test_networks_and_main_are_told_apart_by_their_version() {
    let tpub = xpub(1).to_string();
    let plain = first_address(&format!("wpkh({tpub}/0/*)"), Network::Regtest).unwrap();
    let vpub = versioned(&tpub, [0x04, 0x5F, 0x1C, 0xF6]);
    assert!(vpub.starts_with("vpub"));
    assert_eq!(first_address(&vpub, Network::Regtest).unwrap(), plain);
    let upub = versioned(&tpub, [0x04, 0x4A, 0x52, 0x62]);
    assert!(upub.starts_with("upub") && first_address(&upub, Network::Regtest).is_ok());
    for (key, network) in [(ZPUB, Network::Regtest), (vpub.as_str(), Network::Bitcoin)] {
        let error = first_address(key, network).unwrap_err();
        assert!(error.contains("not of"), "{error}");
    }
}

#[test]
fn keys_that_do_not_say_enough_are_refused_with_the_reason() {
    let tpub = xpub(1).to_string();
    let other = |seed: u8| versioned(&xpub(seed).to_string(), [0x02, 0x57, 0x54, 0x83]);
    let vpub_multi = other(1);
    assert!(vpub_multi.starts_with("Vpub"));
    let net = Network::Regtest;
    assert!(first_address(&vpub_multi, net).unwrap_err().contains("how many must sign"));
    assert!(first_address(&tpub, net).unwrap_err().contains("how its addresses are made"));
    let policy = format!("wsh(sortedmulti(2,{}/<0;1>/*,{}/<0;1>/*))", other(1), other(2));
    assert!(first_address(&policy, net).is_ok(), "the same key with its policy");
    let wrong = format!("sh(wpkh({}/0/*))", versioned(&tpub, [0x04, 0x5F, 0x1C, 0xF6]));
    assert!(first_address(&wrong, net).unwrap_err().contains("this kind of descriptor"));
    let secret = versioned(&xpriv(1).to_string(), [0x04, 0x5F, 0x18, 0xBC]);
    assert!(secret.starts_with("vprv"));
    for text in [secret.clone(), format!("wpkh({secret}/0/*)")] {
        assert!(first_address(&text, net).unwrap_err().contains("private key"), "{text}");
    }
    let mut broken = ZPUB.to_owned();
    broken.replace_range(50..51, if &broken[50..51] == "x" { "y" } else { "x" });
    assert!(first_address(&broken, Network::Bitcoin).is_err());
}

/// What Core answers: pairs of each kind, as after `createwallet` with disabled private keys.
fn core_list() -> Value {
    let account = |purpose: u32, chain: u32| {
        let fingerprint = xpriv(3).fingerprint(&bitcoin::secp256k1::Secp256k1::new());
        format!("[{fingerprint}/{purpose}h/1h/0h]{}/{chain}/*", xpub(3))
    };
    let mut found = Vec::new();
    for (name, purpose) in [("pkh", 44), ("sh(wpkh", 49), ("wpkh", 84), ("tr", 86)] {
        for chain in [0_u32, 1] {
            let close = ")".repeat(name.matches('(').count() + 1);
            let text = format!("{name}({}{close}", account(purpose, chain));
            let text: miniscript::Descriptor<miniscript::DescriptorPublicKey> =
                text.parse().unwrap();
            found.push(json!({"desc": text.to_string(), "timestamp": 1_700_000_000,
                "active": true, "internal": chain == 1, "range": [0, 49 + 3 * chain],
                "next": 5 + chain, "next_index": 5 + chain}));
        }
    }
    json!({"wallet_name": "shop", "descriptors": found})
}

fn read(list: Value) -> CoreList {
    serde_json::from_value(list).unwrap()
}

#[test]
fn cores_active_descriptors_become_accounts_as_far_along_as_they_were() {
    on_both(|ledger| {
        let list = read(core_list());
        let prepared = prepare(&list, "shop", Network::Regtest, None).unwrap();
        assert_eq!((prepared.born, prepared.left.len()), (1_700_000_000, 0));
        let done = ledger.room.import(prepared.import.clone(), false, Micros(1)).unwrap();
        let chains = ledger.room.keychains(done.wallet).unwrap();
        let shown: Vec<_> = chains
            .iter()
            .map(|chain| (chain.account.as_str(), chain.purpose.as_str(), chain.next_index))
            .collect();
        let wanted = ["pkh", "sh-wpkh", "wpkh", "tr"]
            .map(|name| [(name, "receive", 5), (name, "change", 6)])
            .concat();
        assert_eq!(shown, wanted);
        for (chain, core) in chains.iter().zip(&list.descriptors) {
            assert_eq!(chain.descriptor, core.desc);
            let (_, last) = core.range.unwrap();
            assert!(chain.derived_to > last, "what Core watches is watched");
        }
        let again = ledger.room.import(prepared.import, false, Micros(2)).unwrap();
        assert!(again.is_nothing());
    });
}

#[test]
fn cores_private_descriptors_are_refused_as_a_whole() {
    let mut list = core_list();
    let secret = xpriv(3).to_string();
    let text = format!("wpkh({secret}/84h/1h/0h/0/*)");
    let body = text.clone();
    let mut engine = miniscript::descriptor::checksum::Engine::new();
    engine.input(&body).unwrap();
    list["descriptors"][4]["desc"] = json!(format!("{text}#{}", engine.checksum()));
    let error = prepare(&read(list), "shop", Network::Regtest, None).unwrap_err();
    assert!(error.to_string().contains("listdescriptors false"), "{error}");
}

#[test]
fn other_descriptors_of_core_are_watched_or_named() {
    let ledger = Ledger::sqlite();
    let list = json!({"descriptors": [
        {"desc": descriptor(5), "timestamp": 7, "active": false},
        {"desc": descriptor(6), "timestamp": 9, "active": false},
        {"desc": "addr(bcrt1qrm70cxsmc8m5kdhcpt3qdf2njk90vy837j58sy)", "timestamp": 3},
        {"desc": "raw(51)", "timestamp": 3},
        {"desc": format!("combo({})", xpub(4)), "timestamp": 8},
    ]});
    let prepared = prepare(&read(list), "old", Network::Regtest, Some(30)).unwrap();
    assert_eq!((prepared.born, prepared.import.gap_limit), (3, 30));
    assert_eq!(prepared.left.len(), 1);
    assert!(prepared.left[0].what.starts_with("combo("));
    let done = ledger.room.import(prepared.import, false, Micros(1)).unwrap();
    let names = ledger.room.keychains(done.wallet).unwrap();
    let names: Vec<_> = names.iter().map(|chain| chain.account.as_str()).collect();
    assert_eq!(names, ["wpkh", "wpkh", "wpkh-2", "wpkh-2", "imported", "imported"]);
    assert_eq!(done.scripts, 2);
}

#[test]
fn an_empty_or_foreign_list_changes_nothing() {
    let empty = prepare(&read(json!({"descriptors": []})), "x", Network::Regtest, None);
    assert!(matches!(empty, Err(WalletError::Argument(_))));
    let ledger = Ledger::sqlite();
    let main = json!({"descriptors": [{"desc": format!("wpkh({XPUB}/0/*)"), "active": true}]});
    assert!(prepare(&read(main), "x", Network::Regtest, None).is_err());
    assert_eq!(ledger.room.all_wallets().unwrap().len(), 1);
}

#[test]
fn the_birthday_follows_from_stored_blocks_as_far_as_they_tell() {
    on_both(|ledger| {
        ledger.mine_empty(3);
        let time = u64::from(ledger.chain.borrow()[1].block.header.time);
        let height = ledger.room.height_before(time + 7_200).unwrap();
        let first = ledger.chain.borrow()[0].height;
        assert_eq!(height, first + 1);
        assert_eq!(ledger.room.height_before(time + 7_199).unwrap(), first);
        assert_eq!(ledger.room.height_before(u64::MAX).unwrap(), ledger.height());
        assert_eq!(ledger.room.height_before(0).unwrap(), 0);
    });
}

#[test]
fn a_wallet_is_made_from_a_bare_key() {
    let ledger = Ledger::sqlite();
    let key = versioned(&xpub(8).to_string(), [0x04, 0x5F, 0x1C, 0xF6]);
    let account = NewAccount { name: "main".into(), receive: key, change: None };
    let new = NewWallet { name: "z".into(), accounts: vec![account], birthday: 0, gap_limit: 5 };
    let wallet = ledger.room.create_wallet(&new, Micros(1)).unwrap();
    let chains = ledger.room.keychains(wallet).unwrap();
    assert_eq!(chains.len(), 2);
    assert!(chains[0].descriptor.starts_with("wpkh(tpub"), "{}", chains[0].descriptor);
}
