//! The second opinion on how entities begin. Which proofs pay is the room's choice; that they are
//! free, enough, paid for, and that outputs are taken for what is left is not.

use cashu::Proofs;
use unspent_ecash::{
    AppliedChange, EcashEntity, EcashError, EntityDetails, NewEntity, NewSource, NewTerms,
    OutputRange, ProofName, proof_name,
};
use unspent_model::ecash::{
    EntityKind as Kind, EntityState as S, EntityVariant, ProofState, TransactionState as T,
};

use crate::ledger::{Ledger, Thing};

/// Enough if the proofs fit as they are.
const HARDLY: &str = "hardly enough";

/// Blank outputs that take any change up to `most`.
fn blanks(most: u64) -> usize {
    let mut count = 0;
    while most > 0 && (1_u64 << count) < most {
        count += 1;
    }
    if most == 0 { 0 } else { count.max(1) }
}

/// Parts of a sum on a keyset that has all powers of two.
pub fn parts(sum: u64) -> Vec<u64> {
    (0..u64::BITS).rev().map(|bit| 1 << bit).filter(|part| sum & part != 0).collect()
}

fn worth(proofs: &Proofs) -> u64 {
    proofs.iter().map(|proof| proof.amount.to_u64()).sum()
}

fn names(proofs: &Proofs) -> String {
    let mut names: Vec<ProofName> = proofs.iter().map(|p| proof_name(p).unwrap()).collect();
    names.sort_unstable();
    hex::encode(names.concat())
}

fn word(error: &EcashError) -> &'static str {
    match error {
        EcashError::NotEnough(_) => "not enough",
        EcashError::InUse { .. } => "in use",
        EcashError::Argument(_) => "argument",
        EcashError::Refused(_) => "refused",
        other => panic!("nothing explains `{other}`"),
    }
}

impl Ledger {
    /// Takes in what came of a wish; `token` are the proofs of the send swap to take back.
    pub fn born(
        &mut self,
        (new, terms): (&NewEntity, &NewTerms),
        token: &Proofs,
        result: &Result<AppliedChange, EcashError>,
        held: &[ProofName],
    ) {
        let known = terms.idempotency_key.as_ref().and_then(|key| self.keys.get(key));
        if let Some(known) = known {
            let applied = result.as_ref().unwrap();
            assert_eq!((&applied.entity.id, applied.is_repeat), (known, true), "{new:?}");
            return;
        }
        let claim = claim_of(new, terms, token);
        let reasons = self.reasons(new, terms, token, &claim);
        match result {
            Err(error) => {
                let word = word(error);
                let is_short = word == "not enough" && reasons.contains(&HARDLY);
                let said = "stand against it";
                assert!(
                    is_short || reasons.contains(&word),
                    "{new:?}: {error}; {reasons:?} {said}"
                );
            }
            Ok(applied) => {
                let reasons: Vec<_> = reasons.iter().filter(|reason| **reason != HARDLY).collect();
                assert!(reasons.is_empty(), "{new:?} went through against {reasons:?}");
                assert!(!applied.is_repeat);
                self.enter(new, &applied.entity, token, claim, held);
                if let Some(key) = &terms.idempotency_key {
                    self.keys.insert(key.clone(), terms.id.clone());
                }
            }
        }
    }

    /// Everything that stands against a wish.
    fn reasons(
        &self,
        new: &NewEntity,
        terms: &NewTerms,
        token: &Proofs,
        claim: &str,
    ) -> Vec<&'static str> {
        let mut found = Vec::new();
        let (account, kind) = (&terms.account_id, kind_of(new));
        let is_quote = matches!(kind, Kind::CashuReceiveQuote | Kind::SparkReceiveQuote);
        let blocks = |thing: &&Thing| {
            (thing.kind, &thing.account, thing.claim.as_str()) == (kind, account, claim)
                && (is_quote || thing.state != S::Failed)
        };
        if self.things.values().any(|thing| blocks(&thing)) {
            found.push("in use");
        }
        let is_payment = matches!(kind, Kind::CashuSendQuote | Kind::SparkSendQuote);
        if is_payment && terms.expires_at.is_some_and(|expiry| expiry <= terms.now) {
            found.push("argument");
        }
        match new {
            NewEntity::SendQuote { amount, fee_reserve, .. }
                if self.at_hand(account) < amount + fee_reserve =>
            {
                found.push("not enough");
            }
            NewEntity::SendSwap { amount, keyset, .. } => {
                let enough = |sum: &u64| {
                    let fee = (parts(*sum).len() as u64 * keyset.fee_ppk).div_ceil(1_000);
                    *sum >= amount + fee
                };
                let to_send = (*amount..).find(enough).unwrap();
                // A sum that fits as it is needs no swap, and so may do with less.
                if self.at_hand(account) < *amount {
                    found.push("not enough");
                } else if self.at_hand(account) < to_send {
                    found.push(HARDLY);
                }
            }
            NewEntity::ReceiveSwap { proofs, .. } if worth(proofs) <= self.fee_of(proofs) => {
                found.push("argument");
            }
            NewEntity::Reversal { send_swap, .. } => {
                let takes = |thing: &Thing| thing.reverses.as_ref() == Some(send_swap);
                if self.things.values().any(|thing| takes(thing) && thing.is_open()) {
                    found.push("in use");
                }
                if self.things[send_swap].state != S::Pending {
                    found.push("refused");
                } else if worth(token) <= self.fee_of(token) {
                    found.push("argument");
                }
            }
            _ => {}
        }
        found
    }

    fn fee_of(&self, proofs: &Proofs) -> u64 {
        let ids: Vec<String> = proofs.iter().map(|proof| proof.keyset_id.to_string()).collect();
        self.fee(&ids)
    }

    fn enter(
        &mut self,
        new: &NewEntity,
        entity: &EcashEntity,
        token: &Proofs,
        claim: String,
        held: &[ProofName],
    ) {
        let (id, account) = (&entity.id, &entity.account_id);
        let mut thing = Thing {
            kind: kind_of(new),
            variant: entity.variant,
            state: S::Unpaid,
            version: 0,
            account: account.clone(),
            transaction: (T::Draft, 0),
            claim,
            expires_at: entity.expires_at,
            reverses: None,
            get: 0,
            send: 0,
            source: None,
            change_open: false,
            melt: false,
            fence: false,
            alarm: false,
            spark_ids: false,
            cancelled: false,
            out: Vec::new(),
            batch: None,
        };
        self.reserve(account, held, id);
        match new {
            NewEntity::SendQuote { amount, fee_reserve, .. } => {
                let fee = self.check_melt(entity, held, amount + fee_reserve);
                thing.get = self.held_sum(account, held) - amount - fee;
                thing.transaction.0 = T::Pending;
            }
            NewEntity::SendSwap { amount, keyset, .. } => {
                self.enter_swap(&mut thing, (*amount, keyset.fee_ppk), entity, held);
            }
            NewEntity::ReceiveQuote { amount, source, .. } => {
                thing.get = *amount;
                self.enter_source(&mut thing, source.as_ref(), entity);
            }
            NewEntity::SparkReceive(_, source) => {
                self.enter_source(&mut thing, source.as_ref(), entity);
            }
            NewEntity::ReceiveSwap { proofs, .. } => self.enter_claim(&mut thing, proofs, entity),
            NewEntity::Reversal { send_swap, .. } => {
                thing.reverses = Some(send_swap.clone());
                self.enter_claim(&mut thing, token, entity);
            }
            NewEntity::SparkSend(_) => {}
        }
        if !held.is_empty() || entity.details.range().is_some() {
            *self.accounts.get_mut(account).unwrap() += 1;
        }
        self.lines += 1;
        self.things.insert(id.clone(), thing);
    }

    fn held_sum(&self, account: &str, held: &[ProofName]) -> u64 {
        let amount = |name: &ProofName| self.proofs[&(account.to_owned(), *name)].amount;
        held.iter().map(amount).sum()
    }

    fn held_fee(&self, account: &str, held: &[ProofName]) -> u64 {
        let keyset = |name: &ProofName| &self.proofs[&(account.to_owned(), *name)].keyset;
        self.fee(held.iter().map(keyset))
    }

    /// The fee of the inputs, which pay `needed` and that.
    fn check_melt(&mut self, entity: &EcashEntity, held: &[ProofName], needed: u64) -> u64 {
        let EntityDetails::SendQuote(quote) = &entity.details else { panic!("{entity:?}") };
        let (sum, fee) =
            (self.held_sum(&entity.account_id, held), self.held_fee(&entity.account_id, held));
        assert_eq!((quote.reserved, quote.input_fee), (sum, fee), "{entity:?}");
        assert!(sum >= needed + fee, "{entity:?} pays too little");
        let count = blanks(sum - quote.amount - fee);
        self.check_range(quote.range.as_ref(), &vec![0; count], entity);
        fee
    }

    fn enter_swap(
        &mut self,
        thing: &mut Thing,
        (amount, fee_ppk): (u64, u64),
        entity: &EcashEntity,
        held: &[ProofName],
    ) {
        let EntityDetails::SendSwap(swap) = &entity.details else { panic!("{entity:?}") };
        let (sum, fee) =
            (self.held_sum(&entity.account_id, held), self.held_fee(&entity.account_id, held));
        thing.transaction.0 = T::Pending;
        if sum == amount + fee {
            (thing.variant, thing.state, thing.send) = (EntityVariant::Exact, S::Pending, sum);
            self.check_range(swap.range.as_ref(), &[], entity);
        } else {
            let (send, change) = (swap.to_send, sum - swap.to_send - fee);
            let mut outputs = parts(send);
            let receiver_pays = (outputs.len() as u64 * fee_ppk).div_ceil(1_000);
            assert!(send >= amount + receiver_pays, "{entity:?}: the receiver gets too little");
            outputs.extend(parts(change));
            (thing.variant, thing.state) = (EntityVariant::NeedsSwap, S::Draft);
            (thing.send, thing.get) = (send, change);
            self.check_range(swap.range.as_ref(), &outputs, entity);
        }
        assert_eq!(entity.variant, thing.variant, "{entity:?}");
    }

    fn enter_claim(&mut self, thing: &mut Thing, token: &Proofs, entity: &EcashEntity) {
        thing.get = worth(token) - self.fee_of(token);
        (thing.state, thing.transaction.0) = (S::Pending, T::Pending);
        self.check_range(entity.details.range(), &parts(thing.get), entity);
    }

    fn enter_source(
        &mut self,
        thing: &mut Thing,
        source: Option<&NewSource>,
        entity: &EcashEntity,
    ) {
        let Some(source) = source else { return };
        thing.transaction.0 = T::Pending;
        thing.source = Some(source.account.as_ref().map(|(account, _)| account.clone()));
        let left = worth(&source.proofs) - source.amount - source.input_fee;
        let range = entity.details.source().unwrap().range.as_ref();
        if let Some((account, _)) = &source.account {
            *self.accounts.get_mut(account).unwrap() += 1;
            self.check_range(range, &vec![0; blanks(left)], entity);
            thing.change_open = blanks(left) > 0;
        } else {
            assert_eq!(range, None, "{entity:?}");
        }
    }

    /// A range is the next one of its keyset, so that no two ever overlap.
    fn check_range(&mut self, range: Option<&OutputRange>, amounts: &[u64], entity: &EcashEntity) {
        let Some(range) = range else {
            assert!(amounts.is_empty(), "{entity:?} has no outputs");
            return;
        };
        assert_eq!(range.amounts, amounts, "{entity:?}");
        let start = self.take(&range.keyset_id, amounts.len());
        assert_eq!(range.start, start, "{entity:?} takes outputs that are not the next");
    }

    /// Value is neither made nor lost: what came in is free, held or gone.
    pub fn check_sums(&self, account: &str, shown: unspent_ecash::EcashBalance) {
        assert_eq!(shown.unspent, self.sum(account, ProofState::Unspent), "{account}: free");
        assert_eq!(shown.reserved, self.sum(account, ProofState::Reserved), "{account}: held");
    }
}

fn kind_of(new: &NewEntity) -> Kind {
    match new {
        NewEntity::SendQuote { .. } => Kind::CashuSendQuote,
        NewEntity::SendSwap { .. } => Kind::CashuSendSwap,
        NewEntity::ReceiveQuote { .. } => Kind::CashuReceiveQuote,
        NewEntity::ReceiveSwap { .. } | NewEntity::Reversal { .. } => Kind::CashuReceiveSwap,
        NewEntity::SparkSend(_) => Kind::SparkSendQuote,
        NewEntity::SparkReceive(..) => Kind::SparkReceiveQuote,
    }
}

fn claim_of(new: &NewEntity, terms: &NewTerms, token: &Proofs) -> String {
    match new {
        NewEntity::SendQuote { quote_id, .. } | NewEntity::ReceiveQuote { quote_id, .. } => {
            quote_id.clone()
        }
        NewEntity::SendSwap { .. } => terms.id.clone(),
        NewEntity::ReceiveSwap { proofs, .. } => names(proofs),
        NewEntity::Reversal { .. } => names(token),
        NewEntity::SparkSend(send) => send.payment_hash.clone(),
        NewEntity::SparkReceive(receive, _) => receive.request_id.clone(),
    }
}
