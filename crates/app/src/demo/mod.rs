//! The product in a minute: a daemon on the simulated network, two wallets, and a story that runs.
//!
//! | module | keeps |
//! |---|---|
//! | `folder` | the demonstration's own folder |
//! | `comparison` | the rooms against the simulator's own books, at the end |
//!
//! Everything that `unspent serve` does is done by the same code here; only the source's story and
//! the short windows, so that pruning shows, are the demonstration's own.

mod comparison;
mod folder;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use serde::Serialize;
use unspent_engine::Engine;
use unspent_server::{
    Config, Outcome, Output, Rooms,
    config::{GivenFlag, SettingSources, load},
};
use unspent_wallet_room::scenario::{Scenario, ScenarioAction, WALLETS, create_wallets};

use self::comparison::Comparison;
use crate::serve::{Daemon, ServerThread, build};

/// How far pruning has come is told once in so many steps.
const PRUNED_EVERY: u64 = 25;

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Folder for the demo; must be empty, absent or left by an earlier demo
    #[arg(long, env = "UNSPENT_DEMO_DIR", default_value = "./unspent-demo", value_name = "DIR")]
    dir: std::path::PathBuf,
    /// The same seed gives the same network
    #[arg(long, env = "UNSPENT_DEMO_SEED", default_value_t = 21, value_name = "N")]
    seed: u64,
    /// End after this many seconds; by default it runs until Ctrl-C
    #[arg(long, env = "UNSPENT_DEMO_SECONDS", value_name = "N")]
    seconds: Option<u64>,
    /// Milliseconds between two events of the demo
    #[arg(long, default_value_t = 700, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pace: u64,
    /// Address that the dashboard listens on
    #[arg(long, default_value = "127.0.0.1:8480", value_name = "ADDRESS:PORT")]
    listen: String,
}

impl DemoArgs {
    /// The configuration of a daemon whose windows are so short that pruning is seen.
    fn config(&self, rooms: Rooms) -> anyhow::Result<Config> {
        let seed = self.seed.to_string();
        let settings = [
            ("network", "bitcoin-regtest"),
            ("source.kind", "sim"),
            ("source.sim.seed", &seed),
            ("source.poll_seconds", "1"),
            ("utxo.prune_depth", "30"),
            ("utxo.rollback_window", "30"),
            ("wallet.mempool_seconds", "1"),
            ("wallet.purge_leases_seconds", "5"),
            ("wallet.rebroadcast_seconds", "10"),
            ("http.listen", &self.listen),
        ];
        let flag = |(key, value): (&str, &str)| GivenFlag::new(key, "demo", value);
        // Settings of its own: whatever else is configured on this machine stays out of it.
        let sources =
            SettingSources { flags: settings.map(flag).into(), ..SettingSources::default() };
        let mut config = load(rooms, &sources)?;
        config.data_dir = self.dir.join("data");
        Ok(config)
    }
}

/// The whole demonstration, in the form of `--json`.
#[derive(Serialize)]
struct DemoReport {
    seed: u64,
    dashboard: String,
    data_dir: String,
    actions: BTreeMap<&'static str, u64>,
    reorganisations_followed: u64,
    checked: Comparison,
}

/// Runs the story until its time is over or somebody ends it.
pub(crate) fn run(
    rooms: Rooms,
    args: &DemoArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    folder::prepare(&args.dir)?;
    let config = args.config(rooms)?;
    let network = build::sim_network(&config)?;
    let daemon = Daemon::new(config.clone())?;
    let dashboard = daemon.url().to_owned();
    let engine = daemon.start(Arc::new(network.clone()))?;
    create_wallets(&engine)?;
    let server = ServerThread::start(daemon, engine.clone())?;
    output.say(&opening(args, &dashboard))?;
    let scenario = Scenario::new(engine.clone(), network.clone(), args.seed);
    let actions = Performance { args, engine: &engine, server: &server }.play(&scenario, output);
    let served = server.end();
    // After the server's end nobody can change anything while the two are compared.
    let checked = comparison::compare(&engine, &network);
    let reorgs = engine.status().rooms.iter().map(|room| room.reorgs).max().unwrap_or(0);
    engine.shutdown();
    served?;
    let (actions, checked) = (actions?, checked?);
    let data_dir = config.data_dir.display().to_string();
    output.say(&closing(&actions, reorgs, &checked, &data_dir))?;
    let is_right = checked.is_right();
    if output.is_json() {
        let seed = args.seed;
        let reorganisations_followed = reorgs;
        output.document(&DemoReport {
            seed,
            dashboard,
            data_dir,
            actions,
            reorganisations_followed,
            checked,
        })?;
    }
    Ok(if is_right { Outcome::Done } else { Outcome::Differences })
}

/// A demonstration under way.
struct Performance<'a> {
    args: &'a DemoArgs,
    engine: &'a Engine,
    server: &'a ServerThread,
}

impl Performance<'_> {
    /// Lets things happen and tells of them; counts them by kind.
    fn play(
        &self,
        scenario: &Scenario,
        output: &mut Output<'_>,
    ) -> anyhow::Result<BTreeMap<&'static str, u64>> {
        let started = Instant::now();
        let until = self.args.seconds.map(Duration::from_secs);
        let mut actions = BTreeMap::new();
        let mut steps: u64 = 0;
        // A signal ends the server, and the story with it.
        while !self.server.is_finished() && until.is_none_or(|until| started.elapsed() < until) {
            let action = scenario.step()?;
            steps += 1;
            *actions.entry(kind(&action)).or_insert(0) += 1;
            output.say(&format!("{:>6.1} s  {action}", started.elapsed().as_secs_f64()))?;
            if steps.is_multiple_of(PRUNED_EVERY) {
                let (pruned, now) = (self.pruned()?, started.elapsed().as_secs_f64());
                output.say(&format!("{now:>6.1} s  {pruned}"))?;
            }
            std::thread::sleep(Duration::from_millis(self.args.pace));
        }
        Ok(actions)
    }

    /// The chain room prunes with every block; now and then it is told how far that has come.
    fn pruned(&self) -> anyhow::Result<String> {
        let Some(reader) = unspent_chain_room::reader(self.engine) else {
            return Ok("pruned: nothing yet".into());
        };
        let status = reader.status()?;
        let (gone, floor) = (status.horizon.swept_deltas, status.horizon.floor);
        let possible = status.cursor.ordinal.saturating_sub(floor);
        Ok(format!(
            "pruned: undo data of the first {gone} blocks; the last {possible} can still be undone"
        ))
    }
}

fn kind(action: &ScenarioAction) -> &'static str {
    match action {
        ScenarioAction::Paid { .. } => "payments",
        ScenarioAction::Mined { .. } => "blocks",
        ScenarioAction::Bumped { .. } => "fee_bumps",
        ScenarioAction::DoubleSpent { .. } => "double_spends",
        ScenarioAction::Reorganised { .. } => "reorganisations",
        ScenarioAction::Evicted { .. } => "evictions",
        ScenarioAction::Leased { .. } => "leases",
        ScenarioAction::Sent { .. } => "payments_by_wallets",
    }
}

fn opening(args: &DemoArgs, dashboard: &str) -> String {
    let end = match args.seconds {
        Some(seconds) => format!("It ends after {seconds} s; Ctrl-C ends it sooner."),
        None => "Ctrl-C ends it.".to_owned(),
    };
    format!(
        "A daemon runs on a simulated network (seed {}) with the wallets {}.\n\
         The dashboard: {dashboard}\n{end}\n",
        args.seed,
        WALLETS.join(" and "),
    )
}

fn closing(
    actions: &BTreeMap<&'static str, u64>,
    reorgs: u64,
    checked: &Comparison,
    data_dir: &str,
) -> String {
    let counts: Vec<String> =
        actions.iter().map(|(kind, count)| format!("{count} {}", kind.replace('_', " "))).collect();
    format!(
        "\n{}; {reorgs} reorganisations followed.\n{checked}\n\
         The data folder is kept. Next:\n   \
         unspent --data-dir {data_dir} chain status\n   \
         unspent --data-dir {data_dir} wallet balance {name}\n   \
         unspent --data-dir {data_dir} wallet txs {name}\n   \
         unspent --data-dir {data_dir} serve --network bitcoin-regtest",
        counts.join(", "),
        name = WALLETS[0],
    )
}
