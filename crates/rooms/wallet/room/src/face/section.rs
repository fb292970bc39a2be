//! `[wallet]` of the configuration.

use std::path::PathBuf;

use unspent_model::{Family, Network};
use unspent_server::config::{Config, check_database, check_span, database, section, wrong};
use unspent_sql::Url;
use unspent_wallet::lease::DEFAULT_DURATION;

use crate::{DATABASE, MEMPOOL_EVERY, PURGE_LEASES_EVERY, REBROADCAST_EVERY};

/// The room's name in the engine, in events and in metrics.
pub(super) const NAME: &str = "wallet";

section! {
    /// The wallet room: Bitcoin networks only.
    pub struct WalletSection in "wallet" {
        /// Default: on for Bitcoin, off for Cardano
        enabled: Option<bool>, example "true";
        /// sqlite:PATH or postgres://USER@HOST/NAME; a file wallet.db in the data folder by default
        url: Option<String>, example "\"sqlite:/var/lib/unspent/wallet.db\"", flag value "URL",
            was "UNSPENT_WALLET_DB" "--db", rival "url_file";
        /// A file that holds the URL, for a URL with a password
        url_file: Option<PathBuf>, example "\"/etc/unspent/wallet-url\"", flag value "FILE", rival "url";
        /// How long coins are leased unless a request says otherwise
        lease_seconds: u32 = u32::try_from(DEFAULT_DURATION / 1_000_000).unwrap_or(u32::MAX),
            flag value "SECONDS";
        /// Seconds between two runs of the room's jobs: removing expired leases, reading the node's
        /// mempool, sending own transactions that the node doesn't have
        purge_leases_seconds: u64 = PURGE_LEASES_EVERY.as_secs();
        mempool_seconds: u64 = MEMPOOL_EVERY.as_secs();
        rebroadcast_seconds: u64 = REBROADCAST_EVERY.as_secs();
    }
}

impl WalletSection {
    /// Whether wallets are kept: unless said otherwise, where the network has them.
    pub fn is_on(&self, network: Network) -> bool {
        self.enabled.unwrap_or(network.family() == Family::Bitcoin)
    }

    pub(super) fn check(&self, config: &Config) -> anyhow::Result<()> {
        let network = config.network;
        if self.enabled == Some(true) && network.family() == Family::Cardano {
            let message = "wallet.enabled = true: the wallet room is for Bitcoin networks";
            return Err(wrong(format!("{message}, not for {network}")));
        }
        check_database(config, "wallet", self.url.as_deref(), self.url_file.as_deref())?;
        if self.lease_seconds == 0 {
            return Err(wrong("wallet.lease_seconds must be at least 1"));
        }
        check_span("wallet.purge_leases_seconds", self.purge_leases_seconds)?;
        check_span("wallet.mempool_seconds", self.mempool_seconds)?;
        check_span("wallet.rebroadcast_seconds", self.rebroadcast_seconds)
    }

    /// How long coins are leased unless a request says otherwise.
    pub(super) fn lease_micros(&self) -> i64 {
        i64::from(self.lease_seconds) * 1_000_000
    }

    /// The wallets' database.
    pub(super) fn database(&self, config: &Config) -> anyhow::Result<Url> {
        database(self.url.as_deref(), self.url_file.as_deref(), config.data_dir.join(DATABASE))
    }
}
