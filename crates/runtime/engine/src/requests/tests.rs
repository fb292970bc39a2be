//! The log of requests against a plain one, and what one caller can do to another.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm
)]

use std::{collections::HashMap, path::Path, sync::Arc};

use unspent_model::Micros;
use unspent_sql::{Arg, Door, Migration, OpenError, Options, Schema, SqlError, Url};

use super::{Begun, CallerName, KEPT_FOR, KEPT_PER_CALLER, OpenRequest, RequestLog, RequestName};
use crate::store;

const SECOND: i64 = 1_000_000;
const NOW: i64 = 1_000_000 * SECOND;
/// What one neighbour does in a minute.
const MANY: i64 = 100_001;

fn log_of(folder: &Path, quota: u64) -> (RequestLog, Arc<Door>) {
    let door = Arc::new(store::open(folder).unwrap());
    (RequestLog::new(door.clone(), 1, quota), door)
}

fn name(caller: &str, key: &str) -> RequestName {
    RequestName::new(CallerName(caller), key).unwrap()
}

fn run<'a>(log: &'a RequestLog, name: &RequestName, digest: u8, now: i64) -> OpenRequest<'a> {
    match log.begin(name, [digest; 32], Micros(now)).unwrap() {
        Begun::New(running) | Begun::Unfinished(running) => running,
        other => panic!("{name:?} is not to be run: {other:?}"),
    }
}

/// What a request comes to, as a word.
fn told(begun: &Begun<'_>) -> String {
    match begun {
        Begun::New(_) => "new".into(),
        Begun::Repeat { status, body } => format!("{status} {}", String::from_utf8_lossy(body)),
        Begun::InProgress => "in progress".into(),
        Begun::Differs => "differs".into(),
        Begun::Unfinished(_) => "unfinished".into(),
        Begun::Full { until } => format!("full until {until}"),
    }
}

fn ask(log: &RequestLog, name: &RequestName, digest: u8, now: i64) -> String {
    told(&log.begin(name, [digest; 32], Micros(now)).unwrap())
}

/// Finished requests of a neighbour, written by one statement: each is one that he sent.
fn crowd(door: &Door, caller: &'static str, many: i64, at: i64) {
    const ROWS: &str = "INSERT INTO requests
            (caller, request_key, digest, run, created_at, http_status, body)
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
        SELECT $1, 'k' || i, zeroblob(32), 1, $3, 404, x'00' FROM n";
    const COUNT: &str = "INSERT INTO request_callers (caller, kept) VALUES ($1, $2)";
    door.write(move |tx| -> Result<(), SqlError> {
        tx.execute(ROWS, &[Arg::Text(caller), Arg::Int(many), Arg::Int(at)])?;
        tx.execute(COUNT, &[Arg::Text(caller), Arg::Int(many)])?;
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_neighbour_who_sends_a_hundred_thousand_requests_has_nobody_pay_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (log, door) = log_of(folder.path(), KEPT_PER_CALLER);
    let rent = name("token:alice", "rent");
    run(&log, &rent, 1, NOW).finish(201, b"paid").unwrap();
    crowd(&door, "token:bob", MANY, NOW + SECOND);
    for at in 0..300 {
        run(&log, &name("token:bob", &format!("more-{at}")), 2, NOW + SECOND)
            .finish(404, b"")
            .unwrap();
    }
    assert_eq!(ask(&log, &rent, 1, NOW + 60 * SECOND), "201 paid");
    assert_eq!(ask(&log, &rent, 1, NOW + KEPT_FOR - 1), "201 paid", "a whole day");
    // Neither does it hold her up that his day is over at once.
    assert_eq!(ask(&log, &rent, 1, NOW + KEPT_FOR + 2 * SECOND), "new");
}

#[test]
fn a_key_of_one_caller_is_not_one_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = log_of(folder.path(), KEPT_PER_CALLER);
    let (alice, bob) = (name("token:alice", "order-1"), name("token:bob", "order-1"));
    let under_way = run(&log, &alice, 1, NOW);
    assert_eq!(ask(&log, &alice, 1, NOW), "in progress");
    run(&log, &bob, 2, NOW).finish(201, b"bob's").unwrap();
    under_way.finish(201, b"alice's").unwrap();
    assert_eq!(ask(&log, &alice, 1, NOW), "201 alice's");
    assert_eq!(ask(&log, &bob, 2, NOW), "201 bob's");
    assert_eq!(ask(&log, &bob, 1, NOW), "differs");
    for (caller, key) in [("", "k"), ("a", ""), ("a", "k".repeat(256).as_str())] {
        assert!(RequestName::new(CallerName(caller), key).is_err());
    }
}

#[test]
fn an_answer_of_any_size_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = log_of(folder.path(), KEPT_PER_CALLER);
    let prune = name("owner", "prune");
    let page: Vec<u8> = (0..9 << 20).map(|at: u32| at.to_be_bytes()[3]).collect();
    run(&log, &prune, 1, NOW).finish(200, &page).unwrap();
    match log.begin(&prune, [1; 32], Micros(NOW)).unwrap() {
        Begun::Repeat { status, body } => assert!(status == 200 && body == page),
        other => panic!("{other:?}"),
    };
}

#[test]
fn a_caller_who_has_too_many_keys_waits_until_his_oldest_is_a_day_old() {
    let folder = tempfile::tempdir().unwrap();
    let (log, door) = log_of(folder.path(), 1_000);
    crowd(&door, "token:bob", 1_000, NOW);
    let full = format!("full until {}", NOW + KEPT_FOR);
    assert_eq!(ask(&log, &name("token:bob", "one-more"), 1, NOW + SECOND), full);
    assert_eq!(
        ask(&log, &name("token:bob", "k7"), 0, NOW + SECOND).split_once(' ').unwrap().0,
        "404"
    );
    assert_eq!(ask(&log, &name("token:alice", "one-more"), 1, NOW + SECOND), "new");
    // What is forgotten for being refused makes room, and so does the end of the day.
    let later = NOW + KEPT_FOR;
    run(&log, &name("token:bob", "one-more"), 1, later).forget().unwrap();
    assert_eq!(ask(&log, &name("token:bob", "one-more"), 2, later), "new");
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = log_of(folder.path(), 2);
    let bob = |key| name("token:bob", key);
    run(&log, &bob("a"), 1, NOW).finish(200, b"").unwrap();
    run(&log, &bob("b"), 1, NOW + SECOND).forget().unwrap();
    run(&log, &bob("b"), 1, NOW + SECOND).finish(200, b"").unwrap();
    assert_eq!(ask(&log, &bob("c"), 1, NOW + SECOND), full);
    assert_eq!(ask(&log, &bob("c"), 1, later), "new");
    let full = format!("full until {}", NOW + SECOND + KEPT_FOR);
    assert_eq!(ask(&log, &bob("d"), 1, later), full);
}

/// The log as it was before callers were noted, at version 3, with what an older version wrote.
fn old_log(folder: &Path) {
    const OLD: [Migration; 3] =
        [store::SCHEMA.migrations[0], store::SCHEMA.migrations[1], store::SCHEMA.migrations[2]];
    const ROWS: &str = "INSERT INTO requests
            (request_key, seq, digest, run, created_at, http_status, body)
        VALUES ('done', 1, $1, 1, $2, 201, x'6f6c64'), ('begun', 2, $1, 1, $2, NULL, NULL)";
    let old = Schema { migrations: &OLD, ..store::SCHEMA };
    let url = Url::Sqlite(folder.join(store::STORE_FILE));
    let door = Door::open(&url, &old, Options::default()).unwrap();
    door.write(|tx| -> Result<(), SqlError> {
        tx.execute(ROWS, &[Arg::Blob(&[1; 32]), Arg::Int(NOW)])?;
        tx.execute("UPDATE counter SET last_request = 2, last_event = 7", &[])?;
        Ok(())
    })
    .unwrap();
}

#[test]
fn what_an_older_version_wrote_protects_for_its_day_whoever_comes_with_the_key() {
    let folder = tempfile::tempdir().unwrap();
    old_log(folder.path());
    let (log, door) = log_of(folder.path(), 1);
    let (alice, owner) = ("token:alice", "owner");
    assert_eq!(ask(&log, &name(alice, "done"), 1, NOW + SECOND), "201 old");
    assert_eq!(ask(&log, &name(owner, "done"), 1, NOW + SECOND), "201 old");
    assert_eq!(ask(&log, &name(owner, "done"), 2, NOW + SECOND), "differs");
    // One of them runs what the old daemon died over, and the other waits.
    let running = run(&log, &name(alice, "begun"), 1, NOW + SECOND);
    assert_eq!((running.name().caller(), running.name().key()), (None, "begun"));
    assert_eq!(ask(&log, &name(owner, "begun"), 1, NOW + SECOND), "in progress");
    drop(running);
    assert_eq!(ask(&log, &name(owner, "begun"), 1, NOW + SECOND), "unfinished");
    run(&log, &name(owner, "begun"), 1, NOW + SECOND).finish(201, b"again").unwrap();
    assert_eq!(ask(&log, &name(alice, "begun"), 1, NOW + SECOND), "201 again");
    // Nobody's quota is touched, and after its day nothing is left of it.
    assert_eq!(ask(&log, &name(alice, "fresh"), 1, NOW + SECOND), "new");
    assert_eq!(ask(&log, &name(owner, "done"), 2, NOW + KEPT_FOR), "new");
    let last = door.read(|tx| tx.one("SELECT last_event FROM counter", &[])?.int("last_event"));
    assert_eq!(last.unwrap(), 7, "events go on where they were");
}

#[test]
fn an_old_database_stays_beside_the_new_one_and_a_newer_one_is_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    old_log(folder.path());
    let file = folder.path().join(store::STORE_FILE);
    // Of an upgrade that was cut short while it copied.
    std::fs::write(folder.path().join("engine.db.v3.part"), "torn").unwrap();
    drop(log_of(folder.path(), 1));
    let copy = folder.path().join("engine.db.v3");
    assert!(!folder.path().join("engine.db.v3.part").exists());
    let stamp = std::fs::metadata(&copy).unwrap().modified().unwrap();
    // The copy is what the older program opens.
    let kept = Schema { migrations: &store::SCHEMA.migrations[..3], ..store::SCHEMA };
    let door = Door::open(&Url::Sqlite(copy.clone()), &kept, Options::default()).unwrap();
    let rows = door.read(|tx| tx.query("SELECT request_key FROM requests", &[])).unwrap();
    assert_eq!(rows.len(), 2);
    drop(door);
    let all = Options::default();
    let refused = Door::open(&Url::Sqlite(file.clone()), &kept, all).map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Newer { found: 4, known: 3 }), "{refused}");
    drop(log_of(folder.path(), 1));
    assert!(!folder.path().join("engine.db.v5").exists(), "nothing was migrated");
    assert!(stamp <= std::fs::metadata(&copy).unwrap().modified().unwrap());
    // A later release has been here.
    let door = Door::open(&Url::Sqlite(file), &store::SCHEMA, all).unwrap();
    let later = "INSERT INTO schema_migrations (version, name, checksum_hex) VALUES (6, 'x', 'y')";
    door.write(move |tx| tx.execute(later, &[])).unwrap();
    drop(door);
    let refused = store::open(folder.path()).map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Newer { found: 6, known: 5 }), "{refused}");
    let said = refused.to_string();
    assert!(said.contains("schema version 6") && said.contains("nothing was changed"), "{said}");
    assert!(!folder.path().join("engine.db.v6").exists());
}

/// Whoever comes meanwhile removes what is over; what runs, or ran last, is not.
#[test]
fn a_request_that_is_run_again_keeps_its_answer_for_a_day_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _door) = log_of(folder.path(), 100);
    let (pay, other) = (name("owner", "pay"), name("token:x", "other"));
    let late = NOW + KEPT_FOR - SECOND;
    assert_eq!(ask(&log, &pay, 1, NOW), "new");
    let Begun::Unfinished(running) = log.begin(&pay, [1; 32], Micros(late)).unwrap() else {
        panic!("it had no end");
    };
    assert_eq!(ask(&log, &other, 2, NOW + KEPT_FOR + SECOND), "new");
    running.finish(201, b"paid").unwrap();
    assert_eq!(ask(&log, &pay, 1, late + KEPT_FOR - 1), "201 paid");
    // One that runs for more than a day is answered from memory.
    let long = name("owner", "long");
    let begun = log.begin(&long, [1; 32], Micros(NOW)).unwrap();
    let Begun::New(running) = begun else { panic!("it is new") };
    assert_eq!(ask(&log, &other, 2, NOW + 3 * KEPT_FOR), "new");
    assert!(running.finish(201, b"done").is_err(), "its row is gone");
    assert_eq!(ask(&log, &long, 1, NOW + 3 * KEPT_FOR + SECOND), "201 done");
}

/// Numbers that look like chance, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A request as the plain log keeps it: what, since when, and its answer once it has one.
type Plain = (u8, i64, Option<u16>);

/// What the plain log says, and whether the request is now under way.
fn plainly(
    kept: &mut HashMap<(u64, u64), Plain>,
    (caller, key): (u64, u64),
    digest: u8,
    quota: usize,
    now: i64,
) -> (String, bool) {
    kept.retain(|_, (_, since, _)| *since > now - KEPT_FOR);
    match kept.get_mut(&(caller, key)) {
        Some((known, ..)) if *known != digest => ("differs".into(), false),
        Some((_, _, Some(status))) => (format!("{status} {caller}/{key}"), false),
        Some((_, since, None)) => {
            *since = now;
            ("unfinished".into(), true)
        }
        None => {
            let his = kept.iter().filter(|((whose, _), _)| *whose == caller).map(|(_, row)| row.1);
            if his.clone().count() >= quota {
                return (format!("full until {}", his.min().unwrap() + KEPT_FOR), false);
            }
            kept.insert((caller, key), (digest, now, None));
            ("new".into(), true)
        }
    }
}

/// Leaves a request without an end, forgets it, or answers it, here and in the plain log.
fn end_plainly(
    running: OpenRequest<'_>,
    kept: &mut HashMap<(u64, u64), Plain>,
    (caller, key): (u64, u64),
    how: u64,
) {
    match how {
        0 => drop(running),
        1 => {
            running.forget().unwrap();
            kept.remove(&(caller, key));
        }
        status => {
            let status = 200 + u16::try_from(status).unwrap();
            running.finish(status, format!("{caller}/{key}").as_bytes()).unwrap();
            kept.get_mut(&(caller, key)).unwrap().2 = Some(status);
        }
    }
}

/// Begins something here and in the plain log, and ends it somehow where it is to be run.
fn one_step(
    log: &RequestLog,
    dice: &mut Dice,
    kept: &mut HashMap<(u64, u64), Plain>,
    now: i64,
    at: &str,
) {
    let (caller, key, end) = (dice.below(3), dice.below(9), dice.below(4));
    let digest = u8::from(dice.below(8) == 0);
    let (wanted, runs) = plainly(kept, (caller, key), digest, 5, now);
    let who = name(&format!("token:{caller}"), &format!("{key}"));
    let begun = log.begin(&who, [digest; 32], Micros(now)).unwrap();
    assert_eq!(told(&begun), wanted, "{at}");
    match begun {
        Begun::New(running) | Begun::Unfinished(running) => {
            assert!(runs, "{at}");
            end_plainly(running, kept, (caller, key), end);
        }
        _ => assert!(!runs, "{at}"),
    }
}

#[test]
fn any_history_of_requests_goes_as_in_a_plain_log() {
    for seed in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, mut door) = log_of(folder.path(), 5);
        let (mut dice, mut kept, mut now) = (Dice(seed), HashMap::new(), NOW);
        for step in 0..250 {
            now += i64::try_from(dice.below(KEPT_FOR.unsigned_abs() / 12)).unwrap();
            one_step(&log, &mut dice, &mut kept, now, &format!("seed {seed}, step {step}"));
            if dice.below(40) == 0 {
                drop((log, door));
                (log, door) = log_of(folder.path(), 5);
            }
        }
        let counted = "SELECT COUNT(*) AS wrong FROM request_callers c WHERE kept <>
            (SELECT COUNT(*) FROM requests r WHERE r.caller = c.caller)";
        let wrong = door.read(move |tx| tx.one(counted, &[])?.int("wrong")).unwrap();
        assert_eq!(wrong, 0, "seed {seed}: the count is of the rows");
    }
}
