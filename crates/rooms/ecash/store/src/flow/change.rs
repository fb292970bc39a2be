//! What a melt left over: whether all of it is there, and what follows if it isn't.
//!
//! A mint owes at least what it was given beyond the amount, its fee for inputs and its reserve,
//! and what it says it gives (NUT-08). The rest of the reserve may be kept, so that no change at
//! all can be right; it can also be a restore that was asked too early, or a lie.
//!
//! | read | follows |
//! |---|---|
//! | all that is due | it is over |
//! | a part, or signatures that don't verify | what is good is taken, an alarm names the rest |
//! | signatures of a keyset that isn't loaded | keysets are loaded anew |
//! | nothing | it is asked for again |
//! | less than is due, after [`CHANGE_GRACE`] | it is over; the journal says what the mint kept |

use std::time::Duration;

use cashu::{BlindSignature, RestoreResponse};
use unspent_model::ecash::EntityEvent;

use super::{
    FlowContext, MintKeys,
    outputs::{ChangeReading, RangeOutputs},
};
use crate::{
    details::{ChangeBounds, OwedChange},
    event::{FreshProof, PaymentEvent},
};

/// So long after a payment change that doesn't come is asked for.
pub const CHANGE_GRACE: Duration = Duration::from_secs(24 * 3_600);

/// What follows from a reading of change.
#[derive(Debug)]
pub(super) enum ChangeTurn {
    /// All of it is there, with these.
    Settled(ChangeParts),
    /// These came; others may.
    Take(ChangeParts),
    /// So much is missing though it is due, which nobody was told yet.
    Miss(u64),
    /// Nothing more is waited for; the mint kept so much.
    GiveUp(u64),
    /// Keysets have to be loaded.
    Keysets,
    /// It is asked for again.
    Wait(String),
}

/// Proofs of change, with the places of their outputs.
pub(super) type ChangeParts = Vec<(u32, cashu::Proof)>;

/// What is known of change before it is read.
pub(super) struct ChangeAsk<'c> {
    pub(super) context: &'c FlowContext,
    pub(super) outputs: RangeOutputs,
    pub(super) keys: &'c MintKeys,
    pub(super) bounds: ChangeBounds,
    /// What came before; `None` until the payment is stored as paid.
    pub(super) owed: Option<&'c OwedChange>,
}

impl ChangeAsk<'_> {
    /// Reads what came with the quote, and what a restore found where one was asked.
    pub(super) fn read(
        &self,
        signed: Option<&[BlindSignature]>,
        found: Option<&RestoreResponse>,
    ) -> ChangeTurn {
        let keys = &self.keys.keys;
        let reading = self.outputs.change(signed.unwrap_or_default(), found, keys);
        self.judge(reading)
    }

    fn judge(&self, reading: ChangeReading) -> ChangeTurn {
        let ChangeReading { mut good, claimed, is_of_unknown_keyset } = reading;
        if let Some(owed) = self.owed {
            good.retain(|(place, _)| !owed.taken.contains(place));
        }
        // Beyond 2^64 it is more than any due.
        let worth = |sum: u64, part: &(u32, cashu::Proof)| sum.saturating_add(part.1.amount.into());
        let before = self.owed.map_or(0, |owed| owed.came);
        let there = good.iter().fold(before, worth);
        let ChangeBounds { least, most } = self.bounds;
        let due = least.max(claimed.min(most));
        if there >= due && (there > 0 || most == 0) {
            return ChangeTurn::Settled(good);
        }
        // More than is due is no debt, and more than all of it nothing that was kept.
        let (missing, kept) = (due.saturating_sub(there), most.saturating_sub(there));
        // First what came, in a step of its own: whatever follows, it is money.
        if !good.is_empty() || self.owed.is_none() {
            return ChangeTurn::Take(good);
        }
        let is_told = self.context.open.entity.alarm;
        if self.is_late() {
            let told = is_told || missing == 0;
            return if told { ChangeTurn::GiveUp(kept) } else { ChangeTurn::Miss(missing) };
        }
        if is_of_unknown_keyset {
            return ChangeTurn::Keysets;
        }
        // That nothing is there at all may be an answer that came too early.
        let is_empty = there == 0 && claimed == 0;
        if is_empty || is_told {
            return ChangeTurn::Wait("change of the payment may still come".into());
        }
        ChangeTurn::Miss(missing)
    }

    fn is_late(&self) -> bool {
        let now = self.context.environment.now;
        self.owed.is_some_and(|owed| now >= owed.since().later(CHANGE_GRACE))
    }

    /// Words for a sum that is missing.
    pub(super) fn missing(&self, sum: u64) -> PaymentEvent {
        let unit = &self.context.environment.unit;
        let what = format!("The mint owes {sum} {unit} of change that is missing or not valid.");
        PaymentEvent::new(EntityEvent::MissChange).because(what)
    }

    /// An event by which no more change is waited for.
    pub(super) fn given_up(&self, what: EntityEvent, kept: u64) -> PaymentEvent {
        let unit = &self.context.environment.unit;
        let words = format!("The mint kept {kept} {unit} of what could have come back.");
        PaymentEvent { kept: Some(kept), ..PaymentEvent::new(what).because(words) }
    }
}

/// An event that brings change.
pub(super) fn bring(what: EntityEvent, parts: ChangeParts) -> PaymentEvent {
    let (places, proofs): (Vec<u32>, Vec<cashu::Proof>) = parts.into_iter().unzip();
    let event = PaymentEvent::new(what).with_proofs(proofs.into_iter().map(FreshProof::from));
    PaymentEvent { places, ..event }
}
