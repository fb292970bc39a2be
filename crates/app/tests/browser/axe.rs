//! axe-core looks at every page for what keeps people out: contrast, names, roles.
//!
//! It is fetched into a folder outside the repository. Where it can't be had the test says so and
//! is skipped, unless `UNSPENT_REQUIRE_PEERS=1`. Its script goes into the page through the debugging
//! pipe, so that the page's own policy stays as strict as it is.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::json;

use super::{
    chromium::Browser,
    daemon::Daemon,
    page::{DESK, PHONE, Page},
    world,
};

/// Which release.
const VERSION: &str = "4.14.0";

fn cache() -> PathBuf {
    let named = std::env::var_os("UNSPENT_PEERS_CACHE").map(PathBuf::from);
    let user = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let beside = || user.or_else(home).unwrap_or_else(std::env::temp_dir).join("unspent-peers");
    named.unwrap_or_else(beside).join(format!("axe-core-{VERSION}"))
}

fn quiet(program: &str, arguments: &[&str], folder: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The script, fetched when it isn't there.
fn script() -> Option<String> {
    let folder = cache();
    let file = folder.join("package/axe.min.js");
    if !file.is_file() {
        // Unpacked aside and moved in whole: several tests may fetch it at once.
        std::fs::create_dir_all(folder.parent()?).ok()?;
        let aside = tempfile::tempdir_in(folder.parent()?).ok()?;
        let packed = quiet("npm", &["pack", &format!("axe-core@{VERSION}")], aside.path());
        let name = format!("axe-core-{VERSION}.tgz");
        if packed && quiet("tar", &["xzf", &name], aside.path()) {
            // Somebody else may have been quicker.
            let _ = std::fs::rename(aside.keep(), &folder);
        }
    }
    let found = std::fs::read_to_string(file).ok();
    if found.is_none() {
        let must = std::env::var("UNSPENT_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!must, "axe-core can't be had");
        eprintln!("skipped: axe-core can't be had");
    }
    found
}

/// Fails with what axe-core finds, each with the rule and the elements.
fn assert_open_to_all(page: &mut Page, axe: &str, what: &str) {
    if page.evaluate("typeof axe") != json!("object") {
        page.evaluate(&format!("{axe}; true"));
    }
    let found = page.evaluate(
        "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => \
         violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => \
         `${node.html.slice(0, 160)} ${node.failureSummary}`).join(' | ')}`))",
    );
    assert_eq!(found, json!([]), "{what}");
}

fn routes(daemon: &Daemon) -> Vec<String> {
    let coin = &daemon.get("/deltas/100")["deltas"][0]["created"][0];
    let (txid, name) = (coin["txid"].as_str().unwrap(), coin["outpoint"].as_str().unwrap());
    let own = daemon.get("/wallets/alice/txs?limit=1");
    let own = own["txs"][0]["txid"].as_str().unwrap();
    let mut routes: Vec<String> = ["/", "/lookup", "/lookup/nobody", "/block/100", "/wallets"]
        .into_iter()
        .chain(["/mempool", "/rooms", "/block/99999999"])
        .map(str::to_owned)
        .collect();
    routes.extend([format!("/coin/{name}"), format!("/proof/{name}"), format!("/tx/{txid}")]);
    routes.extend([format!("/tx/{own}"), format!("/address/{}", world::BOB.address(0))]);
    let lists = ["transactions", "mempool", "coins", "leases", "addresses", "journal"];
    routes.extend(lists.map(|list| format!("/wallets/alice/{list}")));
    routes
}

fn look_at_every_page(size: (u32, u32)) {
    let Some(browser) = Browser::start() else { return };
    let Some(axe) = script() else { return };
    let daemon = Daemon::start(&world::STILL);
    world::make_wallets(&daemon);
    world::let_alice_pay(&daemon);
    let mut page = Page::open(browser, &daemon.base);
    page.resize(size);
    page.expect("#who:not([hidden])");
    page.log_in(&daemon.cookie());
    for route in routes(&daemon) {
        page.go(&route);
        for colours in ["light", "dark"] {
            page.prefer_calm(colours);
            page.wait(colours, &format!("document.documentElement.dataset.theme === '{colours}'"));
            assert_open_to_all(&mut page, &axe, &format!("{route} in {colours}, {size:?}"));
        }
    }
    // A dialog, and a page whose server has gone.
    page.go("/wallets/alice");
    page.click_text(".acts button", "Pay");
    page.expect("dialog[open]");
    assert_open_to_all(&mut page, &axe, "a dialog in dark");
    page.prefer_calm("light");
    assert_open_to_all(&mut page, &axe, "a dialog in light");
    page.press("Escape");
    page.go("/");
    drop(daemon);
    page.expect("html[data-link=away]");
    for colours in ["light", "dark"] {
        page.prefer_calm(colours);
        page.wait(colours, &format!("document.documentElement.dataset.theme === '{colours}'"));
        assert_open_to_all(&mut page, &axe, &format!("away in {colours}"));
    }
}

#[test]
fn axe_finds_nothing_at_a_desk() {
    look_at_every_page(DESK);
}

#[test]
fn axe_finds_nothing_on_a_phone() {
    look_at_every_page(PHONE);
}

#[test]
fn axe_finds_nothing_where_a_token_is_asked_for() {
    let Some(browser) = Browser::start() else { return };
    let Some(axe) = script() else { return };
    let daemon = Daemon::start(&["source.sim.seed=5", "auth.dashboard_read=false"]);
    let mut page = Page::open(browser, &daemon.base);
    page.expect(".sign-in");
    for colours in ["light", "dark"] {
        page.prefer_calm(colours);
        page.wait(colours, &format!("document.documentElement.dataset.theme === '{colours}'"));
        assert_open_to_all(&mut page, &axe, &format!("the login in {colours}"));
    }
}
