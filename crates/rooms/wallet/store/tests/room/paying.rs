//! From amounts to a PSBT and back, with coins chosen and leased in one step.

use bitcoin::{Psbt, ScriptBuf, Txid, secp256k1::Secp256k1};
use unspent_model::{
    Micros,
    wallet::{
        CoinState, TxStatus,
        select::{
            ChangePolicy, FeePerWeight, OVERHEAD_WEIGHT, SelectError, SelectionMethod,
            SelectionStrategy,
        },
    },
};
use unspent_wallet::{
    NewAccount, NewWallet, TxSource, WalletError,
    choose::{CoinPolicy, SelectionTarget},
    pay::{FeeBump, FinishOptions, Payment, SignedPayment},
    wallet_info::KeychainPurpose,
};

use crate::ledger::*;

pub const RATE: FeePerWeight = FeePerWeight { sat_per_kwu: 500 };

pub fn wanted(target: u64) -> SelectionTarget {
    let change = ChangePolicy { weight: 124, spend_weight: 272, min: 294 };
    SelectionTarget::new(target, OVERHEAD_WEIGHT + 4 + 124, RATE, change)
}

pub fn payment(l: &Ledger, outputs: &[(ScriptBuf, u64)]) -> Payment {
    Payment::new(outputs.to_vec(), RATE, l.terms(1))
}

/// Takes a PSBT back under the lock of [`payment`].
fn finish(l: &Ledger, psbt: Psbt) -> Result<Txid, WalletError> {
    let how = FinishOptions { lock: Some(lock(1)), ..FinishOptions::default() };
    let done =
        l.room.finalize(l.wallet, SignedPayment::Psbt(Box::new(psbt)), how, Micros(l.tick()));
    done.map(|(txid, _)| txid)
}

#[test]
fn chosen_coins_are_leased_and_never_chosen_again() {
    on_both(|l| {
        let pay = tx(&[foreign(1)], &[(&l.ours(0), 50_000), (&l.ours(1), 60_000)]);
        l.mine(&[&pay]);
        let policy = CoinPolicy::default();
        let choose = |byte| {
            l.room.select_and_lease(
                l.wallet,
                wanted(40_000),
                &policy,
                l.terms(byte),
                Micros(l.now.get()),
            )
        };
        let (first, second) = (choose(1).unwrap(), choose(2).unwrap());
        assert_ne!(first.coins[0].outpoint, second.coins[0].outpoint);
        assert!(first.selection.why().contains("coins with"), "{}", first.selection.why());
        let third = choose(3).unwrap_err();
        assert!(matches!(third, WalletError::Select(SelectError::Insufficient { .. })), "{third}");
        assert_eq!(l.balance().leased.coins, 2);
        let looked =
            l.room.preview_selection(l.wallet, wanted(1_000), &policy, Micros(i64::MAX)).unwrap();
        assert_eq!(looked.coins.len(), 1, "after all leases have ended");
    });
}

#[test]
fn what_may_be_chosen_follows_the_policy() {
    on_both(|l| {
        let confirmed = l.fund(1, 10_000);
        let young = l.mine_to(&l.ours(1), 90_000);
        let incoming = tx(&[foreign(2)], &[(&l.ours(2), 80_000)]);
        l.mempool(&incoming);
        let own = tx(&[out(&l.fund(3, 70_500), 0)], &[(&l.change(0), 70_000)]);
        l.mempool(&own);
        let pending = tx(&[out(&l.fund(4, 60_500), 0)], &[(&l.change(1), 60_000)]);
        l.create(&pending);
        let all = |policy: &CoinPolicy| -> Vec<_> {
            let mut names = Vec::new();
            for target in [5_000, 66_000, 75_000, 135_000, 145_000] {
                let found =
                    l.room.preview_selection(l.wallet, wanted(target), policy, Micros(l.now.get()));
                names.extend(found.iter().flat_map(|c| c.coins.iter().map(|coin| coin.outpoint)));
            }
            names.sort_unstable();
            names.dedup();
            names
        };
        let strict = CoinPolicy { own_change: false, ..CoinPolicy::default() };
        assert_eq!(all(&strict), [out(&confirmed, 0)]);
        let deeper = CoinPolicy { minconf: 50, ..strict.clone() };
        assert!(all(&deeper).is_empty());
        let mut usual = vec![out(&confirmed, 0), out(&own, 0)];
        usual.sort_unstable();
        assert_eq!(all(&CoinPolicy::default()), usual);
        let chained = CoinPolicy { pending_chaining: true, ..CoinPolicy::default() };
        assert!(all(&chained).contains(&out(&pending, 0)));
        for never in [out(&young, 0), out(&incoming, 0)] {
            assert!(!all(&chained).contains(&never));
        }
        let excluded = CoinPolicy { exclude: vec![out(&own, 0)], ..CoinPolicy::default() };
        assert_eq!(all(&excluded), [out(&confirmed, 0)]);
        let required = CoinPolicy { require: vec![out(&young, 0)], ..CoinPolicy::default() };
        let refused =
            l.room.preview_selection(l.wallet, wanted(5), &required, Micros(0)).unwrap_err();
        assert!(matches!(refused, WalletError::CoinNotFound(_)), "immature, even when required");
    });
}

#[test]
fn change_of_a_replacement_is_not_spent_before_it_confirms() {
    on_both(|l| {
        let funding = l.fund(1, 70_500);
        let first = tx(&[out(&funding, 0)], &[(&l.change(0), 70_000)]);
        let second = tx(&[out(&funding, 0)], &[(&l.change(0), 69_000)]);
        l.mempool(&first);
        l.mempool(&second);
        let policy = CoinPolicy::default();
        let find =
            || l.room.preview_selection(l.wallet, wanted(5_000), &policy, Micros(l.now.get()));
        assert!(find().is_err());
        l.mine(&[&second]);
        assert!(find().is_ok());
    });
}

#[test]
fn every_method_can_be_asked_for_alone() {
    on_both(|l| {
        for n in 0..5 {
            let pay = tx(&[foreign(n)], &[(&l.ours(n), 10_000 * (u64::from(n) + 1))]);
            l.mine(&[&pay]);
        }
        let with = |strategy| {
            let policy = CoinPolicy { strategy, ..CoinPolicy::default() };
            l.room.preview_selection(l.wallet, wanted(9_000), &policy, Micros(l.now.get())).unwrap()
        };
        assert_eq!(
            with(SelectionStrategy::Only(SelectionMethod::LargestFirst)).coins[0].amount,
            50_000
        );
        assert_eq!(
            with(SelectionStrategy::Only(SelectionMethod::OldestFirst)).coins[0].amount,
            10_000
        );
        assert_eq!(
            with(SelectionStrategy::Only(SelectionMethod::RandomDraw)).selection.method,
            SelectionMethod::RandomDraw
        );
        assert_eq!(with(SelectionStrategy::Best).selection.tried.len(), 4);
        let grouped = CoinPolicy { by_address: true, ..CoinPolicy::default() };
        assert!(l.room.preview_selection(l.wallet, wanted(9_000), &grouped, Micros(0)).is_ok());
        let light = CoinPolicy { max_weight: 100, ..CoinPolicy::default() };
        let refused =
            l.room.preview_selection(l.wallet, wanted(9_000), &light, Micros(0)).unwrap_err();
        assert!(matches!(refused, WalletError::Select(SelectError::TooHeavy { .. })), "{refused}");
    });
}

#[test]
fn a_large_wallet_is_searched_beyond_the_first_pool() {
    on_both(|l| {
        let script = l.ours(0);
        let many = tx(&[foreign(1)], &vec![(&script, 1_000); 900]);
        l.mine(&[&many]);
        let policy = CoinPolicy::default();
        let found = l
            .room
            .preview_selection(l.wallet, wanted(600_000), &policy, Micros(l.now.get()))
            .unwrap();
        assert!(found.coins.len() > 600);
    });
}

#[test]
fn a_payment_goes_out_as_a_psbt_and_comes_back_signed() {
    on_both(|l| {
        let funding = l.fund(1, 100_000);
        let to = theirs(1);
        let unsigned = l.room.build_payment(
            l.wallet,
            &payment(&l, &[(to.clone(), 30_000)]),
            Micros(l.now.get()),
        );
        let unsigned = unsigned.unwrap();
        let mut psbt = unsigned.psbt.clone();
        let change = unsigned.change_output.unwrap();
        assert_eq!(psbt.unsigned_tx.output[change].script_pubkey, l.change(0));
        assert!(!psbt.outputs[change].bip32_derivation.is_empty());
        assert_eq!(l.coin(&funding, 0), CoinState::Leased);
        assert_eq!(unsigned.held_until, Micros(l.now.get() + 600 * SECOND));
        let unsigned_back = finish(&l, psbt.clone());
        assert!(matches!(unsigned_back, Err(WalletError::Payment(_))), "no signature");
        psbt.sign(&xpriv(1), &Secp256k1::new()).unwrap();
        let txid = finish(&l, psbt).unwrap();
        l.check();
        let found = l.room.tx(l.wallet, txid).unwrap();
        assert_eq!(found.summary.status, TxStatus::Pending);
        assert_eq!(found.summary.fee, Some(unsigned.chosen.selection.fee));
        let real = RATE.fee(found.tx.weight().to_wu());
        assert!(unsigned.chosen.selection.fee >= real && unsigned.chosen.selection.fee < real + 20);
        assert_eq!(l.coin(&funding, 0), CoinState::Spent, "the lease became a spend");
        let lines = l.room.journal(l.wallet, Some(txid), 0, 10).unwrap();
        assert_eq!(lines.len(), 1);
        l.room.mark_broadcast(l.wallet, txid, Micros(l.tick())).unwrap();
        l.mine(&[&found.tx]);
        assert_eq!(l.balance().confirmed.sats, 70_000 - unsigned.chosen.selection.fee);
    });
}

#[test]
fn a_fee_bump_replaces_and_pays_more() {
    on_both(|l| {
        l.fund(1, 100_000);
        l.fund(2, 40_000);
        let pay = payment(&l, &[(theirs(1), 30_000)]);
        let mut psbt = l.room.build_payment(l.wallet, &pay, Micros(l.now.get())).unwrap().psbt;
        psbt.sign(&xpriv(1), &Secp256k1::new()).unwrap();
        let first = finish(&l, psbt).unwrap();
        l.room.mark_broadcast(l.wallet, first, Micros(l.tick())).unwrap();
        let dearer = |tx: Txid| FeeBump::new(tx, FeePerWeight { sat_per_kwu: 600 }, l.terms(1));
        let leased = || l.room.leases(l.wallet, Micros(l.now.get())).unwrap();
        let before = leased();
        let look = l.room.preview_payment(l.wallet, &dearer(first), Micros(l.tick())).unwrap();
        assert_eq!(leased(), before, "a look leases nothing");
        let bump = l.room.build_payment(l.wallet, &dearer(first), Micros(l.tick())).unwrap();
        let old = l.room.tx(l.wallet, first).unwrap();
        assert!(bump.chosen.selection.fee > old.summary.fee.unwrap());
        assert_eq!(look.psbt, bump.psbt, "it shows what is built");
        let mut psbt = bump.psbt;
        let paid = psbt.unsigned_tx.output.iter().any(|o| o.value.to_sat() == 30_000);
        assert!(paid, "the payment stays the same");
        psbt.sign(&xpriv(1), &Secp256k1::new()).unwrap();
        let second = finish(&l, psbt).unwrap();
        l.check();
        assert_eq!(l.room.tx(l.wallet, first).unwrap().summary.status, TxStatus::Replaced);
        assert_eq!(l.room.tx(l.wallet, first).unwrap().replaced_by[0].txid, second);
        assert_eq!(l.room.tx(l.wallet, second).unwrap().replaces[0].txid, first);
        l.room.invalidate(l.wallet, second, Micros(l.tick())).unwrap();
        l.check();
        let back = l.room.tx(l.wallet, first).unwrap().summary.status;
        assert_eq!(back, TxStatus::Published, "the bump was never sent, so the first lives again");
        let dead = l.room.build_payment(l.wallet, &dearer(second), Micros(l.tick()));
        assert!(matches!(dead, Err(WalletError::Payment(_))));
        let incoming = tx(&[foreign(9)], &[(&l.ours(5), 10)]);
        l.mempool(&incoming);
        let txid = incoming.compute_txid();
        let strange = l.room.build_payment(l.wallet, &dearer(txid), Micros(l.tick()));
        assert!(matches!(strange, Err(WalletError::Payment(_))));
    });
}

#[test]
fn dust_and_impossible_payments_are_refused_and_lease_nothing() {
    on_both(|l| {
        l.fund(1, 100_000);
        let max = 21_000_000 * 100_000_000;
        let wrong: Vec<Vec<(ScriptBuf, u64)>> = vec![
            vec![],
            vec![(theirs(1), 0)],
            vec![(theirs(1), 293)],
            vec![(theirs(1), max + 1)],
            vec![(theirs(1), max), (theirs(1), max)],
            vec![(theirs(1), u64::MAX), (theirs(1), u64::MAX)],
        ];
        for outputs in wrong {
            let refused = l
                .room
                .build_payment(l.wallet, &payment(&l, &outputs), Micros(l.now.get()))
                .unwrap_err();
            assert!(matches!(refused, WalletError::Payment(_)), "{refused}");
        }
        let too_much = l
            .room
            .build_payment(l.wallet, &payment(&l, &[(theirs(1), 100_000)]), Micros(0))
            .unwrap_err();
        assert!(matches!(too_much, WalletError::Select(SelectError::Insufficient { .. })));
        let mut absurd = payment(&l, &[(theirs(1), 10_000)]);
        absurd.rate = FeePerWeight { sat_per_kwu: 1_000_000 };
        assert!(l.room.build_payment(l.wallet, &absurd, Micros(0)).is_err());
        let note = ScriptBuf::new_op_return([1, 2, 3]);
        assert!(
            l.room
                .build_payment(l.wallet, &payment(&l, &[(note, 0), (theirs(1), 500)]), Micros(0))
                .is_ok()
        );
    });
}

/// Single signatures of every type, taproot and multisig.
#[test]
fn every_kind_of_descriptor_receives_and_pays() {
    on_both(|l| {
        let (a, b) = (xpub(11), xpub(12));
        let kinds = [
            format!("pkh({a}/<0;1>/*)"),
            format!("sh(wpkh({a}/<0;1>/*))"),
            format!("wpkh({a}/<0;1>/*)"),
            format!("tr({a}/<0;1>/*)"),
            format!("wsh(multi(2,{a}/<0;1>/*,{b}/<0;1>/*))"),
            format!("sh(wsh(sortedmulti(1,{a}/<0;1>/*,{b}/<0;1>/*)))"),
            format!("wsh(and_v(v:pk({a}/<0;1>/*),older(10)))"),
        ];
        for (n, kind) in kinds.iter().enumerate() {
            let new = NewWallet {
                name: format!("kind {n}"),
                accounts: vec![NewAccount {
                    name: "main".into(),
                    receive: kind.clone(),
                    change: None,
                }],
                birthday: 1_000_000,
                gap_limit: 5,
            };
            let wallet = l.room.create_wallet(&new, Micros(1)).unwrap();
            let address = l.room.next_address(wallet, None, KeychainPurpose::Receive).unwrap();
            let pay = tx(&[foreign(n as u32)], &[(&address.script, 100_000)]);
            let seen = l.see(&pay, TxSource::Mempool).unwrap();
            assert!(seen.wallets.contains(&wallet), "{kind}");
            let block = l.block(&[&pay]);
            // The wallet is newborn: it joins with the next block.
            l.try_apply(block).unwrap();
            // One kind asks for ten blocks on its coins.
            for _ in 0..9 {
                l.try_apply(l.block(&[])).unwrap();
            }
            let unsigned = l.room.build_payment(
                wallet,
                &payment(&l, &[(theirs(1), 30_000)]),
                Micros(l.now.get()),
            );
            let unsigned = unsigned.unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert!(unsigned.change_output.is_some());
            assert!(unsigned.chosen.selection.fee > 0);
        }
    });
}

/// Case 57: bare multisig.
#[test]
fn a_bare_multisig_output_is_credited() {
    on_both(|l| {
        let key = |seed| {
            let secp = Secp256k1::new();
            bitcoin::PublicKey::new(xpriv(seed).private_key.public_key(&secp)).to_string()
        };
        let receive = format!("multi(1,{},{})", key(21), key(22));
        let account = NewAccount { name: "bare".into(), receive, change: None };
        l.room.add_account(l.wallet, &account).unwrap();
        let chains = l.room.keychains(l.wallet).unwrap();
        let chain = chains.iter().find(|chain| chain.account == "bare").unwrap();
        assert_eq!(chain.derived_to, 1);
        let address =
            l.room.next_address(l.wallet, Some("bare"), KeychainPurpose::Receive).unwrap();
        let again = l.room.next_address(l.wallet, Some("bare"), KeychainPurpose::Receive).unwrap();
        assert_eq!(address.script, again.script, "a chain of one script has one address");
        let pay = tx(&[foreign(1)], &[(&address.script, 700)]);
        l.mempool(&pay);
        assert_eq!(l.balance().total(), 700);
    });
}
