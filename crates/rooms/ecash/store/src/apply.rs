//! The one way in which an entity changes.
//!
//! The row is locked, its machine is asked, and every effect is carried out in the same
//! transaction: entity, proofs, transaction, counters, journal. A repetition changes nothing.

use unspent_model::{
    Micros,
    ecash::{EntityEffect, EntityEvent, step},
};
use unspent_sql::{Arg, Tx};

use crate::{
    details::{EntityDetails, OwedChange, ReceiveSwapDetails, SendQuoteDetails},
    entities::{ENTITY_LOCKED, EcashEntity, RAISE_ACCOUNT, load},
    error::EcashError,
    event::{PaymentEvent, SealedEvent, SealedProof},
    proofs::{self, InsertTarget},
    scans,
    seal::SecretSealer,
    store::EcashStore,
};

/// What came of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedChange {
    /// The entity afterwards.
    pub entity: EcashEntity,
    /// It had happened before: nothing changed.
    pub is_repeat: bool,
}

impl EcashStore {
    /// Lets an event happen to an entity.
    ///
    /// # Errors
    ///
    /// [`EcashError::Refused`] when its machine has no line for it, [`EcashError::NotFound`], or
    /// whatever the database says. Nothing is changed then.
    pub fn apply(
        &self,
        id: &str,
        event: PaymentEvent,
        now: Micros,
    ) -> Result<AppliedChange, EcashError> {
        let event = SealedEvent::new(event, &self.sealer)?;
        let (id, key) = (id.to_owned(), writer_key(id));
        let sealer = std::sync::Arc::clone(&self.sealer);
        self.door.write_for(key, move |tx| advance(tx, &id, &event, &sealer, now))
    }
}

/// Spreads writers of different entities over the connections.
pub(crate) fn writer_key(id: &str) -> i64 {
    id.bytes().fold(7, |key: i64, byte| key.wrapping_mul(31).wrapping_add(i64::from(byte)))
}

fn advance(
    tx: &mut Tx<'_>,
    id: &str,
    event: &SealedEvent,
    sealer: &SecretSealer,
    now: Micros,
) -> Result<AppliedChange, EcashError> {
    let mut entity = load(tx, id, ENTITY_LOCKED, sealer)?;
    let facts = entity.facts(tx, &event.plain, now)?;
    let step = step(entity.kind, entity.state, event.plain.what, &facts)?;
    if step.is_repeat {
        // No error: after a crash a flow reports again what was stored before.
        return Ok(AppliedChange { entity, is_repeat: true });
    }
    let from = entity.state;
    // Signatures were verified one by one. That they are worth what is due is checked here, before
    // anything is stored.
    check_worth(&entity.details, event)?;
    if event.plain.shows_copy {
        let range = entity.details.range();
        scans::begin(tx, &entity.account_id, range.map(|range| (&*range.keyset_id, range.start)))?;
    }
    let mut runner = EffectRunner { entity: &mut entity, event, sealer, now, accounts: Vec::new() };
    runner.remember()?;
    for effect in step.effects {
        runner.carry_out(tx, *effect)?;
    }
    let accounts = runner.accounts;
    // Last: all payments of an account share its row, and wait for whoever holds it.
    for account in &accounts {
        tx.execute(RAISE_ACCOUNT, &[Arg::Text(account)])?;
    }
    entity.state = step.next;
    entity.update(tx, sealer, now)?;
    if event.plain.rest.is_some()
        && let EntityDetails::ReceiveSwap(swap) = &entity.details
    {
        entity.set_amount(tx, swap.gain())?;
    }
    let figure = entity.details.claimed_figure();
    let note = event.plain.reason.as_deref().or(figure.as_deref());
    entity.write_line(tx, event.plain.what.name(), Some(from), note)?;
    Ok(AppliedChange { entity, is_repeat: false })
}

/// An entity under its lock, and what happens to it.
struct EffectRunner<'w> {
    entity: &'w mut EcashEntity,
    event: &'w SealedEvent,
    sealer: &'w SecretSealer,
    now: Micros,
    /// Accounts whose proofs or counters change.
    accounts: Vec<String>,
}

impl EffectRunner<'_> {
    /// What the event tells beyond its effects.
    fn remember(&mut self) -> Result<(), EcashError> {
        let event = &self.event.plain;
        match &mut self.entity.details {
            EntityDetails::SendQuote(quote) => {
                remember_payment(quote, event, came(&self.event.proofs), self.now);
            }
            EntityDetails::SendSwap(swap) if event.what == EntityEvent::Commit => {
                swap.token_hash = Some(token_hash(self.event.to_send.iter().map(|p| p.y)));
            }
            EntityDetails::SendSwap(swap)
                if matches!(event.what, EntityEvent::Complete | EntityEvent::ReversalLost) =>
            {
                swap.claimed = swap.to_send;
            }
            EntityDetails::ReceiveSwap(swap) => remember_rest(swap, event, self.now)?,
            EntityDetails::SparkSend(send) => {
                if let Some(ids) = &event.spark {
                    send.request_id = Some(ids.request_id.clone());
                    send.transfer_id = Some(ids.transfer_id.clone());
                    send.fee = Some(ids.fee);
                }
                if event.preimage.is_some() {
                    send.preimage.clone_from(&event.preimage);
                }
            }
            EntityDetails::SparkReceive(receive) if event.preimage.is_some() => {
                receive.preimage.clone_from(&event.preimage);
                receive.transfer_id = event.spark.as_ref().map(|ids| ids.transfer_id.clone());
            }
            EntityDetails::SendSwap(_)
            | EntityDetails::ReceiveQuote(_)
            | EntityDetails::SparkReceive(_) => {}
        }
        Ok(())
    }

    fn touch(&mut self, account: &str) {
        if !self.accounts.iter().any(|known| known == account) {
            self.accounts.push(account.to_owned());
        }
    }

    fn touch_own(&mut self) {
        let account = self.entity.account_id.clone();
        self.touch(&account);
    }

    fn carry_out(&mut self, tx: &mut Tx<'_>, effect: EntityEffect) -> Result<(), EcashError> {
        match effect {
            EntityEffect::Transaction(on) => self.entity.move_transaction(tx, on, self.now),
            EntityEffect::SpendReserved => {
                self.touch_own();
                let spent = proofs::spend_held(tx, &self.entity.id, self.now)?;
                self.expect_some(tx, spent)
            }
            EntityEffect::ReleaseReserved => self.release(tx),
            EntityEffect::StoreUnspent => self.store(tx, &self.event.proofs, false),
            EntityEffect::StoreReserved => self.store(tx, &self.event.to_send, true),
            EntityEffect::SpendProven => self.prove(tx),
            EntityEffect::TakeRange => self.take_range(tx),
            EntityEffect::TakeFenceRange => self.take_fence_range(tx),
            EntityEffect::MarkMelt => {
                self.entity.melt_initiated = true;
                Ok(())
            }
            EntityEffect::StoreSourceChange => self.store_source_change(tx, true),
            EntityEffect::AddSourceChange => self.store_source_change(tx, false),
            EntityEffect::OweChange => {
                if let EntityDetails::SendQuote(quote) = &mut self.entity.details {
                    owe(&mut quote.owed, &self.event.plain, came(&self.event.proofs), self.now);
                }
                Ok(())
            }
            EntityEffect::SettleChange => {
                if let EntityDetails::SendQuote(quote) = &mut self.entity.details
                    && let Some(owed) = &mut quote.owed
                {
                    owed.close(self.event.plain.kept);
                }
                Ok(())
            }
            EntityEffect::RaiseAlarm => {
                self.entity.alarm = true;
                Ok(())
            }
            // With its time, which is not the model's: see `remember_rest`.
            EntityEffect::MarkCancelled => Ok(()),
            EntityEffect::Partner(on) => self.move_partner(tx, on),
        }
    }

    /// An entity that never held anything where it must hold something is damaged. One whose
    /// proofs were all proven spent meanwhile, for a payment that had them before, is not.
    fn expect_some(&self, tx: &mut Tx<'_>, changed: u64) -> Result<(), EcashError> {
        if changed > 0 || proofs::were_held(tx, &self.entity.id)? {
            return Ok(());
        }
        Err(EcashError::Corrupt(format!("entity {} holds no proofs", self.entity.id)))
    }

    fn release(&mut self, tx: &mut Tx<'_>) -> Result<(), EcashError> {
        self.touch_own();
        let (spent, account) = (&self.event.plain.spent, &self.entity.account_id);
        // First what the mint calls spent: released, it would be chosen for the next payment.
        let proven = proofs::prove_spent(tx, account, spent, self.now)?;
        let released = proofs::release_held(tx, &self.entity.id)?;
        self.expect_some(tx, proven + released)
    }

    fn prove(&mut self, tx: &mut Tx<'_>) -> Result<(), EcashError> {
        self.touch_own();
        let (spent, account) = (&self.event.plain.spent, &self.entity.account_id);
        let EntityDetails::SendSwap(swap) = &mut self.entity.details else {
            proofs::prove_spent(tx, account, spent, self.now)?;
            return Ok(());
        };
        let held = proofs::held_sum(tx, &self.entity.id)?;
        proofs::prove_spent(tx, account, spent, self.now)?;
        let left = proofs::held_sum(tx, &self.entity.id)?;
        let odd = || EcashError::Corrupt("proofs of a token add up to no amount".into());
        let gone = held.checked_sub(left);
        let claimed = gone.and_then(|gone| swap.claimed.checked_add(gone));
        swap.claimed = claimed.ok_or_else(odd)?;
        Ok(())
    }

    fn store(
        &mut self,
        tx: &mut Tx<'_>,
        fresh: &[SealedProof],
        is_reserved: bool,
    ) -> Result<(), EcashError> {
        self.touch_own();
        let mut fresh = fresh.to_vec();
        if self.event.plain.what == EntityEvent::ProvePaid {
            // The payment was over, and a scan may have found its change.
            let known = fresh.iter().map(|proof| scans::is_ours(tx, proof));
            let known: Vec<bool> = known.collect::<Result<_, _>>()?;
            let mut known = known.into_iter();
            fresh.retain(|_| !known.next().unwrap_or(false));
        }
        let (account, entity) = (&self.entity.account_id, &self.entity.id);
        proofs::insert(tx, &InsertTarget { account, entity, is_reserved, now: self.now }, &fresh)
    }

    fn take_range(&mut self, tx: &mut Tx<'_>) -> Result<(), EcashError> {
        let missing = || EcashError::argument("the event brings no outputs to reserve");
        let ask = self.event.plain.range.as_ref().ok_or_else(missing)?;
        check_sum(&self.entity.details, &ask.amounts, ask.send_count)?;
        self.touch_own();
        let range = proofs::take_range(tx, &self.entity.account_id, ask)?;
        if let EntityDetails::SendSwap(swap) = &mut self.entity.details {
            // On another keyset the same sum may fall into another number of parts.
            swap.send_count = ask.send_count;
        }
        self.entity.details.set_range(range);
        Ok(())
    }

    fn take_fence_range(&mut self, tx: &mut Tx<'_>) -> Result<(), EcashError> {
        let missing = || EcashError::argument("the event brings no outputs to reserve");
        let ask = self.event.plain.range.as_ref().ok_or_else(missing)?;
        self.touch_own();
        let range = proofs::take_range(tx, &self.entity.account_id, ask)?;
        if let EntityDetails::SendQuote(quote) = &mut self.entity.details {
            quote.fence = Some(range);
        }
        Ok(())
    }

    fn store_source_change(&mut self, tx: &mut Tx<'_>, is_all: bool) -> Result<(), EcashError> {
        let Some(source) = self.entity.details.source_mut() else { return Ok(()) };
        if !is_all || source.owed.is_some() {
            owe(&mut source.owed, &self.event.plain, came(&self.event.proofs), self.now);
        }
        if is_all {
            source.change_stored = true;
            source.owed.iter_mut().for_each(|owed| owed.close(self.event.plain.kept));
        }
        let Some(account) = source.account_id.clone() else { return Ok(()) };
        self.touch(&account);
        let target = InsertTarget {
            account: &account,
            entity: &self.entity.id,
            is_reserved: false,
            now: self.now,
        };
        proofs::insert(tx, &target, &self.event.proofs)
    }

    fn move_partner(&mut self, tx: &mut Tx<'_>, on: EntityEvent) -> Result<(), EcashError> {
        let Some(partner) = self.entity.reverses.clone() else { return Ok(()) };
        // In the same transaction: a token that is back while its send still waits would be there
        // twice.
        let mut told = SealedEvent::bare(on);
        // The other events of a partner are about all that it holds.
        if on == EntityEvent::ReversalShort {
            told.plain.spent.clone_from(&self.event.plain.spent);
        }
        advance(tx, &partner, &told, self.sealer, self.now)?;
        Ok(())
    }
}

/// What a payment by a melt learns. A preimage that proves nothing isn't kept: people would show it
/// as a receipt.
fn remember_payment(quote: &mut SendQuoteDetails, event: &PaymentEvent, change: u64, now: Micros) {
    let is_paid = matches!(event.what, EntityEvent::Complete | EntityEvent::CompleteOwing);
    let is_change = matches!(event.what, EntityEvent::TakeChange | EntityEvent::CloseChange);
    if is_paid {
        quote.preimage = event.preimage.clone().filter(|preimage| quote.is_proof(preimage));
        // A mint may give back more than it was given: its loss, and nothing to refuse.
        quote.spent = Some(quote.reserved.saturating_sub(change));
    } else if is_change {
        // As above: never less than nothing.
        quote.spent = quote.spent.map(|spent| spent.saturating_sub(change));
        owe(&mut quote.owed, event, change, now);
    }
}

/// Notes a part of change that has come.
fn owe(owed: &mut Option<OwedChange>, event: &PaymentEvent, worth: u64, now: Micros) {
    owed.get_or_insert_with(|| OwedChange::from(now)).take(&event.places, worth);
}

/// What proofs are worth, as far as a sum of ours can say.
fn came(proofs: &[SealedProof]) -> u64 {
    u64::try_from(worth(proofs)).unwrap_or(u64::MAX)
}

/// What an event tells about the parts of a token.
fn remember_rest(
    swap: &mut ReceiveSwapDetails,
    event: &PaymentEvent,
    now: Micros,
) -> Result<(), EcashError> {
    let missing = || EcashError::argument("the event doesn't say what is left of the token");
    match (event.what, &event.rest) {
        (EntityEvent::TakeRest, rest) => {
            swap.lose(&event.spent, rest.as_ref().ok_or_else(missing)?)?;
        }
        (EntityEvent::StoreBatch, rest) => {
            swap.settle(&event.spent, rest.as_ref().ok_or_else(missing)?)?;
        }
        (EntityEvent::Complete, Some(rest)) => swap.lose(&event.spent, rest)?,
        (EntityEvent::Cancel, _) => swap.progress.cancelled_at = Some(now.get()),
        (_, _) => {}
    }
    Ok(())
}

/// Proofs that an event brings must be worth what the entity is to get, no more and no less; a
/// melt's change is taken as it comes.
fn check_worth(details: &EntityDetails, event: &SealedEvent) -> Result<(), EcashError> {
    let (got, sent) = (worth(&event.proofs), worth(&event.to_send));
    let is = |expected: Option<u64>| expected.is_some_and(|expected| got == u128::from(expected));
    let fits = match (details, event.plain.what) {
        (EntityDetails::ReceiveQuote(quote), EntityEvent::Complete) => is(Some(quote.amount)),
        // Nothing more is to come, but something came before.
        (EntityDetails::ReceiveSwap(swap), EntityEvent::Complete) if event.plain.rest.is_some() => {
            is(Some(0)) && swap.progress.got > 0
        }
        (EntityDetails::ReceiveSwap(swap), EntityEvent::Complete | EntityEvent::StoreBatch) => {
            is(swap.worth())
        }
        (EntityDetails::SendSwap(swap), EntityEvent::Commit) => {
            sent == u128::from(swap.to_send) && is(swap.change())
        }
        (_, _) => true,
    };
    if fits {
        Ok(())
    } else {
        Err(EcashError::argument("the proofs are not worth what the entity is to get"))
    }
}

fn worth(proofs: &[SealedProof]) -> u128 {
    proofs.iter().map(|proof| u128::from(proof.amount)).sum()
}

/// Outputs must be worth what the entity is to get.
fn check_sum(
    details: &EntityDetails,
    amounts: &[u64],
    send_count: usize,
) -> Result<(), EcashError> {
    let sum = |amounts: &[u64]| amounts.iter().map(|amount| u128::from(*amount)).sum::<u128>();
    let fits = match details {
        EntityDetails::ReceiveQuote(quote) => sum(amounts) == u128::from(quote.amount),
        EntityDetails::ReceiveSwap(swap) => {
            swap.worth().is_some_and(|worth| sum(amounts) == u128::from(worth))
        }
        EntityDetails::SendSwap(swap) => {
            let to_send = amounts.get(..send_count).map(sum);
            let fits = swap.worth().is_some_and(|worth| sum(amounts) == u128::from(worth));
            to_send == Some(u128::from(swap.to_send)) && fits
        }
        EntityDetails::SendQuote(_) => sum(amounts) == 0,
        EntityDetails::SparkSend(_) | EntityDetails::SparkReceive(_) => false,
    };
    if fits {
        Ok(())
    } else {
        Err(EcashError::argument("the outputs are not worth what the entity is to get"))
    }
}

/// What names a token, whatever its encoding: SHA-256 over the sorted names of its proofs.
pub(crate) fn token_hash(names: impl IntoIterator<Item = [u8; 33]>) -> String {
    use sha2::{Digest as _, Sha256};
    let mut names: Vec<[u8; 33]> = names.into_iter().collect();
    names.sort_unstable();
    hex::encode(Sha256::digest(names.concat()))
}
