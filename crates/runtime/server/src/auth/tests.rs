//! Cookie, tokens and sessions.

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use unspent_engine::tenant::TenantName;
use unspent_model::Micros;

use super::{Auth, Identity, OWNER, Scope, SessionTimes, TokenFile, hash, tokens::NewToken};

/// How long a session may run the daemon.
const ADMIN: Duration = Duration::from_secs(2);

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn auth(folder: &std::path::Path) -> Auth {
    let (cookie, tokens) = (folder.join(".cookie"), folder.join("tokens.json"));
    let times = SessionTimes { session: Duration::from_secs(60), admin: ADMIN };
    Auth::start(cookie, tokens, times, 5).unwrap()
}

fn new(name: &str, scope: Scope) -> NewToken {
    NewToken { name: name.to_owned(), scope, expires: None, wallet: None, room: None, tenant: None }
}

/// Until the daemon has looked at its file again.
fn look_again() {
    std::thread::sleep(Duration::from_millis(1_100));
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
    let (token, _) = tokens.add(&new("grafana", Scope::Read), Micros(1)).unwrap();
    assert!(tokens.add(&new("grafana", Scope::Admin), Micros(1)).is_err());
    for bad in ["", "a b", "cookie", "é", &"x".repeat(65)] {
        assert!(tokens.add(&new(bad, Scope::Read), Micros(1)).is_err(), "{bad}");
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&token) && text.contains(&hex::encode(hash(&token))));
    assert_eq!(mode(&file), 0o600);
    let auth = auth(folder.path());
    let known = auth.by_token(&token).unwrap();
    assert_eq!(known.scope, Scope::Read);
    let session = auth.open_session(&known).unwrap();
    assert!(auth.by_session(&session).is_some() && auth.is_live(&known));
    tokens.revoke("grafana").unwrap();
    assert!(tokens.revoke("grafana").is_err());
    look_again();
    assert_eq!(auth.by_token(&token), None);
    assert_eq!(auth.by_session(&session), None, "it ends with its token");
    assert!(!auth.is_live(&known));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(TokenFile::open(file).is_err(), "others can read it");
}

#[test]
fn a_session_dies_with_its_token_and_not_with_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let auth = auth(folder.path());
    let mut tokens = TokenFile::open(folder.path().join("tokens.json")).unwrap();
    let (token, _) = tokens.add(&new("shop", Scope::Wallet), Micros(1)).unwrap();
    look_again();
    let session = auth.open_session(&auth.by_token(&token).unwrap()).unwrap();
    assert_eq!(auth.by_session(&session).unwrap().scope, Scope::Wallet);
    tokens.revoke("shop").unwrap();
    tokens.add(&new("shop", Scope::Read), Micros(2)).unwrap();
    look_again();
    assert_eq!(auth.by_session(&session), None, "another token bears the name");
}

#[test]
fn a_caller_is_the_owner_or_the_name_of_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let auth = auth(folder.path());
    let cookie = std::fs::read_to_string(folder.path().join(".cookie")).unwrap();
    let owner = auth.by_token(&cookie).unwrap();
    assert_eq!(owner.caller(), OWNER);
    let session = auth.open_session(&owner).unwrap();
    assert_eq!(auth.by_session(&session).unwrap().caller(), OWNER);
    let mut tokens = TokenFile::open(folder.path().join("tokens.json")).unwrap();
    let (token, _) = tokens.add(&new(OWNER, Scope::Wallet), Micros(1)).unwrap();
    look_again();
    let named = auth.by_token(&token).unwrap();
    assert_eq!(named.caller(), "token:owner");
    let session = auth.open_session(&named).unwrap();
    assert_eq!(auth.by_session(&session).unwrap().caller(), "token:owner");
    assert_eq!(Identity::guest().caller(), "guest");
}

#[test]
fn a_token_ends_when_its_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut tokens = TokenFile::open(folder.path().join("tokens.json")).unwrap();
    let short = NewToken { expires: Some("30d".parse().unwrap()), ..new("t", Scope::Read) };
    let (token, kept) = tokens.add(&short, Micros(1_000)).unwrap();
    let end = 1_000 + 30 * 86_400 * 1_000_000;
    assert_eq!(kept.expires_at, Some(end));
    assert!(tokens.find(&hash(&token), Micros(end - 1)).is_some());
    assert!(tokens.find(&hash(&token), Micros(end)).is_none());
    assert!(tokens.has_any(Micros(end - 1)) && !tokens.has_any(Micros(end)));
    // It was made long ago: nobody is let in by it.
    assert_eq!(auth(folder.path()).by_token(&token), None);
    let admin = NewToken { wallet: Some("one".into()), ..new("w", Scope::Admin) };
    assert!(tokens.add(&admin, Micros(1)).is_err(), "an administrator sees everything");
}

#[test]
fn a_session_never_has_all_rights_and_failures_are_counted_by_address() {
    let folder = tempfile::tempdir().unwrap();
    let auth = auth(folder.path());
    let cookie = std::fs::read_to_string(folder.path().join(".cookie")).unwrap();
    let session = auth.open_session(&auth.by_token(&cookie).unwrap()).unwrap();
    assert_eq!(auth.by_session(&session).unwrap().scope, Scope::Wallet);
    auth.close_session(&session);
    assert_eq!(auth.by_session(&session), None);
    let one = "10.0.0.1".parse().unwrap();
    for _ in 0..5 {
        assert!(auth.attempts.failed(one));
    }
    assert!(!auth.attempts.failed(one) && auth.attempts.failed("10.0.0.2".parse().unwrap()));
    let six = |last: u16| format!("2001:db8::{last:x}").parse().unwrap();
    for at in 0..5 {
        assert!(auth.attempts.failed(six(at)));
    }
    assert!(!auth.attempts.failed(six(9)), "one network of IPv6 counts as one");
}

#[test]
fn a_session_runs_the_daemon_only_if_opened_for_it_and_not_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let auth = auth(folder.path());
    let cookie = std::fs::read_to_string(folder.path().join(".cookie")).unwrap();
    let opened = std::time::Instant::now();
    let admin = auth.open_admin_session(&auth.by_token(&cookie).unwrap()).unwrap();
    let first = auth.by_session(&admin).unwrap();
    // A machine that slept through those seconds proves nothing of the beginning.
    if opened.elapsed() < ADMIN {
        assert_eq!(first.scope, Scope::Admin);
    }
    std::thread::sleep(ADMIN);
    let later = auth.by_session(&admin).unwrap();
    assert_eq!((later.scope, later.admin_until), (Scope::Wallet, None), "it goes on as any other");
    let mut tokens = TokenFile::open(folder.path().join("tokens.json")).unwrap();
    let (token, _) = tokens.add(&new("shop", Scope::Wallet), Micros(1)).unwrap();
    look_again();
    let shop = auth.open_admin_session(&auth.by_token(&token).unwrap()).unwrap();
    let shop = auth.by_session(&shop).unwrap();
    assert_eq!((shop.scope, shop.admin_until), (Scope::Wallet, None), "never more than its token");
}

#[test]
fn guests_push_out_guests_alone_and_a_token_its_own_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let auth = auth(folder.path());
    let cookie = std::fs::read_to_string(folder.path().join(".cookie")).unwrap();
    let cookie = auth.by_token(&cookie).unwrap();
    let member = auth.open_session(&cookie).unwrap();
    let guest = auth.open_guest().unwrap();
    assert!(auth.by_session(&guest).unwrap().is_guest);
    for _ in 0..1_500 {
        auth.open_guest().unwrap();
    }
    assert_eq!(auth.by_session(&guest), None, "the oldest guest is gone");
    assert!(auth.by_session(&member).is_some(), "whoever logged in stays");
    let mut tokens = TokenFile::open(folder.path().join("tokens.json")).unwrap();
    let (token, _) = tokens.add(&new("busy", Scope::Read), Micros(1)).unwrap();
    look_again();
    let busy = auth.by_token(&token).unwrap();
    let first = auth.open_session(&busy).unwrap();
    for _ in 0..60 {
        auth.open_session(&busy).unwrap();
    }
    assert_eq!(auth.by_session(&first), None, "a token has a bounded number");
    assert!(auth.by_session(&member).is_some());
}

/// What the version before tenants wrote, with the hash of `secret` in it.
fn old_tokens(secret: &str) -> String {
    format!(
        r#"{{
  "tokens": [
    {{
      "name": "all",
      "scope": "read",
      "sha256": "{}",
      "created_at": 5
    }},
    {{
      "name": "one",
      "scope": "wallet",
      "sha256": "{}",
      "created_at": 7,
      "expires_at": 9000000000000000,
      "wallet": "b/b"
    }}
  ]
}}"#,
        hex::encode(hash("another")),
        hex::encode(hash(secret))
    )
}

fn write_private(file: &std::path::Path, text: &str) {
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn tokens_of_an_older_version_are_brought_up_to_date_and_a_copy_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (file, old) = (folder.path().join("tokens.json"), old_tokens("secret"));
    write_private(&file, &old);
    // Whoever only looks changes nothing.
    let seen = TokenFile::open(file.clone()).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), old);
    assert_eq!(seen.list()[1].tenant, Some(TenantName::wallet("b/b")));
    let auth = auth(folder.path());
    let one = auth.by_token("secret").unwrap();
    assert_eq!((one.scope, one.tenant.clone()), (Scope::Wallet, Some(TenantName::wallet("b/b"))));
    assert!(!one.sees(&TenantName::wallet("alice")) && one.sees(&TenantName::wallet("b/b")));
    assert!(!one.sees(&TenantName::new("ecash", "b/b")), "the same name in another room");
    let copy = folder.path().join("tokens.json.v1");
    assert_eq!((std::fs::read_to_string(&copy).unwrap(), mode(&copy)), (old, 0o600));
    let text = std::fs::read_to_string(&file).unwrap();
    let wanted = format!(
        r#"{{
  "version": 2,
  "credentials": [
    {{
      "name": "all",
      "scope": "read",
      "sha256": "{}",
      "created_at": 5
    }},
    {{
      "name": "one",
      "scope": "wallet",
      "sha256": "{}",
      "created_at": 7,
      "expires_at": 9000000000000000,
      "tenant": {{
        "room": "wallet",
        "name": "b/b"
      }}
    }}
  ]
}}"#,
        hex::encode(hash("another")),
        hex::encode(hash("secret"))
    );
    assert_eq!((text, mode(&file)), (wanted, 0o600));
    // Once: the copy stays what it was, whatever is written later.
    std::fs::remove_file(&copy).unwrap();
    TokenFile::open(file).unwrap().add(&new("later", Scope::Read), Micros(1)).unwrap();
    assert!(!copy.exists());
}

#[test]
fn tokens_count_again_once_their_file_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.json");
    let mut tokens = TokenFile::open(file.clone()).unwrap();
    tokens.add(&new("till", Scope::Read), Micros(1)).unwrap();
    let look = |tokens: &mut TokenFile| {
        std::thread::sleep(super::tokens::LOOK_EVERY);
        tokens.refresh();
        tokens.has_any(Micros(1))
    };
    let mode = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    // Somebody restores it for all to read, which makes it another file with a time of its own.
    let text = std::fs::read(&file).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    std::fs::write(&file, text).unwrap();
    mode(0o644);
    assert!(!look(&mut tokens));
    // The time of its last change stays what it was.
    mode(0o600);
    assert!(look(&mut tokens));
}

#[test]
fn tokens_of_a_newer_version_are_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.json");
    let newer = r#"{ "version": 3, "credentials": { "colour": "red" } }"#;
    write_private(&file, newer);
    let said = TokenFile::open(file.clone()).err().unwrap().to_string();
    assert!(said.contains("has version 3, but this program knows only 2"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), newer);
    assert!(!folder.path().join("tokens.json.v3").exists());
}

#[test]
fn what_makes_a_token_narrow_is_never_lost_to_a_name_of_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.json");
    let token = |narrow: &str| {
        let sha256 = hex::encode(hash("secret"));
        format!(
            r#"{{ "name": "one", "scope": "read", "sha256": "{sha256}", "created_at": 5, {narrow} }}"#
        )
    };
    let older = format!(
        r#"{{ "tokens": [{}] }}"#,
        token(r#""tenant": { "room": "wallet", "name": "shop" }"#)
    );
    let newer = format!(r#"{{ "version": 2, "credentials": [{}] }}"#, token(r#""wallet": "shop""#));
    for text in [older, newer] {
        write_private(&file, &text);
        let said = TokenFile::open(file.clone()).err().unwrap().to_string();
        assert!(said.contains("is not a token file"), "{said}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn a_token_sees_one_tenant_of_any_room_and_never_runs_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let mut tokens = TokenFile::open(folder.path().join("tokens.json")).unwrap();
    let till = |scope| NewToken {
        room: Some("ecash".into()),
        tenant: Some("till".into()),
        ..new("till", scope)
    };
    let (token, kept) = tokens.add(&till(Scope::Wallet), Micros(1)).unwrap();
    assert_eq!(kept.tenant, Some(TenantName::new("ecash", "till")));
    assert!(
        tokens.add(&NewToken { name: "admin".into(), ..till(Scope::Admin) }, Micros(1)).is_err()
    );
    assert!(tokens.add(&NewToken { room: None, ..till(Scope::Read) }, Micros(1)).is_err());
    assert!(
        tokens.add(&NewToken { wallet: Some("w".into()), ..till(Scope::Read) }, Micros(1)).is_err()
    );
    let auth = auth(folder.path());
    let known = auth.by_token(&token).unwrap();
    let session = auth.open_session(&known).unwrap();
    assert_eq!(auth.by_session(&session).unwrap().tenant, kept.tenant, "a login is as narrow");
}
