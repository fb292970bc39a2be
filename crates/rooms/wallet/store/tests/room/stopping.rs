//! Nothing that one wallet holds may stop the others.

use bitcoin::ScriptBuf;
use unspent_model::Micros;
use unspent_sql::{Arg, SqlError};
use unspent_wallet::{
    NewAccount, WalletId, placed_block::PlacedBlock, wallet_info::KeychainPurpose,
};

use crate::ledger::*;

/// Changes rows behind the room's back.
fn tamper(l: &Ledger, sql: &'static str, wallet: WalletId, text: &str) {
    let text = text.to_owned();
    l.own_door()
        .write(move |tx| -> Result<_, SqlError> {
            tx.execute(sql, &[Arg::Int(wallet.0), Arg::Text(&text)])
        })
        .unwrap();
}

const SET_DESCRIPTOR: &str = "UPDATE keychains SET descriptor = $2
    WHERE wallet_id = $1 AND purpose = 'receive'";

fn stopped_at(l: &Ledger, wallet: WalletId) -> Option<Option<u64>> {
    l.room.wallet_info(wallet).unwrap().stopped.map(|stopped| stopped.height)
}

fn confirmed(l: &Ledger, wallet: WalletId) -> u64 {
    l.room.balance(wallet, 1, Micros(l.now.get())).unwrap().confirmed.sats
}

/// Feeds all blocks again, as a scan does for whoever is behind.
fn feed_again(l: &Ledger) {
    let all: Vec<PlacedBlock> = l.chain.borrow().clone();
    l.room.apply_blocks(all, Micros(l.tick())).unwrap();
}

#[test]
fn a_script_watched_by_itself_is_adopted_when_its_chain_reaches_it() {
    on_both(|l| {
        let far = l.ours(25);
        l.room.import_script(l.wallet, &far).unwrap();
        let early = tx(&[foreign(1)], &[(&far, 700)]);
        l.mine(&[&early]);
        // Inside the gap: the chain is now to reach index 25 and beyond.
        l.mine(&[&tx(&[foreign(2)], &[(&l.ours(10), 50)])]);
        assert_eq!(l.balance().confirmed.sats, 750);
        let all = l.room.addresses(l.wallet, 0, 1_000).unwrap();
        let found: Vec<_> = all.iter().filter(|address| address.script == far).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].purpose.as_str(), found[0].index), ("receive", 25));
        // It was used, so that twenty more follow it.
        let last = all.iter().filter(|a| a.purpose == "receive").map(|a| a.index).max();
        assert_eq!(last, Some(45));
        assert!(all.iter().all(|address| address.purpose != "imported"));
        let next = l.room.next_address(l.wallet, None, KeychainPurpose::Receive).unwrap();
        assert_eq!(next.index, 26);
        l.check();
    });
}

#[test]
fn adoption_and_payment_may_come_in_one_block() {
    on_both(|l| {
        l.room.import_script(l.wallet, &l.ours(25)).unwrap();
        let both = tx(&[foreign(1)], &[(&l.ours(25), 700), (&l.ours(10), 50), (&l.ours(44), 5)]);
        l.mine(&[&both]);
        assert_eq!(l.balance().confirmed.sats, 755);
    });
}

#[test]
fn a_script_of_another_account_stays_there_and_leaves_a_hole() {
    on_both(|l| {
        let one = descriptor(1).replace("<0;1>/*", "0/25");
        let account = NewAccount { name: "one".into(), receive: one, change: None };
        l.room.add_account(l.wallet, &account).unwrap();
        l.mine(&[&tx(&[foreign(1)], &[(&l.ours(10), 50)])]);
        l.mine(&[&tx(&[foreign(2)], &[(&l.ours(25), 7), (&l.ours(30), 1)])]);
        assert_eq!(l.balance().confirmed.sats, 58);
        let all = l.room.addresses(l.wallet, 0, 1_000).unwrap();
        let at_25 = all.iter().find(|address| address.script == l.ours(25)).unwrap();
        assert_eq!((at_25.account.as_str(), at_25.index), ("one", 0));
        l.check();
    });
}

#[test]
fn handing_out_addresses_steps_over_a_hole() {
    on_both(|l| {
        let one = descriptor(1).replace("<0;1>/*", "0/25");
        let account = NewAccount { name: "one".into(), receive: one, change: None };
        l.room.add_account(l.wallet, &account).unwrap();
        let handed: Vec<u32> = (0..28)
            .map(|_| {
                l.room.next_address(l.wallet, Some("main"), KeychainPurpose::Receive).unwrap().index
            })
            .collect();
        let expected: Vec<u32> = (0..29).filter(|index| *index != 25).collect();
        assert_eq!(handed, expected);
    });
}

#[test]
fn a_wallet_that_cannot_take_a_block_stays_behind_alone_and_can_be_resumed() {
    on_both(|l| {
        let other = l.other_wallet("other", 2);
        let theirs_now = l.room.next_address(other, None, KeychainPurpose::Receive).unwrap().script;
        l.fund(1, 1_000);
        tamper(&l, SET_DESCRIPTOR, l.wallet, "wpkh(nonsense)");
        let pay_both = |n: u32, ours: &ScriptBuf| tx(&[foreign(n)], &[(ours, 5), (&theirs_now, 9)]);
        let blocks: Vec<PlacedBlock> = (2..5)
            .map(|n| {
                let block = l.block(&[&pay_both(n, &l.ours(n))]);
                l.chain.borrow_mut().push(block.clone());
                block
            })
            .collect();
        let applied = l.room.apply_blocks(blocks, Micros(l.tick())).unwrap();
        assert_eq!(applied.stopped.iter().copied().collect::<Vec<_>>(), [l.wallet]);
        assert_eq!(applied.moved.iter().copied().collect::<Vec<_>>(), [other]);
        assert_eq!((confirmed(&l, l.wallet), confirmed(&l, other)), (1_000, 27));
        assert_eq!(stopped_at(&l, l.wallet), Some(Some(FIRST + 1)));
        let info = l.room.wallet_info(l.wallet).unwrap();
        assert_eq!(info.scanned.unwrap().height, FIRST);
        // Later blocks pass it by, and so does what a mempool says.
        l.mine(&[&pay_both(7, &l.ours(0))]);
        l.mempool(&pay_both(8, &l.ours(0)));
        assert_eq!((confirmed(&l, l.wallet), confirmed(&l, other)), (1_000, 36));
        // Resumed too early it stops again.
        l.room.resume_wallet(l.wallet).unwrap();
        feed_again(&l);
        assert_eq!(stopped_at(&l, l.wallet), Some(Some(FIRST + 1)));
        tamper(&l, SET_DESCRIPTOR, l.wallet, &descriptor(1).replace("<0;1>", "0"));
        l.room.resume_wallet(l.wallet).unwrap();
        feed_again(&l);
        assert_eq!((confirmed(&l, l.wallet), confirmed(&l, other)), (1_020, 36));
        assert_eq!(stopped_at(&l, l.wallet), None);
        l.check();
        assert!(l.room.audit(other).unwrap().is_empty());
    });
}

#[test]
fn a_wallet_whose_mempool_news_fail_is_stopped_alone() {
    on_both(|l| {
        let other = l.other_wallet("other", 2);
        let theirs_now = l.room.next_address(other, None, KeychainPurpose::Receive).unwrap().script;
        tamper(&l, SET_DESCRIPTOR, l.wallet, "wpkh(nonsense)");
        let both = tx(&[foreign(1)], &[(&l.ours(3), 5), (&theirs_now, 9)]);
        let done = l.see(&both, unspent_wallet::TxSource::Mempool).unwrap();
        assert_eq!(done.wallets.iter().copied().collect::<Vec<_>>(), [other]);
        assert_eq!(stopped_at(&l, l.wallet), Some(None));
        assert_eq!(stopped_at(&l, other), None);
    });
}

#[test]
fn a_reorganisation_goes_on_over_a_wallet_that_cannot_follow_it() {
    const BREAK: &str = "UPDATE wallets SET confirmed_amount = 0, name = $2 WHERE id = $1";
    on_both(|l| {
        let other = l.other_wallet("other", 2);
        let theirs_now = l.room.next_address(other, None, KeychainPurpose::Receive).unwrap().script;
        l.mine_empty(1);
        l.mine(&[&tx(&[foreign(1)], &[(&l.ours(0), 1_000), (&theirs_now, 900)])]);
        tamper(&l, BREAK, l.wallet, "ours");
        l.room.disconnect_above(Some(FIRST), Micros(l.tick())).unwrap();
        let gone = l.chain.borrow_mut().pop().unwrap();
        assert_eq!((confirmed(&l, l.wallet), confirmed(&l, other)), (0, 0));
        assert!(l.room.audit(other).unwrap().is_empty());
        assert_eq!(stopped_at(&l, l.wallet), Some(Some(FIRST + 1)));
        l.mine_empty_unchecked(2);
        assert_eq!(l.room.wallet_info(other).unwrap().scanned.unwrap().height, FIRST + 2);
        // Nothing was broken but the total, and that was counted anew.
        l.room.resume_wallet(l.wallet).unwrap();
        feed_again(&l);
        l.mine(&[&gone.block.txdata[1]]);
        assert_eq!((confirmed(&l, l.wallet), confirmed(&l, other)), (1_000, 900));
    });
}
