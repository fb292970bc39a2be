//! A room comes to the dashboard by its folder and one line: no shared file has to know it.

use serde_json::json;

use super::{chromium::Browser, daemon::Daemon, page::Page};

/// The room that shows how one is added, and the list of rooms as it is served.
const EXAMPLE: &str = include_str!("../../../rooms/example/room/web/index.js");
const LIST: &str = include_str!("../../src/web/rooms.js");

/// The daemon doesn't have the room: its status is told as if it had.
const STATUS: &str = r#"
    const ask = window.fetch;
    window.fetch = async (address, ...more) => {
      const answer = await ask(address, ...more);
      if (!String(address).endsWith("/status")) return answer;
      const said = await answer.json();
      said.rooms.push({ room: "counting", state: "following", tip: null, lag: 0 });
      said.counting = { blocks: 4321, payments: 99 };
      return new Response(JSON.stringify(said), { headers: answer.headers });
    };
"#;

#[test]
fn the_example_room_is_plugged_in_by_its_folder_and_one_line() {
    let Some(browser) = Browser::start() else { return };
    let daemon = Daemon::start(&["source.sim.seed=5"]);
    let list = format!("{LIST}export {{ counting }} from \"./rooms/counting/index.js\";\n");
    let scripts = [("rooms.js", list.as_str()), ("rooms/counting/index.js", EXAMPLE)];
    let mut page = Page::open_with(browser, &daemon.base, &scripts, STATUS);
    page.expect_text("section[aria-labelledby=panel-counting]", "4,321");
    page.expect_text("[data-room=counting]", "Following");
    // What has no place of its own comes last.
    let last = "document.querySelector('.grid').lastElementChild.getAttribute('aria-labelledby')";
    assert_eq!(page.evaluate(last), json!("panel-counting"));
    page.click("#tabs a[data-tab=counting]");
    page.expect_text("h1", "Counted blocks");
    page.expect_text("main", "99 payments");
    let told = "import('/assets/parts/event.js').then(({ eventText }) => \
                eventText({ kind: 'block_counted', body: { height: 1200 } }).join(''))";
    assert_eq!(page.evaluate(told), json!("Block 1,200 counted"));
    page.assert_clean();
}
