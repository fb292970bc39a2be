//! Which addresses may be called when somebody else named them: the URL of a webhook, the mint of a
//! token. A request to this machine or to a private network could ask what nobody outside may ask.
//!
//! An address is judged after its name was looked up, at the moment of the call, so that a name
//! can't point elsewhere in the meantime.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ureq::{
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::NextTimeout,
    },
};

/// Says why an address isn't called, and which setting allows it.
pub fn private(permission: &str) -> String {
    format!("the address is on this machine or a private network; `{permission}` allows that")
}

/// Whether an address may be called.
pub fn may_call(address: IpAddr, allow_private: bool) -> bool {
    allow_private || is_public(address)
}

/// Whether an address is of the open network, as far as the standard library can tell.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match embedded_v4(v6) {
            Some(v4) => is_public_v4(v4),
            None => is_public_v6(v6),
        },
    }
}

/// The IPv4 address that mapped, compatible, translated (NAT64) and 6to4 addresses lead to.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    // A gateway or the system itself leads each of these to the IPv4 address inside.
    if [a, b, c, d, e] == [0; 5] && (f == 0 || f == 0xFFFF) {
        return Some(join(g, h));
    }
    if [a, b, c, d, e, f] == [0x64, 0xFF9B, 0, 0, 0, 0] {
        return Some(join(g, h));
    }
    (a == 0x2002).then(|| join(b, c))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // Tunnels (Teredo), names of keys (ORCHID), benchmarks: RFC 2928 sets 2001::/23 aside for
    // protocols, and no receiver stands behind the few of its addresses that are routed.
    let is_protocol = a == 0x2001 && b < 0x200;
    let is_documentation = (a, b) == (0x2001, 0xDB8) || (a == 0x3FFF && b < 0x1000);
    // Global unicast; local ranges lie outside of it.
    a & 0xE000 == 0x2000 && !is_protocol && !is_documentation
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    // Not told by the stable library: carriers' NAT (RFC 6598), 192.0.0.0/24 (RFC 6890), benchmarks
    // (RFC 2544).
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
pub struct Guarded {
    inner: DefaultResolver,
    allow_private: bool,
    permission: &'static str,
}

impl Guarded {
    /// `permission` is the setting that `allow_private` stands for.
    pub fn new(allow_private: bool, permission: &'static str) -> Self {
        Self { inner: DefaultResolver::default(), allow_private, permission }
    }
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
        // One private address among several is no reason to refuse, as long as it isn't called.
        for address in found.iter().filter(|found| may_call(found.ip(), self.allow_private)) {
            allowed.push(*address);
        }
        if allowed.is_empty() {
            return Err(ureq::Error::Other(private(self.permission).into()));
        }
        Ok(allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_addresses_are_called_unless_allowed() {
        let public = |text: &str| is_public(text.parse().unwrap());
        for open in [
            "1.1.1.1",
            "8.8.8.8",
            "172.32.0.1",
            "2606:4700::1111",
            "2002:808:808::1",
            "2001:200::1",
            "3fff:1000::1",
        ] {
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
            "3fff:fff::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:2::1",
            "2001:10::1",
            "2001:1f:ffff::1",
            "2001:20::1",
            "2001:2f:ffff::1",
        ] {
            assert!(!public(closed), "{closed}");
        }
    }
}
