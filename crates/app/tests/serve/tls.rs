//! The same interface over TLS.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use unspent_testkit::peers::required;

use crate::daemon::{Daemon, Folder, ended};

/// A certificate for `localhost` and its key, as files.
pub(crate) fn certificate(folder: &Folder) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.beside("cert.pem"), folder.beside("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (cert, key)
}

/// What makes a daemon use them.
fn settings(cert: &Path, key: &Path) -> [String; 2] {
    [format!("http.tls_cert={}", cert.display()), format!("http.tls_key={}", key.display())]
}

/// A client that trusts the certificate and offers these protocols.
fn connect(
    daemon: &Daemon,
    cert: &Path,
    protocols: &[&str],
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(cert).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, TcpStream::connect(daemon.address).unwrap())
}

#[test]
fn the_interface_is_served_over_tls() {
    let folder = Folder::new();
    let (cert, key) = certificate(&folder);
    let settings = settings(&cert, &key);
    let daemon = folder.start(&[&settings[0], &settings[1]]);
    let mut stream = connect(&daemon, &cert, &[]);
    let head = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // Some servers close without a goodbye; what came counts.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("; Secure"), "the session cookie stays on TLS");
    let lines: Vec<&str> = answer.lines().collect();
    let set = lines.iter().find(|line| line.starts_with("set-cookie: __Host-unspent_guest_"));
    let set = set.unwrap_or_else(|| panic!("a browser must know that we alone set it: {answer}"));
    assert!(set.contains("Path=/;") && !set.contains("Domain"), "what the prefix demands");
    // Plain HTTP gets no answer.
    let mut plain = TcpStream::connect(daemon.address).unwrap();
    plain.write_all(head.as_bytes()).unwrap();
    let mut nothing = Vec::new();
    let _ = plain.read_to_end(&mut nothing);
    assert!(!nothing.starts_with(b"HTTP/1.1 200"));
    drop(daemon);
    std::fs::write(&key, "no key").unwrap();
    let mut command = crate::daemon::unspent(&folder.data());
    command.args(["--json", "serve", "--listen", "127.0.0.1:0"]);
    command.args(["--set", &settings[0], "--set", &settings[1]]);
    let (code, _, err) = ended(command);
    assert_eq!((code, err.contains("certificate or its key")), (1, true), "{err}");
}

#[test]
fn who_offers_http_2_as_well_is_answered_over_http_1() {
    let folder = Folder::new();
    let (cert, key) = certificate(&folder);
    let settings = settings(&cert, &key);
    let daemon = folder.start(&[&settings[0], &settings[1]]);
    let mut stream = connect(&daemon, &cert, &["h2", "http/1.1"]);
    let head = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert_eq!(stream.conn.alpn_protocol(), Some(b"http/1.1".as_slice()));
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// One that would agree to HTTP/2 over TLS.
fn curl() -> Result<(), String> {
    let found = Command::new("curl").arg("--version").output();
    let found = found.map_err(|error| format!("curl (scripts/deps curl installs it): {error}"))?;
    let says = String::from_utf8_lossy(&found.stdout);
    let knows = |word: &str| says.split_whitespace().any(|one| one == word);
    if knows("https") && knows("HTTP2") { Ok(()) } else { Err(format!("it can't: {says}")) }
}

#[test]
fn curl_reads_it_over_tls_with_nothing_set() {
    let Some(()) = required("curl with TLS and HTTP/2", curl()) else { return };
    let folder = Folder::new();
    let (cert, key) = certificate(&folder);
    let settings = settings(&cert, &key);
    let daemon = folder.start(&[&settings[0], &settings[1]]);
    let port = daemon.address.port();
    let mut command = Command::new("curl");
    command.args(["-v", "--fail", "--max-time", "60", "--noproxy", "*", "--cacert"]).arg(&cert);
    command.args(["--resolve", &format!("localhost:{port}:127.0.0.1")]);
    command.arg(format!("https://localhost:{port}/healthz"));
    let (code, said, told) = ended(command);
    assert_eq!(code, 0, "{said}\n{told}");
    assert!(told.contains("HTTP/1.1 200"), "{told}");
}
