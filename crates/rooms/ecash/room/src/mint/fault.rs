//! Why a mint gave no result, in words that hold no secret, and what follows for money.
//!
//! | came | is |
//! |---|---|
//! | nothing, or something that can't be read | unknown: the mint may have done its work before |
//! | an inner error (5xx), with a code or without | unknown: a code tells of one step, not of all |
//! | 429, with a code or without | the mint asks us to slow down |
//! | a code of the protocol | what the code means |
//! | 413, 422 without a code | such a request isn't taken: fewer inputs may do |
//! | any other status | unknown: whatever stands before the mint may have passed the request on |

use std::time::Duration;

use unspent_ecash::flow::MintFault;

/// Of a mint's own words, no more than this is passed on.
const WORDS: usize = 160;
/// A word of this length may be a secret, a token or a key: a mint that echoes one into its error
/// must not bring it into our logs.
const LONGEST_WORD: usize = 20;

/// "Content too large".
const TOO_LARGE: u16 = 413;
/// "Unprocessable": the mint's list of limits refuses the request before anything is done.
const UNREADABLE: u16 = 422;

/// Why a mint gave no result. What holds at the mint afterwards is what [`NoResult::fault`] says.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoResult {
    /// Nothing came back.
    #[error("no answer: {reason}")]
    NoAnswer {
        /// Why.
        reason: String,
    },
    /// An error with the code of the protocol.
    #[error("error {code}: {detail}")]
    Code {
        /// HTTP's status.
        status: u16,
        /// The protocol's code.
        code: u16,
        /// The mint's words, shortened.
        detail: String,
    },
    /// An error without such a code.
    #[error("HTTP {status}")]
    Status {
        /// HTTP's status.
        status: u16,
        /// How long to wait, when the mint says so.
        retry_after: Option<Duration>,
    },
    /// An answer that isn't what the protocol says.
    #[error("an answer that can't be read: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
}

impl NoResult {
    /// What follows from it.
    pub fn fault(&self) -> MintFault {
        if self.is_too_many() {
            return MintFault::RateLimited;
        }
        match self {
            Self::Code { status: ..500, code, detail } => {
                MintFault::from_code(u32::from(*code), detail)
            }
            Self::Status { status: TOO_LARGE | UNREADABLE, .. } => {
                MintFault::Unfit(self.to_string())
            }
            Self::Code { .. }
            | Self::NoAnswer { .. }
            | Self::Status { .. }
            | Self::Malformed { .. } => MintFault::Unknown(self.to_string()),
        }
    }

    /// The protocol's code, if it has one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Code { code, .. } => Some(*code),
            Self::NoAnswer { .. } | Self::Status { .. } | Self::Malformed { .. } => None,
        }
    }

    /// The mint has answered, and says no; no inner error of it.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Code { status: 400..500, .. }) && !self.is_too_many()
    }

    /// The mint wants fewer requests.
    pub fn is_too_many(&self) -> bool {
        matches!(self, Self::Code { status: 429, .. } | Self::Status { status: 429, .. })
    }

    pub(super) fn malformed(reason: impl Into<String>) -> Self {
        Self::Malformed { reason: reason.into() }
    }
}

/// Somebody else's words: on one line, not too many, and without what may be a secret.
pub(super) fn harmless(words: &str) -> String {
    let clean = words.chars().map(|c| if c.is_control() { ' ' } else { c });
    // Cut before it is taken apart: a mint says as much as it likes.
    let clean: String = clean.take(WORDS * 4).collect();
    let parts = clean.split_whitespace().map(|word| {
        let longest = word.split(|c: char| !c.is_alphanumeric()).map(str::len).max();
        if longest.unwrap_or(0) > LONGEST_WORD { "…" } else { word }
    });
    let text: String = parts.collect::<Vec<_>>().join(" ");
    text.chars().take(WORDS).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use unspent_ecash::flow::FaultClass;

    use super::*;

    #[test]
    fn words_of_a_mint_lose_what_may_be_a_secret() {
        let secret = "407915bc212be61a77e3e6d2aeb4c727980bda51cd06a6afc29e2861768a7837";
        let said = format!("(sqlite3.IntegrityError) UNIQUE failed\n[parameters: ('{secret}', 8)]");
        let kept = harmless(&said);
        assert!(!kept.contains(&secret[..21]), "{kept}");
        assert!(kept.starts_with("(sqlite3.IntegrityError) UNIQUE failed"), "{kept}");
        assert_eq!(harmless("melt quote is not unpaid: paid"), "melt quote is not unpaid: paid");
        assert!(harmless(&"no ".repeat(1_000)).chars().count() <= WORDS);
    }

    fn coded(status: u16, code: u16) -> MintFault {
        NoResult::Code { status, code, detail: "words".into() }.fault()
    }

    #[test]
    fn a_code_inside_an_inner_error_proves_nothing() {
        let refused = MintFault::Refused { code: 20_003, message: "words".into() };
        assert_eq!(coded(400, 20_003), refused);
        assert_eq!(coded(500, 20_003).class(), FaultClass::UnknownOutcome);
        assert_eq!(coded(429, 20_003), MintFault::RateLimited);
        for (status, class) in [
            (429, FaultClass::Transient),
            (400, FaultClass::UnknownOutcome),
            (404, FaultClass::UnknownOutcome),
            (422, FaultClass::UnknownOutcome),
            (503, FaultClass::UnknownOutcome),
        ] {
            let bare = NoResult::Status { status, retry_after: None };
            assert_eq!(bare.fault().class(), class, "{status}");
        }
    }

    /// The classes as the protocol's threads and two mints taught them.
    fn expected() -> BTreeMap<u16, FaultClass> {
        let lists: [(FaultClass, &[u16]); 6] = [
            (FaultClass::DoneAlready, &[11_003, 20_002]),
            (FaultClass::UnknownOutcome, &[11_001]),
            (FaultClass::Transient, &[11_002, 11_004, 20_001, 20_005]),
            (
                FaultClass::Definite,
                &[
                    10_001, 11_005, 11_006, 11_007, 11_008, 11_009, 11_010, 11_011, 11_012, 11_013,
                    11_014, 11_015, 11_016, 11_017, 20_003, 20_004, 20_006, 20_007, 20_009, 30_001,
                    30_002, 31_001, 31_002, 31_003, 31_004,
                ],
            ),
            (FaultClass::RefreshKeysets, &[12_001, 12_002, 12_003]),
            (FaultClass::LockFormat, &[20_008]),
        ];
        let pairs = lists.iter().flat_map(|(class, codes)| codes.iter().map(|c| (*c, *class)));
        pairs.collect()
    }

    #[test]
    fn every_code_of_the_protocol_has_the_class_it_should_have() {
        let Some(bytes) = unspent_testkit::data::bytes("cashu/error-codes.json") else { return };
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let mut found = BTreeMap::new();
        for entry in json["codes"].as_array().unwrap() {
            let code = u16::try_from(entry["code"].as_u64().unwrap()).unwrap();
            found.insert(code, coded(400, code).class());
        }
        assert_eq!(found, expected());
        for unheard in [0, 1, 11_000, 11_999, 50_000, u16::MAX] {
            assert_eq!(coded(400, unheard).class(), FaultClass::UnknownOutcome, "{unheard}");
        }
    }
}
