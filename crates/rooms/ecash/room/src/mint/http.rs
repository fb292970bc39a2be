//! One request to a mint.

// Not cdk's connector, though it is made for this: its errors drop the HTTP status and every code
// that it doesn't know, which decide here between waiting, asking and giving money back. The types
// of requests and answers are `cashu`'s.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use unspent_engine::outgoing::Guarded;
use unspent_source::wakeup::lock;
use ureq::{
    Agent,
    http::{HeaderMap, Response},
    unversioned::transport::DefaultConnector,
};

use super::{
    MintOptions, PERMISSION,
    fault::{NoResult, harmless},
};
use crate::watch::pace::QuietPeriod;

/// Idle connections are closed before mints close them, which would look like a lost answer.
const IDLE: Duration = Duration::from_secs(2);
/// "Too many requests".
const TOO_MANY: u16 = 429;
/// A mint that asks for a longer pause gets this one.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// The way to one mint.
pub(super) struct Http {
    agent: Agent,
    /// Without a slash at the end.
    base: String,
    options: MintOptions,
    /// The mint may have asked us to slow down. Until then nothing is sent to it.
    quiet: Mutex<QuietPeriod>,
}

/// An error as the protocol words it. Some mints leave the code out, or say it as text.
#[derive(Deserialize)]
struct ErrorBody {
    code: Option<serde_json::Value>,
    detail: Option<serde_json::Value>,
    error: Option<serde_json::Value>,
}

impl Http {
    pub(super) fn new(base: String, options: MintOptions) -> Self {
        let config = Agent::config_builder()
            .timeout_connect(Some(options.connect_deadline))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_age(IDLE)
            .user_agent(concat!("unspent/", env!("CARGO_PKG_VERSION")))
            .proxy(None)
            .build();
        let resolver = Guarded::new(options.allow_private, PERMISSION);
        let agent = Agent::with_parts(config, DefaultConnector::default(), resolver);
        Self { agent, base, options, quiet: Mutex::default() }
    }

    /// So long the mint wants to be left alone.
    pub(super) fn quiet_for(&self) -> Duration {
        lock(&self.quiet).left(Instant::now())
    }

    /// What the mint would say to any request now.
    fn not_now(&self) -> Result<(), NoResult> {
        let left = Some(self.quiet_for()).filter(|left| !left.is_zero());
        let refusal = |left| NoResult::Status { status: TOO_MANY, retry_after: Some(left) };
        left.map_or(Ok(()), |left| Err(refusal(left)))
    }

    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, NoResult> {
        self.get_within(path, self.options.read_deadline)
    }

    /// A question with a deadline of its own.
    pub(super) fn get_within<T: DeserializeOwned>(
        &self,
        path: &str,
        deadline: Duration,
    ) -> Result<T, NoResult> {
        self.not_now()?;
        let request = self.agent.get(format!("{}{path}", self.base)).config();
        let request = request.timeout_global(Some(deadline)).build();
        self.settle(request.call())
    }

    /// A demand with a deadline of its own: a payment takes longer than a question.
    pub(super) fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        deadline: Duration,
    ) -> Result<T, NoResult> {
        self.not_now()?;
        // Nothing was sent: the request itself is wrong, which is our fault and never a mint's.
        let body = serde_json::to_vec(body)
            .map_err(|_| NoResult::malformed("the request can't be written"))?;
        let request = self.agent.post(format!("{}{path}", self.base)).config();
        let request = request.timeout_global(Some(deadline)).build();
        self.settle(request.header("content-type", "application/json").send(&body))
    }

    pub(super) fn options(&self) -> &MintOptions {
        &self.options
    }

    fn settle<T: DeserializeOwned>(
        &self,
        sent: Result<Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, NoResult> {
        let mut answer = sent.map_err(|error| no_answer(&error))?;
        let status = answer.status().as_u16();
        if status == TOO_MANY {
            lock(&self.quiet).asked_for(pause(answer.headers()), Instant::now());
        }
        let limit = self.options.answer_bytes;
        let body = answer.body_mut().with_config().limit(limit).read_to_vec();
        let body = match body {
            Ok(body) => body,
            Err(ureq::Error::BodyExceedsLimit(_)) => {
                return Err(NoResult::malformed(format!("more than {limit} bytes")));
            }
            Err(error) => return Err(no_answer(&error)),
        };
        if status == 200 {
            return serde_json::from_slice(&body).map_err(|error| {
                // Its message may quote the answer.
                let (kind, at) = (error.classify(), error.column());
                NoResult::malformed(format!("{kind:?} error at byte {at}"))
            });
        }
        Err(refusal(status, answer.headers(), &body))
    }
}

fn no_answer(error: &ureq::Error) -> NoResult {
    NoResult::NoAnswer { reason: harmless(&error.to_string()) }
}

fn refusal(status: u16, headers: &HeaderMap, body: &[u8]) -> NoResult {
    let said: Option<ErrorBody> = serde_json::from_slice(body).ok();
    let code = said.as_ref().and_then(|said| number(said.code.as_ref()?));
    match (code, said) {
        (Some(code), Some(said)) => {
            let words = said.detail.or(said.error);
            let words = words.as_ref().and_then(|words| words.as_str()).unwrap_or("no words");
            NoResult::Code { status, code, detail: harmless(words) }
        }
        _ => NoResult::Status { status, retry_after: pause(headers) },
    }
}

fn number(code: &serde_json::Value) -> Option<u16> {
    let number = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
    u16::try_from(number).ok()
}

/// The pause that an answer asks for, in seconds. The other form, a date, isn't read.
fn pause(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_read_in_every_form_that_mints_use() {
        let read = |status, body: &str| refusal(status, &HeaderMap::new(), body.as_bytes());
        let code =
            |status, code, detail: &str| NoResult::Code { status, code, detail: detail.to_owned() };
        assert_eq!(read(400, r#"{"detail":"spent","code":11001}"#), code(400, 11_001, "spent"));
        assert_eq!(read(400, r#"{"error":"spent","code":"11001"}"#), code(400, 11_001, "spent"));
        assert_eq!(read(400, r#"{"code":0,"detail":{"a":1}}"#), code(400, 0, "no words"));
        let bare = NoResult::Status { status: 502, retry_after: None };
        for body in ["", "<html>", "[]", r#"{"detail":"x"}"#, r#"{"code":-1}"#, r#"{"code":1e9}"#] {
            assert_eq!(read(502, body), bare, "{body}");
        }
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "7".parse().unwrap());
        assert_eq!(pause(&headers), Some(Duration::from_secs(7)));
        headers.insert("retry-after", "99999999".parse().unwrap());
        assert_eq!(pause(&headers), Some(LONGEST_PAUSE));
        headers.insert("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT".parse().unwrap());
        assert_eq!(pause(&headers), None);
    }
}
