//! Watch-only output descriptors and the scripts they stand for.
//!
//! Any descriptor that miniscript knows: single signatures of every type, taproot, multisig, with
//! or without a wildcard, with `<0;1>` for receive and change. Private keys are refused.

use std::str::FromStr;

use bitcoin::{Address, NetworkKind, ScriptBuf, base58, hashes::Hash as _};
use miniscript::{DefiniteDescriptorKey, Descriptor, DescriptorPublicKey, descriptor::XKeyNetwork};

use crate::{error::WalletError, slip132};

/// Weight of an input without its signatures: outpoint, sequence, empty script, witness count.
const BARE_INPUT_WEIGHT: u64 = 4 * (36 + 4 + 1) + 1;

/// Assumed weight of an input that spends a script nobody explained: a legacy key hash.
const UNKNOWN_INPUT_WEIGHT: u64 = 4 * 148;

/// The highest index that can be derived without hardening.
pub(crate) const MAX_INDEX: u32 = (1 << 31) - 1;

/// One chain of scripts.
#[derive(Clone, Debug)]
pub struct Keychain {
    descriptor: Descriptor<DescriptorPublicKey>,
}

impl Keychain {
    /// Reads one descriptor, or the two of a `<0;1>` pair.
    ///
    /// # Errors
    ///
    /// [`WalletError::Descriptor`] when it is malformed, insane, private or of another network.
    pub fn parse(text: &str, network: bitcoin::Network) -> Result<Vec<Self>, WalletError> {
        let refuse = |why: String| WalletError::Descriptor(why);
        // Before anything else: an error about such a text might show it.
        if holds_private_key(text) {
            return Err(refuse("it holds a private key, but wallets here are watch-only".into()));
        }
        let text = &slip132::descriptor(text)?;
        let parsed = Descriptor::<DescriptorPublicKey>::from_str(text.trim())
            .map_err(|error| refuse(error.to_string()))?;
        parsed.sanity_check().map_err(|error| refuse(error.to_string()))?;
        check_network(&parsed, network)?;
        let singles = if parsed.is_multipath() {
            parsed.into_single_descriptors().map_err(|error| refuse(error.to_string()))?
        } else {
            vec![parsed]
        };
        if singles.len() > 2 {
            return Err(refuse("it has more than two paths: receive and change".into()));
        }
        let chains: Vec<Self> = singles.into_iter().map(|descriptor| Self { descriptor }).collect();
        // A hardened step that no public key can take shows only once a script is derived.
        chains.iter().try_for_each(|chain| chain.script(0).map(drop))?;
        Ok(chains)
    }

    /// Reads a descriptor that this program wrote.
    pub(crate) fn stored(text: &str) -> Result<Self, WalletError> {
        let parsed = Descriptor::<DescriptorPublicKey>::from_str(text);
        let descriptor = parsed.map_err(|error| {
            WalletError::Corrupt(format!("a stored descriptor can't be read: {error}"))
        })?;
        Ok(Self { descriptor })
    }

    /// The descriptor itself.
    pub(crate) fn descriptor(&self) -> &Descriptor<DescriptorPublicKey> {
        &self.descriptor
    }

    /// Whether it stands for many scripts.
    pub fn has_many(&self) -> bool {
        self.descriptor.has_wildcard()
    }

    /// The descriptor of one script.
    ///
    /// # Errors
    ///
    /// [`WalletError::Descriptor`] when the index can't be derived.
    pub fn at(&self, index: u32) -> Result<Descriptor<DefiniteDescriptorKey>, WalletError> {
        let made = self.descriptor.at_derivation_index(index);
        made.map_err(|error| WalletError::Descriptor(error.to_string()))
    }

    /// One script.
    ///
    /// # Errors
    ///
    /// As for [`Keychain::at`].
    pub fn script(&self, index: u32) -> Result<ScriptBuf, WalletError> {
        Ok(self.at(index)?.script_pubkey())
    }

    /// Weight of an input that spends one of its coins, signatures included.
    pub fn input_weight(&self) -> u64 {
        let signatures = self.descriptor.max_weight_to_satisfy();
        signatures.map_or(UNKNOWN_INPUT_WEIGHT, |weight| BARE_INPUT_WEIGHT + weight.to_wu())
    }
}

impl std::fmt::Display for Keychain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.descriptor.fmt(f)
    }
}

/// Whether some word of a text is a private key: extended, in any of the versions that wallets
/// write, or of a single address. The letters tell nothing: any `xpub` may hold "prv".
fn holds_private_key(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(is_private_key)
}

fn is_private_key(word: &str) -> bool {
    // 82 bytes of an extended key with its checksum, 37 or 38 of a single one: nothing else needs
    // decoding.
    if !(50..=112).contains(&word.len()) {
        return false;
    }
    let Ok(bytes) = base58::decode_check(word) else { return false };
    let is_single = matches!(bytes.first(), Some(0x80 | 0xef))
        && (bytes.len() == 33 || (bytes.len() == 34 && bytes.last() == Some(&1)));
    // A public key starts with 2 or 3 where a private one has a zero before it.
    let is_extended = bytes.len() == 78 && bytes.get(45) == Some(&0);
    is_single || is_extended
}

fn check_network(
    descriptor: &Descriptor<DescriptorPublicKey>,
    network: bitcoin::Network,
) -> Result<(), WalletError> {
    let wanted = NetworkKind::from(network);
    match descriptor.xkey_network() {
        XKeyNetwork::NoXKeys => Ok(()),
        XKeyNetwork::Single(kind) if kind == wanted => Ok(()),
        XKeyNetwork::Single(_) | XKeyNetwork::Mixed => {
            let why = format!("its extended keys are not of {network}");
            Err(WalletError::Descriptor(why))
        }
    }
}

/// Weight of an input that spends a script nobody described.
pub(crate) fn guessed_input_weight(script: &bitcoin::Script) -> u64 {
    if script.is_p2wpkh() {
        BARE_INPUT_WEIGHT + 107
    } else if script.is_p2tr() {
        BARE_INPUT_WEIGHT + 65
    } else {
        UNKNOWN_INPUT_WEIGHT
    }
}

/// The routing key of a script.
pub fn script_hash(script: &bitcoin::Script) -> [u8; 32] {
    bitcoin::hashes::sha256::Hash::hash(script.as_bytes()).to_byte_array()
}

/// A script as people write it: an address where it has one, hex otherwise.
pub fn show_script(script: &bitcoin::Script, network: bitcoin::Network) -> String {
    match Address::from_script(script, network) {
        Ok(address) => address.to_string(),
        Err(_) => script.to_hex_string(),
    }
}

/// Reads an address of this network.
///
/// # Errors
///
/// [`WalletError::Argument`] when it is malformed or of another network.
pub fn parse_address(text: &str, network: bitcoin::Network) -> Result<ScriptBuf, WalletError> {
    let refuse =
        |why: String| WalletError::Argument(format!("`{text}` is not a valid address: {why}"));
    let address = Address::from_str(text.trim()).map_err(|error| refuse(error.to_string()))?;
    let checked = address.require_network(network).map_err(|error| refuse(error.to_string()))?;
    Ok(checked.script_pubkey())
}
