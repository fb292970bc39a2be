//! Wallets and what they hold: balances, addresses, coins, leases.

use serde::Serialize;
use unspent_model::{
    Network,
    wallet::{Balance, CoinSum},
};
use unspent_server::{
    json::{OutpointJson, Time},
    qr::{self, QrJson},
};
use unspent_wallet::{
    balance::AccountBalance,
    birthday::ScanProgress,
    coins::CoinInfo,
    descriptor::show_script,
    lease::LeaseInfo,
    own_address::OwnAddress,
    wallet_info::{AddressInfo, KeychainInfo, WalletInfo, WalletStop},
};
use utoipa::ToSchema;

/// A wallet in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct WalletJson {
    pub(crate) name: String,
    /// The first block that could concern it; null while only a date is known
    pub(crate) birthday: Option<u64>,
    /// The date that was named for it
    pub(crate) birthday_date: Option<String>,
    pub(crate) gap_limit: u32,
    pub(crate) scanned_height: Option<u64>,
    pub(crate) scanned_block_hash: Option<String>,
    /// Why it stands still, where its own data can't take a block
    pub(crate) stopped: Option<StoppedJson>,
    /// When it was put away; no block moves it since
    pub(crate) archived_at: Option<Time>,
    /// Old blocks still to be read for scripts that came late: until then history and balance
    /// aren't whole
    pub(crate) backfill: Option<BackfillJson>,
    /// Blocks that are being read for it: at its first scan, after a rewind, or for scripts that
    /// came late
    pub(crate) scan: Option<ScanJson>,
    /// The lowest height as of which its balance is known, where a prune took what was below
    pub(crate) history_from: Option<u64>,
}

/// How far a scan has come.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScanJson {
    /// `scan`: up to the tip; `backfill`: apart, for scripts that came late
    pub(crate) kind: &'static str,
    /// The first block of it
    pub(crate) from: u64,
    /// The last block that was read; none before the first
    pub(crate) at: Option<u64>,
    /// The last block of it, or the tip
    pub(crate) to: u64,
    /// How much of it is done, from 0 to 1
    pub(crate) fraction: f64,
}

impl ScanJson {
    fn new(progress: &ScanProgress) -> Self {
        let ScanProgress { is_backfill, from, next, to } = *progress;
        Self {
            kind: if is_backfill { "backfill" } else { "scan" },
            from,
            at: next.checked_sub(1).filter(|at| *at >= from),
            to,
            // Cut off, not rounded: nothing is told to be whole before it is.
            fraction: (progress.fraction() * 10_000.0).floor() / 10_000.0,
        }
    }
}

/// Why a wallet stands still.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoppedJson {
    pub(crate) height: Option<u64>,
    pub(crate) reason: String,
    pub(crate) remedy: &'static str,
    pub(crate) at: Time,
}

/// Old blocks that are still to be read for one wallet.
#[derive(Serialize, ToSchema)]
pub(crate) struct BackfillJson {
    pub(crate) next_height: u64,
    pub(crate) end_height: u64,
}

impl WalletJson {
    pub(crate) fn new(info: &WalletInfo, network: Network, tip: Option<u64>) -> Self {
        Self {
            name: info.name.clone(),
            birthday: Some(info.birthday).filter(|_| !info.is_birthday_open),
            birthday_date: info.birthday_time.map(|seconds| Time::seconds(seconds).date()),
            gap_limit: info.gap_limit,
            scanned_height: info.scanned.map(|place| place.height),
            scanned_block_hash: info.scanned.map(|place| network.show_hash(&place.hash.0)),
            stopped: info.stopped.as_ref().map(|stopped| StoppedJson {
                height: stopped.height,
                reason: stopped.reason.clone(),
                remedy: WalletStop::REMEDY,
                at: Time(stopped.at.0),
            }),
            archived_at: info.archived_at.map(|at| Time(at.0)),
            backfill: info
                .backfill
                .map(|left| BackfillJson { next_height: left.next, end_height: left.end }),
            scan: info.progress(tip).as_ref().map(ScanJson::new),
            history_from: info.history_from,
        }
    }
}

impl WalletJson {
    /// For people.
    pub(crate) fn scanned_to(&self) -> String {
        self.scanned_height.map_or("never".to_owned(), |height| height.to_string())
    }

    /// For people: the block it begins with, or the date.
    pub(crate) fn born(&self) -> String {
        match (self.birthday, &self.birthday_date) {
            (Some(height), None) => height.to_string(),
            (Some(height), Some(date)) => format!("{height} ({date})"),
            (None, Some(date)) => format!("{date}, its block is not known yet"),
            (None, None) => "unknown".into(),
        }
    }

    /// For people: whether it follows the chain, and what is missing.
    pub(crate) fn state(&self) -> String {
        if let Some(stopped) = &self.stopped {
            return format!("stopped: {}", stopped.reason);
        }
        if self.archived_at.is_some() {
            return "archived".into();
        }
        if let Some(ScanJson { kind: "scan", from, at, to, fraction }) = &self.scan {
            let percent = fraction * 100.0;
            let at = at.map_or("none".to_owned(), |at| at.to_string());
            return format!("scanning: blocks {from} to {to}, last read {at} ({percent:.1} %)");
        }
        match &self.backfill {
            Some(left) => format!(
                "incomplete: blocks {} to {} still have to be read, by a daemon or `unspent \
                 wallet scan FILES`",
                left.next_height, left.end_height
            ),
            None => "whole".into(),
        }
    }
}

/// A page of wallets.
#[derive(Serialize, ToSchema)]
pub(crate) struct WalletsJson {
    pub(crate) network: &'static str,
    pub(crate) wallets: Vec<WalletJson>,
    pub(crate) next: Option<String>,
}

/// One wallet with its chains and its balance.
#[derive(Serialize, ToSchema)]
pub(crate) struct WalletDetailJson {
    #[serde(flatten)]
    pub(crate) wallet: WalletJson,
    pub(crate) network: &'static str,
    pub(crate) chains: Vec<ChainOfKeysJson>,
    pub(crate) balance: WalletBalanceJson,
}

impl WalletDetailJson {
    pub(crate) fn new(
        info: &WalletInfo,
        network: Network,
        tip: Option<u64>,
        chains: &[KeychainInfo],
        balance: &Balance,
    ) -> Self {
        Self {
            wallet: WalletJson::new(info, network, tip),
            network: network.name(),
            chains: chains.iter().map(ChainOfKeysJson::new).collect(),
            balance: WalletBalanceJson::new(balance),
        }
    }
}

impl WalletDetailJson {
    /// For those who may look at what there is, and not at what will be.
    pub(crate) fn hide_descriptors(&mut self) {
        self.chains.iter_mut().for_each(|chain| chain.descriptor = None);
    }
}

/// A chain of addresses.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChainOfKeysJson {
    pub(crate) account: String,
    pub(crate) purpose: String,
    /// Null for those who may only read
    pub(crate) descriptor: Option<String>,
    pub(crate) next_index: u32,
    pub(crate) last_used: Option<u32>,
    pub(crate) watched: u32,
}

impl ChainOfKeysJson {
    fn new(chain: &KeychainInfo) -> Self {
        Self {
            account: chain.account.clone(),
            purpose: chain.purpose.clone(),
            descriptor: Some(chain.descriptor.clone()),
            next_index: chain.next_index,
            last_used: chain.last_used,
            watched: chain.derived_to,
        }
    }
}

/// How much, and in how many coins.
#[derive(Serialize, ToSchema)]
pub(crate) struct SumJson {
    pub(crate) value: String,
    pub(crate) coins: u64,
}

impl From<CoinSum> for SumJson {
    fn from(sum: CoinSum) -> Self {
        Self { value: sum.sats.to_string(), coins: sum.coins }
    }
}

/// What a wallet holds, by class. The classes sum up to `value`; `leaving` is not one of them.
#[derive(Serialize, ToSchema)]
pub(crate) struct WalletBalanceJson {
    pub(crate) confirmed: SumJson,
    pub(crate) unconfirmed_own: SumJson,
    pub(crate) unconfirmed_foreign: SumJson,
    pub(crate) immature: SumJson,
    pub(crate) leased: SumJson,
    pub(crate) frozen: SumJson,
    pub(crate) pending: SumJson,
    pub(crate) dropped: SumJson,
    pub(crate) leaving: SumJson,
    pub(crate) value: String,
}

impl WalletBalanceJson {
    pub(crate) fn new(balance: &Balance) -> Self {
        Self {
            confirmed: balance.confirmed.into(),
            unconfirmed_own: balance.unconfirmed_own.into(),
            unconfirmed_foreign: balance.unconfirmed_foreign.into(),
            immature: balance.immature.into(),
            leased: balance.leased.into(),
            frozen: balance.frozen.into(),
            pending: balance.pending.into(),
            dropped: balance.dropped.into(),
            leaving: balance.leaving.into(),
            value: balance.total().to_string(),
        }
    }
}

impl WalletBalanceJson {
    /// The classes that sum up, with their names as people read them.
    pub(crate) fn classes(&self) -> [(&'static str, &SumJson); 8] {
        [
            ("confirmed", &self.confirmed),
            ("unconfirmed own", &self.unconfirmed_own),
            ("unconfirmed foreign", &self.unconfirmed_foreign),
            ("immature", &self.immature),
            ("leased", &self.leased),
            ("frozen", &self.frozen),
            ("pending", &self.pending),
            ("dropped", &self.dropped),
        ]
    }
}

/// What one account holds.
#[derive(Serialize, ToSchema)]
pub(crate) struct AccountBalanceJson {
    pub(crate) account: String,
    #[serde(flatten)]
    pub(crate) balance: WalletBalanceJson,
}

impl AccountBalanceJson {
    pub(crate) fn new(found: &AccountBalance) -> Self {
        Self { account: found.account.clone(), balance: WalletBalanceJson::new(&found.balance) }
    }
}

/// What each account holds.
#[derive(Serialize, ToSchema)]
pub(crate) struct AccountBalancesJson {
    pub(crate) accounts: Vec<AccountBalanceJson>,
}

/// The balance now by class, of the wallet or of each account, or a past one.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum AnyBalanceJson {
    Now(Box<WalletBalanceJson>),
    ByAccount(AccountBalancesJson),
    Past(PastBalanceJson),
}

/// What was confirmed and unspent after a block.
#[derive(Serialize, ToSchema)]
pub(crate) struct PastBalanceJson {
    pub(crate) height: u64,
    pub(crate) value: String,
    pub(crate) coins: u64,
}

/// A watched address.
#[derive(Serialize, ToSchema)]
pub(crate) struct AddressJson {
    pub(crate) address: String,
    pub(crate) script: String,
    pub(crate) account: String,
    pub(crate) purpose: String,
    pub(crate) index: u32,
    pub(crate) used: bool,
    pub(crate) label: Option<String>,
}

impl AddressJson {
    pub(crate) fn new(info: &AddressInfo, network: bitcoin::Network) -> Self {
        Self {
            address: show_script(&info.script, network),
            script: info.script.to_hex_string(),
            account: info.account.clone(),
            purpose: info.purpose.clone(),
            index: info.index,
            used: info.is_used,
            label: info.label.clone(),
        }
    }
}

/// Whether an address is the wallet's, and which one.
#[derive(Serialize, ToSchema)]
pub(crate) struct WhoseJson {
    /// As it was asked for
    pub(crate) address: String,
    pub(crate) mine: bool,
    /// Where it is the wallet's
    pub(crate) found: Option<AddressJson>,
    /// The keys behind it, each as `[fingerprint/path]`
    pub(crate) keys: Vec<String>,
    /// The chain that it comes from, or the script itself where it was imported; null for those
    /// who may only read
    pub(crate) descriptor: Option<String>,
    pub(crate) label: Option<String>,
    /// A code that wallets read to pay it, where it is the wallet's
    pub(crate) qr: Option<QrJson>,
}

impl WhoseJson {
    pub(crate) fn new(
        address: String,
        own: Option<&OwnAddress>,
        network: bitcoin::Network,
    ) -> Self {
        // BIP-21 without an amount.
        let qr = own.and_then(|_| qr::path(&format!("bitcoin:{address}")));
        Self {
            address,
            qr,
            mine: own.is_some(),
            found: own.map(|own| AddressJson::new(&own.info, network)),
            keys: own.map(|own| own.keys.clone()).unwrap_or_default(),
            descriptor: own.map(|own| own.descriptor.clone()),
            label: own.and_then(|own| own.info.label.clone()),
        }
    }
}

/// A page of addresses.
#[derive(Serialize, ToSchema)]
pub(crate) struct AddressesJson {
    pub(crate) addresses: Vec<AddressJson>,
    pub(crate) next: Option<String>,
}

/// A coin of a wallet.
#[derive(Serialize, ToSchema)]
pub(crate) struct WalletCoinJson {
    #[serde(flatten)]
    pub(crate) outpoint: OutpointJson,
    pub(crate) value: String,
    pub(crate) address: String,
    pub(crate) script: String,
    pub(crate) height: Option<u64>,
    pub(crate) confirmations: u64,
    pub(crate) state: &'static str,
    pub(crate) own: bool,
    pub(crate) frozen: bool,
    pub(crate) account: String,
    /// Its own label, or else that of its address
    pub(crate) label: Option<String>,
    pub(crate) spent_by: Option<String>,
    pub(crate) lock: Option<String>,
}

impl WalletCoinJson {
    pub(crate) fn new(coin: &CoinInfo, network: bitcoin::Network) -> Self {
        Self {
            outpoint: coin.outpoint.into(),
            value: coin.amount.to_string(),
            address: show_script(&coin.script, network),
            script: coin.script.to_hex_string(),
            height: coin.height,
            confirmations: coin.confirmations,
            state: coin.state.name(),
            own: coin.is_own,
            frozen: coin.is_frozen,
            account: coin.account.clone(),
            label: coin.label.clone(),
            spent_by: coin.spent_by.map(|txid| txid.to_string()),
            lock: coin.lock.map(|lock| lock.to_string()),
        }
    }
}

/// A page of coins.
#[derive(Serialize, ToSchema)]
pub(crate) struct CoinsJson {
    pub(crate) coins: Vec<WalletCoinJson>,
    pub(crate) next: Option<String>,
}

/// Active leases.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeasesJson {
    pub(crate) leases: Vec<LeaseJson>,
}

/// An active lease.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeaseJson {
    #[serde(flatten)]
    pub(crate) outpoint: OutpointJson,
    pub(crate) value: String,
    pub(crate) address: String,
    pub(crate) script: String,
    pub(crate) lock: String,
    pub(crate) expires_at: Time,
    pub(crate) hold_confirmations: Option<u32>,
    pub(crate) spent: bool,
}

impl LeaseJson {
    pub(crate) fn new(lease: &LeaseInfo, network: bitcoin::Network) -> Self {
        Self {
            outpoint: lease.coin.into(),
            value: lease.amount.to_string(),
            address: show_script(&lease.script, network),
            script: lease.script.to_hex_string(),
            lock: lease.lock.to_string(),
            expires_at: Time(lease.expires_at.0),
            hold_confirmations: lease.hold_confirmations,
            spent: lease.is_spent,
        }
    }
}

/// Coins that somebody holds from now on.
#[derive(Serialize, ToSchema)]
pub(crate) struct HeldJson {
    pub(crate) lock: String,
    pub(crate) expires_at: Time,
    pub(crate) outpoints: Vec<String>,
}

/// Coins that are free again.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReleasedJson {
    pub(crate) released: Vec<String>,
}

/// Coins that are frozen or thawed now, and how many of them were not before.
#[derive(Serialize, ToSchema)]
pub(crate) struct FrozenJson {
    pub(crate) outpoints: Vec<String>,
    pub(crate) changed: u64,
}
