//! What may be spent, when, and at which price: the rules around a payment.

use bitcoin::{OutPoint, Psbt, ScriptBuf, Sequence, Txid, secp256k1::Secp256k1};
use unspent_model::{
    Micros,
    wallet::{
        TxStatus,
        select::{
            ChangePolicy, FeePerWeight, OVERHEAD_WEIGHT, SelectError, SelectionMethod,
            SelectionStrategy, virtual_size,
        },
    },
};
use unspent_sql::{Arg, Door, Options, SqlError};
use unspent_wallet::{
    NewAccount, NewWallet, WalletError, WalletId,
    choose::{CoinPolicy, SelectionTarget},
    descriptor::Keychain,
    pay::{FeeBump, FinishOptions, Payment, SignedPayment, UnsignedPayment, combine},
    schema::SCHEMA,
    wallet_info::KeychainPurpose,
};

use crate::ledger::*;

pub const RATE: FeePerWeight = FeePerWeight { sat_per_kwu: 500 };

fn payment(l: &Ledger, sats: u64) -> Payment {
    Payment::new(vec![(theirs(1), sats)], RATE, l.terms(1))
}

fn wanted(target: u64) -> SelectionTarget {
    let change = ChangePolicy { weight: 124, spend_weight: 272, min: 294 };
    SelectionTarget::new(target, OVERHEAD_WEIGHT + 4 + 124, RATE, change)
}

pub fn finish_as(l: &Ledger, byte: u8, mut psbt: Psbt) -> Result<Txid, WalletError> {
    psbt.sign(&xpriv(1), &Secp256k1::new()).unwrap();
    let how = FinishOptions { lock: Some(lock(byte)), ..FinishOptions::default() };
    let done =
        l.room.finalize(l.wallet, SignedPayment::Psbt(Box::new(psbt)), how, Micros(l.tick()));
    done.map(|(txid, _)| txid)
}

fn sent(l: &Ledger, unsigned: &UnsignedPayment) -> Txid {
    let txid = finish_as(l, 1, unsigned.psbt.clone()).unwrap();
    l.room.mark_broadcast(l.wallet, txid, Micros(l.tick())).unwrap();
    l.check();
    txid
}

fn paid_to_others(psbt: &Psbt) -> u64 {
    let outputs = psbt.unsigned_tx.output.iter();
    outputs.filter(|out| out.script_pubkey == theirs(1)).map(|out| out.value.to_sat()).sum()
}

fn wallet_of(l: &Ledger, name: &str, accounts: &[(&str, String)]) -> WalletId {
    let accounts = accounts.iter().map(|(name, receive)| NewAccount {
        name: (*name).into(),
        receive: receive.clone(),
        change: None,
    });
    let new = NewWallet {
        name: name.into(),
        accounts: accounts.collect(),
        birthday: 1_000_000,
        gap_limit: 20,
    };
    l.room.create_wallet(&new, Micros(1)).unwrap()
}

fn fund_wallet(l: &Ledger, wallet: WalletId, account: Option<&str>, n: u32, sats: u64) -> OutPoint {
    let address = l.room.next_address(wallet, account, KeychainPurpose::Receive).unwrap();
    let made = tx(&[foreign(n)], &[(&address.script, sats)]);
    l.try_apply(l.block(&[&made])).unwrap();
    out(&made, 0)
}

#[test]
fn the_fee_covers_the_rounded_up_virtual_size() {
    on_both(|l| {
        for (n, rate) in [(1, 1_250), (2, 1_253), (3, 3_333)] {
            l.fund(n, 100_000);
            let mut pay = payment(&l, 20_000 + u64::from(n));
            pay.rate = FeePerWeight { sat_per_kwu: rate };
            let unsigned = l.room.build_payment(l.wallet, &pay, Micros(l.now.get())).unwrap();
            let fee = unsigned.chosen.selection.fee;
            let txid = finish_as(&l, 1, unsigned.psbt).unwrap();
            let tx = l.room.tx(l.wallet, txid).unwrap().tx;
            let size = tx.vsize() as u64;
            assert!(fee * 1000 >= rate * 4 * size, "{fee} for {size} at {rate}");
            assert!(virtual_size(tx.weight().to_wu()) == size);
        }
    });
}

#[test]
fn the_exact_coin_is_found_among_many_larger_and_smaller_ones() {
    on_both(|l| {
        let script = l.ours(0);
        let mut outputs: Vec<_> = (0..400).map(|n| (&script, 900_000 + n)).collect();
        outputs.extend((0..400).map(|n| (&script, 2_000 + n)));
        let fee = RATE.fee(OVERHEAD_WEIGHT + 4 + 124 + 272 + 4);
        outputs.push((&script, 50_000 + fee));
        l.mine(&[&tx(&[foreign(1)], &outputs)]);
        // While spending costs no less later, nothing speaks for more coins than needed.
        let policy = CoinPolicy { long_term_rate: RATE, ..CoinPolicy::default() };
        let found = l.room.preview_selection(l.wallet, wanted(50_000), &policy, Micros(0)).unwrap();
        assert_eq!(found.selection.method, SelectionMethod::BranchAndBound);
        assert_eq!((found.coins.len(), found.selection.change), (1, None));
        let draw = CoinPolicy {
            strategy: SelectionStrategy::Only(SelectionMethod::RandomDraw),
            ..CoinPolicy::default()
        };
        let mut small = 0;
        for seed in 0..20 {
            let policy = CoinPolicy { seed, ..draw.clone() };
            let found =
                l.room.preview_selection(l.wallet, wanted(50_000), &policy, Micros(0)).unwrap();
            small += found.coins.iter().filter(|coin| coin.amount < 3_000).count();
        }
        assert!(small > 0, "random draws see small coins too");
    });
}

#[test]
fn all_coins_of_an_address_are_spent_together_however_small() {
    on_both(|l| {
        let (reused, other) = (l.ours(0), l.ours(1));
        let mut outputs = vec![(&reused, 500_000)];
        outputs.extend(vec![(&reused, 1_500); 150]);
        outputs.extend((0..300).map(|n| (&other, 3_000 + n)));
        l.mine(&[&tx(&[foreign(1)], &outputs)]);
        let policy = CoinPolicy {
            by_address: true,
            strategy: SelectionStrategy::Only(SelectionMethod::LargestFirst),
            ..CoinPolicy::default()
        };
        let found = l.room.preview_selection(l.wallet, wanted(90_000), &policy, Micros(0)).unwrap();
        let of_both = found.coins.len();
        assert!(of_both == 151 || of_both == 300 || of_both == 451, "{of_both} coins");
    });
}

#[test]
fn payments_take_no_coin_without_a_key_path_unless_asked_by_name() {
    on_both(|l| {
        let bare = theirs(9);
        l.room.import_script(l.wallet, &bare).unwrap();
        let own = l.fund(1, 30_000);
        let watched = tx(&[foreign(2)], &[(&bare, 90_000)]);
        l.mine(&[&watched]);
        let refused =
            l.room.build_payment(l.wallet, &payment(&l, 50_000), Micros(l.now.get())).unwrap_err();
        assert!(matches!(refused, WalletError::Select(SelectError::Insufficient { .. })));
        let chosen = l
            .room
            .build_payment(l.wallet, &payment(&l, 10_000), Micros(l.now.get()))
            .unwrap()
            .chosen;
        assert_eq!(chosen.coins[0].outpoint, out(&own, 0));
        let mut asked = payment(&l, 50_000);
        asked.policy.require = vec![out(&watched, 0)];
        let unsigned = l.room.build_payment(l.wallet, &asked, Micros(l.now.get())).unwrap();
        assert!(unsigned.chosen.coins.iter().any(|coin| coin.outpoint == out(&watched, 0)));
    });
}

#[test]
fn one_account_pays_and_gets_the_change() {
    on_both(|l| {
        let wallet = wallet_of(&l, "two", &[("day", descriptor(31)), ("night", descriptor(32))]);
        let day = fund_wallet(&l, wallet, Some("day"), 1, 50_000);
        let night = fund_wallet(&l, wallet, Some("night"), 2, 90_000);
        let refused =
            l.room.build_payment(wallet, &payment(&l, 60_000), Micros(l.now.get())).unwrap_err();
        assert!(matches!(refused, WalletError::Select(SelectError::Insufficient { .. })));
        let mut from = payment(&l, 60_000);
        from.policy.account = Some("night".into());
        let made = l.room.preview_payment(wallet, &from, Micros(l.now.get())).unwrap();
        assert_eq!((made.account.as_str(), made.chosen.coins[0].outpoint), ("night", night));
        let network = bitcoin::Network::Regtest;
        let change = Keychain::parse(&descriptor(32), network).unwrap()[1].script(0).unwrap();
        let place = made.change_output.unwrap();
        assert_eq!(made.psbt.unsigned_tx.output[place].script_pubkey, change);
        let mut by_coin = payment(&l, 10_000);
        by_coin.policy.require = vec![night];
        assert_eq!(
            l.room.preview_payment(wallet, &by_coin, Micros(l.now.get())).unwrap().account,
            "night"
        );
        by_coin.policy.account = Some("day".into());
        let mixed = l.room.preview_payment(wallet, &by_coin, Micros(l.now.get())).unwrap_err();
        assert!(mixed.to_string().contains("belong to the account that pays"), "{mixed}");
        assert_eq!(
            l.room.build_payment(wallet, &payment(&l, 9_000), Micros(l.now.get())).unwrap().account,
            "day"
        );
        assert_ne!(day, night);
    });
}

#[test]
fn own_change_is_trusted_only_above_own_ancestors() {
    on_both(|l| {
        let incoming = tx(&[foreign(1)], &[(&l.ours(0), 80_000)]);
        l.mempool(&incoming);
        let own = tx(&[out(&incoming, 0)], &[(&l.change(0), 79_000)]);
        l.mempool(&own);
        let find = |sats| {
            l.room.preview_selection(l.wallet, wanted(sats), &CoinPolicy::default(), Micros(0))
        };
        assert!(find(5_000).is_err(), "it dies with the foreign coin below it");
        l.mine(&[&incoming]);
        assert!(find(5_000).is_ok());
    });
}

#[test]
fn payments_have_at_most_24_unconfirmed_ancestors() {
    on_both(|l| {
        let mut last = l.fund(1, 1_000_000);
        let find = || {
            l.room
                .preview_selection(l.wallet, wanted(5_000), &CoinPolicy::default(), Micros(0))
                .is_ok()
        };
        for n in 0..25_u64 {
            let next = tx(&[out(&last, 0)], &[(&l.change(n as u32), 1_000_000 - 500 * (n + 1))]);
            l.see(&next, unspent_wallet::TxSource::Mempool).unwrap();
            last = next;
            assert_eq!(find(), n < 24, "after {} in line", n + 1);
        }
        let asked = CoinPolicy { require: vec![out(&last, 0)], ..CoinPolicy::default() };
        let named =
            l.room.preview_selection(l.wallet, wanted(5_000), &asked, Micros(0)).unwrap_err();
        assert!(named.to_string().contains("24 unconfirmed"), "{named}");
    });
}

#[test]
fn frozen_coins_are_not_chosen() {
    on_both(|l| {
        let pay = l.fund(1, 50_000);
        let (wallet, hash) = (l.wallet.0, *AsRef::<[u8; 32]>::as_ref(&pay.compute_txid()));
        let door = Door::open(&l.url, &SCHEMA, Options::default()).unwrap();
        door.write(move |tx| -> Result<_, SqlError> {
            const FREEZE: &str = "INSERT INTO frozen_outputs
                (wallet_id, tx_hash, output_index, frozen_at) VALUES ($1, $2, 0, 5)";
            tx.execute(FREEZE, &[Arg::Int(wallet), Arg::Blob(&hash)])
        })
        .unwrap();
        let refused =
            l.room.build_payment(l.wallet, &payment(&l, 10_000), Micros(l.now.get())).unwrap_err();
        assert!(matches!(refused, WalletError::Select(SelectError::Insufficient { .. })));
        let mut asked = payment(&l, 10_000);
        asked.policy.require = vec![out(&pay, 0)];
        let refused = l.room.build_payment(l.wallet, &asked, Micros(l.now.get())).unwrap_err();
        assert!(refused.to_string().contains("frozen"), "{refused}");
    });
}

#[test]
fn a_relative_time_lock_is_waited_for_and_set() {
    on_both(|l| {
        let (a, b) = (xpub(41), xpub(42));
        let waits = format!("wsh(and_v(v:pk({a}/<0;1>/*),older(10)))");
        let wallet = wallet_of(&l, "waits", &[("main", waits)]);
        let coin = fund_wallet(&l, wallet, None, 1, 100_000);
        let height = l.height();
        let refused =
            l.room.build_payment(wallet, &payment(&l, 10_000), Micros(l.now.get())).unwrap_err();
        assert!(refused.to_string().contains(&format!("block {}", height + 10)), "{refused}");
        let mut asked = payment(&l, 10_000);
        asked.policy.require = vec![coin];
        let refused = l.room.build_payment(wallet, &asked, Micros(l.now.get())).unwrap_err();
        assert!(refused.to_string().contains(&format!("block {}", height + 10)), "{refused}");
        l.mine_empty(9);
        let unsigned =
            l.room.build_payment(wallet, &payment(&l, 10_000), Micros(l.now.get())).unwrap();
        assert_eq!(unsigned.psbt.unsigned_tx.input[0].sequence, Sequence::from_height(10));
        // With a way that needs no waiting, that way is taken.
        let either = format!("wsh(or_d(pk({a}/<0;1>/*),and_v(v:pkh({b}/<0;1>/*),older(144))))");
        let wallet = wallet_of(&l, "either", &[("main", either)]);
        fund_wallet(&l, wallet, None, 2, 100_000);
        let unsigned =
            l.room.build_payment(wallet, &payment(&l, 10_000), Micros(l.now.get())).unwrap();
        let sequence = unsigned.psbt.unsigned_tx.input[0].sequence;
        assert_eq!(sequence, Sequence::ENABLE_RBF_NO_LOCKTIME);
    });
}

#[test]
fn an_absolute_time_lock_is_waited_for_and_a_clock_is_refused() {
    on_both(|l| {
        let a = xpub(43);
        let until = FIRST + 4;
        let waits = format!("wsh(and_v(v:pk({a}/<0;1>/*),after({until})))");
        let wallet = wallet_of(&l, "waits", &[("main", waits)]);
        fund_wallet(&l, wallet, None, 1, 100_000);
        let refused =
            l.room.build_payment(wallet, &payment(&l, 10_000), Micros(l.now.get())).unwrap_err();
        assert!(refused.to_string().contains(&format!("block {}", until + 1)), "{refused}");
        while l.height() < until {
            l.mine_empty(1);
        }
        let unsigned =
            l.room.build_payment(wallet, &payment(&l, 10_000), Micros(l.now.get())).unwrap();
        let lock_time = unsigned.psbt.unsigned_tx.lock_time.to_consensus_u32();
        assert!(u64::from(lock_time) >= until);
        let clock = format!("wsh(and_v(v:pk({a}/<0;1>/*),after(1900000000)))");
        let wallet = wallet_of(&l, "clock", &[("main", clock)]);
        fund_wallet(&l, wallet, None, 2, 100_000);
        let refused =
            l.room.build_payment(wallet, &payment(&l, 10_000), Micros(l.now.get())).unwrap_err();
        assert!(refused.to_string().contains("time-locked"), "{refused}");
    });
}

#[test]
fn private_keys_are_told_by_what_they_are_not_by_letters() {
    let network = bitcoin::Network::Regtest;
    let secp = Secp256k1::new();
    let lucky = (0..=u16::MAX)
        .map(|n| {
            let seed = [n.to_le_bytes(), [7, 7]].concat();
            let master = bitcoin::bip32::Xpriv::new_master(network, &seed.repeat(8)).unwrap();
            bitcoin::bip32::Xpub::from_priv(&secp, &master).to_string()
        })
        .find(|text| text.contains("prv"))
        .unwrap();
    assert_eq!(Keychain::parse(&format!("wpkh({lucky}/<0;1>/*)"), network).unwrap().len(), 2);
    let private = xpriv(1);
    let wif = bitcoin::PrivateKey::new(private.private_key, network).to_wif();
    for text in [format!("wpkh({private}/0/*)"), format!("pkh({wif})"), format!("wpkh({private}")] {
        let refused = Keychain::parse(&text, network).unwrap_err().to_string();
        assert!(refused.contains("private key"), "{refused}");
        assert!(!refused.contains(&private.to_string()) && !refused.contains(&wif));
    }
}

#[test]
fn send_all_leaves_nothing_and_makes_no_change() {
    on_both(|l| {
        l.fund(1, 100_000);
        l.fund(2, 50_000);
        l.fund(3, 20);
        let mut all = Payment::new(vec![(theirs(2), 10_000)], RATE, l.terms(1));
        all.rest_to = Some(theirs(1));
        let unsigned = l.room.build_payment(l.wallet, &all, Micros(l.now.get())).unwrap();
        assert_eq!(unsigned.change_output, None);
        assert_eq!(unsigned.chosen.coins.len(), 2, "20 sats cost more than they bring");
        let fee = unsigned.chosen.selection.fee;
        assert_eq!(paid_to_others(&unsigned.psbt), 140_000 - fee);
        sent(&l, &unsigned);
    });
}

#[test]
fn the_fee_can_come_from_the_outputs_or_be_fixed() {
    on_both(|l| {
        l.fund(1, 100_000);
        let mut less =
            Payment::new(vec![(theirs(1), 30_001), (theirs(2), 20_000)], RATE, l.terms(1));
        less.subtract_fee = true;
        let made = l.room.preview_payment(l.wallet, &less, Micros(l.now.get())).unwrap();
        let (fee, tx) = (made.chosen.selection.fee, &made.psbt.unsigned_tx);
        let total: u64 = tx.output.iter().map(|out| out.value.to_sat()).sum();
        assert_eq!(total + fee, 100_000);
        assert_eq!(tx.output[made.change_output.unwrap()].value.to_sat(), 49_999);
        let first = paid_to_others(&made.psbt);
        assert_eq!(first, 30_001 - (fee - fee / 2), "equal parts, the odd sat by the first");
        let fixed = Payment { fee: Some(4_321), ..payment(&l, 30_000) };
        let made = l.room.preview_payment(l.wallet, &fixed, Micros(l.now.get())).unwrap();
        assert_eq!(made.chosen.selection.fee, 4_321);
        let free = Payment { rate: FeePerWeight { sat_per_kwu: 0 }, ..payment(&l, 30_000) };
        let refused = l.room.build_payment(l.wallet, &free, Micros(l.now.get())).unwrap_err();
        assert!(matches!(refused, WalletError::Select(SelectError::RateZero)), "{refused}");
    });
}

#[test]
fn a_preview_leases_nothing_and_uses_no_change_address_up() {
    on_both(|l| {
        l.fund(1, 100_000);
        let looked =
            l.room.preview_payment(l.wallet, &payment(&l, 30_000), Micros(l.now.get())).unwrap();
        assert_eq!(l.balance().leased.sats, 0);
        let real =
            l.room.build_payment(l.wallet, &payment(&l, 30_000), Micros(l.now.get())).unwrap();
        assert_eq!(looked.psbt, real.psbt);
    });
}

#[test]
fn a_high_fee_must_be_allowed() {
    on_both(|l| {
        l.fund(1, 100_000_000);
        let absurd = Payment { fee: Some(20_000_000), ..payment(&l, 30_000) };
        let refused = l.room.build_payment(l.wallet, &absurd, Micros(l.now.get())).unwrap_err();
        assert!(refused.to_string().contains("looks like a mistake"), "{refused}");
        let meant = Payment { allow_high_fee: true, ..absurd };
        let unsigned = l.room.build_payment(l.wallet, &meant, Micros(l.now.get())).unwrap();
        let mut psbt = unsigned.psbt;
        psbt.sign(&xpriv(1), &Secp256k1::new()).unwrap();
        let take = |allow_high_fee| {
            let how = FinishOptions { lock: Some(lock(1)), force: false, allow_high_fee };
            l.room.finalize(
                l.wallet,
                SignedPayment::Psbt(Box::new(psbt.clone())),
                how,
                Micros(l.tick()),
            )
        };
        assert!(take(false).is_err());
        take(true).unwrap();
    });
}

#[test]
fn wrong_signatures_are_not_recorded() {
    on_both(|l| {
        let coin = l.fund(1, 100_000);
        let unsigned =
            l.room.build_payment(l.wallet, &payment(&l, 30_000), Micros(l.now.get())).unwrap();
        let mut psbt = unsigned.psbt;
        psbt.sign(&xpriv(1), &Secp256k1::new()).unwrap();
        let how = FinishOptions { lock: Some(lock(1)), ..FinishOptions::default() };
        let done = l.room.complete(l.wallet, SignedPayment::Psbt(Box::new(psbt)), false).unwrap();
        assert_eq!(done.fee, Some(unsigned.chosen.selection.fee));
        let mut forged = done.tx.clone();
        forged.output[0].value -= bitcoin::Amount::from_sat(1);
        let refused = l
            .room
            .finalize(l.wallet, SignedPayment::Raw(forged), how, Micros(l.tick()))
            .unwrap_err();
        assert!(refused.to_string().contains("input 0"), "{refused}");
        let dummy = tx(&[out(&coin, 0)], &[(&theirs(1), 90_000)]);
        let refused = l.room.finalize(l.wallet, SignedPayment::Raw(dummy), how, Micros(l.tick()));
        assert!(matches!(refused, Err(WalletError::Payment(_))));
        l.room.finalize(l.wallet, SignedPayment::Raw(done.tx), how, Micros(l.tick())).unwrap();
    });
}

#[test]
fn a_bump_obeys_the_rules_of_replacement_and_keeps_change_and_account() {
    on_both(|l| {
        l.fund(1, 100_000);
        let first =
            l.room.build_payment(l.wallet, &payment(&l, 30_000), Micros(l.now.get())).unwrap();
        let (place, old_fee) = (first.change_output.unwrap(), first.chosen.selection.fee);
        let change = first.psbt.unsigned_tx.output[place].script_pubkey.clone();
        let txid = sent(&l, &first);
        // A rate that is hardly higher still pays for its own relay; another lock will do.
        let bump = FeeBump::new(txid, FeePerWeight { sat_per_kwu: 501 }, l.terms(2));
        let second = l.room.build_payment(l.wallet, &bump, Micros(l.tick())).unwrap();
        let new = &second.psbt.unsigned_tx;
        let place = second.change_output.unwrap();
        assert_eq!(new.output[place].script_pubkey, change, "the same change again");
        assert_eq!(paid_to_others(&second.psbt), 30_000);
        let new_txid = finish_as(&l, 2, second.psbt.clone()).unwrap();
        let size = l.room.tx(l.wallet, new_txid).unwrap().tx.vsize() as u64;
        assert!(second.chosen.selection.fee >= old_fee + size);
        l.check();
        assert_eq!(l.room.tx(l.wallet, txid).unwrap().summary.status, TxStatus::Replaced);
    });
}

#[test]
fn a_bump_adds_inputs_where_change_does_not_suffice() {
    on_both(|l| {
        l.fund(1, 31_000);
        let first =
            l.room.build_payment(l.wallet, &payment(&l, 30_000), Micros(l.now.get())).unwrap();
        let txid = sent(&l, &first);
        l.fund(2, 60_000);
        let bump = FeeBump::new(txid, FeePerWeight { sat_per_kwu: 10_000 }, l.terms(2));
        let second = l.room.build_payment(l.wallet, &bump, Micros(l.tick())).unwrap();
        assert_eq!(second.psbt.unsigned_tx.input.len(), 2);
        let new_txid = finish_as(&l, 2, second.psbt.clone()).unwrap();
        let size = l.room.tx(l.wallet, new_txid).unwrap().tx.vsize() as u64;
        assert!(second.chosen.selection.fee >= 40 * size);
    });
}

#[test]
fn a_bump_can_take_the_fee_from_the_payment() {
    on_both(|l| {
        l.fund(1, 100_000);
        let mut all = Payment::new(vec![], RATE, l.terms(1));
        all.rest_to = Some(theirs(1));
        let first = l.room.build_payment(l.wallet, &all, Micros(l.now.get())).unwrap();
        let txid = sent(&l, &first);
        let plain = FeeBump::new(txid, FeePerWeight { sat_per_kwu: 2_500 }, l.terms(2));
        assert!(
            l.room.build_payment(l.wallet, &plain, Micros(l.tick())).is_err(),
            "there is nothing to add"
        );
        let bump = FeeBump { subtract_fee: true, ..plain };
        let second = l.room.build_payment(l.wallet, &bump, Micros(l.tick())).unwrap();
        assert_eq!(paid_to_others(&second.psbt), 100_000 - second.chosen.selection.fee);
        finish_as(&l, 2, second.psbt).unwrap();
    });
}

#[test]
fn a_wallet_without_a_change_chain_pays_and_bumps() {
    on_both(|l| {
        let fingerprint = xpriv(1).fingerprint(&Secp256k1::new());
        let only = format!("wpkh([{fingerprint}/84h/1h/0h]{}/7/*)", xpub(1));
        let wallet = wallet_of(&l, "single", &[("main", only)]);
        fund_wallet(&l, wallet, None, 1, 100_000);
        let first =
            l.room.build_payment(wallet, &payment(&l, 30_000), Micros(l.now.get())).unwrap();
        let old_fee = first.chosen.selection.fee;
        let mut psbt = first.psbt;
        psbt.sign(&xpriv(1), &Secp256k1::new()).unwrap();
        let how = FinishOptions { lock: Some(lock(1)), ..FinishOptions::default() };
        let signed = SignedPayment::Psbt(Box::new(psbt));
        let (txid, _) = l.room.finalize(wallet, signed, how, Micros(l.tick())).unwrap();
        let bump = FeeBump::new(txid, FeePerWeight { sat_per_kwu: 900 }, l.terms(2));
        let second = l.room.build_payment(wallet, &bump, Micros(l.tick())).unwrap();
        assert_eq!(second.psbt.unsigned_tx.output.len(), 2);
        assert!(second.chosen.selection.fee > old_fee);
        assert_eq!(paid_to_others(&second.psbt), 30_000);
    });
}

#[test]
fn abandoned_payments_give_their_change_index_back() {
    on_both(|l| {
        let coin = [out(&l.fund(1, 100_000), 0)];
        let release = || l.room.release(l.wallet, &coin, lock(1), Micros(l.tick())).unwrap();
        for _ in 0..30 {
            let unsigned =
                l.room.build_payment(l.wallet, &payment(&l, 30_000), Micros(l.tick())).unwrap();
            let txid = finish_as(&l, 1, unsigned.psbt).unwrap();
            l.room.invalidate(l.wallet, txid, Micros(l.tick())).unwrap();
            l.check();
            release();
        }
        let unsigned =
            l.room.build_payment(l.wallet, &payment(&l, 30_000), Micros(l.tick())).unwrap();
        let place = unsigned.change_output.unwrap();
        assert_eq!(unsigned.psbt.unsigned_tx.output[place].script_pubkey, l.change(0));
        // Payments that never come back from their signer don't run beyond the gap either.
        let window: Vec<ScriptBuf> = (0..20).map(|n| l.change(n)).collect();
        for _ in 0..50 {
            release();
            let again =
                l.room.build_payment(l.wallet, &payment(&l, 30_000), Micros(l.tick())).unwrap();
            let place = again.change_output.unwrap();
            assert!(window.contains(&again.psbt.unsigned_tx.output[place].script_pubkey));
        }
    });
}

#[test]
fn a_payment_without_change_uses_no_index_up() {
    on_both(|l| {
        l.fund(1, 100_000);
        let mut all = Payment::new(vec![], RATE, l.terms(1));
        all.rest_to = Some(theirs(1));
        l.room.build_payment(l.wallet, &all, Micros(l.now.get())).unwrap();
        let chains = l.room.keychains(l.wallet).unwrap();
        let change = chains.iter().find(|chain| chain.purpose == "change").unwrap();
        assert_eq!(change.next_index, 0);
    });
}

#[test]
fn a_psbt_is_shown_and_its_copies_are_combined() {
    on_both(|l| {
        let key = |seed: u8| {
            let fingerprint = xpriv(seed).fingerprint(&Secp256k1::new());
            format!("[{fingerprint}/84h/1h/0h]{}/<0;1>/*", xpub(seed))
        };
        let both = format!("wsh(sortedmulti(2,{},{}))", key(51), key(52));
        let wallet = wallet_of(&l, "both", &[("main", both)]);
        fund_wallet(&l, wallet, None, 1, 100_000);
        let unsigned =
            l.room.build_payment(wallet, &payment(&l, 30_000), Micros(l.now.get())).unwrap();
        let seen = l.room.inspect_psbt(wallet, &unsigned.psbt).unwrap();
        assert_eq!((seen.fee, seen.pays_others), (Some(unsigned.chosen.selection.fee), 30_000));
        assert!(!seen.is_complete && seen.inputs[0].is_known);
        assert_eq!((seen.inputs[0].signatures, seen.inputs[0].missing.len()), (0, 2));
        let ours = seen.outputs.iter().filter(|output| output.purpose.as_deref() == Some("change"));
        assert_eq!(ours.count(), 1);
        let signed_by = |seed: u8| {
            let mut psbt = unsigned.psbt.clone();
            psbt.sign(&xpriv(seed), &Secp256k1::new()).unwrap();
            psbt
        };
        let half = l.room.inspect_psbt(wallet, &signed_by(51)).unwrap();
        assert_eq!((half.inputs[0].signatures, half.inputs[0].missing.len()), (1, 1));
        let whole = combine(vec![signed_by(51), signed_by(52)]).unwrap();
        let seen = l.room.inspect_psbt(wallet, &whole).unwrap();
        assert!(seen.is_complete && seen.inputs[0].missing.is_empty());
        assert!(seen.virtual_size.is_some());
        let mut other = unsigned.psbt.clone();
        other.unsigned_tx.output.pop();
        assert!(combine(vec![unsigned.psbt.clone(), other]).is_err(), "of another transaction");
    });
}
