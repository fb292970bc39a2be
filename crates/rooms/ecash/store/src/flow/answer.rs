//! What came back, and of which class a mint's refusal is.

use cashu::{BlindSignature, MeltQuoteState, MintQuoteState, ProofState, RestoreResponse};

/// What came of a [`super::FlowRequest`].
#[derive(Clone, Debug, PartialEq)]
pub enum FlowAnswer {
    /// A melt quote, asked about or just paid.
    Melt(MeltView),
    /// A mint quote.
    MintQuote(MintQuoteView),
    /// Signatures in the order of the outputs.
    Signatures(Vec<BlindSignature>),
    /// Outputs that were signed before, with their signatures.
    Restored(RestoreResponse),
    /// The mint's view of proofs.
    States(Vec<ProofState>),
    /// Spark's answer.
    Spark(SparkAnswer),
    /// No success.
    Fault(MintFault),
}

/// What makes a quote the one that was asked about, as the mint says it; `None` for what it leaves
/// out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteTerms {
    /// The mint's id of the quote.
    pub id: String,
    /// What is paid or issued.
    pub amount: Option<u64>,
    /// In which unit.
    pub unit: Option<String>,
    /// The invoice.
    pub invoice: Option<String>,
    /// When it ends, in seconds since 1970; a mint that sets no end says 0.
    pub expiry: Option<u64>,
}

impl QuoteTerms {
    /// Of a quote of which nothing but its id is said.
    pub fn of(id: impl Into<String>) -> Self {
        Self { id: id.into(), amount: None, unit: None, invoice: None, expiry: None }
    }
}

/// What a mint says about a mint quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MintQuoteView {
    /// Which quote.
    pub terms: QuoteTerms,
    /// Where it stands.
    pub state: MintQuoteState,
}

/// What a mint says about a melt quote.
#[derive(Clone, Debug, PartialEq)]
pub struct MeltView {
    /// Which quote.
    pub terms: QuoteTerms,
    /// Where it stands.
    pub state: MeltQuoteState,
    /// Proof of the payment, where the mint gives it.
    pub preimage: Option<String>,
    /// Signatures on blank outputs, in no promised order; `None` where the mint doesn't say.
    pub change: Option<Vec<BlindSignature>>,
}

impl MeltView {
    /// Of a quote of which the mint says nothing any more.
    pub(crate) fn unheard(id: &str) -> Self {
        let state = MeltQuoteState::Unknown;
        Self { terms: QuoteTerms::of(id), state, preimage: None, change: None }
    }

    /// The mint has not paid and is not about to.
    pub fn is_unpaid(&self) -> bool {
        matches!(self.state, MeltQuoteState::Unpaid | MeltQuoteState::Failed)
    }
}

/// What Spark says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SparkAnswer {
    /// A payment is under way under these ids.
    Sending(SparkIds),
    /// It has arrived.
    Sent {
        /// The ids it has.
        ids: SparkIds,
        /// Proof of the payment.
        preimage: String,
    },
    /// The money came back.
    Returned,
    /// There is no such payment.
    NoSuchSend,
    /// It won't be tried: no funds, fee too high, invoice paid before or refused.
    Rejected(String),
    /// Nobody has paid yet, or the status is one we don't know.
    Waiting,
    /// Somebody has paid.
    Received {
        /// Spark's id of the transfer.
        transfer_id: String,
        /// Preimage of the invoice.
        preimage: String,
    },
    /// It will never be paid.
    ReceiveFailed(String),
    /// No answer, or one that proves nothing.
    Unknown(String),
}

/// The names that Spark gives a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparkIds {
    /// To ask for its status.
    pub request_id: String,
    /// Of the transfer.
    pub transfer_id: String,
    /// What it costs, in satoshis.
    pub fee: u64,
}

/// Why a mint did not do what it was asked, by what it means for us.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintFault {
    /// 11003: these outputs were signed before.
    #[error("the mint has signed these outputs before")]
    OutputsAlreadySigned,
    /// 20002: the quote was issued before.
    #[error("the mint has issued this quote before")]
    AlreadyIssued,
    /// 11001: an input is spent.
    #[error("the mint says that an input is spent")]
    AlreadySpent,
    /// 11002, 11004, 20005: something is under way.
    #[error("something is still under way at the mint")]
    QuotePending,
    /// 429.
    #[error("the mint asks us to slow down")]
    RateLimited,
    /// 20001.
    #[error("the mint says that the quote is not paid")]
    NotPaid,
    /// 20004.
    #[error("the mint says that the payment failed: {0}")]
    PaymentFailed(String),
    /// 20007.
    #[error("the mint says that the quote has expired")]
    Expired,
    /// 12001, 12002, 12003.
    #[error("the mint does not sign with this keyset any more (code {0})")]
    Keyset(u32),
    /// 20008.
    #[error("the mint does not know this form of signature")]
    LockFormat,
    /// Anything else that says no for good.
    #[error("the mint refuses (code {code}): {message}")]
    Refused {
        /// Its number in the list of Cashu's errors.
        code: u32,
        /// The mint's words.
        message: String,
    },
    /// The request itself isn't taken, whatever it asks for: HTTP 413 or 422.
    #[error("the mint does not take such a request: {0}")]
    Unfit(String),
    /// No answer, or one that proves nothing.
    #[error("the outcome at the mint is unknown: {0}")]
    Unknown(String),
}

/// What to do about a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FaultClass {
    /// It happened before: restore the reserved range, then complete.
    DoneAlready,
    /// It may have happened or not: read, and decide only on a definite reading.
    UnknownOutcome,
    /// Wait and repeat the same request.
    Transient,
    /// It has not happened and won't, if a reading agrees.
    Definite,
    /// Load the keysets anew; if the outputs are unsigned, take new ones.
    RefreshKeysets,
    /// Sign the other way, once.
    LockFormat,
}

/// More inputs than the mint takes in one request.
const TOO_MANY_INPUTS: u32 = 11_014;
const UNBALANCED: &str = "not balanced";
/// Longest part of a mint's words that is kept.
const MAX_MESSAGE: usize = 200;

impl MintFault {
    /// The fault that a code of Cashu's list means.
    pub fn from_code(code: u32, message: &str) -> Self {
        let message: String = message.chars().take(MAX_MESSAGE).collect();
        match code {
            11003 => Self::OutputsAlreadySigned,
            20002 => Self::AlreadyIssued,
            11001 => Self::AlreadySpent,
            11002 | 11004 | 20005 => Self::QuotePending,
            20001 => Self::NotPaid,
            20004 => Self::PaymentFailed(message),
            20007 => Self::Expired,
            12001..=12003 => Self::Keyset(code),
            20008 => Self::LockFormat,
            10001 | 11005..=11017 | 20003 | 20006 | 20009 | 30001 | 30002 | 31001..=31004 => {
                Self::Refused { code, message }
            }
            // Nutshell has no code for sums that don't match: fees that were read before are wrong,
            // and the same request never succeeds.
            _ if message.contains(UNBALANCED) => Self::Refused { code, message },
            // 0, 11000, 50000 and all that nobody has defined: no proof of anything.
            _ => Self::Unknown(message),
        }
    }

    /// Whether fewer inputs at a time may do.
    pub fn is_too_many_inputs(&self) -> bool {
        matches!(self, Self::Unfit(_) | Self::Refused { code: TOO_MANY_INPUTS, .. })
    }

    /// What to do about it.
    pub fn class(&self) -> FaultClass {
        match self {
            Self::OutputsAlreadySigned | Self::AlreadyIssued => FaultClass::DoneAlready,
            // Spent by whom? Our own request of before a crash spends the same inputs.
            Self::AlreadySpent | Self::Unfit(_) | Self::Unknown(_) => FaultClass::UnknownOutcome,
            Self::QuotePending | Self::RateLimited | Self::NotPaid => FaultClass::Transient,
            Self::PaymentFailed(_) | Self::Expired | Self::Refused { .. } => FaultClass::Definite,
            Self::Keyset(_) => FaultClass::RefreshKeysets,
            Self::LockFormat => FaultClass::LockFormat,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_classed_as_the_protocol_means_them() {
        let class = |code| MintFault::from_code(code, "").class();
        let unbalanced = MintFault::from_code(11000, "inputs (9) vs outputs (9) are not balanced");
        assert_eq!(unbalanced.class(), FaultClass::Definite);
        for code in [11003, 20002] {
            assert_eq!(class(code), FaultClass::DoneAlready, "{code}");
        }
        for code in [0, 50000, 11000, 11001, 99999] {
            assert_eq!(class(code), FaultClass::UnknownOutcome, "{code}");
        }
        for code in [11002, 11004, 20005, 20001] {
            assert_eq!(class(code), FaultClass::Transient, "{code}");
        }
        for code in [20004, 11005, 11006, 11009, 11015, 20003, 20006, 20007, 10001] {
            assert_eq!(class(code), FaultClass::Definite, "{code}");
        }
        for code in [12001, 12002, 12003] {
            assert_eq!(class(code), FaultClass::RefreshKeysets, "{code}");
        }
        assert_eq!(class(20008), FaultClass::LockFormat);
    }
}
