//! Cookie, tokens and sessions.

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use super::{Auth, Scope, Session, TokenFile, hash};

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn auth(folder: &std::path::Path) -> Auth {
    let (cookie, tokens) = (folder.join(".cookie"), folder.join("tokens.json"));
    Auth::start(cookie, tokens, Duration::from_secs(60), 5).unwrap()
}

#[test]
fn the_cookie_is_new_at_each_start_and_private() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(".cookie");
    std::fs::write(&file, "old").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let first = auth(folder.path());
    let cookie = std::fs::read_to_string(&file).unwrap();
    assert_eq!((cookie.len(), mode(&file)), (64, 0o600));
    assert_eq!(first.by_token(&cookie).unwrap().scope, Scope::Admin);
    assert_eq!(first.by_token("old"), None);
    let second = auth(folder.path());
    assert_eq!(second.by_token(&cookie), None);
    second.end();
    assert!(!file.exists());
}

#[test]
fn tokens_are_stored_hashed_and_end_when_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.json");
    let mut tokens = TokenFile::open(file.clone()).unwrap();
    let token = tokens.add("grafana", Scope::Read, 1).unwrap();
    assert!(tokens.add("grafana", Scope::Admin, 1).is_err());
    for bad in ["", "a b", "cookie", "é", &"x".repeat(65)] {
        assert!(tokens.add(bad, Scope::Read, 1).is_err(), "{bad}");
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&token) && text.contains(&hex::encode(hash(&token))));
    assert_eq!(mode(&file), 0o600);
    let auth = auth(folder.path());
    assert_eq!(auth.by_token(&token).unwrap().scope, Scope::Read);
    let session = Session { name: "grafana".into(), scope: Scope::Read, is_guest: false };
    let session = auth.open_session(session).unwrap();
    assert!(auth.by_session(&session).is_some());
    tokens.revoke("grafana").unwrap();
    assert!(tokens.revoke("grafana").is_err());
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(auth.by_token(&token), None);
    assert_eq!(auth.by_session(&session), None, "it ends with its token");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(TokenFile::open(file).is_err(), "others can read it");
}

#[test]
fn a_session_never_has_all_rights_and_failures_are_counted_by_address() {
    let folder = tempfile::tempdir().unwrap();
    let auth = auth(folder.path());
    let session = Session { name: "cookie".into(), scope: Scope::Admin, is_guest: false };
    let session = auth.open_session(session).unwrap();
    assert_eq!(auth.by_session(&session).unwrap().scope, Scope::Wallet);
    auth.close_session(&session);
    assert_eq!(auth.by_session(&session), None);
    let one = "10.0.0.1".parse().unwrap();
    assert_eq!((0..10).filter(|_| auth.attempts.failed(one)).count(), 5);
    assert!(auth.attempts.failed("10.0.0.2".parse().unwrap()));
    let v6 = |text: &str| auth.attempts.failed(text.parse().unwrap());
    assert_eq!((0..10).filter(|at| v6(&format!("2001:db8::{at}"))).count(), 5);
}
