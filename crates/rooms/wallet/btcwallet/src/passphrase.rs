//! The seal of the public passphrase: scrypt, then NaCl's secret box.
//!
//! It hides account keys from whoever finds the file; both programs have a default that everybody
//! knows. Private keys lie under another passphrase and are of no use here.

use crypto_secretbox::{
    Key, Nonce, XSalsa20Poly1305,
    aead::{Aead as _, KeyInit as _},
};
use sha2::{Digest as _, Sha256};

use crate::{ReadError, fields::Fields};

/// What btcwallet and lnd use unless told otherwise.
pub const DEFAULTS: &[&str] = &["public", "hello"];

/// Memory that a passphrase may cost to try, in bytes: four times what the library asks for.
const MAX_MEMORY: u64 = 1 << 30;
const MAX_PARALLEL: u64 = 16;
const NONCE: usize = 24;

/// How the master key follows from the passphrase.
pub(crate) struct Seal {
    salt: [u8; 32],
    digest: [u8; 32],
    work: u64,
    block: u64,
    parallel: u64,
}

impl Seal {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        let mut fields = Fields::new(bytes, "the parameters of the public passphrase");
        let (salt, digest) = (fields.array()?, fields.array()?);
        let (work, block, parallel) = (fields.u64_le()?, fields.u64_le()?, fields.u64_le()?);
        fields.end()?;
        Ok(Self { salt, digest, work, block, parallel })
    }

    fn parameters(&self) -> Result<scrypt::Params, ReadError> {
        let Self { work, block, parallel, .. } = *self;
        let unreasonable =
            || ReadError::Unreasonable(format!("N = {work}, r = {block}, p = {parallel}"));
        // The file names these numbers. Unchecked, a prepared
        // one could ask for all memory there is.
        let memory = block.checked_mul(128).and_then(|each| each.checked_mul(work));
        let fits = memory.is_some_and(|memory| memory <= MAX_MEMORY) && parallel <= MAX_PARALLEL;
        // Zero has no logarithm, and is no power of two either.
        if !fits || !work.is_power_of_two() {
            return Err(unreasonable());
        }
        let bits = u8::try_from(work.ilog2()).map_err(|_| unreasonable())?;
        let block = u32::try_from(block).map_err(|_| unreasonable())?;
        let parallel = u32::try_from(parallel).map_err(|_| unreasonable())?;
        scrypt::Params::new(bits, block, parallel, 32).map_err(|_| unreasonable())
    }

    /// The master key, when the passphrase is right. Takes about a second.
    pub(crate) fn master_key(&self, passphrase: &str) -> Result<Option<SealedBy>, ReadError> {
        let parameters = self.parameters()?;
        let mut key = [0_u8; 32];
        scrypt::scrypt(passphrase.as_bytes(), &self.salt, &parameters, &mut key)
            .map_err(|error| ReadError::Unreasonable(error.to_string()))?;
        let digest: [u8; 32] = Sha256::digest(key).into();
        // How long this takes tells nothing: whoever can measure it has the file and its digest.
        Ok((digest == self.digest).then_some(SealedBy(key)))
    }
}

/// A key that opens boxes.
pub(crate) struct SealedBy([u8; 32]);

impl SealedBy {
    /// The key that a box holds.
    pub(crate) fn key_in(&self, sealed: &[u8]) -> Result<Self, ReadError> {
        let opened = self.open(sealed, "the public crypto key")?;
        let wrong = |_| ReadError::damaged("the public crypto key does not have 32 bytes");
        Ok(Self(opened.try_into().map_err(wrong)?))
    }

    /// What a box holds.
    pub(crate) fn open(&self, sealed: &[u8], what: &'static str) -> Result<Vec<u8>, ReadError> {
        let mut fields = Fields::new(sealed, what);
        let nonce: [u8; NONCE] = fields.array()?;
        let cipher = XSalsa20Poly1305::new(&Key::from(self.0));
        let opened = cipher.decrypt(&Nonce::from(nonce), fields.rest());
        opened.map_err(|_| ReadError::Damaged(format!("{what} does not open with its key")))
    }
}
