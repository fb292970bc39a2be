//! Secrets at rest: everything that is money is sealed before it reaches a statement.
//!
//! XSalsa20-Poly1305 with a random nonce. The purpose of a value (`proof:<y>`, `seed`, …) is part
//! of what is sealed and compared on opening, so that no sealed value serves in another's place.
//!
//! | stored | how | because whoever reads it could otherwise |
//! |---|---|---|
//! | the seed, proofs, tokens in flight | sealed | spend |
//! | details of an entity: quote ids, invoices, preimages | sealed, as a whole | issue a paid quote that carries no lock, show a preimage as proof of having paid, see who was paid |
//! | what may be used once (`claim`): a quote id, a hash | keyed hash ([`SecretSealer::name`]) | guess and confirm it; equality is all that an index needs |
//! | ranges of counters | plain | count outputs; an audit compares them and has no key |
//! | a proof's public name (Y), its amount, states, times, ids of our own | plain | learn sums and times: selection, balances and lists read them by index |
//! | notes of the journal: a mint's words, cut at 200 characters | plain | learn why something failed |
//!
//! An invoice and a quote id are not money by themselves. They are sealed because nothing looks for
//! them, so that plain text would buy nothing.

use std::fmt;

use crypto_secretbox::{
    Nonce, XSalsa20Poly1305,
    aead::{Aead as _, KeyInit as _},
};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::{Zeroize as _, Zeroizing};

use crate::error::EcashError;

/// Version of the format, the first byte.
const FORMAT: u8 = 1;
const NONCE: usize = XSalsa20Poly1305::NONCE_SIZE;
/// 32 MiB and about a tenth of a second: 2^15 · 8 · 128 bytes.
const LOG_N: u8 = 15;
/// The shortest key file that is taken.
pub const MIN_KEY_FILE: usize = 32;

/// What the key is made from. `Debug` shows nothing of it.
pub enum KeySource {
    /// A passphrase that people remember; hardened with scrypt.
    Passphrase(Zeroizing<String>),
    /// The content of a key file: at least [`MIN_KEY_FILE`] random bytes.
    KeyFile(Zeroizing<Vec<u8>>),
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passphrase(_) => "KeySource::Passphrase(..)",
            Self::KeyFile(_) => "KeySource::KeyFile(..)",
        })
    }
}

/// Seals and opens. `Debug` shows nothing of the key.
pub struct SecretSealer {
    cipher: XSalsa20Poly1305,
    /// For names; another key than the cipher's.
    names: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for SecretSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(..)")
    }
}

impl SecretSealer {
    /// The key for a database with this salt.
    ///
    /// # Errors
    ///
    /// [`EcashError::Argument`] for an empty passphrase or a short key file.
    pub fn new(source: &KeySource, salt: &[u8]) -> Result<Self, EcashError> {
        let (bytes, log_n): (&[u8], u8) = match source {
            KeySource::Passphrase(words) if words.is_empty() => {
                return Err(EcashError::argument("the passphrase is empty"));
            }
            KeySource::Passphrase(words) => (words.as_bytes(), LOG_N),
            KeySource::KeyFile(bytes) if bytes.len() < MIN_KEY_FILE => {
                let short = format!("the key file holds fewer than {MIN_KEY_FILE} bytes");
                return Err(EcashError::Argument(short));
            }
            // Random bytes need no hardening; scrypt only mixes the salt in.
            KeySource::KeyFile(bytes) => (bytes, 1),
        };
        let bug = |_| EcashError::Bug("the parameters of scrypt are wrong".into());
        let params = scrypt::Params::new(log_n, 8, 1, 32).map_err(bug)?;
        let mut keys = Zeroizing::new([0_u8; 64]);
        let bug = |_| EcashError::Bug("the length of a key is wrong".into());
        scrypt::scrypt(bytes, salt, &params, keys.as_mut_slice()).map_err(bug)?;
        let (key, rest) = keys.split_at(32);
        let mut names = Zeroizing::new([0_u8; 32]);
        names.copy_from_slice(rest);
        let cipher = XSalsa20Poly1305::new(crypto_secretbox::Key::from_slice(key));
        Ok(Self { cipher, names })
    }

    /// A name for a value that must be found again and not be read: HMAC-SHA-256, in hexadecimal.
    ///
    /// # Errors
    ///
    /// [`EcashError::Bug`] if the key has a wrong length, which it can't have.
    pub fn name(&self, purpose: &str, value: &str) -> Result<String, EcashError> {
        let bug = |_| EcashError::Bug("the length of a key is wrong".into());
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(self.names.as_slice()).map_err(bug)?;
        // A purpose holds no zero byte, so that the two can't run into each other.
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(value.as_bytes());
        Ok(hex::encode(mac.finalize().into_bytes()))
    }

    /// Seals a value for one purpose.
    ///
    /// # Errors
    ///
    /// [`EcashError::NoRandomness`].
    pub fn seal(&self, purpose: &str, value: &[u8]) -> Result<Vec<u8>, EcashError> {
        let mut nonce = [0_u8; NONCE];
        random(&mut nonce)?;
        let length = u16::try_from(purpose.len())
            .map_err(|_| EcashError::Bug("the purpose of a sealed value is too long".into()))?;
        // At its full length from the start: a vector that grows leaves copies of the secret
        // behind.
        let mut plain = Zeroizing::new(Vec::with_capacity(2 + purpose.len() + value.len()));
        plain.extend_from_slice(&length.to_be_bytes());
        plain.extend_from_slice(purpose.as_bytes());
        plain.extend_from_slice(value);
        let sealed = self.cipher.encrypt(Nonce::from_slice(&nonce), plain.as_slice());
        let sealed = sealed.map_err(|_| EcashError::Bug("a value can't be sealed".into()))?;
        Ok([&[FORMAT], nonce.as_slice(), &sealed].concat())
    }

    /// Opens a value that was sealed for the same purpose.
    ///
    /// # Errors
    ///
    /// [`EcashError::Corrupt`] for anything else.
    pub fn open(&self, purpose: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, EcashError> {
        let damaged = || EcashError::Corrupt(format!("the sealed value of {purpose} doesn't open"));
        let (format, rest) = sealed.split_first().ok_or_else(damaged)?;
        if *format != FORMAT || rest.len() < NONCE {
            return Err(damaged());
        }
        let (nonce, rest) = rest.split_at(NONCE);
        let plain = self.cipher.decrypt(Nonce::from_slice(nonce), rest).map_err(|_| damaged())?;
        let mut plain = Zeroizing::new(plain);
        let head = [
            &u16::try_from(purpose.len()).map_err(|_| damaged())?.to_be_bytes(),
            purpose.as_bytes(),
        ]
        .concat();
        if !plain.starts_with(&head) {
            return Err(damaged());
        }
        let value = Zeroizing::new(plain.split_off(head.len()));
        plain.zeroize();
        Ok(value)
    }
}

/// Fills a slice with random bytes of the system.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), EcashError> {
    getrandom::fill(bytes).map_err(|_| EcashError::NoRandomness)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(words: &str) -> SecretSealer {
        let source = KeySource::Passphrase(Zeroizing::new(words.to_owned()));
        SecretSealer::new(&source, b"salt").unwrap()
    }

    #[test]
    fn a_value_opens_with_its_key_and_for_its_purpose_alone() {
        let ours = sealer("correct horse");
        let sealed = ours.seal("proof:1", b"secret").unwrap();
        assert_eq!(ours.open("proof:1", &sealed).unwrap().as_slice(), b"secret");
        assert!(ours.open("proof:2", &sealed).is_err());
        assert!(ours.open("proof:", &sealed).is_err());
        assert!(sealer("battery staple").open("proof:1", &sealed).is_err());
        for at in 0..sealed.len() {
            let mut bent = sealed.clone();
            bent[at] ^= 1;
            assert!(ours.open("proof:1", &bent).is_err(), "byte {at}");
        }
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        assert_ne!(sealed, ours.seal("proof:1", b"secret").unwrap(), "a nonce is used once");
    }

    #[test]
    fn names_hang_on_key_and_purpose() {
        let ours = sealer("correct horse");
        let name = ours.name("claim", "quote-1").unwrap();
        assert_eq!(name, ours.name("claim", "quote-1").unwrap());
        assert_ne!(name, ours.name("claim", "quote-2").unwrap());
        assert_ne!(name, ours.name("other", "quote-1").unwrap());
        assert_ne!(name, sealer("battery staple").name("claim", "quote-1").unwrap());
        assert_eq!(name.len(), 64);
    }

    #[test]
    fn weak_keys_are_refused_and_none_is_shown() {
        let short = KeySource::KeyFile(Zeroizing::new(vec![7; 31]));
        assert!(SecretSealer::new(&short, b"salt").is_err());
        let words = KeySource::Passphrase(Zeroizing::new("correct horse".into()));
        assert!(!format!("{words:?} {:?}", SecretSealer::new(&words, b"s")).contains("horse"));
    }
}
