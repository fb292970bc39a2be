//! Events without any order: every kind of entity, every event, legal or not, lost, doubled and
//! late, with what they bring right or wrong, and the store opened anew in between. After each the
//! store must answer as the ledger says, and hold what the ledger holds.

use std::collections::BTreeMap;

use cashu::{Amount, Id, Proof, SecretKey, secret::Secret};
use unspent_ecash::{
    EcashError, FreshProof, InputChoice, NewEntity, NewSource, NewTerms, OutputKeyset, PageRequest,
    PaymentEvent, ProofName, RangeAsk,
    details::{SparkReceiveDetails, SparkSendDetails},
    flow::SparkIds,
    proof_name,
};
use unspent_model::ecash::{ENTITY_EVENTS, EntityEvent as On, EntityKind as Kind, ProofState};
use unspent_testkit::crash::Rng;

use crate::{births::parts, fixture::*, ledger::Thing};

const STEPS: u64 = 300;

/// Histories, each on its own database; `UNSPENT_ECASH_HISTORIES` asks for more.
fn histories() -> u64 {
    let asked = std::env::var("UNSPENT_ECASH_HISTORIES").ok();
    asked.and_then(|count| count.parse().ok()).unwrap_or(6)
}

struct Storm {
    d: StoreFixture,
    rng: Rng,
    /// What was sent before and may come again.
    sent: Vec<(String, PaymentEvent)>,
    wishes: Vec<(NewEntity, NewTerms)>,
    proofs: Vec<FreshProof>,
    /// What each entity held when it began.
    inputs: BTreeMap<String, Vec<ProofName>>,
    /// Real changes, repetitions, refusals.
    seen: [u64; 3],
}

impl Storm {
    fn new(mut d: StoreFixture, seed: u64) -> Self {
        d.watch();
        d.add_spark();
        d.ledger.as_ref().unwrap().borrow_mut().accounts.insert("spark".into(), 0);
        Self {
            d,
            rng: Rng::new(seed),
            sent: Vec::new(),
            wishes: Vec::new(),
            proofs: Vec::new(),
            inputs: BTreeMap::new(),
            seen: [0; 3],
        }
    }

    fn is_rare(&mut self, odds: u64) -> bool {
        self.rng.below(odds) == 0
    }

    /// Proofs that no mint has signed: the store doesn't ask whose they are.
    fn fresh(&mut self, keyset: &str, sum: u64) -> Vec<FreshProof> {
        let id: Id = keyset.parse().unwrap();
        let c = SecretKey::from_slice(&[5; 32]).unwrap().public_key();
        let mut made = Vec::new();
        for part in parts(sum) {
            let secret = Secret::new(hex::encode(self.rng.hash()));
            let proof = Proof::new(Amount::from(part), id, secret, c);
            let is_spent = self.is_rare(20);
            made.push(FreshProof { proof, is_spent });
        }
        self.proofs.extend(made.iter().cloned());
        made
    }

    fn keyset(&self, account: &str) -> OutputKeyset {
        let mint = if account == "home" { &self.d.mint } else { &self.d.other };
        mint.borrow().output_keyset()
    }

    fn pick(&mut self) -> Option<(String, Thing)> {
        let ledger = self.d.ledger.as_ref().unwrap().borrow();
        // Some of the last few, so that lives are lived to their end.
        let few = 10.min(ledger.things.len().max(1)) as u64;
        let among = if self.rng.below(3) == 0 { ledger.things.len() as u64 } else { few };
        let at = self.rng.below(among.max(1)) as usize;
        let found = ledger.things.iter().nth_back(at);
        found.map(|(id, thing)| (id.clone(), thing.clone()))
    }

    fn wish(&mut self) {
        if !self.wishes.is_empty() && self.is_rare(3) {
            let at = self.rng.below(self.wishes.len() as u64) as usize;
            let (new, terms) = self.wishes[at].clone();
            // The same wish: by the same key, or by mistake under another name.
            let key = terms.idempotency_key.filter(|_| self.rng.below(3) > 0);
            let account = terms.account_id;
            let terms = NewTerms { idempotency_key: key, ..self.d.terms(&account) };
            return self.begin(new, terms);
        }
        let amount = 1 + self.rng.below(400);
        let kind = self.rng.below(9);
        let account = if kind >= 7 { "spark" } else { "home" };
        let mut terms = self.d.terms(account);
        terms.idempotency_key = self.is_rare(2).then(|| format!("key-{}", terms.id));
        terms.expires_at = self.is_rare(2).then(|| terms.now.later(HOUR));
        let Some(new) = self.new_entity(kind, amount, &terms.id) else { return };
        self.wishes.push((new.clone(), terms.clone()));
        self.begin(new, terms);
    }

    fn begin(&mut self, new: NewEntity, terms: NewTerms) {
        // The ledger has judged it already.
        if let Ok(done) = self.d.begin(new, terms) {
            let held = self.d.token_of(&done.entity.id);
            let names = held.iter().map(|proof| proof_name(proof).unwrap()).collect();
            self.inputs.entry(done.entity.id).or_insert(names);
        }
    }

    fn new_entity(&mut self, kind: u64, amount: u64, id: &str) -> Option<NewEntity> {
        let (keyset, invoice) = (self.keyset("home"), "lnbc1".to_owned());
        Some(match kind {
            0 | 1 => {
                let source = if self.is_rare(3) { Some(self.source(amount)) } else { None };
                let quote_id = format!("q{id}");
                NewEntity::ReceiveQuote { quote_id, invoice, amount, lock_index: 1, source }
            }
            2 | 3 => {
                let (quote_id, fee_reserve) = (format!("q{id}"), self.rng.below(6));
                let inputs = InputChoice::Select;
                NewEntity::SendQuote { quote_id, invoice, amount, fee_reserve, inputs, keyset }
            }
            4 => NewEntity::SendSwap { amount, inputs: InputChoice::Select, keyset },
            5 => {
                let token = self.fresh(&keyset.keyset_id, amount);
                let proofs = token.into_iter().map(|fresh| fresh.proof).collect();
                NewEntity::ReceiveSwap { proofs, keyset }
            }
            6 => {
                let ledger = self.d.ledger.as_ref().unwrap().borrow();
                let swaps = ledger.things.iter().filter(|(_, t)| t.kind == Kind::CashuSendSwap);
                let swaps: Vec<String> = swaps.map(|(id, _)| id.clone()).collect();
                let at = self.rng.below(swaps.len().max(1) as u64) as usize;
                NewEntity::Reversal { send_swap: swaps.get(at)?.clone(), keyset }
            }
            7 => NewEntity::SparkSend(spark_send(amount, self.rng.below(12))),
            _ => {
                let source = if self.is_rare(2) { Some(self.source(amount)) } else { None };
                NewEntity::SparkReceive(spark_receive(amount, id), source)
            }
        })
    }

    /// A token of the other mint, where we have an account or not.
    fn source(&mut self, amount: u64) -> NewSource {
        let keyset = self.keyset("away");
        let worth = amount + 3 + self.rng.below(9);
        let token = self.fresh(&keyset.keyset_id, worth);
        NewSource {
            mint_url: self.d.other.borrow().url.to_string(),
            melt_quote_id: "melt".into(),
            proofs: token.into_iter().map(|fresh| fresh.proof).collect(),
            input_fee: 1,
            amount,
            fee_reserve: 2,
            account: (self.rng.below(3) > 0).then(|| ("away".to_owned(), keyset)),
        }
    }

    /// An event with what it brings, right most of the time.
    fn event(&mut self, id: &str, thing: &Thing, what: On) -> PaymentEvent {
        let mut event = PaymentEvent::new(what);
        let wrong = u64::from(self.is_rare(15));
        let home = self.keyset("home").keyset_id;
        match (thing.kind, what) {
            (Kind::CashuSendQuote, On::TakeChange | On::CloseChange) => {
                event.proofs = self.fresh(&home, 1 + wrong);
            }
            (Kind::CashuReceiveQuote | Kind::SparkReceiveQuote, On::TakeChange) => {
                let away = self.keyset("away").keyset_id;
                event.proofs = self.fresh(&away, 1 + wrong);
            }
            (Kind::CashuSendQuote, On::Complete | On::CompleteOwing | On::ProvePaid) => {
                let change = self.rng.below(thing.get + 1);
                event.proofs = self.fresh(&home, change + wrong * (thing.get + 1));
            }
            (Kind::CashuSendQuote, On::Fence) => event.proofs = self.fresh(&home, thing.get),
            (Kind::CashuReceiveQuote | Kind::CashuReceiveSwap, On::Complete) => {
                event.proofs = self.fresh(&home, thing.get + wrong);
            }
            (Kind::CashuSendSwap, On::Commit) => {
                event.proofs = self.fresh(&home, thing.get);
                event.to_send = self.fresh(&home, thing.send + wrong);
                event.to_send.iter_mut().for_each(|fresh| fresh.is_spent = false);
            }
            (_, On::StoreSourceChange) => {
                let away = self.keyset("away").keyset_id;
                event.proofs = self.fresh(&away, 1 + wrong);
            }
            _ => {}
        }
        if self.is_rare(12) && !event.proofs.is_empty() {
            self.bring_old(&mut event);
        }
        let names = [On::Fail, On::Expire, On::ProvePaid, On::ClaimedInPart, On::ReversalShort];
        if names.contains(&what) && self.rng.below(3) > 0 {
            event.spent = self.some_of(id);
        }
        event.range = self.range(thing, what, wrong, home);
        let ids = SparkIds { request_id: "r".into(), transfer_id: "t".into(), fee: 1 };
        event.spark = (self.rng.below(4) > 0).then_some(ids);
        event
    }

    /// A proof of the same worth that came before takes the place of a new one.
    fn bring_old(&mut self, event: &mut PaymentEvent) {
        let new = &event.proofs[0].proof;
        let same = |old: &&FreshProof| {
            (old.proof.amount, old.proof.keyset_id) == (new.amount, new.keyset_id)
                && event.proofs.iter().all(|fresh| fresh.proof.secret != old.proof.secret)
                && event.to_send.iter().all(|fresh| fresh.proof.secret != old.proof.secret)
        };
        if let Some(old) = self.proofs.iter().find(same).cloned() {
            event.proofs[0] = old;
        }
    }

    /// Proofs that were this entity's, whoever holds them now.
    fn some_of(&mut self, id: &str) -> Vec<ProofName> {
        let once = self.inputs.get(id).cloned().unwrap_or_default();
        once.into_iter().filter(|_| self.rng.below(8) > 0).collect()
    }

    fn range(
        &mut self,
        thing: &Thing,
        what: On,
        wrong: u64,
        keyset_id: String,
    ) -> Option<RangeAsk> {
        let takes = [On::ProcessPayment, On::LatePayment, On::TakeNewRange, On::TakeFenceRange];
        if !takes.contains(&what) {
            return None;
        }
        let mut amounts = match (thing.kind, what) {
            (Kind::CashuSendQuote, On::TakeFenceRange) => vec![4, 2, 1],
            (Kind::CashuSendQuote, _) => vec![0; 3],
            _ => parts(thing.send),
        };
        let send_count = amounts.len();
        if thing.kind != Kind::CashuSendQuote {
            amounts.extend(parts(thing.get + wrong));
        }
        Some(RangeAsk { keyset_id, amounts, send_count })
    }

    fn throw(&mut self) {
        if !self.sent.is_empty() && self.is_rare(4) {
            let at = self.rng.below(self.sent.len() as u64) as usize;
            let (id, event) = self.sent[at].clone();
            return self.tell(&id, event);
        }
        let Some((id, thing)) = self.pick() else { return };
        let what = self.what(thing.kind);
        let event = self.event(&id, &thing, what);
        self.sent.push((id.clone(), event.clone()));
        if self.is_rare(8) {
            // Lost; it may come later.
            return;
        }
        self.tell(&id, event.clone());
        if self.is_rare(5) {
            self.tell(&id, event);
        }
    }

    /// Mostly something that the kind knows.
    fn what(&mut self, kind: Kind) -> On {
        let known: Vec<On> = match kind {
            _ if self.is_rare(10) => ENTITY_EVENTS.iter().map(|(event, _)| *event).collect(),
            Kind::CashuReceiveQuote => vec![
                On::MarkMeltInitiated,
                On::ProcessPayment,
                On::ProcessPayment,
                On::Complete,
                On::Complete,
                On::StoreSourceChange,
                On::TakeChange,
                On::MissChange,
                On::LatePayment,
                On::Expire,
                On::Fail,
                On::TakeNewRange,
            ],
            _ => kind.machine().events.to_vec(),
        };
        known[self.rng.below(known.len() as u64) as usize]
    }

    fn tell(&mut self, id: &str, event: PaymentEvent) {
        match self.d.tell(id, event) {
            Ok(done) if done.is_repeat => self.seen[1] += 1,
            Ok(_) => self.seen[0] += 1,
            Err(EcashError::Refused(_)) => self.seen[2] += 1,
            Err(_) => {}
        }
    }

    fn run(&mut self) {
        for step in 0..STEPS {
            match self.rng.below(12) {
                0..=2 => self.wish(),
                3 => self.d.wait_hours(1),
                _ => self.throw(),
            }
            if step % 60 == 59 {
                self.d.reopen();
            }
            if step % 10 == 9 {
                self.d.compare();
            }
        }
        let balance = self.d.store.balance("home").unwrap();
        let gone =
            self.d.store.proofs("home", ProofState::Spent, PageRequest::first(10_000)).unwrap();
        let gone: u64 = gone.iter().map(|proof| proof.amount).sum();
        let ledger = self.d.ledger.as_ref().unwrap().borrow();
        let home = ledger.proofs.iter().filter(|((account, _), _)| account == "home");
        let came: u64 = home.map(|(_, piece)| piece.amount).sum();
        assert_eq!(balance.unspent + balance.reserved + gone, came, "value is kept");
    }
}

fn spark_send(amount: u64, hash: u64) -> SparkSendDetails {
    SparkSendDetails {
        invoice: "lnbc1".into(),
        payment_hash: format!("{hash:064x}"),
        amount,
        is_amountless: false,
        max_fee: 3,
        fee: None,
        request_id: None,
        transfer_id: None,
        preimage: None,
    }
}

fn spark_receive(amount: u64, id: &str) -> SparkReceiveDetails {
    SparkReceiveDetails {
        request_id: format!("r{id}"),
        invoice: "lnbc1".into(),
        payment_hash: "cd".repeat(32),
        amount,
        transfer_id: None,
        preimage: None,
        source: None,
    }
}

#[test]
fn events_in_any_order_leave_what_the_ledger_says() {
    let mut seen = [0; 3];
    for seed in 0..histories() {
        let mut sqlite = Storm::new(StoreFixture::sqlite(), seed);
        sqlite.run();
        for (sum, count) in seen.iter_mut().zip(sqlite.seen) {
            *sum += count;
        }
        let Some(postgres) = StoreFixture::postgres() else { continue };
        let mut postgres = Storm::new(postgres, seed);
        postgres.run();
        assert_eq!(sqlite.d.snapshot(), postgres.d.snapshot(), "seed {seed}");
    }
    let [changes, repeats, refusals] = seen;
    eprintln!("{changes} changes, {repeats} repetitions, {refusals} refusals");
    let enough = histories() * 20;
    assert!(changes > enough && repeats > enough && refusals > enough, "{seen:?} is too little");
}
