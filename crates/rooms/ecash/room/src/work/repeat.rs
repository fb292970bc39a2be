//! Whether a request is the one that began a payment under its key.
//!
//! What was asked for is read off the payment, which holds all of it: its kind, its account, its
//! amount, invoice or token. So payments of older versions are compared too.

use cashu::{Token, secret::Secret};
use unspent_ecash::{Details, Entity};

use super::{EcashWorkError, executor::Executor, payments::Asked};

/// What is asked for, as far as two requests can differ.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
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

impl Executor {
    /// What the same request has begun before: then nobody has to be asked again.
    pub(super) fn begun(
        &self,
        asked: &Asked,
        wanted: Wanted<'_>,
    ) -> Result<Option<Entity>, EcashWorkError> {
        let Some(key) = &asked.idempotency_key else { return Ok(None) };
        let begun = self.store.entity_by_key(key)?;
        begun.map(|entity| self.same(wanted, entity)).transpose()
    }

    /// The payment if this is what it was begun for.
    pub(super) fn same(
        &self,
        wanted: Wanted<'_>,
        entity: Entity,
    ) -> Result<Entity, EcashWorkError> {
        if self.is_for(wanted, &entity)? { Ok(entity) } else { Err(EcashWorkError::KeyReused) }
    }

    fn is_for(&self, wanted: Wanted<'_>, entity: &Entity) -> Result<bool, EcashWorkError> {
        let is_of = |account: &str| entity.account_id == account;
        Ok(match (wanted, &entity.details) {
            (Wanted::Receive { account, amount }, Details::ReceiveQuote(receive)) => {
                is_of(account) && receive.source.is_none() && receive.amount == amount
            }
            (Wanted::Receive { account, amount }, Details::SparkReceive(receive)) => {
                is_of(account) && receive.source.is_none() && receive.amount == amount
            }
            (Wanted::Pay { account, invoice }, Details::SendQuote(pay)) => {
                is_of(account) && pay.invoice.trim() == invoice.trim()
            }
            (Wanted::Pay { account, invoice }, Details::SparkSend(pay)) => {
                is_of(account) && pay.invoice.trim() == invoice.trim()
            }
            (Wanted::Send { account, amount }, Details::SendSwap(send)) => {
                is_of(account) && send.amount == amount
            }
            (Wanted::Reverse { send }, Details::ReceiveSwap(_)) => {
                entity.reverses.as_deref() == Some(send)
            }
            (Wanted::Claim { account: Some(account), token }, Details::ReceiveSwap(_)) => {
                is_of(account) && entity.reverses.is_none() && self.is_paid_by(entity, token)?
            }
            (Wanted::Claim { account: Some(account), token }, details) => {
                is_of(account) && details.source().is_some() && self.is_paid_by(entity, token)?
            }
            _ => false,
        })
    }

    /// Whether a payment came of this token, however that is written.
    fn is_paid_by(&self, entity: &Entity, token: &Token) -> Result<bool, EcashWorkError> {
        let kept = self.store.open_entity(&entity.id)?.token;
        let sorted = |mut secrets: Vec<&Secret>| {
            secrets.sort_unstable();
            secrets.into_iter().cloned().collect::<Vec<_>>()
        };
        let kept = sorted(kept.iter().map(|proof| &proof.secret).collect());
        Ok(kept == sorted(token.token_secrets()))
    }
}
