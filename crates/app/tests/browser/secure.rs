//! The dashboard over TLS: a browser offers HTTP/2 beside HTTP/1.1 and gets what is spoken.

use serde_json::json;

use super::{chromium::Browser, daemon::Daemon, page::Page};

#[test]
fn the_dashboard_comes_over_tls() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let cert = format!("http.tls_cert={}", cert.display());
    let key = format!("http.tls_key={}", key.display());
    let still = "source.sim.block_seconds=0";
    let daemon = Daemon::start_unready(&[&cert, &key, "source.sim.seed=5", still]);
    assert!(daemon.base.starts_with("https://"), "{}", daemon.base);
    let mut page = Page::open(browser, &daemon.base);
    page.expect_text("#link-state", "Live");
    page.expect("#tip-height");
    assert_eq!(page.evaluate("location.protocol"), json!("https:"));
    let spoken = "performance.getEntriesByType('navigation')[0].nextHopProtocol";
    assert_eq!(page.evaluate(spoken), json!("http/1.1"));
    page.log_in(&daemon.cookie());
    page.assert_clean();
}
