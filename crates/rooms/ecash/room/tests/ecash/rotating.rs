//! Keysets that a real mint retires in the middle of a payment.

use unspent_ecash::EcashAccount;
use unspent_model::ecash::EntityState;
use unspent_testkit::ecash::{Fault, FaultProxy, MintSettings, Nutshell};

use crate::wallet::{Wallet, asked, plain};

struct Bench {
    mint: Nutshell,
    proxy: FaultProxy,
    _folder: tempfile::TempDir,
    wallet: Wallet,
    account: EcashAccount,
}

fn start() -> Option<Bench> {
    let mint = Nutshell::start(MintSettings { rotates: true, ..plain() })?;
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&proxy.url());
    wallet.earn(&account, 1_000);
    Some(Bench { mint, proxy, _folder: folder, wallet, account })
}

/// Retires the keyset and checks that a payment has new outputs at its end.
fn ends_on_another_keyset(bench: &mut Bench, id: &str, end: EntityState) {
    let keyset = |wallet: &Wallet| wallet.entity(id).details.range().unwrap().keyset_id.clone();
    let before = keyset(&bench.wallet);
    bench.mint.rotate("sat");
    bench.wallet.work_until(id, end);
    assert_ne!(keyset(&bench.wallet), before);
    bench.wallet.audit(&[&bench.account]);
}

/// Enough that nothing arrives before the keyset is retired.
fn lost() -> [Fault; 3] {
    [Fault::DropRequest, Fault::DropRequest, Fault::DropRequest]
}

#[test]
fn a_keyset_that_is_retired_before_a_swap_or_an_issue_is_no_obstacle() {
    let Some(mut bench) = start() else { return };
    let send = bench.wallet.executor.send(&bench.account.id, 100, &asked()).unwrap();
    ends_on_another_keyset(&mut bench, &send.id, EntityState::Pending);
    let back = bench.wallet.executor.reverse(&send.id, &asked()).unwrap();
    ends_on_another_keyset(&mut bench, &back.id, EntityState::Completed);

    let quote = bench.wallet.executor.receive(&bench.account.id, 50, &asked()).unwrap();
    bench.proxy.script("/v1/mint/bolt11", lost());
    bench.wallet.work_until(&quote.id, EntityState::Paid);
    ends_on_another_keyset(&mut bench, &quote.id, EntityState::Completed);
    let (left, reserved) = bench.wallet.balance(&bench.account);
    assert!(reserved == 0 && left > 1_040 && left <= 1_050, "{left}");
}

#[test]
fn a_keyset_that_is_retired_before_a_melt_is_no_obstacle() {
    let Some(mut bench) = start() else { return };
    let Some(other) = Nutshell::start(plain()) else { return };
    let invoice = other.invoice(100).0;
    let paid = bench.wallet.executor.pay(&bench.account.id, &invoice, &asked()).unwrap();
    bench.proxy.script("/v1/melt/bolt11", lost());
    bench.wallet.work_while(&paid.id, |entity| entity.melt_initiated);
    ends_on_another_keyset(&mut bench, &paid.id, EntityState::Paid);
    let (left, reserved) = bench.wallet.balance(&bench.account);
    assert!(reserved == 0 && left > 885 && left < 900, "{left}");
}
