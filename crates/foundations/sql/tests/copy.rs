//! Copying a room between databases: whole and the same, or not at all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use unspent_sql::{
    Arg, Door, Migration, Options, Schema, SqlError, Url,
    copy::{CopiedTable, CopyError, copy},
};
use unspent_testkit::wallet::postgres;

/// `a_cups` comes first by name, and leans on `shelves`.
const CUPS: &str = "CREATE TABLE counter (one BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
    INSERT INTO counter VALUES (1, 0);
    CREATE TABLE shelves (name TEXT NOT NULL PRIMARY KEY);
    CREATE TABLE a_cups (shelf TEXT NOT NULL REFERENCES shelves (name), id BIGINT NOT NULL,
        mark {bytes}, chipped BOOLEAN, note TEXT, PRIMARY KEY (shelf, id));";
const ENTER: &str = "CREATE SCHEMA IF NOT EXISTS shop; SET search_path TO shop";
const FIRST: Migration = Migration { version: 1, name: "cups", ddl: CUPS };
const PLATES: &str = "CREATE TABLE plates (id BIGINT NOT NULL PRIMARY KEY)";
const SECOND: Migration = Migration { version: 2, name: "plates", ddl: PLATES };
const OLD: Schema = Schema { postgres_enter: ENTER, migrations: &[FIRST], distribution: &[] };
const NEW: Schema = Schema { migrations: &[FIRST, SECOND], ..OLD };
const OTHER: Schema = Schema { migrations: &[SECOND], ..OLD };

/// More rows than are read at a time, and every kind of value at its ends.
fn fill(url: &Url) {
    let door = Door::open(url, &NEW, Options::default()).unwrap();
    let filled = door.write(|tx| -> Result<(), SqlError> {
        tx.execute("UPDATE counter SET n = $1", &[Arg::Int(i64::MAX)])?;
        // In another order than most people's languages have.
        for shelf in ["Ä", "a", "B", "b", "ß", "", "a b", "\u{1F375}"] {
            tx.execute("INSERT INTO shelves VALUES ($1)", &[Arg::Text(shelf)])?;
            for id in -100..100 {
                let mark = id.to_string().repeat(5);
                let (mark, note) = (mark.as_bytes(), "né\n'\"");
                let args = [
                    Arg::Text(shelf),
                    Arg::Int(id),
                    Arg::OptBlob((id % 3 != 0).then_some(mark)),
                    Arg::Flag(id % 2 == 0),
                    Arg::OptText((id % 5 != 0).then_some(note)),
                ];
                tx.execute("INSERT INTO a_cups VALUES ($1, $2, $3, $4, $5)", &args)?;
            }
            tx.execute("UPDATE a_cups SET chipped = NULL WHERE id = 7", &[])?;
        }
        Ok(())
    });
    filled.unwrap();
}

struct Places {
    folder: tempfile::TempDir,
}

impl Places {
    fn file(&self, name: &str) -> Url {
        format!("sqlite:{}", self.folder.path().join(name).display()).parse().unwrap()
    }
}

fn places() -> Places {
    Places { folder: tempfile::tempdir().unwrap() }
}

fn carry(from: &Url, to: &Url) -> Result<Vec<CopiedTable>, CopyError> {
    copy(from, to, &NEW, &mut |_| {})
}

#[test]
fn rows_are_the_same_on_every_way_and_back() {
    let places = places();
    let (first, second, back) = (places.file("1.db"), places.file("2.db"), places.file("3.db"));
    fill(&first);
    let copied = carry(&first, &second).unwrap();
    let rows = |name: &str| copied.iter().find(|table| table.name == name).unwrap().rows;
    assert_eq!((rows("a_cups"), rows("shelves"), rows("counter"), rows("plates")), (1600, 8, 1, 0));
    let Some(text) = postgres::database() else { return };
    let server: Url = text.parse().unwrap();
    let mut seen = Vec::new();
    let there = copy(&second, &server, &NEW, &mut |progress| {
        seen.push((progress.table.to_owned(), progress.rows, progress.is_comparing));
    });
    assert_eq!(there.unwrap(), copied);
    assert!(
        seen.contains(&("a_cups".into(), 500, false))
            && seen.contains(&("a_cups".into(), 1600, true))
    );
    assert_eq!(carry(&server, &back).unwrap(), copied);
    let another: Url = postgres::database().unwrap().parse().unwrap();
    assert_eq!(carry(&server, &another).unwrap(), copied);
    let door = Door::open(&back, &NEW, Options::default()).unwrap();
    let n = door.read(|tx| tx.one("SELECT n FROM counter", &[])).unwrap();
    assert_eq!(n.int("n").unwrap(), i64::MAX);
}

#[test]
fn a_target_that_holds_rows_is_left_alone() {
    let places = places();
    let (full, other) = (places.file("full.db"), places.file("other.db"));
    fill(&full);
    let mut targets = vec![other];
    targets.extend(postgres::database().map(|url| url.parse().unwrap()));
    for target in targets {
        let door = Door::open(&target, &NEW, Options::default()).unwrap();
        door.write(|tx| tx.execute("UPDATE counter SET n = 5", &[])).unwrap();
        let refused = carry(&full, &target).unwrap_err();
        assert!(matches!(&refused, CopyError::NotEmpty(table) if table == "counter"), "{refused}");
        let n = door.read(|tx| tx.one("SELECT n FROM counter", &[])).unwrap();
        assert_eq!(n.int("n").unwrap(), 5);
        door.write(|tx| tx.execute("UPDATE counter SET n = 0", &[])).unwrap();
        carry(&full, &target).unwrap();
        assert!(matches!(carry(&full, &target), Err(CopyError::NotEmpty(_))));
    }
}

#[test]
fn a_copy_that_fails_on_the_way_leaves_nothing() {
    let places = places();
    let (full, target) = (places.file("full.db"), places.file("target.db"));
    fill(&full);
    let path = places.folder.path().join("full.db");
    let damaged = rusqlite::Connection::open(&path).unwrap();
    // A fraction where the schema has bytes: SQLite keeps anything.
    damaged.execute_batch("UPDATE a_cups SET mark = 1.5 WHERE shelf = 'b' AND id = 99").unwrap();
    let failed = carry(&full, &target).unwrap_err();
    assert!(matches!(&failed, CopyError::Failed { table, .. } if table == "a_cups"), "{failed}");
    damaged.execute_batch("UPDATE a_cups SET mark = NULL WHERE shelf = 'b' AND id = 99").unwrap();
    carry(&full, &target).unwrap();
}

#[test]
fn what_is_no_source_is_named() {
    let places = places();
    let (absent, target) = (places.file("absent.db"), places.file("target.db"));
    assert!(matches!(carry(&absent, &target), Err(CopyError::Absent(_))));
    assert!(!places.folder.path().join("absent.db").exists());
    assert!(matches!(carry(&target, &target), Err(CopyError::Same)));
    let old = places.file("old.db");
    drop(Door::open(&old, &OLD, Options::default()).unwrap());
    let refused = carry(&old, &target).unwrap_err();
    assert!(matches!(refused, CopyError::Older { found: 1, known: 2 }), "{refused}");
    drop(Door::open(&old, &NEW, Options::default()).unwrap());
    let newer = copy(&old, &target, &OLD, &mut |_| {}).unwrap_err();
    assert!(matches!(newer, CopyError::Source(_)), "{newer}");
    let foreign = copy(&old, &target, &OTHER, &mut |_| {}).unwrap_err();
    assert!(matches!(foreign, CopyError::Source(_)), "{foreign}");
    if let Some(text) = postgres::database() {
        let refused = carry(&text.parse().unwrap(), &target).unwrap_err();
        assert!(matches!(refused, CopyError::Source(_)), "{refused}");
    }
    assert!(!places.folder.path().join("target.db").exists(), "nothing was begun");
}

/// Others write to the source meanwhile: the copy is of the moment at which it began.
#[test]
fn a_copy_is_of_one_moment() {
    let places = places();
    let (full, target) = (places.file("full.db"), places.file("target.db"));
    fill(&full);
    let door = Door::open(&full, &NEW, Options::default()).unwrap();
    let mut has_written = false;
    let copied = copy(&full, &target, &NEW, &mut |_| {
        if !std::mem::replace(&mut has_written, true) {
            door.write(|tx| tx.execute("DELETE FROM a_cups", &[])).unwrap();
            door.write(|tx| tx.execute("INSERT INTO plates VALUES (1)", &[])).unwrap();
        }
    });
    let copied = copied.unwrap();
    let rows: Vec<_> = copied.iter().map(|table| (table.name.as_str(), table.rows)).collect();
    assert!(rows.contains(&("a_cups", 1600)) && rows.contains(&("plates", 0)), "{rows:?}");
}
