//! Whether a request is the one that began a payment under its key.
//!
//! What was asked for is read off the payment, which holds all of it: its kind, its account, its
//! amount, invoice or token. So payments of older versions are compared too.

use cashu::{Token, secret::Secret};
use unspent_ecash::{EcashAccount, EcashEntity, EntityDetails, NewEntity, NewTerms};
use unspent_model::Micros;

use super::{
    EcashWorkError,
    executor::PaymentExecutor,
    now,
    payments::{RequestKey, new_id},
};

/// What is asked for, as far as two requests can differ.
#[derive(Clone, Copy)]
pub(super) enum RequestedPayment<'a> {
    Receive {
        account: &'a str,
        amount: u64,
    },
    Pay {
        account: &'a str,
        invoice: &'a str,
    },
    Send {
        account: &'a str,
        amount: u64,
    },
    /// Without an account where none is known yet: no payment is into that.
    Claim {
        account: Option<&'a str>,
        token: &'a Token,
    },
    Reverse {
        send: &'a str,
    },
}

/// A payment that may begin: what it is, whose money, and its end.
pub(super) struct PlannedPayment {
    pub(super) new: NewEntity,
    pub(super) account: EcashAccount,
    /// `None` for never.
    pub(super) expires_at: Option<Micros>,
}

impl PaymentExecutor {
    /// Begins what is asked for, unless the same request has begun it before: that payment is the
    /// answer then. `plan` asks mints and Spark, which a repetition must not do: each quote that
    /// they make is an invoice that somebody might pay, and nobody would look for the money.
    pub(super) fn once(
        &self,
        key: &RequestKey,
        wanted: RequestedPayment<'_>,
        plan: impl FnOnce() -> Result<PlannedPayment, EcashWorkError>,
    ) -> Result<EcashEntity, EcashWorkError> {
        if let Some(begun) = self.begun(key, wanted)? {
            return Ok(begun);
        }
        let PlannedPayment { new, account, expires_at } = plan()?;
        let terms = NewTerms {
            id: new_id()?,
            transaction_id: new_id()?,
            idempotency_key: key.idempotency_key.clone(),
            account_id: account.id,
            now: now(),
            expires_at,
        };
        let made = self.store.create(new, terms)?;
        // While a mint was asked no lock was held: another request may have come with the key.
        if made.is_repeat { self.same(wanted, made.entity) } else { Ok(made.entity) }
    }

    /// What the same request has begun before: then nobody has to be asked again.
    pub(super) fn begun(
        &self,
        key: &RequestKey,
        wanted: RequestedPayment<'_>,
    ) -> Result<Option<EcashEntity>, EcashWorkError> {
        let Some(key) = &key.idempotency_key else { return Ok(None) };
        let begun = self.store.entity_by_key(key)?;
        begun.map(|entity| self.same(wanted, entity)).transpose()
    }

    /// The payment if this is what it was begun for.
    fn same(
        &self,
        wanted: RequestedPayment<'_>,
        entity: EcashEntity,
    ) -> Result<EcashEntity, EcashWorkError> {
        if self.is_for(wanted, &entity)? { Ok(entity) } else { Err(EcashWorkError::KeyReused) }
    }

    fn is_for(
        &self,
        wanted: RequestedPayment<'_>,
        entity: &EcashEntity,
    ) -> Result<bool, EcashWorkError> {
        let is_of = |account: &str| entity.account_id == account;
        Ok(match (wanted, &entity.details) {
            (
                RequestedPayment::Receive { account, amount },
                EntityDetails::ReceiveQuote(receive),
            ) => is_of(account) && receive.source.is_none() && receive.amount == amount,
            (
                RequestedPayment::Receive { account, amount },
                EntityDetails::SparkReceive(receive),
            ) => is_of(account) && receive.source.is_none() && receive.amount == amount,
            (RequestedPayment::Pay { account, invoice }, EntityDetails::SendQuote(pay)) => {
                is_of(account) && pay.invoice.trim() == invoice.trim()
            }
            (RequestedPayment::Pay { account, invoice }, EntityDetails::SparkSend(pay)) => {
                is_of(account) && pay.invoice.trim() == invoice.trim()
            }
            (RequestedPayment::Send { account, amount }, EntityDetails::SendSwap(send)) => {
                is_of(account) && send.amount == amount
            }
            (RequestedPayment::Reverse { send }, EntityDetails::ReceiveSwap(_)) => {
                entity.reverses.as_deref() == Some(send)
            }
            (
                RequestedPayment::Claim { account: Some(account), token },
                EntityDetails::ReceiveSwap(_),
            ) => is_of(account) && entity.reverses.is_none() && self.is_paid_by(entity, token)?,
            (RequestedPayment::Claim { account: Some(account), token }, details) => {
                is_of(account) && details.source().is_some() && self.is_paid_by(entity, token)?
            }
            _ => false,
        })
    }

    /// Whether a payment came of this token, however that is written.
    fn is_paid_by(&self, entity: &EcashEntity, token: &Token) -> Result<bool, EcashWorkError> {
        let kept = self.store.open_entity(&entity.id)?.token;
        // By secrets alone: the same token may be written in another version, order or with a
        // memo.
        let sorted = |mut secrets: Vec<&Secret>| {
            secrets.sort_unstable();
            secrets.into_iter().cloned().collect::<Vec<_>>()
        };
        let kept = sorted(kept.iter().map(|proof| &proof.secret).collect());
        let named = sorted(token.token_secrets());
        if entity.details.source().is_none() {
            return Ok(kept == named);
        }
        // What others had spent of it when the claim began pays nothing, and wasn't kept.
        let is_named = |secret: &Secret| named.binary_search(secret).is_ok();
        Ok(!kept.is_empty() && kept.iter().all(is_named))
    }
}
