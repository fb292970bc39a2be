//! `[txstore]` of the configuration.

use std::path::PathBuf;

use unspent_model::{
    Family,
    txstore::{DeletionWindows, RetentionBlocks},
};
use unspent_server::config::{Config, check_database, check_span, database, section, wrong};
use unspent_sql::Url;
use unspent_txstore::Settings;

use crate::{CLEAN_EVERY, DATABASE, UNMINED_EVERY};

section! {
    /// The txstore room: whole transactions until nobody can need them; Bitcoin networks only.
    pub(crate) struct TxStoreSection in "txstore" {
        /// Off by default, because it takes disk space
        enabled: bool = false;
        /// sqlite:PATH or postgres://USER@HOST/NAME; a file txstore.db in the data folder by default
        url: Option<String>, example "\"sqlite:/var/lib/unspent/txstore.db\"", flag value "URL",
            was "UNSPENT_TXSTORE_DB" "--db", rival "url_file";
        /// A file that holds the URL, for a URL with a password
        url_file: Option<PathBuf>, example "\"/etc/unspent/txstore-url\"", flag value "FILE", rival "url";
        /// Blocks to keep a transaction after the last of its outputs was spent; 0 keeps everything
        retention: u64 = DeletionWindows::default().retention.0, flag value "BLOCKS";
        /// How many blocks deep a transaction and all its children must be; at least rollback
        safety: u64 = DeletionWindows::default().safety, flag value "BLOCKS";
        /// Blocks that can be undone
        rollback: u64 = DeletionWindows::default().rollback, flag value "BLOCKS";
        /// Seconds between two runs of the room's jobs: deleting what is due, reading the node's
        /// mempool
        clean_seconds: u64 = CLEAN_EVERY.as_secs();
        mempool_seconds: u64 = UNMINED_EVERY.as_secs();
    }
}

impl TxStoreSection {
    pub(super) fn check(&self, config: &Config) -> anyhow::Result<()> {
        let network = config.network;
        if self.enabled && network.family() == Family::Cardano {
            let message = "txstore.enabled = true: the txstore room is for Bitcoin networks";
            return Err(wrong(format!("{message}, not for {network}")));
        }
        check_database(config, "txstore", self.url.as_deref(), self.url_file.as_deref())?;
        if self.rollback == 0 {
            return Err(wrong("txstore.rollback must be at least 1"));
        }
        if self.safety < self.rollback {
            return Err(wrong("txstore.safety must be at least txstore.rollback"));
        }
        check_span("txstore.clean_seconds", self.clean_seconds)?;
        check_span("txstore.mempool_seconds", self.mempool_seconds)
    }

    pub(super) fn settings(&self) -> Settings {
        let &Self { retention, safety, rollback, .. } = self;
        let retention = RetentionBlocks(retention);
        Settings { windows: DeletionWindows { retention, safety, rollback } }
    }

    /// The room's database.
    pub(super) fn database(&self, config: &Config) -> anyhow::Result<Url> {
        database(self.url.as_deref(), self.url_file.as_deref(), config.data_dir.join(DATABASE))
    }
}
