//! What a real mint answers, and the classes that follow.

use std::time::Duration;

use cashu::{
    Amount, CurrencyUnit, MeltQuoteBolt11Request, MeltQuoteState, MeltRequest,
    MintQuoteBolt11Request, MintRequest, Proofs, RestoreRequest, SecretKey, State, SwapRequest,
};
use unspent_ecash::flow::FaultClass;
use unspent_ecash_room::mint::{MintClient, MintOptions, NoResult, check::address};
use unspent_testkit::ecash::{Fault, FaultProxy, Lightning, MintSettings, Nutshell};

use crate::purse::{Purse, options, wait_for};

/// The code and the class of a fault.
fn met<T: std::fmt::Debug>(answer: Result<T, NoResult>) -> (Option<u16>, FaultClass) {
    let fault = answer.expect_err("the mint should refuse this");
    (fault.code(), fault.fault().class())
}

fn sum(proofs: &Proofs) -> u64 {
    proofs.iter().map(|proof| u64::from(proof.amount)).sum()
}

#[test]
fn minting_and_swapping_twice_is_told_from_never_having_done_it() {
    let Some(mint) = Nutshell::start(MintSettings { input_fee_ppk: 0, ..Default::default() })
    else {
        return;
    };
    let purse = Purse::new(&mint.url());
    let quote = purse.quote(64);
    purse.wait_paid(&quote);
    let outputs = purse.outputs(64).blinded_messages();
    let request = MintRequest { quote, outputs, signature: None };
    purse.client.mint(&request).unwrap();
    assert_eq!(met(purse.client.mint(&request)), (Some(11_003), FaultClass::DoneAlready));
    let others = MintRequest { outputs: purse.outputs(64).blinded_messages(), ..request };
    assert_eq!(met(purse.client.mint(&others)), (Some(20_002), FaultClass::DoneAlready));

    let proofs = purse.mint(64);
    let outputs = purse.outputs(64).blinded_messages();
    let swap = SwapRequest::new(proofs.clone(), outputs.clone());
    let signed = purse.client.swap(&swap).unwrap().signatures;
    assert_eq!(met(purse.client.swap(&swap)), (Some(11_001), FaultClass::UnknownOutcome));
    assert_eq!(purse.states(&proofs), vec![State::Spent; proofs.len()]);
    let restored = purse.client.restore(&RestoreRequest { outputs: outputs.clone() }).unwrap();
    let points = |signed: &[cashu::BlindSignature]| signed.iter().map(|s| s.c).collect::<Vec<_>>();
    assert_eq!(
        (restored.outputs.len(), points(&restored.signatures)),
        (outputs.len(), points(&signed))
    );
    let unknown = RestoreRequest { outputs: purse.outputs(64).blinded_messages() };
    assert!(purse.client.restore(&unknown).unwrap().signatures.is_empty());

    let proofs = purse.mint(8);
    let too_much = SwapRequest::new(proofs.clone(), purse.outputs(16).blinded_messages());
    // Nutshell has a code of its own for whatever is wrong with a transaction.
    assert_eq!(met(purse.client.swap(&too_much)), (Some(11_000), FaultClass::UnknownOutcome));
    let mut strange = purse.outputs(8).blinded_messages();
    for output in &mut strange {
        output.keyset_id = "00ad268c4d1f5826".parse().unwrap();
    }
    let strange = SwapRequest::new(proofs.clone(), strange);
    assert_eq!(met(purse.client.swap(&strange)), (Some(11_000), FaultClass::UnknownOutcome));
    assert_eq!(purse.states(&proofs), vec![State::Unspent; proofs.len()]);
}

#[test]
fn quotes_that_are_unpaid_locked_or_unheard_of() {
    let Some(mint) =
        Nutshell::start(MintSettings { invoices_are_paid: false, ..Default::default() })
    else {
        return;
    };
    let purse = Purse::new(&mint.url());
    let outputs = purse.outputs(8).blinded_messages();
    let unpaid = MintRequest { quote: purse.quote(8), outputs: outputs.clone(), signature: None };
    assert_eq!(met(purse.client.mint(&unpaid)), (Some(20_001), FaultClass::Transient));
    assert_eq!(met(purse.client.read_mint_quote("nobody")).1, FaultClass::UnknownOutcome);
    assert_eq!(met(purse.client.read_melt_quote("nobody")).1, FaultClass::UnknownOutcome);
    let locked = MintQuoteBolt11Request {
        amount: 8.into(),
        unit: CurrencyUnit::Sat,
        description: None,
        pubkey: Some(SecretKey::generate().public_key()),
    };
    let locked = purse.client.mint_quote(&locked).unwrap();
    assert!(locked.pubkey.is_some());
    let unsigned = MintRequest { quote: locked.quote, outputs, signature: None };
    let (code, class) = met(purse.client.mint(&unsigned));
    // Which of the two it looks at first is the mint's choice.
    assert!(
        (code, class) == (Some(20_008), FaultClass::LockFormat)
            || (code, class) == (Some(20_001), FaultClass::Transient),
        "{code:?} {class:?}"
    );
}

#[test]
fn melts_that_are_on_their_way_fail_or_are_paid() {
    let forever = MintSettings {
        input_fee_ppk: 0,
        paid_at_once: Lightning::Pending,
        asked_later: Lightning::Pending,
        ..Default::default()
    };
    let Some(mut mint) = Nutshell::start(forever.clone()) else { return };
    let Some(other) = Nutshell::start(MintSettings::default()) else { return };
    let purse = Purse::new(&mint.url());
    let proofs = purse.mint(256);
    let quote = melt_quote(&purse, &other.invoice(100).0);
    let blanks = purse.outputs(0xff).blinded_messages();
    let melt = MeltRequest::new(quote.clone(), proofs.clone(), Some(blanks));
    let sent = purse.client.melt(&melt).unwrap();
    assert_eq!(sent.state, MeltQuoteState::Pending);
    assert_eq!(purse.states(&proofs)[0], State::Pending);
    let swap = SwapRequest::new(proofs.clone(), purse.outputs(256).blinded_messages());
    assert_eq!(met(purse.client.swap(&swap)), (Some(11_002), FaultClass::Transient));
    assert_eq!(met(purse.client.melt(&melt)).1, FaultClass::UnknownOutcome);

    mint.restart(MintSettings { asked_later: Lightning::Settled, ..forever.clone() });
    // The mint settles it by itself and when it is asked, and one of the two may meet the other.
    let read = || purse.client.read_melt_quote(&quote);
    wait_for("the melt is paid", || read().is_ok_and(|q| q.state == MeltQuoteState::Paid));
    assert_eq!(purse.states(&proofs)[0], State::Spent);
    let change: u64 = read().unwrap().change.unwrap().iter().map(|sig| u64::from(sig.amount)).sum();
    assert!(change > 0 && change <= 156, "{change}");
    assert_eq!(met(purse.client.melt(&melt)).1, FaultClass::UnknownOutcome);

    mint.restart(MintSettings {
        paid_at_once: Lightning::Failed,
        asked_later: Lightning::Failed,
        ..forever
    });
    let proofs = purse.mint(256);
    let quote = melt_quote(&purse, &other.invoice(100).0);
    let melt = MeltRequest::new(quote.clone(), proofs.clone(), None);
    assert_eq!(met(purse.client.melt(&melt)), (Some(20_004), FaultClass::Definite));
    assert_eq!(purse.client.read_melt_quote(&quote).unwrap().state, MeltQuoteState::Unpaid);
    assert_eq!(purse.states(&proofs), vec![State::Unspent; proofs.len()]);
}

fn melt_quote(purse: &Purse, invoice: &str) -> String {
    let request = MeltQuoteBolt11Request {
        request: invoice.parse().unwrap(),
        unit: CurrencyUnit::Sat,
        options: None,
    };
    let quote = purse.client.melt_quote(&request).unwrap();
    assert_eq!(quote.amount, Amount::from(100));
    quote.quote
}

#[test]
fn a_bad_line_never_looks_like_a_refusal() {
    let Some(mint) = Nutshell::start(MintSettings { input_fee_ppk: 0, ..Default::default() })
    else {
        return;
    };
    let proxy = FaultProxy::start(&mint.url());
    let purse = Purse::new(&proxy.url());
    let swap = |proofs: &Proofs| {
        let outputs = purse.outputs(sum(proofs)).blinded_messages();
        let request = SwapRequest::new(proofs.clone(), outputs.clone());
        (met(purse.client.swap(&request)).1, outputs)
    };
    let proofs = purse.mint(16);
    let page = |status: u16| Fault::Answer { status, body: "<html>no</html>".into() };
    let faults = [
        (Fault::DropRequest, FaultClass::UnknownOutcome),
        (Fault::TooMany(0), FaultClass::Transient),
        (page(502), FaultClass::UnknownOutcome),
        (page(200), FaultClass::UnknownOutcome),
        (page(302), FaultClass::UnknownOutcome),
        (Fault::error(50_000, "x"), FaultClass::UnknownOutcome),
        (Fault::Answer { status: 200, body: "[".repeat(9 << 20) }, FaultClass::UnknownOutcome),
    ];
    for (fault, class) in faults {
        proxy.script("/v1/swap", [fault]);
        assert_eq!(swap(&proofs).0, class);
    }
    assert_eq!(purse.states(&proofs), vec![State::Unspent; proofs.len()]);
    for fault in [Fault::DropAnswer, Fault::CutAnswer] {
        let proofs = purse.mint(16);
        proxy.script("/v1/swap", [fault.clone()]);
        let (class, outputs) = swap(&proofs);
        assert_eq!(class, FaultClass::UnknownOutcome, "{fault:?}");
        // The mint did it all the same, and gives the signatures again.
        assert_eq!(purse.states(&proofs), vec![State::Spent; proofs.len()]);
        let restored = purse.client.restore(&RestoreRequest { outputs: outputs.clone() }).unwrap();
        assert_eq!(restored.outputs, outputs);
    }
}

#[test]
fn a_mint_that_takes_too_long_is_not_waited_for() {
    let Some(mint) = Nutshell::start(MintSettings::default()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let hasty = MintOptions { read_deadline: Duration::from_millis(300), ..options() };
    let client = MintClient::new(address(&proxy.url()).unwrap(), hasty);
    proxy.script("/v1/info", [Fault::Delay(Duration::from_secs(5))]);
    assert_eq!(met(client.info()).1, FaultClass::UnknownOutcome);
    mint_away(mint, &client);
}

fn mint_away(mut mint: Nutshell, client: &MintClient) {
    mint.kill();
    let fault = client.keysets().expect_err("nobody is there");
    assert!(matches!(fault, NoResult::NoAnswer { .. }), "{fault}");
}
