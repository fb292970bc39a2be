//! Keys of requests: the same request again is answered, another one is refused and does nothing.

use cashu::{CurrencyUnit, Id, Proof, Proofs, PublicKey, Token, mint_url::MintUrl, secret::Secret};
use unspent_ecash::{
    AccountKind, EcashAccount, EcashEntity, KeysetInfo, NewEntity, NewSource, NewTerms,
    OutputKeyset, PageRequest, details::SparkSendDetails,
};
use unspent_ecash_room::{
    mint::check::MintBlocklist,
    work::{EcashWorkError, payments::RequestKey},
};
use unspent_model::Micros;
use unspent_testkit::ecash::Nutshell;

use crate::wallet::{Wallet, plain};

/// Nobody listens there: whoever is asked anything fails.
const NOWHERE: &str = "http://127.0.0.1:9";
const KEYSET: &str = "00ad268c4d1f5826";

fn with_key(key: &str) -> RequestKey {
    RequestKey { idempotency_key: Some(key.into()) }
}

fn is_reused(answer: Result<EcashEntity, EcashWorkError>) -> bool {
    matches!(answer, Err(EcashWorkError::KeyReused))
}

fn account(id: &str, mint: Option<&str>) -> EcashAccount {
    EcashAccount {
        id: id.into(),
        kind: if mint.is_some() { AccountKind::Cashu } else { AccountKind::Spark },
        name: id.into(),
        mint_url: mint.map(|url| url.parse().unwrap()),
        unit: "sat".into(),
        version: 0,
    }
}

fn keyset() -> OutputKeyset {
    OutputKeyset { keyset_id: KEYSET.into(), fee_ppk: 0, amounts: vec![1, 2, 4, 8, 16] }
}

fn proofs(names: &[&str]) -> Proofs {
    let point = "02a9acc1e48c25eeeb9289b5031cc57da9fe72f3fe2861d264bdc074209b107ba2";
    let (id, c) = (KEYSET.parse::<Id>().unwrap(), point.parse::<PublicKey>().unwrap());
    let proof = |name: &&str| Proof::new(8.into(), id, Secret::new(*name), c);
    names.iter().map(proof).collect()
}

fn token(mint: &str, names: &[&str]) -> Token {
    Token::new(mint.parse::<MintUrl>().unwrap(), proofs(names), None, CurrencyUnit::Sat)
}

/// A wallet in which four payments are begun under keys of their own.
fn begun(wallet: &Wallet) {
    let store = &wallet.executor.store;
    for known in [account("home", Some(NOWHERE)), account("spark", None)] {
        store.add_account(known, Micros(1)).unwrap();
    }
    let known = KeysetInfo { keyset_id: KEYSET.into(), is_active: true, fee_ppk: 0 };
    store.put_keysets("home", vec![known]).unwrap();
    let begin = |key: &str, account_id: &str, new: NewEntity| {
        let terms = NewTerms {
            id: format!("e-{key}"),
            transaction_id: format!("t-{key}"),
            idempotency_key: Some(key.into()),
            account_id: account_id.into(),
            now: Micros(1),
            expires_at: None,
        };
        store.create(new, terms).unwrap();
    };
    let receive = |quote: &str, source| NewEntity::ReceiveQuote {
        quote_id: quote.into(),
        invoice: "lnbc1".into(),
        amount: 5,
        lock_index: 0,
        source,
    };
    begin("in", "home", receive("q1", None));
    let source = NewSource {
        mint_url: "http://127.0.0.1:10".into(),
        melt_quote_id: "m1".into(),
        proofs: proofs(&["c", "d"]),
        input_fee: 0,
        amount: 5,
        fee_reserve: 1,
        account: None,
    };
    begin("across", "home", receive("q2", Some(source)));
    let claim = NewEntity::ReceiveSwap { proofs: proofs(&["a", "b"]), keyset: keyset() };
    begin("claim", "home", claim);
    let pay = SparkSendDetails {
        invoice: "lnbc2".into(),
        payment_hash: "ab".into(),
        amount: 5,
        is_amountless: false,
        max_fee: 1,
        fee: None,
        request_id: None,
        transfer_id: None,
        preimage: None,
    };
    begin("pay", "spark", NewEntity::SparkSend(pay));
}

#[test]
fn a_key_that_was_used_for_another_request_is_refused_and_nothing_is_asked_or_made() {
    let folder = tempfile::tempdir().unwrap();
    let wallet = Wallet::open(folder.path());
    begun(&wallet);
    let executor = &wallet.executor;
    let (ours, other) = (token(NOWHERE, &["b", "a"]), token(NOWHERE, &["a", "e"]));
    let across = token("http://127.0.0.1:10", &["c", "d"]);
    // The same again, without asking anybody.
    let id = |answer: Result<EcashEntity, EcashWorkError>| answer.unwrap().id;
    assert_eq!(id(executor.receive("home", 5, &with_key("in"))), "e-in");
    assert_eq!(id(executor.claim(&ours, "home", &with_key("claim"))), "e-claim");
    assert_eq!(id(executor.claim(&across, "home", &with_key("across"))), "e-across");
    assert_eq!(id(executor.pay_by_spark("spark", " lnbc2 ", &with_key("pay"))), "e-pay");
    // Another amount, account, token, invoice.
    assert!(is_reused(executor.receive("home", 6, &with_key("in"))));
    assert!(is_reused(executor.receive_by_spark("spark", 5, &with_key("in"))));
    assert!(is_reused(executor.claim(&other, "home", &with_key("claim"))));
    assert!(is_reused(executor.claim(&ours, "spark", &with_key("claim"))));
    assert!(is_reused(executor.claim(&ours, "home", &with_key("across"))));
    assert!(is_reused(executor.pay_by_spark("spark", "lnbc3", &with_key("pay"))));
    // Another kind of request, whatever it began.
    for key in ["in", "across", "claim", "pay"] {
        let asked = with_key(key);
        assert!(is_reused(executor.send("home", 5, &asked)), "{key}");
        assert!(is_reused(executor.reverse("e-claim", &asked)), "{key}");
        assert!(is_reused(executor.pay("home", "lnbc1", &asked)), "{key}");
        assert!(key == "in" || is_reused(executor.receive("home", 5, &asked)), "{key}");
        let stranger = token("http://127.0.0.1:11", &["z"]);
        let refused = executor.account_for(&stranger, &MintBlocklist::default(), &asked);
        assert!(matches!(refused, Err(EcashWorkError::KeyReused)), "{refused:?}");
    }
    assert_eq!(executor.store.accounts().unwrap().len(), 2);
    assert_eq!(executor.store.transactions(PageRequest::first(10)).unwrap().len(), 4);
}

#[test]
fn what_is_sent_and_taken_back_is_compared_too() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&mint.url());
    wallet.earn(&account, 100);
    let executor = wallet.executor.clone();
    let sent = executor.send(&account.id, 20, &with_key("out")).unwrap();
    assert_eq!(executor.send(&account.id, 20, &with_key("out")).unwrap().id, sent.id);
    assert!(is_reused(executor.send(&account.id, 21, &with_key("out"))));
    let paid = executor.receive(&account.id, 20, &with_key("out"));
    assert!(is_reused(paid));
    wallet.work_until(&sent.id, unspent_model::ecash::EntityState::Pending);
    let back = executor.reverse(&sent.id, &with_key("back")).unwrap();
    assert_eq!(executor.reverse(&sent.id, &with_key("back")).unwrap().id, back.id);
    assert!(is_reused(executor.reverse("another", &with_key("back"))));
    assert!(is_reused(executor.reverse(&sent.id, &with_key("out"))));
    let invoice = mint.invoice(10).0;
    let paid = executor.pay(&account.id, &invoice, &with_key("bill")).unwrap();
    assert_eq!(executor.pay(&account.id, &invoice, &with_key("bill")).unwrap().id, paid.id);
    assert!(is_reused(executor.pay(&account.id, &mint.invoice(10).0, &with_key("bill"))));
    wallet.audit(&[&account]);
}
