//! Who may do what: cookie, tokens, scopes, sessions, foreign sites, foreign addresses.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::daemon::{Daemon, Folder, ended, unspent};

pub(crate) fn token(folder: &Folder, name: &str, scope: &str) -> String {
    let mut command = unspent(&folder.data());
    command.args(["--json", "token", "add", name, "--scope", scope]);
    let (code, out, err) = ended(command);
    assert_eq!(code, 0, "{err}");
    let made: serde_json::Value = serde_json::from_str(&out).unwrap();
    made["token"].as_str().unwrap().to_owned()
}

#[test]
fn each_scope_may_do_what_it_says() {
    let folder = Folder::new();
    let (read, wallet) = (token(&folder, "r", "read"), token(&folder, "w", "wallet"));
    let admin = token(&folder, "a", "admin");
    let daemon = folder.start(&[]);
    let body = json!({ "name": "one", "watch": ["51"] });
    let make = |client: &crate::daemon::Client| client.post("/api/v1/wallets", &body).status;
    let run =
        |client: &crate::daemon::Client| client.post("/api/v1/jobs/measure/run", &json!({})).status;
    let (nobody, reader) = (daemon.nobody(), daemon.with(&read));
    let answer = nobody.get("/api/v1/status");
    assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"unspent\""));
    assert_eq!(answer.refused(401), "unauthorized");
    assert_eq!(reader.get("/api/v1/status").header("cache-control"), Some("no-store"));
    assert_eq!(reader.get("/").header("cache-control"), Some("no-cache"));
    assert_eq!(daemon.with("wrong").get("/api/v1/status").refused(401), "unauthorized");
    let basic = [("authorization", "Basic YTpi")];
    nobody.send("GET", "/api/v1/status", &basic, None).refused(401);
    reader.get("/api/v1/status").ok();
    assert_eq!((make(&reader), run(&reader)), (403, 403));
    let payer = daemon.with(&wallet);
    assert_eq!((make(&payer), run(&payer)), (201, 403));
    assert_eq!(run(&daemon.with(&admin)), 202);
    // Open to everybody, and says nothing of coins.
    for path in ["/healthz", "/readyz", "/metrics", "/", "/api/v1/openapi.json"] {
        assert_eq!(nobody.get(path).status, 200, "{path}");
    }
    let mut revoke = unspent(&folder.data());
    revoke.args(["token", "revoke", "w"]);
    assert_eq!(ended(revoke).0, 0);
    std::thread::sleep(Duration::from_millis(1_200));
    payer.get("/api/v1/status").refused(401);
    assert_eq!(daemon.end(), 0);
    assert!(!folder.data().join(".cookie").exists());
}

/// The cookie that an answer sets, as a request sends it.
fn session(answer: &crate::daemon::Answer) -> String {
    let set = answer.header("set-cookie").expect("a cookie");
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    set.split(';').next().unwrap().to_owned()
}

#[test]
fn the_dashboard_reads_on_loopback_and_changes_nothing() {
    let folder = Folder::new();
    let daemon = folder.start(&[]);
    let nobody = daemon.nobody();
    let cookie = session(&nobody.get("/"));
    let with = |method: &str, path: &str, more: &[(&str, &str)], body: Option<&[u8]>| {
        let headers = [&[("cookie", cookie.as_str())], more].concat();
        nobody.send(method, path, &headers, body)
    };
    assert_eq!(with("GET", "/api/v1/session", &[], None).ok()["scope"], "read");
    with("GET", "/api/v1/status", &[], None).ok();
    let own = format!("http://{}", daemon.address);
    let json = [("content-type", "application/json"), ("origin", own.as_str())];
    let body = br#"{"name":"x","watch":["51"]}"#;
    with("POST", "/api/v1/wallets", &json, Some(body)).refused(403);
    // Logged in, it may pay, but only from our own page.
    let log_in = format!(r#"{{"token":"{}"}}"#, daemon.cookie);
    let logged_in = nobody.send("POST", "/api/v1/session", &json, Some(log_in.as_bytes()));
    let member = session(&logged_in);
    let as_member = |headers: &[(&str, &str)]| {
        let headers = [&[("cookie", member.as_str())], headers].concat();
        nobody.send("POST", "/api/v1/wallets", &headers, Some(body))
    };
    let kind = ("content-type", "application/json");
    as_member(&[kind]).refused(403);
    as_member(&[kind, ("origin", "http://evil.example")]).refused(403);
    as_member(&[kind, ("origin", &own), ("sec-fetch-site", "cross-site")]).refused(403);
    assert_eq!(as_member(&[kind, ("origin", &own)]).status, 201);
    let foreign = [("cookie", member.as_str()), ("sec-fetch-site", "cross-site")];
    nobody.send("GET", "/api/v1/status", &foreign, None).refused(403);
    // Out again.
    let out = [("cookie", member.as_str()), ("origin", own.as_str())];
    assert_eq!(nobody.send("DELETE", "/api/v1/session", &out, None).status, 204);
    let gone = [("cookie", member.as_str())];
    nobody.send("GET", "/api/v1/status", &gone, None).refused(401);
    // A name that was bent to our address.
    for path in ["/", "/api/v1/status", "/healthz"] {
        nobody.send("GET", path, &[("host", "evil.example")], None).refused(403);
    }
    drop(daemon);
    let closed =
        folder.start(&["auth.dashboard_read=false", "http.allowed_hosts=[\"me.example\"]"]);
    let first = closed.nobody().send("GET", "/", &[("host", "me.example:80")], None);
    assert_eq!((first.status, first.header("set-cookie")), (200, None));
}

#[test]
fn wrong_credentials_wait_and_too_many_are_turned_away() {
    let folder = Folder::new();
    let daemon = folder.start(&["auth.failures_per_minute=5"]);
    let wrong = daemon.with("unspent_0000");
    let started = Instant::now();
    wrong.get("/api/v1/status").refused(401);
    assert!(started.elapsed() >= Duration::from_millis(250));
    let statuses: Vec<u16> = (0..200).map(|_| wrong.get("/api/v1/status").status).collect();
    assert!(statuses.iter().filter(|status| **status == 429).count() >= 190, "{statuses:?}");
    assert!(wrong.get("/api/v1/status").header("retry-after").is_some());
    let log_in = wrong.post("/api/v1/session", &json!({ "token": "x" }));
    assert!([401, 429].contains(&log_in.status));
    // Whoever has the right one is still let in.
    daemon.admin().get("/api/v1/status").ok();
}

#[test]
fn another_address_than_loopback_needs_tls_and_tokens() {
    let folder = Folder::new();
    let serve = |settings: &[&str]| {
        let mut command = unspent(&folder.data());
        command.args(["--json", "serve", "--listen", "0.0.0.0:0"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        ended(command)
    };
    let (code, out, err) = serve(&[]);
    assert_eq!((code, out.contains("TLS is not set up")), (1, true), "{err}");
    let (cert, key) = crate::tls::certificate(&folder);
    let cert = format!("http.tls_cert={}", cert.display());
    let key = format!("http.tls_key={}", key.display());
    let (code, out, _) = serve(&[&cert, &key]);
    assert_eq!((code, out.contains("there are no tokens")), (1, true), "{out}");
    assert!(!folder.data().join("engine.db").exists(), "nothing was opened");
    // With both it starts.
    token(&folder, "t", "read");
    let listen = "http.listen=0.0.0.0:0";
    let daemon = Daemon::start(&folder.data(), &[listen, &cert, &key]);
    assert_eq!(daemon.end(), 0);
}
