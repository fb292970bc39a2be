//! How many wrong credentials one address may send.

use std::{
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    time::Duration,
};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// How long a wrong credential is made to wait for its answer.
pub const DELAY: Duration = Duration::from_millis(250);
/// Addresses remembered before those that have paid their debt are forgotten.
const MAX_ADDRESSES: usize = 10_000;

/// Counts failures by address.
pub struct Attempts {
    limiter: DefaultKeyedRateLimiter<IpAddr>,
}

impl Attempts {
    pub(super) fn new(per_minute: u32) -> Self {
        let quota = Quota::per_minute(NonZeroU32::new(per_minute).unwrap_or(NonZeroU32::MIN));
        Self { limiter: RateLimiter::keyed(quota) }
    }

    /// Notes a failure. `false` when the address has used up what it may.
    pub fn failed(&self, from: IpAddr) -> bool {
        if self.limiter.len() > MAX_ADDRESSES {
            self.limiter.retain_recent();
        }
        self.limiter.check_key(&network_of(from)).is_ok()
    }
}

/// Whoever has one IPv6 address usually has the whole /64.
fn network_of(from: IpAddr) -> IpAddr {
    match from {
        IpAddr::V4(_) => from,
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => IpAddr::V4(mapped),
            None => IpAddr::V6(Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX))),
        },
    }
}
