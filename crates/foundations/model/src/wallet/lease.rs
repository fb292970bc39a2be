//! Leases: who may spend which coin, until when.
//!
//! Invariant: at most one active lease per coin. A lease is active while `expires_at > now`; at the
//! very moment of expiry the coin is free. Time is an argument, in microseconds.

use std::{fmt, str::FromStr};

use crate::Micros;

/// The holder of a lease: 32 bytes of the caller's choice, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId([u8; 32]);

/// The bytes can't be a lock id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadLockId {
    /// More or fewer than 32 bytes, or no hex.
    #[error("a lock id is 32 bytes, written as 64 hex digits")]
    Length,
    /// All zero, which too many callers would choose by mistake.
    #[error("a lock id can't be all zero")]
    Zero,
}

impl LockId {
    /// Checks the bytes.
    ///
    /// # Errors
    ///
    /// [`BadLockId`] when they aren't 32 or are all zero.
    pub fn new(bytes: &[u8]) -> Result<Self, BadLockId> {
        let id: [u8; 32] = bytes.try_into().map_err(|_| BadLockId::Length)?;
        if id == [0; 32] { Err(BadLockId::Zero) } else { Ok(Self(id)) }
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for LockId {
    type Err = BadLockId;

    fn from_str(text: &str) -> Result<Self, BadLockId> {
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(BadLockId::Length);
        }
        let byte = |at: usize| {
            let digits = text.get(2 * at..2 * at + 2).ok_or(BadLockId::Length)?;
            u8::from_str_radix(digits, 16).map_err(|_| BadLockId::Length)
        };
        Self::new(&(0..32).map(byte).collect::<Result<Vec<_>, _>>()?)
    }
}

impl fmt::Display for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A lease as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredLease {
    /// Who holds it.
    pub by: LockId,
    /// First moment at which it no longer counts, in microseconds.
    pub expires_at: Micros,
}

/// What asking for a lease comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseAnswer {
    /// The coin was free.
    Taken,
    /// The holder asked again; the new expiry counts, be it later or earlier.
    Renewed,
    /// Another's lease had run out.
    Stolen,
    /// Another holds it.
    Refused(StoredLease),
}

/// Decides a request for one coin.
pub fn ask(held: Option<StoredLease>, by: LockId, now: Micros) -> LeaseAnswer {
    match held {
        None => LeaseAnswer::Taken,
        Some(held) if held.by == by => LeaseAnswer::Renewed,
        Some(held) if held.expires_at <= now => LeaseAnswer::Stolen,
        Some(held) => LeaseAnswer::Refused(held),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> LockId {
        LockId::new(&[byte; 32]).unwrap()
    }

    #[test]
    fn a_lock_id_is_32_bytes_and_not_zero() {
        assert_eq!(LockId::new(&[1; 31]), Err(BadLockId::Length));
        assert_eq!(LockId::new(&[1; 33]), Err(BadLockId::Length));
        assert_eq!(LockId::new(&[0; 32]), Err(BadLockId::Zero));
        assert_eq!("zz".repeat(32).parse::<LockId>(), Err(BadLockId::Length));
        assert_eq!("é".repeat(32).parse::<LockId>(), Err(BadLockId::Length));
        assert_eq!(id(7).to_string().parse(), Ok(id(7)));
    }

    #[test]
    fn a_lease_ends_at_the_moment_of_its_expiry() {
        let held = StoredLease { by: id(1), expires_at: Micros(100) };
        assert_eq!(ask(Some(held), id(2), Micros(99)), LeaseAnswer::Refused(held));
        assert_eq!(ask(Some(held), id(2), Micros(100)), LeaseAnswer::Stolen);
        assert_eq!(ask(Some(held), id(1), Micros(99)), LeaseAnswer::Renewed);
        assert_eq!(ask(None, id(1), Micros(99)), LeaseAnswer::Taken);
    }
}
