//! From the configuration to a running engine.

use std::{fs, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use unspent_engine::{
    Config as EngineConfig, Engine,
    config::{ChainRoom, Follow, Jobs, WalletRoom},
    source::{
        Origin,
        cardano::{Address, CardanoConfig, CardanoNode},
        core::{Auth, CoreConfig, CoreNode},
        folder::{Folder, FolderConfig},
        sim::{SimError, SimNetwork},
    },
};
use unspent_sql::Url;

use super::refused;
use crate::{
    cli::OptionArgs,
    config::{Config, SimSection, SourceKind, SourceSection, UtxoSection},
    fault::Fault,
    import,
};

/// The longest password or URL read from a file.
const MAX_SECRET: u64 = 4096;

/// Starts the engine on a source.
pub(super) fn start(config: &Config, origin: Arc<dyn Origin>) -> anyhow::Result<Engine> {
    fs::create_dir_all(&config.data_dir)
        .with_context(|| format!("can't make {}", config.data_dir.display()))?;
    let engine_config = EngineConfig {
        network: config.network,
        data_dir: config.data_dir.clone(),
        origin,
        chain: chain(config)?,
        wallet: wallet(config)?,
        follow: Follow {
            poll: Duration::from_secs(config.source.poll_seconds),
            retry: Duration::from_secs(config.source.retry_seconds),
            ..Follow::default()
        },
        jobs: Jobs {
            prune_every: Duration::from_secs(config.jobs.prune_seconds),
            purge_leases_every: Duration::from_secs(config.jobs.purge_leases_seconds),
            mempool_every: Duration::from_secs(config.jobs.mempool_seconds),
            rebroadcast_every: Duration::from_secs(config.jobs.rebroadcast_seconds),
            ..Jobs::default()
        },
        events_kept: config.events.keep,
    };
    Engine::start(engine_config).map_err(|error| {
        let is_taken = matches!(error, unspent_engine::StartError::Running { .. });
        if is_taken { refused(&error) } else { error.into() }
    })
}

fn chain(config: &Config) -> anyhow::Result<Option<ChainRoom>> {
    if !config.utxo.enabled {
        return Ok(None);
    }
    let folder = config.data_dir.join("chain");
    let known = import::known(&folder)?;
    let options = option_args(&config.utxo)?.resolve(config.network, known.as_ref())?;
    let genesis = import::read_genesis(config.network, &config.source.genesis)?;
    Ok(Some(ChainRoom { folder, options, genesis }))
}

fn option_args(utxo: &UtxoSection) -> anyhow::Result<OptionArgs> {
    let strategy = utxo.indexing_strategy.as_deref().map(str::parse).transpose()?;
    Ok(OptionArgs {
        enabled: Some(utxo.enabled),
        store: None,
        prune_depth: utxo.prune_depth,
        rollback_window: utxo.rollback_window,
        prune_batch_size: utxo.prune_batch_size,
        index_address_hash: utxo.index.address_hash,
        index_payment_credential: utxo.index.payment_credential,
        indexing_strategy: strategy,
        delta_self_contained: utxo.delta.self_contained,
        block_cache_mb: utxo.block_cache_mb,
        bulk_blocks: utxo.bulk_blocks,
    })
}

fn wallet(config: &Config) -> anyhow::Result<Option<WalletRoom>> {
    if !config.wallet_enabled() {
        return Ok(None);
    }
    Ok(Some(WalletRoom { url: wallet_url(config)?, options: unspent_sql::Options::default() }))
}

/// The wallets' database.
pub(crate) fn wallet_url(config: &Config) -> anyhow::Result<Url> {
    let given = match &config.wallet.url_file {
        Some(file) => Some(secret(file)?),
        None => config.wallet.url.clone(),
    };
    match given {
        Some(text) => text.parse().map_err(|error| Fault::usage(format!("{error}")).into()),
        None => Ok(Url::Sqlite(config.data_dir.join("wallet.db"))),
    }
}

/// A secret that stands alone in a file.
fn secret(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let size = fs::metadata(file).with_context(|| format!("can't read {shown}"))?.len();
    if size > MAX_SECRET {
        return Err(Fault::input(format!("{shown} is too large for a secret")).into());
    }
    let text = fs::read_to_string(file).with_context(|| format!("can't read {shown}"))?;
    Ok(text.trim().to_owned())
}

/// Where blocks come from.
pub(super) fn origin(config: &Config) -> anyhow::Result<Arc<dyn Origin>> {
    let source = &config.source;
    match source.kind {
        SourceKind::Sim => sim(config),
        SourceKind::BitcoinNode => Ok(Arc::new(CoreNode::new(CoreConfig {
            url: source.url.clone().unwrap_or_default(),
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
                    tracing::warn!(%error, "the simulated network stands still");
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("unspent-sim".into());
        thread.spawn(mine).context("a thread can't be started")?;
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
