//! `/txs/{txid}`: a transaction as all rooms know it.
//!
//! Wallets and the transaction store know transactions, the chain room knows coins: what each has
//! is brought together here, so that every input and output has its amount and its owner.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use bitcoin::{Transaction, consensus::encode::serialize_hex, hashes::Hash as _};
use serde::Serialize;
use unspent_engine::tenant::TenantName;
use unspent_model::{Network, Outpoint, TxId};
use unspent_networks::address::show_address;
use utoipa::ToSchema;

use super::{
    error::{ApiError, Failures},
    extract::{ApiPath, Caller, May, Read},
    state::App,
};
use crate::{
    auth::sees,
    json::{OutpointJson, Time, TxSizeJson},
};

/// What a transaction spends or pays; what isn't known is null.
#[derive(Serialize, ToSchema)]
struct TxEndJson {
    #[serde(flatten)]
    outpoint: OutpointJson,
    value: Option<String>,
    address: Option<String>,
    /// The wallets whose coin it is
    wallets: Vec<String>,
    /// `unspent` or `spent`, of an output that a block created
    state: Option<&'static str>,
    spent_by: Option<String>,
}

/// What a transaction is to a wallet.
// The description of the interface lets these names speak for themselves.
#[allow(missing_docs)]
#[derive(Serialize, ToSchema)]
pub struct TxOfWalletJson {
    pub wallet: String,
    /// What it changed for the wallet, in base units
    pub net: String,
    pub status: &'static str,
    /// When it was first heard of
    pub received_at: Time,
    /// Every input is the wallet's
    pub own: bool,
    pub label: Option<String>,
    pub evicted_at: Option<Time>,
}

/// One transaction that stands in another's way.
// The description of the interface lets these names speak for themselves.
#[allow(missing_docs)]
#[derive(Serialize, ToSchema)]
pub struct RivalTxJson {
    pub txid: String,
    pub cause: &'static str,
    pub at: Time,
}

/// A transaction as all rooms know it; what isn't known is null.
#[derive(Serialize, ToSchema)]
pub struct TransactionJson {
    txid: String,
    /// `confirmed`, or what a wallet says: `published`, `replaced` …
    state: Option<&'static str>,
    height: Option<u64>,
    block_hash: Option<String>,
    /// As its block's header says
    block_time: Option<Time>,
    coinbase: Option<bool>,
    /// In base units
    fee: Option<String>,
    /// In sat/vB
    fee_rate: Option<String>,
    size: Option<TxSizeJson>,
    /// Null where only some of its coins are known
    inputs: Option<Vec<TxEndJson>>,
    /// All of them, or those that are still known
    outputs: Vec<TxEndJson>,
    wallets: Vec<TxOfWalletJson>,
    replaces: Vec<RivalTxJson>,
    replaced_by: Vec<RivalTxJson>,
    /// Its bytes in hex
    raw: Option<String>,
}

/// A coin at either end, as far as it is known.
#[derive(Default)]
pub struct TxEnd {
    /// Base units.
    pub value: Option<u64>,
    /// As the network writes it.
    pub address: Option<String>,
    /// Whose it is.
    pub wallets: Vec<String>,
    /// Where it stands.
    pub state: Option<&'static str>,
    /// The transaction that spends it.
    pub spent_by: Option<String>,
}

/// The block that holds a transaction.
#[derive(Clone, Copy)]
pub struct TxBlock {
    /// On the chain.
    pub height: u64,
    /// As the node names it.
    pub hash: Option<[u8; 32]>,
    /// In seconds.
    pub time: Option<u64>,
}

/// The transaction while the rooms put it together.
pub struct TxView {
    /// Whose transaction it is.
    pub network: Network,
    /// The one asked for.
    pub txid: TxId,
    /// The only tenant that whoever asks may see.
    only: Option<TenantName>,
    /// Its bytes, read.
    pub tx: Option<Transaction>,
    /// Where it is confirmed.
    pub(crate) block: Option<TxBlock>,
    /// In the words of the rooms.
    pub status: Option<&'static str>,
    /// In base units.
    pub fee: Option<u64>,
    /// What it is to each wallet.
    pub wallets: Vec<TxOfWalletJson>,
    /// Those that it took the place of.
    pub replaces: Vec<RivalTxJson>,
    /// Those that took its place.
    pub replaced_by: Vec<RivalTxJson>,
    ends: BTreeMap<Outpoint, TxEnd>,
}

impl TxView {
    /// Whether whoever asks may know of a tenant.
    pub fn sees(&self, tenant: &TenantName) -> bool {
        sees(self.only.as_ref(), tenant)
    }

    fn new(network: Network, txid: TxId, only: Option<TenantName>) -> Self {
        Self {
            network,
            txid,
            only,
            tx: None,
            block: None,
            status: None,
            fee: None,
            wallets: Vec::new(),
            replaces: Vec::new(),
            replaced_by: Vec::new(),
            ends: BTreeMap::new(),
        }
    }

    /// What is known of a coin at one of its ends, to be added to.
    pub fn end(&mut self, coin: Outpoint) -> &mut TxEnd {
        self.ends.entry(coin).or_default()
    }

    /// What it spends, in order; none for a coinbase.
    pub fn spends(&self) -> Option<Vec<Outpoint>> {
        let tx = self.tx.as_ref()?;
        let spent = tx.input.iter().map(|input| input.previous_output);
        // A coinbase names an output that doesn't exist.
        let spent = spent.filter(|coin| !coin.is_null());
        Some(spent.map(|coin| Outpoint::new(TxId(coin.txid.to_byte_array()), coin.vout)).collect())
    }

    /// Its block, with what another room adds to it.
    pub fn in_block(&mut self, told: TxBlock) {
        let known = self.block.get_or_insert(told);
        // In a reorganisation rooms stand at different blocks for a moment: a hash belongs to its
        // height.
        if known.height == told.height {
            known.hash = known.hash.or(told.hash);
            known.time = known.time.or(told.time);
        }
    }

    /// Outputs as the transaction itself says.
    fn read_outputs(&mut self) {
        let (network, txid) = (self.network, self.txid);
        let outputs = self.tx.iter().flat_map(|tx| &tx.output);
        let told: Vec<_> = (0_u32..)
            .zip(outputs)
            .map(|(vout, output)| {
                let address = show_address(network, output.script_pubkey.as_bytes());
                (Outpoint::new(txid, vout), output.value.to_sat(), address)
            })
            .collect();
        for (coin, value, address) in told {
            let end = self.end(coin);
            (end.value, end.address) = (Some(value), Some(address));
        }
    }

    /// What was put in and not paid out, where every input's amount is known.
    fn left_over(&self) -> Option<u64> {
        let tx = self.tx.as_ref().filter(|tx| !tx.is_coinbase())?;
        let value = |coin: &Outpoint| self.ends.get(coin).and_then(|end| end.value);
        let spent = self.spends()?;
        let into = spent.iter().try_fold(0_u64, |sum, coin| sum.checked_add(value(coin)?))?;
        let mut paid = tx.output.iter().map(|output| output.value.to_sat());
        // Whoever made up its bytes may have written any amounts into them.
        into.checked_sub(paid.try_fold(0, u64::checked_add)?)
    }

    fn shown(&mut self, coin: &Outpoint) -> TxEndJson {
        let end = self.ends.remove(coin).unwrap_or_default();
        TxEndJson {
            outpoint: OutpointJson::new(self.network, coin),
            value: end.value.map(|value| value.to_string()),
            address: end.address,
            wallets: end.wallets,
            state: end.state,
            spent_by: end.spent_by,
        }
    }

    fn finish(mut self) -> Result<TransactionJson, ApiError> {
        self.read_outputs();
        if self.ends.is_empty() {
            let message = "no room knows this transaction: it was never seen, or was pruned since";
            return Err(ApiError::not_found(message));
        }
        // What a room has stored needs no inputs, whose coins may be pruned by now.
        let fee = self.fee.or_else(|| self.left_over());
        let size = self.tx.as_ref().map(TxSizeJson::new);
        let spends = self.spends();
        let txid = self.txid;
        let paid: Vec<Outpoint> = self.ends.keys().filter(|end| end.tx == txid).copied().collect();
        let hash = self.block.and_then(|block| block.hash);
        let confirmed = self.block.map(|_| "confirmed");
        Ok(TransactionJson {
            txid: self.network.show_hash(&txid.0),
            state: confirmed.or(self.status),
            height: self.block.map(|block| block.height),
            block_hash: hash.map(|hash| self.network.show_hash(&hash)),
            block_time: self.block.and_then(|block| block.time).map(Time::seconds),
            coinbase: self.tx.as_ref().map(Transaction::is_coinbase),
            fee: fee.map(|fee| fee.to_string()),
            fee_rate: size.zip(fee).and_then(|(size, fee)| size.fee_rate(fee)),
            size,
            inputs: spends.map(|coins| coins.iter().map(|coin| self.shown(coin)).collect()),
            outputs: paid.iter().map(|coin| self.shown(coin)).collect(),
            raw: self.tx.as_ref().map(serialize_hex),
            wallets: self.wallets,
            replaces: self.replaces,
            replaced_by: self.replaced_by,
        })
    }
}

/// A transaction: inputs and outputs with amounts and owners, size, fee, raw bytes
#[utoipa::path(get, path = "/txs/{txid}", operation_id = "show_transaction", tag = "chain",
    params(("txid" = String, Path, description = "The transaction, as 64 hex digits",
        pattern = "^[0-9a-fA-F]{64}$")),
    responses((status = 200, body = TransactionJson), Failures))]
pub(crate) async fn transaction(
    _: May<Read>,
    Caller(who): Caller,
    State(app): State<App>,
    ApiPath(name): ApiPath<String>,
) -> Result<Json<TransactionJson>, ApiError> {
    let network = app.network();
    let wrong = || ApiError::malformed("a transaction is named by 64 hex digits");
    let txid = TxId(network.parse_hash(&name).ok_or_else(wrong)?);
    let (engine, rooms) = (app.engine.clone(), app.config.rooms());
    let found = app.pool.run(move || {
        let mut view = TxView::new(network, txid, who.tenant);
        // Who knows transactions comes before the chain room, which knows their coins.
        for room in rooms.iter().rev() {
            room.transaction(&engine, &mut view)?;
        }
        view.finish()
    });
    Ok(Json(found.await?))
}

#[cfg(test)]
mod tests {
    use bitcoin::{
        Amount, OutPoint, ScriptBuf, Sequence, TxIn, TxOut, Txid, Witness, absolute::LockTime,
        transaction::Version,
    };

    use super::*;

    #[test]
    fn a_fee_that_no_sum_can_hold_is_not_known() {
        let left_over = |spent: [u64; 2], paid: [u64; 2]| {
            let coins = [0, 1].map(|vout| OutPoint::new(Txid::from_byte_array([7; 32]), vout));
            let input = |previous_output| TxIn {
                previous_output,
                script_sig: ScriptBuf::new(),
                sequence: Sequence::MAX,
                witness: Witness::new(),
            };
            let output =
                |value| TxOut { value: Amount::from_sat(value), script_pubkey: ScriptBuf::new() };
            let mut view = TxView::new(Network::BitcoinRegtest, TxId([1; 32]), None);
            view.tx = Some(Transaction {
                version: Version::TWO,
                lock_time: LockTime::ZERO,
                input: coins.map(input).into(),
                output: paid.map(output).into(),
            });
            for (vout, value) in (0..).zip(spent) {
                view.end(Outpoint::new(TxId([7; 32]), vout)).value = Some(value);
            }
            view.left_over()
        };
        assert_eq!(left_over([700, 300], [600, 150]), Some(250));
        assert_eq!(left_over([700, 300], [600, 450]), None, "more than was put in");
        assert_eq!(left_over([u64::MAX, 300], [600, 450]), None);
        assert_eq!(left_over([700, 300], [u64::MAX, 450]), None);
        assert_eq!(left_over([u64::MAX, 300], [u64::MAX, 100]), None);
    }
}
