//! The schema as databases know it, and what older versions wrote.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::{path::Path, sync::Arc};

use unspent_sql::{Arg, Door, OpenError, Options, Schema, SqlError, Url};
use unspent_testkit::wallet::postgres;

use super::{SCHEMA, STORE_FILE, open};
use crate::{
    events::{Event, EventFilter, EventLog},
    room::RoomName,
    tenant::Tenant,
    webhooks::{WebhookOptions, Webhooks},
};

const SECRET: [u8; 32] = [7; 32];

/// What databases keep of the migrations that they have taken, SQLite's first: with another
/// text they would not be opened.
const CHECKSUMS: [[&str; 2]; 5] = [
    [
        "47793715f6c66bb7f085989d1cd05379e1c26bb040066f96579db0bd1897fdb1",
        "1ea51e788e2e9c69ce4dea5e99f274422e9b0db2ad819bed17cc76e292379903",
    ],
    [
        "400dc0ad74c2507c9509e46c268c3a49b100b777a5fadf76241528d2beaabac2",
        "400dc0ad74c2507c9509e46c268c3a49b100b777a5fadf76241528d2beaabac2",
    ],
    [
        "3521fb91f3887cb3749f8bf67e4fce6336dcbfd47c20521ee9f83ea4c3952609",
        "f4946a098c59e88f0b8f433c28da51821274add41f9c9193476f88c16c370c53",
    ],
    [
        "97340d2a230a5d67862a404e75fddb103b11e98c4953dae4e0e94d66bc28980e",
        "473973d76c513f4636f6fb0ea6c2c95a758dc5e45918bdc1443679889271a208",
    ],
    [
        "0e64854bef723630f9c18ee81149de3a7103b368cf2c951da1ddace2e27488e8",
        "b3bd04c5de905c0e9bd35092104f4a18c23654f5fcddcc86a6a28f0b2279efeb",
    ],
];

#[test]
fn databases_of_the_versions_before_know_these_migrations() {
    assert_eq!(SCHEMA.checksums(), CHECKSUMS);
}

/// What the version before tenants wrote: events of a wallet, of one whose number nobody noted and
/// of none, a webhook that failed, and how far the wallet's events had come.
fn write_old(url: &Url) {
    const EVENTS: &str = "INSERT INTO events
            (id, at, room, kind, wallet, wallet_id, subject, body)
        VALUES (1, 10, 'wallet', 'created', 'shop', NULL, 'tx', '{}'),
            (2, 20, 'wallet', 'confirmed', 'shop', 4, 'tx', '{\"line\":2}'),
            (3, 30, 'engine', 'broadcast_accepted', 'b/b', 5, 'tx', '{}'),
            (4, 40, 'chain', 'block', NULL, NULL, NULL, '{}')";
    const HOOK: &str = "INSERT INTO webhooks (id, wallet_id, wallet, url, secret, created_at,
            cursor, delivered, delivered_at, attempts, failing_since, next_attempt_at, last_error,
            missed, paused_at)
        VALUES (2, 4, 'shop', 'https://shop.example/hook', $1, 11, 1, 9, 12, 3, 13, 14, 'late', 5,
            15)";
    let old = Schema { migrations: &SCHEMA.migrations[..4], ..SCHEMA };
    let door = Door::open(url, &old, Options::default()).unwrap();
    door.write(|tx| -> Result<(), SqlError> {
        tx.execute(EVENTS, &[])?;
        tx.execute(HOOK, &[Arg::Blob(&SECRET)])?;
        tx.execute("INSERT INTO told_wallets (wallet_id, line) VALUES (4, 17)", &[])?;
        tx.execute("UPDATE counter SET last_event = 4, last_webhook = 2", &[])?;
        Ok(())
    })
    .unwrap();
}

/// The tenant of an event: its room, its name, its id.
fn tenant_of(event: &Event) -> [Option<&str>; 3] {
    [&event.tenant_room, &event.tenant, &event.tenant_id].map(|text| text.as_deref())
}

fn assert_migrated(door: Door) {
    let log = Arc::new(EventLog::open(Arc::new(door), u64::MAX).unwrap());
    let page = log.after(0, 10).unwrap();
    let wanted = [
        [Some("wallet"), Some("shop"), None],
        [Some("wallet"), Some("shop"), Some("4")],
        [Some("wallet"), Some("b/b"), Some("5")],
        [None, None, None],
    ];
    assert_eq!(page.events.iter().map(tenant_of).collect::<Vec<_>>(), wanted);
    let wallets: Vec<_> = page.events.iter().map(|event| event.wallet.as_deref()).collect();
    assert_eq!(wallets, [Some("shop"), Some("shop"), Some("b/b"), None]);
    assert_eq!((page.events[1].at.0, &*page.events[1].kind), (20, "confirmed"));
    // Whoever sees one tenant sees the events whose id nobody noted, and none of a namesake.
    let shop = |id: &str| EventFilter {
        tenant_room: Some("wallet".into()),
        tenant: Some("shop".into()),
        tenant_id: Some(id.into()),
        ..EventFilter::default()
    };
    let seen = |id| -> Vec<u64> {
        log.matching(0, 10, &shop(id)).unwrap().events.iter().map(|event| event.id).collect()
    };
    assert_eq!((seen("4"), seen("6")), (vec![1, 2], vec![1]));
    assert_eq!(log.mark(RoomName::new("wallet"), "journal/4").unwrap(), 17);
    let hooks = Webhooks::new(log, WebhookOptions::default());
    hooks.rename(&Tenant::new("wallet", 4, "market")).unwrap();
    hooks.rename(&Tenant::new("ecash", 4, "another room's")).unwrap();
    let found = serde_json::to_value(hooks.list().unwrap()).unwrap();
    let wanted = serde_json::json!([{
        "id": 2, "wallet": "market", "room": "wallet", "tenant": "market",
        "url": "https://shop.example/hook", "created_at": "1970-01-01T00:00:00.000011Z",
        "cursor": 1, "delivered": 9, "delivered_at": "1970-01-01T00:00:00.000012Z",
        "attempts": 3, "failing_since": "1970-01-01T00:00:00.000013Z",
        "next_attempt_at": "1970-01-01T00:00:00.000014Z", "last_error": "late", "missed": 5,
        "paused_at": "1970-01-01T00:00:00.000015Z",
    }]);
    assert_eq!(found, wanted);
}

fn file(folder: &Path) -> Url {
    Url::Sqlite(folder.join(STORE_FILE))
}

#[test]
fn what_was_a_wallets_is_a_tenants_and_the_old_file_stays_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    write_old(&file(folder.path()));
    assert_migrated(open(folder.path()).unwrap());
    let copy = Url::Sqlite(folder.path().join("engine.db.v4"));
    let old = Schema { migrations: &SCHEMA.migrations[..4], ..SCHEMA };
    let door = Door::open(&copy, &old, Options::default()).unwrap();
    let rows = door.read(|tx| tx.query("SELECT wallet_id FROM webhooks", &[])).unwrap();
    assert_eq!(rows[0].int("wallet_id").unwrap(), 4);
    // The version before opens its copy, and not what a newer one has written.
    let refused = Door::open(&file(folder.path()), &old, Options::default()).map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Newer { found: 5, known: 4 }), "{refused}");
}

#[test]
fn what_was_a_wallets_is_a_tenants_on_postgres_too() {
    let Some(url) = postgres::database() else { return };
    let url: Url = url.parse().unwrap();
    write_old(&url);
    assert_migrated(Door::open(&url, &SCHEMA, Options::default()).unwrap());
}
