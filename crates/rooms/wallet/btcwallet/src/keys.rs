//! `waddrmgr`: whose the history is. Little endian but for a few numbers.
//!
//! A scope is a path such as 84'/0'; under it stand accounts with their extended public keys, and
//! addresses under the SHA-256 of what identifies them, each with its account, branch and index.

use std::collections::BTreeSet;

use bitcoin::{BlockHash, PublicKey, Script, ScriptBuf, bip32::Xpub, hashes::Hash as _};
use sha2::{Digest as _, Sha256};

use crate::{
    ReadError,
    bolt::{Bucket, Item},
    fields::Fields,
    passphrase::{Seal, SealedBy},
};

/// Versions whose tree is the one read here.
const VERSIONS: std::ops::RangeInclusive<u32> = 5..=8;
/// The account of single keys and scripts, which has no key of its own.
pub const IMPORTED: u32 = (1 << 31) - 1;

/// How a key becomes an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressType {
    /// `pkh`
    Legacy,
    /// `sh(wpkh)`
    Nested,
    /// `wpkh`
    Segwit,
    /// `tr`
    Taproot,
}

impl AddressType {
    fn read(byte: u8) -> Result<Self, ReadError> {
        match byte {
            0 => Ok(Self::Legacy),
            3 => Ok(Self::Nested),
            4 => Ok(Self::Segwit),
            6 => Ok(Self::Taproot),
            other => Err(ReadError::Version(format!("address type {other} is unknown"))),
        }
    }

    /// The descriptor of keys used in this way.
    pub fn descriptor(self, key: &str) -> String {
        match self {
            Self::Legacy => format!("pkh({key})"),
            Self::Nested => format!("sh(wpkh({key}))"),
            Self::Segwit => format!("wpkh({key})"),
            Self::Taproot => format!("tr({key})"),
        }
    }
}

/// A path under which accounts stand, without the hardening marks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Scope {
    /// 44, 49, 84, 86, or 1017 for lnd's own keys.
    pub purpose: u32,
    /// 0 on every network, but for lnd's own keys.
    pub coin: u32,
}

/// Up to where the source had read the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyncPoint {
    /// Blocks between it and genesis.
    pub height: u32,
    /// The hash of its header; zeros where the source didn't know it.
    pub hash: BlockHash,
    /// What its header says, in seconds.
    pub time: u32,
}

/// An address that the source knows.
#[derive(Clone, Copy, Debug)]
pub struct SourceAddress {
    /// SHA-256 of what identifies it.
    pub id: [u8; 32],
    /// Its scope.
    pub scope: Scope,
    /// Its account.
    pub account: u32,
    /// 1 for change.
    pub branch: u32,
    /// Its index in its branch.
    pub index: u32,
    /// Whether the source saw a payment to it.
    pub is_used: bool,
}

impl SourceAddress {
    /// Whether a script is the one that stands under this address.
    pub fn is(&self, script: &Script) -> bool {
        identity(script).is_some_and(|id| sha256(id) == self.id)
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// What the source identifies an address by: the hash or key in its script.
fn identity(script: &Script) -> Option<&[u8]> {
    let bytes = script.as_bytes();
    if script.is_p2pkh() {
        return bytes.get(3..23);
    }
    if script.is_p2sh() || script.is_p2wpkh() {
        return bytes.get(2..22);
    }
    if script.is_p2tr() || script.is_p2wsh() { bytes.get(2..34) } else { None }
}

/// An account whose key is open.
#[derive(Clone, Debug)]
pub struct SourceAccount {
    /// Its scope.
    pub scope: Scope,
    /// Its number in its scope.
    pub number: u32,
    /// What people call it.
    pub name: String,
    /// Its extended public key.
    pub xpub: Xpub,
    /// The fingerprint of the key above all, where known.
    pub fingerprint: Option<[u8; 4]>,
    /// Whether the file never had its private key.
    pub is_watch_only: bool,
    /// The next index to hand out.
    pub next_external: u32,
    /// The next index for change.
    pub next_internal: u32,
    /// How keys of the receiving branch are used.
    pub external: AddressType,
    /// How keys of the change branch are used.
    pub internal: AddressType,
}

/// What the public passphrase opens.
#[derive(Debug)]
pub struct PublicKeys {
    /// Accounts with keys.
    pub accounts: Vec<SourceAccount>,
    /// Single keys and scripts, as what pays to them.
    pub scripts: Vec<ScriptBuf>,
}

/// The address manager, its keys still sealed.
#[derive(Debug)]
pub struct Keys<'a> {
    /// Whether the file never had private keys.
    pub is_watch_only: bool,
    /// Up to where it had read the chain.
    pub synced: SyncPoint,
    /// The block its story starts with: genesis, unless it was told otherwise.
    pub start: Option<(u32, BlockHash)>,
    /// The first block that could concern it, where it found one.
    pub birthday_height: Option<u32>,
    /// Addresses that follow from accounts.
    pub addresses: Vec<SourceAddress>,
    main: Main<'a>,
    accounts: Vec<RawAccount<'a>>,
    singles: Vec<(Scope, AddressType, [u8; 32], Single<'a>)>,
}

/// The sealed parts of the bucket `main`.
#[derive(Debug)]
struct Main<'a> {
    seal: &'a [u8],
    crypto_key: &'a [u8],
    master: Option<&'a [u8]>,
}

#[derive(Debug)]
struct RawAccount<'a> {
    scope: Scope,
    number: u32,
    name: String,
    sealed_xpub: &'a [u8],
    fingerprint: Option<[u8; 4]>,
    is_watch_only: bool,
    next: [u32; 2],
    types: [AddressType; 2],
}

/// A single key or script.
#[derive(Debug)]
enum Single<'a> {
    Key(&'a [u8]),
    Script(&'a [u8]),
    WitnessScript { version: u8, hash: &'a [u8] },
}

impl<'a> Keys<'a> {
    pub(crate) fn read(bucket: &Bucket<'a>) -> Result<Self, ReadError> {
        let part = |name: &'static str| {
            let missing = || ReadError::NotAWallet(format!("it has no bucket `{name}`"));
            bucket.bucket(name.as_bytes()).ok_or_else(missing)
        };
        let (main, sync) = (part("main")?, part("sync")?);
        check_version(main)?;
        let need = |name: &'static str| {
            main.value(name.as_bytes())
                .ok_or_else(|| ReadError::Damaged(format!("`{name}` is missing")))
        };
        let mut keys = Self {
            is_watch_only: main.value(b"watchonly").is_some_and(|value| value == [1]),
            synced: synced(sync)?,
            start: start(sync)?,
            birthday_height: birthday(sync)?,
            addresses: Vec::new(),
            main: Main {
                seal: need("mpub")?,
                crypto_key: need("cpub")?,
                master: main.value(b"mhdpub"),
            },
            accounts: Vec::new(),
            singles: Vec::new(),
        };
        let schemas = part("scope-schema")?;
        for (key, item) in part("scope")?.entries() {
            let (scope, Item::Bucket(bucket)) = (scope(key)?, item) else { continue };
            let missing = || ReadError::Damaged("a scope has no schema".into());
            let schema = schemas.value(key).ok_or_else(missing)?;
            keys.read_scope(scope, types(&mut Fields::new(schema, "a schema"))?, bucket)?;
        }
        Ok(keys)
    }

    fn read_scope(
        &mut self,
        scope: Scope,
        types: [AddressType; 2],
        bucket: &Bucket<'a>,
    ) -> Result<(), ReadError> {
        for (key, value) in bucket.bucket(b"acct").into_iter().flat_map(Bucket::values) {
            let number = Fields::new(key, "the number of an account").u32_le()?;
            if number != IMPORTED {
                self.accounts.push(RawAccount::read(scope, number, types, value)?);
            }
        }
        let used = bucket.bucket(b"usedaddrs").into_iter().flat_map(Bucket::values);
        let used: BTreeSet<&[u8]> = used.map(|(key, _)| key).collect();
        for (key, value) in bucket.bucket(b"addr").into_iter().flat_map(Bucket::values) {
            let is_used = used.contains(key);
            let id = Fields::new(key, "the id of an address").array()?;
            let mut fields = Fields::new(value, "an address");
            let (kind, account) = (fields.u8()?, fields.u32_le()?);
            let (_added, _sync) = (fields.u64_le()?, fields.u8()?);
            let mut data = Fields::new(fields.sized()?, "an address");
            let single = match kind {
                0 => {
                    let (branch, index) = (data.u32_le()?, data.u32_le()?);
                    let address = SourceAddress { id, scope, account, branch, index, is_used };
                    self.addresses.push(address);
                    continue;
                }
                1 => Single::Key(data.sized()?),
                2 => Single::Script(data.sized()?),
                3 | 4 => {
                    let (version, _secret) = (data.u8()?, data.u8()?);
                    Single::WitnessScript { version, hash: data.sized()? }
                }
                other => {
                    let why = format!("an address of unknown kind {other}");
                    return Err(ReadError::Version(why));
                }
            };
            let [_, external] = types;
            self.singles.push((scope, external, id, single));
        }
        Ok(())
    }

    /// Opens the public keys with the first of these passphrases that is right.
    ///
    /// # Errors
    ///
    /// [`ReadError::WrongPassphrase`] when none is.
    pub fn open(&self, passphrases: &[&str]) -> Result<PublicKeys, ReadError> {
        let seal = Seal::read(self.main.seal)?;
        let mut master = None;
        for passphrase in passphrases {
            master = master.or(seal.master_key(passphrase)?);
            if master.is_some() {
                break;
            }
        }
        let master = master.ok_or(ReadError::WrongPassphrase)?;
        let key = master.key_in(self.main.crypto_key)?;
        let root = self.main.master.map(|sealed| xpub(&key, sealed)).transpose()?;
        let root = root.map(|root| root.fingerprint().to_bytes());
        let accounts = self.accounts.iter().map(|account| account.open(&key, root));
        let scripts = self.singles.iter().map(|(_, kind, id, single)| {
            let script = single.script(&key, *kind)?;
            // How an imported key is used is not written down but follows
            // from its scope; its id proves that this guess is right.
            if identity(&script).is_none_or(|found| sha256(found) != *id) {
                return Err(ReadError::damaged(
                    "an imported key or script is stored under another one's name",
                ));
            }
            Ok(script)
        });
        Ok(PublicKeys {
            accounts: accounts.collect::<Result<_, _>>()?,
            scripts: scripts.collect::<Result<_, _>>()?,
        })
    }
}

fn check_version(main: &Bucket<'_>) -> Result<(), ReadError> {
    let missing = || ReadError::NotAWallet("the address manager has no version".into());
    let stored = main.value(b"mgrver").ok_or_else(missing)?;
    let version = Fields::new(stored, "a version").u32_le()?;
    if VERSIONS.contains(&version) {
        return Ok(());
    }
    let why = "open it once with a current btcwallet or lnd, which brings it up to date";
    let why = format!("the address manager is of version {version}, not 5 to 8: {why}");
    Err(ReadError::Version(why))
}

fn synced(sync: &Bucket<'_>) -> Result<SyncPoint, ReadError> {
    let missing = || ReadError::damaged("`syncedto` is missing");
    let mut fields = Fields::new(sync.value(b"syncedto").ok_or_else(missing)?, "`syncedto`");
    let (height, hash) = (fields.u32_le()?, BlockHash::from_byte_array(fields.array()?));
    // The time came later than the rest.
    Ok(SyncPoint { height, hash, time: fields.u32_le().unwrap_or(0) })
}

fn start(sync: &Bucket<'_>) -> Result<Option<(u32, BlockHash)>, ReadError> {
    let Some(value) = sync.value(b"startblock") else { return Ok(None) };
    let mut fields = Fields::new(value, "`startblock`");
    Ok(Some((fields.u32_le()?, BlockHash::from_byte_array(fields.array()?))))
}

fn birthday(sync: &Bucket<'_>) -> Result<Option<u32>, ReadError> {
    let Some(value) = sync.value(b"birthdayblock") else { return Ok(None) };
    Fields::new(value, "`birthdayblock`").u32_be().map(Some)
}

fn scope(key: &[u8]) -> Result<Scope, ReadError> {
    let mut fields = Fields::new(key, "a scope");
    let (purpose, coin) = (fields.u32_le()?, fields.u32_le()?);
    fields.end()?;
    Ok(Scope { purpose, coin })
}

/// Change first, as it is written.
fn types(fields: &mut Fields<'_>) -> Result<[AddressType; 2], ReadError> {
    Ok([AddressType::read(fields.u8()?)?, AddressType::read(fields.u8()?)?])
}

fn xpub(key: &SealedBy, sealed: &[u8]) -> Result<Xpub, ReadError> {
    let text = key.open(sealed, "an extended public key")?;
    let text = std::str::from_utf8(&text).ok();
    let parsed = text.and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| ReadError::damaged("an account's key is not an extended public key"))
}

impl<'a> RawAccount<'a> {
    fn read(
        scope: Scope,
        number: u32,
        mut types: [AddressType; 2],
        value: &'a [u8],
    ) -> Result<Self, ReadError> {
        let mut fields = Fields::new(value, "an account");
        let kind = fields.u8()?;
        let mut fields = Fields::new(fields.sized()?, "an account");
        let sealed_xpub = fields.sized()?;
        let is_watch_only = match kind {
            0 => false,
            1 => true,
            other => {
                let why = format!("an account of unknown kind {other}");
                return Err(ReadError::Version(why));
            }
        };
        let mut fingerprint = None;
        if is_watch_only {
            let stored: [u8; 4] = fields.array()?;
            fingerprint = Some(stored).filter(|stored| *stored != [0; 4]);
        } else {
            fields.sized()?; // the private key, sealed with another passphrase
        }
        let next = [fields.u32_le()?, fields.u32_le()?];
        // A name is for people: bad bytes in it are no reason to lose the account.
        let name = String::from_utf8_lossy(fields.sized()?).into_owned();
        if is_watch_only && fields.u8()? == 1 {
            types = self::types(&mut fields)?;
        }
        let raw =
            Self { scope, number, name, sealed_xpub, fingerprint, is_watch_only, next, types };
        Ok(raw)
    }

    fn open(&self, key: &SealedBy, root: Option<[u8; 4]>) -> Result<SourceAccount, ReadError> {
        let ([next_external, next_internal], [internal, external]) = (self.next, self.types);
        // An account that came without its private key hangs under a master key elsewhere.
        let root = root.filter(|_| !self.is_watch_only);
        Ok(SourceAccount {
            scope: self.scope,
            number: self.number,
            name: self.name.clone(),
            xpub: xpub(key, self.sealed_xpub)?,
            fingerprint: self.fingerprint.or(root),
            is_watch_only: self.is_watch_only,
            next_external,
            next_internal,
            external,
            internal,
        })
    }
}

impl Single<'_> {
    fn script(&self, key: &SealedBy, kind: AddressType) -> Result<ScriptBuf, ReadError> {
        let hash = |sealed: &[u8], long: usize| {
            let opened = key.open(sealed, "the hash of a script")?;
            let fits = opened.len() == long;
            fits.then_some(opened).ok_or_else(|| ReadError::damaged("a script's hash is too short"))
        };
        // Built by hand from what was checked: opcodes of the standard forms.
        match self {
            Self::Key(sealed) => {
                let key = PublicKey::from_slice(&key.open(sealed, "an imported key")?);
                let wrong = |_| ReadError::damaged("an imported key is not a public key");
                key_script(&key.map_err(wrong)?, kind)
            }
            Self::Script(sealed) => {
                let hash = hash(sealed, 20)?;
                Ok(ScriptBuf::from_bytes([&[0xA9, 20][..], &hash, &[0x87]].concat()))
            }
            Self::WitnessScript { version, hash: sealed } => {
                let hash = hash(sealed, 32)?;
                let opcode = match version {
                    0 => 0,
                    1..=16 => 0x50 + version,
                    _ => return Err(ReadError::damaged("a witness version beyond 16")),
                };
                Ok(ScriptBuf::from_bytes([&[opcode, 32][..], &hash].concat()))
            }
        }
    }
}

fn key_script(key: &PublicKey, kind: AddressType) -> Result<ScriptBuf, ReadError> {
    let uncompressed = |_| ReadError::damaged("an uncompressed key in a segwit scope");
    Ok(match kind {
        AddressType::Legacy => ScriptBuf::new_p2pkh(&key.pubkey_hash()),
        AddressType::Nested => {
            let inner = ScriptBuf::new_p2wpkh(&key.wpubkey_hash().map_err(uncompressed)?);
            ScriptBuf::new_p2sh(&inner.script_hash())
        }
        AddressType::Segwit => ScriptBuf::new_p2wpkh(&key.wpubkey_hash().map_err(uncompressed)?),
        AddressType::Taproot => {
            let secp = bitcoin::secp256k1::Secp256k1::verification_only();
            ScriptBuf::new_p2tr(&secp, key.inner.x_only_public_key().0, None)
        }
    })
}
