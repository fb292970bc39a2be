//! Who may vouch for the other end of a TLS connection.

use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

/// Certificates of those who may vouch, in the place of the usual ones.
#[derive(Clone, Debug)]
pub struct TrustedRoots(RootCerts);

impl TrustedRoots {
    /// Reads certificates in PEM.
    ///
    /// # Errors
    ///
    /// The reason, when something in it can't be read or there is no certificate.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let mut found = Vec::new();
        for item in parse_pem(pem) {
            if let PemItem::Certificate(certificate) = item.map_err(|error| error.to_string())? {
                found.push(certificate);
            }
        }
        if found.is_empty() {
            return Err("it contains no certificate".into());
        }
        Ok(Self(RootCerts::new_with_certs(&found)))
    }
}

/// TLS with some roots; with the usual ones when there are none.
pub fn tls(roots: Option<&TrustedRoots>) -> TlsConfig {
    let roots = roots.map_or(RootCerts::WebPki, |roots| roots.0.clone());
    TlsConfig::builder().root_certs(roots).build()
}
