//! `unspent serve`: the engine and the server, started and ended together.
//!
//! | module | keeps |
//! |---|---|
//! | `build` | configuration to engine: source, rooms, jobs |
//! | `listeners` | what is served where: a line for each protocol |
//! | `ops` | `/healthz`, `/readyz`, `/metrics` |
//! | `recorder` | the figures of all rooms, for Prometheus |
//!
//! Invariant: another address than loopback is refused without TLS and tokens. The first signal
//! ends everything at a block boundary, the second at once.

pub(crate) mod build;
mod listeners;
mod ops;
mod recorder;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{Notify, watch},
};
use unspent_engine::{Engine, clock};
use unspent_server::{
    CliError, Config, Outcome, Output,
    api::{App, history, state::ServerPlace},
    config::{GivenFlag, HttpSection, SettingFlags, check_daemon},
    interrupt,
    reached::{ADDRESS_FILE, Reached},
};
use unspent_source::Origin;

use self::listeners::Listeners;
use crate::logging;

/// How long requests under way may take when the server ends.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Network, overriding the file [env: UNSPENT_NETWORK]
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    #[command(flatten)]
    settings: SettingFlags<HttpSection>,
    /// Set any key of the configuration, overriding file and environment; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, such as utxo.enabled=true")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

impl ServeArgs {
    /// All of them are settings.
    pub(crate) fn given(&self) -> Vec<GivenFlag> {
        let network = self.network.as_ref();
        let network = network.map(|name| GivenFlag::new("network", "--network", name));
        let set =
            |(key, value): &(String, String)| GivenFlag::new(key, &format!("--set {key}"), value);
        let set = self.set.iter().map(set);
        network.into_iter().chain(self.settings.given()).chain(set).collect()
    }
}

/// Runs until somebody ends it.
pub(crate) fn run(
    config: &Config,
    verbose: u8,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    check_daemon(config)?;
    logging::start_daemon(&config.log, verbose);
    // The ports first: a second daemon is told of them before it touches a database.
    let daemon = Daemon::new(config.clone())?;
    let engine = daemon.start(build::origin(&daemon.config)?)?;
    let (url, data) = (daemon.url().to_owned(), daemon.config.data_dir.clone());
    let tokens = daemon.config.tokens_file();
    let told = |cookie: &Path| -> anyhow::Result<()> {
        Reached::tell(&data, &url, cookie, &tokens)?;
        let (dashboard, cookie) = (format!("{url}/"), cookie.display().to_string());
        let log = logging::place();
        let document = json!({
            "listening": url, "dashboard": dashboard, "cookie_file": cookie, "log": log,
            "data_dir": data.display().to_string(),
        });
        let said = output.answer(&document, || {
            format!(
                "listening on {url}; Ctrl-C ends it\n  dashboard  {dashboard}\n  cookie     {cookie} \
                 (all rights, for programs of this user)\n  data       {}\n  log        {log}",
                data.display()
            )
        });
        if let Err(error) = said {
            // Whoever started it may have read the first line and gone, as `head -1` does.
            tracing::warn!(%error, "nobody reads where the daemon listens; it keeps running");
        }
        Ok(())
    };
    // Nobody but a signal ends it.
    let outcome = daemon.serve(engine.clone(), Arc::new(Notify::new()), told);
    // Before the folder is free: another daemon's must stay.
    let _ = std::fs::remove_file(data.join(ADDRESS_FILE));
    engine.shutdown();
    outcome.map(|()| Outcome::Done)
}

/// A daemon that may be started: its configuration is safe, and its ports are taken.
pub(crate) struct Daemon {
    config: Config,
    listeners: Listeners,
}

impl Daemon {
    /// Checks the configuration and takes the ports, before anything else is touched.
    pub(crate) fn new(config: Config) -> anyhow::Result<Self> {
        let listeners = Listeners::take(&config)?;
        // Before the engine starts: what is counted without a recorder is lost.
        recorder::install(config.rooms())?;
        Ok(Self { config, listeners })
    }

    pub(crate) fn url(&self) -> &str {
        &self.listeners.url
    }

    pub(crate) fn start(&self, origin: Arc<dyn Origin>) -> anyhow::Result<Engine> {
        build::start(&self.config, origin)
    }

    /// Answers until a signal comes or `end` is notified. The engine runs on.
    pub(crate) fn serve(
        self,
        engine: Engine,
        end: Arc<Notify>,
        told: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        Served { config: self.config, engine, port: self.listeners.port, end }
            .run(self.listeners, told)
    }
}

/// A daemon's server on a thread of its own.
pub(crate) struct ServerThread {
    end: Arc<Notify>,
    thread: std::thread::JoinHandle<anyhow::Result<()>>,
}

impl ServerThread {
    pub(crate) fn start(daemon: Daemon, engine: Engine) -> anyhow::Result<Self> {
        let (end, thread) = (Arc::new(Notify::new()), std::thread::Builder::new());
        let ended = end.clone();
        let serve = move || daemon.serve(engine, ended, |_| Ok(()));
        let thread = thread.name("unspent-server".into()).spawn(serve);
        Ok(Self { end, thread: thread.context("can't start the server's thread")? })
    }

    /// A signal may have ended it.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    pub(crate) fn end(self) -> anyhow::Result<()> {
        self.end.notify_one();
        self.thread.join().map_err(|_| CliError::bug("the server's thread ended unexpectedly"))?
    }
}

/// A daemon whose engine runs.
struct Served {
    config: Config,
    engine: Engine,
    port: u16,
    /// Ends the server as a signal does.
    end: Arc<Notify>,
}

impl Served {
    fn run(
        &self,
        listeners: Listeners,
        told: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.context("can't start the server")?;
        let cookie = self.config.auth.cookie_file.clone();
        let cookie = cookie.unwrap_or_else(|| self.config.data_dir.join(".cookie"));
        let (stop, stopping) = watch::channel(false);
        let app = self.app(cookie.clone(), stopping)?;
        // Whoever is told that it listens may end it from now on.
        let signals = runtime.block_on(async { Signals::listen() })?;
        told(&cookie)?;
        let done = runtime.block_on(self.serve(listeners, app.clone(), stop, signals));
        app.auth.end();
        // Requests may still wait for a node or a mint, and nobody hears their answers any more.
        runtime.shutdown_timeout(GRACE);
        done
    }

    fn app(&self, cookie: PathBuf, stopping: watch::Receiver<bool>) -> anyhow::Result<App> {
        let listener = listeners::http(&self.config);
        let (is_loopback, is_tls) = (listener.is_loopback(), listener.tls.is_some());
        let place = ServerPlace { cookie, port: self.port, is_loopback, is_tls, stopping };
        App::start(self.engine.clone(), self.config.clone(), place)
    }

    async fn serve(
        &self,
        listeners: Listeners,
        app: App,
        stop: watch::Sender<bool>,
        mut signals: Signals,
    ) -> anyhow::Result<()> {
        // One handle for all: they end together, and one that fails ends the daemon.
        let handle = axum_server::Handle::new();
        let serving = listeners.serve(&app, handle.clone());
        let sampling = tokio::spawn(sample(app.clone()));
        let end = self.end.clone();
        let ending = tokio::spawn(async move {
            tokio::select! {
                () = signals.next() => {}
                () = end.notified() => {}
            }
            tracing::info!("shutting down; a second signal ends at once");
            // Nobody listens any more when this fails.
            let _ = stop.send(true);
            handle.graceful_shutdown(Some(GRACE));
            // The same task goes on to listen, so that no moment is left in which a signal is lost.
            signals.next().await;
            std::process::exit(i32::from(interrupt::EXIT_CODE));
        });
        let done = serving.await;
        sampling.abort();
        // The second signal still counts while the engine ends, unless the server failed by itself.
        if done.is_err() {
            ending.abort();
        }
        done
    }
}

/// Looks at the rooms from time to time, for the plots and the metrics.
async fn sample(app: App) {
    let mut stopping = app.stopping.clone();
    loop {
        let looking = app.clone();
        // Rooms are asked on a thread that may block; here it would hold up connections.
        let looked = tokio::task::spawn_blocking(move || {
            recorder::upkeep();
            history::sample(&looking.engine, looking.config.rooms(), &looking.figures, clock::now())
        });
        let pause = match looked.await {
            Ok(sample) => app.history.put(sample),
            Err(_) => GRACE,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}

/// Ctrl-C and termination.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let interrupt = signal(SignalKind::interrupt()).context("can't listen for signals")?;
        let terminate = signal(SignalKind::terminate()).context("can't listen for signals")?;
        Ok(Self { interrupt, terminate })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Why a daemon that is up can't be started again.
pub(crate) fn refused(error: &unspent_engine::StartError) -> anyhow::Error {
    CliError::refused(error.to_string()).into()
}
