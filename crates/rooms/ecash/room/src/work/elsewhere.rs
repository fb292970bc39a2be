//! Accounts that change: another name, another address of their mint, their end.
//!
//! | a mint at another address must | shown by |
//! |---|---|
//! | list every keyset of the account | ids, which follow from the keys (NUT-02) |
//! | have signed our proofs | outputs of ours restored there, with DLEQ proofs, that are proofs we hold (NUT-09) |
//! | know what became of them | none of our free proofs is spent there (NUT-07) |
//!
//! No money is sent there for a proof: a swap would give it to whoever asks.

use std::collections::BTreeMap;

use cashu::{CheckStateRequest, MintUrl, PublicKey, State};
use unspent_ecash::{
    EcashAccount, OutputRange, PageRequest, ProofLine,
    flow::{ScanOutputs, scan::SCAN_BATCH},
    proof_name,
};
use unspent_model::ecash::ProofState;

use super::{EcashWorkError, book::KnownMint, executor::PaymentExecutor, now};
use crate::mint::check::{MintBlocklist, unit_of};

/// Free proofs that are asked about at a time.
const PROOFS: u32 = 200;
/// Proofs whose own outputs are looked for.
const SOME: usize = 5;
/// Batches of outputs in which a signature is looked for, the newest first.
const MOST_BATCHES: u32 = 20;

impl PaymentExecutor {
    /// Gives an account another name.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`]; nothing is changed.
    pub fn rename_account(&self, id: &str, name: &str) -> Result<EcashAccount, EcashWorkError> {
        check_name(name)?;
        Ok(self.store.rename_account(id, name)?)
    }

    /// Removes an account that holds nothing and of which nothing is expected.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`] with what it holds; nothing is changed.
    pub fn remove_account(
        &self,
        id: &str,
        late_payment_grace: std::time::Duration,
    ) -> Result<(), EcashWorkError> {
        let now = now();
        Ok(self.store.remove_account(id, now.earlier(late_payment_grace), now)?)
    }

    /// Writes down that an account's mint is at another address, once the mint there has shown that
    /// it is the same.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`]; nothing is changed.
    pub fn move_account(
        &self,
        id: &str,
        mint: &str,
        blocklist: &MintBlocklist,
    ) -> Result<EcashAccount, EcashWorkError> {
        let account = self.store.account(id)?;
        if account.mint_url.is_none() {
            return Err(EcashWorkError::Wrong("the Spark wallet has no mint".into()));
        }
        let unit = unit_of(&account.unit);
        let (fit, known) = self.meet(mint, &unit, blocklist)?;
        if account.mint_url.as_ref() == Some(&fit.url) {
            return Ok(account);
        }
        let infos = known.infos();
        for (keyset, _) in self.store.keysets(id)? {
            if !infos.iter().any(|info| info.keyset_id == keyset.keyset_id) {
                let lacks = format!("the mint there doesn't list keyset {}", keyset.keyset_id);
                return Err(EcashWorkError::Wrong(lacks));
            }
        }
        let _place = self.place(&fit.url)?;
        self.is_same_mint(&account, &fit.url)?;
        Ok(self.store.move_account(id, &fit.url, infos)?)
    }

    fn is_same_mint(&self, account: &EcashAccount, url: &MintUrl) -> Result<(), EcashWorkError> {
        let mut by_keyset: BTreeMap<String, Vec<ProofLine>> = BTreeMap::new();
        for state in [ProofState::Unspent, ProofState::Reserved] {
            let mut after: Option<String> = None;
            loop {
                let page = PageRequest { after: after.as_deref(), limit: PROOFS };
                let found = self.store.proofs(&account.id, state, page)?;
                let Some(last) = found.last() else { break };
                after = Some(last.y.clone());
                // A token that is out may be claimed by now; its proofs were signed all the same.
                if state == ProofState::Unspent {
                    self.are_unspent(url, &found)?;
                }
                for proof in found {
                    by_keyset.entry(proof.keyset_id.clone()).or_default().push(proof);
                }
            }
        }
        let needed: Vec<&str> = by_keyset.keys().map(String::as_str).collect();
        let failed = |reason| EcashWorkError::Mint { mint: url.to_string(), reason };
        let unit = unit_of(&account.unit);
        let (known, _) = self.backends.mints.mint_with(url, &unit, &needed).map_err(failed)?;
        let counters: BTreeMap<_, _> = self.store.counters()?.into_iter().collect();
        for (keyset, proofs) in &by_keyset {
            let counter = counters.get(keyset).copied().unwrap_or_default();
            self.has_signed(url, &known, (keyset, counter), proofs)?;
        }
        Ok(())
    }

    fn are_unspent(&self, url: &MintUrl, free: &[ProofLine]) -> Result<(), EcashWorkError> {
        let failed = |reason| EcashWorkError::Mint { mint: url.to_string(), reason };
        let ys = free.iter().filter_map(|proof| PublicKey::from_hex(&proof.y).ok()).collect();
        let client = self.backends.mints.client(url);
        let states = client.check_states(&CheckStateRequest { ys }).map_err(failed)?.states;
        if states.iter().all(|state| state.state == State::Unspent) {
            return Ok(());
        }
        let why = "the mint there calls proofs of the account spent; it may be an older copy of it";
        Err(EcashWorkError::Wrong(why.into()))
    }

    /// Where the outputs of some proofs begin, by the payments that brought them.
    fn starts_of(&self, keyset: &str, proofs: &[ProofLine]) -> Vec<u32> {
        let brought = proofs.iter().take(SOME).map(|proof| self.store.entity(&proof.added_by));
        // A scan brings proofs too; those are looked for by their counters.
        let ranges = brought.filter_map(Result::ok).flat_map(|entity| {
            entity.details.ranges().into_iter().cloned().collect::<Vec<OutputRange>>()
        });
        ranges.filter(|range| range.keyset_id == keyset).map(|range| range.start).collect()
    }

    /// Whether the mint gives back a signature that makes one of our proofs.
    fn has_signed(
        &self,
        url: &MintUrl,
        known: &KnownMint,
        (keyset, counter): (&str, u32),
        proofs: &[ProofLine],
    ) -> Result<(), EcashWorkError> {
        let failed = |reason| EcashWorkError::Mint { mint: url.to_string(), reason };
        let client = self.backends.mints.client(url);
        // The first batch begins at 0 again where fewer counters were used.
        let newest = (0..MOST_BATCHES).map(|at| counter.saturating_sub((at + 1) * SCAN_BATCH));
        let mut starts = self.starts_of(keyset, proofs);
        starts.extend(newest);
        starts.dedup();
        for start in starts {
            let outputs = ScanOutputs::of(self.store.seed(), keyset, start)?;
            let answer = client.restore(&outputs.request()).map_err(failed)?;
            for found in outputs.found(&answer, &known.keys.keys).unwrap_or_default() {
                let name = hex::encode(proof_name(&found.proof)?);
                if proofs.iter().any(|proof| proof.y == name) {
                    return Ok(());
                }
            }
        }
        let why = format!("the mint there gives back no signature of ours on keyset {keyset}");
        Err(EcashWorkError::Wrong(why))
    }
}

/// What an account may be called.
pub(crate) fn check_name(name: &str) -> Result<(), EcashWorkError> {
    let is_fit = !name.is_empty() && name.len() <= 100;
    let wrong = || EcashWorkError::Wrong("a name has 1 to 100 letters".into());
    is_fit.then_some(()).ok_or_else(wrong)
}
