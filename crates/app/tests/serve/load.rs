//! Two hundred clients page and stream while blocks are applied; memory stays bounded.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    daemon::Client,
    world::{self, SEED_SETTING, address, funded},
};

const PAGERS: usize = 100;
const STREAMERS: usize = 100;
const LASTS: Duration = Duration::from_secs(8);
/// What two hundred clients may cost beyond an idle daemon.
const MOST_MIB: u64 = 256;

fn page(client: &Client, until: Instant, asked: &AtomicU64) {
    let paths = [
        format!("/api/v1/addresses/{}/utxos?limit=500", address(0)),
        "/api/v1/blocks?limit=500".to_owned(),
        "/api/v1/events?limit=500".to_owned(),
        "/api/v1/wallets/alice/journal?limit=500".to_owned(),
        "/api/v1/status".to_owned(),
    ];
    while Instant::now() < until {
        for path in &paths {
            let status = client.get(path).status;
            assert!([200, 503].contains(&status), "{path}: {status}");
            asked.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn memory_stays_bounded_while_two_hundred_clients_page_and_stream() {
    let folder = funded();
    let settings = [SEED_SETTING, "source.sim.block_seconds=1", "utxo.block_cache_mb=16"];
    let daemon = folder.start(&settings);
    world::make_wallet(&daemon, "alice");
    let idle = daemon.resident_mib();
    let until = Instant::now() + LASTS;
    let (asked, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut threads = Vec::new();
    for _ in 0..PAGERS {
        let (client, asked) = (daemon.admin(), asked.clone());
        threads.push(std::thread::spawn(move || page(&client, until, &asked)));
    }
    // One client may have a quarter of the places.
    let tokens: Vec<String> = (0..4)
        .map(|at| json!({ "name": format!("t{at}") }))
        .map(|body| daemon.admin().post("/api/v1/tokens", &body).ok()["token"].clone())
        .map(|token| token.as_str().unwrap().to_owned())
        .collect();
    for at in 0..STREAMERS {
        let token = tokens[at % tokens.len()].clone();
        let (address, ended) = (daemon.address, ended.clone());
        threads.push(std::thread::spawn(move || {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let head = format!(
                "GET /api/v1/events/stream?after=0 HTTP/1.1\r\nhost: {address}\r\n\
                 authorization: Bearer {token}\r\n\r\n"
            );
            socket.write_all(head.as_bytes()).unwrap();
            let mut bytes = [0; 1024];
            while !ended.load(Ordering::Relaxed) {
                // Every second one doesn't read at all.
                if at % 2 == 0 {
                    let _ = socket.read(&mut bytes);
                } else {
                    std::thread::sleep(Duration::from_millis(200));
                }
            }
        }));
    }
    let mut most = 0;
    while Instant::now() < until {
        most = most.max(daemon.resident_mib());
        std::thread::sleep(Duration::from_millis(100));
    }
    ended.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    let asked = asked.load(Ordering::Relaxed);
    eprintln!("idle {idle} MiB, at most {most} MiB, {asked} pages in {LASTS:?}");
    assert!(asked > 200, "{asked}");
    assert!(most < idle + MOST_MIB, "idle {idle} MiB, at most {most} MiB");
    assert_eq!(daemon.end(), 0);
}
