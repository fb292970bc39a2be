//! Everything that may be done from the pages, by somebody who logged in: at a desk and on a phone,
//! in light and dark. What the page says was done is asked of the daemon.

use std::time::{Duration, Instant};

use bitcoin::{Denomination, Psbt};
use serde_json::{Value, json};

use super::{
    chromium::Browser,
    daemon::Daemon,
    page::{DESK, PHONE, Page},
    world,
};

/// Presses what an act offers and confirms it; the dialog must say what will happen.
fn confirm(page: &mut Page, says: &str) {
    page.expect_text("dialog[open]", says);
    page.click("dialog[open] .primary");
}

fn done(page: &mut Page) {
    page.wait("the dialog to close", "!document.querySelector('dialog')");
}

/// What a result shows in full, such as a PSBT.
fn shown(page: &mut Page, at: usize) -> String {
    page.expect("dialog[open] .full-name .mono");
    let names = page.evaluate(
        "[...document.querySelectorAll('dialog .full-name .mono')].map((one) => one.textContent)",
    );
    names[at].as_str().unwrap().to_owned()
}

fn coin(daemon: &Daemon, outpoint: &str) -> Value {
    daemon.get(&format!("/wallets/alice/coins/{outpoint}"))
}

fn coins(page: &mut Page, daemon: &Daemon) {
    page.go("/wallets/alice/coins");
    page.click_text(".acts-cell button", "Freeze");
    confirm(page, "until it is unfrozen");
    done(page);
    page.wait(
        "the coin to be frozen",
        "document.querySelector('main').innerText.includes('Frozen')",
    );
    let frozen = daemon.get("/wallets/alice/coins?state=frozen&limit=500");
    let frozen = frozen["coins"].as_array().unwrap();
    assert_eq!(frozen.len(), 1, "{frozen:?}");
    let name = frozen[0]["outpoint"].as_str().unwrap();
    // The other way from the coin's own page.
    page.go(&format!("/coin/{name}"));
    page.click_text(".acts button", "Unfreeze");
    confirm(page, "may use");
    done(page);
    page.wait(
        "the coin to be free",
        "[...document.querySelectorAll('.acts button')].some((one) => one.textContent === 'Freeze')",
    );
    assert_eq!(coin(daemon, name)["frozen"], false);
    page.click_text(".acts button", "Label");
    page.fill("#act-label", "rent of May");
    confirm(page, "Only this wallet knows it");
    done(page);
    assert_eq!(coin(daemon, name)["label"], "rent of May");
    // The page shows it, and whoever changes it starts from what is there.
    page.expect_text("main .facts", "rent of May");
    page.click_text(".acts button", "Label");
    page.expect("dialog[open] #act-label");
    assert_eq!(page.evaluate("document.querySelector('#act-label').value"), json!("rent of May"));
    page.press("Escape");
    done(page);
    let leases =
        |daemon: &Daemon| daemon.get("/wallets/alice/leases")["leases"].as_array().unwrap().len();
    let before = leases(daemon);
    page.go("/wallets/alice/leases");
    page.click_text(".acts-cell button", "Release");
    confirm(page, "can then no longer be completed");
    done(page);
    assert_eq!(leases(daemon), before - 1);
}

fn addresses(page: &mut Page, daemon: &Daemon, name: &str) {
    page.go("/wallets/alice");
    page.click_text(".acts button", "New address");
    confirm(page, "never hands it out again");
    let address = shown(page, 0);
    page.expect("dialog[open] .qr .qr-ink");
    page.assert_fits("a new address");
    page.picture(&format!("act-address-{name}"));
    let own = daemon.get(&format!("/wallets/alice/addresses/{address}"));
    assert_eq!(own["mine"], true);
    page.click_text("dialog[open] button", "Close");
    done(page);
    label_first_address(page, daemon, &format!("Bob’s rent, {name}"));
}

fn label_first_address(page: &mut Page, daemon: &Daemon, label: &str) {
    page.go("/wallets/alice/addresses");
    page.click_text(".acts-cell button", "Label");
    page.fill("#act-label", label);
    confirm(page, "Only this wallet knows it");
    done(page);
    page.expect_text("main tbody", label);
    page.assert_fits("labelled addresses");
    let first = &daemon.get("/wallets/alice/addresses?limit=1")["addresses"][0];
    assert_eq!(first["label"], label, "{first}");
    page.click_text(".acts-cell button", "Label");
    page.expect("dialog[open] #act-label");
    assert_eq!(page.evaluate("document.querySelector('#act-label').value"), json!(label));
    page.press("Escape");
    done(page);
}

fn payments(page: &mut Page, daemon: &Daemon, name: &str) {
    page.go("/wallets/alice");
    page.click_text(".acts button", "Pay");
    page.fill("#act-address", &world::BOB.address(8));
    page.fill("#act-value", "0.0001");
    page.picture(&format!("act-pay-{name}"));
    confirm(page, "Nothing is held, signed or sent yet");
    page.expect_text("dialog[open]", "0.0001 BTC to");
    page.picture(&format!("act-pay-confirm-{name}"));
    confirm(page, "Nothing is sent");
    page.expect_text("dialog[open]", "Built, not signed");
    let psbt: Psbt = shown(page, 0).parse().unwrap();
    let pays = psbt.unsigned_tx.output.iter().any(|out| out.value.to_sat() == 10_000);
    assert!(pays, "{psbt:?}");
    let lock = shown(page, 1);
    let leases = daemon.get("/wallets/alice/leases");
    assert!(leases["leases"].as_array().unwrap().iter().any(|lease| lease["lock"] == lock));
    page.assert_fits("a PSBT");
    page.picture(&format!("act-psbt-{name}"));
    page.press("Escape");
    done(page);
    wrong_amounts(page);
}

/// They are refused before anything is asked. A comma parts decimals here and thousands there, so
/// that it says nothing about how much was meant.
fn wrong_amounts(page: &mut Page) {
    page.click_text(".acts button", "Pay");
    page.fill("#act-address", &world::BOB.address(8));
    page.fill("#act-value", "1.123456789");
    page.click("dialog[open] .primary");
    page.expect_text("dialog .complaint", "at most 8 decimals");
    for amount in ["0,0005", "1,000", "1,234.5"] {
        page.fill("#act-value", amount);
        page.click("dialog[open] .primary");
        let complaint = format!("“{amount}” has a comma: write decimals after a point");
        page.expect_text("dialog .complaint", &complaint);
    }
    // A rate is refused by its field, which says the same.
    page.fill("#act-value", "0.0001");
    page.fill("#act-rate", "2,5");
    page.click("dialog[open] .primary");
    let refused = page.evaluate(
        "(({ validity, title }) => [validity.patternMismatch, title])\
         (document.querySelector('#act-rate'))",
    );
    assert_eq!(refused, json!([true, "A number with up to two decimals after a point"]));
    page.press("Escape");
    done(page);
}

fn bump(page: &mut Page, daemon: &Daemon, name: &str) {
    let pool = daemon.get("/wallets/alice/mempool");
    let own = pool["txs"].as_array().unwrap().iter().find(|tx| tx["own"] == true);
    let txid = own.unwrap_or_else(|| panic!("{pool}"))["txid"].as_str().unwrap().to_owned();
    // Bob's wallet hears of it by itself. From then on the page has a label for each of the two.
    let deadline = Instant::now() + Duration::from_secs(60);
    let hears = |pool: &Value| pool["txs"].as_array().unwrap().iter().any(|tx| tx["txid"] == *txid);
    while !hears(&daemon.get("/wallets/bob/mempool")) {
        assert!(Instant::now() < deadline, "Bob's wallet doesn't hear of {txid}");
        std::thread::sleep(Duration::from_millis(50));
    }
    page.go("/mempool");
    page.expect_text("main", "sat/vB");
    page.picture(&format!("mempool-{name}"));
    page.go(&format!("/tx/{txid}"));
    page.expect_text("main", "Replaces");
    page.expect_text("main .facts + .facts", "sat/vB");
    page.picture(&format!("act-tx-{name}"));
    page.click_text(".acts button", "Pay more");
    page.fill("#act-rate", "25");
    let locks = || daemon.get("/wallets/alice/leases")["leases"].clone();
    let before = locks();
    confirm(page, "Nothing is held, signed or sent yet");
    page.expect_text("dialog[open]", "more than now");
    page.picture(&format!("act-bump-confirm-{name}"));
    assert_eq!(locks(), before, "a look leases nothing");
    let previewed = page.evaluate("document.querySelector('dialog[open]').innerText");
    confirm(page, "the first transaction stands");
    page.expect_text("dialog[open]", "Built, not signed");
    let psbt: Psbt = shown(page, 0).parse().unwrap();
    let fee = psbt.fee().unwrap().to_string_in(Denomination::Bitcoin);
    let previewed = previewed.as_str().unwrap();
    assert!(previewed.contains(&format!("a fee of {fee} BTC, ")), "{fee}: {previewed}");
    let first = daemon.get(&format!("/txs/{txid}"));
    let spent: Vec<String> =
        psbt.unsigned_tx.input.iter().map(|input| input.previous_output.to_string()).collect();
    assert!(
        first["inputs"]
            .as_array()
            .unwrap()
            .iter()
            .all(|input| { spent.contains(&input["outpoint"].as_str().unwrap().to_owned()) })
    );
    page.press("Escape");
    done(page);
    page.click_text(".acts button", "Label in alice");
    page.fill("#act-label", "to Bob");
    confirm(page, "Only this wallet knows it");
    done(page);
    page.expect_text("main .ends", "to Bob");
}

fn jobs(page: &mut Page, daemon: &Daemon) {
    let runs = |daemon: &Daemon| {
        let jobs = daemon.get("/jobs");
        let job = jobs["jobs"].as_array().unwrap().iter().find(|job| job["job"] == "prune_chain");
        job.unwrap()["runs"].as_u64().unwrap()
    };
    let before = runs(daemon);
    page.go("/rooms");
    page.click_job("Prune chain");
    page.expect_text("dialog[open]", "The job runs now");
    // An administrator's token is asked for the first time; within five minutes, not again.
    let is_asked = page.evaluate("Boolean(document.querySelector('#act-token'))") == json!(true);
    if is_asked {
        page.fill("#act-token", &daemon.cookie());
    }
    page.click("dialog[open] .primary");
    done(page);
    assert!(runs(daemon) > before, "the job didn't run");
    page.click_job("Prune chain");
    page.expect_text("dialog[open]", "The job runs now");
    assert_eq!(page.evaluate("document.querySelector('#act-token')"), json!(null));
    page.press("Escape");
    done(page);
}

fn every_act(page: &mut Page, daemon: &Daemon, name: &str) {
    page.expect_text("#who", "cookie");
    coins(page, daemon);
    addresses(page, daemon, name);
    payments(page, daemon, name);
    bump(page, daemon, name);
    jobs(page, daemon);
}

fn in_both_colours(size: (u32, u32), device: &str) {
    let Some(browser) = Browser::start() else { return };
    let daemon = Daemon::start(&world::STILL);
    world::make_wallets(&daemon);
    world::let_alice_pay(&daemon);
    let mut page = Page::open(browser, &daemon.base);
    page.resize(size);
    page.expect_text("#who", "Log in");
    // A guest is offered nothing that he may not do.
    page.go("/wallets/alice");
    assert_eq!(page.number("document.querySelectorAll('main .button.small').length"), 0);
    page.log_in(&daemon.cookie());
    for colours in ["light", "dark"] {
        page.prefer_calm(colours);
        every_act(&mut page, &daemon, &format!("{device}-{colours}"));
    }
    page.click("#who");
    confirm(&mut page, "Logged out, it can still read");
    page.expect_text("#who", "Log in");
    page.assert_clean();
}

#[test]
fn everything_is_done_at_a_desk() {
    in_both_colours(DESK, "desk");
}

#[test]
fn everything_is_done_on_a_phone() {
    in_both_colours(PHONE, "phone");
}

#[test]
fn a_stopped_room_is_resumed_by_an_administrator() {
    let Some(browser) = Browser::start() else { return };
    let daemon = Daemon::start_unready(&world::STOPPING);
    let mut page = Page::open(browser, &daemon.base);
    page.expect("#who:not([hidden])");
    page.log_in(&daemon.cookie());
    page.go("/rooms");
    page.expect("[data-room=chain][data-state=stopped]");
    for (size, colours) in [(DESK, "light"), (PHONE, "dark")] {
        page.resize(size);
        page.prefer_calm(colours);
        page.expect("[data-room=chain][data-state=stopped]");
        page.click_text(".room-panel .acts button", "Resume");
        page.picture(&format!("act-resume-{colours}"));
        if page.evaluate("Boolean(document.querySelector('#act-token'))") == json!(true) {
            page.fill("#act-token", &daemon.cookie());
        }
        confirm(&mut page, "nothing is lost");
        done(&mut page);
    }
    let resumed = || {
        let events = daemon.get("/events?kind=room_resumed&limit=100");
        events["events"].as_array().unwrap().len()
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while resumed() < 2 {
        assert!(std::time::Instant::now() < deadline, "the room was resumed {} times", resumed());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
