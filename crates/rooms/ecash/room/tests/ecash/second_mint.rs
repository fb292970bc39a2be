//! The room against cdk-mintd, the second implementation of a mint: what Nutshell can't show.
//!
//! Not part of `make test`, since the mint takes long to build: `make test-cdk-mintd`.

use std::time::Duration;

use cashu::Token;
use serde_json::{Value, json};
use unspent_ecash::EcashAccount;
use unspent_ecash_room::mint::MintOptions;
use unspent_model::ecash::EntityState;
use unspent_testkit::ecash::{CdkMint, CdkSettings, Fault, FaultProxy};

use crate::{
    purse::options,
    wallet::{Setup, Wallet, asked},
};

/// A wallet with 1,000 at a mint, over a line that may be bad.
struct Place {
    mint: CdkMint,
    /// Whoever is paid: a mint settles its own invoices without its Lightning side.
    other: CdkMint,
    proxy: FaultProxy,
    folder: tempfile::TempDir,
    wallet: Wallet,
    account: EcashAccount,
}

fn start(settings: CdkSettings, mints: MintOptions) -> Option<Place> {
    let mint = CdkMint::start(settings)?;
    let other = CdkMint::start(CdkSettings::default())?;
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::with(folder.path(), Setup { mints, ..Setup::default() });
    let account = wallet.account(&proxy.url());
    wallet.earn(&account, 1_000);
    Some(Place { mint, other, proxy, folder, wallet, account })
}

fn fate(paid: &str, asked_later: &str, pay_err: bool, check_err: bool) -> Value {
    json!({
        "pay_invoice_state": paid, "check_payment_state": asked_later,
        "pay_err": pay_err, "check_err": check_err,
    })
}

#[test]
fn the_second_mint_takes_the_whole_round() {
    let Some(mut place) = start(CdkSettings::default(), options()) else { return };
    let theirs = tempfile::tempdir().unwrap();
    let mut bob = Wallet::open(theirs.path());
    // The same address as in the token: the mint is known by it.
    let to = bob.account(&place.proxy.url());
    let (id, token) = place.wallet.token(&place.account, 100);
    let token: Token = token.to_string().parse().unwrap();
    let claim = bob.executor.claim(&token, &to.id, &asked()).unwrap();
    bob.work_until(&claim.id, EntityState::Completed);
    assert_eq!(bob.balance(&to), (100, 0));
    place.wallet.work_until(&id, EntityState::Completed);
    let (back, _) = place.wallet.token(&place.account, 200);
    let reversal = place.wallet.executor.reverse(&back, &asked()).unwrap();
    place.wallet.work_until(&reversal.id, EntityState::Completed);
    assert_eq!(place.wallet.entity(&back).state, EntityState::Reversed);
    let invoice = place.other.invoice(50, &fate("PAID", "PAID", false, false));
    let paid = place.wallet.executor.pay(&place.account.id, &invoice, &asked()).unwrap();
    place.wallet.work_until(&paid.id, EntityState::Paid);
    assert_eq!(place.wallet.balance(&place.account).1, 0);
    place.wallet.audit(&[&place.account]);
    bob.audit(&[&to]);
}

/// Within the mint's memory the same swap gives the same answer; later it is refused, and the
/// outputs are restored.
#[test]
fn a_lost_swap_is_repeated_or_restored() {
    for repeats_for in [60, 1] {
        let settings = CdkSettings { repeats_for, ..CdkSettings::default() };
        let Some(mut place) = start(settings, options()) else { return };
        let send = place.wallet.executor.send(&place.account.id, 77, &asked()).unwrap();
        place.proxy.script("/v1/swap", [Fault::DropAnswer]);
        if repeats_for == 1 {
            place.wallet.work_for(Duration::from_millis(300));
            std::thread::sleep(Duration::from_secs(3));
        }
        place.wallet.work_until(&send.id, EntityState::Pending);
        let range = place.wallet.entity(&send.id).details.range().cloned().unwrap();
        let sum: u64 = range.amounts.iter().sum();
        let (free, held) = place.wallet.balance(&place.account);
        assert!(free + held <= 1_000 && held >= 77, "{free} and {held} of outputs worth {sum}");
        place.wallet.audit(&[&place.account]);
    }
}

/// A melt that never answers is asked for once, and its proofs stay reserved.
#[test]
fn a_melt_that_hangs_stays_pending() {
    let mints = MintOptions { act_deadline: Duration::from_secs(5), ..options() };
    let Some(mut place) = start(CdkSettings::default(), mints) else { return };
    let invoice = place.other.invoice(100, &fate("PENDING", "PENDING", false, false));
    let paid = place.wallet.executor.pay(&place.account.id, &invoice, &asked()).unwrap();
    place.wallet.work_until(&paid.id, EntityState::Pending);
    let held = place.wallet.balance(&place.account).1;
    place.wallet.work_for(Duration::from_secs(8));
    assert_eq!(place.wallet.entity(&paid.id).state, EntityState::Pending);
    assert_eq!(place.wallet.balance(&place.account).1, held);
    assert!(held > 100 && place.proxy.count("/v1/melt/bolt11") == 1, "{held}");
    place.wallet.audit(&[&place.account]);
}

/// Beside a plain failure: an inner error is no proof of anything, a failed payment is.
#[test]
fn an_inner_error_lets_nothing_go_and_a_failure_does() {
    let Some(mut place) = start(CdkSettings::default(), options()) else { return };
    let failing = place.other.invoice(100, &fate("FAILED", "FAILED", false, false));
    let failed = place.wallet.executor.pay(&place.account.id, &failing, &asked()).unwrap();
    place.wallet.work_until(&failed.id, EntityState::Failed);
    assert_eq!(place.wallet.balance(&place.account), (1_000, 0));
    let broken = place.other.invoice(100, &fate("UNKNOWN", "UNKNOWN", true, true));
    let open = place.wallet.executor.pay(&place.account.id, &broken, &asked()).unwrap();
    place.wallet.work_for(Duration::from_secs(8));
    let state = place.wallet.entity(&open.id).state;
    assert!(matches!(state, EntityState::Unpaid | EntityState::Pending), "{state}");
    assert!(place.wallet.balance(&place.account).1 > 100);
    place.wallet.audit(&[&place.account]);
}

/// Another fee retires the keyset while a payment is on its way.
#[test]
fn another_fee_retires_the_keyset_and_payments_go_on() {
    let Some(mut place) = start(CdkSettings::default(), options()) else { return };
    let send = place.wallet.executor.send(&place.account.id, 100, &asked()).unwrap();
    let before = place.wallet.entity(&send.id).details.range().unwrap().keyset_id.clone();
    place.mint.restart(CdkSettings { input_fee_ppk: 200, ..CdkSettings::default() });
    place.wallet.work_until(&send.id, EntityState::Pending);
    let after = place.wallet.entity(&send.id).details.range().unwrap().keyset_id.clone();
    assert_ne!(before, after, "outputs of the new keyset");
    place.wallet.audit(&[&place.account]);
    drop(place.folder);
}
