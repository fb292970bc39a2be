//! The table of listeners: a line for each protocol that the daemon speaks.

use axum::Router;
use unspent_server::{
    api::{self, state::App},
    config::Config,
    listener::ListenerSettings,
};

use super::{dashboard, ops};
use crate::backup;

/// One protocol: where the settings put it, and what it answers.
pub(super) struct ListenerRow {
    /// `None` where it is switched off.
    pub(super) settings: fn(&Config) -> Option<ListenerSettings>,
    /// Its routes.
    pub(super) routes: fn(&App) -> Router,
}

/// The first one is where commands and browsers reach the daemon, and is never off.
pub(super) const LISTENERS: &[ListenerRow] =
    &[ListenerRow { settings: |config| Some(http(config)), routes: rest }];

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

fn rest(app: &App) -> Router {
    api::router(app, backup::routes(), ops::routes().merge(dashboard::routes(app)))
}
