//! What a mint or Spark is asked. A request is built from what is stored, so that it is the same
//! after a crash: the same inputs, the same outputs.

use cashu::{
    CheckStateRequest, MeltRequest, MintRequest, MintUrl, Proofs, RestoreRequest, SwapRequest,
};

/// One question. `Debug` shows no secret of a proof.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowRequest {
    /// How does a melt quote stand? Answered by [`super::FlowAnswer::Melt`].
    MeltQuote {
        /// Where.
        mint: MintUrl,
        /// Which quote.
        quote: String,
    },
    /// How does a mint quote stand? Answered by [`super::FlowAnswer::MintQuote`].
    MintQuote {
        /// Where.
        mint: MintUrl,
        /// Which quote.
        quote: String,
    },
    /// Pay. Answered by [`super::FlowAnswer::Melt`].
    Melt {
        /// Where.
        mint: MintUrl,
        /// Quote, inputs and blank outputs.
        request: MeltRequest<String>,
    },
    /// Swap. Answered by [`super::FlowAnswer::Signatures`], in the order of the outputs.
    Swap {
        /// Where.
        mint: MintUrl,
        /// Inputs and outputs.
        request: SwapRequest,
    },
    /// Issue what was paid for. Answered by [`super::FlowAnswer::Signatures`].
    Mint {
        /// Where.
        mint: MintUrl,
        /// Signed as NUT-20 has it and all mints know it; to be sent first.
        request: MintRequest<String>,
        /// The same, signed with the newer message; to be sent once after
        /// [`super::MintFault::LockFormat`].
        tagged: MintRequest<String>,
    },
    /// Which of these outputs were signed? Answered by [`super::FlowAnswer::Restored`].
    Restore {
        /// Where.
        mint: MintUrl,
        /// The outputs of exactly one reserved range.
        request: RestoreRequest,
    },
    /// Are these proofs spent? Answered by [`super::FlowAnswer::States`].
    CheckState {
        /// Where.
        mint: MintUrl,
        /// Their public names.
        request: CheckStateRequest,
    },
    /// Something for Spark. Answered by [`super::FlowAnswer::Spark`].
    Spark(SparkRequest),
}

impl FlowRequest {
    /// Which mint is asked; `None` for Spark.
    pub fn mint(&self) -> Option<&MintUrl> {
        match self {
            Self::MeltQuote { mint, .. }
            | Self::MintQuote { mint, .. }
            | Self::Melt { mint, .. }
            | Self::Swap { mint, .. }
            | Self::Mint { mint, .. }
            | Self::Restore { mint, .. }
            | Self::CheckState { mint, .. } => Some(mint),
            Self::Spark(_) => None,
        }
    }

    /// A word for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::MeltQuote { .. } => "melt_quote",
            Self::MintQuote { .. } => "mint_quote",
            Self::Melt { .. } => "melt",
            Self::Swap { .. } => "swap",
            Self::Mint { .. } => "mint",
            Self::Restore { .. } => "restore",
            Self::CheckState { .. } => "check_state",
            Self::Spark(_) => "spark",
        }
    }

    /// Proofs that the request spends.
    pub fn inputs(&self) -> Option<&Proofs> {
        match self {
            Self::Melt { request, .. } => Some(request.inputs()),
            Self::Swap { request, .. } => Some(request.inputs()),
            Self::MeltQuote { .. }
            | Self::MintQuote { .. }
            | Self::Mint { .. }
            | Self::Restore { .. }
            | Self::CheckState { .. }
            | Self::Spark(_) => None,
        }
    }
}

/// A question to Spark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SparkRequest {
    /// Was a payment with this key made before? A crash may have hidden it.
    FindSend {
        /// The entity's id: the idempotency key of the payment.
        key: String,
        /// Hash of the invoice, in hexadecimal.
        payment_hash: String,
    },
    /// Pay.
    Send {
        /// The entity's id.
        key: String,
        /// The invoice.
        invoice: String,
        /// What to pay where the invoice names no amount, in satoshis.
        amount: Option<u64>,
        /// The most that may be paid on top, in satoshis.
        max_fee: u64,
    },
    /// How does a payment stand?
    SendStatus {
        /// The id that Spark gave it.
        request_id: String,
    },
    /// How does an invoice of ours stand?
    ReceiveStatus {
        /// The id that Spark gave it.
        request_id: String,
    },
}
