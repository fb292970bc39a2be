//! From the configuration to a running engine.

use std::{fs, sync::Arc, time::Duration};

use anyhow::Context as _;
use unspent_engine::{Engine, config::Follow};
use unspent_server::{
    Config,
    config::{SimSection, SourceKind, SourceSection, secret, trusted_roots, webhook_options},
    private,
};
use unspent_source::{
    Origin,
    cardano::{Address, CardanoConfig, CardanoNode},
    core::{Auth, CoreConfig, CoreNode},
    folder::{Folder, FolderConfig},
    sim::{SimError, SimNetwork},
};

use super::refused;

use crate::databases;

/// Starts the engine on a source.
pub(super) fn start(config: &Config, origin: Arc<dyn Origin>) -> anyhow::Result<Engine> {
    fs::create_dir_all(&config.data_dir)
        .with_context(|| format!("can't make {}", config.data_dir.display()))?;
    private::tighten(&config.data_dir, &config.rooms().shapes());
    databases::remember(config)?;
    let engine_config = unspent_engine::Config {
        network: config.network,
        data_dir: config.data_dir.clone(),
        known: config.rooms().shapes(),
        rooms: config.rooms().switched_on(config)?,
        follow: Follow {
            poll: Duration::from_secs(config.source.poll_seconds),
            retry: Duration::from_secs(config.source.retry_seconds),
            ..Follow::default()
        },
        events_kept: config.events.keep,
        keys_per_caller: config.http.keys_per_caller,
        webhooks: webhook_options(config)?,
        ..unspent_engine::Config::new(config.data_dir.clone(), origin)
    };
    Engine::start(engine_config).map_err(|error| {
        let is_taken = matches!(error, unspent_engine::StartError::Running { .. });
        if is_taken { refused(&error) } else { error.into() }
    })
}

/// Where blocks come from.
pub(crate) fn origin(config: &Config) -> anyhow::Result<Arc<dyn Origin>> {
    let source = &config.source;
    match source.kind {
        SourceKind::Sim => sim(config),
        SourceKind::BitcoinNode => Ok(Arc::new(CoreNode::new(CoreConfig {
            url: source.url.clone().unwrap_or_default(),
            roots: source.root_certificate.as_deref().map(trusted_roots).transpose()?,
            auth: node_auth(source)?,
            network: config.network,
            zmq: source.zmq.clone(),
            poll: Duration::from_secs(source.poll_seconds),
        }))),
        SourceKind::CardanoNode => {
            let address = Address::Tcp(source.address.clone().unwrap_or_default());
            Ok(Arc::new(CardanoNode::new(CardanoConfig { address, network: config.network })))
        }
        SourceKind::CardanoSocket => {
            let address = Address::Socket(source.socket.clone().unwrap_or_default());
            Ok(Arc::new(CardanoNode::new(CardanoConfig { address, network: config.network })))
        }
        SourceKind::BitcoinFiles | SourceKind::ImmutableDb => {
            Ok(Arc::new(Folder::new(FolderConfig {
                paths: source.path.iter().cloned().collect(),
                network: config.network,
                unpack_in: config.data_dir.clone(),
                poll: Duration::from_secs(source.poll_seconds),
            })))
        }
    }
}

fn node_auth(source: &SourceSection) -> anyhow::Result<Auth> {
    match (&source.cookie_file, &source.user, &source.password_file) {
        (Some(cookie), _, _) => Ok(Auth::Cookie(cookie.clone())),
        (None, Some(user), Some(file)) => {
            Ok(Auth::Password { user: user.clone(), password: secret(file)? })
        }
        _ => Ok(Auth::None),
    }
}

/// The simulated network as the data folder has it.
pub(crate) fn sim_network(config: &Config) -> anyhow::Result<SimNetwork> {
    Ok(SimNetwork::open(&config.data_dir.join("sim"), config.source.sim.seed)?)
}

/// The simulated network, kept in the data folder; a thread mines as time goes by.
fn sim(config: &Config) -> anyhow::Result<Arc<dyn Origin>> {
    let settings = &config.source.sim;
    let network = sim_network(config)?;
    let missing = settings.blocks.saturating_sub(network.height());
    if missing > 0 {
        network.mine(u32::try_from(missing).unwrap_or(u32::MAX))?;
    }
    if settings.block_seconds > 0 {
        let (settings, mined) = (settings.clone(), network.clone());
        let mine = move || {
            for round in 1_u64.. {
                std::thread::sleep(Duration::from_secs(settings.block_seconds));
                if let Err(error) = next_block(&mined, &settings, round) {
                    tracing::warn!(%error, "the simulated network has stopped");
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("unspent-sim".into());
        thread.spawn(mine).context("can't start a thread")?;
    }
    Ok(Arc::new(network))
}

/// One round of the simulated network: a block, or a reorganisation.
fn next_block(network: &SimNetwork, settings: &SimSection, round: u64) -> Result<(), SimError> {
    if settings.reorg_every > 0 && round.is_multiple_of(settings.reorg_every) {
        return network.fork(settings.reorg_depth);
    }
    network.mine_busy(1, settings.payments)
}
