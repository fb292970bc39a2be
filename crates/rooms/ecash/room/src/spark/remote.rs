//! A Spark wallet in another process, over HTTP on this machine.
//!
//! Every question is a POST of JSON to a path with the question's name. An answer of 200 is JSON; a
//! refusal is any other status with `{"error": NAME, "detail": TEXT}`, where the name is one of
//! `insufficient_balance`, `already_paid`, `fee_too_high` and `rejected`. Whatever else comes, or
//! doesn't, says nothing of what was carried out.

use std::time::Duration;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    SparkBackend, SparkEstimate, SparkFault, SparkInfo, SparkInvoice, SparkInvoiceStatus,
    SparkPayment, SparkPaymentStatus, SparkSearch,
};

/// How long the wallet may take over an answer.
const DEADLINE: Duration = Duration::from_secs(30);
/// Largest answer.
const ANSWER_BYTES: u64 = 1 << 20;
/// Of its own words, no more than this is passed on.
const WORDS: usize = 160;

/// A client of such a wallet.
#[derive(Debug)]
pub struct SparkRemote {
    agent: ureq::Agent,
    /// Without a slash at the end.
    base: String,
}

#[derive(Deserialize)]
struct SparkRefusal {
    error: String,
    #[serde(default)]
    detail: String,
}

impl SparkRemote {
    /// A client; nothing is sent yet.
    pub fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(DEADLINE))
            .http_status_as_error(false)
            // What is to be paid goes to the address that was configured, and nowhere else.
            .max_redirects(0)
            // A kept connection that the other end has closed would look like an answer that was
            // lost.
            .max_idle_connections(0)
            .proxy(None);
        Self { agent: config.build().new_agent(), base: url.trim_end_matches('/').to_owned() }
    }

    fn ask<T: DeserializeOwned>(&self, question: &str, body: &Value) -> Result<T, SparkFault> {
        let sent = self.agent.post(format!("{}/{question}", self.base)).send_json(body);
        let unclear = |error: ureq::Error| SparkFault::Unknown(short(&error.to_string()));
        let mut answer = sent.map_err(unclear)?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES).read_to_vec();
        let body = body.map_err(unclear)?;
        if answer.status() == 200 {
            return serde_json::from_slice(&body)
                .map_err(|_| SparkFault::Unknown(format!("{question}: not the JSON expected")));
        }
        Err(refused(answer.status().as_u16(), &body))
    }
}

fn refused(status: u16, body: &[u8]) -> SparkFault {
    let said: Option<SparkRefusal> = serde_json::from_slice(body).ok();
    match said.as_ref().map(|said| (said.error.as_str(), said)) {
        Some(("insufficient_balance", _)) => SparkFault::InsufficientBalance,
        Some(("already_paid", _)) => SparkFault::AlreadyPaid,
        Some(("fee_too_high", _)) => SparkFault::FeeTooHigh,
        Some(("rejected", said)) => SparkFault::Rejected(short(&said.detail)),
        // A bare status may come after the payment was made, or from something in between.
        Some(_) | None => SparkFault::Unknown(format!("HTTP {status}")),
    }
}

fn short(words: &str) -> String {
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS).collect()
}

impl SparkBackend for SparkRemote {
    fn info(&self) -> Result<SparkInfo, SparkFault> {
        self.ask("info", &json!({}))
    }

    fn quote_send(&self, invoice: &str, amount: Option<u64>) -> Result<SparkEstimate, SparkFault> {
        self.ask("quote_send", &json!({ "invoice": invoice, "amount": amount }))
    }

    fn send(&self, payment: &SparkPayment) -> Result<SparkPaymentStatus, SparkFault> {
        self.ask("send", &json!(payment))
    }

    fn send_status(&self, request_id: &str) -> Result<Option<SparkPaymentStatus>, SparkFault> {
        self.ask("send_status", &json!({ "request_id": request_id }))
    }

    fn find_send(&self, search: &SparkSearch) -> Result<Option<SparkPaymentStatus>, SparkFault> {
        self.ask("find_send", &json!(search))
    }

    fn create_invoice(
        &self,
        amount: u64,
        memo: Option<&str>,
        expiry: Option<u64>,
    ) -> Result<SparkInvoice, SparkFault> {
        let wanted = json!({ "amount": amount, "memo": memo, "expiry": expiry });
        self.ask("create_invoice", &wanted)
    }

    fn receive_status(&self, request_id: &str) -> Result<Option<SparkInvoiceStatus>, SparkFault> {
        self.ask("receive_status", &json!({ "request_id": request_id }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_refusals_say_that_nothing_was_paid() {
        let said = |name: &str| refused(400, format!(r#"{{"error":"{name}"}}"#).as_bytes());
        assert_eq!(said("insufficient_balance"), SparkFault::InsufficientBalance);
        assert_eq!(said("already_paid"), SparkFault::AlreadyPaid);
        assert_eq!(said("fee_too_high"), SparkFault::FeeTooHigh);
        assert_eq!(said("rejected"), SparkFault::Rejected(String::new()));
        for unclear in ["", "<html>", r#"{"error":"out_of_paper"}"#, r#"{"error":1}"#] {
            assert!(matches!(refused(500, unclear.as_bytes()), SparkFault::Unknown(_)));
        }
    }
}
