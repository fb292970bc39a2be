//! Tokens: through the daemon and past it, for other users' folders, with an end, for one wallet.

use std::{
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::Path,
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    daemon::{Daemon, Folder, ended, unspent},
    world::{self, SEED_SETTING, address, funded},
};

fn run(data: &Path, arguments: &[&str]) -> (i32, Value, String) {
    let mut command = unspent(data);
    command.arg("--json").args(arguments);
    let (code, out, err) = ended(command);
    (code, serde_json::from_str(&out).unwrap_or_default(), err)
}

fn made(data: &Path, arguments: &[&str]) -> String {
    let (code, made, err) = run(data, &[&["token", "add"], arguments].concat());
    assert_eq!(code, 0, "{err}");
    made["token"].as_str().unwrap().to_owned()
}

#[test]
fn tokens_are_made_listed_and_revoked_over_rest_and_count_at_once() {
    let folder = Folder::new();
    let daemon = folder.start(&[]);
    let admin = daemon.admin();
    let body = json!({ "name": "shop", "scope": "wallet", "expires": "30d" });
    let new = admin.post("/api/v1/tokens", &body);
    assert_eq!(new.status, 201, "{}", new.text);
    let token = new.json()["token"].as_str().unwrap().to_owned();
    daemon.with(&token).get("/api/v1/status").ok();
    assert_eq!(daemon.with(&token).get("/api/v1/tokens").refused(403), "forbidden");
    assert_eq!(daemon.nobody().get("/api/v1/tokens").refused(401), "unauthorized");
    let listed = admin.get("/api/v1/tokens");
    let one = listed.ok()["tokens"][0].clone();
    assert_eq!(
        (&one["name"], &one["scope"], &one["expired"]),
        (&json!("shop"), &json!("wallet"), &json!(false))
    );
    assert!(one["expires_at"].is_string() && !listed.text.contains(&token), "{one}");
    assert_eq!(admin.post("/api/v1/tokens", &body).refused(409), "refused");
    for wrong in [
        json!({ "name": "a b" }),
        json!({ "name": "cookie" }),
        json!({ "name": "x", "scope": "admin", "wallet": "alice" }),
        json!({ "name": "x", "expires": "0s" }),
        json!({ "name": "x", "colour": "red" }),
    ] {
        assert_eq!(admin.post("/api/v1/tokens", &wrong).refused(422), "invalid", "{wrong}");
    }
    assert_eq!(admin.send("DELETE", "/api/v1/tokens/shop", &[], None).status, 204);
    assert_eq!(admin.send("DELETE", "/api/v1/tokens/shop", &[], None).refused(404), "not_found");
    daemon.with(&token).get("/api/v1/status").refused(401);
    // The command line asks the daemon, so nothing has to be waited for.
    let token = made(&folder.data(), &["cli", "--scope", "read"]);
    daemon.with(&token).get("/api/v1/status").ok();
    let (code, listed, err) = run(&folder.data(), &["token", "list"]);
    assert_eq!((code, &listed[0]["name"]), (0, &json!("cli")), "{err}");
    assert_eq!(run(&folder.data(), &["token", "revoke", "cli"]).0, 0);
    daemon.with(&token).get("/api/v1/status").refused(401);
    let (code, _, err) = run(&folder.data(), &["token", "revoke", "cli"]);
    assert_eq!((code, err.contains("no token")), (1, true), "{err}");
    assert_eq!(daemon.end(), 0);
}

#[test]
fn an_expired_token_lets_nobody_in() {
    let folder = Folder::new();
    let token = made(&folder.data(), &["short", "--expires", "2s"]);
    let daemon = folder.start(&[]);
    daemon
        .wait_for("its time is over", |_| daemon.with(&token).get("/api/v1/status").status == 401);
    let (_, listed, _) = run(&folder.data(), &["token", "list"]);
    assert_eq!(listed[0]["expired"], true);
}

/// A user of this machine that isn't us; `None` where we aren't root.
fn somebody_else() -> Option<(u32, u32)> {
    let me = std::fs::metadata("/proc/self").unwrap().uid();
    (me == 0).then_some((65_534, 65_534))
}

#[test]
fn root_makes_tokens_for_a_daemon_of_another_user() {
    let Some((user, group)) = somebody_else() else {
        eprintln!("skipped: only root can run a daemon as another user");
        return;
    };
    let folder = Folder::new();
    let data = folder.data();
    std::fs::create_dir(&data).unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(data.parent().unwrap(), open).unwrap();
    chown(&data, Some(user), Some(group)).unwrap();
    // The binary, where that user can reach it.
    let binary = folder.beside("unspent");
    std::fs::copy(assert_cmd::cargo::cargo_bin("unspent"), &binary).unwrap();
    let before = made(&data, &["before", "--scope", "read"]);
    let file = data.join("tokens.json");
    let owner = || std::fs::metadata(&file).map(|file| (file.uid(), file.gid())).unwrap();
    assert_eq!(owner(), (user, group), "the daemon couldn't read it otherwise");
    let as_other = |settings: &[&str]| {
        let serve = Daemon::command(&data, settings);
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user.to_string(), "--regid", &group.to_string()]);
        command.arg("--clear-groups").arg(&binary).args(serve.get_args());
        for (name, _) in serve.get_envs() {
            command.env_remove(name);
        }
        Daemon::spawn(command)
    };
    let daemon = as_other(&[]);
    daemon.with(&before).get("/api/v1/status").ok();
    let beside = made(&data, &["beside", "--scope", "read"]);
    daemon.with(&beside).get("/api/v1/status").ok();
    // Past the daemon, as one must where it speaks TLS.
    let path = file.to_str().unwrap();
    let past = made(&data, &["past", "--scope", "read", "--tokens-file", path]);
    assert_eq!(owner(), (user, group));
    daemon.wait_for("it looks again", |_| daemon.with(&past).get("/api/v1/status").status == 200);
    assert_eq!(daemon.end(), 0);
    let daemon = as_other(&[]);
    for token in [&before, &beside, &past] {
        daemon.with(token).get("/api/v1/status").ok();
    }
    assert_eq!(daemon.end(), 0);
}

#[test]
fn commands_find_the_data_folder_through_the_configuration() {
    let folder = funded();
    let (file, tokens) = (folder.beside("unspent.toml"), folder.beside("secret/tokens.json"));
    let text = format!(
        "data_dir = {:?}\n[source.sim]\nseed = 7\nblocks = 0\nblock_seconds = 0\n[http]\nlisten = \
         \"127.0.0.1:0\"\n[auth]\ntokens_file = {:?}\n",
        folder.data(),
        tokens,
    );
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let bare = || {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("unspent"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UNSPENT_")) {
            command.env_remove(name);
        }
        command.current_dir(folder.beside("")).arg("--json");
        command
    };
    let with = |arguments: &[&str]| {
        let mut command = bare();
        ended({
            command.args(arguments).args(["--config", file]);
            command
        })
    };
    let daemon = Daemon::start(&folder.data(), &[SEED_SETTING]);
    world::make_wallet(&daemon, "alice");
    assert_eq!(daemon.end(), 0);
    let (code, out, err) = with(&["wallet", "list"]);
    assert_eq!((code, out.contains("alice")), (0, true), "{err}");
    let (code, out, err) = with(&["chain", "status"]);
    assert_eq!((code, out.contains("\"height\": 113")), (0, true), "{out} {err}");
    let (code, _, err) = with(&["token", "add", "t"]);
    assert_eq!((code, tokens.exists()), (0, true), "{err}");
    let mut command = bare();
    command.args(["wallet", "balance", "alice"]).env("UNSPENT_CONFIG", file);
    let (code, out, err) = ended(command);
    assert_eq!((code, out.contains("145000")), (0, true), "{err}");
    // A folder that is named counts more.
    let (code, _, err) = with(&["wallet", "list", "--data-dir", "elsewhere"]);
    assert_eq!(code, 1, "{err}");
    assert!(!folder.beside("elsewhere").exists() && !folder.beside("unspent-data").exists());
}

/// A daemon with two wallets that have seen payments, and a token for one of them.
fn two_wallets(scope: &str) -> (Folder, Daemon, String) {
    let folder = funded();
    let daemon = folder.start(&[SEED_SETTING, "txstore.enabled=true"]);
    world::make_wallet(&daemon, "alice");
    let watch = json!({ "name": "b/b", "watch": [address(0)] });
    daemon.admin().post("/api/v1/wallets", &watch).ok();
    daemon.wait_for("the other wallet is there too", |client| {
        client.get("/api/v1/wallets/b%2Fb/balance").ok()["value"] == "70000"
    });
    let token = made(&folder.data(), &["one", "--scope", scope, "--wallet", "b/b"]);
    (folder, daemon, token)
}

#[test]
fn a_token_for_one_wallet_sees_no_other() {
    let (_folder, daemon, token) = two_wallets("wallet");
    let (one, admin) = (daemon.with(&token), daemon.admin());
    let seen = one.get("/api/v1/session").ok();
    assert_eq!(seen["wallet"], "b/b");
    assert_eq!((&seen["room"], &seen["tenant"]), (&json!("wallet"), &json!("b/b")));
    // Its own, and whatever everybody can see of the chain.
    let coins = one.get("/api/v1/wallets/b%2Fb/coins").ok();
    let outpoint = coins["coins"][0]["outpoint"].as_str().unwrap().to_owned();
    for path in ["/api/v1/wallets/b%2Fb", "/api/v1/wallets/b%2fb/balance", "/api/v1/blocks/tip"] {
        one.get(path).ok();
    }
    let listed = one.get("/api/v1/wallets").ok();
    assert_eq!(listed["wallets"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["wallets"][0]["name"], "b/b");
    // Another's is as if it weren't there.
    let (other, none) = (one.get("/api/v1/wallets/alice"), one.get("/api/v1/wallets/alicf"));
    assert_eq!((other.status, other.text.replace("alice", "alicf")), (404, none.text));
    for path in ["balance", "coins", "txs", "journal", "addresses", "labels", "leases", "history"] {
        one.get(&format!("/api/v1/wallets/alice/{path}")).refused(404);
        one.get(&format!("/api/v1/wallets/%61lice/{path}")).refused(404);
    }
    let body = json!({ "outputs": [{ "address": address(1), "value": "1000" }] });
    one.keyed("/api/v1/wallets/alice/pay", "k", &body).refused(404);
    // Whatever else there is, is shut: also routes that nobody has thought of.
    for path in
        ["status", "rooms", "jobs", "history", "tokens", "webhooks", "transactions", "ecash"]
    {
        let answer = one.get(&format!("/api/v1/{path}"));
        assert_eq!(answer.refused(403), "forbidden", "{path}");
    }
    let make = json!({ "name": "mine", "watch": ["51"] });
    one.post("/api/v1/wallets", &make).refused(403);
    let kind = [("content-type", "application/json")];
    one.send("PATCH", "/api/v1/wallets/b%2Fb", &kind, Some(b"{\"name\":\"x\"}")).refused(403);
    // Search, a coin's story and events are those of its own wallet.
    let txid = outpoint.split(':').next().unwrap();
    let found = one.get(&format!("/api/v1/search?q={txid}")).ok();
    assert_eq!(found["matches"][0]["wallets"], json!(["b/b"]), "{found}");
    let all = admin.get(&format!("/api/v1/search?q={txid}")).ok();
    assert_eq!(all["matches"][0]["wallets"].as_array().unwrap().len(), 2, "{all}");
    assert_eq!(one.get("/api/v1/search?q=alice").ok()["matches"], json!([]));
    let story = one.get(&format!("/api/v1/coins/{outpoint}/timeline")).ok();
    assert_eq!(story["wallets"], json!(["b/b"]));
    assert!(!story.to_string().contains("alice"), "{story}");
    let events = one.get("/api/v1/events?limit=500").ok();
    let names = |events: &Value| -> Vec<Value> {
        events["events"].as_array().unwrap().iter().map(|event| event["wallet"].clone()).collect()
    };
    assert!(!names(&events).is_empty() && names(&events).iter().all(|name| name == "b/b"));
    let all = admin.get("/api/v1/events?limit=500").ok();
    assert!(names(&all).contains(&json!("alice")) && names(&all).contains(&Value::Null));
    assert_eq!(one.get("/api/v1/events?wallet=alice").refused(404), "not_found");
    // A login with it is as narrow.
    let own = format!("http://{}", daemon.address);
    let headers = [("content-type", "application/json"), ("origin", own.as_str())];
    let body = json!({ "token": token }).to_string();
    let log_in = daemon.nobody().send("POST", "/api/v1/session", &headers, Some(body.as_bytes()));
    let cookie = log_in.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let path = "/api/v1/wallets/alice";
    daemon.nobody().send("GET", path, &[("cookie", &cookie)], None).refused(404);
}

/// A path, and what must hold of its answer.
type Case<'a> = (&'a str, &'a dyn Fn(&Value) -> bool);

#[test]
fn events_are_filtered_by_wallet_room_and_kind() {
    let (_folder, daemon, _) = two_wallets("read");
    let admin = daemon.admin();
    let page = |query: &str| admin.get(&format!("/api/v1/events?limit=500{query}")).ok();
    let all = page("")["events"].as_array().unwrap().clone();
    let wanted = |is_wanted: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        all.iter().filter(|event| is_wanted(event)).cloned().collect()
    };
    let cases: [Case<'_>; 4] = [
        ("&wallet=alice", &|event| event["wallet"] == "alice"),
        ("&room=chain", &|event| event["room"] == "chain"),
        ("&kind=confirmed", &|event| event["kind"] == "confirmed"),
        ("&wallet=alice&kind=confirmed", &|event| {
            event["wallet"] == "alice" && event["kind"] == "confirmed"
        }),
    ];
    for (query, is_wanted) in cases {
        let found = page(query);
        let expected = wanted(is_wanted);
        assert!(!expected.is_empty() && expected.len() < all.len(), "{query}");
        assert_eq!(found["events"].as_array().unwrap(), &expected, "{query}");
        assert_eq!(found["next"], Value::Null);
        // In pages of one, the same ones.
        let (mut after, mut walked) = (0, Vec::new());
        loop {
            let path = format!("/api/v1/events?limit=1&after={after}{query}");
            let one = admin.get(&path).ok();
            walked.extend(one["events"].as_array().unwrap().iter().cloned());
            match one["next"].as_u64() {
                Some(next) => after = next,
                None => break,
            }
        }
        assert_eq!(walked, expected, "{query}");
    }
    // A payment's events say how much it is.
    let confirmed = page("&wallet=alice&kind=confirmed")["events"].as_array().unwrap().clone();
    let nets: Vec<&str> =
        confirmed.iter().map(|event| event["body"]["net"].as_str().unwrap()).collect();
    assert!(nets.contains(&"70000") && nets.contains(&"50000"), "{nets:?}");
    assert_eq!(confirmed[0]["body"]["debit"], "0");
    assert_eq!(page("&wallet=nobody")["events"], json!([]));
    assert_eq!(admin.get("/api/v1/events?wallet=").refused(400), "malformed");
    assert_eq!(admin.get("/api/v1/events?colour=red").refused(400), "malformed");
}
