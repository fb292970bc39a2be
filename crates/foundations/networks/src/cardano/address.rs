//! Cardano addresses: bech32 from Shelley on, base58 in Byron, and the credentials inside.
//!
//! The upper half of the first byte says what an address is made of ([CIP-19]), the lower half its
//! network: types 0 to 3 have a payment and a stake part, 4 and 5 a pointer to a stake part, 6 and
//! 7 a payment part alone, 8 is Byron's, 14 and 15 are stake addresses, which hold no coins. Bit 4
//! of that byte tells keys from scripts in the payment part, bit 5 in the stake part.
//!
//! Two rules, because two things are asked of an address: what is on chain is taken as it is
//! ([`Credentials::of`]), for early eras accepted almost anything; what a person types is checked
//! to the last byte ([`parse`]), for a typing error must not look like an empty address.
//!
//! [CIP-19]: https://cips.cardano.org/cip/CIP-0019

use bech32::{Bech32, Hrp, primitives::decode::CheckedHrpstring};
use pallas_addresses::{
    ByronAddress, Pointer,
    byron::{AddrAttrProperty, AddressPayload},
};
use pallas_codec::minicbor;
use unspent_model::Network;

use crate::query::{AddressError, Query};

/// What a valid answer would have looked like.
const EXPECTED: &str = "a Cardano address in bech32, base58 or hex, \
     or a payment credential in bech32 (addr_vkh, script) or 56 hex digits";
/// Base58 takes quadratic time; the longest address seen on chain is far shorter.
const MAX_BASE58_CHARS: usize = 8_192;
const HASH_BYTES: usize = 28;
/// Header and one hash.
const SHORT_BYTES: usize = 1 + HASH_BYTES;
/// Header and two hashes.
const BASE_BYTES: usize = SHORT_BYTES + HASH_BYTES;

/// Who may spend an address, and who delegates with it.
#[derive(Default)]
pub(super) struct Credentials {
    pub(super) payment: Option<[u8; 28]>,
    pub(super) stake: Option<[u8; 28]>,
    pub(super) stake_addr: Option<Vec<u8>>,
}

impl Credentials {
    /// Reads what can be read: eras before Babbage accepted addresses with more bytes than needed,
    /// so a length is only ever too short. Byron addresses have no parts.
    pub(super) fn of(addr: &[u8]) -> Self {
        let Some(header) = addr.first() else { return Self::default() };
        let kind = header >> 4;
        let stake_kind = match kind {
            // The stake part of these is a key, of the next two a script.
            0 | 1 => Some(0xe0),
            2 | 3 => Some(0xf0),
            4..=7 => None,
            _ => return Self::default(),
        };
        let stake_kind = stake_kind.filter(|_| addr.len() >= BASE_BYTES);
        let stake = stake_kind.and_then(|_| hash_at(addr, SHORT_BYTES));
        let stake_addr = stake_kind.zip(stake).map(|(kind, hash)| {
            let mut bytes = Vec::with_capacity(SHORT_BYTES);
            bytes.push(kind | (header & 0x0f));
            bytes.extend_from_slice(&hash);
            bytes
        });
        Self { payment: hash_at(addr, 1), stake, stake_addr }
    }
}

fn hash_at(addr: &[u8], start: usize) -> Option<[u8; 28]> {
    addr.get(start..start + HASH_BYTES)?.try_into().ok()
}

pub(crate) fn parse(network: Network, text: &str) -> Result<Query, AddressError> {
    // Before base58, which takes many hex texts as well and then blames the checksum.
    if let Ok(bytes) = hex::decode(text) {
        return match <[u8; 28]>::try_from(bytes.as_slice()) {
            Ok(credential) => Ok(Query::Credential(credential)),
            Err(_) => check(network, &bytes).map(|()| Query::Address(bytes)),
        };
    }
    // The last 1 separates: bech32's data part never holds one (BIP 173).
    match text.rsplit_once('1').map(|(hrp, _)| hrp.to_ascii_lowercase()).as_deref() {
        Some("addr" | "addr_test") => {
            let bytes = bech32_bytes(text)?;
            check(network, &bytes)?;
            let hrp_fits = text.to_ascii_lowercase().starts_with(&format!("{}1", hrp_of(network)));
            let query = Query::Address(bytes);
            hrp_fits.then_some(query).ok_or(AddressError::WrongNetwork { network })
        }
        Some("addr_vkh" | "addr_shared_vkh" | "script") => {
            let bytes = bech32_bytes(text)?;
            let hash = <[u8; 28]>::try_from(bytes.as_slice());
            let reason = format!("a credential has 28 bytes, not {}", bytes.len());
            hash.map(Query::Credential).map_err(|_| malformed(reason))
        }
        Some(hrp) if hrp == "stake" || hrp.starts_with("stake_") => Err(AddressError::StakeAddress),
        Some(_) | None => base58_bytes(network, text).map(Query::Address),
    }
}

fn malformed(reason: impl ToString) -> AddressError {
    AddressError::malformed(EXPECTED, reason)
}

fn bech32_bytes(text: &str) -> Result<Vec<u8>, AddressError> {
    let checked = CheckedHrpstring::new::<Bech32>(text).map_err(malformed)?;
    Ok(checked.byte_iter().collect())
}

fn base58_bytes(network: Network, text: &str) -> Result<Vec<u8>, AddressError> {
    if text.len() > MAX_BASE58_CHARS {
        return Err(malformed(format!("{} characters", text.len())));
    }
    let bytes = bitcoin::base58::decode(text).map_err(malformed)?;
    check_byron(network, &bytes)?;
    Ok(bytes)
}

/// Whether the bytes are an address that can hold coins on this network.
fn check(network: Network, addr: &[u8]) -> Result<(), AddressError> {
    let header = addr.first().copied().unwrap_or_default();
    let is_whole = match header >> 4 {
        0..=3 => addr.len() == BASE_BYTES,
        4 | 5 => is_pointer(addr.get(SHORT_BYTES..).unwrap_or_default()),
        6 | 7 => addr.len() == SHORT_BYTES,
        8 => return check_byron(network, addr),
        14 | 15 => return Err(AddressError::StakeAddress),
        kind => return Err(malformed(format!("address type {kind} is unknown"))),
    };
    if !is_whole {
        return Err(malformed(format!(
            "an address of this type doesn't have {} bytes",
            addr.len()
        )));
    }
    if header & 0x0f != super::network_id(network) {
        return Err(AddressError::WrongNetwork { network });
    }
    Ok(())
}

/// Pointers that are out of range or longer than needed are on chain, so they can be asked for.
fn is_pointer(bytes: &[u8]) -> bool {
    Pointer::parse(bytes).is_ok()
}

fn check_byron(network: Network, addr: &[u8]) -> Result<(), AddressError> {
    let byron =
        byron(addr).ok_or_else(|| malformed("not a Byron address, or its checksum is wrong"))?;
    let payload = byron.decode().map_err(malformed)?;
    match network_tag(&payload) {
        Some(tag) if Some(tag) != super::magic(network) => {
            Err(AddressError::WrongNetwork { network })
        }
        Some(_) | None => Ok(()),
    }
}

/// The Byron address that these bytes are, all of them, with its checksum right.
fn byron(addr: &[u8]) -> Option<ByronAddress> {
    let byron = ByronAddress::from_bytes(addr).ok()?;
    (byron.crc == crc32(&byron.payload.0) && byron.to_vec() == addr).then_some(byron)
}

/// The network an address says it is for. Main network addresses don't say.
fn network_tag(payload: &AddressPayload) -> Option<u32> {
    payload.attributes.iter().find_map(|attribute| match attribute {
        AddrAttrProperty::NetworkTag(tag) => minicbor::decode(tag).ok(),
        AddrAttrProperty::AddrDistr(_) | AddrAttrProperty::DerivationPath(_) => None,
    })
}

/// The checksum of Byron addresses (CRC-32, ISO-HDLC). pallas has it, but doesn't let it out.
fn crc32(bytes: &[u8]) -> u32 {
    const REVERSED_POLYNOMIAL: u32 = 0xedb8_8320;
    let step = |crc: u32, _| (crc >> 1) ^ (REVERSED_POLYNOMIAL & (crc & 1).wrapping_neg());
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step));
    !crc
}

fn hrp_of(network: Network) -> &'static str {
    match super::network_id(network) {
        1 => "addr",
        _ => "addr_test",
    }
}

pub(crate) fn show(addr: &[u8]) -> Option<String> {
    let header = addr.first()?;
    match (header >> 4, header & 0x0f) {
        (0..=7, 0) if addr.len() >= SHORT_BYTES => to_bech32("addr_test", addr),
        (0..=7, 1) if addr.len() >= SHORT_BYTES => to_bech32("addr", addr),
        // Base58 takes quadratic time, and what is on the chain was written by anybody.
        (8, _) if addr.len() < MAX_BASE58_CHARS / 2 => {
            byron(addr).map(|_| bitcoin::base58::encode(addr))
        }
        _ => None,
    }
}

pub(crate) fn show_stake(addr: &[u8]) -> Option<String> {
    let header = addr.first().filter(|_| addr.len() == SHORT_BYTES)?;
    match (header >> 4, header & 0x0f) {
        (14 | 15, 0) => to_bech32("stake_test", addr),
        (14 | 15, 1) => to_bech32("stake", addr),
        _ => None,
    }
}

fn to_bech32(hrp: &str, bytes: &[u8]) -> Option<String> {
    bech32::encode::<Bech32>(Hrp::parse(hrp).ok()?, bytes).ok()
}
