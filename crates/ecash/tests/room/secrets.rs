//! No secret reaches the disk, a debug print or an error.

use unspent_ecash::{EcashError, EcashStore, KeySource, NewEntity};
use unspent_sql::Options;

use crate::desk::*;

/// Every secret of a store in which a lot has happened, as text.
fn secrets(d: &Desk) -> Vec<String> {
    d.fund(1_000);
    let swap = d.token(100);
    d.run(&swap.id);
    let token = d.token_of(&swap.id);
    let keyset = d.mint.borrow().output_keyset();
    let claim = d.create(NewEntity::ReceiveSwap { proofs: token.clone(), keyset });
    let held = d.melt(50, None);
    let open = [d.store.open_entity(&held.id).unwrap(), d.store.open_entity(&claim.id).unwrap()];
    let shown = format!("{open:?} {:?} {:?} {token:?}", d.store, d.flow(&held.id));
    let mut found: Vec<String> = token.iter().map(|proof| proof.secret.to_string()).collect();
    found.extend(open.iter().flat_map(|open| &open.held).map(|proof| proof.secret.to_string()));
    found.push(hex::encode([9_u8; 64]));
    found.push(WORDS.to_owned());
    for secret in &found {
        assert!(!shown.contains(secret.as_str()), "Debug shows {secret}");
    }
    assert!(found.len() > 5);
    found
}

#[test]
fn the_files_of_a_database_hold_no_secret() {
    let d = Desk::sqlite();
    let secrets = secrets(&d);
    let mut seen = 0;
    for entry in std::fs::read_dir(d.folder().unwrap()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        seen += bytes.len();
        for secret in &secrets {
            // A secret is hexadecimal text; its bytes would be as bad.
            let raw = hex::decode(secret).unwrap_or_default();
            for form in [secret.as_bytes(), &raw] {
                let holds = form.len() > 8 && bytes.windows(form.len()).any(|part| part == form);
                assert!(!holds, "the file holds {secret}");
            }
        }
    }
    assert!(seen > 50_000, "only {seen} bytes were searched");
    // The search can find something: what isn't secret is there in plain text.
    let all: Vec<u8> = std::fs::read_dir(d.folder().unwrap())
        .unwrap()
        .flat_map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(all.windows(5).any(|part| part == b"lnbc1"));
}

#[test]
fn another_key_opens_nothing() {
    on_both(|d| {
        d.fund(10);
        let wrong = KeySource::Passphrase("orchard velvet thunde".to_owned().into());
        let refused = EcashStore::open(&d.url, &wrong, None, Options::default());
        assert!(matches!(refused, Err(EcashError::WrongKey)), "{refused:?}");
        // The right one finds the seed that the store was made with, whatever it is given.
        let again =
            EcashStore::open(&d.url, &key(), Some([1; 64].into()), Options::default()).unwrap();
        assert_eq!(**again.seed(), [9; 64]);
    });
}

#[test]
fn a_keyset_belongs_to_one_account() {
    on_both(|d| {
        let refused = d.store.put_keysets("away", d.mint.borrow().infos());
        assert!(matches!(refused, Err(EcashError::KeysetElsewhere { .. })), "{refused:?}");
    });
}
