//! A question of the room, asked of a mint or of Spark, and its answer as a value.

use std::sync::Arc;

use cashu::{MeltQuoteBolt11Response, MintQuoteBolt11Response, mint_url::MintUrl};
use unspent_ecash::flow::{
    FlowAnswer, FlowRequest, MeltView, MintFault, MintQuoteView, QuoteTerms, SparkAnswer, SparkIds,
    SparkRequest,
};

use super::{
    super::{
        mint::NoResult,
        spark::{
            ReceiveStanding, SendStanding, SparkBackend, SparkFault, SparkPayment,
            SparkPaymentStatus, SparkSearch,
        },
    },
    book::MintBook,
};

/// The protocol's code for a keyset that is retired.
const KEYSET_INACTIVE: u32 = 12_002;

/// Whoever can be asked.
pub struct PaymentBackends {
    /// Mints.
    pub mints: MintBook,
    /// The Spark wallet, where there is one.
    pub spark: Option<Arc<dyn SparkBackend>>,
}

impl PaymentBackends {
    /// Asks, and waits for the answer. Whatever goes wrong is an answer too.
    pub fn ask(&self, request: &FlowRequest) -> FlowAnswer {
        let started = std::time::Instant::now();
        let answer = self.answer(request);
        let outcome = if matches!(answer, FlowAnswer::Fault(_)) { "fault" } else { "answer" };
        let name = request.name();
        metrics::histogram!("unspent_ecash_ask_seconds", "request" => name)
            .record(started.elapsed());
        metrics::counter!("unspent_ecash_asks_total", "request" => name, "outcome" => outcome)
            .increment(1);
        answer
    }

    fn answer(&self, request: &FlowRequest) -> FlowAnswer {
        let at = |mint: &MintUrl| self.mints.client(mint);
        let result = match request {
            FlowRequest::MeltQuote { mint, quote } => at(mint).read_melt_quote(quote).map(melt),
            FlowRequest::MintQuote { mint, quote } => at(mint).read_mint_quote(quote).map(issue),
            FlowRequest::Melt { mint, request } => at(mint).melt(request).map(melt),
            FlowRequest::Swap { mint, request } => {
                at(mint).swap(request).map(|signed| FlowAnswer::Signatures(signed.signatures))
            }
            FlowRequest::Mint { mint, request, tagged } => {
                let client = at(mint);
                let other = |first: NoResult| {
                    // On this code alone: after any other fault the first request may have been
                    // carried out.
                    let is_form = first.fault() == MintFault::LockFormat;
                    if is_form { client.mint(tagged) } else { Err(first) }
                };
                let signed = client.mint(request).or_else(other);
                signed.map(|signed| FlowAnswer::Signatures(signed.signatures))
            }
            FlowRequest::Restore { mint, request } => {
                at(mint).restore(request).map(FlowAnswer::Restored)
            }
            FlowRequest::CheckState { mint, request } => {
                at(mint).check_states(request).map(|answer| FlowAnswer::States(answer.states))
            }
            FlowRequest::Spark(request) => return FlowAnswer::Spark(self.ask_spark(request)),
        };
        result.unwrap_or_else(|no_result| FlowAnswer::Fault(self.fault_of(request, &no_result)))
    }

    /// What follows from a refusal. Some mints refuse outputs of a keyset that they have retired
    /// under a code that says nothing, for which one would try for ever: their list of keysets
    /// tells.
    fn fault_of(&self, request: &FlowRequest, no_result: &NoResult) -> MintFault {
        let fault = no_result.fault();
        let is_vague = no_result.is_refusal() && matches!(fault, MintFault::Unknown(_));
        let is_retired = || self.is_retired(request).unwrap_or(false);
        if is_vague && is_retired() { MintFault::Keyset(KEYSET_INACTIVE) } else { fault }
    }

    /// Whether the mint lists the keyset of a request's outputs as one that it has retired.
    fn is_retired(&self, request: &FlowRequest) -> Option<bool> {
        let outputs = match request {
            FlowRequest::Swap { request, .. } => request.outputs(),
            FlowRequest::Mint { request, .. } => &request.outputs,
            FlowRequest::Melt { request, .. } => request.outputs().as_ref()?,
            FlowRequest::MeltQuote { .. }
            | FlowRequest::MintQuote { .. }
            | FlowRequest::Restore { .. }
            | FlowRequest::CheckState { .. }
            | FlowRequest::Spark(_) => return None,
        };
        let id = outputs.first()?.keyset_id;
        let keysets = self.mints.client(request.mint()?).keysets().ok()?.keysets;
        Some(keysets.iter().any(|keyset| keyset.id == id && !keyset.active))
    }

    fn ask_spark(&self, request: &SparkRequest) -> SparkAnswer {
        let Some(spark) = &self.spark else {
            return SparkAnswer::Unknown("there is no Spark wallet".into());
        };
        let answer = match request {
            // By our key alone: a payment of the same invoice under another key isn't this one.
            SparkRequest::FindSend { key, .. } => spark
                .find_send(&SparkSearch::Key(key.clone()))
                .map(|found| found.map_or(SparkAnswer::NoSuchSend, sending)),
            SparkRequest::Send { key, invoice, amount, max_fee } => {
                let (key, invoice) = (key.clone(), invoice.clone());
                let (amount, max_fee) = (*amount, *max_fee);
                spark.send(&SparkPayment { key, invoice, amount, max_fee }).map(sending)
            }
            SparkRequest::SendStatus { request_id } => spark
                .send_status(request_id)
                .map(|found| found.map_or_else(|| unheard(request_id), sending)),
            SparkRequest::ReceiveStatus { request_id } => {
                spark.receive_status(request_id).map(|found| match found.map(|f| f.standing()) {
                    Some(ReceiveStanding::Open) => SparkAnswer::Waiting,
                    Some(ReceiveStanding::Paid { transfer_id, preimage }) => {
                        SparkAnswer::Received { transfer_id, preimage }
                    }
                    None => unheard(request_id),
                })
            }
        };
        answer.unwrap_or_else(refused)
    }
}

fn melt(quote: MeltQuoteBolt11Response<String>) -> FlowAnswer {
    let terms = QuoteTerms {
        id: quote.quote,
        amount: Some(quote.amount.to_u64()),
        unit: quote.unit.map(|unit| unit.to_string()),
        invoice: quote.request,
        expiry: Some(quote.expiry),
    };
    let (state, change) = (quote.state, quote.change);
    FlowAnswer::Melt(MeltView { terms, state, preimage: quote.payment_preimage, change })
}

fn issue(quote: MintQuoteBolt11Response<String>) -> FlowAnswer {
    let terms = QuoteTerms {
        id: quote.quote,
        amount: quote.amount.map(u64::from),
        unit: quote.unit.map(|unit| unit.to_string()),
        invoice: Some(quote.request),
        expiry: quote.expiry,
    };
    FlowAnswer::MintQuote(MintQuoteView { terms, state: quote.state })
}

fn sending(send: SparkPaymentStatus) -> SparkAnswer {
    let standing = send.standing();
    let SparkPaymentStatus { request_id, transfer_id, fee, .. } = send;
    let ids = SparkIds { request_id, transfer_id, fee };
    match standing {
        SendStanding::Open => SparkAnswer::Sending(ids),
        SendStanding::Paid { preimage } => SparkAnswer::Sent { ids, preimage },
        SendStanding::Returned => SparkAnswer::Returned,
    }
}

fn unheard(request_id: &str) -> SparkAnswer {
    // Not a failure: a wallet that was restored doesn't know its newest payments either.
    SparkAnswer::Unknown(format!("the Spark wallet doesn't know {request_id}"))
}

fn refused(fault: SparkFault) -> SparkAnswer {
    match fault {
        SparkFault::InsufficientBalance
        | SparkFault::AlreadyPaid
        | SparkFault::FeeTooHigh
        | SparkFault::Rejected(_) => SparkAnswer::Rejected(fault.to_string()),
        SparkFault::Unknown(words) => SparkAnswer::Unknown(words),
    }
}
