//! Wallets, coins and transactions as JSON: what the command line and the REST interface both show.
//!
//! Satoshis of one coin or transaction fit a JSON number; sums over a wallet are strings.

use bitcoin::consensus::encode;
use serde::Serialize;
use unspent_model::{
    Network,
    wallet::{Balance, Sum},
};
use unspent_wallet::{
    choose::Chosen,
    coins::CoinInfo,
    descriptor::show_script,
    history::{EdgeInfo, JournalLine, TxDetail, TxSummary},
    lease::LeaseInfo,
    pay::{Unsigned, psbt_txid},
    wallets::{AddressInfo, KeychainInfo, WalletInfo},
};
use utoipa::ToSchema;

/// A wallet in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct WalletJson {
    name: String,
    birthday: u64,
    gap_limit: u32,
    scanned_height: Option<u64>,
    scanned_hash: Option<String>,
}

impl WalletJson {
    pub(crate) fn new(info: &WalletInfo, network: Network) -> Self {
        Self {
            name: info.name.clone(),
            birthday: info.birthday,
            gap_limit: info.gap_limit,
            scanned_height: info.scanned.map(|(height, _)| height),
            scanned_hash: info.scanned.map(|(_, hash)| network.show_hash(&hash.0)),
        }
    }
}

/// One wallet with its chains and its balance.
#[derive(Serialize, ToSchema)]
pub(crate) struct WalletDetailJson {
    #[serde(flatten)]
    wallet: WalletJson,
    network: &'static str,
    chains: Vec<ChainOfKeysJson>,
    balance: WalletBalanceJson,
}

impl WalletDetailJson {
    pub(crate) fn new(
        info: &WalletInfo,
        network: Network,
        chains: &[KeychainInfo],
        balance: &Balance,
    ) -> Self {
        Self {
            wallet: WalletJson::new(info, network),
            network: network.name(),
            chains: chains.iter().map(ChainOfKeysJson::new).collect(),
            balance: WalletBalanceJson::new(balance),
        }
    }
}

/// A chain of addresses.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChainOfKeysJson {
    account: String,
    purpose: String,
    descriptor: String,
    next_index: u32,
    last_used: Option<u32>,
    watched: u32,
}

impl ChainOfKeysJson {
    fn new(chain: &KeychainInfo) -> Self {
        Self {
            account: chain.account.clone(),
            purpose: chain.purpose.clone(),
            descriptor: chain.descriptor.clone(),
            next_index: chain.next_index,
            last_used: chain.last_used,
            watched: chain.derived_to,
        }
    }
}

/// How much, and in how many coins.
#[derive(Serialize, ToSchema)]
pub(crate) struct SumJson {
    sats: u64,
    coins: u64,
}

impl From<Sum> for SumJson {
    fn from(sum: Sum) -> Self {
        Self { sats: sum.sats, coins: sum.coins }
    }
}

/// What a wallet holds, by class. The classes sum up to the total; `leaving` is not one of them.
#[derive(Serialize, ToSchema)]
pub(crate) struct WalletBalanceJson {
    confirmed: SumJson,
    unconfirmed_own: SumJson,
    unconfirmed_foreign: SumJson,
    immature: SumJson,
    leased: SumJson,
    pending: SumJson,
    leaving: SumJson,
    total_sats: String,
}

impl WalletBalanceJson {
    pub(crate) fn new(balance: &Balance) -> Self {
        Self {
            confirmed: balance.confirmed.into(),
            unconfirmed_own: balance.unconfirmed_own.into(),
            unconfirmed_foreign: balance.unconfirmed_foreign.into(),
            immature: balance.immature.into(),
            leased: balance.leased.into(),
            pending: balance.pending.into(),
            leaving: balance.leaving.into(),
            total_sats: balance.total().to_string(),
        }
    }
}

/// What was confirmed and unspent after a block.
#[derive(Serialize, ToSchema)]
pub(crate) struct PastBalanceJson {
    pub(crate) height: u64,
    pub(crate) sats: u64,
    pub(crate) coins: u64,
}

/// A watched address.
#[derive(Serialize, ToSchema)]
pub(crate) struct AddressJson {
    pub(crate) address: String,
    script: String,
    account: String,
    purpose: String,
    index: u32,
    used: bool,
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
        }
    }
}

/// A coin of a wallet.
#[derive(Serialize, ToSchema)]
pub(crate) struct WalletCoinJson {
    coin: String,
    sats: u64,
    address: String,
    script: String,
    height: Option<u64>,
    state: &'static str,
    own: bool,
    spent_by: Option<String>,
    lock: Option<String>,
}

impl WalletCoinJson {
    pub(crate) fn new(coin: &CoinInfo, network: bitcoin::Network) -> Self {
        Self {
            coin: coin.outpoint.to_string(),
            sats: coin.amount,
            address: show_script(&coin.script, network),
            script: coin.script.to_hex_string(),
            height: coin.height,
            state: coin.state.name(),
            own: coin.is_own,
            spent_by: coin.spent_by.map(|txid| txid.to_string()),
            lock: coin.lock.map(|lock| lock.to_string()),
        }
    }
}

/// A transaction in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxJson {
    txid: String,
    status: &'static str,
    height: Option<u64>,
    received: i64,
    coinbase: bool,
    own: bool,
    fee: Option<u64>,
    credit: u64,
    debit: u64,
    net: String,
    label: Option<String>,
    evicted_at: Option<i64>,
}

impl TxJson {
    pub(crate) fn new(tx: &TxSummary) -> Self {
        Self {
            txid: tx.txid.to_string(),
            status: tx.status.name(),
            height: tx.height,
            received: tx.received,
            coinbase: tx.is_coinbase,
            own: tx.is_own,
            fee: tx.fee,
            credit: tx.credit,
            debit: tx.debit,
            net: tx.net().to_string(),
            label: tx.label.clone(),
            evicted_at: tx.evicted_at,
        }
    }
}

/// What a transaction spends; `sats` where the coin is ours.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxInputJson {
    coin: String,
    sats: Option<u64>,
}

/// What a transaction pays.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxOutputJson {
    index: u32,
    sats: u64,
    ours: bool,
    address: String,
}

/// One transaction standing in another's way.
#[derive(Serialize, ToSchema)]
pub(crate) struct EdgeJson {
    txid: String,
    cause: &'static str,
}

/// A transaction in full.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxDetailJson {
    #[serde(flatten)]
    tx: TxJson,
    inputs: Vec<TxInputJson>,
    outputs: Vec<TxOutputJson>,
    replaced_by: Vec<EdgeJson>,
    replaces: Vec<EdgeJson>,
    raw: String,
}

impl TxDetailJson {
    pub(crate) fn new(found: &TxDetail, network: bitcoin::Network) -> Self {
        let inputs = found
            .inputs
            .iter()
            .map(|input| TxInputJson { coin: input.outpoint.to_string(), sats: input.amount });
        let outputs = found.outputs.iter().map(|out| TxOutputJson {
            index: out.index,
            sats: out.amount,
            ours: out.is_ours,
            address: show_script(&out.script, network),
        });
        let edges = |edges: &[EdgeInfo]| -> Vec<EdgeJson> {
            let edge = |edge: &EdgeInfo| EdgeJson {
                txid: edge.txid.to_string(),
                cause: edge.cause.name(),
            };
            edges.iter().map(edge).collect()
        };
        Self {
            tx: TxJson::new(&found.summary),
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            replaced_by: edges(&found.replaced_by),
            replaces: edges(&found.replaces),
            raw: encode::serialize_hex(&found.tx),
        }
    }
}

/// A line of the journal.
#[derive(Serialize, ToSchema)]
pub(crate) struct LineJson {
    number: i64,
    at: i64,
    cause: &'static str,
    txid: String,
    coin: Option<String>,
    from: Option<&'static str>,
    to: Option<&'static str>,
    other: Option<String>,
    height: Option<u64>,
    lock: Option<String>,
}

impl LineJson {
    pub(crate) fn new(line: &JournalLine) -> Self {
        Self {
            number: line.id,
            at: line.at,
            cause: line.cause.name(),
            txid: line.txid.to_string(),
            coin: line.output.map(|coin| coin.to_string()),
            from: line.from.map(|status| status.name()),
            to: line.to.map(|status| status.name()),
            other: line.other.map(|txid| txid.to_string()),
            height: line.height,
            lock: line.lock.map(|lock| lock.to_string()),
        }
    }
}

/// An active lease.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeaseJson {
    coin: String,
    sats: u64,
    address: String,
    script: String,
    lock: String,
    expires_at: i64,
    hold_confirmations: Option<u32>,
    spent: bool,
}

impl LeaseJson {
    pub(crate) fn new(lease: &LeaseInfo, network: bitcoin::Network) -> Self {
        Self {
            coin: lease.coin.to_string(),
            sats: lease.amount,
            address: show_script(&lease.script, network),
            script: lease.script.to_hex_string(),
            lock: lease.lock.to_string(),
            expires_at: lease.expires_at,
            hold_confirmations: lease.hold_confirmations,
            spent: lease.is_spent,
        }
    }
}

/// A chosen coin.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChosenCoinJson {
    coin: String,
    sats: u64,
}

/// Chosen coins and the reason; `lock` where they are held.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChosenJson {
    coins: Vec<ChosenCoinJson>,
    fee: u64,
    change: Option<u64>,
    weight: u64,
    waste: i64,
    method: &'static str,
    why: String,
    lock: Option<String>,
}

impl ChosenJson {
    pub(crate) fn new(chosen: &Chosen, lock: Option<String>) -> Self {
        let selection = &chosen.selection;
        let coins = chosen
            .coins
            .iter()
            .map(|coin| ChosenCoinJson { coin: coin.outpoint.to_string(), sats: coin.amount });
        Self {
            coins: coins.collect(),
            fee: selection.fee,
            change: selection.change,
            weight: selection.weight,
            waste: selection.waste,
            method: selection.method.name(),
            why: selection.why(),
            lock,
        }
    }
}

/// A payment that waits for signatures.
#[derive(Serialize, ToSchema)]
pub(crate) struct UnsignedJson {
    #[serde(flatten)]
    chosen: ChosenJson,
    held_until: i64,
    unsigned_txid: String,
    change_output: Option<usize>,
    psbt: String,
}

impl UnsignedJson {
    pub(crate) fn new(unsigned: &Unsigned, lock: String) -> Self {
        Self {
            chosen: ChosenJson::new(&unsigned.chosen, Some(lock)),
            held_until: unsigned.held_until,
            unsigned_txid: psbt_txid(&unsigned.psbt).to_string(),
            change_output: unsigned.change_output,
            psbt: unsigned.psbt.to_string(),
        }
    }
}

/// Where a transaction stands.
#[derive(Serialize, ToSchema)]
pub(crate) struct TxStatusJson {
    pub(crate) txid: String,
    pub(crate) status: &'static str,
}

/// Coins that somebody holds from now on.
#[derive(Serialize, ToSchema)]
pub(crate) struct HeldJson {
    pub(crate) lock: String,
    pub(crate) expires_at: i64,
    pub(crate) coins: Vec<String>,
}

/// Coins that are free again.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReleasedJson {
    pub(crate) released: Vec<String>,
}

/// What a rewind did.
#[derive(Serialize, ToSchema)]
pub(crate) struct RewoundJson {
    pub(crate) txs: u64,
    pub(crate) steps: u64,
}

/// Transactions that a prune removed.
#[derive(Serialize, ToSchema)]
pub(crate) struct PrunedTxsJson {
    pub(crate) pruned: Vec<String>,
}

/// What an audit found; empty when everything agrees.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditJson {
    pub(crate) differences: Vec<String>,
}

/// How many labels were taken in.
#[derive(Serialize, ToSchema)]
pub(crate) struct ImportedJson {
    pub(crate) imported: usize,
}
