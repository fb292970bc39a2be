//! Bitcoin Core's `listdescriptors` as a wallet to take in.
//!
//! A descriptor wallet of Core has an active pair of chains for each kind of address, and maybe old
//! or imported ones beside them. Each active pair becomes an account named after its kind; the
//! others become accounts of their own, since they may hold coins. What Core had derived is derived
//! here too: the gap limit is as wide as Core's range.

use bitcoin::{ScriptBuf, secp256k1::Secp256k1};
use miniscript::{Descriptor, DescriptorPublicKey, descriptor::DescriptorType};
use serde::Deserialize;
use unspent_sql::Arg;

use super::{AccountImport, MAX_CHAIN, WalletImport, report::LeftOut};
use crate::{
    NewAccount,
    descriptor::{Keychain, parse_address},
    error::WalletError,
    ids::sql_int,
    store::WalletStore,
    wallet_info::DEFAULT_GAP_LIMIT,
};

/// Descriptors taken in at once.
pub const MAX_DESCRIPTORS: usize = 1_000;
/// The widest gap that a wallet may have.
const MAX_GAP: u32 = 10_000;

/// What `listdescriptors` answers.
#[derive(Clone, Debug, Deserialize)]
pub struct CoreList {
    /// What Core calls the wallet.
    #[serde(default)]
    pub wallet_name: String,
    /// Its descriptors.
    pub descriptors: Vec<CoreDescriptor>,
}

/// One descriptor of Core's.
#[derive(Clone, Debug, Deserialize)]
pub struct CoreDescriptor {
    /// With its checksum.
    pub desc: String,
    /// When it was born, in seconds.
    #[serde(default)]
    pub timestamp: u64,
    /// Whether addresses are handed out from it.
    #[serde(default)]
    pub active: bool,
    /// Whether it is for change; only active ones say so.
    #[serde(default)]
    pub internal: bool,
    /// First and last index that Core has derived.
    #[serde(default)]
    pub range: Option<(u32, u32)>,
    /// The next index to hand out, as older versions name it.
    #[serde(default)]
    pub next: Option<u32>,
    /// The next index to hand out.
    #[serde(default)]
    pub next_index: Option<u32>,
}

impl CoreDescriptor {
    fn next(&self) -> u32 {
        self.next_index.or(self.next).unwrap_or(0)
    }

    /// Indexes that Core watches beyond the next one.
    fn gap(&self) -> u32 {
        // Told as a gap: none where the next index lies beyond the range.
        self.range.map_or(0, |(_, last)| last.saturating_add(1).saturating_sub(self.next()))
    }
}

/// A list ready to be taken in, and what is left behind.
#[derive(Clone, Debug)]
pub struct CoreImport {
    /// What is taken in.
    pub import: WalletImport,
    /// What isn't, and why.
    pub left: Vec<LeftOut>,
    /// When the oldest descriptor was born, in seconds.
    pub born: u64,
}

/// Block times may be off by so many seconds.
const LEEWAY: u64 = 7_200;
const STORED_BELOW: &str = "SELECT block_height, block_time FROM blocks
    WHERE block_height < $1 ORDER BY block_height DESC LIMIT 1";

impl WalletStore {
    /// A height that no block of that time or later is below, as far as the stored blocks tell; 0
    /// when they are all younger.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn height_before(&self, seconds: u64) -> Result<u64, WalletError> {
        // Before 1970 there are no blocks.
        let time = seconds.saturating_sub(LEEWAY);
        self.door.read(move |tx| {
            let highest = tx.maybe(STORED_BELOW, &[Arg::Int(i64::MAX)])?;
            let highest = highest.map(|row| row.natural("block_height")).transpose()?;
            // Times are nearly in order, so halving finds a block that is too early, above which
            // there is one that isn't.
            let (mut low, mut high, mut found) = (0, highest.map_or(0, |height| height + 1), 0);
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                match tx.maybe(STORED_BELOW, &[Arg::Int(sql_int(middle)?)])? {
                    Some(row) if row.natural("block_time")? > time => {
                        high = row.natural("block_height")?;
                    }
                    Some(row) => (low, found) = (middle, row.natural("block_height")?),
                    None => low = middle,
                }
            }
            Ok(found)
        })
    }
}

/// What is known about a descriptor once it is read.
struct ReadOne<'c> {
    core: &'c CoreDescriptor,
    kind: &'static str,
}

/// Makes a list ready to be taken in. A gap limit that isn't given is as wide as Core's range.
///
/// # Errors
///
/// [`WalletError::Descriptor`] when it holds private keys or keys of another network.
pub fn prepare(
    list: &CoreList,
    name: &str,
    network: bitcoin::Network,
    gap_limit: Option<u32>,
) -> Result<CoreImport, WalletError> {
    if list.descriptors.len() > MAX_DESCRIPTORS {
        return Err(WalletError::Argument("more than 1,000 descriptors at once".into()));
    }
    let (mut left, mut scripts, mut read) = (Vec::new(), Vec::new(), Vec::new());
    for core in &list.descriptors {
        refuse_private(&core.desc)?;
        if let Some(script) = single(&core.desc, network)? {
            scripts.push(script);
        } else {
            match kind(&core.desc) {
                Ok(kind) => read.push(ReadOne { core, kind }),
                Err(why) => left.push(LeftOut { what: shortened(&core.desc), count: 1, why }),
            }
        }
    }
    let accounts = accounts(&read, network)?;
    if accounts.is_empty() && scripts.is_empty() {
        return Err(WalletError::Argument(
            "the list has no descriptors that can be watched".into(),
        ));
    }
    let widest = read.iter().map(|one| one.core.gap()).max().unwrap_or(0);
    let gap_limit = gap_limit.unwrap_or(widest.clamp(DEFAULT_GAP_LIMIT, MAX_GAP));
    let born = list.descriptors.iter().map(|core| core.timestamp).min().unwrap_or(0);
    let import = WalletImport {
        name: name.to_owned(),
        gap_limit,
        accounts,
        scripts,
        ..WalletImport::default()
    };
    Ok(CoreImport { import, left, born })
}

/// Private keys are told by reading them, not by their letters.
fn refuse_private(text: &str) -> Result<(), WalletError> {
    let parsed = Descriptor::parse_descriptor(&Secp256k1::signing_only(), text);
    if parsed.is_ok_and(|(_, secrets)| !secrets.is_empty()) {
        let why = "the list holds private keys, but wallets here are watch-only: ask Core again, \
                   with `listdescriptors` or `listdescriptors false`";
        return Err(WalletError::Descriptor(why.into()));
    }
    Ok(())
}

/// The script of `addr(…)` or `raw(…)`, which stand for nothing else.
fn single(text: &str, network: bitcoin::Network) -> Result<Option<ScriptBuf>, WalletError> {
    let body = text.split('#').next().unwrap_or_default();
    let within = |name: &str| body.strip_prefix(name)?.strip_suffix(')');
    if let Some(address) = within("addr(") {
        return parse_address(address, network).map(Some);
    }
    match within("raw(") {
        Some(hex) => ScriptBuf::from_hex(hex)
            .map(Some)
            .map_err(|error| WalletError::Descriptor(format!("raw script: {error}"))),
        None => Ok(None),
    }
}

/// What kind of addresses a descriptor stands for.
fn kind(text: &str) -> Result<&'static str, String> {
    let parsed = text.parse::<Descriptor<DescriptorPublicKey>>();
    let parsed = parsed.map_err(|error| error.to_string())?;
    Ok(match parsed.desc_type() {
        DescriptorType::Pkh => "pkh",
        DescriptorType::Wpkh => "wpkh",
        DescriptorType::ShWpkh => "sh-wpkh",
        DescriptorType::Tr => "tr",
        DescriptorType::Wsh | DescriptorType::WshSortedMulti => "wsh",
        DescriptorType::ShWsh | DescriptorType::ShWshSortedMulti => "sh-wsh",
        DescriptorType::Sh | DescriptorType::ShSortedMulti => "sh",
        DescriptorType::Bare => "bare",
    })
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Active pairs first, then the others one by one.
fn accounts(
    read: &[ReadOne<'_>],
    network: bitcoin::Network,
) -> Result<Vec<AccountImport>, WalletError> {
    let mut made: Vec<AccountImport> = Vec::new();
    let mut paired: Vec<&str> = Vec::new();
    for one in read.iter().filter(|one| one.core.active && !one.core.internal) {
        let change = read
            .iter()
            .find(|other| other.core.active && other.core.internal && other.kind == one.kind);
        paired.push(&one.core.desc);
        paired.extend(change.map(|change| change.core.desc.as_str()));
        made.push(account(&made, one, change.map(|change| change.core), network)?);
    }
    for one in read.iter().filter(|one| !paired.contains(&one.core.desc.as_str())) {
        made.push(account(&made, one, None, network)?);
    }
    Ok(made)
}

/// An account named after its kind, and numbered where there are several.
fn account(
    known: &[AccountImport],
    one: &ReadOne<'_>,
    change: Option<&CoreDescriptor>,
    network: bitcoin::Network,
) -> Result<AccountImport, WalletError> {
    let taken = |name: &str| known.iter().any(|account| account.account.name == name);
    let numbered = (2..).map(|number| format!("{}-{number}", one.kind));
    let mut names = std::iter::once(one.kind.to_owned()).chain(numbered);
    let name = names.find(|name| !taken(name)).unwrap_or_default();
    let chains = Keychain::parse(&one.core.desc, network)?;
    let has_both = chains.len() == 2;
    let receive = one.core.next();
    let both = if has_both { receive } else { 0 };
    let next = [receive, change.map_or(both, CoreDescriptor::next)].map(|n| n.min(MAX_CHAIN));
    let account = NewAccount {
        name,
        receive: one.core.desc.clone(),
        change: change.filter(|_| !has_both).map(|change| change.desc.clone()),
    };
    Ok(AccountImport { account, next, used: Vec::new() })
}
