//! Every page, by clicks and keys, at a desk and on a phone, in light and dark.

use serde_json::json;

use super::{
    chromium::Browser,
    daemon::Daemon,
    page::{DESK, PHONE, Page},
    world,
};

/// A browser, a daemon with two wallets, and the dashboard; `None` where there is no browser.
fn open() -> Option<(Daemon, Page)> {
    let browser = Browser::start()?;
    let daemon = Daemon::start(&world::SETTINGS);
    world::make_wallets(&daemon);
    world::let_alice_pay(&daemon);
    let page = Page::open(browser, &daemon.base);
    Some((daemon, page))
}

fn tab(name: &str) -> String {
    format!("#tabs a[data-tab={}]", json!(name))
}

#[test]
fn the_overview_shows_rooms_blocks_plots_and_events() {
    let Some((daemon, mut page)) = open() else { return };
    page.wait("a tip", "document.querySelector('#tip-height')?.textContent.match(/^[\\d,]+$/)");
    let of_rooms = ["blocks", "coin-set", "txstore-size", "txstore-backlog", "wallets"];
    for panel in of_rooms.into_iter().chain(["tip", "rooms", "storage", "events"]) {
        page.expect(&format!("section[aria-labelledby=panel-{panel}]"));
    }
    page.wait("blocks", "document.querySelectorAll('.tile').length >= 8");
    page.wait("all plots", "document.querySelectorAll('.chart .chart-line').length >= 4");
    page.wait("the backlog", "document.querySelectorAll('[data-reason]').length >= 4");
    page.wait("events", "document.querySelectorAll('.event').length >= 3");
    page.wait("wallets", "document.querySelectorAll('.wallet-line .bar-piece').length >= 2");
    page.expect_text("[data-room=chain]", "Following");
    page.expect_text("[data-room=wallet]", "Following");
    page.expect_text("#link-state", "Live");
    // A block that comes while we look moves in by itself.
    let before = page.text("#tip-height");
    page.wait(
        "the next block",
        &format!("document.querySelector('#tip-height').textContent !== {}", json!(before)),
    );
    let shown = page.text("[data-room=chain] .room-tip").replace(',', "");
    let stored = daemon.get("/blocks/tip")["height"].as_u64().unwrap();
    assert!(stored.abs_diff(shown.parse().unwrap()) <= 3, "{shown} is shown, {stored} is stored");
    page.expect(".tile.is-stale");
    page.resize((1280, 1420));
    page.picture("overview-light");
    page.prefer("dark");
    page.picture("overview-dark");
    page.assert_clean();
}

#[test]
fn every_page_is_reached_by_clicks_and_nothing_complains() {
    let Some((_daemon, mut page)) = open() else { return };
    page.click(&tab("wallets"));
    page.wait("both wallets", "document.querySelectorAll('.wallet-card').length === 2");
    page.picture("wallets");
    page.click(".wallet-card h2 a");
    page.expect(".subtabs a[aria-current]");
    for list in ["coins", "leases", "addresses", "journal", "transactions"] {
        page.click(&format!(".subtabs a[href$='/{list}']"));
        page.expect(&format!(".subtabs a[href$='/{list}'][aria-current]"));
        page.wait(list, "document.querySelectorAll('.table tbody tr').length >= 1");
        page.picture(&format!("wallet-{list}"));
    }
    page.click(".table tbody a");
    page.expect_text("main", "Outputs");
    page.picture("transaction");
    page.expect("details.raw");
    page.click(".end .end-index");
    page.expect(".timeline .timeline-node");
    page.expect(".step");
    page.picture("coin");
    page.click(".facts a[href^='#/address/']");
    page.wait("coins of an address", "document.querySelector('.table, .empty')");
    page.expect_text(".eyebrow", "Address");
    page.picture("address");
    page.click(&tab("lookup"));
    page.click(".choices a");
    page.expect_text("main", "Created");
    page.picture("block");
    page.click(&tab("rooms"));
    page.wait("rooms", "document.querySelectorAll('.room-panel').length === 4");
    page.expect_text("main", "Prune chain");
    page.picture("rooms");
    page.click(".brand");
    page.expect("#tip-height");
    page.assert_clean();
}

#[test]
fn long_lists_grow_by_pages() {
    let Some((daemon, mut page)) = open() else { return };
    let all = daemon.get("/wallets/alice/journal?limit=500");
    let all = all["lines"].as_array().unwrap().len();
    assert!(all > 50, "only {all} lines: too few for two pages");
    page.click(&tab("wallets"));
    page.click(".wallet-card h2 a");
    // The page is whole, with everything above the tabs in its place.
    page.expect(".table tbody tr");
    page.click(".subtabs a[href$='/journal']");
    page.expect(".subtabs a[href$='/journal'][aria-current]");
    page.wait("a page", "document.querySelectorAll('.table tbody tr').length === 50");
    page.click(".more");
    page.wait("the next page", "document.querySelectorAll('.table tbody tr').length > 50");
    let numbers = "[...document.querySelectorAll('.table tbody td:first-child')]\
        .map((cell) => Number(cell.textContent.replace(',', '')))";
    // Newest first, without a gap: blocks go on coming, so that the first number isn't known.
    let in_order =
        format!("{numbers}.every((number, at, all) => at === 0 || number === all[at - 1] - 1)");
    assert_eq!(page.evaluate(&in_order), json!(true), "{}", page.evaluate(numbers));
    page.assert_clean();
}

#[test]
fn the_keyboard_is_enough() {
    let Some((daemon, mut page)) = open() else { return };
    page.expect("#tip-height");
    page.press("Tab");
    assert_eq!(page.evaluate("document.activeElement.className"), json!("skip"));
    page.press("Enter");
    page.wait("the skip link", "document.activeElement.id === 'main'");
    page.press("/");
    page.wait("the search field", "document.activeElement.id === 'find-field'");
    page.type_in("100");
    page.press("Enter");
    page.expect_text("h1", "100");
    // By hash, by coin, by address, by a name that nobody has.
    let block = daemon.get("/blocks/100");
    let hash = block["block_hash"].as_str().unwrap();
    find(&mut page, hash);
    page.expect_text(".full-name", hash);
    let coin = &daemon.get("/deltas/100")["deltas"][0]["created"][0];
    let (txid, name) = (coin["txid"].as_str().unwrap(), coin["outpoint"].as_str().unwrap());
    find(&mut page, name);
    page.expect(".timeline");
    let owner = daemon.get(&format!("/utxos/{name}"));
    let owner = owner["address"].as_str().unwrap();
    find(&mut page, owner);
    page.expect_text(".eyebrow", "Address");
    find(&mut page, txid);
    page.expect_text(".eyebrow", "Transaction");
    find(&mut page, "alice");
    page.expect_text("h1", "alice");
    find(&mut page, "nobody at all");
    page.expect_text("main", "Nothing found");
    // Markup in what was typed stays text.
    find(&mut page, "<img src=x onerror=alert(1)>");
    page.expect_text(".empty", "<img src=x");
    assert_eq!(page.number("document.querySelectorAll('main img').length"), 0);
    page.assert_clean();
}

fn find(page: &mut Page, what: &str) {
    page.press("/");
    page.wait("the search field", "document.activeElement.id === 'find-field'");
    page.type_in(what);
    page.press("Enter");
}

#[test]
fn a_phone_shows_every_page_without_scrolling_sideways() {
    let Some((daemon, mut page)) = open() else { return };
    let coin = &daemon.get("/deltas/100")["deltas"][0]["created"][0];
    let (txid, name) = (coin["txid"].as_str().unwrap(), coin["outpoint"].as_str().unwrap());
    let routes = [
        "/".to_owned(),
        "/lookup".to_owned(),
        "/mempool".to_owned(),
        "/block/100".to_owned(),
        format!("/coin/{name}"),
        format!("/proof/{name}"),
        format!("/tx/{txid}"),
        "/wallets".to_owned(),
        "/wallets/alice".to_owned(),
        "/wallets/alice/coins".to_owned(),
        "/wallets/alice/addresses".to_owned(),
        "/wallets/alice/journal".to_owned(),
        "/rooms".to_owned(),
    ];
    page.resize(PHONE);
    for (at, route) in routes.iter().enumerate() {
        page.evaluate(&format!("location.hash = {}", json!(route)));
        page.wait(
            route,
            "document.querySelector('main .panel') && \
            !document.querySelector('main .ghosts')",
        );
        page.assert_fits(route);
        page.picture(&format!("phone-{at:02}"));
    }
    page.assert_clean();
}

#[test]
fn a_proof_is_drawn_as_the_path_to_the_root() {
    let Some((daemon, mut page)) = open() else { return };
    let coin = &daemon.get("/deltas/100")["deltas"][0]["created"][0];
    let name = coin["outpoint"].as_str().unwrap();
    page.resize(DESK);
    page.evaluate(&format!("location.hash = {}", json!(format!("/coin/{name}"))));
    let link = "main a[href^='#/proof/']";
    page.wait("a link to the proof", &format!("document.querySelector(\"{link}\")"));
    page.click(link);
    page.wait("the drawing", "document.querySelectorAll('.path-node.is-given').length > 4");
    let root = page.evaluate("document.querySelector('main .panel .full-name .mono').textContent");
    // Blocks go on coming, so the root itself may be another by now.
    assert_eq!(root.as_str().map(str::len), Some(64), "{root}");
    page.picture("proof");
    page.assert_clean();
}

#[test]
fn colours_follow_the_system_until_somebody_chooses() {
    let Some((_daemon, mut page)) = open() else { return };
    let theme = "document.documentElement.dataset.theme";
    let paper = "getComputedStyle(document.body).backgroundColor";
    page.prefer("light");
    page.wait("light", &format!("{theme} === 'light'"));
    let light = page.evaluate(paper);
    page.prefer("dark");
    page.wait("dark", &format!("{theme} === 'dark'"));
    assert_ne!(page.evaluate(paper), light);
    page.click("#theme");
    page.wait("light by choice", &format!("{theme} === 'light'"));
    page.reload("#tip-height");
    assert_eq!(page.evaluate(theme), json!("light"), "the choice was forgotten");
    page.resize(DESK);
    page.assert_clean();
}

#[test]
fn without_a_session_a_token_is_asked_for() {
    let Some(browser) = Browser::start() else { return };
    let daemon = Daemon::start(&["source.sim.seed=5", "auth.dashboard_read=false"]);
    let mut page = Page::open(browser, &daemon.base);
    page.expect(".sign-in");
    page.click("#token");
    page.type_in("wrong");
    page.press("Enter");
    page.wait("a refusal", "document.querySelector('.complaint').textContent");
    page.evaluate("document.querySelector('#token').value = ''");
    page.type_in(&daemon.cookie());
    page.press("Enter");
    page.expect("#tip-height");
    page.expect_text("#link-state", "Live");
    // The secret is nowhere a script could find it.
    let kept =
        page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])");
    assert!(!kept.to_string().contains(&daemon.cookie()), "{kept}");
}
