//! Coins before the first block.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use unspent_model::{BlockHash, Network, chain::GenesisCoin};
use unspent_networks::cardano::genesis::{GenesisError, genesis_coins};
use unspent_testkit::data;

const MAINNET: Network = Network::CardanoMainnet;
const PREVIEW: Network = Network::CardanoPreview;

fn total(coins: &[GenesisCoin]) -> u64 {
    coins.iter().map(|coin| coin.record.output.value).sum()
}

#[test]
fn the_main_network_has_exactly_the_coins_of_the_oracle() {
    let Some(file) = data::bytes("cardano/genesis/mainnet-byron-genesis.json.zst") else { return };
    let oracle = "cardano/genesis/mainnet-genesis-expected-txs-balance.json.zst";
    let oracle: BTreeMap<String, u64> =
        serde_json::from_slice(&data::bytes(oracle).unwrap()).unwrap();
    let coins = genesis_coins(MAINNET, &[&file]).unwrap();
    let ours = coins.iter().map(|c| (hex::encode(c.outpoint.tx.0), c.record.output.value));
    assert_eq!(ours.collect::<BTreeMap<_, _>>(), oracle);
    assert_eq!(coins.len(), oracle.len());
    assert!(coins.iter().all(|coin| coin.is_redeem && coin.outpoint.index == 0));
    assert!(coins.is_sorted_by_key(|coin| coin.outpoint));
}

#[test]
fn preview_has_eight_coins_seven_of_them_empty() {
    let Some(byron) = data::bytes("cardano/genesis/preview-byron-genesis.json") else { return };
    let shelley = data::bytes("cardano/genesis/preview-shelley-genesis.json").unwrap();
    let coins = genesis_coins(PREVIEW, &[&byron, &shelley]).unwrap();
    assert_eq!((coins.len(), total(&coins)), (8, 30_000_000_000_000_000));
    assert_eq!(coins.iter().filter(|coin| coin.record.output.value == 0).count(), 7);
    assert_eq!(genesis_coins(PREVIEW, &[&shelley, &byron]).unwrap(), coins, "in any order");
    let rich = coins.iter().find(|coin| coin.record.output.value > 0).unwrap();
    assert!(hex::encode(rich.outpoint.tx.0).starts_with("4843cf2e"));
    let born = rich.record.born;
    assert_eq!((born.slot, born.block_number, born.tx_position), (0, 0, 0));
    assert_eq!((born.epoch, born.block_time), (Some(0), 1_666_656_000));
    assert_eq!(born.block_hash, BlockHash::default());
    assert!(coins.iter().all(|coin| !coin.is_redeem));
}

#[test]
fn initial_funds_of_shelley_are_coins_with_credentials() {
    let addr = format!("60{}", "ab".repeat(28));
    let file = format!(r#"{{"networkMagic": 2, "initialFunds": {{"{addr}": 42}}}}"#);
    let coins = genesis_coins(PREVIEW, &[file.as_bytes()]).unwrap();
    assert_eq!((coins.len(), total(&coins)), (1, 42));
    assert_eq!(coins[0].record.output.payment_credential, Some([0xab; 28]));
    let hash = pallas_crypto::hash::Hasher::<256>::hash(&hex::decode(addr).unwrap());
    assert_eq!((coins[0].outpoint.tx.0, coins[0].outpoint.index), (*hash, 0));
}

#[test]
fn redeem_addresses_of_test_networks_name_their_network() {
    let key = "_0xOXmE8XhZu-kHVYWyHLvK6mUjZRkVkyYYCBoAqPZo=";
    let file = |magic: u32| {
        format!(
            r#"{{"protocolConsts": {{"protocolMagic": {magic}}}, "avvmDistr": {{"{key}": "5"}}}}"#
        )
    };
    let show = |network, magic| {
        let coins = genesis_coins(network, &[file(magic).as_bytes()]).unwrap();
        assert!(coins[0].is_redeem);
        unspent_networks::address::show_address(network, &coins[0].record.output.addr)
    };
    assert!(show(MAINNET, 764_824_073).starts_with("Ae2"));
    let preprod = show(Network::CardanoPreprod, 1);
    let parse = unspent_networks::address::parse_query;
    assert!(parse(Network::CardanoPreprod, &preprod).is_ok());
    assert!(parse(PREVIEW, &preprod).is_err());
}

#[test]
fn files_that_do_not_fit_are_refused_with_a_reason() {
    let byron = br#"{"protocolConsts": {"protocolMagic": 2}, "nonAvvmBalances": {}}"#;
    let wrong = genesis_coins(MAINNET, &[byron]);
    assert!(matches!(wrong, Err(GenesisError::WrongNetwork { file: 1, found: 2, .. })));
    let twice = genesis_coins(PREVIEW, &[byron, byron]);
    assert_eq!(twice, Err(GenesisError::Repeated { file: 2 }));
    let bitcoin = genesis_coins(Network::Bitcoin, &[byron]);
    assert_eq!(bitcoin, Err(GenesisError::NoGenesisFiles(Network::Bitcoin)));
    let unknown = genesis_coins(PREVIEW, &[b"{}"]);
    assert_eq!(unknown, Err(GenesisError::UnknownKind { file: 1 }));
    let no_json = genesis_coins(PREVIEW, &[byron, b"x"]);
    assert!(matches!(no_json, Err(GenesisError::NotJson { file: 2, .. })));
    let entries = [
        r#""nonAvvmBalances": {"FHnt": "1"}"#,
        r#""nonAvvmBalances": {"FHnt4NL7yPXvDWHa8bVs73UEUdJd64VxWXSFNqetECtYfTd9TtJguJ14Lu3feth": "-1"}"#,
        r#""nonAvvmBalances": 7"#,
        r#""avvmDistr": {"AAAA": "1"}"#,
        r#""avvmDistr": {"!": "1"}"#,
    ];
    for entry in entries {
        let file = format!(r#"{{"protocolConsts": {{"protocolMagic": 2}}, {entry}}}"#);
        let answer = genesis_coins(PREVIEW, &[file.as_bytes()]);
        assert!(matches!(answer, Err(GenesisError::Malformed { file: 1, .. })), "{entry}");
    }
    assert_eq!(genesis_coins(PREVIEW, &[]), Ok(vec![]));
}
