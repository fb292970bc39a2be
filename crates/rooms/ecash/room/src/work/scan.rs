//! Scans: what a mint has signed for another copy of this database comes into the account.

use cashu::{CheckStateRequest, PublicKey, State};
use unspent_ecash::{
    DueScan, EcashAccount, EcashError, PageRequest, ProofName, ScannedBatch,
    flow::{
        FlowAnswer, FlowRequest, KeyRing, ScanOutputs,
        scan::{SCAN_GAP, ask_found, with_word},
    },
};

use unspent_model::ecash::ProofState;

use super::{
    EcashWorkError,
    executor::{PaymentExecutor, PaymentStanding},
    now,
    payments::new_id,
};

/// Proofs that a mint is asked about at a time.
const PROOFS: u32 = 500;
/// Batches of one turn.
const MOST_BATCHES: usize = 200;
const UNVERIFIED: &str = "a signature that the mint gives back doesn't verify";
const UNDER_WAY: &str = "proofs that were found are under way at the mint";
const UNASKED: &str = "the mint answered something else than it was asked";

impl PaymentExecutor {
    /// Goes on with all scans of an account, as far as it gets now.
    pub(super) fn scan_now(&self, account: &str, goes_on: &dyn Fn() -> bool) {
        let due = self.store.due_scans().unwrap_or_default().into_iter();
        for due in due.filter(|due| due.account_id == account) {
            // What stays due is tried again by the worker.
            if let Err(error) = self.scan(&due, goes_on) {
                tracing::warn!(account, keyset = due.keyset_id, %error, "a scan has to wait");
            }
        }
    }

    /// Asks a mint for the outputs of a keyset from a counter on, until enough in a row were never
    /// signed.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`]; the scan goes on from its last batch another time.
    pub(super) fn scan(
        &self,
        due: &DueScan,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<PaymentStanding, EcashWorkError> {
        let account = self.store.account(&due.account_id)?;
        let Some(url) = account.mint_url.clone() else { return Ok(PaymentStanding::Over) };
        let keys = self.known_with(&url, &account, &[due.keyset_id.as_str()])?.keys;
        let is_listed = due.keyset_id.parse().is_ok_and(|id| keys.keys.contains_key(&id));
        if !is_listed {
            // Without its keys nothing verifies, and all would seem unsigned.
            self.backends.mints.forget(&url);
            return Ok(PaymentStanding::Unclear("the mint doesn't list the keyset now".into()));
        }
        if let Some(why) = self.lose_spent(&account, &url)? {
            return Ok(PaymentStanding::Unclear(why));
        }
        let (scan_id, mut due) = (new_id()?, due.clone());
        // Beyond the counters that are known to be used.
        let mut silent_from = due.counter.max(due.from);
        // A mint that signs whatever it is asked for would be scanned for ever.
        for _ in 0..MOST_BATCHES {
            if !goes_on() {
                return Ok(PaymentStanding::Unclear("the work on it was stopped".into()));
            }
            let outputs = ScanOutputs::of(self.store.seed(), &due.keyset_id, due.from)?;
            let found = match self.signed(&url, &outputs, &keys.keys)? {
                Ok(found) => found,
                Err(why) => return Ok(PaymentStanding::Unclear(why)),
            };
            // Counters end at 2^31, long before numbers do.
            let last = found.iter().map(|found| found.counter.saturating_add(1)).max();
            silent_from = silent_from.max(last.unwrap_or_default());
            let end = outputs.end();
            let is_last = end.checked_sub(silent_from).is_some_and(|gap| gap >= SCAN_GAP);
            let found_some = !found.is_empty();
            let batch = ScannedBatch { scan_id: scan_id.clone(), end, found, is_last };
            self.store.keep_scanned(&due, batch, now())?;
            if found_some {
                tracing::info!(
                    account = account.name,
                    keyset = due.keyset_id,
                    from = due.from,
                    "the mint has signed outputs for another copy of this database"
                );
            }
            if is_last {
                return Ok(PaymentStanding::Over);
            }
            due.from = end;
        }
        Ok(PaymentStanding::Unclear("the scan goes on later".into()))
    }

    /// What another copy has spent isn't money any more: what it got for that is found by the scan.
    /// Says why the mint doesn't tell, if it doesn't.
    fn lose_spent(
        &self,
        account: &EcashAccount,
        url: &cashu::MintUrl,
    ) -> Result<Option<String>, EcashWorkError> {
        let mut after: Option<String> = None;
        loop {
            let page = PageRequest { after: after.as_deref(), limit: PROOFS };
            let free = self.store.proofs(&account.id, ProofState::Unspent, page)?;
            let Some(last) = free.last() else { return Ok(None) };
            after = Some(last.y.clone());
            let bad = |_| EcashError::Corrupt("a proof's name is no point".into());
            let ys = free.iter().map(|proof| PublicKey::from_hex(&proof.y).map_err(bad));
            let request = CheckStateRequest { ys: ys.collect::<Result<_, _>>()? };
            let states = match self.backends.mints.client(url).check_states(&request) {
                Ok(answer) => answer.states,
                Err(no_result) => return Ok(Some(no_result.fault().to_string())),
            };
            let spent = states.iter().filter(|found| found.state == State::Spent);
            let names: Vec<ProofName> = spent.map(|found| found.y.to_bytes()).collect();
            if !names.is_empty() {
                self.store.lose_spent(&account.id, names, now())?;
            }
        }
    }

    /// What the mint has signed of some outputs, and whether it is spent; or why it doesn't say.
    fn signed(
        &self,
        url: &cashu::MintUrl,
        outputs: &ScanOutputs,
        keys: &KeyRing,
    ) -> Result<Result<Vec<unspent_ecash::flow::FoundProof>, String>, EcashError> {
        let (mint, request) = (url.clone(), outputs.request());
        let found = match self.backends.ask(&FlowRequest::Restore { mint, request }) {
            FlowAnswer::Restored(answer) => match outputs.found(&answer, keys) {
                Some(found) => found,
                None => return Ok(Err(UNVERIFIED.to_owned())),
            },
            FlowAnswer::Fault(fault) => return Ok(Err(fault.to_string())),
            FlowAnswer::Melt(_)
            | FlowAnswer::MintQuote(_)
            | FlowAnswer::Signatures(_)
            | FlowAnswer::States(_)
            | FlowAnswer::Spark(_) => return Ok(Err(UNASKED.to_owned())),
        };
        if found.is_empty() {
            return Ok(Ok(found));
        }
        let (mint, request) = (url.clone(), ask_found(&found)?);
        Ok(match self.backends.ask(&FlowRequest::CheckState { mint, request }) {
            FlowAnswer::States(states) => {
                with_word(found, &states).ok_or_else(|| UNDER_WAY.to_owned())
            }
            FlowAnswer::Fault(fault) => Err(fault.to_string()),
            FlowAnswer::Melt(_)
            | FlowAnswer::MintQuote(_)
            | FlowAnswer::Signatures(_)
            | FlowAnswer::Restored(_)
            | FlowAnswer::Spark(_) => Err(UNASKED.to_owned()),
        })
    }
}
