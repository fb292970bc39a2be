//! Addresses as people write them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::Value;
use unspent_model::Network;
use unspent_networks::address::{
    AddressError, Query, parse_query, show_address, show_stake_address,
};
use unspent_testkit::data;

const MAINNET: Network = Network::CardanoMainnet;
const PREVIEW: Network = Network::CardanoPreview;

fn vectors() -> Option<Value> {
    Some(serde_json::from_slice(&data::bytes("cardano/cip19-addresses.json")?).unwrap())
}

fn address(network: Network, text: &str) -> Vec<u8> {
    match parse_query(network, text) {
        Ok(Query::Address(addr)) => addr,
        other => panic!("{text}: {other:?}"),
    }
}

fn bech32_payload(text: &str) -> Vec<u8> {
    bech32::decode(text).unwrap().1
}

#[test]
fn cip19_payment_addresses_round_trip_and_hold_their_credential() {
    let Some(vectors) = vectors() else { return };
    let key = bech32_payload(vectors["payment_key"].as_str().unwrap());
    let key = pallas_crypto::hash::Hasher::<224>::hash(&key);
    let script = bech32_payload(vectors["script"].as_str().unwrap());
    for (section, network, other) in [("mainnet", MAINNET, PREVIEW), ("testnet", PREVIEW, MAINNET)]
    {
        for kind in 0..8 {
            let text = vectors[section][format!("type-{kind:02}")].as_str().unwrap();
            let addr = address(network, text);
            assert_eq!(addr[0] >> 4, kind);
            let credential = if kind % 2 == 0 { key.as_ref() } else { &script };
            assert_eq!(&addr[1..29], credential);
            assert_eq!(show_address(network, &addr), text);
            assert_eq!(address(network, &hex::encode(&addr)), addr);
            assert_eq!(address(network, &text.to_uppercase()), addr, "bech32 may be upper case");
            let wrong = Err(AddressError::WrongNetwork { network: other });
            assert_eq!(parse_query(other, text), wrong);
            assert_eq!(parse_query(other, &hex::encode(&addr)), wrong);
        }
    }
}

#[test]
fn cip19_stake_addresses_are_refused_by_name_and_shown_in_bech32() {
    let Some(vectors) = vectors() else { return };
    for (section, network) in [("mainnet", MAINNET), ("testnet", PREVIEW)] {
        for kind in [14, 15] {
            let text = vectors[section][format!("type-{kind}")].as_str().unwrap();
            assert_eq!(parse_query(network, text), Err(AddressError::StakeAddress));
            let addr = bech32_payload(text);
            let as_hex = parse_query(network, &hex::encode(&addr));
            assert_eq!(as_hex, Err(AddressError::StakeAddress));
            assert_eq!(show_stake_address(network, &addr), text);
        }
    }
}

#[test]
fn credentials_are_read_in_bech32_and_hex() {
    let Some(vectors) = vectors() else { return };
    let script = vectors["script"].as_str().unwrap();
    let hash: [u8; 28] = bech32_payload(script).try_into().unwrap();
    assert_eq!(parse_query(MAINNET, script), Ok(Query::Credential(hash)));
    assert_eq!(parse_query(PREVIEW, &hex::encode(hash)), Ok(Query::Credential(hash)));
    for hrp in ["addr_vkh", "addr_shared_vkh"] {
        let hrp = bech32::Hrp::parse(hrp).unwrap();
        let text = bech32::encode::<bech32::Bech32>(hrp, &hash).unwrap();
        assert_eq!(parse_query(MAINNET, &text), Ok(Query::Credential(hash)));
        let short = bech32::encode::<bech32::Bech32>(hrp, &hash[1..]).unwrap();
        assert!(matches!(parse_query(MAINNET, &short), Err(AddressError::Malformed { .. })));
    }
}

#[test]
fn byron_addresses_are_checked_and_round_trip() {
    let known = [
        (MAINNET, "Ae2tdPwUPEZLs4HtbuNey7tK4hTKrwNwYtGqp7bDfCy2WdR3P6735W5Yfpe"),
        (
            MAINNET,
            "DdzFFzCqrht7PQiAhzrn6rNNoADJieTWBt8KeK9BZdUsGyX9ooYD9NpMCTGjQoUKcHN47g8JMXhvKogsGpQHtiQ65fZwiypjrC6d3a4Q",
        ),
        (PREVIEW, "FHnt4NL7yPXvDWHa8bVs73UEUdJd64VxWXSFNqetECtYfTd9TtJguJ14Lu3feth"),
    ];
    for (network, text) in known {
        let addr = address(network, text);
        assert_eq!(show_address(network, &addr), text);
        assert_eq!(address(network, &hex::encode(&addr)), addr);
        let mut damaged = addr.clone();
        damaged[10] ^= 1;
        let damaged = hex::encode(damaged);
        assert!(matches!(parse_query(network, &damaged), Err(AddressError::Malformed { .. })));
        let longer = format!("{}00", hex::encode(&addr));
        assert!(matches!(parse_query(network, &longer), Err(AddressError::Malformed { .. })));
    }
    let (_, preview) = known[2];
    for network in [MAINNET, Network::CardanoPreprod] {
        let wrong = Err(AddressError::WrongNetwork { network });
        assert_eq!(parse_query(network, preview), wrong);
    }
}

#[test]
fn a_pointer_longer_than_any_number_can_be_asked_for() {
    // As on chain: the chain's bytes are the address, whatever they point to.
    let mut addr = vec![0x40];
    addr.extend([7; 28]);
    addr.extend([0xff; 40]);
    addr.extend([0x7f, 1, 2]);
    let text = show_address(PREVIEW, &addr);
    assert!(text.starts_with("addr_test1"));
    assert_eq!(address(PREVIEW, &text), addr);
}

#[test]
fn bitcoin_addresses_of_each_kind_become_their_script() {
    let known = [
        (Network::Bitcoin, "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
        (Network::Bitcoin, "3P14159f73E4gFr7JterCCQh9QjiTjiZrG"),
        (Network::Bitcoin, "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"),
        (Network::Bitcoin, "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr"),
        (Network::BitcoinTestnet4, "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"),
        (Network::BitcoinSignet, "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"),
        (Network::BitcoinRegtest, "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"),
    ];
    for (network, text) in known {
        let script = address(network, text);
        assert_eq!(show_address(network, &script), text);
        assert_eq!(address(network, &hex::encode(&script)), script);
    }
    let network = Network::BitcoinRegtest;
    let wrong = Err(AddressError::WrongNetwork { network });
    assert_eq!(parse_query(network, known[2].1), wrong);
    assert_eq!(
        parse_query(Network::Bitcoin, &"ab".repeat(28)),
        Ok(Query::Address(vec![0xab; 28])),
        "Bitcoin has no credentials: hex is a script"
    );
    let digits = "8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161";
    let hash = hex::decode(digits).unwrap().try_into().unwrap();
    let asked = format!("scripthash:{digits}");
    assert_eq!(parse_query(Network::Bitcoin, &asked), Ok(Query::ScriptHash(hash)));
    for bad in ["scripthash:", &asked[..asked.len() - 1], &format!("{asked}00"), &asked[4..]] {
        let refused = parse_query(Network::Bitcoin, bad);
        assert!(matches!(refused, Err(AddressError::Malformed { .. })), "{bad}: {refused:?}");
    }
    assert!(parse_query(PREVIEW, &asked).is_err(), "Cardano asks by address or credential");
}

#[test]
fn nonsense_is_an_error_that_says_what_was_expected() {
    let texts = [
        "",
        " ",
        "addr",
        "addr1",
        "addr1qqq",
        "addr_test1",
        "1",
        "11111",
        "é",
        "0x00",
        "00",
        "zz",
        "bc1q",
        "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdx",
        "script1qqqq",
        "stak1uyehkck",
        "Ae2tdPwUPEZLs4HtbuNey7tK4hTKrwNwYtGqp7bDfCy2WdR3P6735W5Yfpf",
    ];
    for (network, _) in unspent_model::network::NETWORKS {
        for text in texts {
            // Two hex digits are a script of one byte.
            if text == "00" && unspent_networks::genesis_hash(network).is_some() {
                continue;
            }
            let error = parse_query(network, text).unwrap_err();
            assert!(error.to_string().contains("expected"), "{network} {text}: {error}");
        }
        assert!(parse_query(network, &"1".repeat(20_001)).is_err());
        assert!(parse_query(network, &"z".repeat(20_000)).is_err());
        assert!(parse_query(network, &"ab".repeat(10_000)).is_err() == genesis_is_none(network));
    }
}

fn genesis_is_none(network: Network) -> bool {
    unspent_networks::genesis_hash(network).is_none()
}

#[test]
fn bytes_without_a_text_form_are_shown_in_hex() {
    assert_eq!(show_address(Network::Bitcoin, &[0x51]), "51");
    assert_eq!(show_address(Network::Bitcoin, &[]), "");
    for bytes in [&[][..], &[0x61], &[0x82, 0x00], &[0x92; 40], &[0x6f; 29], &[0xe1; 29]] {
        assert_eq!(show_address(MAINNET, bytes), hex::encode(bytes));
    }
    assert_eq!(show_stake_address(MAINNET, &[0x61; 29]), "61".repeat(29));
    assert_eq!(show_stake_address(Network::Bitcoin, &[0xe1; 29]), "e1".repeat(29));
}
