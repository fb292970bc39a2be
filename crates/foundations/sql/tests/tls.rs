//! PostgreSQL over TLS, with a real server and certificates made for the test.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use unspent_sql::{Door, Migration, Options, Schema, SqlError, Url};
use unspent_testkit::wallet::postgres::TlsServer;

const TABLE: &str = "CREATE TABLE cups (id BIGINT PRIMARY KEY)";
const SCHEMA: Schema = Schema {
    postgres_enter: "CREATE SCHEMA IF NOT EXISTS shop; SET search_path TO shop",
    migrations: &[Migration { version: 1, name: "cups", ddl: TABLE }],
    distribution: &[],
};

/// A root of our own making, its certificate written to a file.
fn root(file: &Path) -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let name = file.file_stem().unwrap().to_str().unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    std::fs::write(file, params.self_signed(&key).unwrap().pem()).unwrap();
    Issuer::new(params, key)
}

struct Place {
    port: u16,
    right: String,
    wrong: String,
}

impl Place {
    fn url(&self, who: &str, host: &str, terms: &str) -> Url {
        format!("postgres://{who}@{host}:{}/postgres?{terms}", self.port).parse().unwrap()
    }

    /// What the server says about the connection, or why there is none.
    fn is_encrypted(&self, who: &str, host: &str, terms: &str) -> Result<bool, String> {
        let door = Door::open(&self.url(who, host, terms), &SCHEMA, Options::default());
        let door = door.map_err(|error| error.to_string())?;
        let told = door.read(|tx| -> Result<bool, SqlError> {
            tx.one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[])?.flag("ssl")
        });
        told.map_err(|error| error.to_string())
    }
}

#[test]
fn a_server_proves_who_it_is_as_far_as_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (right, wrong) = (folder.path().join("right root.pem"), folder.path().join("wrong.pem"));
    let (issuer, _) = (root(&right), root(&wrong));
    let key = KeyPair::generate().unwrap();
    let names = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = names.signed_by(&key, &issuer).unwrap();
    let Some(server) = TlsServer::start(&certificate.pem(), &key.serialize_pem()) else { return };
    let file = |path: &Path| format!("sslrootcert={}", path.display()).replace(' ', "%20");
    let at = Place { port: server.port(), right: file(&right), wrong: file(&wrong) };
    encryption(&at);
    refusals(&at);
}

fn encryption(at: &Place) {
    let verified = |mode: &str| format!("sslmode={mode}&{}", at.right);
    for terms in ["", "sslmode=prefer", "sslmode=require", &verified("require")] {
        assert_eq!(at.is_encrypted("postgres", "localhost", terms), Ok(true), "{terms}");
    }
    for mode in ["verify-ca", "verify-full"] {
        let told = at.is_encrypted("postgres", "localhost", &verified(mode));
        assert_eq!(told, Ok(true), "{mode}");
    }
    let another_name = at.is_encrypted("postgres", "127.0.0.1", &verified("verify-ca"));
    assert_eq!(another_name, Ok(true), "the name is not looked at");
    assert_eq!(at.is_encrypted("postgres", "localhost", "sslmode=disable"), Ok(false));
    // A password that is bound to the very connection.
    let bound = format!("{}&channel_binding=require", verified("verify-full"));
    assert_eq!(at.is_encrypted("secured:hush", "localhost", &bound), Ok(true));
}

fn refusals(at: &Place) {
    let refused = |who: &str, host: &str, terms: &str, words: &str| {
        let said = at.is_encrypted(who, host, terms).expect_err(terms);
        assert!(said.contains(words), "{terms}: {said}");
        assert!(!said.contains("hush"), "{said}");
    };
    for mode in ["require", "verify-ca", "verify-full"] {
        let terms = format!("sslmode={mode}&{}", at.wrong);
        refused("secured:hush", "localhost", &terms, "no known root signed it");
    }
    // The system's roots have signed much, but not this.
    refused("postgres", "localhost", "sslmode=verify-full&sslrootcert=system", "root");
    let terms = format!("sslmode=verify-full&{}", at.right);
    refused("postgres", "127.0.0.1", &terms, "it is for another host name");
    refused("secured:hush", "localhost", "sslmode=disable", "pg_hba.conf");
    let missing = "sslmode=verify-full&sslrootcert=/nowhere.pem";
    refused("postgres", "localhost", missing, "can't read the root certificate /nowhere.pem");
    refused("postgres", "localhost", "sslmode=always", "sslmode is one of");
}
