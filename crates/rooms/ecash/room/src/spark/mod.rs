//! What the room needs of a Spark wallet: eight questions, behind a trait.
//!
//! | asked | answered |
//! |---|---|
//! | [`SparkBackend::info`] | whether it is there, its balance, its key |
//! | [`SparkBackend::quote_send`] | what paying an invoice would cost |
//! | [`SparkBackend::send`] | a payment under a key of ours: the same key never pays twice |
//! | [`SparkBackend::send_status`] | where a payment stands |
//! | [`SparkBackend::find_send`] | a payment by our key or its hash, after a crash between paying and noting it |
//! | [`SparkBackend::create_invoice`] | an invoice |
//! | [`SparkBackend::receive_status`] | where an invoice stands |
//! | [`SparkBackend::events`] | news, where the wallet has such: they wake, asking decides |
//!
//! | module | keeps |
//! |---|---|
//! | [`status`] | what the words of Spark's servers mean for money |
//! | [`remote`] | a wallet in another process, over HTTP |
//!
//! No real Spark operator has been tried: the tests speak to a scripted backend.

pub mod remote;
pub mod status;

use crossbeam_channel::Receiver;
use serde::{Deserialize, Serialize};

pub use self::{
    remote::SparkRemote,
    status::{ReceiveStanding, SendStanding},
};

/// Why a Spark wallet gave no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SparkFault {
    /// There isn't enough money. Nothing was paid.
    #[error("the Spark balance doesn't suffice")]
    InsufficientBalance,
    /// Somebody paid this invoice, or pays it now; perhaps we did, under another key.
    #[error("the invoice is paid or being paid already")]
    AlreadyPaid,
    /// The fee is higher than allowed. Nothing was paid.
    #[error("the fee is higher than was agreed to")]
    FeeTooHigh,
    /// The wallet refuses. Nothing was paid.
    #[error("the Spark wallet refuses: {0}")]
    Rejected(String),
    /// Nobody knows whether it was carried out.
    #[error("the Spark wallet gives no clear answer: {0}")]
    Unknown(String),
}

/// A wallet's own figures.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SparkInfo {
    /// Whether it can pay and be paid now.
    pub online: bool,
    /// In satoshis.
    pub balance: u64,
    /// Its key in hex.
    pub identity_pubkey: String,
}

/// What paying an invoice would cost, in satoshis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SparkEstimate {
    /// What the receiver gets.
    pub amount: u64,
    /// What it costs besides.
    pub fee: u64,
}

/// A payment to make.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SparkPayment {
    /// Ours, and the same whenever this payment is asked for again.
    pub key: String,
    /// BOLT 11.
    pub invoice: String,
    /// In satoshis, for an invoice that names no amount.
    pub amount: Option<u64>,
    /// In satoshis; a higher fee is refused.
    pub max_fee: u64,
}

/// A payment that a wallet knows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SparkPaymentStatus {
    /// The servers' name of it.
    pub request_id: String,
    /// The name of the transfer inside Spark.
    pub transfer_id: String,
    /// In satoshis.
    pub fee: u64,
    /// The servers' word for where it stands.
    pub status: String,
    /// The proof of payment, once there is one.
    pub preimage: Option<String>,
}

impl SparkPaymentStatus {
    /// What its status means for money.
    pub fn standing(&self) -> SendStanding {
        status::of_send(&self.status, self.preimage.as_deref())
    }
}

/// How a payment is looked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SparkSearch {
    /// By our key.
    Key(String),
    /// By the payment's hash, in hex.
    PaymentHash(String),
}

/// An invoice of a wallet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SparkInvoice {
    /// The servers' name of it.
    pub request_id: String,
    /// BOLT 11.
    pub invoice: String,
    /// In hex.
    pub payment_hash: String,
    /// Seconds since 1970.
    pub expires_at: u64,
}

/// Where an invoice stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SparkInvoiceStatus {
    /// The servers' word for it.
    pub status: String,
    /// The name of the transfer inside Spark, once there is one.
    pub transfer_id: Option<String>,
    /// The preimage, once it is known.
    pub preimage: Option<String>,
}

impl SparkInvoiceStatus {
    /// What its status means for money.
    pub fn standing(&self) -> ReceiveStanding {
        status::of_receive(&self.status, self.transfer_id.as_deref(), self.preimage.as_deref())
    }
}

/// A Spark wallet.
pub trait SparkBackend: Send + Sync {
    /// Whether it is there, and what it holds.
    ///
    /// # Errors
    ///
    /// [`SparkFault`], as with all of them.
    fn info(&self) -> Result<SparkInfo, SparkFault>;

    /// What paying an invoice would cost; the amount is for one that names none.
    ///
    /// # Errors
    ///
    /// [`SparkFault`].
    fn quote_send(&self, invoice: &str, amount: Option<u64>) -> Result<SparkEstimate, SparkFault>;

    /// Pays. A key that is known gives the first payment under it back, and pays nothing.
    ///
    /// # Errors
    ///
    /// [`SparkFault`].
    fn send(&self, payment: &SparkPayment) -> Result<SparkPaymentStatus, SparkFault>;

    /// Where a payment stands; `None` when nobody knows it.
    ///
    /// # Errors
    ///
    /// [`SparkFault`].
    fn send_status(&self, request_id: &str) -> Result<Option<SparkPaymentStatus>, SparkFault>;

    /// Looks for a payment; `None` when there is none.
    ///
    /// # Errors
    ///
    /// [`SparkFault`].
    fn find_send(&self, search: &SparkSearch) -> Result<Option<SparkPaymentStatus>, SparkFault>;

    /// Makes an invoice over satoshis that lives for so many seconds.
    ///
    /// # Errors
    ///
    /// [`SparkFault`].
    fn create_invoice(
        &self,
        amount: u64,
        memo: Option<&str>,
        expiry: Option<u64>,
    ) -> Result<SparkInvoice, SparkFault>;

    /// Where an invoice stands; `None` when nobody knows it.
    ///
    /// # Errors
    ///
    /// [`SparkFault`].
    fn receive_status(&self, request_id: &str) -> Result<Option<SparkInvoiceStatus>, SparkFault>;

    /// Names of requests that have news, where the wallet tells.
    fn events(&self) -> Option<Receiver<String>> {
        None
    }
}
