//! What the door promises, on both databases.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::{
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use unspent_sql::{
    Arg, BulkStatement, Column, Door, Migration, OpenError, Options, Row, Schema, SqlError, Url,
    Value,
};
use unspent_testkit::wallet::postgres;

const ENTER: &str = "CREATE SCHEMA IF NOT EXISTS shop; SET search_path TO shop";
const FIRST: Migration = Migration {
    version: 1,
    name: "cups",
    ddl: "CREATE TABLE cups (id BIGINT PRIMARY KEY, colour TEXT, mark {bytes}, chipped BOOLEAN);
        CREATE TABLE counter (n BIGINT NOT NULL); INSERT INTO counter VALUES (0);",
};
const SECOND: Migration =
    Migration { version: 2, name: "plates", ddl: "CREATE TABLE plates (id BIGINT PRIMARY KEY)" };
const BROKEN: Migration = Migration { version: 2, name: "broken", ddl: "CREATE TABLE x (" };
const OF_ANOTHER: Migration =
    Migration { version: 1, name: "cups", ddl: "CREATE TABLE cups (id BIGINT)" };
const ONE: Schema = Schema { postgres_enter: ENTER, migrations: &[FIRST], distribution: &[] };
const TWO: Schema = Schema { migrations: &[FIRST, SECOND], ..ONE };
const BAD: Schema = Schema { migrations: &[FIRST, BROKEN], ..ONE };
const OTHER: Schema = Schema { migrations: &[OF_ANOTHER], ..ONE };

/// Runs a test on SQLite and, where it is there, on PostgreSQL.
fn on_both(test: impl Fn(&Url)) {
    let folder = tempfile::tempdir().unwrap();
    test(&format!("sqlite:{}", folder.path().join("a.db").display()).parse().unwrap());
    if let Some(url) = postgres::database() {
        test(&url.parse().unwrap());
    }
}

fn open(url: &Url) -> Door {
    Door::open(url, &ONE, Options::default()).unwrap()
}

fn count(door: &Door) -> i64 {
    door.read(|tx| -> Result<i64, SqlError> {
        tx.one("SELECT COUNT(*) AS cups FROM cups", &[])?.int("cups")
    })
    .unwrap()
}

const INSERT: &str = "INSERT INTO cups (id, colour, mark, chipped) VALUES ($1, $2, $3, $4)";

fn cup(id: i64) -> [Arg<'static>; 4] {
    [Arg::Int(id), Arg::Text("blue"), Arg::Blob(&[1, 2]), Arg::Flag(true)]
}

#[test]
fn values_come_back_as_they_went_in() {
    on_both(|url| {
        let door = open(url);
        door.write(|tx| tx.execute(INSERT, &cup(i64::MAX))).unwrap();
        let nothing =
            [Arg::Int(i64::MIN), Arg::OptText(None), Arg::OptBlob(None), Arg::Flag(false)];
        door.write(move |tx| tx.execute(INSERT, &nothing)).unwrap();
        let rows: Vec<Row> = door
            .read(|tx| tx.query("SELECT id, colour, mark, chipped FROM cups ORDER BY id DESC", &[]))
            .unwrap();
        assert_eq!(rows[0].int("id").unwrap(), i64::MAX);
        assert_eq!(rows[0].text("colour").unwrap(), "blue");
        assert_eq!(rows[0].blob("mark").unwrap(), vec![1, 2]);
        assert!(rows[0].flag("chipped").unwrap());
        assert_eq!(rows[1].int("id").unwrap(), i64::MIN);
        assert_eq!(rows[1].values()[1], Value::Null);
        assert!(rows[1].text("colour").is_err(), "null is not text");
        assert!(rows[0].int("colour").is_err(), "text is not a number");
        assert!(rows[0].hash("mark").is_err(), "two bytes are no hash");
        assert!(rows[0].int("handle").is_err(), "no such column");
        assert!(rows[1].natural("id").is_err() && rows[0].index("id").is_err());
        assert_eq!(rows[0].opt_natural("id").unwrap(), Some(i64::MAX as u64));
        assert_eq!(rows[0].int(0).unwrap(), i64::MAX, "by place, where there is no name");
    });
}

#[test]
fn a_name_that_two_columns_bear_reads_neither() {
    on_both(|url| {
        let row: Row = open(url)
            .read(|tx| {
                let text = "SELECT CAST($1 AS BIGINT) AS n, CAST($2 AS BIGINT) AS n,
                    CAST($2 AS BIGINT) AS m";
                tx.one(text, &[Arg::Int(1), Arg::Int(2)])
            })
            .unwrap();
        assert!(row.int("n").is_err() && row.int("").is_err());
        assert_eq!(row.int("m").unwrap(), 2);
    });
}

/// A column that is too short would shift rows or fill them with nulls.
#[test]
fn columns_that_serve_different_numbers_of_rows_are_refused() {
    const CUPS: BulkStatement = BulkStatement {
        sqlite: "INSERT INTO cups (id, colour, chipped) VALUES ($1, $2, $3)",
        postgres: "INSERT INTO cups (id, colour, chipped)
            SELECT k.* FROM UNNEST($1::bigint[], $2::text[], $3::boolean[]) k",
    };
    on_both(|url| {
        let door = open(url);
        let colours = || Column::texts(["blue", "red"]);
        let short = [Column::ints([1, 2]), colours(), Column::Flags(vec![true])];
        let long = [Column::ints([1]), colours(), Column::Flags(vec![true])];
        let late = [Column::ints([]), colours(), Column::Flags(vec![true, false])];
        for columns in [short, long, late] {
            let refused = door.write(move |tx| tx.execute_set(CUPS, &[], &columns));
            let uneven = matches!(refused, Err(SqlError::UnevenColumns { .. }));
            assert!(uneven, "{refused:?}");
        }
        assert_eq!(count(&door), 0);
        let even = [Column::ints([1, 2]), colours(), Column::Flags(vec![true, false])];
        assert_eq!(door.write(move |tx| tx.execute_set(CUPS, &[], &even)).unwrap(), 2);
    });
}

#[test]
fn placeholders_count_by_number_and_not_by_appearance() {
    on_both(|url| {
        let row: Row = open(url)
            .read(|tx| {
                let text = "SELECT CAST($2 AS BIGINT), CAST($1 AS BIGINT), CAST($2 AS BIGINT)";
                tx.one(text, &[Arg::Int(1), Arg::Int(2)])
            })
            .unwrap();
        assert_eq!(row.values(), [Value::Int(2), Value::Int(1), Value::Int(2)]);
    });
}

#[test]
fn sets_are_written_and_read_whole() {
    const WRITE: BulkStatement = BulkStatement {
        sqlite: INSERT,
        postgres: "INSERT INTO cups (id, colour, mark, chipped) SELECT * FROM
            UNNEST($1::bigint[], $2::text[], $3::bytea[], $4::boolean[])",
    };
    const READ: BulkStatement = BulkStatement {
        sqlite: "SELECT id FROM cups WHERE chipped = $1 AND id = $2",
        postgres: "SELECT c.id FROM UNNEST($2::bigint[]) k (id) JOIN cups c ON c.id = k.id
            WHERE c.chipped = $1",
    };
    on_both(|url| {
        let door = open(url);
        let columns = [
            Column::ints(0..5000),
            Column::Texts(vec![None; 5000]),
            Column::blobs((0..5000).map(|n: u32| n.to_be_bytes())),
            Column::Flags((0..5000).map(|n| n % 2 == 0).collect()),
        ];
        let written = door.write(move |tx| tx.execute_set(WRITE, &[], &columns)).unwrap();
        assert_eq!(written, 5000);
        let keys = [Column::ints([4, 5, 6, 9999])];
        let rows = door.read(move |tx| tx.query_set(READ, &[Arg::Flag(true)], &keys)).unwrap();
        let mut ids: Vec<_> = rows.iter().map(|row| row.int("id").unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, [4, 6]);
        let none = door.read(|tx| tx.query_set(READ, &[Arg::Flag(true)], &[Column::ints([])]));
        assert!(none.unwrap().is_empty());
    });
}

#[test]
fn statements_are_counted_alike_on_both_databases() {
    const MANY: BulkStatement = BulkStatement {
        sqlite: "INSERT INTO cups (id) VALUES ($1)",
        postgres: "INSERT INTO cups (id) SELECT * FROM UNNEST($1::bigint[])",
    };
    on_both(|url| {
        let door = open(url);
        assert_eq!(door.statements(), 0, "opening and migrating are nobody's statements");
        door.write(|tx| tx.execute(INSERT, &cup(1))).unwrap();
        assert_eq!(door.statements(), 1, "BEGIN and COMMIT are not counted");
        let columns = [Column::ints(10..60)];
        door.write(move |tx| tx.execute_set(MANY, &[], &columns)).unwrap();
        assert_eq!(door.statements(), 2, "a set is one");
        door.write(|tx| tx.execute_set(MANY, &[], &[Column::ints([])])).unwrap();
        assert_eq!(door.statements(), 2, "an empty set is none");
        assert_eq!(count(&door), 51);
        assert_eq!(door.statements(), 3, "readers count too");
        door.write(|tx| tx.script("DELETE FROM cups; DELETE FROM counter")).unwrap();
        assert_eq!(door.statements(), 4, "a script is one");
        let twice: Result<u64, SqlError> = door.write(|tx| {
            tx.execute(INSERT, &cup(1))?;
            tx.execute(INSERT, &cup(1))
        });
        assert!(twice.is_err());
        assert_eq!(door.statements(), 6, "what failed was sent as well");
    });
}

#[test]
fn a_closure_that_fails_leaves_nothing() {
    on_both(|url| {
        let door = open(url);
        let failed: Result<(), SqlError> = door.write(|tx| {
            tx.execute(INSERT, &cup(1))?;
            Err(SqlError::Other("no".into()))
        });
        assert!(failed.is_err());
        let twice: Result<u64, SqlError> = door.write(|tx| {
            tx.execute(INSERT, &cup(1))?;
            tx.execute(INSERT, &cup(1))
        });
        assert!(matches!(twice, Err(SqlError::Constraint(_))), "{twice:?}");
        assert_eq!(count(&door), 0);
    });
}

#[test]
fn a_panic_belongs_to_the_caller_and_the_door_goes_on() {
    on_both(|url| {
        let door = Arc::new(open(url));
        let inner = Arc::clone(&door);
        let panicked = std::thread::spawn(move || {
            inner.write(|tx| -> Result<(), SqlError> {
                tx.execute(INSERT, &cup(1))?;
                panic!("as a test")
            })
        });
        assert!(panicked.join().is_err());
        assert_eq!(count(&door), 0);
        door.write(|tx| tx.execute(INSERT, &cup(1))).unwrap();
        assert_eq!(count(&door), 1);
    });
}

#[test]
fn a_reader_sees_one_snapshot() {
    on_both(|url| {
        let door = Arc::new(open(url));
        let writer = Arc::clone(&door);
        let (before, after) = door
            .read(move |tx| -> Result<(i64, i64), SqlError> {
                let before = tx.one("SELECT COUNT(*) AS cups FROM cups", &[])?.int("cups")?;
                writer.write(|tx| tx.execute(INSERT, &cup(1)))?;
                Ok((before, tx.one("SELECT COUNT(*) AS cups FROM cups", &[])?.int("cups")?))
            })
            .unwrap();
        assert_eq!((before, after, count(&door)), (0, 0, 1));
    });
}

#[test]
fn many_writers_lose_no_update() {
    on_both(|url| {
        let doors: Vec<_> = (0..4).map(|_| open(url)).collect();
        std::thread::scope(|scope| {
            for door in &doors {
                scope.spawn(move || {
                    for _ in 0..25 {
                        door.write(|tx| -> Result<(), SqlError> {
                            let n = tx.one("SELECT n FROM counter FOR UPDATE", &[])?.int("n")?;
                            tx.execute("UPDATE counter SET n = $1", &[Arg::Int(n + 1)])?;
                            Ok(())
                        })
                        .unwrap();
                    }
                });
            }
        });
        let n = doors[0].read(|tx| tx.one("SELECT n FROM counter", &[])).unwrap();
        assert_eq!(n.int("n").unwrap(), 100);
    });
}

#[test]
fn a_busy_database_is_tried_again_and_then_named() {
    let folder = tempfile::tempdir().unwrap();
    let url: Url = format!("sqlite:{}", folder.path().join("a.db").display()).parse().unwrap();
    let moment = Duration::from_millis(1);
    let quick = Options { busy: moment, attempts: 3, turn: moment * 50, ..Options::default() };
    let (first, second) = (open(&url), Door::open(&url, &ONE, quick).unwrap());
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let result = first.write(move |tx| -> Result<Result<u64, SqlError>, SqlError> {
        tx.execute(INSERT, &cup(1))?;
        let counted = Arc::clone(&counted);
        Ok(second.write(move |tx| {
            counted.fetch_add(1, Ordering::Relaxed);
            tx.execute(INSERT, &cup(2))
        }))
    });
    assert!(matches!(result.unwrap(), Err(SqlError::Busy(_))));
    assert_eq!(tries.load(Ordering::Relaxed), 0, "BEGIN itself is refused");
    assert_eq!(count(&first), 1);
}

#[test]
fn a_program_that_knows_no_queue_is_waited_for_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let url: Url = format!("sqlite:{}", path.display()).parse().unwrap();
    let quick = Options { busy: Duration::from_millis(1), attempts: 3, ..Options::default() };
    let door = Door::open(&url, &ONE, quick).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = door.write(|tx| tx.execute(INSERT, &cup(1)));
    assert!(matches!(refused, Err(SqlError::Busy(_))), "{refused:?}");
    other.execute_batch("COMMIT").unwrap();
    door.write(|tx| tx.execute(INSERT, &cup(1))).unwrap();
    assert_eq!(count(&door), 1);
}

#[test]
#[allow(clippy::print_stdout)]
fn writer_of_a_crowd_does_nothing_unless_asked() {
    let Ok(url) = std::env::var("UNSPENT_CROWD_URL") else { return };
    // No patience with SQLite itself: the queue must be enough.
    let options = Options { busy: Duration::from_millis(1), attempts: 1, ..Options::default() };
    for _ in 0..3 {
        let door = Door::open(&url.parse().unwrap(), &TWO, options).unwrap();
        for _ in 0..20 {
            door.write(|tx| tx.execute("UPDATE counter SET n = n + 1", &[])).unwrap();
        }
    }
    println!("DONE");
}

/// Opening, migrating, writing and closing at once, by processes of which some are killed.
#[test]
fn a_crowd_of_processes_waits_in_the_queue_and_nobody_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["writer_of_a_crowd_does_nothing_unless_asked", "--exact", "--nocapture"])
            .env("UNSPENT_CROWD_URL", format!("sqlite:{}", path.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let whole: Vec<_> = (0..12).map(|_| start()).collect();
    let mut killed: Vec<_> = (0..4).map(|_| start()).collect();
    for child in &mut killed {
        std::thread::sleep(Duration::from_millis(30));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for child in whole {
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(String::from_utf8_lossy(&done.stdout).contains("DONE"), "{said}");
    }
    let url: Url = format!("sqlite:{}", path.display()).parse().unwrap();
    let door = Door::open(&url, &TWO, Options::default()).unwrap();
    let n = door.read(|tx| tx.one("SELECT n FROM counter", &[])).unwrap().int("n").unwrap();
    assert!((12 * 60..=16 * 60).contains(&n), "{n}");
}

#[test]
fn two_transactions_that_wait_for_each_other_both_succeed_in_the_end() {
    let Some(url) = postgres::database() else { return };
    let url: Url = url.parse().unwrap();
    let doors = [open(&url), open(&url)];
    doors[0].write(|tx| tx.execute(INSERT, &cup(1))).unwrap();
    doors[0].write(|tx| tx.execute(INSERT, &cup(2))).unwrap();
    let runs = AtomicU32::new(0);
    let runs = Arc::new(runs);
    std::thread::scope(|scope| {
        for (door, order) in doors.iter().zip([[1, 2], [2, 1]]) {
            let runs = Arc::clone(&runs);
            scope.spawn(move || {
                door.write(move |tx| -> Result<(), SqlError> {
                    runs.fetch_add(1, Ordering::Relaxed);
                    for id in order {
                        let lock = "SELECT id FROM cups WHERE id = $1 FOR UPDATE";
                        tx.one(lock, &[Arg::Int(id)])?;
                        std::thread::sleep(Duration::from_millis(100));
                    }
                    Ok(())
                })
                .unwrap();
            });
        }
    });
    assert!(runs.load(Ordering::Relaxed) >= 3, "one of them was run again");
}

#[test]
fn a_connection_that_breaks_is_opened_again() {
    let Some(text) = postgres::database() else { return };
    let door = open(&text.parse().unwrap());
    let broken = Arc::new(AtomicU32::new(0));
    let (counted, url) = (Arc::clone(&broken), text.clone());
    let unclear = door
        .write(move |tx| -> Result<bool, SqlError> {
            tx.execute("INSERT INTO cups (id) VALUES ($1) ON CONFLICT DO NOTHING", &[Arg::Int(1)])?;
            if counted.fetch_add(1, Ordering::Relaxed) == 0 {
                postgres::break_connections(&url);
            }
            Ok(tx.after_unclear_commit())
        })
        .unwrap();
    assert!(unclear, "the closure is told that its first commit may have happened");
    assert_eq!(broken.load(Ordering::Relaxed), 2);
    assert_eq!(count(&door), 1);
}

#[test]
fn migrations_go_forward_once_and_keep_what_is_there() {
    on_both(|url| {
        let door = open(url);
        door.write(|tx| tx.execute(INSERT, &cup(1))).unwrap();
        drop(door);
        drop(open(url));
        let door = Door::open(url, &TWO, Options::default()).unwrap();
        assert_eq!(count(&door), 1);
        door.write(|tx| tx.execute("INSERT INTO plates VALUES ($1)", &[Arg::Int(1)])).unwrap();
    });
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    on_both(|url| {
        drop(Door::open(url, &TWO, Options::default()).unwrap());
        let refused = Door::open(url, &ONE, Options::default()).err().unwrap();
        assert!(matches!(refused, OpenError::Newer { found: 2, known: 1 }), "{refused}");
        drop(Door::open(url, &TWO, Options::default()).unwrap());
    });
}

#[test]
fn a_schema_of_another_making_is_refused() {
    on_both(|url| {
        drop(open(url));
        let refused = Door::open(url, &OTHER, Options::default()).err().unwrap();
        assert!(matches!(refused, OpenError::Damaged { version: 1, .. }), "{refused}");
    });
}

#[test]
fn a_migration_that_fails_is_undone() {
    on_both(|url| {
        let failed = Door::open(url, &BAD, Options::default()).err().unwrap();
        assert!(matches!(failed, OpenError::Migration { version: 2, .. }), "{failed}");
        drop(Door::open(url, &TWO, Options::default()).unwrap());
    });
}

#[test]
fn several_openers_at_once_all_find_one_schema() {
    // Often enough for the moment in which a new file is turned to WAL to be hit.
    for _ in 0..20 {
        on_both(|url| {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| drop(Door::open(url, &TWO, Options::default()).unwrap()));
                }
            });
        });
    }
}

#[test]
fn what_is_no_database_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.db");
    std::fs::write(&path, "this is not a database, it only pretends to be one").unwrap();
    let url: Url = format!("sqlite:{}", path.display()).parse().unwrap();
    let refused = Door::open(&url, &ONE, Options::default()).err().unwrap();
    assert!(matches!(refused, OpenError::Connect { source: SqlError::Damaged { .. }, .. }));
    let nowhere: Url = "postgres://nobody@localhost:1/none?connect_timeout=1".parse().unwrap();
    let refused = Door::open(&nowhere, &ONE, Options::default()).err().unwrap();
    assert!(matches!(refused, OpenError::Connect { .. }), "{refused}");
}
