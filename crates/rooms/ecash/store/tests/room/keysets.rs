//! Keysets of accounts, counters over all of them, and what becomes of an account.

use cashu::MintUrl;
use unspent_ecash::{
    AccountKind, EcashAccount, EcashError, EcashStore, NewEntity, audit::audit, schema::SCHEMA,
};
use unspent_model::{Micros, ecash::EntityState};
use unspent_sql::{Door, Options, SqlError};

use crate::{fixture::*, mint::Mint};

const GRACE: Micros = Micros(0);

fn account(id: &str, url: &str) -> EcashAccount {
    EcashAccount {
        id: id.into(),
        kind: AccountKind::Cashu,
        name: id.into(),
        mint_url: Some(url.parse().unwrap()),
        unit: "sat".into(),
        version: 0,
    }
}

fn counter(store: &EcashStore, account: &str) -> u32 {
    store.keysets(account).unwrap()[0].1
}

/// Anybody can list the public keysets of another mint.
#[test]
fn a_keyset_that_two_accounts_list_has_one_counter() {
    on_both(|d| {
        let infos = d.mint.borrow().infos();
        let copy = account("copy", "https://copy.example");
        d.store.add_account_with(copy, infos, Micros(1)).unwrap();
        d.fund(100);
        let at = counter(&d.store, "home");
        assert!(at > 0);
        assert_eq!(counter(&d.store, "copy"), at);
        // Its outputs are new ones too, whatever becomes of them.
        let new = NewEntity::ReceiveQuote {
            quote_id: "q".into(),
            invoice: INVOICE.into(),
            amount: 7,
            lock_index: 3,
            source: None,
        };
        let id = d.begin(new, d.terms("copy")).unwrap().entity.id;
        d.mint.borrow_mut().quotes.insert("q".into(), (7, cashu::MintQuoteState::Paid));
        d.run(&id);
        assert_eq!(d.state(&id), EntityState::Completed);
        assert_eq!((counter(&d.store, "home"), counter(&d.store, "copy")), (at + 3, at + 3));
        assert_eq!((d.free("home"), d.free("copy")), (100, 7));
        let token = d.token(30);
        d.run(&token.id);
        assert_eq!(d.state(&token.id), EntityState::Pending);
        d.check();
    });
}

#[test]
fn an_account_comes_with_its_keysets_or_not_at_all() {
    on_both(|d| {
        let mut infos = d.mint.borrow().infos();
        infos[0].fee_ppk = u64::MAX;
        let refused =
            d.store.add_account_with(account("odd", "https://odd.example"), infos, Micros(1));
        assert!(refused.is_err());
        assert!(d.store.accounts().unwrap().iter().all(|account| account.id != "odd"));
    });
}

#[test]
fn an_account_is_removed_when_nothing_is_left_of_it() {
    on_both(|d| {
        d.fund(64);
        let gone = |d: &StoreFixture| d.store.remove_account("home", GRACE, d.now());
        let told = |d: &StoreFixture| gone(d).unwrap_err().to_string();
        assert!(told(&d).contains("64 free"), "{}", told(&d));
        // A token that nobody has claimed yet, and the rest spent.
        let token = d.token(50);
        d.run(&token.id);
        let door = d.own_door();
        let spend = "UPDATE proofs SET state = 'SPENT' WHERE state = 'UNSPENT'";
        let done = door.write(move |tx| -> Result<u64, SqlError> { tx.execute(spend, &[]) });
        assert!(done.unwrap() > 0);
        assert!(told(&d).contains("1 open payments"), "{}", told(&d));
        let made = d.token_of(&token.id);
        d.claim_by_other(&made);
        d.run(&token.id);
        gone(&d).unwrap();
        assert!(d.store.accounts().unwrap().iter().all(|account| account.id != "home"));
        assert_eq!(d.store.entity(&token.id).unwrap().account_id, "home");
        let again = account("anew", &d.mint.borrow().url.to_string());
        let infos = d.mint.borrow().infos();
        assert_eq!(d.store.add_account_with(again, infos, Micros(2)).unwrap().id, "anew");
        assert!(gone(&d).is_err(), "it is not there any more");
        assert!(matches!(
            d.begin(
                NewEntity::ReceiveQuote {
                    quote_id: "late".into(),
                    invoice: INVOICE.into(),
                    amount: 1,
                    lock_index: 1,
                    source: None,
                },
                d.terms("home"),
            ),
            Err(EcashError::NotFound { .. })
        ));
    });
}

#[test]
fn an_invoice_that_may_still_be_paid_keeps_its_account() {
    on_both(|d| {
        let soon = Micros(d.now().get() + 1);
        let id = d.invoice("away", 5, Some(soon));
        d.wait_hours(1);
        d.run(&id);
        assert_eq!(d.state(&id), EntityState::Expired);
        let refused = d.store.remove_account("away", d.now().earlier(HOUR), d.now());
        let told = refused.unwrap_err().to_string();
        assert!(told.contains("may still be paid"), "{told}");
        d.wait_hours(2);
        d.store.remove_account("away", d.now().earlier(HOUR), d.now()).unwrap();
    });
}

#[test]
fn names_and_addresses_change_and_are_nobody_elses() {
    on_both(|d| {
        assert!(d.store.rename_account("home", "away").is_err(), "another one goes by it");
        assert_eq!(d.store.rename_account("home", "purse").unwrap().name, "purse");
        let there: MintUrl = "https://new.example".parse().unwrap();
        let infos = d.mint.borrow().infos();
        let taken = d.other.borrow().url.clone();
        assert!(d.store.move_account("home", &taken, infos.clone()).is_err());
        let others = Mint::new(7, 0, true).infos();
        let refused = d.store.move_account("home", &there, others).unwrap_err().to_string();
        assert!(refused.contains("doesn't list keyset"), "{refused}");
        let moved = d.store.move_account("home", &there, infos).unwrap();
        assert_eq!(moved.mint_url, Some(there));
    });
}

/// What version 1 had in the place of version 2's tables, with its own words.
const BACK: [&str; 9] = [
    "CREATE TABLE keysets (
    keyset_id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL,
    is_active BOOLEAN NOT NULL,
    fee_ppk BIGINT NOT NULL,
    counter BIGINT NOT NULL
)",
    "CREATE INDEX idx_keysets_account ON keysets (account_id, keyset_id)",
    "INSERT INTO keysets (keyset_id, account_id, is_active, fee_ppk, counter)
        SELECT k.keyset_id, k.account_id, k.is_active, k.fee_ppk, c.counter
        FROM account_keysets k JOIN counters c ON c.keyset_id = k.keyset_id",
    "DROP TABLE account_keysets",
    "DROP TABLE counters",
    "DROP TABLE scans",
    "DROP INDEX idx_accounts_place",
    "ALTER TABLE accounts DROP COLUMN removed_at",
    "CREATE UNIQUE INDEX idx_accounts_mint ON accounts (mint_url, unit) WHERE mint_url IS NOT NULL",
];

#[test]
fn a_database_of_version_1_is_taken_over_with_its_money() {
    for part in [BACK[0], BACK[1], BACK[8]] {
        assert!(SCHEMA.migrations[0].ddl.contains(part), "version 1 says otherwise: {part}");
    }
    on_both(|mut d| {
        d.fund(1_000);
        let token = d.token(100);
        d.run(&token.id);
        let waiting = d.invoice("home", 21, None);
        let (before, counters) = (d.snapshot(), d.store.counters().unwrap());
        let door = Door::open(&d.url, &SCHEMA, Options::default()).unwrap();
        let back = door.write(|tx| -> Result<(), SqlError> {
            for statement in BACK {
                tx.execute(statement, &[])?;
            }
            let forget = "DELETE FROM schema_migrations WHERE version = 2";
            assert_eq!(tx.execute(forget, &[])?, 1);
            Ok(())
        });
        back.unwrap();
        drop(door);
        d.reopen();
        assert_eq!((d.snapshot(), d.store.counters().unwrap()), (before, counters));
        assert!(d.store.due_scans().unwrap().is_empty());
        // And it goes on from there.
        d.pay_invoice("home", &waiting);
        d.run(&waiting);
        assert_eq!(d.state(&waiting), EntityState::Completed);
        let made = d.token_of(&token.id);
        d.claim_by_other(&made);
        d.run(&token.id);
        d.melt(50, None);
        d.run_open();
        d.check();
        assert_eq!(audit(&d.url, Options::default()).unwrap(), Vec::<String>::new());
    });
}
