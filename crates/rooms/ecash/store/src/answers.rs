//! Answers to requests as others may keep them: sealed with the room's key.
//!
//! Whoever serves the room remembers its answers for a while, in a place of its own and for all
//! rooms alike. An answer shows invoices and quote ids, which this database holds sealed.

use crate::{error::EcashError, store::EcashStore};

/// What JSON begins with. A sealed value begins with its format's number.
const JSON: [u8; 2] = [b'{', b'['];

fn purpose(request: &str) -> String {
    format!("answer:{request}")
}

impl EcashStore {
    /// Seals the answer to a request.
    ///
    /// # Errors
    ///
    /// [`EcashError::NoRandomness`].
    pub fn seal_answer(&self, request: &str, answer: &[u8]) -> Result<Vec<u8>, EcashError> {
        self.sealer.seal(&purpose(request), answer)
    }

    /// The answer that was sealed for that request.
    ///
    /// # Errors
    ///
    /// [`EcashError::Corrupt`] for another request's answer, or one sealed with another key.
    pub fn open_answer(&self, request: &str, kept: Vec<u8>) -> Result<Vec<u8>, EcashError> {
        // Older versions kept answers as they were, for a day.
        if kept.first().is_some_and(|first| JSON.contains(first)) {
            return Ok(kept);
        }
        Ok(self.sealer.open(&purpose(request), &kept)?.to_vec())
    }
}
