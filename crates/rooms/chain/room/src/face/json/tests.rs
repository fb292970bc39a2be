//! The JSON as it is promised: field names, order and forms.

use unspent_chain::{CoinState, OwnerBalance, codec::SpentRecord};
use unspent_model::{
    BlockHash, Network, Outpoint, Point, TxId,
    chain::{Asset, Born, Output, Record, SpendingInput},
};

use super::{BalanceJson, CoinJson, UtxoJson};

fn record() -> Record {
    let mut addr = vec![0x00];
    addr.extend([0x11; 28]);
    addr.extend([0x22; 28]);
    let mut stake = vec![0xe0];
    stake.extend([0x22; 28]);
    Record {
        output: Output {
            addr,
            value: u64::MAX,
            assets: vec![Asset { policy: [0xaa; 28], name: b"\xffx".to_vec(), quantity: 7 }],
            data_hash: Some([0xdd; 32]),
            inline_datum: Some(vec![0xd8, 0x79]),
            script_ref: Some(vec![0x82, 0x01]),
            reference_script_hash: Some([0xee; 28]),
            is_collateral_return: true,
            is_coinbase: false,
            payment_credential: Some([0x11; 28]),
            stake_credential: Some([0x22; 28]),
            stake_addr: Some(stake),
        },
        born: Born {
            slot: 100,
            block_number: 5,
            block_hash: BlockHash([0xbb; 32]),
            epoch: Some(3),
            block_time: 1_666_656_100,
            tx_position: 2,
        },
    }
}

fn outpoint() -> Outpoint {
    let mut tx = [0; 32];
    tx[0] = 0xab;
    Outpoint::new(TxId(tx), 1)
}

#[test]
fn a_cardano_coin_has_every_field_of_the_document() {
    let coin = UtxoJson::new(Network::CardanoPreview, &outpoint(), &record());
    let (aa, dd, ee, bb) = ("aa".repeat(28), "dd".repeat(32), "ee".repeat(28), "bb".repeat(32));
    let (one, two, zeros) = ("11".repeat(28), "22".repeat(28), "00".repeat(31));
    let addr =
        unspent_networks::address::show_address(Network::CardanoPreview, &record().output.addr);
    let stake = record().output.stake_addr.unwrap();
    let stake = unspent_networks::address::show_stake_address(Network::CardanoPreview, &stake);
    assert!(addr.starts_with("addr_test1") && stake.starts_with("stake_test1"));
    let expected = format!(
        r#"{{"outpoint":"ab{zeros}:1","txid":"ab{zeros}","vout":1,"tx_hash":"ab{zeros}","output_index":1,"value":"18446744073709551615","lovelace_amount":"18446744073709551615","address":"{addr}","script":null,"coinbase":false,"height":5,"block_hash":"{bb}","block_time":"2022-10-25T00:01:40.000000Z","tx_index":2,"owner_addr":"{addr}","owner_stake_addr":"{stake}","owner_payment_credential":"{one}","owner_stake_credential":"{two}","amounts":[{{"unit":"lovelace","policy_id":null,"asset_name":null,"quantity":"18446744073709551615"}},{{"unit":"{aa}ff78","policy_id":"{aa}","asset_name":"ff78","quantity":"7"}}],"data_hash":"{dd}","inline_datum":"d879","script_ref":"8201","reference_script_hash":"{ee}","is_collateral_return":true,"slot":100,"block":5,"epoch":3}}"#
    );
    assert_eq!(serde_json::to_string(&coin).unwrap(), expected);
}

#[test]
fn a_spent_bitcoin_coin_shows_reversed_hashes_its_spend_and_no_word_of_cardano() {
    let output = Output { addr: vec![0x51], value: 5, is_coinbase: true, ..Output::default() };
    let born = Born { epoch: None, ..record().born };
    let spent = SpentRecord {
        by: Some(SpendingInput { tx: outpoint().tx, position: 3, input: 0 }),
        at: Point { height: 9, slot: 9, hash: BlockHash([0xcc; 32]) },
        time: 77,
        epoch: None,
        record: Record { output, born },
    };
    let state = CoinState::Spent(spent);
    let coin = CoinJson::new(Network::BitcoinRegtest, &outpoint(), &state);
    let (zeros, bb, cc) = ("00".repeat(31), "bb".repeat(32), "cc".repeat(32));
    let expected = format!(
        r#"{{"state":"spent","outpoint":"{zeros}ab:1","txid":"{zeros}ab","vout":1,"value":"5","address":"51","script":"51","coinbase":true,"height":5,"block_hash":"{bb}","block_time":"2022-10-25T00:01:40.000000Z","tx_index":2,"spent_by":"{zeros}ab","spent_height":9,"spent_block_hash":"{cc}","spent_block_time":"1970-01-01T00:01:17.000000Z"}}"#
    );
    assert_eq!(serde_json::to_string(&coin).unwrap(), expected);
}

#[test]
fn sums_larger_than_any_coin_stay_exact() {
    let mut balance =
        OwnerBalance { coins: 2, value: u128::from(u64::MAX) * 2, ..OwnerBalance::default() };
    balance.assets.insert(([0; 28], Vec::new()), u128::from(u64::MAX) + 1);
    let shown = serde_json::to_value(BalanceJson::new(Network::CardanoPreview, &balance)).unwrap();
    assert_eq!(shown["value"], "36893488147419103230");
    assert_eq!(shown["lovelace_amount"], shown["value"]);
    assert_eq!(shown["amounts"][1]["quantity"], "18446744073709551616");
    assert_eq!(shown["amounts"][1]["unit"], "00".repeat(28));
    assert_eq!(shown["at"], serde_json::Value::Null);
}
