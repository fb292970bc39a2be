//! Claiming a token into an account elsewhere: its mint pays an invoice of the account's mint, or
//! of the Spark wallet.

use cashu::{CheckStateRequest, MintUrl, Proofs, State};
use unspent_ecash::{AccountKind, EcashAccount, NewEntity, NewSource};
use unspent_model::{Micros, ecash::input_fee};

use super::{EcashWorkError, book::KnownMint, executor::PaymentExecutor, repeat::PlannedPayment};
use crate::mint::check::unit_of;

/// Rounds of finding an amount whose fees a token can pay.
const FEE_ROUNDS: usize = 5;

impl PaymentExecutor {
    /// Finds the amount whose fees the token can pay, a few rounds long.
    pub(super) fn claim_across(
        &self,
        source: &KnownMint,
        proofs: Proofs,
        account: EcashAccount,
    ) -> Result<PlannedPayment, EcashWorkError> {
        let wrong = |what: &str| EcashWorkError::Wrong(what.to_owned());
        let proofs = self.unspent_of(&source.keys.url, proofs)?;
        let unit = unit_of(&account.unit);
        let fee = fee_of(source, &proofs);
        let mut amounts = proofs.iter().map(|proof| u64::from(proof.amount));
        let total = amounts.try_fold(0, u64::checked_add);
        let total = total.ok_or_else(|| wrong("the token says it is worth more than 2^64"))?;
        let target = total.checked_sub(fee).filter(|target| *target > 0);
        let target = target.ok_or_else(|| wrong("the token doesn't pay its own fee"))?;
        let url = &source.keys.url;
        let mut amount = target;
        for _ in 0..FEE_ROUNDS {
            // An invoice per round, as its amount can't be changed. Those that don't fit expire
            // unpaid.
            let (new, paid_until) = self.invoice_of(&account, amount)?;
            let invoice = invoice_in(&new).ok_or_else(|| wrong("there is no invoice"))?;
            let melt = self.melt_quote(url, invoice, &unit)?;
            let needed = melt.amount.checked_add(melt.fee_reserve);
            let needed = needed.ok_or_else(|| wrong("the mint asks for more than 2^64"))?;
            if needed > target {
                // What a mint reserves for fees hangs on the amount, so that this is a guess: the
                // next quote tells.
                let less = amount.checked_sub(needed - target).filter(|amount| *amount > 0);
                amount = less.ok_or_else(|| wrong("the token doesn't pay the fees"))?;
                continue;
            }
            let mut own = self.store.accounts()?.into_iter();
            let own =
                own.find(|own| own.mint_url.as_ref() == Some(url) && own.unit == account.unit);
            let paid_by = NewSource {
                mint_url: url.to_string(),
                melt_quote_id: melt.id,
                proofs,
                input_fee: fee,
                amount: melt.amount,
                fee_reserve: melt.fee_reserve,
                account: own.map(|own| (own.id, source.keys.active.clone())),
            };
            let expires_at = [paid_until, melt.expires_at].into_iter().flatten().min();
            return Ok(PlannedPayment { new: by_token(new, paid_by), account, expires_at });
        }
        Err(wrong("no amount was found whose fees the token can pay"))
    }

    /// The proofs of a token that nobody has spent, where that is a part of them: a melt of the
    /// others is refused.
    fn unspent_of(&self, mint: &MintUrl, proofs: Proofs) -> Result<Proofs, EcashWorkError> {
        let bad = |_| EcashWorkError::Wrong("a proof's secret has no point".into());
        let ys = proofs.iter().map(|proof| proof.y().map_err(bad));
        let request = CheckStateRequest { ys: ys.collect::<Result<_, _>>()? };
        // Who doesn't tell now is asked when the melt is refused.
        let Ok(answer) = self.backends.mints.client(mint).check_states(&request) else {
            return Ok(proofs);
        };
        let pairs = proofs.iter().zip(answer.states);
        let left: Proofs = pairs
            .filter(|(_, found)| found.state != State::Spent)
            .map(|(proof, _)| proof.clone())
            .collect();
        Ok(if left.is_empty() { proofs } else { left })
    }

    /// An invoice of an account, as an entity that isn't stored yet, and its end.
    fn invoice_of(
        &self,
        account: &EcashAccount,
        amount: u64,
    ) -> Result<(NewEntity, Option<Micros>), EcashWorkError> {
        match account.kind {
            AccountKind::Cashu => self.invoice(account, amount),
            AccountKind::Spark => self.spark_invoice(amount),
        }
    }
}

fn fee_of(source: &KnownMint, proofs: &Proofs) -> u64 {
    input_fee(proofs.iter().filter_map(|proof| {
        let keyset = source.keysets.iter().find(|keyset| keyset.id == proof.keyset_id);
        keyset.map(|keyset| keyset.input_fee_ppk)
    }))
}

fn invoice_in(new: &NewEntity) -> Option<&str> {
    match new {
        NewEntity::ReceiveQuote { invoice, .. } => Some(invoice),
        NewEntity::SparkReceive(receive, _) => Some(&receive.invoice),
        NewEntity::SendQuote { .. }
        | NewEntity::SendSwap { .. }
        | NewEntity::ReceiveSwap { .. }
        | NewEntity::Reversal { .. }
        | NewEntity::SparkSend(_) => None,
    }
}

/// The same, paid by a token.
fn by_token(new: NewEntity, paid_by: NewSource) -> NewEntity {
    let paid_by = Some(paid_by);
    match new {
        NewEntity::ReceiveQuote { quote_id, invoice, amount, lock_index, .. } => {
            NewEntity::ReceiveQuote { quote_id, invoice, amount, lock_index, source: paid_by }
        }
        NewEntity::SparkReceive(receive, _) => NewEntity::SparkReceive(receive, paid_by),
        other @ (NewEntity::SendQuote { .. }
        | NewEntity::SendSwap { .. }
        | NewEntity::ReceiveSwap { .. }
        | NewEntity::Reversal { .. }
        | NewEntity::SparkSend(_)) => other,
    }
}
