//! The protocol's own vectors, through the calls that payments make.
//!
//! | NUT | here | not here |
//! |---|---|---|
//! | 00 | names of proofs, blinding, tokens as text | a mint's own signing; tokens as bytes, which nobody hands us |
//! | 01 | which keys are taken from a mint | |
//! | 02 | keyset ids of both versions | |
//! | 12 | the DLEQ proof of a signature | a mint's nonce; DLEQ of foreign proofs: a claim swaps them, and the mint decides |
//! | 13 | secrets and blinding factors of both versions | |
//! | 20 | what is signed to issue a quote | checking such a signature is the mint's work |
//!
//! NUT-11, 14 and 28 (locked proofs), 18 and 26 (payment requests) and 27 (backup of a list of
//! mints) are not used: no key is kept for locks, and nothing is asked for by request.

use std::str::FromStr as _;

use cashu::{CurrencyUnit, KeySet, MintRequest, Token};
use serde_json::Value;
use unspent_testkit::data;

use super::*;
use crate::event::proof_name;

/// What BIP-39 makes of the mnemonic of the vectors.
const SEED: &str = concat!(
    "dd44ee516b0647e80b488e8dcc56d736a148f15276bef588b37057476d4b2b25",
    "780d3688a32b37353d6995997842c0fd8b412475c891c16310471fbc86dcbda8"
);

fn vectors(nut: &str) -> Option<Value> {
    let bytes = data::bytes(&format!("cashu/nut{nut}.json"))?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} is missing in {value}"))
}

fn list<'v>(value: &'v Value, name: &str) -> &'v Vec<Value> {
    let found = value[name].as_array().unwrap_or_else(|| panic!("{name} is missing in {value}"));
    assert!(!found.is_empty(), "{name} is empty");
    found
}

/// NUT-00: the public name of a proof.
#[test]
fn names_of_proofs_are_those_of_the_vectors() {
    let Some(all) = vectors("00") else { return };
    let point = SecretKey::from_slice(&[1; 32]).unwrap().public_key();
    let id = "009a1f293253e41e".parse().unwrap();
    for vector in list(&all, "hash_to_curve") {
        let secret = hex::decode(text(vector, "message_hex")).unwrap();
        let secret = Secret::new(String::from_utf8(secret).unwrap());
        let proof = Proof::new(Amount::from(1), id, secret, point);
        assert_eq!(hex::encode(proof_name(&proof).unwrap()), text(vector, "point"));
    }
}

/// NUT-00: what the mint gets to sign.
#[test]
fn blinded_messages_are_those_of_the_vectors() {
    let Some(all) = vectors("00") else { return };
    for vector in list(&all, "blinded_messages") {
        let secret = hex::decode(text(vector, "x_hex")).unwrap();
        let r = SecretKey::from_hex(text(vector, "r")).unwrap();
        let (blinded, _) = blind_message(&secret, Some(r)).unwrap();
        assert_eq!(blinded.to_hex(), text(vector, "B_"));
    }
}

/// NUT-00: tokens of both versions are read; what isn't one is refused.
#[test]
fn tokens_are_read_as_the_vectors_have_them() {
    let Some(all) = vectors("00") else { return };
    for vector in list(&all["token_v3"], "serialize") {
        let token = Token::from_str(text(vector, "serialized")).unwrap();
        let mint = &vector["token"]["token"][0];
        assert_eq!(token.mint_url().unwrap().to_string(), text(mint, "mint"));
        let sum: u64 = list(mint, "proofs").iter().map(|p| p["amount"].as_u64().unwrap()).sum();
        assert_eq!(token.value().unwrap().to_u64(), sum);
        assert_eq!(token.memo().as_deref(), vector["token"]["memo"].as_str());
        let secrets: Vec<&str> = list(mint, "proofs").iter().map(|p| text(p, "secret")).collect();
        let found: Vec<String> = token.token_secrets().iter().map(|s| s.to_string()).collect();
        assert_eq!(found, secrets);
    }
    for valid in list(&all["token_v3"], "valid") {
        Token::from_str(valid.as_str().unwrap()).unwrap();
    }
    for invalid in list(&all["token_v3"], "invalid") {
        assert!(Token::from_str(invalid.as_str().unwrap()).is_err(), "{invalid}");
    }
    for vector in list(&all["token_v4"], "serialize") {
        let (inside, coded) = (&vector["token_bytes_as_hex"], text(vector, "serialized"));
        let token = Token::from_str(coded).unwrap();
        assert_eq!(token.mint_url().unwrap().to_string(), text(inside, "m"));
        let proofs = list(inside, "t").iter().flat_map(|keyset| list(keyset, "p"));
        let (amounts, secrets): (Vec<u64>, Vec<String>) =
            proofs.map(|p| (p["a"].as_u64().unwrap(), text(p, "s").to_owned())).unzip();
        assert_eq!(token.value().unwrap().to_u64(), amounts.iter().sum::<u64>());
        let found: Vec<String> = token.token_secrets().iter().map(|s| s.to_string()).collect();
        assert_eq!(found, secrets);
        // The order inside a map of CBOR is free, so that our text may be another one.
        assert_eq!(Token::from_str(&token.to_string()).unwrap(), token);
    }
}

/// NUT-01: a mint's keys are points of the curve in compressed form, or they aren't taken.
#[test]
fn keys_are_taken_as_the_vectors_have_them() {
    let Some(all) = vectors("01") else { return };
    for vector in list(&all, "valid_keysets") {
        let keys: Keys = serde_json::from_value(vector["keys"].clone()).unwrap();
        assert_eq!(keys.len(), vector["keys"].as_object().unwrap().len());
    }
    for vector in list(&all, "invalid_keysets") {
        let keys: Result<Keys, _> = serde_json::from_value(vector["keys"].clone());
        assert!(keys.is_err(), "{}", text(vector, "name"));
    }
}

fn keyset(vector: &Value) -> KeySet {
    KeySet {
        id: text(vector, "keyset_id").parse().unwrap(),
        unit: vector["unit"].as_str().map_or(CurrencyUnit::Sat, |unit| unit.parse().unwrap()),
        active: Some(true),
        keys: serde_json::from_value(vector["keys"].clone()).unwrap(),
        input_fee_ppk: vector["input_fee_ppk"].as_u64().unwrap_or(0),
        final_expiry: vector["final_expiry"].as_u64(),
    }
}

/// NUT-02: a keyset's id follows from what it is, in both versions.
#[test]
fn keyset_ids_are_those_of_the_vectors() {
    let Some(all) = vectors("02") else { return };
    for vector in list(&all, "keyset_id_v1").iter().chain(list(&all, "keyset_id_v2")) {
        let keyset = keyset(vector);
        keyset.verify_id().unwrap_or_else(|error| panic!("{}: {error}", keyset.id));
        let mut bent = keyset;
        let other = SecretKey::from_slice(&[9; 32]).unwrap().public_key();
        let mut keys: BTreeMap<Amount, PublicKey> =
            bent.keys.iter().map(|(a, k)| (*a, *k)).collect();
        keys.insert(Amount::from(1), other);
        bent.keys = Keys::new(keys);
        assert!(bent.verify_id().is_err(), "{} with another key", bent.id);
    }
    for vector in list(&all, "keyset_id_v2") {
        let mut bent = keyset(vector);
        bent.input_fee_ppk += 1;
        assert!(bent.verify_id().is_err(), "{} with another fee", bent.id);
    }
}

/// NUT-12: a signature fits the output that its DLEQ proof names, and no other.
#[test]
fn signatures_fit_their_outputs_as_in_the_vectors() {
    let Some(all) = vectors("12") else { return };
    let vector = &all["blind_signature_dleq"];
    let signature: BlindSignature =
        serde_json::from_value(vector["blind_signature"].clone()).unwrap();
    let key = PublicKey::from_hex(text(vector, "A")).unwrap();
    let keys = Keys::new(BTreeMap::from([(signature.amount, key)]));
    let ring = KeyRing::from([(signature.keyset_id, keys)]);
    let output = |blinded: &str| {
        let blinded = PublicKey::from_hex(blinded).unwrap();
        PreMint {
            blinded_message: BlindedMessage::new(Amount::ZERO, signature.keyset_id, blinded),
            secret: Secret::new("s"),
            r: SecretKey::from_slice(&[1; 32]).unwrap(),
            amount: Amount::ZERO,
            derivation_index: None,
        }
    };
    let theirs = output(text(vector, "B_"));
    assert!(proof_fits(&theirs, &signature, &ring));
    assert!(!proof_fits(&output(text(vector, "A")), &signature, &ring), "another output");
    let mut bare = signature.clone();
    bare.dleq = None;
    assert!(!proof_fits(&theirs, &bare, &ring), "without a proof");
    let mut dearer = signature.clone();
    dearer.amount = Amount::from(16);
    assert!(!proof_fits(&theirs, &dearer, &ring), "another amount");
}

/// NUT-13, for both versions of keyset ids.
#[test]
fn outputs_are_those_of_the_vectors() {
    let Some(all) = vectors("13") else { return };
    let seed = WalletSeed::new(hex::decode(SEED).unwrap().try_into().unwrap());
    for version in ["v1", "v2"] {
        let vectors = &all[version];
        let text = |list: &str, at: usize| vectors[list][at].as_str().unwrap().to_owned();
        let keyset_id = vectors["keyset_id"].as_str().unwrap().to_owned();
        for start in [0, 2] {
            let amounts = vec![1; 5 - start as usize];
            let range = OutputRange { keyset_id: keyset_id.clone(), start, amounts };
            let outputs = RangeOutputs::of(&range, &seed).unwrap();
            for (at, output) in outputs.0.iter().enumerate() {
                let place = at + start as usize;
                assert_eq!(output.secret.to_string(), text("secrets", place), "{version}");
                assert_eq!(output.r.to_secret_hex(), text("r", place), "{version}");
            }
        }
    }
}

/// NUT-20: what we sign to issue a quote is the message of the vector.
#[test]
fn a_quote_is_issued_with_the_message_of_the_vectors() {
    let Some(all) = vectors("20") else { return };
    let read =
        |name: &str| -> MintRequest<String> { serde_json::from_value(all[name].clone()).unwrap() };
    let theirs = PublicKey::from_hex(text(&all, "pubkey")).unwrap();
    read("valid_request").verify_signature(theirs).unwrap();
    assert!(read("invalid_request").verify_signature(theirs).is_err());

    let key = SecretKey::from_slice(&[3; 32]).unwrap();
    let mut ours = read("valid_request");
    ours.sign_legacy(key.clone()).unwrap();
    let message: Vec<u8> = serde_json::from_value(all["msg_to_sign_bytes"].clone()).unwrap();
    let signature = ours.signature.as_deref().unwrap().parse().unwrap();
    key.public_key().verify(&message, &signature).unwrap();
    // The newer message is another one, and stands for the same request.
    ours.sign(&key).unwrap();
    let signature = ours.signature.as_deref().unwrap().parse().unwrap();
    assert!(key.public_key().verify(&message, &signature).is_err());
    ours.verify_signature(key.public_key()).unwrap();
}
