//! A server that goes, and things that aren't there: the page says so and shows nothing false.

use std::time::Instant;

use serde_json::json;

use super::{
    chromium::Browser,
    daemon::Daemon,
    page::{DESK, Page},
    world,
};

const AGO: &str = "document.querySelector('main').innerText.match(/\\d+ (s|min|h|days) ago/)";

/// Everything is grey, the banner stands at the top, and no time is told by how long ago it was.
fn assert_grey(page: &mut Page, since: Instant) {
    page.expect("html[data-link=away]");
    eprintln!("grey after {:?}", since.elapsed());
    page.wait("the banner", "!document.querySelector('#away').hidden");
    page.expect_text("#away", "The server hasn’t responded since");
    let top = "document.querySelector('#away').getBoundingClientRect().top";
    assert_eq!(page.number(top), 0, "the banner isn't at the top");
    let grey = "getComputedStyle(document.querySelector('main')).filter";
    assert_eq!(page.evaluate(grey), json!("grayscale(1)"));
    page.wait("no time that passes", &format!("!{AGO}"));
}

#[test]
fn a_server_that_goes_or_hangs_turns_everything_grey() {
    let Some(browser) = Browser::start() else { return };
    let mut daemon = Daemon::start(&world::SETTINGS);
    let mut page = Page::open(browser, &daemon.base);
    page.expect_text("#link-state", "Live");
    page.wait("a time that passes", &format!("{AGO} && document.querySelector('.tile')"));
    // It hangs: the connection stays, and nobody answers.
    daemon.signal("-STOP");
    assert_grey(&mut page, Instant::now());
    page.picture("away");
    daemon.signal("-CONT");
    page.expect("html[data-link=live]");
    assert_eq!(page.evaluate("document.querySelector('#away').hidden"), json!(true));
    page.wait("times that pass again", AGO);
    // It is gone.
    let gone = Instant::now();
    daemon.kill();
    assert_grey(&mut page, gone);
    page.go("/rooms");
    page.wait("no time that passes", &format!("!{AGO}"));
    page.picture("away-rooms");
}

#[test]
fn what_is_not_there_is_said_not_to_be_there() {
    let Some(browser) = Browser::start() else { return };
    let daemon = Daemon::start(&world::STILL);
    let mut page = Page::open(browser, &daemon.base);
    page.expect("#tip-height");
    let nothing = "00".repeat(32);
    page.go(&format!("/tx/{nothing}"));
    page.expect_text("main", "no room knows this transaction");
    page.go(&format!("/block/{nothing}"));
    page.expect_text("main", "no such block is stored");
    page.go("/block/99999999");
    page.expect_text("main h1", "Not found");
    page.go(&format!("/coin/{nothing}:0"));
    page.expect_text("main", "no room knows this coin");
    page.go(&format!("/address/{}", world::BOB.address(999)));
    page.expect_text("main", "Nothing is known about this address");
    page.go("/address/nonsense");
    page.expect_text("main h1", "Something went wrong");
    page.go("/wallets/nobody");
    page.expect_text("main h1", "Not found");
    page.resize(DESK);
    page.picture("unknown");
}
