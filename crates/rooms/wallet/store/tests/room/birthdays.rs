//! Wallets of which only a date is known, and how far a wallet has come.

use unspent_model::Micros;
use unspent_wallet::{
    additions::WatchAdditions,
    birthday::ScanProgress,
    import::{AccountImport, WalletImport},
    placed_block::PlacedBlock,
};

use crate::ledger::*;

const DATE: u64 = 1_700_000_000;

fn blocks(l: &Ledger, from: u64, to: u64) -> Vec<PlacedBlock> {
    let chain = l.chain.borrow();
    chain.iter().filter(|block| (from..=to).contains(&block.height)).cloned().collect()
}

#[test]
fn a_birthday_that_is_a_date_waits_to_be_settled_at_its_block() {
    on_both(|l| {
        l.mine_empty(3);
        let new = new_wallet("dated", 7);
        let made = l.room.create_wallet_born(&new, &[], Some(DATE), Micros(l.tick())).unwrap();
        let info = || l.room.wallet_info(made).unwrap();
        assert_eq!((info().birthday, info().birthday_time), (0, Some(DATE)));
        assert!(info().is_birthday_open);
        let waiting = l.room.open_birthdays().unwrap();
        assert_eq!(waiting.iter().map(|info| info.id).collect::<Vec<_>>(), [made]);
        l.mine_empty(1);
        assert_eq!(info().scanned, None, "the tip can't know that it may join");
        assert_eq!(l.room.behind(l.height(), 5).unwrap()[0].id, made, "so it is brought up");
        l.room.settle_birthday(made, FIRST + 1).unwrap();
        assert_eq!((info().birthday, info().is_birthday_open), (FIRST + 1, false));
        assert_eq!(info().birthday_time, Some(DATE), "the date is remembered");
        l.room.settle_birthday(made, 5).unwrap();
        assert_eq!(info().birthday, FIRST + 1, "once is enough");
        l.room.apply_blocks(blocks(&l, FIRST + 1, l.height()), Micros(l.tick())).unwrap();
        assert_eq!(info().scanned.map(|place| place.height), Some(l.height()));
        assert!(l.room.open_birthdays().unwrap().is_empty());
    });
}

#[test]
fn a_birthday_that_is_never_settled_is_read_from_the_first_block() {
    on_both(|l| {
        let account = AccountImport {
            account: new_wallet("", 7).accounts.remove(0),
            next: [0, 0],
            used: Vec::new(),
        };
        let import = WalletImport {
            name: "dated".into(),
            born: Some(DATE),
            gap_limit: 20,
            accounts: vec![account],
            ..WalletImport::default()
        };
        l.room.import(import, false, Micros(l.tick())).unwrap();
        let info = || l.room.wallet_info(l.room.wallet("dated").unwrap()).unwrap();
        assert!(info().is_birthday_open);
        assert_eq!(l.room.first_needed().unwrap(), Some(0));
        // Files that begin later, taken as they are.
        l.room.start_unscanned_at(FIRST).unwrap();
        assert_eq!((info().birthday, info().is_birthday_open), (FIRST, false));
    });
}

#[test]
fn a_wallet_tells_how_far_its_scan_has_come() {
    on_both(|l| {
        l.mine_empty(10);
        let last = FIRST + 9;
        let progress = || l.room.wallet_info(l.wallet).unwrap().progress(Some(last));
        assert_eq!(progress(), None);
        let ahead = l.room.wallet_info(l.wallet).unwrap().progress(Some(last + 5)).unwrap();
        assert_eq!((ahead.next, ahead.to), (last + 1, last + 5), "the source is ahead");
        l.room.rewind(l.wallet, Some(FIRST + 4), Micros(l.tick())).unwrap();
        let (from, is_backfill) = (FIRST + 5, false);
        let begun = ScanProgress { is_backfill, from, next: from, to: last };
        assert_eq!(progress(), Some(begun));
        assert!(begun.fraction() == 0.0);
        l.room.apply_blocks(blocks(&l, from, from + 1), Micros(l.tick())).unwrap();
        let later = progress().unwrap();
        assert_eq!(later, ScanProgress { next: from + 2, ..begun });
        assert!((later.fraction() - 0.4).abs() < 1e-9, "{}", later.fraction());
        l.room.apply_blocks(blocks(&l, from + 2, last), Micros(l.tick())).unwrap();
        assert_eq!(progress(), None);
        let additions = WatchAdditions { scripts: vec![theirs(9)], ..WatchAdditions::default() };
        l.room.extend_wallet(l.wallet, &additions, Some(FIRST)).unwrap();
        l.room.backfill(l.wallet, blocks(&l, FIRST, FIRST + 3), Micros(l.tick())).unwrap();
        let past = ScanProgress { is_backfill: true, from: FIRST, next: FIRST + 4, to: last };
        assert_eq!(progress(), Some(past));
        assert!((past.fraction() - 0.4).abs() < 1e-9);
        // Another script with a shorter past changes nothing, one with a longer begins anew.
        let additions = WatchAdditions { scripts: vec![theirs(10)], ..WatchAdditions::default() };
        l.room.extend_wallet(l.wallet, &additions, Some(FIRST + 6)).unwrap();
        assert_eq!(progress(), Some(past));
        let additions = WatchAdditions { scripts: vec![theirs(11)], ..WatchAdditions::default() };
        l.room.extend_wallet(l.wallet, &additions, Some(FIRST + 2)).unwrap();
        let (from, next) = (FIRST + 2, FIRST + 2);
        assert_eq!(progress(), Some(ScanProgress { from, next, ..past }));
        l.room.archive_wallet(l.wallet, Some(Micros(l.tick()))).unwrap();
        assert_eq!(progress(), None, "nobody reads blocks for it");
    });
}
