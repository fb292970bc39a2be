//! From amounts and addresses to an unsigned PSBT, and back as a pending transaction.
//!
//! Keys are elsewhere: between building and recording a payment minutes or days may pass while it
//! is signed, and meanwhile its coins must be nobody else's. So building a payment ([BIP 174])
//! leases its coins, and recording the signed transaction turns those leases into spends; if it
//! never comes back, the leases run out. A fee bump builds a payment that spends the same coins and
//! pays more, by the rules of [BIP 125]; a lift builds one that spends what an unconfirmed
//! transaction pays us, with a fee for both.
//!
//! | module | does |
//! |---|---|
//! | `build` | weighs, chooses, assembles |
//! | `change` | where change goes, and which indexes are used up |
//! | `explain` | what a signer is told |
//! | `replace` | fee bumps and lifts |
//! | `package` | what a lift has to pay for |
//! | `finish` | signatures put in place and checked |
//! | `inspect` | what a PSBT does, and what it lacks |
//!
//! [BIP 125]: https://github.com/bitcoin/bips/blob/master/bip-0125.mediawiki
//! [BIP 174]: https://github.com/bitcoin/bips/blob/master/bip-0174.mediawiki

mod build;
pub(crate) mod change;
mod explain;
mod finish;
mod inspect;
mod package;
mod replace;
mod withdraw;

use bitcoin::{Psbt, ScriptBuf, Transaction, Txid, Weight};
use unspent_model::{
    Micros,
    network::MOST_BITCOIN_MONEY,
    wallet::{
        LockId,
        select::{FeePerWeight, MAX_RATE},
    },
};

pub use self::{
    finish::{CompletedTx, SignedPayment},
    inspect::{PsbtInput, PsbtOutput, PsbtView, combine},
    package::{ChildPackage, PooledTx},
};
use unspent_sql::Tx;

use crate::{
    batch::{ObservedTx, RecordedChanges, TxBatch, TxSource},
    choose::{ChosenCoins, CoinPolicy},
    error::WalletError,
    ids::{WalletId, bitcoin_txid, model_txid},
    lease::LeaseTerms,
    store::WalletStore,
    wallet_row::WalletRow,
};

/// The highest fee that is not refused as a mistake: 0.1 BTC, as in Core
/// (`DEFAULT_TRANSACTION_MAXFEE`).
pub const HIGH_FEE: u64 = 10_000_000;

/// A payment to build.
#[derive(Clone, Debug)]
pub struct Payment {
    /// Scripts and satoshis to pay.
    pub outputs: Vec<(ScriptBuf, u64)>,
    /// Whoever gets all that is left of all coins; then there is no change.
    pub rest_to: Option<ScriptBuf>,
    /// What a unit of weight shall pay.
    pub rate: FeePerWeight,
    /// The fee, whatever the payment weighs.
    pub fee: Option<u64>,
    /// Whether the fee is taken from the outputs, in equal parts.
    pub subtract_fee: bool,
    /// Whether a fee that looks like a mistake is meant.
    pub allow_high_fee: bool,
    /// Which coins may be used. Its account is that which pays and gets the change.
    pub policy: CoinPolicy,
    /// The lease on the coins.
    pub terms: LeaseTerms,
}

impl Payment {
    /// A plain payment at a rate.
    pub fn new(outputs: Vec<(ScriptBuf, u64)>, rate: FeePerWeight, terms: LeaseTerms) -> Self {
        Self {
            outputs,
            rest_to: None,
            rate,
            fee: None,
            subtract_fee: false,
            allow_high_fee: false,
            policy: CoinPolicy::default(),
            terms,
        }
    }
}

/// A replacement to build for a transaction that pays too little.
#[derive(Clone, Debug)]
pub struct FeeBump {
    /// The transaction to replace.
    pub tx: Txid,
    /// The fee rate of the replacement.
    pub rate: FeePerWeight,
    /// Whether the fee is taken from the outputs instead of change or further coins.
    pub subtract_fee: bool,
    /// Whether a fee that looks like a mistake is meant.
    pub allow_high_fee: bool,
    /// Which further coins may be used.
    pub policy: CoinPolicy,
    /// The lease on the coins.
    pub terms: LeaseTerms,
}

impl FeeBump {
    /// A plain bump to a rate.
    pub fn new(tx: Txid, rate: FeePerWeight, terms: LeaseTerms) -> Self {
        let policy = CoinPolicy::default();
        Self { tx, rate, subtract_fee: false, allow_high_fee: false, policy, terms }
    }
}

/// A child to build that pays for an unconfirmed transaction which pays us.
#[derive(Clone, Debug)]
pub struct CpfpRequest {
    /// The transaction that pays too little.
    pub tx: Txid,
    /// Its fee, where neither the wallet nor the node knows it.
    pub parent_fee: Option<u64>,
    /// What a node's mempool holds of it and of what it rests on. Empty: no node was asked.
    pub pool: Vec<PooledTx>,
    /// The rate of the child and all that is unconfirmed below it together.
    pub rate: FeePerWeight,
    /// Whether a fee that looks like a mistake is meant.
    pub allow_high_fee: bool,
    /// Which further coins may be used.
    pub policy: CoinPolicy,
    /// The lease on the coins.
    pub terms: LeaseTerms,
}

/// What can be built. All of it takes the same way from a draft to a PSBT.
#[derive(Clone, Debug)]
pub enum PaymentRequest {
    /// A payment.
    Pay(Payment),
    /// A replacement for an own unconfirmed transaction, at a higher rate.
    Bump(FeeBump),
    /// A child that brings what is unconfirmed below it to a rate.
    Cpfp(CpfpRequest),
}

impl PaymentRequest {
    /// The lease on its coins.
    pub fn terms(&self) -> &LeaseTerms {
        match self {
            Self::Pay(payment) => &payment.terms,
            Self::Bump(bump) => &bump.terms,
            Self::Cpfp(child) => &child.terms,
        }
    }

    fn draft(
        &self,
        tx: &mut Tx<'_>,
        wallet: &WalletRow,
    ) -> Result<build::PaymentDraft, WalletError> {
        match self {
            Self::Pay(payment) => build::draft(tx, wallet, payment),
            Self::Bump(bump) => replace::bumped(tx, wallet, bump),
            Self::Cpfp(child) => replace::lifting(tx, wallet, child),
        }
    }
}

impl From<&Payment> for PaymentRequest {
    fn from(payment: &Payment) -> Self {
        Self::Pay(payment.clone())
    }
}

impl From<&FeeBump> for PaymentRequest {
    fn from(bump: &FeeBump) -> Self {
        Self::Bump(bump.clone())
    }
}

impl From<&CpfpRequest> for PaymentRequest {
    fn from(child: &CpfpRequest) -> Self {
        Self::Cpfp(child.clone())
    }
}

/// A payment that waits for signatures.
#[derive(Clone, Debug)]
pub struct UnsignedPayment {
    /// To be signed.
    pub psbt: Psbt,
    /// The coins and the reason.
    pub chosen: ChosenCoins,
    /// Which output is change.
    pub change_output: Option<usize>,
    /// What it rests on, where it is a child that pays for others.
    pub package: Option<ChildPackage>,
    /// The account that pays.
    pub account: String,
    /// Until when the coins are held, in microseconds. A preview holds none.
    pub held_until: Micros,
}

/// How a signed transaction is taken in.
#[derive(Clone, Copy, Debug, Default)]
pub struct FinishOptions {
    /// Whose leases it uses.
    pub lock: Option<LockId>,
    /// Whether it may take coins that others leased.
    pub force: bool,
    /// Whether a fee that looks like a mistake is meant.
    pub allow_high_fee: bool,
}

impl WalletStore {
    /// Chooses coins, leases them and builds the PSBT, under the wallet's lock and in one
    /// transaction. A replacement needs no lock of the first payment: the leases on its coins
    /// become those of the replacement.
    ///
    /// # Errors
    ///
    /// [`WalletError::Payment`] for what can't be built: outputs that no node takes, a transaction
    /// to replace or to pay for that is confirmed, dead or not ours, an ancestor whose fee isn't
    /// known. [`WalletError::Select`] or [`WalletError::TimeLocked`] when the coins don't suffice.
    /// Nothing is leased then.
    pub fn build_payment(
        &self,
        wallet: WalletId,
        request: impl Into<PaymentRequest>,
        now: Micros,
    ) -> Result<UnsignedPayment, WalletError> {
        let request = request.into();
        request.terms().expires_at(now)?;
        self.door.write_for(wallet.0, move |tx| {
            let mut row = WalletRow::lock(tx, wallet)?;
            let draft = request.draft(tx, &row)?;
            let unsigned = build::build(tx, &mut row, &draft, now)?;
            row.save(tx)?;
            Ok(unsigned)
        })
    }

    /// Builds the same from one moment of the wallet without leasing a coin or using up an address:
    /// a look, not a promise.
    ///
    /// # Errors
    ///
    /// As for [`WalletStore::build_payment`].
    pub fn preview_payment(
        &self,
        wallet: WalletId,
        request: impl Into<PaymentRequest>,
        now: Micros,
    ) -> Result<UnsignedPayment, WalletError> {
        let request = request.into();
        request.terms().expires_at(now)?;
        self.door.read(move |tx| {
            let row = WalletRow::read(tx, wallet)?;
            let draft = request.draft(tx, &row)?;
            build::preview(tx, &row, &draft, now)
        })
    }

    /// Records a signed transaction as pending; its leases become spends. Every script and
    /// signature is checked first.
    ///
    /// # Errors
    ///
    /// [`WalletError::Payment`] when signatures are missing or wrong or the fee looks like a
    /// mistake, [`WalletError::Refused`] when its coins are no longer free.
    pub fn finalize(
        &self,
        wallet: WalletId,
        signed: SignedPayment,
        how: FinishOptions,
        now: Micros,
    ) -> Result<(Txid, RecordedChanges), WalletError> {
        let done = self.complete(wallet, signed, how.allow_high_fee)?;
        self.record_completed(wallet, done, how, now)
    }

    /// Records what [`WalletStore::complete`] has checked.
    ///
    /// # Errors
    ///
    /// [`WalletError::Refused`] when its coins are no longer free.
    pub fn record_completed(
        &self,
        wallet: WalletId,
        done: CompletedTx,
        how: FinishOptions,
        now: Micros,
    ) -> Result<(Txid, RecordedChanges), WalletError> {
        let CompletedTx { tx, fee } = done;
        let txid = tx.compute_txid();
        let source = TxSource::Created { lock: how.lock, force: how.force };
        let observed = ObservedTx { fee, ..ObservedTx::new(tx, source) };
        let batch = TxBatch { txs: vec![observed], ..TxBatch::default() };
        Ok((txid, self.record_for(wallet, &batch, now)?))
    }
}

/// Outputs must be such as nodes take, and not more than there is.
fn check_outputs(outputs: &[(ScriptBuf, u64)]) -> Result<(), WalletError> {
    let mut total: u64 = 0;
    for (script, sats) in outputs {
        // A sum that saturates is refused right here.
        total = total.saturating_add(*sats);
        if *sats > MOST_BITCOIN_MONEY || total > MOST_BITCOIN_MONEY {
            return Err(WalletError::Payment("it pays more than 21 million BTC".into()));
        }
        let dust = script.minimal_non_dust().to_sat();
        if *sats < dust && !script.is_op_return() {
            let why = format!("{sats} sats are dust; that output needs at least {dust}");
            return Err(WalletError::Payment(why));
        }
    }
    Ok(())
}

/// A fee that looks like a mistake is refused unless it is meant.
fn check_fee(fee: u64, weight: Weight, allow: bool) -> Result<(), WalletError> {
    let is_high = fee > HIGH_FEE || fee > MAX_RATE.fee(weight.to_wu());
    if !is_high || allow {
        return Ok(());
    }
    let why = format!("a fee of {fee} sats looks like a mistake; allow a high fee if you mean it");
    Err(WalletError::Payment(why))
}

/// The name of a PSBT's transaction, for people.
pub fn psbt_txid(psbt: &Psbt) -> Txid {
    bitcoin_txid(model_txid(psbt.unsigned_tx.compute_txid()))
}

fn output_weight(script: &ScriptBuf) -> u64 {
    let length = script.len() as u64;
    4 * (8 + length + if length < 253 { 1 } else { 3 })
}

/// Weight of a whole transaction.
fn weight_of(tx: &Transaction) -> u64 {
    tx.weight().to_wu()
}
