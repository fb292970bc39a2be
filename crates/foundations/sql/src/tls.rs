//! PostgreSQL over TLS: `sslmode` and `sslrootcert` of a connection string, as libpq means them.
//!
//! | `sslmode` | encrypted | the server proves |
//! |---|---|---|
//! | `disable` | no | nothing |
//! | `prefer`, the default | if the server can | nothing |
//! | `require` | always | nothing; with `sslrootcert` as `verify-ca` |
//! | `verify-ca` | always | that a root signed its certificate |
//! | `verify-full` | always | that, and that the certificate is for the host named |
//!
//! Roots are those of the system, or of the PEM file that `sslrootcert` names. A Unix socket is
//! never encrypted, whatever the mode.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use percent_encoding::percent_decode_str;
use postgres::{
    Client, NoTls,
    config::{Host, SslMode},
};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::SqlError;

/// What a connection string asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TlsTerms {
    mode: TlsMode,
    root: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum TlsMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl TlsTerms {
    /// Takes what is about TLS out of a connection string: the client knows less of it.
    pub(crate) fn split(url: &str) -> Result<(String, Self), SqlError> {
        let mut terms = Self { mode: TlsMode::Prefer, root: None };
        let Some((place, query)) = url.split_once('?') else { return Ok((url.to_owned(), terms)) };
        let mut rest = Vec::new();
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("sslmode", mode)) => terms.mode = TlsMode::named(mode)?,
                Some(("sslrootcert", path)) => terms.root = root(path)?,
                Some(_) | None => rest.push(pair),
            }
        }
        Ok((format!("{place}?{}", rest.join("&")), terms))
    }

    /// Connects on these terms.
    pub(crate) fn connect(&self, config: &postgres::Config) -> Result<Client, ConnectError> {
        let mut config = config.clone();
        let is_local = config.get_hosts().iter().all(|host| !matches!(host, Host::Tcp(_)));
        if is_local || self.mode == TlsMode::Disable {
            config.ssl_mode(SslMode::Disable);
            return config.connect(NoTls).map_err(ConnectError::Client);
        }
        let tls = MakeRustlsConnect::new(self.client_config().map_err(ConnectError::Terms)?);
        if self.mode > TlsMode::Prefer {
            config.ssl_mode(SslMode::Require);
            return config.connect(tls).map_err(ConnectError::Client);
        }
        config.ssl_mode(SslMode::Prefer);
        // A server that speaks another TLS than ours is one without it.
        config
            .connect(tls)
            .or_else(
                |error| {
                    if error.code().is_some() { Err(error) } else { config.connect(NoTls) }
                },
            )
            .map_err(ConnectError::Client)
    }

    fn client_config(&self) -> Result<ClientConfig, SqlError> {
        let provider = Arc::new(ring::default_provider());
        let verifier =
            CertificateVerifier { demand: self.demand()?, provider: Arc::clone(&provider) };
        let versions =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = versions.map_err(|error| SqlError::Other(format!("TLS failed: {error}")))?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        Ok(builder.with_no_client_auth())
    }

    fn demand(&self) -> Result<CertificateDemand, SqlError> {
        Ok(match (self.mode, &self.root) {
            (TlsMode::VerifyFull, root) => CertificateDemand::RootAndName(roots(root.as_deref())?),
            (TlsMode::VerifyCa, root) => CertificateDemand::Root(roots(root.as_deref())?),
            (TlsMode::Require, Some(root)) => CertificateDemand::Root(roots(Some(root))?),
            (TlsMode::Disable | TlsMode::Prefer | TlsMode::Require, _) => {
                CertificateDemand::Nothing
            }
        })
    }
}

/// Why there is no connection.
pub(crate) enum ConnectError {
    Client(postgres::Error),
    Terms(SqlError),
}

impl TlsMode {
    fn named(name: &str) -> Result<Self, SqlError> {
        Ok(match name {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => {
                let known = "disable, prefer, require, verify-ca and verify-full";
                return Err(SqlError::Other(format!("sslmode is one of {known}")));
            }
        })
    }
}

/// `system` is libpq's word for the roots of the system.
fn root(path: &str) -> Result<Option<PathBuf>, SqlError> {
    let decoded = percent_decode_str(path).decode_utf8();
    let decoded = decoded.map_err(|_| SqlError::Other("sslrootcert is not valid UTF-8".into()))?;
    Ok((decoded != "system").then(|| PathBuf::from(&*decoded)))
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, SqlError> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let text = "the system has no root certificates; give some with sslrootcert=PATH";
            return Err(SqlError::Other(text.into()));
        }
        return Ok(roots);
    };
    let shown = file.display();
    let cannot =
        |error| SqlError::Other(format!("can't read the root certificate {shown}: {error}"));
    for found in CertificateDer::pem_file_iter(file).map_err(|error| cannot(error.to_string()))? {
        let certificate = found.map_err(|error| cannot(error.to_string()))?;
        roots.add(certificate).map_err(|error| cannot(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(cannot("it holds no certificate".into()));
    }
    Ok(roots)
}

/// What a server has to prove.
#[derive(Debug)]
enum CertificateDemand {
    Nothing,
    Root(RootCertStore),
    RootAndName(RootCertStore),
}

/// Looks at as much of a certificate as is demanded. That the server has its key is always checked.
#[derive(Debug)]
struct CertificateVerifier {
    demand: CertificateDemand,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let known = self.provider.signature_verification_algorithms.all;
        match &self.demand {
            CertificateDemand::Nothing => {}
            CertificateDemand::Root(roots) | CertificateDemand::RootAndName(roots) => {
                let certificate = ParsedCertificate::try_from(end_entity)?;
                verify_server_cert_signed_by_trust_anchor(
                    &certificate,
                    roots,
                    intermediates,
                    now,
                    known,
                )?;
                if matches!(self.demand, CertificateDemand::RootAndName(_)) {
                    verify_server_name(&certificate, server_name)?;
                }
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a certificate was refused, if it was.
pub(crate) fn refusal(error: &postgres::Error) -> Option<SqlError> {
    let source = std::error::Error::source(error)?.downcast_ref::<std::io::Error>()?;
    let Error::InvalidCertificate(why) = source.get_ref()?.downcast_ref::<Error>()? else {
        return None;
    };
    #[allow(clippy::wildcard_enum_match_arm)]
    let why = match why {
        CertificateError::UnknownIssuer => {
            "no known root signed it; give the right one with sslrootcert=PATH".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("it is for another host name ({why})")
        }
        other => other.to_string(),
    };
    Some(SqlError::Other(format!("the server's certificate was refused: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(url: &str) -> (String, TlsMode, Option<PathBuf>) {
        let (rest, terms) = TlsTerms::split(url).unwrap();
        (rest, terms.mode, terms.root)
    }

    #[test]
    fn what_is_about_tls_is_taken_out_of_a_url() {
        let plain = "postgres://u@h/d";
        assert_eq!(split(plain), (plain.into(), TlsMode::Prefer, None));
        assert_eq!(
            split("postgres://h/d?sslmode=verify-full&x=1&sslrootcert=%2Fa%20b.pem"),
            ("postgres://h/d?x=1".into(), TlsMode::VerifyFull, Some("/a b.pem".into()))
        );
        let (_, mode, root) = split("postgres://h/d?sslrootcert=system&sslmode=verify-ca");
        assert_eq!((mode, root), (TlsMode::VerifyCa, None));
        for (word, mode) in [("disable", TlsMode::Disable), ("require", TlsMode::Require)] {
            assert_eq!(split(&format!("postgres://h/d?sslmode={word}")).1, mode);
        }
        let refused = TlsTerms::split("postgres://h/d?sslmode=allow").unwrap_err();
        assert!(refused.to_string().contains("verify-full"), "{refused}");
    }

    #[test]
    fn a_root_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root.pem");
        assert!(roots(Some(&path)).unwrap_err().to_string().contains("root.pem"));
        std::fs::write(&path, "nothing").unwrap();
        let refused = roots(Some(&path)).unwrap_err();
        assert!(refused.to_string().contains("holds no certificate"), "{refused}");
    }
}
