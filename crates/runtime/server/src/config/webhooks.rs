//! How webhooks are called, and who may vouch for the other end.

use std::{fs, path::Path, time::Duration};

use anyhow::Context as _;
use unspent_engine::webhooks::WebhookOptions;
use unspent_source::roots::TrustedRoots;

use super::whole::Config;
use crate::error::CliError;

/// How webhooks are called, by the daemon and by commands.
pub fn webhook_options(config: &Config) -> anyhow::Result<WebhookOptions> {
    let settings = &config.webhooks;
    Ok(WebhookOptions {
        allow_private: settings.allow_private,
        roots: settings.root_certificate.as_deref().map(trusted_roots).transpose()?,
        timeout: Duration::from_secs(settings.timeout_seconds),
        ..WebhookOptions::default()
    })
}

/// Certificates that may vouch for a node, or for the receivers of webhooks.
pub fn trusted_roots(file: &Path) -> anyhow::Result<TrustedRoots> {
    let shown = file.display();
    let pem = fs::read(file).with_context(|| format!("can't read the certificates in {shown}"))?;
    TrustedRoots::from_pem(&pem).map_err(|reason| {
        CliError::input(format!("can't use the certificates in {shown}: {reason}")).into()
    })
}
