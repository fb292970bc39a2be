//! Requests that share a transaction, and writers side by side: each caller is answered as if it
//! had been alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use proptest::prelude::*;
use unspent_sql::{Arg, Door, Migration, Options, Schema, SqlError, Url};
use unspent_testkit::wallet::postgres;

const TABLES: &str = "CREATE TABLE shelves (id BIGINT PRIMARY KEY);
    CREATE TABLE cups (id BIGINT PRIMARY KEY,
        shelf BIGINT REFERENCES shelves (id) DEFERRABLE INITIALLY DEFERRED);
    INSERT INTO cups (id) VALUES (0);";
const SCHEMA: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS shop; SET search_path TO shop",
    migrations: &[Migration { version: 1, name: "cups", ddl: TABLES }],
    distribution: &[],
};
const INSERT: &str = "INSERT INTO cups (id, shelf) VALUES ($1, $2)";

struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
    door: Arc<Door>,
}

fn file() -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let url: Url = format!("sqlite:{}", path.display()).parse().unwrap();
    let door = Arc::new(Door::open(&url, &SCHEMA, Options::default()).unwrap());
    File { _folder: folder, path, door }
}

fn insert(tx: &mut unspent_sql::Tx<'_>, id: i64) -> Result<u64, SqlError> {
    tx.execute(INSERT, &[Arg::Int(id), Arg::OptInt(None)])
}

/// What everybody else sees.
fn outside(path: &Path) -> Vec<i64> {
    let other = rusqlite::Connection::open(path).unwrap();
    let mut rows = other.prepare("SELECT id FROM cups ORDER BY id").unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Runs closures that all wait in the queue behind one that lasts.
fn together<R: Send>(door: &Door, work: Vec<Box<dyn FnOnce() -> R + Send + '_>>) -> Vec<R> {
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let started = Arc::new(Barrier::new(2));
    let begun = Arc::clone(&started);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut gone = Some(gone);
            door.write(move |_| -> Result<(), SqlError> {
                if let Some(gone) = gone.take() {
                    begun.wait();
                    let _ = gone.into_inner().unwrap().recv();
                }
                Ok(())
            })
            .unwrap();
        });
        started.wait();
        let threads: Vec<_> = work.into_iter().map(|one| scope.spawn(one)).collect();
        std::thread::sleep(Duration::from_millis(40));
        drop(go);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn who_waits_shares_the_next_commit() {
    let file = file();
    // A machine under load may take longer over two rows than a transaction may last.
    let is_shared = (0..20).any(|round| {
        let one = |id: i64| {
            let (door, path) = (&file.door, file.path.clone());
            let work = move || {
                let path = path.clone();
                door.write(move |tx| -> Result<bool, SqlError> {
                    insert(tx, id)?;
                    let inside = tx.one("SELECT COUNT(*) AS cups FROM cups", &[])?.int("cups")?;
                    Ok(inside > outside(&path).len() as i64 + 1)
                })
                .unwrap()
            };
            Box::new(work) as Box<dyn FnOnce() -> bool + Send>
        };
        let work = (1..=8).map(|n| one(round * 100 + n)).collect();
        together(&file.door, work).contains(&true)
    });
    assert!(is_shared, "nobody saw a row of a neighbour that wasn't committed yet");
}

/// What a caller does, and what it must be told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Keeps,
    Refuses,
    Repeats,
    Panics,
    /// Ends the transaction of all, as SQLite does when the disk is full, and says so or not.
    Ruins,
    RuinsSilently,
    /// Breaks a rule that only COMMIT looks at.
    Dangles,
    /// Is told to try again, once.
    Stumbles,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    use Deed::*;
    let one = prop_oneof![
        4 => Just(Keeps), 1 => Just(Refuses), 1 => Just(Repeats), 1 => Just(Panics),
        1 => Just(Ruins), 1 => Just(RuinsSilently), 1 => Just(Dangles), 1 => Just(Stumbles),
    ];
    proptest::collection::vec(one, 1..16)
}

/// `None` after a panic.
fn perform(door: &Door, deed: Deed, id: i64) -> Option<Result<(), SqlError>> {
    let runs = AtomicU32::new(0);
    let work = move |tx: &mut unspent_sql::Tx<'_>| -> Result<(), SqlError> {
        insert(tx, id)?;
        match deed {
            Deed::Keeps => {}
            Deed::Refuses => return Err(SqlError::Other("no".into())),
            Deed::Repeats => drop(insert(tx, 0)?),
            Deed::Panics => panic!("as a test"),
            Deed::Ruins => {
                tx.script("ROLLBACK")?;
                return Err(SqlError::Other("full".into()));
            }
            Deed::RuinsSilently => tx.script("ROLLBACK")?,
            Deed::Dangles => {
                tx.execute(INSERT, &[Arg::Int(id + 1000), Arg::OptInt(Some(77))])?;
            }
            Deed::Stumbles if runs.fetch_add(1, Ordering::Relaxed) == 0 => {
                return Err(SqlError::Conflict("once".into()));
            }
            Deed::Stumbles => {}
        }
        Ok(())
    };
    catch_unwind(AssertUnwindSafe(|| door.write(work))).ok()
}

fn is_right(deed: Deed, answer: Option<&Result<(), SqlError>>) -> bool {
    match deed {
        Deed::Keeps | Deed::Stumbles => matches!(answer, Some(Ok(()))),
        Deed::Refuses | Deed::Ruins | Deed::RuinsSilently => {
            matches!(answer, Some(Err(SqlError::Other(_))))
        }
        Deed::Repeats | Deed::Dangles => matches!(answer, Some(Err(SqlError::Constraint(_)))),
        Deed::Panics => answer.is_none(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn each_is_answered_as_if_alone(deeds in deeds()) {
        let file = file();
        let one = |(at, &deed): (usize, &Deed)| {
            let (door, path, id) = (&file.door, &file.path, at as i64 + 1);
            let work = move || {
                let answer = perform(door, deed, id);
                // Whoever is told `Ok` finds it on the disk.
                let is_there = outside(path).contains(&id);
                (answer, is_there)
            };
            Box::new(work) as Box<dyn FnOnce() -> (Option<Result<(), SqlError>>, bool) + Send>
        };
        let answers = together(&file.door, deeds.iter().enumerate().map(one).collect());
        let mut kept = vec![0];
        for ((at, &deed), (answer, is_there)) in deeds.iter().enumerate().zip(answers) {
            prop_assert!(is_right(deed, answer.as_ref()), "{:?} was answered {:?}", deed, answer);
            let stays = matches!(answer, Some(Ok(())));
            prop_assert_eq!(stays, is_there);
            kept.extend(stays.then_some(at as i64 + 1));
        }
        prop_assert_eq!(outside(&file.path), kept);
        file.door.write(|tx| insert(tx, 5000)).unwrap();
    }
}

/// Both databases, where PostgreSQL is there.
fn on_both(test: impl Fn(&Arc<Door>)) {
    test(&file().door);
    if let Some(url) = postgres::database() {
        test(&Arc::new(Door::open(&url.parse().unwrap(), &SCHEMA, Options::default()).unwrap()));
    }
}

#[test]
fn a_rule_that_only_commit_looks_at_refuses_the_one_it_is_about() {
    on_both(|door| {
        let dangles = perform(door, Deed::Dangles, 1).unwrap();
        assert!(matches!(dangles, Err(SqlError::Constraint(_))), "{dangles:?}");
        assert!(matches!(perform(door, Deed::Keeps, 1), Some(Ok(()))));
    });
}

#[test]
fn keys_have_one_writer_each_and_different_ones_run_side_by_side() {
    let Some(url) = postgres::database() else { return };
    let door = Door::open(&url.parse().unwrap(), &SCHEMA, Options::default()).unwrap();
    let both_are_in = Arc::new(Barrier::new(2));
    std::thread::scope(|scope| {
        for key in [-1, 2] {
            let (door, barrier) = (&door, Arc::clone(&both_are_in));
            scope.spawn(move || {
                door.write_for(key, move |tx| {
                    barrier.wait();
                    insert(tx, key)
                })
                .unwrap();
            });
        }
    });
}

#[test]
fn closures_of_one_key_never_run_at_once() {
    on_both(|door| {
        let (inside, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        std::thread::scope(|scope| {
            for n in 0..8 {
                let (inside, runs) = (Arc::clone(&inside), Arc::clone(&runs));
                scope.spawn(move || {
                    door.write_for(i64::MIN, move |tx| {
                        assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
                        runs.fetch_add(1, Ordering::SeqCst);
                        let done = insert(tx, n + 1);
                        std::thread::sleep(Duration::from_millis(2));
                        inside.store(false, Ordering::SeqCst);
                        done
                    })
                    .unwrap();
                });
            }
        });
        assert_eq!(runs.load(Ordering::SeqCst), 8);
    });
}

/// PostgreSQL undoes such a transaction when told to commit it, without a word.
#[test]
fn an_error_that_a_closure_passes_over_is_no_success() {
    let Some(url) = postgres::database() else { return };
    let door = Door::open(&url.parse().unwrap(), &SCHEMA, Options::default()).unwrap();
    let told = door.write(|tx| -> Result<(), SqlError> {
        insert(tx, 1)?;
        let _ = insert(tx, 0);
        Ok(())
    });
    assert!(matches!(told, Err(SqlError::Other(_))), "{told:?}");
    door.write(|tx| insert(tx, 1)).unwrap();
}
