//! The client of a Cashu mint.
//!
//! | module | keeps |
//! |---|---|
//! | [`fault`] | why there is no result, without secrets, and what follows for money |
//! | [`check`] | whether a mint can be used at all |
//! | [`visit`] | what a mint says of itself and its keys, all of it within one deadline |
//! | `http` | one request: its deadline, the largest answer |
//!
//! Every call waits on the network: none is made while a database transaction is open. Nothing is
//! repeated here; what an answer means is decided by whoever keeps the payment.

pub mod check;
pub mod fault;
mod http;
pub mod visit;

use std::{fmt, time::Duration};

use cashu::{
    CheckStateRequest, CheckStateResponse, Id, KeySet, KeysResponse, KeysetResponse,
    MeltQuoteBolt11Request, MeltQuoteBolt11Response, MeltRequest, MintInfo, MintQuoteBolt11Request,
    MintQuoteBolt11Response, MintRequest, MintResponse, RestoreRequest, RestoreResponse,
    SwapRequest, SwapResponse, mint_url::MintUrl,
};

use self::http::Http;
pub use self::{fault::NoResult, visit::MintVisit};

/// The setting that allows mints on this machine and in private networks. A token names its mint,
/// so whoever gives us one chooses whom we call.
pub(super) const PERMISSION: &str = "ecash.allow_private";
/// A mint's name for a quote is a path of ours: this long at most, and of these letters only.
const QUOTE_BYTES: usize = 128;

/// Mints take lists of so many at least: Nutshell a thousand.
const STATES_AT_ONCE: usize = 500;

/// How long a mint may take and how much it may say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MintOptions {
    /// To pick up.
    pub connect_deadline: Duration,
    /// To answer a question.
    pub read_deadline: Duration,
    /// To say everything that is asked of a mint that is new: however many questions that takes.
    pub visit_deadline: Duration,
    /// To mint, swap or melt. A payment that takes longer goes on without us and is asked about.
    pub act_deadline: Duration,
    /// Largest answer: a keyset has about 5,000 bytes, and there can be many.
    pub answer_bytes: u64,
    /// Mints on this machine and in private networks may be called.
    pub allow_private: bool,
}

impl Default for MintOptions {
    fn default() -> Self {
        Self {
            connect_deadline: Duration::from_secs(5),
            read_deadline: Duration::from_secs(10),
            visit_deadline: Duration::from_secs(20),
            act_deadline: Duration::from_secs(30),
            answer_bytes: 8 << 20,
            allow_private: false,
        }
    }
}

/// A client of one mint.
pub struct MintClient {
    url: MintUrl,
    http: Http,
}

impl fmt::Debug for MintClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MintClient").field("url", &self.url).finish_non_exhaustive()
    }
}

impl MintClient {
    /// A client; nothing is sent yet.
    pub fn new(url: MintUrl, options: MintOptions) -> Self {
        let base = url.to_string().trim_end_matches('/').to_owned();
        Self { url, http: Http::new(base, options) }
    }

    /// Whose client it is.
    pub fn url(&self) -> &MintUrl {
        &self.url
    }

    /// So long the mint wants to be left alone; until then every call here is refused as the mint
    /// would refuse it, and nothing is sent.
    pub fn quiet_for(&self) -> Duration {
        self.http.quiet_for()
    }

    /// What the mint says of itself (NUT-06).
    ///
    /// # Errors
    ///
    /// [`NoResult`], as with every call here.
    pub fn info(&self) -> Result<MintInfo, NoResult> {
        self.http.get("/v1/info")
    }

    /// All keysets without their keys (NUT-02).
    ///
    /// # Errors
    ///
    /// [`NoResult`].
    pub fn keysets(&self) -> Result<KeysetResponse, NoResult> {
        self.http.get("/v1/keysets")
    }

    /// One keyset with its keys (NUT-01). Invariant: its id is the one that follows from the keys,
    /// so that a mint can't give different people different keys under one name.
    ///
    /// # Errors
    ///
    /// [`NoResult`].
    pub fn keys(&self, id: Id) -> Result<KeySet, NoResult> {
        genuine(self.http.get(&format!("/v1/keys/{id}"))?, id)
    }

    /// Asks for an invoice (NUT-04, NUT-23).
    ///
    /// # Errors
    ///
    /// [`NoResult`].
    pub fn mint_quote(
        &self,
        request: &MintQuoteBolt11Request,
    ) -> Result<MintQuoteBolt11Response<String>, NoResult> {
        self.http.post("/v1/mint/quote/bolt11", request, self.http.options().act_deadline)
    }

    /// Reads a mint quote.
    ///
    /// # Errors
    ///
    /// [`NoResult`].
    pub fn read_mint_quote(
        &self,
        quote: &str,
    ) -> Result<MintQuoteBolt11Response<String>, NoResult> {
        self.http.get(&format!("/v1/mint/quote/bolt11/{}", path_of(quote)?))
    }

    /// Has outputs signed for a paid quote.
    ///
    /// # Errors
    ///
    /// [`NoResult`].
    pub fn mint(&self, request: &MintRequest<String>) -> Result<MintResponse, NoResult> {
        self.act("/v1/mint/bolt11", request)
    }

    /// Asks what paying an invoice costs (NUT-05).
    ///
    /// # Errors
    ///
    /// [`NoResult`].
    pub fn melt_quote(
        &self,
        request: &MeltQuoteBolt11Request,
    ) -> Result<MeltQuoteBolt11Response<String>, NoResult> {
        self.http.post("/v1/melt/quote/bolt11", request, self.http.options().act_deadline)
    }

    /// Reads a melt quote, with its change once it is paid.
    ///
    /// # Errors
    ///
    /// [`NoResult`].
    pub fn read_melt_quote(
        &self,
        quote: &str,
    ) -> Result<MeltQuoteBolt11Response<String>, NoResult> {
        self.http.get(&format!("/v1/melt/quote/bolt11/{}", path_of(quote)?))
    }

    /// Has an invoice paid.
    ///
    /// # Errors
    ///
    /// [`NoResult`], which never means that it wasn't.
    pub fn melt(
        &self,
        request: &MeltRequest<String>,
    ) -> Result<MeltQuoteBolt11Response<String>, NoResult> {
        self.act("/v1/melt/bolt11", request)
    }

    /// Exchanges proofs for signatures (NUT-03).
    ///
    /// # Errors
    ///
    /// [`NoResult`].
    pub fn swap(&self, request: &SwapRequest) -> Result<SwapResponse, NoResult> {
        self.act("/v1/swap", request)
    }

    /// Asks whether proofs are spent (NUT-07).
    ///
    /// # Errors
    ///
    /// [`NoResult`]; an answer about other proofs than were asked about is one.
    pub fn check_states(
        &self,
        request: &CheckStateRequest,
    ) -> Result<CheckStateResponse, NoResult> {
        let deadline = self.http.options().read_deadline;
        let mut states = Vec::with_capacity(request.ys.len());
        for ys in request.ys.chunks(STATES_AT_ONCE) {
            let part = CheckStateRequest { ys: ys.to_vec() };
            let told: CheckStateResponse = self.http.post("/v1/checkstate", &part, deadline)?;
            states.extend(told.states);
        }
        let answer = CheckStateResponse { states };
        // A flow asks whether all of its proofs are unspent. Of others that would be true too
        // easily.
        let is_about_them = request.ys.iter().eq(answer.states.iter().map(|state| &state.y));
        is_about_them
            .then_some(answer)
            .ok_or_else(|| NoResult::malformed("states of other proofs than were asked about"))
    }

    /// Asks for signatures that the mint gave before (NUT-09).
    ///
    /// # Errors
    ///
    /// [`NoResult`]; outputs and signatures of different numbers are one.
    pub fn restore(&self, request: &RestoreRequest) -> Result<RestoreResponse, NoResult> {
        let deadline = self.http.options().read_deadline;
        let answer: RestoreResponse = self.http.post("/v1/restore", request, deadline)?;
        // Signatures are paired by their places: the longer list would lose its end without a
        // word.
        let is_paired = answer.outputs.len() == answer.signatures.len();
        is_paired
            .then_some(answer)
            .ok_or_else(|| NoResult::malformed("outputs and signatures don't pair up"))
    }

    fn act<B: serde::Serialize, T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, NoResult> {
        self.http.post(path, body, self.http.options().act_deadline)
    }
}

/// A keyset of an answer, whose id follows from its keys.
fn genuine(answer: KeysResponse, id: Id) -> Result<KeySet, NoResult> {
    let found = answer.keysets.into_iter().find(|keyset| keyset.id == id);
    let found = found.ok_or_else(|| NoResult::malformed("another keyset than asked for"))?;
    let is_genuine = found.verify_id().is_ok();
    is_genuine.then_some(found).ok_or_else(|| NoResult::malformed("keys under a false id"))
}

/// A quote's name as the end of a path, if it can be one.
fn path_of(quote: &str) -> Result<&str, NoResult> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_fit = !quote.is_empty() && quote.len() <= QUOTE_BYTES && quote.bytes().all(is_name);
    is_fit.then_some(quote).ok_or_else(|| NoResult::malformed("a quote with an impossible name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_can_lead_nowhere_else() {
        assert!(path_of("01JQ-abc_9").is_ok());
        for wrong in ["", "../keys", "a/b", "a?b=c", "a#b", "a b", "é", &"a".repeat(129)] {
            assert!(path_of(wrong).is_err(), "{wrong}");
        }
    }
}
