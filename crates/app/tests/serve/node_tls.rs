//! A node behind TLS: a proxy on this machine that ends it, in front of a real node.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use unspent_testkit::peers::Knots;

use crate::{
    daemon::Folder,
    node::{start_with, wait_for_tip},
    webhooks::own_root,
    world::descriptor,
};

/// Starts a proxy in front of a node; its threads end with the process.
fn proxy(node: String, tls: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (node, tls) = (node.clone(), tls.clone());
            std::thread::spawn(move || {
                let outside = StreamOwned::new(ServerConnection::new(tls).unwrap(), stream);
                pass_on(outside, TcpStream::connect(node).unwrap())
            });
        }
    });
    address
}

/// Requests one way and answers the other, until somebody hangs up.
fn pass_on(outside: impl Read + Write, node: TcpStream) -> Option<()> {
    let (mut outside, mut node) = (BufReader::new(outside), BufReader::new(node));
    loop {
        let request = message(&mut outside)?;
        node.get_mut().write_all(&request).ok()?;
        let answer = message(&mut node)?;
        outside.get_mut().write_all(&answer).ok()?;
        outside.get_mut().flush().ok()?;
    }
}

/// A head and as much of a body as it says.
fn message(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let (mut bytes, mut length) = (Vec::new(), 0);
    loop {
        let before = bytes.len();
        from.read_until(b'\n', &mut bytes).ok().filter(|read| *read > 0)?;
        let line = String::from_utf8_lossy(&bytes[before..]).to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    from.take(length).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[test]
fn a_node_behind_tls_is_followed_when_its_certificate_is_vouched_for() {
    let Some(node) = Knots::start(&[]) else { return };
    node.make_wallet();
    node.mine(20);
    let folder = Folder::new();
    let (root, tls) = own_root(&folder);
    let plain = node.url().strip_prefix("http://").unwrap().to_owned();
    let url = format!("source.url=https://{}", proxy(plain, tls));
    // Nobody whom everybody knows vouches for it, so no password is sent.
    let daemon = start_with(&node, &folder, None, &[&url]);
    daemon.wait_for("the reason is told", |client| {
        let source = client.get("/api/v1/status").ok()["source"].clone();
        source["connected"] == false && source["error"].to_string().contains("certificate")
    });
    assert_eq!(daemon.end(), 0);
    let trusted = format!("source.root_certificate={}", root.display());
    let daemon = start_with(&node, &folder, None, &[&url, &trusted]);
    let wallet = json!({ "name": "alice", "descriptor": descriptor() });
    daemon.admin().post("/api/v1/wallets", &wallet).ok();
    wait_for_tip(&node, &daemon);
    node.mine(3);
    wait_for_tip(&node, &daemon);
    assert_eq!(daemon.end(), 0);
    std::fs::write(&root, "no certificate").unwrap();
    let serve = crate::daemon::Daemon::command(
        &folder.data(),
        &["network=bitcoin-regtest", "source.kind=bitcoin-node", &url, &trusted],
    );
    let (code, _, err) = crate::daemon::ended(serve);
    assert_eq!((code, err.contains("root.pem")), (1, true), "{err}");
}
