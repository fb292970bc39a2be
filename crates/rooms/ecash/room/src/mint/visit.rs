//! What a mint says of itself and its keys, all of it within one deadline: a mint that takes its
//! time over each answer doesn't hold up whoever wants an account.

use std::time::{Duration, Instant};

use cashu::{Id, KeySet, KeysResponse, KeysetResponse, MintInfo};

use super::{MintClient, NoResult, genuine};

/// Questions to one mint that end together.
pub struct MintVisit<'c> {
    client: &'c MintClient,
    until: Instant,
}

impl MintClient {
    /// Begins a visit, which ends after [`super::MintOptions::visit_deadline`].
    pub fn visit(&self) -> MintVisit<'_> {
        let now = Instant::now();
        // A deadline beyond the end of time is none; each answer still has its own.
        let until = now.checked_add(self.http.options().visit_deadline).unwrap_or(now);
        MintVisit { client: self, until }
    }
}

impl MintVisit<'_> {
    /// Whose client it is.
    pub fn client(&self) -> &MintClient {
        self.client
    }

    /// What the mint says of itself (NUT-06).
    ///
    /// # Errors
    ///
    /// [`NoResult`], as with every call here; also when the visit is over.
    pub fn info(&self) -> Result<MintInfo, NoResult> {
        self.get("/v1/info")
    }

    /// All keysets without their keys (NUT-02).
    ///
    /// # Errors
    ///
    /// [`NoResult`].
    pub fn keysets(&self) -> Result<KeysetResponse, NoResult> {
        self.get("/v1/keysets")
    }

    /// The active keysets with their keys (NUT-01), of those whose id follows from the keys.
    ///
    /// # Errors
    ///
    /// [`NoResult`].
    pub fn active_keys(&self) -> Result<Vec<KeySet>, NoResult> {
        let mut answer: KeysResponse = self.get("/v1/keys")?;
        answer.keysets.retain(|keyset| keyset.verify_id().is_ok());
        Ok(answer.keysets)
    }

    /// One keyset with its keys, as [`MintClient::keys`].
    ///
    /// # Errors
    ///
    /// [`NoResult`].
    pub fn keys(&self, id: Id) -> Result<KeySet, NoResult> {
        genuine(self.get(&format!("/v1/keys/{id}"))?, id)
    }

    fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, NoResult> {
        let options = self.client.http.options();
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let all = options.visit_deadline;
            return Err(NoResult::NoAnswer { reason: format!("{} over all answers", told(all)) });
        }
        self.client.http.get_within(path, left.min(options.read_deadline))
    }
}

fn told(deadline: Duration) -> String {
    format!("more than {} s", deadline.as_secs_f32())
}
