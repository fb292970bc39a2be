//! What happens while somebody looks: reorganisations, and a daemon that goes away and comes back.

use serde_json::json;

use super::{chromium::Browser, daemon::Daemon, page::Page, world};

#[test]
fn a_reorganisation_sinks_into_a_side_branch_as_it_happens() {
    let Some(browser) = Browser::start() else { return };
    let daemon = Daemon::start(&world::SETTINGS);
    let mut page = Page::open(browser, &daemon.base);
    page.wait("blocks", "document.querySelectorAll('.tile').length >= 8");
    let known = page.number("document.querySelectorAll('.tile.is-stale').length");
    let told = page.number("document.querySelectorAll('.event[data-kind=reorganisation]').length");
    page.wait(
        "a block that leaves",
        &format!("document.querySelectorAll('.tile.is-stale').length > {known}"),
    );
    page.wait(
        "the event",
        &format!("document.querySelectorAll('.event[data-kind=reorganisation]').length > {told}"),
    );
    page.expect(".link.is-side");
    // The feed and the strip tell the same: each block that left stands beside one that took its
    // place, and the daemon agrees.
    let stale = page.evaluate(
        "[...document.querySelectorAll('.tile.is-stale')].map((tile) => tile.getAttribute('href'))",
    );
    for link in stale.as_array().unwrap() {
        let hash = link.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let found = daemon.get(&format!("/search?q={hash}"));
        assert_eq!(found["matches"], json!([]), "{hash} is still in the chain");
    }
    page.picture("reorganisation");
    // What is known from events is there again after a reload.
    page.reload(".tile.is-stale");
    page.click(".tile.is-stale");
    page.expect_text("main", "This block left the chain");
    page.assert_clean();
}

#[test]
fn a_daemon_that_comes_back_is_found_again_and_no_event_is_lost() {
    let Some(browser) = Browser::start() else { return };
    let mut daemon = Daemon::start(&world::SETTINGS);
    let mut page = Page::open(browser, &daemon.base);
    page.expect_text("#link-state", "Live");
    daemon.kill();
    page.expect_text("#link-state", "isn’t responding");
    daemon.start_again();
    page.expect_text("#link-state", "Live");
    let before = page.text("#tip-height");
    page.wait(
        "the next block",
        &format!("document.querySelector('#tip-height').textContent !== {}", json!(before)),
    );
    let numbers = "import('/assets/live.js').then(({ live }) => live.events.map(({ id }) => id))";
    let numbers = page.evaluate(numbers);
    let numbers: Vec<u64> = serde_json::from_value(numbers).unwrap();
    assert!(numbers.windows(2).all(|pair| pair[0] == pair[1] + 1), "{numbers:?}");
}

#[test]
fn a_timeline_steps_through_states_and_back() {
    let Some(browser) = Browser::start() else { return };
    let daemon = Daemon::start(&world::SETTINGS);
    let mut page = Page::open(browser, &daemon.base);
    page.expect("#tip-height");
    let step = |kind: &str, room: &str, txid: &str, height: Option<u64>, to: Option<&str>| {
        json!({ "kind": kind, "room": room, "txid": txid, "height": height, "to": to,
            "until": null, "block": null })
    };
    let coin = json!({ "txid": "a", "state": "spent", "steps": [
        step("seen", "wallet", "a", None, Some("pending")),
        step("sent", "wallet", "a", None, None),
        step("confirmed", "wallet", "a", Some(7), None),
        step("created", "chain", "a", Some(7), None),
        step("rolled_back", "wallet", "a", Some(7), None),
        step("confirmed", "wallet", "a", Some(8), None),
        step("leased", "wallet", "a", None, None),
        step("spending", "wallet", "b", None, None),
        step("replaced", "wallet", "b", None, None),
        step("spending", "wallet", "c", None, None),
        step("spent", "wallet", "c", Some(9), None),
        step("rolled_back", "wallet", "c", Some(9), None),
        step("spent", "wallet", "c", Some(10), None),
        step("pruned", "chain", "a", None, None),
    ] });
    let states = page.evaluate(&format!(
        "import('/assets/timeline.js').then(({{ statesOf }}) => statesOf({coin}).map((s) => s.state))"
    ));
    let expected = json!([
        "pending",
        "unconfirmed",
        "confirmed",
        "unconfirmed",
        "confirmed",
        "leased",
        "spending",
        "confirmed",
        "spending",
        "spent",
        "spending",
        "spent",
        "forgotten",
    ]);
    assert_eq!(states, expected);
    let amounts = page.evaluate(
        "import('/assets/format.js').then(({ amountText: a }) => \
         [a('0'), a('1'), a('123456789'), a('-50000'), a('2100000000000000')])",
    );
    let expected =
        json!(["0 BTC", "0.00000001 BTC", "1.23456789 BTC", "−0.0005 BTC", "21,000,000 BTC"]);
    assert_eq!(amounts, expected);
    page.assert_clean();
}

#[test]
fn what_a_page_complains_of_is_noticed_and_other_hosts_are_out_of_reach() {
    let Some(browser) = Browser::start() else { return };
    let daemon = Daemon::start(&world::SETTINGS);
    let mut page = Page::open(browser, &daemon.base);
    page.wait("blocks", "document.querySelectorAll('.tile').length >= 8");
    page.assert_clean();
    // The policy refuses the request before it leaves, and that is a complaint.
    let reached = page.evaluate("fetch('http://127.0.0.2:9/').then(() => true, () => false)");
    assert_eq!(reached, json!(false));
    let noticed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| page.assert_clean()));
    let text = noticed.unwrap_err();
    let text = text.downcast_ref::<String>().unwrap();
    assert!(text.contains("Content Security Policy"), "{text}");
}
