//! Log lines to standard error.

use tracing_subscriber::EnvFilter;

/// Overrides `-v`: `info`, `debug`, or directives such as `unspent_chain=debug`.
const VARIABLE: &str = "UNSPENT_LOG";

/// Starts logging; the environment variable counts more than `-v`.
pub(crate) fn start(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let chosen = std::env::var(VARIABLE).unwrap_or_else(|_| level.to_owned());
    let filter = EnvFilter::builder().parse_lossy(chosen);
    let started =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    // Only a second call in one process fails, and then the first one holds.
    drop(started);
}
