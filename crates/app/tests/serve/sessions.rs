//! Sessions of browsers: what ends them, what can't, and what one client may hold.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
};

use serde_json::json;

use crate::{
    access::token,
    daemon::{Answer, Daemon, Folder, PATIENCE},
};

/// The cookie that an answer sets, as a request sends it.
fn cookie(answer: &Answer) -> String {
    let set = answer.header("set-cookie").expect("a cookie");
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    set.split(';').next().unwrap().to_owned()
}

fn name(cookie: &str) -> &str {
    cookie.split_once('=').unwrap().0
}

fn log_in(daemon: &Daemon, token: &str) -> String {
    let own = format!("http://{}", daemon.address);
    let headers = [("content-type", "application/json"), ("origin", own.as_str())];
    let body = json!({ "token": token }).to_string();
    let answer = daemon.nobody().send("POST", "/api/v1/session", &headers, Some(body.as_bytes()));
    assert_eq!(answer.status, 200, "{}", answer.text);
    cookie(&answer)
}

/// The same for running the daemon.
fn log_in_as_admin(daemon: &Daemon, token: &str) -> Answer {
    let own = format!("http://{}", daemon.address);
    let headers = [("content-type", "application/json"), ("origin", own.as_str())];
    let body = json!({ "token": token, "admin": true }).to_string();
    daemon.nobody().send("POST", "/api/v1/session", &headers, Some(body.as_bytes()))
}

/// Runs a job with a session; says the status and the code of a refusal.
fn run_job(daemon: &Daemon, session: &str) -> (u16, String) {
    let own = format!("http://{}", daemon.address);
    let headers = [("cookie", session), ("origin", own.as_str())];
    let sent = daemon.nobody().send("POST", "/api/v1/jobs/prune_chain/run", &headers, None);
    (sent.status, sent.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_session_runs_the_daemon_only_after_a_fresh_login_of_an_administrator() {
    let folder = Folder::new();
    let daemon = folder.start(&["auth.admin_seconds=5"]);
    let stale = (403, "fresh_login".to_owned());
    // A login to look and to pay is none for that, whatever its token may do.
    let session = log_in(&daemon, &daemon.cookie);
    assert_eq!(who(&daemon, &session)["admin_seconds"], serde_json::Value::Null);
    assert_eq!(run_job(&daemon, &session), stale);
    let answer = log_in_as_admin(&daemon, &daemon.cookie);
    assert_eq!((&answer.ok()["scope"], answer.status), (&json!("admin"), 200));
    let admin = cookie(&answer);
    let first = run_job(&daemon, &admin);
    // On a machine that sleeps for seconds the login may be over already; then the test says less.
    assert!(first == (202, String::new()) || first == stale, "{first:?}");
    daemon.wait_for("the login is no longer fresh", |_| who(&daemon, &admin)["scope"] == "wallet");
    assert_eq!(run_job(&daemon, &admin), stale);
    // Whoever may only pay doesn't become an administrator by asking, and guests never do.
    let shop = cookie(&log_in_as_admin(&daemon, &token(&folder, "shop", "wallet")));
    assert_eq!(who(&daemon, &shop)["scope"], "wallet");
    assert_eq!(run_job(&daemon, &shop), stale);
    let guest = cookie(&daemon.nobody().get("/"));
    assert_eq!(run_job(&daemon, &guest), (403, "forbidden".to_owned()));
}

#[test]
fn a_browser_that_logs_in_again_leaves_no_session_behind() {
    let folder = Folder::new();
    let daemon = folder.start(&[]);
    let first = log_in(&daemon, &daemon.cookie);
    let own = format!("http://{}", daemon.address);
    let headers = [
        ("content-type", "application/json"),
        ("origin", own.as_str()),
        ("cookie", first.as_str()),
    ];
    let body = json!({ "token": daemon.cookie, "admin": true }).to_string();
    let again = daemon.nobody().send("POST", "/api/v1/session", &headers, Some(body.as_bytes()));
    assert_eq!(who(&daemon, &cookie(&again))["name"], "cookie");
    assert_eq!(who(&daemon, &first)["name"], serde_json::Value::Null, "the old one is over");
}

fn who(daemon: &Daemon, cookies: &str) -> serde_json::Value {
    let path = "/api/v1/session";
    daemon.nobody().send("GET", path, &[("cookie", cookies)], None).ok()
}

#[test]
fn a_session_dies_with_its_token_even_if_another_bears_the_name() {
    let folder = Folder::new();
    let daemon = folder.start(&[]);
    let session = log_in(&daemon, &token(&folder, "shop", "wallet"));
    assert_eq!(who(&daemon, &session)["scope"], "wallet");
    let gone = daemon.admin().send("DELETE", "/api/v1/tokens/shop", &[], None);
    assert_eq!(gone.status, 204);
    token(&folder, "shop", "read");
    assert_eq!(who(&daemon, &session)["name"], serde_json::Value::Null);
    let status = [("cookie", session.as_str())];
    daemon.nobody().send("GET", "/api/v1/status", &status, None).refused(401);
}

#[test]
fn a_link_from_another_site_replaces_no_session() {
    let folder = Folder::new();
    let daemon = folder.start(&[]);
    let session = log_in(&daemon, &daemon.cookie);
    // A browser that follows the link brings no cookie along, and is taken for a guest.
    let from_elsewhere = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    let guest = cookie(&daemon.nobody().send("GET", "/", &from_elsewhere, None));
    assert_ne!(name(&guest), name(&session), "a browser would forget the session");
    let both = format!("{guest}; {session}");
    assert_eq!(who(&daemon, &both)["name"], "cookie", "the login counts more");
    assert_eq!(who(&daemon, &guest)["guest"], true);
    // Browsers keep cookies by host alone: a second daemon must not end sessions of the first.
    let other = Folder::new();
    let second = other.start(&[]);
    let theirs = log_in(&second, &second.cookie);
    assert_ne!(name(&theirs), name(&session));
    assert!(name(&session).ends_with(&format!("_{}", daemon.address.port())), "{session}");
}

#[test]
fn what_another_site_sends_is_refused_on_reading_and_on_login_too() {
    let folder = Folder::new();
    let daemon = folder.start(&[]);
    let session = log_in(&daemon, &daemon.cookie);
    let evil = ("origin", "http://evil.example");
    let get = |headers: &[(&str, &str)]| {
        let headers = [&[("cookie", session.as_str())], headers].concat();
        daemon.nobody().send("GET", "/api/v1/status", &headers, None)
    };
    assert_eq!(get(&[]).status, 200);
    assert_eq!(get(&[evil]).refused(403), "forbidden");
    assert_eq!(get(&[("origin", "null")]).refused(403), "forbidden");
    assert_eq!(get(&[("sec-fetch-site", "same-site")]).refused(403), "forbidden");
    let body = json!({ "token": daemon.cookie }).to_string();
    for foreign in [evil, ("sec-fetch-site", "cross-site")] {
        let headers = [("content-type", "application/json"), foreign];
        let sent = daemon.nobody().send("POST", "/api/v1/session", &headers, Some(body.as_bytes()));
        assert_eq!((sent.refused(403), sent.header("set-cookie")), ("forbidden".into(), None));
    }
    // Whoever has a token is no browser's victim.
    daemon.admin().send("GET", "/api/v1/status", &[evil], None).ok();
}

/// Opens a stream; says with which status it began.
fn open(daemon: &Daemon, header: &str) -> (u16, BufReader<TcpStream>) {
    let mut socket = TcpStream::connect(daemon.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = daemon.address;
    let head = format!("GET /api/v1/events/stream HTTP/1.1\r\nhost: {host}\r\n{header}\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let (mut line, mut stream) = (String::new(), BufReader::new(socket));
    stream.read_line(&mut line).unwrap();
    (line.split(' ').nth(1).unwrap().parse().unwrap(), stream)
}

#[test]
fn guests_leave_places_for_streams_of_others_and_no_client_has_all() {
    let folder = Folder::new();
    let reader = token(&folder, "r", "read");
    let daemon = folder.start(&["http.streams=40"]);
    let (mut open_streams, mut refused) = (Vec::new(), 0);
    // One guest after the other, each with a session of its own.
    for _ in 0..5 {
        let guest = format!("cookie: {}", cookie(&daemon.nobody().get("/")));
        for _ in 0..10 {
            let (status, stream) = open(&daemon, &guest);
            if status == 200 { open_streams.push(stream) } else { refused += 1 }
        }
    }
    assert_eq!((open_streams.len(), refused), (20, 30), "half of the places");
    let reader = format!("authorization: Bearer {reader}");
    let own: Vec<_> = (0..20).map(|_| open(&daemon, &reader)).collect();
    assert_eq!(own.iter().filter(|(status, _)| *status == 200).count(), 10, "one client's share");
    let admin = format!("authorization: Bearer {}", daemon.cookie);
    assert_eq!(open(&daemon, &admin).0, 200);
    drop((open_streams, own));
    daemon.wait_for("places come back", |_| open(&daemon, &reader).0 == 200);
}

#[test]
fn a_stream_ends_with_the_token_that_opened_it() {
    let folder = Folder::new();
    let reader = token(&folder, "r", "read");
    let daemon = folder.start(&[]);
    let (status, mut stream) = open(&daemon, &format!("authorization: Bearer {reader}"));
    assert_eq!(status, 200);
    let gone = daemon.admin().send("DELETE", "/api/v1/tokens/r", &[], None);
    assert_eq!(gone.status, 204);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the server ends the stream");
}
