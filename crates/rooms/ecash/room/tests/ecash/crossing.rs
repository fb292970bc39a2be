//! Tokens of one mint that become money at another.
//!
//! The pretended Lightning sides of two mints know nothing of each other, and an invoice would be
//! paid by nobody's doing. Here the line to the second mint says of an invoice that it is unpaid
//! until the first has paid it.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use cashu::{State, Token};
use serde_json::{Value, json};
use unspent_ecash::{EcashAccount, EcashEntity};
use unspent_ecash_room::{mint::check::MintBlocklist, work::executor::PaymentExecutor};
use unspent_model::ecash::EntityState;
use unspent_testkit::ecash::{FaultProxy, Lightning, MintSettings, Nutshell};

use crate::{
    purse::Purse,
    wallet::{Wallet, asked, plain},
};

pub struct Crossing {
    pub one: Nutshell,
    _two: Nutshell,
    /// The line to the token's mint.
    pub a: FaultProxy,
    /// The line to the other.
    pub b: FaultProxy,
    /// The melt quote by which the token pays.
    melt: Arc<Mutex<String>>,
}

impl Crossing {
    pub fn start(one: MintSettings) -> Option<Self> {
        let (one, two) = (Nutshell::start(one)?, Nutshell::start(plain())?);
        let (a, b) = (FaultProxy::start(&one.url()), FaultProxy::start(&two.url()));
        let melt = Arc::new(Mutex::new(String::new()));
        let (known, payer) = (melt.clone(), one.url());
        b.edit("/v1/mint/quote/bolt11/", move |quote| {
            let id = known.lock().unwrap().clone();
            let is_paid = !id.is_empty() && has_paid(&payer, &id);
            if quote["state"] == "PAID" && !id.is_empty() && !is_paid {
                quote["state"] = json!("UNPAID");
            }
        });
        Some(Self { one, _two: two, a, b, melt })
    }

    /// Begins to claim a token across.
    pub fn claim(
        &self,
        executor: &PaymentExecutor,
        token: &Token,
        to: &EcashAccount,
    ) -> EcashEntity {
        let claim = executor.claim(token, &to.id, &asked()).unwrap();
        let source = claim.details.source().expect("another mint pays");
        *self.melt.lock().unwrap() = source.melt_quote_id.clone();
        claim
    }
}

fn has_paid(mint: &str, quote: &str) -> bool {
    let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
    let url = format!("{mint}/v1/melt/quote/bolt11/{quote}");
    let read = config.build().new_agent().get(url).call();
    let read: Option<Value> = read.ok().and_then(|mut answer| answer.body_mut().read_json().ok());
    read.is_some_and(|quote| quote["state"] == "PAID")
}

#[test]
fn a_token_that_its_mint_fails_to_pay_stays_good() {
    let Some(mut crossing) = Crossing::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let (from, to) = (wallet.account(&crossing.a.url()), wallet.account(&crossing.b.url()));
    wallet.earn(&from, 1_000);
    let failing =
        MintSettings { paid_at_once: Lightning::Failed, asked_later: Lightning::Failed, ..plain() };
    let forever = MintSettings {
        paid_at_once: Lightning::Pending,
        asked_later: Lightning::Pending,
        ..plain()
    };
    for is_under_way in [false, true] {
        let (send, token) = wallet.token(&from, 100);
        let purse = Purse::new(&crossing.one.url());
        let proofs = wallet.executor.store.open_entity(&send).unwrap().held;
        crossing.one.restart(if is_under_way { forever.clone() } else { failing.clone() });
        let claim = crossing.claim(&wallet.executor, &token, &to);
        if is_under_way {
            wallet.work_while(&claim.id, |entity| entity.melt_initiated);
            assert_eq!(wallet.entity(&claim.id).state, EntityState::Unpaid);
            crossing.one.restart(failing.clone());
        }
        wallet.work_until(&claim.id, EntityState::Failed);
        let why = wallet.last_note(&claim.id);
        if is_under_way {
            assert_eq!(why, "Cashu token melt failed.");
        } else {
            assert!(why.contains("payment failed"), "{why}");
        }
        assert_eq!(wallet.balance(&to), (0, 0));
        assert_eq!(purse.states(&proofs), vec![State::Unspent; proofs.len()]);
        wallet.audit(&[&from, &to]);
        crossing.one.restart(plain());
        let back = wallet.executor.reverse(&send, &asked()).unwrap();
        wallet.work_until(&back.id, EntityState::Completed);
        wallet.audit(&[&from, &to]);
    }
}

#[test]
fn an_amount_whose_fees_the_token_pays_is_found_in_five_rounds_or_not_at_all() {
    let Some(crossing) = Crossing::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let (from, to) = (wallet.account(&crossing.a.url()), wallet.account(&crossing.b.url()));
    wallet.earn(&from, 1_000);
    let (_, token) = wallet.token(&from, 200);
    let quotes = || {
        let seen = crossing.a.seen().into_iter();
        seen.filter(|seen| seen.method == "POST" && seen.path == "/v1/melt/quote/bolt11").count()
    };
    // The reserve of each round, until the last, which stays.
    let reserves = |list: &'static [u64]| {
        let round = AtomicU64::new(0);
        crossing.a.edit("/v1/melt/quote/bolt11", move |quote| {
            let round = round.fetch_add(1, Ordering::SeqCst);
            let round = usize::try_from(round).unwrap().min(list.len() - 1);
            quote["fee_reserve"] = json!(list[round]);
        });
        quotes()
    };
    let claim = || wallet.executor.claim(&token, &to.id, &asked());
    let before = reserves(&[10, 20, 30, 40, 50, 60]);
    let error = claim().unwrap_err().to_string();
    assert!(error.contains("no amount was found"), "{error}");
    assert_eq!(quotes() - before, 5);
    let before = reserves(&[100_000]);
    let error = claim().unwrap_err().to_string();
    assert!(error.contains("doesn't pay the fees"), "{error}");
    assert_eq!(quotes() - before, 1);
    let before = reserves(&[10, 20, 20]);
    let found = claim().unwrap();
    assert_eq!(quotes() - before, 3);
    let unspent_ecash::EntityDetails::ReceiveQuote(quote) = &found.details else {
        panic!("it is a receive quote");
    };
    let source = quote.source.as_ref().unwrap();
    let token = u64::from(token.value().unwrap());
    assert_eq!(quote.amount + source.fee_reserve + source.input_fee, token);
    wallet.audit(&[&from, &to]);
}

#[test]
fn a_token_of_a_mint_that_is_absent_unfit_or_blocked_leaves_nothing_behind() {
    let Some(mut mint) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut payer, wallet) = (Wallet::open(theirs.path()), Wallet::open(ours.path()));
    let from = payer.account(&proxy.url());
    payer.earn(&from, 100);
    let (_, token) = payer.token(&from, 20);
    let refused = |blocklist: &MintBlocklist| {
        let error =
            wallet.executor.account_for(&token, blocklist, &asked()).unwrap_err().to_string();
        assert_eq!(wallet.executor.store.accounts().unwrap(), []);
        error
    };
    let blocked = MintBlocklist::parse(&[proxy.url()]).unwrap();
    let error = refused(&blocked);
    assert!(error.contains("blocked"), "{error}");
    proxy.edit("/v1/info", |info| {
        info["nuts"].as_object_mut().unwrap().remove("9");
    });
    let error = refused(&MintBlocklist::default());
    assert!(error.contains('9'), "{error}");
    mint.kill();
    let error = refused(&MintBlocklist::default());
    assert!(error.contains("answer"), "{error}");
}
