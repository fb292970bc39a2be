//! What an entity knows besides its state. It is stored sealed: see [`crate::seal`] for why.

use serde::{Deserialize, Serialize};
use unspent_model::ecash::EntityKind;

use zeroize::Zeroizing;

use crate::{error::EcashError, seal::SecretSealer};

/// Outputs reserved on a keyset: they derive from the seed, the keyset and the counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRange {
    /// The keyset, in hexadecimal.
    pub keyset_id: String,
    /// Counter of the first output.
    pub start: u32,
    /// Amount of each output; 0 for a blank one.
    pub amounts: Vec<u64>,
}

/// Pays an invoice by a melt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendQuoteDetails {
    /// The mint's id of the melt quote.
    pub quote_id: String,
    /// The invoice.
    pub invoice: String,
    /// What the receiver gets.
    pub amount: u64,
    /// What the payment may cost on top.
    pub fee_reserve: u64,
    /// What the mint takes for the inputs.
    pub input_fee: u64,
    /// Sum of the inputs.
    pub reserved: u64,
    /// Blank outputs for change; `None` when nothing can be left over.
    pub range: Option<OutputRange>,
    /// Outputs of the fence.
    pub fence: Option<OutputRange>,
    /// Proof of the payment, where the mint gave it.
    pub preimage: Option<String>,
    /// What left the account in the end.
    pub spent: Option<u64>,
}

/// Makes a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendSwapDetails {
    /// What the receiver gets after paying for its own swap.
    pub amount: u64,
    /// What that swap costs.
    pub receive_fee: u64,
    /// Value of the token.
    pub to_send: u64,
    /// What our swap costs; 0 without one.
    pub send_fee: u64,
    /// Sum of the inputs.
    pub input_amount: u64,
    /// Outputs: the token's first, then change. `None` where the sum fitted.
    pub range: Option<OutputRange>,
    /// How many of the outputs are the token's.
    pub send_count: usize,
    /// SHA-256 of the token's proofs, in hexadecimal, once it is made.
    pub token_hash: Option<String>,
}

/// A token of another account that pays a receive quote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSource {
    /// Mint of the token.
    pub mint_url: String,
    /// The melt quote there.
    pub melt_quote_id: String,
    /// Value of the token.
    pub token_amount: u64,
    /// What the mint takes for the inputs.
    pub input_fee: u64,
    /// What the payment may cost on top.
    pub fee_reserve: u64,
    /// Our account at that mint, if there is one: change goes there.
    pub account_id: Option<String>,
    /// Blank outputs for change.
    pub range: Option<OutputRange>,
    /// Change was stored, or there was none.
    pub change_stored: bool,
}

/// Is paid by an invoice of a mint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveQuoteDetails {
    /// The mint's id of the mint quote.
    pub quote_id: String,
    /// The invoice.
    pub invoice: String,
    /// What is issued.
    pub amount: u64,
    /// Index of the key that the quote is locked to (NUT-20).
    pub lock_index: u32,
    /// Outputs, once it is paid.
    pub range: Option<OutputRange>,
    /// The token that pays, if one does.
    pub source: Option<TokenSource>,
}

/// Claims a token at its own mint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveSwapDetails {
    /// SHA-256 of the token's proofs, in hexadecimal.
    pub token_hash: String,
    /// Value of the token.
    pub input_amount: u64,
    /// What the mint takes for the swap.
    pub fee: u64,
    /// Outputs.
    pub range: OutputRange,
}

/// Pays an invoice through Spark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparkSendDetails {
    /// The invoice.
    pub invoice: String,
    /// Its hash, in hexadecimal.
    pub payment_hash: String,
    /// What the receiver gets, in satoshis.
    pub amount: u64,
    /// The invoice names no amount.
    pub is_amountless: bool,
    /// What was confirmed as the most it may cost.
    pub max_fee: u64,
    /// What it costs.
    pub fee: Option<u64>,
    /// Spark's id of the request.
    pub request_id: Option<String>,
    /// Spark's id of the transfer.
    pub transfer_id: Option<String>,
    /// Proof of the payment.
    pub preimage: Option<String>,
}

/// Is paid through Spark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparkReceiveDetails {
    /// Spark's id of the request.
    pub request_id: String,
    /// The invoice.
    pub invoice: String,
    /// Its hash, in hexadecimal.
    pub payment_hash: String,
    /// What comes in, in satoshis.
    pub amount: u64,
    /// Spark's id of the transfer, once paid.
    pub transfer_id: Option<String>,
    /// Preimage of the invoice, once paid.
    pub preimage: Option<String>,
    /// The token that pays, if one does.
    pub source: Option<TokenSource>,
}

fn purpose(entity: &str) -> String {
    format!("details:{entity}")
}

/// What an entity knows, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityDetails {
    /// See [`SendQuoteDetails`].
    SendQuote(SendQuoteDetails),
    /// See [`SendSwapDetails`].
    SendSwap(SendSwapDetails),
    /// See [`ReceiveQuoteDetails`].
    ReceiveQuote(ReceiveQuoteDetails),
    /// See [`ReceiveSwapDetails`].
    ReceiveSwap(ReceiveSwapDetails),
    /// See [`SparkSendDetails`].
    SparkSend(SparkSendDetails),
    /// See [`SparkReceiveDetails`].
    SparkReceive(SparkReceiveDetails),
}

impl SendQuoteDetails {
    /// The most that can come back as change; `None` where the inputs don't cover the payment.
    pub fn most_change(&self) -> Option<u64> {
        // The reserve isn't taken off: where the route is free, the mint gives all of it back.
        self.reserved.checked_sub(self.amount)?.checked_sub(self.input_fee)
    }

    /// What the inputs are worth after the mint's fee; `None` where they don't cover it.
    pub fn worth(&self) -> Option<u64> {
        self.reserved.checked_sub(self.input_fee)
    }
}

impl SendSwapDetails {
    /// What comes back to the account; `None` where the inputs don't cover the token.
    pub fn change(&self) -> Option<u64> {
        self.worth()?.checked_sub(self.to_send)
    }

    /// What all outputs are worth together; `None` where the inputs don't cover the fee.
    pub fn worth(&self) -> Option<u64> {
        self.input_amount.checked_sub(self.send_fee)
    }
}

impl ReceiveSwapDetails {
    /// What the account gets; `None` where the token doesn't cover the fee.
    pub fn worth(&self) -> Option<u64> {
        self.input_amount.checked_sub(self.fee)
    }
}

impl EntityDetails {
    /// Of which kind the entity is.
    pub fn kind(&self) -> EntityKind {
        match self {
            Self::SendQuote(_) => EntityKind::CashuSendQuote,
            Self::SendSwap(_) => EntityKind::CashuSendSwap,
            Self::ReceiveQuote(_) => EntityKind::CashuReceiveQuote,
            Self::ReceiveSwap(_) => EntityKind::CashuReceiveSwap,
            Self::SparkSend(_) => EntityKind::SparkSendQuote,
            Self::SparkReceive(_) => EntityKind::SparkReceiveQuote,
        }
    }

    /// As it is stored for an entity.
    pub(crate) fn seal(&self, entity: &str, sealer: &SecretSealer) -> Result<Vec<u8>, EcashError> {
        let plain = match self {
            Self::SendQuote(details) => serde_json::to_vec(details),
            Self::SendSwap(details) => serde_json::to_vec(details),
            Self::ReceiveQuote(details) => serde_json::to_vec(details),
            Self::ReceiveSwap(details) => serde_json::to_vec(details),
            Self::SparkSend(details) => serde_json::to_vec(details),
            Self::SparkReceive(details) => serde_json::to_vec(details),
        };
        let bug = |error| EcashError::Bug(format!("details can't be written: {error}"));
        let plain = Zeroizing::new(plain.map_err(bug)?);
        sealer.seal(&purpose(entity), &plain)
    }

    /// What was stored for an entity of that kind.
    pub(crate) fn open(
        kind: EntityKind,
        entity: &str,
        sealed: &[u8],
        sealer: &SecretSealer,
    ) -> Result<Self, EcashError> {
        let plain = sealer.open(&purpose(entity), sealed)?;
        let details = match kind {
            EntityKind::CashuSendQuote => serde_json::from_slice(&plain).map(Self::SendQuote),
            EntityKind::CashuSendSwap => serde_json::from_slice(&plain).map(Self::SendSwap),
            EntityKind::CashuReceiveQuote => serde_json::from_slice(&plain).map(Self::ReceiveQuote),
            EntityKind::CashuReceiveSwap => serde_json::from_slice(&plain).map(Self::ReceiveSwap),
            EntityKind::SparkSendQuote => serde_json::from_slice(&plain).map(Self::SparkSend),
            EntityKind::SparkReceiveQuote => serde_json::from_slice(&plain).map(Self::SparkReceive),
        };
        details.map_err(|error| EcashError::Corrupt(format!("details of a {kind}: {error}")))
    }

    /// All outputs reserved, whatever for.
    pub fn ranges(&self) -> Vec<&OutputRange> {
        let fence = if let Self::SendQuote(quote) = self { quote.fence.as_ref() } else { None };
        let change = self.source().and_then(|source| source.range.as_ref());
        [self.range(), fence, change].into_iter().flatten().collect()
    }

    /// These as they are stored beside the sealed details.
    pub(crate) fn outputs(&self) -> Result<String, EcashError> {
        let bug = |error| EcashError::Bug(format!("outputs can't be written: {error}"));
        serde_json::to_string(&self.ranges()).map_err(bug)
    }

    /// The outputs reserved for its own account.
    pub fn range(&self) -> Option<&OutputRange> {
        match self {
            Self::SendQuote(details) => details.range.as_ref(),
            Self::SendSwap(details) => details.range.as_ref(),
            Self::ReceiveQuote(details) => details.range.as_ref(),
            Self::ReceiveSwap(details) => Some(&details.range),
            Self::SparkSend(_) | Self::SparkReceive(_) => None,
        }
    }

    pub(crate) fn set_range(&mut self, range: OutputRange) {
        match self {
            Self::SendQuote(details) => details.range = Some(range),
            Self::SendSwap(details) => details.range = Some(range),
            Self::ReceiveQuote(details) => details.range = Some(range),
            Self::ReceiveSwap(details) => details.range = range,
            Self::SparkSend(_) | Self::SparkReceive(_) => {}
        }
    }

    /// The token that pays it, if one does.
    pub fn source(&self) -> Option<&TokenSource> {
        match self {
            Self::ReceiveQuote(details) => details.source.as_ref(),
            Self::SparkReceive(details) => details.source.as_ref(),
            Self::SendQuote(_) | Self::SendSwap(_) | Self::ReceiveSwap(_) | Self::SparkSend(_) => {
                None
            }
        }
    }

    pub(crate) fn source_mut(&mut self) -> Option<&mut TokenSource> {
        match self {
            Self::ReceiveQuote(details) => details.source.as_mut(),
            Self::SparkReceive(details) => details.source.as_mut(),
            Self::SendQuote(_) | Self::SendSwap(_) | Self::ReceiveSwap(_) | Self::SparkSend(_) => {
                None
            }
        }
    }
}
