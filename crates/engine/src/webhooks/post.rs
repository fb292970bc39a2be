//! The sending. The address is judged after its name was looked up, at the moment of the call, so
//! that a name can't point elsewhere in the meantime.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ureq::{
    Agent,
    config::Config,
    http::Uri,
    tls::{PemItem, RootCerts, TlsConfig, parse_pem},
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};

use super::{MAX_URL_BYTES, WebhookOptions, message::Message};

/// Of an error, no more than this is kept.
const WORDS: usize = 200;

/// Whether a URL may be a hook's at all.
pub(super) fn check_url(url: &str, options: &WebhookOptions) -> Result<(), String> {
    if url.len() > MAX_URL_BYTES {
        return Err("the URL is longer than 2,000 bytes".into());
    }
    let uri: Uri = url.parse().map_err(|error| format!("no URL: {error}"))?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or("the URL names no host")?;
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("the URL holds a password; the signature is what the receiver checks".into());
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
        return Err(private());
    }
    Ok(())
}

fn private() -> String {
    "the address is of this machine or of a private network; `webhooks.allow_private` allows that"
        .into()
}

fn may_call(address: IpAddr, allow_private: bool) -> bool {
    allow_private || is_public(address)
}

/// Whether an address is of the open network, as far as the standard library can tell.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match embedded_v4(v6) {
            Some(v4) => is_public_v4(v4),
            // Global unicast alone; documentation and local ranges lie inside or outside of it.
            None => v6.segments()[0] & 0xE000 == 0x2000 && v6.segments()[..2] != [0x2001, 0xDB8],
        },
    }
}

/// The IPv4 address that mapped, compatible, translated (NAT64) and 6to4 addresses lead to.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    if [a, b, c, d, e] == [0; 5] && (f == 0 || f == 0xFFFF) {
        return Some(join(g, h));
    }
    if [a, b, c, d, e, f] == [0x64, 0xFF9B, 0, 0, 0, 0] {
        return Some(join(g, h));
    }
    (a == 0x2002).then(|| join(b, c))
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol = (a, b, c) == (192, 0, 0) || (a == 198 && (b == 18 || b == 19));
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || is_shared
        || is_protocol)
}

/// Looks names up and leaves out what may not be called.
#[derive(Debug)]
struct Guarded {
    inner: DefaultResolver,
    allow_private: bool,
}

impl Resolver for Guarded {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        let mut allowed = self.empty();
        for address in found.iter().filter(|found| may_call(found.ip(), self.allow_private)) {
            allowed.push(*address);
        }
        if allowed.is_empty() { Err(ureq::Error::Other(private().into())) } else { Ok(allowed) }
    }
}

/// Certificates of those who may vouch for a receiver, in the place of the usual ones.
#[derive(Clone, Debug)]
pub struct HookRoots(RootCerts);

impl HookRoots {
    /// Reads certificates in PEM.
    ///
    /// # Errors
    ///
    /// The reason, when something in it can't be read or there is no certificate.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let mut found = Vec::new();
        for item in parse_pem(pem) {
            if let PemItem::Certificate(certificate) = item.map_err(|error| error.to_string())? {
                found.push(certificate);
            }
        }
        if found.is_empty() {
            return Err("it holds no certificate".into());
        }
        Ok(Self(RootCerts::new_with_certs(&found)))
    }
}

/// Posts messages. No redirect is followed and no proxy is asked.
pub(super) struct Poster {
    agent: Agent,
}

impl Poster {
    pub(super) fn new(options: &WebhookOptions) -> Self {
        let roots = options.roots.as_ref().map_or(RootCerts::WebPki, |roots| roots.0.clone());
        let config = Agent::config_builder()
            .timeout_global(Some(options.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections_per_host(1)
            .user_agent(concat!("unspent/", env!("CARGO_PKG_VERSION")))
            .proxy(None)
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .build();
        let allow_private = options.allow_private;
        let resolver = Guarded { inner: DefaultResolver::default(), allow_private };
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
    fn only_open_addresses_are_called_unless_allowed() {
        let public = |text: &str| is_public(text.parse().unwrap());
        for open in ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "2002:808:808::1"] {
            assert!(public(open), "{open}");
        }
        for closed in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::1",
            "2001:db8::1",
        ] {
            assert!(!public(closed), "{closed}");
        }
    }

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
