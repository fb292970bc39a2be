//! A mint's notices over a WebSocket, and what happens when it dies.

use std::time::Duration;

use cashu::SwapRequest;
use crossbeam_channel::{Receiver, unbounded};
use unspent_ecash_room::{
    mint::check::address,
    watch::{ListenerOptions, MintListener, MintWatch, PaymentWake, WakeCause, WatchKind},
};
use unspent_testkit::ecash::{Fault, FaultProxy, MintSettings, Nutshell};

use crate::purse::{PATIENCE, Purse, wait_for};

const KINDS: [WatchKind; 3] = [WatchKind::MintQuote, WatchKind::MeltQuote, WatchKind::Proofs];

fn watch(subject: &str, kind: WatchKind, filters: Vec<String>) -> MintWatch {
    MintWatch { subject: subject.to_owned(), kind, filters }
}

/// Waits for a wake-up with this cause; others before it don't matter.
fn expect(wakes: &Receiver<PaymentWake>, subject: &str, cause: WakeCause) {
    loop {
        let wake = wakes.recv_timeout(PATIENCE);
        let wake = wake.unwrap_or_else(|_| panic!("no {cause:?} for {subject}"));
        if wake.subject == subject && wake.cause == cause {
            return;
        }
    }
}

#[test]
fn every_gap_is_followed_by_a_look_and_every_change_by_a_notice() {
    let late = MintSettings { input_fee_ppk: 0, ..Default::default() };
    let Some(mint) = Nutshell::start(late) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let purse = Purse::new(&mint.url());
    let (sender, wakes) = unbounded();
    let options = ListenerOptions {
        ping_every: Duration::from_secs(1),
        dead_after: Duration::from_secs(8),
        allow_private: true,
        ..Default::default()
    };
    let mint_url = address(&proxy.url()).unwrap();
    let listener = MintListener::start(mint_url, KINDS.to_vec(), options, sender).unwrap();
    // The first try fails: nothing is lost by it.
    proxy.script("/v1/ws", [Fault::DropRequest]);
    let proofs = purse.mint(8);
    let points = proofs.iter().map(|proof| proof.y().unwrap().to_hex()).collect();
    listener.watch([watch("send", WatchKind::Proofs, points)]);
    expect(&wakes, "send", WakeCause::Gap);
    assert!(listener.tells_of("send") && listener.trouble().is_none());

    while wakes.recv_timeout(Duration::from_secs(1)).is_ok() {}
    purse.client.swap(&SwapRequest::new(proofs, purse.outputs(8).blinded_messages())).unwrap();
    expect(&wakes, "send", WakeCause::Notice);

    assert_eq!(proxy.break_sockets(), 1);
    expect(&wakes, "send", WakeCause::Gap);

    // A socket that is open and silent is given up.
    proxy.mute_sockets(true);
    wait_for("the silence is noticed", || !listener.tells_of("send"));
    proxy.mute_sockets(false);
    while wakes.try_recv().is_ok() {}
    expect(&wakes, "send", WakeCause::Gap);

    let quote = purse.quote(21);
    listener.watch([watch("receive", WatchKind::MintQuote, vec![quote])]);
    expect(&wakes, "receive", WakeCause::Gap);
    expect(&wakes, "receive", WakeCause::Notice);
    wait_for("the other subscription ends", || !listener.tells_of("send"));
    listener.watch([]);
    wait_for("nobody listens any more", || !listener.tells_of("receive"));
}

#[test]
fn what_a_mint_gives_no_notice_of_is_not_asked_for() {
    let (sender, _wakes) = unbounded();
    let nobody = address("http://127.0.0.1:9").unwrap();
    let kinds = vec![WatchKind::Proofs];
    let options = ListenerOptions { allow_private: true, ..Default::default() };
    let listener = MintListener::start(nobody, kinds, options, sender).unwrap();
    listener.watch([watch("receive", WatchKind::MintQuote, vec!["x".into()])]);
    assert!(!listener.tells_of("receive"));
    listener.watch([watch("send", WatchKind::Proofs, vec!["y".into()])]);
    wait_for("the mint can't be reached", || listener.trouble().is_some());
    assert!(!listener.tells_of("send"));
}
