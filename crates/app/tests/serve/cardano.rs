//! A daemon on real blocks of Cardano's preview network, from a folder: credentials, no wallets.

use serde_json::json;
use unspent_testkit::data;

use crate::daemon::{Folder, ended, unspent};

#[test]
fn credentials_are_answered_on_cardano_and_wallets_are_off() {
    let chunk = data::path("cardano/preview/00000.chunk");
    let genesis = data::path("cardano/genesis/preview-byron-genesis.json");
    let (Some(chunk), Some(genesis)) = (chunk, genesis) else { return };
    let folder = Folder::new();
    let genesis = format!("source.genesis=[{:?}]", genesis.to_str().unwrap());
    let path = format!("source.path={:?}", chunk.to_str().unwrap());
    let settings =
        ["network=cardano-preview", "source.kind=immutable-db", path.as_str(), genesis.as_str()];
    let daemon = folder.start(&settings);
    daemon.wait_for("the folder is read", |client| client.get("/readyz").status == 200);
    let client = daemon.admin();
    let status = client.get("/api/v1/status").ok();
    assert_eq!(status["network"], "cardano-preview");
    assert_eq!((&status["rooms"][1]["state"], &status["wallet"]), (&json!("off"), &json!(null)));
    assert_eq!(client.get("/api/v1/wallets").refused(404), "room_off");
    // The first coin that somebody with a payment credential got.
    let tip = client.get("/api/v1/blocks/tip").ok()["height"].as_u64().unwrap();
    let created = (0..=tip).rev().flat_map(|height| {
        let delta = client.get(&format!("/api/v1/deltas/{height}"));
        if delta.status != 200 {
            return Vec::new();
        }
        delta.json()["deltas"][0]["created"].as_array().unwrap().clone()
    });
    let coins = created.filter_map(|made| {
        let name = made["outpoint"].as_str().unwrap();
        assert_eq!(
            *name,
            format!("{}:{}", made["tx_hash"].as_str().unwrap(), made["output_index"])
        );
        let coin = client.get(&format!("/api/v1/utxos/{name}"));
        (coin.status == 200).then(|| coin.json())
    });
    let mut coins = coins.filter(|coin| coin["owner_payment_credential"].is_string());
    if let Some(coin) = coins.next() {
        assert_eq!(
            (&coin["value"], &coin["address"]),
            (&coin["lovelace_amount"], &coin["owner_addr"])
        );
        let owner = coin["owner_payment_credential"].as_str().unwrap();
        let path = format!("/api/v1/credentials/{owner}");
        let page = client.get(&format!("{path}/utxos?limit=500&order=desc")).ok();
        let listed = page["utxos"].as_array().unwrap();
        assert_eq!(
            listed.iter().any(|one| one["txid"] == coin["tx_hash"]),
            coin["state"] == "unspent"
        );
        let sum = client.get(&format!("{path}/balance")).ok();
        assert_eq!(sum["utxos"], listed.len());
    }
    let nobody = format!("/api/v1/credentials/{}/utxos", "11".repeat(28));
    assert_eq!(client.get(&nobody).ok()["utxos"], json!([]));
    client.get("/api/v1/credentials/zz/utxos").refused(400);
    assert_eq!(daemon.end(), 0);
    // Wallets can't be asked for.
    let mut command = unspent(&folder.data());
    command.args(["serve", "--set", "wallet.enabled=true"]);
    settings.iter().for_each(|setting| {
        command.args(["--set", setting]);
    });
    let (code, _, err) = ended(command);
    assert_eq!((code, err.contains("wallet.enabled")), (2, true), "{err}");
}
