//! Extended keys with the version bytes of SLIP-132: `ypub`, `zpub` and their kin.
//!
//! Such a key says in its first letter how its addresses are made; descriptors say that themselves
//! and know only `xpub` and `tpub`. A bare key becomes the descriptor that it stands for, a key
//! inside a descriptor gets its plain version, if the two agree.
//!
//! The table is that of <https://github.com/satoshilabs/slips/blob/master/slip-0132.md>.

use bitcoin::base58;
use miniscript::descriptor::checksum::verify_checksum;

use crate::error::WalletError;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KeyUse {
    Plain,
    Nested,
    Segwit,
    NestedMulti,
    SegwitMulti,
    Private,
}

const MAIN: [u8; 4] = [0x04, 0x88, 0xB2, 0x1E];
const TEST: [u8; 4] = [0x04, 0x35, 0x87, 0xCF];
/// Version bytes, the plain version of the same network, what it is for, what people call it.
const VERSIONS: [([u8; 4], [u8; 4], KeyUse, &str); 20] = [
    (MAIN, MAIN, KeyUse::Plain, "xpub"),
    (TEST, TEST, KeyUse::Plain, "tpub"),
    ([0x04, 0x9D, 0x7C, 0xB2], MAIN, KeyUse::Nested, "ypub"),
    ([0x04, 0xB2, 0x47, 0x46], MAIN, KeyUse::Segwit, "zpub"),
    ([0x02, 0x95, 0xB4, 0x3F], MAIN, KeyUse::NestedMulti, "Ypub"),
    ([0x02, 0xAA, 0x7E, 0xD3], MAIN, KeyUse::SegwitMulti, "Zpub"),
    ([0x04, 0x4A, 0x52, 0x62], TEST, KeyUse::Nested, "upub"),
    ([0x04, 0x5F, 0x1C, 0xF6], TEST, KeyUse::Segwit, "vpub"),
    ([0x02, 0x42, 0x89, 0xEF], TEST, KeyUse::NestedMulti, "Upub"),
    ([0x02, 0x57, 0x54, 0x83], TEST, KeyUse::SegwitMulti, "Vpub"),
    ([0x04, 0x88, 0xAD, 0xE4], MAIN, KeyUse::Private, "xprv"),
    ([0x04, 0x35, 0x83, 0x94], TEST, KeyUse::Private, "tprv"),
    ([0x04, 0x9D, 0x78, 0x78], MAIN, KeyUse::Private, "yprv"),
    ([0x04, 0xB2, 0x43, 0x0C], MAIN, KeyUse::Private, "zprv"),
    ([0x02, 0x95, 0xB0, 0x05], MAIN, KeyUse::Private, "Yprv"),
    ([0x02, 0xAA, 0x7A, 0x99], MAIN, KeyUse::Private, "Zprv"),
    ([0x04, 0x4A, 0x4E, 0x28], TEST, KeyUse::Private, "uprv"),
    ([0x04, 0x5F, 0x18, 0xBC], TEST, KeyUse::Private, "vprv"),
    ([0x02, 0x42, 0x85, 0xB5], TEST, KeyUse::Private, "Uprv"),
    ([0x02, 0x57, 0x50, 0x48], TEST, KeyUse::Private, "Vprv"),
];
/// Bytes of an extended key.
const KEY_BYTES: usize = 78;
/// Letters of an extended key, at least.
const KEY_LETTERS: usize = 100;

/// An extended key as it was written.
struct Slip132Key {
    used_as: KeyUse,
    name: &'static str,
    plain: String,
}

/// Reads an extended key, whatever its version.
fn read(text: &str) -> Option<Slip132Key> {
    // Most words of a descriptor are names and paths, which need no decoding.
    if text.len() < KEY_LETTERS {
        return None;
    }
    let bytes = base58::decode_check(text).ok().filter(|bytes| bytes.len() == KEY_BYTES)?;
    let (version, rest) = bytes.split_at_checked(4)?;
    let (_, plain, used_as, name) = VERSIONS.iter().find(|(known, ..)| known == version)?;
    let plain = base58::encode_check(&[plain, rest].concat());
    Some(Slip132Key { used_as: *used_as, name, plain })
}

/// The descriptor that a text stands for: a bare key's, or the text itself with plain keys.
///
/// # Errors
///
/// [`WalletError::Descriptor`] when the key doesn't say enough, says something else than the
/// descriptor around it, or is private.
pub fn descriptor(text: &str) -> Result<String, WalletError> {
    let text = text.trim();
    match read(text) {
        Some(key) => bare(&key),
        None => inside(text),
    }
}

fn refuse<T>(why: String) -> Result<T, WalletError> {
    Err(WalletError::Descriptor(why))
}

fn private<T>(name: &str) -> Result<T, WalletError> {
    refuse(format!("it holds a private key ({name}), but wallets here are watch-only"))
}

fn bare(key: &Slip132Key) -> Result<String, WalletError> {
    let Slip132Key { used_as, name, plain } = key;
    match used_as {
        KeyUse::Segwit => Ok(format!("wpkh({plain}/<0;1>/*)")),
        KeyUse::Nested => Ok(format!("sh(wpkh({plain}/<0;1>/*))")),
        KeyUse::Plain => refuse(format!(
            "{name} does not say how its addresses are made: write pkh({name}…/<0;1>/*), \
             wpkh({name}…/<0;1>/*) or tr({name}…/<0;1>/*)"
        )),
        KeyUse::NestedMulti | KeyUse::SegwitMulti => refuse(format!(
            "{name} is one key of several and does not say how many must sign: \
             write wsh(sortedmulti(2,KEY/<0;1>/*,KEY/<0;1>/*))"
        )),
        KeyUse::Private => private(name),
    }
}

/// Gives every key inside a descriptor its plain version.
fn inside(text: &str) -> Result<String, WalletError> {
    let (mut out, mut rest, mut changed) = (String::with_capacity(text.len()), text, false);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        match read(word) {
            Some(key) => {
                check_place(&key, &out)?;
                changed |= key.used_as != KeyUse::Plain;
                out.push_str(&key.plain);
            }
            None => out.push_str(word),
        }
        let next = tail.char_indices().nth(1).map_or(tail.len(), |(at, _)| at);
        let (mark, after) = tail.split_at(next);
        out.push_str(mark);
        rest = after;
    }
    // Left as it was, the text still fits its checksum, and miniscript checks that.
    if !changed {
        return Ok(out);
    }
    // A checksum covers the text as it was written, so it is checked on that and then dropped.
    verify_checksum(text).map_err(|error| WalletError::Descriptor(error.to_string()))?;
    Ok(out.split('#').next().unwrap_or_default().to_owned())
}

/// A key that names its use must stand in a descriptor of that use.
fn check_place(key: &Slip132Key, before: &str) -> Result<(), WalletError> {
    let compact: String = before.chars().filter(|c| !c.is_whitespace()).collect();
    let fits = match key.used_as {
        KeyUse::Plain => true,
        KeyUse::Segwit => compact.starts_with("wpkh("),
        KeyUse::Nested => compact.starts_with("sh(wpkh("),
        KeyUse::SegwitMulti => compact.starts_with("wsh("),
        KeyUse::NestedMulti => compact.starts_with("sh(wsh("),
        KeyUse::Private => return private(key.name),
    };
    if fits {
        return Ok(());
    }
    refuse(format!("{} doesn't belong in this kind of descriptor", key.name))
}
