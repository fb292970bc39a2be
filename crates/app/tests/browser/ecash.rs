//! Ecash on the dashboard: accounts, payments, a payment's timeline, a token to be scanned.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use unspent_testkit::ecash::{MintSettings, Nutshell};

use super::{
    chromium::Browser,
    daemon::Daemon,
    page::{DESK, PHONE, Page},
};

const SETTINGS: [&str; 3] = ["source.sim.seed=5", "ecash.enabled=true", "ecash.allow_private=true"];
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_for(daemon: &Daemon, payment: &Value, state: &str) {
    let path = format!("/ecash/payments/{}", payment["id"].as_str().unwrap());
    let deadline = Instant::now() + PATIENCE;
    while daemon.get(&path)["state"] != state {
        assert!(Instant::now() < deadline, "not {state}: {}", daemon.get(&path));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn accounts_payments_and_a_token_are_shown() {
    let Some(browser) = Browser::start() else { return };
    let Some(mint) = Nutshell::start(MintSettings::default()) else { return };
    let daemon = Daemon::start(&SETTINGS);
    daemon.post("/ecash/accounts", &json!({ "mint": mint.url(), "name": "purse" }));
    let received = daemon.post("/ecash/receive", &json!({ "amount": "200" }));
    wait_for(&daemon, &received, "COMPLETED");
    let sent = daemon.post("/ecash/send", &json!({ "amount": "50" }));
    wait_for(&daemon, &sent, "PENDING");
    let mut page = Page::open(browser, &daemon.base);
    page.expect_text("section[aria-labelledby=panel-ecash]", "purse");
    page.expect("[data-payments='CASHU_SEND_SWAP PENDING']");
    page.expect_text("[data-room=ecash]", "Follows no chain");
    page.click("#tabs a[data-tab=ecash]");
    page.wait("both payments", "document.querySelectorAll('section .table tbody tr').length >= 3");
    page.picture("ecash");
    page.click("a[href^='#/ecash/']");
    page.expect(".timeline .timeline-node");
    page.expect(".steps .step");
    // Whoever looks on as a guest is asked to log in; the machine's owner is shown the token.
    let cookie = json!(format!("#token={}", daemon.cookie().trim()));
    page.evaluate(&format!("location.hash = {cookie}"));
    page.reload("section[aria-labelledby=panel-ecash]");
    let own = json!(format!("#/ecash/{}", sent["id"].as_str().unwrap()));
    page.evaluate(&format!("location.hash = {own}"));
    page.expect_text("main", "Nobody has claimed it yet");
    page.click(".panel .button");
    page.expect(".token .qr .qr-ink");
    page.expect_text(".token .full-name", "cashu");
    page.resize((1280, 1300));
    page.picture("ecash-payment");
    page.prefer("dark");
    page.picture("ecash-payment-dark");
    page.resize(PHONE);
    page.assert_fits("a payment");
    page.picture("phone-ecash-payment");
    page.evaluate("location.hash = '#/ecash'");
    page.wait("all payments", "document.querySelectorAll('section .table tbody tr').length >= 3");
    page.assert_fits("all payments");
    page.picture("phone-ecash");
    page.resize(DESK);
    page.assert_clean();
    // A refusal is noted by the browser, so it comes last.
    page.evaluate("fetch('/api/v1/session', { method: 'DELETE' }).then((answer) => answer.ok)");
    page.reload("section .table tbody tr");
    page.evaluate(&format!("location.hash = {own}"));
    page.expect_text("main", "Nobody has claimed it yet");
    page.click(".panel .button");
    page.expect_text(".complaint", "scope");
}
