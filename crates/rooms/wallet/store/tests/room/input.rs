//! Bad input: clear errors, nothing written. Hostile names, wrong networks, broken rows.

use unspent_model::{Micros, Network, wallet::LockId};
use unspent_sql::{Door, Options};
use unspent_wallet::{
    NewAccount, NewWallet, WalletError, WalletStore, descriptor, schema::SCHEMA,
    wallet_info::KeychainPurpose,
};

use crate::ledger::*;

fn with_descriptor(text: &str) -> NewWallet {
    let account = NewAccount { name: "main".into(), receive: text.into(), change: None };
    NewWallet { accounts: vec![account], ..new_wallet("another", 5) }
}

#[test]
fn descriptors_that_can_not_be_watched_are_refused() {
    on_both(|l| {
        let main = bitcoin::bip32::Xpub::from_priv(
            &bitcoin::secp256k1::Secp256k1::new(),
            &bitcoin::bip32::Xpriv::new_master(bitcoin::Network::Bitcoin, &[1; 32]).unwrap(),
        );
        let ours = xpub(5);
        let wrong = [
            String::new(),
            "wpkh".into(),
            "wpkh(nonsense/*)".into(),
            format!("wpkh({main}/<0;1>/*)"),
            format!("wpkh({}/<0;1>/*)", xpriv(5)),
            format!("wpkh({ours}/<0;1;2>/*)"),
            format!("wsh(multi(3,{ours}/0/*,{}/0/*))", xpub(6)),
            format!("wpkh({ours}/0'/*)"),
            format!("wpkh({ours}/0/*)#xxxxxxxx"),
            "tr(".repeat(10_000),
        ];
        for text in wrong {
            let refused = l.room.create_wallet(&with_descriptor(&text), Micros(1)).unwrap_err();
            assert!(matches!(refused, WalletError::Descriptor(_)), "{text:.40}: {refused}");
        }
        let twice = NewAccount { name: "again".into(), receive: descriptor(1), change: None };
        let refused = l.room.add_account(l.wallet, &twice).unwrap_err();
        assert!(matches!(refused, WalletError::ScriptExists), "{refused}");
        assert_eq!(l.room.wallets(None).unwrap().len(), 1);
        assert_eq!(l.room.keychains(l.wallet).unwrap().len(), 2);
    });
}

#[test]
fn names_from_hell_are_refused_and_strange_ones_are_kept() {
    on_both(|l| {
        for name in ["", " ", "a ", ".", "..", "\0", "a\nb", "\u{1b}[31m", &"x".repeat(101)] {
            let refused = l.room.create_wallet(&new_wallet(name, 2), Micros(1)).unwrap_err();
            assert!(matches!(refused, WalletError::BadName(_)), "{name:?}");
        }
        for name in ["'; DROP TABLE wallets; --", "日本 🪙", "../../etc", "$1 ?1", "a\"b"] {
            let made = l.room.create_wallet(&new_wallet(name, 2), Micros(1)).unwrap();
            assert_eq!(l.room.wallet(name).unwrap(), made);
        }
        let again = l.room.create_wallet(&new_wallet("ours", 2), Micros(1)).unwrap_err();
        assert!(matches!(again, WalletError::WalletExists(_)));
        assert!(matches!(l.room.wallet("nobody"), Err(WalletError::NoWallet(_))));
        assert_eq!(l.room.wallets(None).unwrap().len(), 6);
        for gap_limit in [0, 10_001] {
            let new = NewWallet { gap_limit, ..new_wallet("gap", 3) };
            assert!(matches!(l.room.create_wallet(&new, Micros(1)), Err(WalletError::Argument(_))));
        }
    });
}

#[test]
fn a_database_serves_one_network() {
    on_both(|l| {
        let other = WalletStore::open(&l.url, Network::Bitcoin, Options::default()).err().unwrap();
        assert!(matches!(other, WalletError::WrongNetwork { .. }), "{other}");
        let cardano = WalletStore::open(&l.url, Network::CardanoMainnet, Options::default());
        assert!(matches!(cardano.err(), Some(WalletError::NotBitcoin(_))));
        let network = bitcoin::Network::Regtest;
        for text in ["bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "x", ""] {
            assert!(descriptor::parse_address(text, network).is_err());
        }
    });
}

/// SQLite only: what another program wrote needs no second database.
#[test]
fn a_database_that_says_it_is_of_cardano_is_not_taken_for_bitcoins() {
    let l = Ledger::sqlite();
    let door = Door::open(&l.url, &SCHEMA, Options::default()).unwrap();
    door.write(|tx| {
        tx.script("PRAGMA ignore_check_constraints = ON")?;
        tx.execute("UPDATE room SET network = 'cardano-mainnet'", &[])
    })
    .unwrap();
    let refused = WalletStore::open_existing(&l.url, Options::default()).err().unwrap();
    assert!(matches!(refused, WalletError::NotBitcoin(Network::CardanoMainnet)), "{refused}");
}

#[test]
fn lock_ids_are_32_bytes_and_not_zero() {
    for bytes in [&[][..], &[1; 31], &[1; 33], &[0; 32]] {
        assert!(LockId::new(bytes).is_err());
    }
}

#[test]
fn an_account_that_is_not_there_is_told() {
    on_both(|l| {
        let missing =
            l.room.next_address(l.wallet, Some("nobody"), KeychainPurpose::Receive).unwrap_err();
        assert!(matches!(missing, WalletError::Argument(_)));
        let nobody = unspent_wallet::WalletId(99);
        assert!(matches!(l.room.balance(nobody, 1, Micros(0)), Err(WalletError::NoWallet(_))));
        assert!(matches!(l.room.audit(nobody), Err(WalletError::NoWallet(_))));
    });
}

/// Case 59. SQLite only: PostgreSQL's own checks can't be switched off for a test.
#[test]
fn damaged_rows_are_a_loud_error() {
    let l = Ledger::sqlite();
    let pay = l.fund(1, 500);
    l.room.lease(l.wallet, &[out(&pay, 0)], l.terms(1), Micros(l.now.get())).unwrap();
    let tamper = |sql: &'static str| {
        let door = Door::open(&l.url, &SCHEMA, Options::default()).unwrap();
        door.write(move |tx| {
            tx.script("PRAGMA ignore_check_constraints = ON")?;
            tx.execute(sql, &[])
        })
        .unwrap();
    };
    tamper("UPDATE utxo_leases SET external_lock_id = x'0102'");
    assert!(l.room.leases(l.wallet, Micros(l.now.get())).is_err());
    tamper("UPDATE transactions SET status = 'lost'");
    assert!(l.room.tx(l.wallet, pay.compute_txid()).is_err());
    tamper("UPDATE transactions SET status = 'published', tx_hash = x'01'");
    let error = l.room.txs(l.wallet, unspent_wallet::history::TxListing::Latest(None), 5);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), unspent_wallet::Kind::Corrupt, "{error}");
}

/// No row of one wallet is reachable from another.
#[test]
fn the_database_itself_forbids_references_between_wallets() {
    on_both(|l| {
        let other = l.other_wallet("other", 2);
        l.fund(1, 500);
        let door = Door::open(&l.url, &SCHEMA, Options::default()).unwrap();
        assert_eq!(other.0, 2);
        for sql in [
            "INSERT INTO utxos (wallet_id, id, tx_id, output_index, amount, address_id)
                SELECT 2, 900, tx_id, output_index, amount, address_id FROM utxos",
            "INSERT INTO utxo_leases (wallet_id, utxo_id, external_lock_id, expires_at, leased_at)
                SELECT 2, u.id, t.tx_hash, 1, 1 FROM utxos u JOIN transactions t ON t.id = u.tx_id",
            "DELETE FROM transactions",
            "DELETE FROM blocks",
        ] {
            let refused = door.write(move |tx| tx.execute(sql, &[])).unwrap_err();
            assert!(matches!(refused, unspent_sql::SqlError::Constraint(_)), "{refused}");
        }
    });
}
