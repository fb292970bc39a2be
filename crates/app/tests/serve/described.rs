//! schemathesis reads the description of the interface and tries to break what it promises.
//!
//! It is fetched into a folder outside the repository. Where it can't be had the test says so and
//! is SKIPPED, unless `UNSPENT_REQUIRE_PEERS=1`.

use std::process::Command;

use unspent_testkit::peers::{python::environment, required};

use crate::world::{self, SEED_SETTING, funded};

/// Which release.
const PACKAGE: &str = "schemathesis==4.32.5";
/// Examples tried for each operation and kind of input.
const EXAMPLES: &str = "60";

#[test]
fn schemathesis_finds_no_fault_and_nothing_undocumented() {
    let tools = environment("schemathesis", &[PACKAGE]);
    let Some(tools) = required("schemathesis", tools) else { return };
    let folder = funded();
    // It logs in with nonsense many times, which is no attack here.
    let daemon = folder.start(&[SEED_SETTING, "auth.failures_per_minute=100000"]);
    world::make_wallet(&daemon, "alice");
    let url = format!("http://{}/api/v1/openapi.json", daemon.address);
    let examples = std::env::var("UNSPENT_SCHEMA_EXAMPLES").unwrap_or_else(|_| EXAMPLES.into());
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,\
                  response_schema_conformance";
    // Names that are there, so that it gets past the door.
    let settings = folder.beside("schemathesis.toml");
    let known = "[parameters]\n\"path.wallet\" = \"alice\"\n\"path.room\" = \"chain\"\n";
    std::fs::write(&settings, known).unwrap();
    let mut command = Command::new(tools.join("schemathesis"));
    command.arg("--config-file").arg(&settings);
    command.args(["run", &url, "--checks", checks, "--max-examples", &examples]);
    command.args(["--header", &format!("Authorization: Bearer {}", daemon.cookie)]);
    // A stream has no end, so it is left to its own tests.
    command.args(["--exclude-path", "/api/v1/events/stream", "--seed", "7", "--no-color"]);
    // A folder by chance may be anywhere on this machine.
    command.args(["--exclude-path", "/api/v1/backup"]);
    command.args(["--request-timeout", "30", "--phases", "examples,coverage,fuzzing"]);
    command.current_dir(folder.beside(""));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let tail: Vec<&str> = text.lines().rev().take(120).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    eprintln!("{}", tail.join("\n"));
    assert!(output.status.success(), "{}", tail.join("\n"));
    let metrics = daemon.nobody().get("/metrics").text;
    let counted = metrics.lines().filter(|line| line.starts_with("unspent_http_requests_total{"));
    let count = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok());
    let (mut all, mut faults) = (0, 0);
    for line in counted {
        all += count(line).unwrap_or(0);
        if line.contains("status=\"5") {
            faults += count(line).unwrap_or(0);
        }
    }
    eprintln!("{all} requests, {faults} faults");
    assert_eq!(faults, 0);
    daemon.admin().get("/api/v1/status").ok();
}
