//! The sending. The address is judged after its name was looked up, at the moment of the call, so
//! that a name can't point elsewhere in the meantime.

use std::net::IpAddr;

use unspent_source::roots;
use ureq::{Agent, http::Uri, unversioned::transport::DefaultConnector};

use super::{MAX_URL_BYTES, WebhookOptions, message::Message};
use crate::outgoing::{Guarded, may_call, private};

/// What allows addresses of this machine and of private networks.
const PERMISSION: &str = "webhooks.allow_private";

/// Of an error, no more than this is kept.
const WORDS: usize = 200;

/// Whether a URL may be a hook's at all.
pub(super) fn check_url(url: &str, options: &WebhookOptions) -> Result<(), String> {
    if url.len() > MAX_URL_BYTES {
        return Err("the URL is longer than 2,000 bytes".into());
    }
    let uri: Uri = url.parse().map_err(|error| format!("not a URL: {error}"))?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or("the URL has no host")?;
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(
            "the URL contains a password; receivers should check the signature instead".into()
        );
    }
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if options.allow_private => {}
        Some("http") => {
            return Err("the URL must start with https://, unless `webhooks.allow_private` \
                is set"
                .into());
        }
        _ => return Err("the URL must start with https://".into()),
    }
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if literal.is_ok_and(|address| !may_call(address, options.allow_private)) {
        return Err(private(PERMISSION));
    }
    Ok(())
}

/// Posts messages. No redirect is followed and no proxy is asked.
pub(super) struct Poster {
    agent: Agent,
}

impl Poster {
    pub(super) fn new(options: &WebhookOptions) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(options.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections_per_host(1)
            .user_agent(concat!("unspent/", env!("CARGO_PKG_VERSION")))
            // A proxy would look the name up by itself, behind the back of the resolver that judges
            // it.
            .proxy(None)
            .tls_config(roots::tls(options.roots.as_ref()))
            .build();
        let allow_private = options.allow_private;
        let resolver = Guarded::new(allow_private, PERMISSION);
        Self { agent: Agent::with_parts(config, DefaultConnector::default(), resolver) }
    }

    /// Sends a message; anything but 2xx is a failure. The answer's body isn't read.
    pub(super) fn post(&self, url: &str, message: &Message) -> Result<(), String> {
        let sent = self
            .agent
            .post(url)
            .header("content-type", "application/json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", &message.timestamp)
            .header("webhook-signature", &message.signature)
            .send(&message.body);
        match sent {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(format!("it answered {}", answer.status())),
            Err(error) => Err(error.to_string().chars().take(WORDS).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_judged_before_they_are_kept() {
        let (strict, free) = (
            WebhookOptions::default(),
            WebhookOptions { allow_private: true, ..Default::default() },
        );
        assert!(check_url("https://shop.example/hook?x=1", &strict).is_ok());
        assert!(check_url("http://127.0.0.1:8080/hook", &free).is_ok());
        for wrong in [
            "http://shop.example/hook",
            "https://127.0.0.1/",
            "https://[::1]/",
            "ftp://shop.example",
            "https://user:pass@shop.example/",
            "/hook",
            "",
            "https://",
            "shop.example",
        ] {
            assert!(check_url(wrong, &strict).is_err(), "{wrong}");
        }
        assert!(check_url(&format!("https://shop.example/{}", "x".repeat(2_000)), &free).is_err());
    }
}
