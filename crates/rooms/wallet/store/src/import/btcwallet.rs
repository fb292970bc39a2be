//! `wallet.db` of btcwallet and lnd as a wallet to take in.
//!
//! Accounts become descriptors with the origin that the file knows, so that a signer finds its
//! keys; every address that the file lists is derived again and held against it. What no account
//! explains (imported keys and scripts, outputs that the source calls its own) is watched by
//! itself. Leases stay leases: they carry a holder and an end, and the program that holds them may
//! still release them; a frozen coin would have neither.

use std::collections::{BTreeMap, HashSet};

use bitcoin::{
    OutPoint, ScriptBuf, bip32::ChildNumber, constants::genesis_block, hashes::Hash as _,
};
use unspent_btcwallet::{
    WalletFile,
    history::{History, SourceBlock},
    keys::{Keys, PublicKeys, Scope, SourceAccount, SourceAddress},
};
use unspent_model::{BlockHash, Micros, Network, wallet::LockId};

use super::{AccountImport, CoinClaim, LeaseImport, TxImport, WalletImport, report::LeftOut};
use crate::{
    NewAccount, batch::BlockRef, descriptor::Keychain, error::WalletError, labels::MAX_LABEL,
    wallet_info::KeychainPurpose,
};

/// Purposes whose accounts hold addresses for people.
const FOR_PEOPLE: [u32; 4] = [44, 49, 84, 86];

/// How the wallet is to be taken in.
#[derive(Clone, Debug)]
pub struct ImportTerms {
    /// Its name here.
    pub name: String,
    /// Scripts watched beyond the last used one.
    pub gap_limit: u32,
    /// The time, in microseconds.
    pub now: Micros,
}

/// A wallet ready to be taken in, and what is left behind.
#[derive(Clone, Debug)]
pub struct PreparedImport {
    /// What is taken in.
    pub import: WalletImport,
    /// What isn't, and why.
    pub left: Vec<LeftOut>,
    /// Addresses that the file lists and whose keys give another script; none in a sound file.
    pub strangers: Vec<String>,
}

/// The network that a file is of, where its first block tells.
pub fn network(keys: &Keys<'_>) -> Option<Network> {
    let (height, hash) = keys.start?;
    let known = [
        (Network::Bitcoin, bitcoin::Network::Bitcoin),
        (Network::BitcoinTestnet4, bitcoin::Network::Testnet4),
        (Network::BitcoinSignet, bitcoin::Network::Signet),
        (Network::BitcoinRegtest, bitcoin::Network::Regtest),
    ];
    let is_its = |network| height == 0 && genesis_block(network).block_hash() == hash;
    known.into_iter().find(|(_, network)| is_its(*network)).map(|(network, _)| network)
}

/// Makes a file's records ready to be taken in.
///
/// # Errors
///
/// [`WalletError::Descriptor`] when the keys are of another network than `network`.
pub fn prepare(
    file: &WalletFile<'_>,
    public: &PublicKeys,
    network: bitcoin::Network,
    terms: &ImportTerms,
) -> Result<PreparedImport, WalletError> {
    let mut making = ImportBuilder { left: Vec::new(), strangers: Vec::new() };
    let accounts = making.accounts(&file.keys, public, network)?;
    let history = &file.history;
    let txs = making.transactions(history);
    let scripts = credited(history).chain(public.scripts.iter().cloned());
    let first = history.txs.iter().filter_map(|tx| tx.block).map(|block| block.height).min();
    // The lower of the two: a birthday set by hand may lie above the first payment in the file.
    let birthday = [first, file.keys.birthday_height].into_iter().flatten().min().unwrap_or(0);
    let import = WalletImport {
        name: terms.name.clone(),
        birthday: birthday.into(),
        born: None,
        gap_limit: terms.gap_limit,
        accounts,
        scripts: unique(scripts),
        txs,
        tip: tip(file),
        labels: making.labels(history),
        leases: making.leases(history, terms.now),
        coins: claims(history),
    };
    if !file.keys.is_watch_only {
        let why = "wallets here are watch-only; the old file keeps them";
        making.leave("private keys", 1, why);
    }
    Ok(PreparedImport { import, left: making.left, strangers: making.strangers })
}

fn unique(scripts: impl Iterator<Item = ScriptBuf>) -> Vec<ScriptBuf> {
    let mut seen = HashSet::new();
    scripts.filter(|script| seen.insert(script.clone())).collect()
}

/// Scripts that the source was paid to.
fn credited(history: &History) -> impl Iterator<Item = ScriptBuf> {
    history.credits().filter_map(|(tx, credit)| {
        let output = tx.tx.output.get(usize::try_from(credit.index).ok()?)?;
        Some(output.script_pubkey.clone())
    })
}

fn claims(history: &History) -> Vec<CoinClaim> {
    let claim = history.credits().map(|(tx, credit)| CoinClaim {
        coin: OutPoint::new(tx.txid, credit.index),
        amount: credit.amount,
        is_spent: credit.is_spent,
    });
    claim.collect()
}

fn block_ref(block: SourceBlock) -> BlockRef {
    let hash = BlockHash(block.hash.to_byte_array());
    let time = u32::try_from(block.time).unwrap_or(u32::MAX);
    BlockRef { height: block.height.into(), hash, time }
}

/// Where the source stood. After a disconnected block it may not know the hash; then the highest
/// block with a transaction of the wallet serves, and what follows is read again.
fn tip(file: &WalletFile<'_>) -> Option<BlockRef> {
    let synced = file.keys.synced;
    let known = file.history.txs.iter().filter_map(|tx| tx.block).max();
    if let Some(block) = known.filter(|block| block.height >= synced.height) {
        return Some(block_ref(block));
    }
    let hash = synced.hash.to_byte_array();
    if hash == [0; 32] {
        return known.map(block_ref);
    }
    Some(BlockRef { height: synced.height.into(), hash: BlockHash(hash), time: synced.time })
}

/// Seconds of the source as microseconds.
pub(super) fn micros(seconds: u64) -> Micros {
    let micros = i64::try_from(seconds).ok().and_then(|s| s.checked_mul(1_000_000));
    Micros(micros.unwrap_or(i64::MAX))
}

struct ImportBuilder {
    left: Vec<LeftOut>,
    strangers: Vec<String>,
}

impl ImportBuilder {
    fn leave(&mut self, what: &str, count: usize, why: &str) {
        if count > 0 {
            self.left.push(LeftOut { what: what.to_owned(), count, why: why.to_owned() });
        }
    }

    fn accounts(
        &mut self,
        keys: &Keys<'_>,
        public: &PublicKeys,
        network: bitcoin::Network,
    ) -> Result<Vec<AccountImport>, WalletError> {
        let mut owned: BTreeMap<(Scope, u32), Vec<SourceAddress>> = BTreeMap::new();
        for address in &keys.addresses {
            owned.entry((address.scope, address.account)).or_default().push(*address);
        }
        let (mut made, mut empty, mut names) = (Vec::new(), 0, HashSet::new());
        for account in &public.accounts {
            let addresses = owned.remove(&(account.scope, account.number)).unwrap_or_default();
            if !FOR_PEOPLE.contains(&account.scope.purpose) && addresses.is_empty() {
                empty += 1;
                continue;
            }
            let mut name = account_name(account);
            if !names.insert(name.clone()) {
                name = format!("{name}#{}", account.number);
                names.insert(name.clone());
            }
            made.push(self.account(account, name, &addresses, network)?);
        }
        self.leave("accounts of lnd's own keys", empty, "they have no addresses");
        let lost = owned.values().map(Vec::len).sum();
        self.leave("addresses", lost, "the file has no public key of their account");
        Ok(made)
    }

    fn account(
        &mut self,
        source: &SourceAccount,
        name: String,
        addresses: &[SourceAddress],
        network: bitcoin::Network,
    ) -> Result<AccountImport, WalletError> {
        let key = format!("{}{}", origin(source), source.xpub);
        let receive = source.external.descriptor(&format!("{key}/0/*"));
        let change = source.internal.descriptor(&format!("{key}/1/*"));
        let mut next = [source.next_external, source.next_internal];
        let mut used = Vec::new();
        for (branch, text) in [(0_u32, &receive), (1, &change)] {
            let chain = Keychain::parse(text, network)?;
            let purpose =
                if branch == 0 { KeychainPurpose::Receive } else { KeychainPurpose::Change };
            for address in addresses.iter().filter(|address| address.branch == branch) {
                if let Some(next) = next.get_mut(branch as usize) {
                    // Indexes end at 2^31.
                    *next = (*next).max(address.index.saturating_add(1));
                }
                let script = chain.first().map(|chain| chain.script(address.index)).transpose()?;
                if script.is_none_or(|script| !address.is(&script)) {
                    self.strangers.push(format!("{name}/{branch}/{}", address.index));
                }
                if address.is_used {
                    used.push((purpose, address.index));
                }
            }
        }
        let odd = addresses.iter().filter(|address| address.branch > 1).count();
        self.leave("addresses", odd, "they are on a branch other than 0 and 1");
        let account = NewAccount { name, receive, change: Some(change) };
        Ok(AccountImport { account, next, used })
    }

    fn transactions(&mut self, history: &History) -> Vec<TxImport> {
        let mut places: BTreeMap<u32, u64> = BTreeMap::new();
        let mut made = Vec::new();
        for source in &history.txs {
            if source.credits.is_empty() && source.debits.is_empty() {
                self.leave("transaction", 1, "it neither pays nor spends anything of the wallet");
                continue;
            }
            // Its place among the wallet's own: the file doesn't know the others of the block.
            let block = source.block.map(|block| {
                let place = places.entry(block.height).or_default();
                *place += 1;
                // By consensus a coinbase comes first in its block.
                let place = if source.tx.is_coinbase() { 0 } else { *place };
                (block_ref(block), place)
            });
            let received = micros(source.received);
            made.push(TxImport { tx: source.tx.clone(), received, block });
        }
        made
    }

    fn labels(&mut self, history: &History) -> Vec<(bitcoin::Txid, String)> {
        let fits = |text: &String| !text.contains('\0') && text.chars().count() <= MAX_LABEL;
        let (mut made, mut odd) = (Vec::new(), 0);
        for (txid, label) in &history.labels {
            match label {
                Ok(text) if text.is_empty() => {}
                Ok(text) if fits(text) => made.push((*txid, text.clone())),
                Ok(_) | Err(_) => odd += 1,
            }
        }
        self.leave("labels", odd, "they are not plain text of at most 500 characters");
        made
    }

    fn leases(&mut self, history: &History, now: Micros) -> Vec<LeaseImport> {
        let (mut made, mut ended, mut odd) = (Vec::new(), 0, 0);
        for lease in &history.leases {
            let expires_at = micros(lease.expires);
            match LockId::new(&lease.id) {
                _ if expires_at <= now => ended += 1,
                Ok(lock) => made.push(LeaseImport { coin: lease.coin, lock, expires_at }),
                Err(_) => odd += 1,
            }
        }
        self.leave("leases", ended, "they have expired");
        self.leave("leases", odd, "their holder has no usable id");
        made
    }
}

/// `bip84/default`; other paths are written out.
fn account_name(account: &SourceAccount) -> String {
    let SourceAccount { scope: Scope { purpose, coin }, number, name, .. } = account;
    let shown: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
    let shown = shown.trim();
    let shown = if shown.is_empty() { number.to_string() } else { shown.to_owned() };
    if *coin == 0 && FOR_PEOPLE.contains(purpose) {
        return format!("bip{purpose}/{shown}");
    }
    format!("{purpose}h/{coin}h/{shown}")
}

/// Where the key stands below the master key, where both ends are known.
fn origin(account: &SourceAccount) -> String {
    let Scope { purpose, coin } = account.scope;
    // Accounts that only watch are numbered as they came in; their key tells the signer's number.
    let number = match account.xpub.child_number {
        ChildNumber::Hardened { index } if account.is_watch_only => index,
        ChildNumber::Hardened { .. } | ChildNumber::Normal { .. } => account.number,
    };
    match account.fingerprint {
        // At another depth the path would be a guess, and a signer finds no key by a wrong one.
        Some(print) if account.xpub.depth == 3 => {
            let print = bitcoin::bip32::Fingerprint::from(print);
            format!("[{print}/{purpose}h/{coin}h/{number}h]")
        }
        _ => String::new(),
    }
}
