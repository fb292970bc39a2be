//! What can't be, told before anything is opened.

use unspent_model::{Family, Network};

use super::sections::{Config, SourceKind};
use crate::fault::Fault;

/// Refuses what can't work, naming the key.
pub(super) fn check(config: &Config) -> anyhow::Result<()> {
    source(config)?;
    wallet(config)?;
    http(config)?;
    utxo(config)?;
    if config.events.keep == 0 {
        return Err(wrong("events.keep must be at least 1"));
    }
    let jobs = &config.jobs;
    let spans = [
        ("jobs.prune_seconds", jobs.prune_seconds),
        ("jobs.purge_leases_seconds", jobs.purge_leases_seconds),
        ("jobs.mempool_seconds", jobs.mempool_seconds),
        ("jobs.rebroadcast_seconds", jobs.rebroadcast_seconds),
        ("source.poll_seconds", config.source.poll_seconds),
        ("source.retry_seconds", config.source.retry_seconds),
        ("auth.session_minutes", config.auth.session_minutes),
        ("http.timeout_seconds", config.http.timeout_seconds),
    ];
    match spans.into_iter().find(|(_, span)| !(1..=SPAN_LIMIT).contains(span)) {
        Some((key, _)) => Err(wrong(format!("{key} must be 1 to {SPAN_LIMIT}"))),
        None => Ok(()),
    }
}

/// The longest span in seconds or minutes that makes sense for a job.
const SPAN_LIMIT: u64 = 604_800;

fn wrong(message: impl Into<String>) -> anyhow::Error {
    Fault::usage(message.into()).into()
}

fn source(config: &Config) -> anyhow::Result<()> {
    let source = &config.source;
    let family = config.network.family();
    let needs = |there: bool, key: &str| {
        if there { Ok(()) } else { Err(wrong(format!("source.{key} must be set for this kind"))) }
    };
    let (wanted, complete) = match source.kind {
        SourceKind::Sim => (Family::Bitcoin, Ok(())),
        SourceKind::BitcoinNode => (Family::Bitcoin, needs(source.url.is_some(), "url")),
        SourceKind::BitcoinFiles => (Family::Bitcoin, needs(source.path.is_some(), "path")),
        SourceKind::CardanoNode => (Family::Cardano, needs(source.address.is_some(), "address")),
        SourceKind::CardanoSocket => (Family::Cardano, needs(source.socket.is_some(), "socket")),
        SourceKind::ImmutableDb => (Family::Cardano, needs(source.path.is_some(), "path")),
    };
    if family != wanted {
        return Err(wrong(format!("this source.kind doesn't serve {}", config.network)));
    }
    if source.kind == SourceKind::Sim && config.network != Network::BitcoinRegtest {
        return Err(wrong("the simulated network is bitcoin-regtest"));
    }
    if source.cookie_file.is_some() && source.user.is_some() {
        return Err(wrong("set source.cookie_file or source.user, not both"));
    }
    if source.user.is_some() != source.password_file.is_some() {
        return Err(wrong("source.user and source.password_file belong together"));
    }
    complete
}

fn wallet(config: &Config) -> anyhow::Result<()> {
    if config.wallet.enabled == Some(true) && config.network.family() == Family::Cardano {
        let message = "wallet.enabled = true: the wallet room is for Bitcoin networks";
        return Err(wrong(format!("{message}, not for {}", config.network)));
    }
    if config.wallet.url.is_some() && config.wallet.url_file.is_some() {
        return Err(wrong("set wallet.url or wallet.url_file, not both"));
    }
    if let Some(url) = &config.wallet.url {
        let has_password = url.starts_with("postgres")
            && url
                .split_once("//")
                .and_then(|(_, rest)| rest.rsplit_once('@'))
                .is_some_and(|(user, _)| user.contains(':'));
        if has_password && std::env::var_os("UNSPENT_WALLET__URL").is_none() {
            return Err(wrong(
                "wallet.url holds a password; put it into a file and set wallet.url_file, or set \
                 UNSPENT_WALLET__URL in the environment",
            ));
        }
        url.parse::<unspent_sql::Url>().map_err(|error| wrong(format!("wallet.url: {error}")))?;
    }
    if config.wallet.lease_seconds == 0 {
        return Err(wrong("wallet.lease_seconds must be at least 1"));
    }
    Ok(())
}

fn http(config: &Config) -> anyhow::Result<()> {
    let http = &config.http;
    if http.tls_cert.is_some() != http.tls_key.is_some() {
        return Err(wrong("http.tls_cert and http.tls_key belong together"));
    }
    let bounds = [
        ("http.body_bytes", http.body_bytes, 1024, 64 << 20),
        ("http.concurrency", http.concurrency, 1, 1024),
        ("http.queue", http.queue, 1, 65_536),
        ("http.streams", http.streams, 1, 65_536),
        ("http.connections", http.connections, 1, 65_536),
    ];
    for (key, value, least, most) in bounds {
        if !(least..=most).contains(&value) {
            return Err(wrong(format!("{key} must be {least} to {most}")));
        }
    }
    if config.auth.failures_per_minute == 0 {
        return Err(wrong("auth.failures_per_minute must be at least 1"));
    }
    Ok(())
}

fn utxo(config: &Config) -> anyhow::Result<()> {
    match config.utxo.store.as_str() {
        "classic" => {}
        "mmr" => return Err(wrong("utxo.store = \"mmr\" comes later; use \"classic\"")),
        other => return Err(wrong(format!("utxo.store = \"{other}\": use \"classic\""))),
    }
    if let Some(strategy) = &config.utxo.indexing_strategy {
        let known = strategy.parse::<unspent_chain::IndexingStrategy>();
        known.map_err(|error| wrong(format!("utxo.indexing_strategy: {error}")))?;
    }
    let on = config.utxo.enabled || config.wallet_enabled();
    if on { Ok(()) } else { Err(wrong("every room is off; switch on utxo or wallet")) }
}

impl Config {
    /// Whether wallets are kept: unless said otherwise, where the network has them.
    pub(crate) fn wallet_enabled(&self) -> bool {
        self.wallet.enabled.unwrap_or(self.network.family() == Family::Bitcoin)
    }
}
