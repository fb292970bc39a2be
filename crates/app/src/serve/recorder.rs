//! The recorder behind the counters, gauges and timers of all rooms.

use std::sync::OnceLock;

use anyhow::Context as _;
use metrics::Label;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use unspent_engine::series::{self, LabelSets, Series};
use unspent_server::Rooms;

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Upper bounds of the buckets of every timer, in seconds.
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];
/// The same for the depth of reorganisations.
const DEPTHS: [f64; 7] = [1.0, 2.0, 3.0, 6.0, 12.0, 100.0, 288.0];
/// The same for coins of one address.
const COUNTS: [f64; 7] = [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0];
/// Where the figures are read.
pub(super) const METRICS_ROUTE: &str = "/metrics";
/// Bytes of a page of memory, as `/proc` counts them.
const PAGE: u64 = 4096;

/// What the server itself counts. Requests begin with those of whoever reads the figures.
const OWN: [Series; 5] = [
    Series::gauge("unspent_process_resident_bytes", "Memory used by the process"),
    Series::gauge("unspent_http_streams", "Open live streams"),
    Series::counter("unspent_http_wrong_credentials_total", "Requests with wrong credentials"),
    Series::counter("unspent_http_requests_total", "Requests, by route, method and status")
        .by(|| scrape(&[("status", "200")])),
    Series::histogram("unspent_http_request_seconds", "Duration of a request, by route and method")
        .by(|| scrape(&[])),
];

fn scrape(more: &[(&'static str, &'static str)]) -> LabelSets {
    let route = [("route", METRICS_ROUTE), ("method", "GET")];
    let labels = route.iter().chain(more).map(|(name, value)| Label::new(*name, *value));
    vec![labels.collect()]
}

/// Installs the recorder, once for the process.
pub(super) fn install(rooms: Rooms) -> anyhow::Result<()> {
    // A process has one recorder for good, and tests start several daemons in one.
    if RECORDER.get().is_some() {
        return Ok(());
    }
    let mut builder = PrometheusBuilder::new();
    let all = [("_seconds", &BUCKETS[..]), ("_depth", &DEPTHS), ("_per_address", &COUNTS)];
    for (ending, buckets) in all {
        let names = Matcher::Suffix(ending.to_owned());
        builder = builder.set_buckets_for_metric(names, buckets).context("no histogram buckets")?;
    }
    let handle = builder.install_recorder().context("a metrics recorder is already installed")?;
    let _ = RECORDER.set(handle);
    series::begin(&rooms.shapes());
    OWN.iter().for_each(Series::begin);
    Ok(())
}

/// Takes in what timers have gathered; to be called now and then.
#[allow(clippy::cast_precision_loss)]
pub(super) fn upkeep() {
    if let Some(resident) = resident_bytes() {
        metrics::gauge!("unspent_process_resident_bytes").set(resident as f64);
    }
    if let Some(handle) = RECORDER.get() {
        // Histograms gather every value until they are taken in, also while nobody scrapes.
        handle.run_upkeep();
    }
}

/// Everything, as Prometheus reads it.
pub(super) fn render() -> String {
    RECORDER.get().map(PrometheusHandle::render).unwrap_or_default()
}

/// Memory of this process, where the system says.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(PAGE)
}
