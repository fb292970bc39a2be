//! What can't be, told before anything is opened.

use unspent_model::{Family, Network};

use super::{layers::Origin, load::with_origins, sections::SourceKind, whole::Config};
use crate::{error::CliError, room::RoomFace};

/// Refuses what can't work for anybody, naming the key.
pub(super) fn check(config: &Config) -> anyhow::Result<()> {
    http(config)?;
    for room in config.rooms().iter() {
        room.check(config)?;
    }
    if config.events.keep == 0 {
        return Err(wrong("events.keep must be at least 1"));
    }
    check_span("source.poll_seconds", config.source.poll_seconds)?;
    check_span("source.retry_seconds", config.source.retry_seconds)?;
    check_span("webhooks.timeout_seconds", config.webhooks.timeout_seconds)?;
    check_span("auth.session_minutes", config.auth.session_minutes)?;
    check_span("http.timeout_seconds", config.http.timeout_seconds)
}

/// Refuses what a daemon can't begin with. A command that only asks a room needs no source.
pub fn check_daemon(config: &Config) -> anyhow::Result<()> {
    for_daemon(config).map_err(|error| with_origins(error, config))
}

fn for_daemon(config: &Config) -> anyhow::Result<()> {
    let is_named = *config.origin("network") != Origin::Default;
    // A folder serves one network for ever, so no default may choose it but for the simulator.
    if !is_named && config.source.kind != SourceKind::Sim {
        return Err(wrong("`network` must be set for this source"));
    }
    source(config)?;
    has_room(config)
}

/// The longest span in seconds or minutes that makes sense.
const SPAN_LIMIT: u64 = 604_800;

/// Refuses a span of time that makes no sense.
pub fn check_span(key: &str, span: u64) -> anyhow::Result<()> {
    if (1..=SPAN_LIMIT).contains(&span) {
        return Ok(());
    }
    Err(wrong(format!("{key} must be 1 to {SPAN_LIMIT}")))
}

/// A configuration that can't be.
pub fn wrong(message: impl Into<String>) -> anyhow::Error {
    CliError::usage(message.into()).into()
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
        return Err(wrong(format!("this source.kind doesn't support {}", config.network)));
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
    complete?;
    let Some(url) = source.url.as_deref().filter(|_| source.kind == SourceKind::BitcoinNode) else {
        return Ok(());
    };
    let is_tls = url.starts_with("https://");
    if !is_tls && !url.starts_with("http://") {
        return Err(wrong("source.url must begin with http:// or https://"));
    }
    // Passed over in silence it would seem to protect what goes in the clear.
    if source.root_certificate.is_some() && !is_tls {
        return Err(wrong("source.root_certificate is for a source.url that begins with https://"));
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
    if http.keys_per_caller == 0 {
        return Err(wrong("http.keys_per_caller must be at least 1"));
    }
    if config.auth.failures_per_minute == 0 {
        return Err(wrong("auth.failures_per_minute must be at least 1"));
    }
    Ok(())
}

fn has_room(config: &Config) -> anyhow::Result<()> {
    for room in config.rooms().iter() {
        if room.is_on(config)? {
            return Ok(());
        }
    }
    let names = config.rooms().iter().map(RoomFace::section).collect::<Vec<_>>().join(" or ");
    Err(wrong(format!("every room is off; switch on at least one of {names}")))
}
