//! The same interface over TLS.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};

use crate::daemon::Folder;

/// A certificate for `localhost` and its key, as files.
pub(crate) fn certificate(folder: &Folder) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.beside("cert.pem"), folder.beside("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (cert, key)
}

#[test]
fn the_interface_is_served_over_tls() {
    let folder = Folder::new();
    let (cert, key) = certificate(&folder);
    let settings =
        [format!("http.tls_cert={}", cert.display()), format!("http.tls_key={}", key.display())];
    let daemon = folder.start(&[&settings[0], &settings[1]]);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&cert).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(daemon.address).unwrap();
    let mut stream = StreamOwned::new(connection, socket);
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
    let (code, _, err) = crate::daemon::ended(command);
    assert_eq!((code, err.contains("certificate or its key")), (1, true), "{err}");
}
