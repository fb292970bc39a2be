//! `[ecash]` of the configuration.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use unspent_ecash::KeySource;
use unspent_ecash_room::{
    DATABASE,
    mint::{MintOptions, check::Blocklist},
    watch::ListenerOptions,
    work::worker::WorkerOptions,
};
use unspent_sql::Url;

use super::key::key;
use crate::config::{check_database, check_span, database, section, wrong};

section! {
    /// The ecash room: Cashu and Spark payments. It follows no chain.
    pub(crate) struct EcashSection in "ecash" {
        /// Off unless switched on: it holds money
        enabled: bool = false;
        /// sqlite:PATH or postgres://USER@HOST/NAME; a file ecash.db in the data folder by default
        url: Option<String>, example "\"sqlite:/var/lib/unspent/ecash.db\"";
        /// A file that holds the URL, when it has a password
        url_file: Option<PathBuf>, example "\"/etc/unspent/ecash-url\"";
        /// Secrets are sealed with this key file (at least 32 random bytes), or with the passphrase
        /// in the second; without either a file ecash.key is made in the data folder
        key_file: Option<PathBuf>, example "\"/etc/unspent/ecash.key\"";
        passphrase_file: Option<PathBuf>, example "\"/etc/unspent/ecash-passphrase\"";
        /// Mints that are never used, each wholly or in one unit
        mint_blocklist: Vec<String> = Vec::new(), example "[\"https://mint.example usd\"]";
        /// Mints on this machine and in private networks may be called: a token names its mint
        allow_private: bool = false;
        /// Before a payment whose outcome was ever unknown is called failed, its proofs are swapped
        fence: bool = false;
        /// So many seconds after its end a payment that ended unpaid is still looked at
        late_payment_grace_seconds: u64 = WorkerOptions::default().late_payment_grace.as_secs();
        /// A Spark wallet in another process; no real Spark operator has been tried
        spark_url: Option<String>, example "\"http://127.0.0.1:4100\"";
    }
}

impl EcashSection {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        check_database("ecash", self.url.as_deref(), self.url_file.as_deref())?;
        if self.key_file.is_some() && self.passphrase_file.is_some() {
            return Err(wrong("set ecash.key_file or ecash.passphrase_file, not both"));
        }
        Blocklist::parse(&self.mint_blocklist)
            .map_err(|problem| wrong(format!("ecash.mint_blocklist: {problem}")))?;
        check_span("ecash.late_payment_grace_seconds", self.late_payment_grace_seconds)
    }

    pub(super) fn mints(&self) -> MintOptions {
        MintOptions { allow_private: self.allow_private, ..MintOptions::default() }
    }

    pub(super) fn worker(&self) -> WorkerOptions {
        let late_payment_grace = Duration::from_secs(self.late_payment_grace_seconds);
        let allow_private = self.allow_private;
        let listener = ListenerOptions { allow_private, ..ListenerOptions::default() };
        WorkerOptions { listener, late_payment_grace }
    }

    pub(super) fn key(&self, data_dir: &Path) -> anyhow::Result<Arc<KeySource>> {
        key(self.key_file.as_deref(), self.passphrase_file.as_deref(), data_dir, true)
    }

    /// The room's database.
    pub(super) fn database(&self, data_dir: &Path) -> anyhow::Result<Url> {
        database(self.url.as_deref(), self.url_file.as_deref(), data_dir.join(DATABASE))
    }
}
