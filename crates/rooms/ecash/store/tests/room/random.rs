//! Random histories: messages lost and doubled, crashes between any two steps, payments that hang,
//! settle or come back, rotations. Both databases, the mint and a second opinion (`ledger.rs`) end
//! with the same money. `storm.rs` throws events at the store without any order.

use std::cell::RefCell;

use unspent_ecash::{
    EcashError, InputChoice, NewEntity, PageRequest,
    flow::{FlowStep, WaitReason},
};
use unspent_model::ecash::{EntityKind, EntityState};
use unspent_testkit::crash::Rng;

use crate::{fixture::*, mint::Payment};

/// Runs an entity with bad luck: any message may be lost or doubled, and at any point the process
/// may be gone.
fn stumble(d: &StoreFixture, rng: &RefCell<Rng>, id: &str) {
    let (mut flow, mut next) = d.flow(id);
    for _ in 0..12 {
        if rng.borrow_mut().below(8) == 0 {
            return;
        }
        let luck = match rng.borrow_mut().below(8) {
            0 => Luck::RequestLost,
            1 => Luck::AnswerLost,
            2 => Luck::Doubled,
            _ => Luck::Good,
        };
        match next {
            FlowStep::Ask(request) => next = flow.answer(d.ask(&request, luck)).unwrap(),
            FlowStep::Apply(event) => {
                let times = 1 + rng.borrow_mut().below(2);
                for at in 0..times {
                    match d.tell(id, event.clone()) {
                        Ok(done) => assert!(at == 0 || done.is_repeat || is_range(&event)),
                        Err(EcashError::Refused(_)) => {}
                        Err(error) => panic!("{id} {event:?}: {error}"),
                    }
                }
                (flow, next) = d.flow(id);
            }
            FlowStep::Wait(_) | FlowStep::Done => return,
        }
    }
}

fn is_range(event: &unspent_ecash::PaymentEvent) -> bool {
    event.what == unspent_model::ecash::EntityEvent::TakeNewRange
}

fn begin(d: &StoreFixture, rng: &mut Rng) {
    let amount = 1 + rng.below(200);
    let made = match rng.below(5) {
        0 => Ok(d.invoice("home", amount, Some(d.now().later(HOUR)))),
        1 | 2 => {
            let expires = Some(d.now().later(HOUR));
            d.try_melt(amount, expires, InputChoice::Select).map(|quote| quote.id)
        }
        _ => {
            let keyset = d.mint.borrow().output_keyset();
            let new = NewEntity::SendSwap { amount, inputs: InputChoice::Select, keyset };
            d.begin(new, d.terms("home")).map(|done| done.entity.id)
        }
    };
    if let Err(error) = made {
        assert!(matches!(error, EcashError::NotEnough(_)), "{error}");
    }
}

/// Things that happen outside.
fn outside(d: &StoreFixture, rng: &mut Rng) {
    let open = d.store.open_entities(PageRequest::first(1_000)).unwrap();
    match rng.below(7) {
        0 => d.mint.borrow_mut().payment = Payment::Succeeds,
        1 => d.mint.borrow_mut().payment = Payment::Hangs,
        2 => d.mint.borrow_mut().payment = Payment::Fails,
        3 => settle_some(d, rng),
        4 => {
            let unpaid: Vec<_> = open
                .iter()
                .filter(|entity| entity.kind == EntityKind::CashuReceiveQuote)
                .filter(|entity| entity.state == EntityState::Unpaid)
                .collect();
            if let Some(entity) = unpaid.get(rng.below(8) as usize) {
                d.pay_invoice("home", &entity.id);
            }
        }
        5 => token_moves(d, rng, &open),
        _ => {
            d.now.fetch_add(HOUR.as_micros() as u64 / 4, std::sync::atomic::Ordering::Relaxed);
            if rng.below(4) == 0 {
                d.mint.borrow_mut().rotate(rng.below(2) == 0);
                d.put_keysets();
            }
        }
    }
}

fn settle_some(d: &StoreFixture, rng: &mut Rng) {
    let mut mint = d.mint.borrow_mut();
    let hanging: Vec<String> = mint
        .melts
        .iter()
        .filter(|(_, melt)| melt.state == cashu::MeltQuoteState::Pending)
        .map(|(id, _)| id.clone())
        .collect();
    for id in hanging {
        if rng.below(2) == 0 { mint.settle(&id) } else { mint.give_back(&id) }
    }
}

/// A token is claimed by its receiver, or we want it back.
fn token_moves(d: &StoreFixture, rng: &mut Rng, open: &[unspent_ecash::EcashEntity]) {
    let tokens = open.iter().filter(|entity| {
        (entity.kind, entity.state) == (EntityKind::CashuSendSwap, EntityState::Pending)
    });
    for entity in tokens {
        match rng.below(4) {
            0 => d.claim_by_other(&d.token_of(&entity.id)),
            1 => {
                let token = d.token_of(&entity.id);
                let some = token.into_iter().filter(|_| rng.below(2) == 0).collect();
                d.claim_by_other(&some);
            }
            2 => {
                let keyset = d.mint.borrow().output_keyset();
                let new = NewEntity::Reversal { send_swap: entity.id.clone(), keyset };
                match d.begin(new, d.terms("home")) {
                    Ok(_) | Err(EcashError::InUse { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            _ => {}
        }
    }
}

/// Everything comes to rest: no more trouble, and time passes.
fn rest(d: &StoreFixture) {
    d.mint.borrow_mut().payment = Payment::Succeeds;
    settle_some(d, &mut Rng::new(1));
    for _ in 0..4 {
        for entity in d.store.open_entities(PageRequest::first(1_000)).unwrap() {
            d.run(&entity.id);
        }
    }
    for entity in d.store.open_entities(PageRequest::first(1_000)).unwrap() {
        let next = d.run(&entity.id);
        let is_fair = matches!(
            (entity.kind, entity.state),
            // Nobody has paid, or nobody has claimed.
            (EntityKind::CashuReceiveQuote, EntityState::Unpaid)
                | (EntityKind::CashuSendSwap, EntityState::Pending)
        );
        assert!(is_fair && next == FlowStep::Wait(WaitReason::ForChange), "{entity:?} {next:?}");
    }
}

fn history(d: &mut StoreFixture, seed: u64, steps: u64) {
    let rng = RefCell::new(Rng::new(seed));
    d.watch();
    d.fund(2_000);
    for step in 0..steps {
        if step % 50 == 49 {
            d.reopen();
            d.compare();
        }
        let what = rng.borrow_mut().below(6);
        match what {
            0 => begin(d, &mut rng.borrow_mut()),
            1 => outside(d, &mut rng.borrow_mut()),
            _ => {
                let open = d.store.open_entities(PageRequest::first(1_000)).unwrap();
                let at = rng.borrow_mut().below(open.len().max(1) as u64) as usize;
                if let Some(entity) = open.get(at) {
                    stumble(d, &rng, &entity.id);
                }
            }
        }
    }
    rest(d);
    d.check();
    d.compare();
}

/// The last word of each entity, and the money.
fn summary(d: &StoreFixture) -> Vec<String> {
    let rows = d.rows("SELECT id FROM entities ORDER BY id");
    let entity = |row: &unspent_sql::Row| d.store.entity(&row.text("id").unwrap()).unwrap();
    let mut found: Vec<String> = rows.iter().map(|row| format!("{:?}", entity(row))).collect();
    found.push(format!("{:?}", d.store.balance("home").unwrap()));
    found
}

#[test]
fn random_histories_end_alike_on_both_databases_at_the_mint_and_in_the_ledger() {
    for seed in 0..6 {
        let mut sqlite = StoreFixture::sqlite();
        history(&mut sqlite, seed, 150);
        let over =
            sqlite.store.entities(EntityKind::CashuSendQuote, PageRequest::first(1_000)).unwrap();
        assert!(over.len() > 2, "seed {seed} tells too little: {}", over.len());
        let Some(mut postgres) = StoreFixture::postgres() else { continue };
        history(&mut postgres, seed, 150);
        assert_eq!(summary(&sqlite), summary(&postgres), "seed {seed}");
    }
}
