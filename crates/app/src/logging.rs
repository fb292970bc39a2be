//! Log lines to standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use unspent_server::config::{LogFormat, LogSection};

/// Overrides `-v`: `info`, `debug`, or directives such as `unspent_chain=debug`.
const VARIABLE: &str = "UNSPENT_LOG";

/// The HTTP client's lowest level dumps what it sends, a node's password among it.
const NO_DUMPS: &str = "ureq_proto=warn";

/// Told by us, once and with what follows from it: a node that is away (the library tells of each
/// attempt to hear its notifications), and a signature that fits no output (the library tells of
/// each output that it was held against).
const ONCE: &str = "zeromq=error,cashu::nuts::nut12=error";

/// Starts logging; the environment variable counts more than `-v`.
pub(crate) fn start(verbose: u8) {
    let level = match verbose {
        // Missing inputs after a hole are in the summary; a line for each block would drown it.
        0 => "warn,unspent_chain::telemetry=error",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let chosen = std::env::var(VARIABLE).unwrap_or_else(|_| level.to_owned());
    let started = tracing_subscriber::fmt()
        .with_env_filter(filter(&chosen))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
    // Only a second call in one process fails, and then the first one holds.
    drop(started);
}

/// Starts the logging of a daemon: as configured, unless the environment variable or `-v` says
/// more.
pub(crate) fn start_daemon(section: &LogSection, verbose: u8) {
    let level = match verbose {
        0 => section.level.as_str(),
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let chosen = std::env::var(VARIABLE).unwrap_or_else(|_| level.to_owned());
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter(&chosen)).with_writer(std::io::stderr);
    let started = match section.format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    drop(started);
}

/// Where the lines of a daemon go, as people look for them.
pub(crate) fn place() -> &'static str {
    // systemd says which stream is the journal's, since a program may have redirected its own.
    let journal = std::env::var("JOURNAL_STREAM").ok();
    let own = rustix::fs::fstat(std::io::stderr());
    let own = own.map(|stream| format!("{}:{}", stream.st_dev, stream.st_ino)).ok();
    if journal.is_some() && journal == own { "the journal" } else { "standard error" }
}

fn filter(chosen: &str) -> EnvFilter {
    // The last directive for a target counts.
    EnvFilter::builder().parse_lossy(format!("{ONCE},{chosen},{NO_DUMPS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_never_dumped() {
        for chosen in ["", "trace", "ureq_proto=trace", "warn,ureq_proto=debug,unspent=info"] {
            let shown = filter(chosen).to_string();
            let about: Vec<_> = shown.split(',').filter(|part| part.contains("ureq")).collect();
            assert_eq!(about, [NO_DUMPS], "{chosen}");
        }
    }
}
