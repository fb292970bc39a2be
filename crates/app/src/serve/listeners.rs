//! The table of listeners: a line for each protocol that the daemon speaks.

use std::net::SocketAddr;

use anyhow::Context as _;
use axum::Router;
use axum_server::Handle;
use tokio::task::JoinSet;
use unspent_engine::clock;
use unspent_server::{
    Config,
    api::{self, App, session},
    auth::TokenFile,
    listener::{BoundListener, ListenerSettings},
};

use super::ops;
use crate::{backup, web};

/// One protocol: where the settings put it, and what it answers.
struct ListenerRow {
    /// `None` where it is switched off.
    settings: fn(&Config) -> Option<ListenerSettings>,
    routes: Routes,
}

/// What a listener answers. All of them share the daemon's backups: one is made at a time.
type Routes = fn(&App, &backup::Backups) -> Router;

/// The first one is where commands and browsers reach the daemon, and is never off.
const LISTENERS: &[ListenerRow] =
    &[ListenerRow { settings: |config| Some(http(config)), routes: rest }];

/// Taken ports with the routes that they answer.
pub(super) struct Listeners {
    bound: Vec<(Routes, BoundListener)>,
    pub(super) url: String,
    pub(super) port: u16,
}

impl Listeners {
    /// Takes the ports that the settings name.
    pub(super) fn take(config: &Config) -> anyhow::Result<Self> {
        let has_tokens = || Ok(TokenFile::open(config.tokens_file())?.has_any(clock::now()));
        let wanted = LISTENERS.iter().filter_map(|row| Some((row, (row.settings)(config)?)));
        let wanted: Vec<_> = wanted.collect();
        // None is opened while another one isn't safe.
        wanted.iter().try_for_each(|(_, settings)| settings.check(has_tokens))?;
        let bound = wanted.into_iter().map(|(row, settings)| Ok((row.routes, settings.bind()?)));
        let bound: Vec<_> = bound.collect::<anyhow::Result<_>>()?;
        let first = bound.first().map(|(_, first)| (first.url(), first.port()));
        let (url, port) = first.context("the daemon has no address to listen on")?;
        Ok(Self { bound, url, port })
    }

    /// Answers until the handle ends them all, or one has failed.
    pub(super) async fn serve(self, app: &App, handle: Handle<SocketAddr>) -> anyhow::Result<()> {
        let (backups, mut servers) = (backup::Backups::default(), JoinSet::new());
        for (routes, listener) in self.bound {
            servers.spawn(listener.serve(routes(app, &backups), handle.clone()));
        }
        while let Some(done) = servers.join_next().await {
            done.context("the server was ended before all connections closed")??;
        }
        Ok(())
    }
}

/// The REST interface with the dashboard.
pub(super) fn http(config: &Config) -> ListenerSettings {
    let http = &config.http;
    ListenerSettings {
        section: "http",
        address: http.listen,
        tls: http.tls_cert.clone().zip(http.tls_key.clone()),
        connections: http.connections,
    }
}

fn rest(app: &App, backups: &backup::Backups) -> Router {
    let dashboard = session::with_guests(app, web::routes(app.config.rooms()));
    api::router(app, backup::routes(backups), ops::routes().merge(dashboard))
}
