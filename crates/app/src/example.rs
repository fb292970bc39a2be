//! The example room, plugged in by its line in the list of rooms and by nothing else.

use serde_json::Value;
use unspent_example_room as counting;
use unspent_server::config::{GivenFlag, SettingSources, load};

use crate::serve::{Daemon, ServerThread, build};

fn get(url: &str, cookie: &str) -> Value {
    let mut answer = ureq::get(url)
        .header("authorization", &format!("Bearer {cookie}"))
        .call()
        .expect("the daemon answers");
    answer.body_mut().read_json().expect("the answer is JSON")
}

#[test]
fn a_room_is_served_by_its_folder_and_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path().display().to_string();
    let over = [
        ("data_dir", data_dir.as_str()),
        ("counting.enabled", "true"),
        ("source.sim.blocks", "20"),
        ("source.sim.block_seconds", "0"),
        ("http.listen", "127.0.0.1:0"),
    ];
    let flags = over.map(|(key, value)| GivenFlag::new(key, "--set", value)).into();
    let sources = SettingSources { flags, ..SettingSources::default() };
    let config = load(crate::ROOMS, &sources).expect("a configuration");
    let daemon = Daemon::new(config.clone()).expect("a daemon");
    let url = daemon.url().to_owned();
    let engine = daemon.start(build::origin(&config).expect("a source")).expect("an engine");
    let server = ServerThread::start(daemon, engine.clone()).expect("a server");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while counting::figures(&engine) != Some((21, 0)) {
        assert!(std::time::Instant::now() < until, "{:?}", engine.status());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    while !folder.path().join(".cookie").exists() {
        assert!(std::time::Instant::now() < until, "the cookie is never written");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let cookie = std::fs::read_to_string(folder.path().join(".cookie")).expect("a cookie");
    let api = format!("{url}/api/v1");
    assert_eq!(get(&format!("{api}/counting"), cookie.trim())["blocks"], 21);
    // Figures are kept for a moment.
    let mut status = get(&format!("{api}/status"), cookie.trim());
    while status["counting"]["blocks"] != 21 {
        assert!(std::time::Instant::now() < until, "{status}");
        std::thread::sleep(std::time::Duration::from_millis(100));
        status = get(&format!("{api}/status"), cookie.trim());
    }
    let rooms = status["rooms"].as_array().expect("rooms");
    assert!(rooms.iter().any(|room| room["room"] == "counting"), "{status}");
    let document = get(&format!("{api}/openapi.json"), cookie.trim());
    assert!(document["paths"]["/api/v1/counting"].is_object(), "it is described");
    server.end().expect("the server ends well");
    engine.shutdown();
}
