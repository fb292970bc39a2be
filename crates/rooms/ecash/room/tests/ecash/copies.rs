//! Older copies of a database at a real mint.

use std::path::{Path, PathBuf};

use unspent_ecash::EcashAccount;
use unspent_ecash_room::work::counters::COUNTERS_FILE;
use unspent_model::ecash::EntityState;
use unspent_testkit::ecash::Nutshell;

use crate::{
    purse::wait_for,
    wallet::{Setup, Wallet, asked, plain},
};

struct Bench {
    _mint: Nutshell,
    /// The data folder; the key and the counters lie beside it.
    data: PathBuf,
    folder: tempfile::TempDir,
    account: EcashAccount,
    marks: bool,
}

fn start(marks: bool) -> Option<Bench> {
    let mint = Nutshell::start(plain())?;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mut bench = Bench {
        account: EcashAccount {
            id: String::new(),
            kind: unspent_ecash::AccountKind::Cashu,
            name: String::new(),
            mint_url: None,
            unit: String::new(),
            version: 0,
        },
        data,
        folder,
        marks,
        _mint: mint,
    };
    let wallet = bench.open();
    bench.account = wallet.account(&bench._mint.url());
    Some(bench)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

impl Bench {
    fn open(&self) -> Wallet {
        let counters =
            if self.marks { vec![self.folder.path().join(COUNTERS_FILE)] } else { vec![] };
        Wallet::with(&self.data, Setup { counters, ..Setup::default() })
    }

    /// The database as it is, to be put back.
    fn save(&self, name: &str) -> PathBuf {
        let place = self.folder.path().join(name);
        copy(&self.data, &place);
        place
    }

    fn put_back(&self, saved: &Path) {
        std::fs::remove_dir_all(&self.data).unwrap();
        copy(saved, &self.data);
    }

    fn scanned(&self, wallet: &mut Wallet) {
        wait_for("scans are over", || {
            wallet.work_for(std::time::Duration::from_millis(200));
            wallet.executor.store.due_scans().unwrap().is_empty()
        });
    }
}

#[test]
fn a_copy_that_is_put_back_finds_what_was_received_since() {
    for marks in [true, false] {
        let Some(bench) = start(marks) else { return };
        let saved = bench.save("saved");
        let mut wallet = bench.open();
        wallet.earn(&bench.account, 64);
        drop(wallet);
        bench.put_back(&saved);
        let mut wallet = bench.open();
        assert_eq!(wallet.balance(&bench.account), (0, 0));
        wallet.earn(&bench.account, 64);
        bench.scanned(&mut wallet);
        assert_eq!(wallet.balance(&bench.account), (128, 0), "with marks: {marks}");
        wallet.audit(&[&bench.account]);
        let scans = wallet.executor.store.scans(10).unwrap();
        assert_eq!(scans.iter().map(|scan| scan.amount).sum::<u64>(), 64);
        drop(wallet);
        // What was found stays found.
        let mut wallet = bench.open();
        wallet.earn(&bench.account, 10);
        bench.scanned(&mut wallet);
        assert_eq!(wallet.balance(&bench.account), (138, 0));
        wallet.audit(&[&bench.account]);
    }
}

#[test]
fn payments_of_a_copy_are_not_held_up_by_what_was_done_since() {
    for marks in [true, false] {
        let Some(bench) = start(marks) else { return };
        let Some(other) = Nutshell::start(plain()) else { return };
        let mut wallet = bench.open();
        wallet.earn(&bench.account, 500);
        wallet.earn(&bench.account, 1_000);
        drop(wallet);
        let saved = bench.save("saved");
        let mut wallet = bench.open();
        wallet.earn(&bench.account, 300);
        drop(wallet);
        bench.put_back(&saved);
        let mut wallet = bench.open();
        let send = wallet.executor.send(&bench.account.id, 77, &asked()).unwrap();
        wallet.work_until(&send.id, EntityState::Pending);
        let invoice = other.invoice(50).0;
        let paid = wallet.executor.pay(&bench.account.id, &invoice, &asked()).unwrap();
        wallet.work_until(&paid.id, EntityState::Paid);
        wallet.earn(&bench.account, 5);
        bench.scanned(&mut wallet);
        let (free, held) = wallet.balance(&bench.account);
        let all = free + held;
        assert!(all <= 1_755 && all > 1_745, "with marks: {marks}: {free} and {held}");
        wallet.audit(&[&bench.account]);
    }
}

#[test]
fn two_clones_side_by_side_are_not_stuck_and_count_nothing_twice() {
    let Some(bench) = start(false) else { return };
    let mut first = bench.open();
    first.earn(&bench.account, 64);
    drop(first);
    let clone = bench.save("clone");
    let mut first = bench.open();
    let mut second = Wallet::with(&clone, Setup::default());
    for amount in [7, 12, 31] {
        first.earn(&bench.account, amount);
        second.earn(&bench.account, amount + 1);
    }
    for wallet in [&mut first, &mut second] {
        wallet.executor.store.scan_account(&bench.account.id).unwrap();
        bench.scanned(wallet);
        wallet.audit(&[&bench.account]);
        // Both have all that was ever signed for the seed.
        assert_eq!(wallet.balance(&bench.account), (64 + 50 + 53, 0));
    }
}

#[test]
fn what_another_copy_has_spent_is_not_counted_beside_what_it_got_for_it() {
    let Some(bench) = start(true) else { return };
    let mut wallet = bench.open();
    wallet.earn(&bench.account, 64);
    drop(wallet);
    let saved = bench.save("saved");
    let mut wallet = bench.open();
    // The one proof over 64 becomes smaller ones, of which some are a token.
    wallet.token(&bench.account, 10);
    drop(wallet);
    bench.put_back(&saved);
    let mut wallet = bench.open();
    assert_eq!(wallet.balance(&bench.account).0, 64, "as the copy knows it");
    bench.scanned(&mut wallet);
    let (unspent, reserved) = wallet.balance(&bench.account);
    assert_eq!(i64::try_from(unspent + reserved).unwrap(), bench._mint.owed());
    wallet.audit(&[&bench.account]);
}
