//! Hostile input: too large, too deep, too many, too slow.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::{
    daemon::{Daemon, Folder},
    world::{self, SEED_SETTING, funded},
};

/// Sends bytes as they are and reads the status line.
fn raw(daemon: &Daemon, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(daemon.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
    // The server may hang up before all is sent.
    let _ = socket.write_all(bytes);
    let mut answer = vec![0; 64];
    let length = socket.read(&mut answer).unwrap_or(0);
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[test]
fn what_is_too_large_or_too_deep_is_refused() {
    let folder = Folder::new();
    let daemon = folder.start(&[]);
    let client = daemon.admin();
    let json = [("content-type", "application/json")];
    let path = "/api/v1/wallets";
    // One byte more than may be: the whole body is read before it is refused.
    let large = format!("{{\"name\":\"{}\"}}", "x".repeat((1 << 20) - 10));
    let answer = client.send("POST", path, &json, Some(large.as_bytes()));
    assert_eq!(answer.refused(413), "too_large");
    let deep = "[".repeat(100_000);
    for body in [deep.as_bytes(), &b""[..], b"{", b"\xff\xfe", b"null", b"[]", b"{\"name\":1}"] {
        let status = client.send("POST", path, &json, Some(body)).status;
        assert!([400, 422].contains(&status), "{body:?} {status}");
    }
    assert_eq!(client.send("POST", path, &[], Some(b"{}")).refused(415), "media_type");
    let many = format!("{{\"name\":\"x\",\"watch\":[{}\"51\"]}}", "\"51\",".repeat(1_000));
    client.send("POST", path, &json, Some(many.as_bytes())).refused(422);
    let head = "x".repeat(9_000);
    let answer =
        raw(&daemon, format!("GET /healthz HTTP/1.1\r\nhost: a\r\nx: {head}\r\n\r\n").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many = "x: y\r\n".repeat(200);
    let answer = raw(&daemon, format!("GET /healthz HTTP/1.1\r\n{many}\r\n").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert!(raw(&daemon, b"nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    client.get("/api/v1/status").ok();
}

#[test]
fn pages_and_numbers_have_bounds() {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    let client = daemon.admin();
    let address = world::address(0);
    let lists = [
        format!("/api/v1/addresses/{address}/utxos"),
        "/api/v1/blocks".into(),
        "/api/v1/events".into(),
        "/api/v1/wallets".into(),
        "/api/v1/wallets/alice/coins".into(),
        "/api/v1/wallets/alice/txs".into(),
        "/api/v1/wallets/alice/addresses".into(),
        "/api/v1/wallets/alice/journal".into(),
        "/api/v1/wallets/alice/labels".into(),
    ];
    for list in &lists {
        for limit in ["0", "501", "-1", "9223372036854775808", "1e3", "x", ""] {
            let answer = client.get(&format!("{list}?limit={limit}"));
            assert_eq!(answer.status, 400, "{list} {limit}");
        }
        let long = "9".repeat(1_001);
        for after in ["x", "-5", "9223372036854775808-1", "%00", &long] {
            let answer = client.get(&format!("{list}?after={after}"));
            assert!([200, 400, 422].contains(&answer.status), "{list} {after} {}", answer.text);
        }
        client.get(&format!("{list}?unknown=1")).refused(400);
        client.get(&format!("{list}?limit=500")).ok();
    }
    for path in ["/api/v1/nothing", "/nothing", "/api/v1/wallets/alice/%2e%2e/x", "/assets/../x"] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    assert_eq!(client.send("PATCH", "/api/v1/wallets", &[], None).refused(405), "method");
}

#[test]
fn a_client_that_sends_slowly_is_let_go() {
    let folder = Folder::new();
    let daemon = folder.start(&["http.timeout_seconds=2"]);
    let started = Instant::now();
    let head = format!(
        "POST /api/v1/wallets HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 1000\r\n\r\n{{",
        daemon.cookie
    );
    let answer = raw(&daemon, head.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(started.elapsed() < Duration::from_secs(10));
    // Nor does half a head keep a connection.
    let started = Instant::now();
    let answer = raw(&daemon, b"GET /healthz HTTP/1.1\r\nhost: local");
    assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[test]
fn one_connection_too_many_is_closed_and_a_place_comes_free_again() {
    let folder = Folder::new();
    let daemon = folder.start(&["http.connections=4"]);
    let ask = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert!(raw(&daemon, ask).starts_with("HTTP/1.1 200"));
    // The place of the request before may come free only after one of these was turned away,
    // and a loaded machine takes its time to accept: idle connections come until all are taken.
    let mut idle = Vec::new();
    let started = Instant::now();
    while !raw(&daemon, ask).is_empty() {
        assert!(started.elapsed() < Duration::from_secs(60), "a fifth connection is served");
        idle.push(TcpStream::connect(daemon.address).unwrap());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(idle.len() >= 4, "only {} connections fill four places", idle.len());
    drop(idle);
    let started = Instant::now();
    while !raw(&daemon, ask).starts_with("HTTP/1.1 200") {
        assert!(started.elapsed() < Duration::from_secs(60), "no place came free");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn more_than_may_wait_are_told_to_come_again() {
    let folder = Folder::new();
    let daemon = folder.start(&["http.concurrency=1", "http.queue=1"]);
    let asking: Vec<_> = (0..24)
        .map(|_| {
            let client = daemon.admin();
            std::thread::spawn(move || {
                (0..40).map(|_| client.get("/api/v1/status").status).collect::<Vec<_>>()
            })
        })
        .collect();
    let statuses: Vec<u16> = asking.into_iter().flat_map(|one| one.join().unwrap()).collect();
    assert!(statuses.iter().all(|status| [200, 503].contains(status)));
    assert!(statuses.contains(&503), "none was turned away");
    daemon.admin().get("/api/v1/status").ok();
}
