//! What the audit of a database finds: nothing where nothing is wrong, and every kind of damage.

use unspent_ecash::{audit::audit, schema::SCHEMA};
use unspent_sql::{Door, Options, SqlError};

use crate::fixture::*;

fn found(d: &StoreFixture) -> Vec<String> {
    audit(&d.url, Options::default()).unwrap()
}

/// One statement behind the room's back.
fn damage(d: &StoreFixture, statement: &'static str) {
    let door = Door::open(&d.url, &SCHEMA, Options::default()).unwrap();
    let done: Result<usize, SqlError> =
        door.write(move |tx| Ok(tx.execute(statement, &[])? as usize));
    assert!(done.unwrap() > 0, "{statement}: nothing was hit");
}

#[test]
fn every_damage_is_named_and_a_sound_database_is_left_in_peace() {
    let damages = [
        ("UPDATE proofs SET held_by = 'nobody' WHERE state = 'RESERVED'", "reserved by nobody"),
        ("UPDATE proofs SET added_by = 'nobody' WHERE state = 'UNSPENT'", "brought by nobody"),
        ("UPDATE entities SET is_open = FALSE WHERE state = 'PENDING'", "nobody looks after it"),
        ("UPDATE transactions SET state = 'FAILED' WHERE state = 'COMPLETED'", "transaction is F"),
        ("DELETE FROM transactions WHERE state = 'COMPLETED'", "transaction is missing"),
        ("UPDATE entities SET version = version + 1 WHERE state = 'COMPLETED'", "last word"),
        ("UPDATE counters SET counter = 1 WHERE counter > 1", "beyond its counter"),
        ("DELETE FROM counters WHERE counter > 1", "not known"),
        ("DELETE FROM journal WHERE number = 2", "the journal has"),
    ];
    for (statement, told) in damages {
        on_both(|d| {
            d.fund(1_024);
            let token = d.token(100);
            d.run(&token.id);
            d.token(50);
            assert_eq!(found(&d), Vec::<String>::new());
            damage(&d, statement);
            let found = found(&d);
            assert!(found.iter().any(|line| line.contains(told)), "{statement}: {found:?}");
        });
    }
}

#[test]
fn change_that_is_owed_has_somebody_who_looks_after_it() {
    on_both(|d| {
        d.fund(512);
        d.mint.borrow_mut().hides = (0..20).map(|bit| 1 << bit).collect();
        let quote = d.melt(100, None);
        d.run(&quote.id);
        assert_eq!(found(&d), Vec::<String>::new());
        damage(&d, "UPDATE entities SET is_open = FALSE WHERE state = 'PAID'");
        assert!(found(&d).iter().any(|line| line.contains("change that is owed")));
        damage(&d, "UPDATE entities SET is_open = TRUE WHERE state = 'PAID'");
        d.mint.borrow_mut().hides.clear();
        d.run(&quote.id);
        assert_eq!(found(&d), Vec::<String>::new());
        damage(&d, "UPDATE entities SET is_open = TRUE WHERE state = 'PAID'");
        assert!(found(&d).iter().any(|line| line.contains("still looked after")));
    });
}

#[test]
fn a_database_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.db");
    let url = format!("sqlite:{}", path.display()).parse().unwrap();
    assert!(audit(&url, Options::default()).unwrap_err().to_string().contains("not there"));
    assert!(!path.exists());
}
