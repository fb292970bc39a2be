//! Tokens of which others have claimed a part, and claims that can't succeed.

use std::time::Duration;

use cashu::{
    Amount, MintRequest, Proofs, State, SwapRequest, Token,
    amount::{FeeAndAmounts, SplitTarget},
    dhke::construct_proofs,
    nuts::{PreMintSecrets, SpendingConditions},
};
use unspent_ecash::EntityDetails;
use unspent_ecash_room::work::EcashWorkError;
use unspent_model::ecash::EntityState;
use unspent_testkit::ecash::{FaultProxy, Nutshell};

use crate::{
    crossing::Crossing,
    purse::{PATIENCE, Purse},
    wallet::{Wallet, asked, plain},
};

fn sum(proofs: &[cashu::Proof]) -> u64 {
    proofs.iter().map(|proof| u64::from(proof.amount)).sum()
}

/// Somebody else swaps proofs to themselves.
fn claimed_by_other(purse: &Purse, proofs: &[cashu::Proof]) {
    let fee = (proofs.len() as u64 * purse.keys.input_fee_ppk).div_ceil(1_000);
    let outputs = purse.outputs(sum(proofs) - fee).blinded_messages();
    purse.client.swap(&SwapRequest::new(proofs.to_vec(), outputs)).unwrap();
}

/// The token's largest proof, and the others.
fn split(mut token: Proofs) -> (Proofs, Proofs) {
    token.sort_by_key(|proof| std::cmp::Reverse(proof.amount));
    let others = token.split_off(1);
    (token, others)
}

#[test]
fn a_token_claimed_in_part_and_then_reversed_gives_back_what_is_left() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&mint.url());
    wallet.earn(&account, 1_000);
    for is_known in [false, true] {
        let (send, _) = wallet.token(&account, 77);
        let token = wallet.executor.store.open_entity(&send).unwrap().held;
        let whole = sum(&token);
        let (large, small) = split(token);
        assert_eq!((sum(&large), whole), (64, 78));
        claimed_by_other(&Purse::new(&mint.url()), &large);
        if is_known {
            wallet.work_while(&send, |entity| entity.token_figures() == Some((64, 78)));
            assert_eq!(wallet.entity(&send).state, EntityState::Pending);
            assert_eq!(wallet.last_note(&send), "64 of 78 claimed");
            assert_eq!(wallet.balance(&account).1, 14);
            let left = wallet.executor.token(&send).unwrap();
            assert_eq!(u64::from(left.value().unwrap()), 14, "the token is what is left");
            wallet.audit(&[&account]);
        }
        let (free, _) = wallet.balance(&account);
        let back = wallet.executor.reverse(&send, &asked()).unwrap();
        wallet.work_until(&back.id, EntityState::Completed);
        assert_eq!(wallet.entity(&send).state, EntityState::Reversed);
        assert_eq!(wallet.entity(&send).token_figures(), Some((64, 78)));
        assert_eq!(wallet.balance(&account), (free + sum(&small) - 1, 0));
        wallet.audit(&[&account]);
    }
}

#[test]
fn a_token_that_is_half_spent_pays_elsewhere_with_what_is_left() {
    let Some(crossing) = Crossing::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let (from, to) = (wallet.account(&crossing.a.url()), wallet.account(&crossing.b.url()));
    wallet.earn(&from, 1_000);
    let (send, token) = wallet.token(&from, 300);
    let (large, small) = split(wallet.executor.store.open_entity(&send).unwrap().held);
    let claim = crossing.claim(&wallet.executor, &token, &to);
    claimed_by_other(&Purse::new(&crossing.one.url()), &large);
    wallet.work_until(&claim.id, EntityState::Failed);
    let note = wallet.last_note(&claim.id);
    let whole = sum(&large) + sum(&small);
    let left = format!("{} of {whole} are left, and can be claimed", sum(&small));
    assert!(note.ends_with(&left), "{note}");
    // The same token again: what is left of it pays.
    let again = crossing.claim(&wallet.executor, &token, &to);
    wallet.work_until(&again.id, EntityState::Completed);
    let (got, _) = wallet.balance(&to);
    assert!(got > 0 && got < sum(&small), "{got}");
    wallet.work_until(&send, EntityState::Completed);
    wallet.audit(&[&from, &to]);
}

/// Fresh proofs of 1 each.
fn ones(purse: &Purse, count: u64) -> Proofs {
    let quote = purse.quote(count);
    purse.wait_paid(&quote);
    let how = FeeAndAmounts::from((purse.keys.input_fee_ppk, vec![1]));
    let target = SplitTarget::Value(Amount::ONE);
    let made = PreMintSecrets::random(purse.keys.id, count.into(), &target, &how).unwrap();
    let request = MintRequest { quote, outputs: made.blinded_messages(), signature: None };
    let signed = purse.client.mint(&request).unwrap().signatures;
    construct_proofs(signed, made.rs(), made.secrets(), &purse.keys.keys).unwrap()
}

#[test]
fn a_token_of_more_proofs_than_the_mint_takes_at_once_is_claimed() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&mint.url());
    let purse = Purse::new(&mint.url());
    let mut proofs = ones(&purse, 600);
    proofs.extend(ones(&purse, 500));
    let url = account.mint_url.clone().unwrap();
    let token = Token::new(url, proofs, None, cashu::CurrencyUnit::Sat);
    let claim = wallet.executor.claim(&token, &account.id, &asked()).unwrap();
    wallet.work_until(&claim.id, EntityState::Completed);
    let EntityDetails::ReceiveSwap(details) = wallet.entity(&claim.id).details else { panic!() };
    assert_eq!(details.progress.batch, Some(550));
    assert_eq!(wallet.balance(&account), (1_100 - 110, 0));
    wallet.audit(&[&account]);
}

/// A token whose proofs are locked to somebody else's key.
fn locked(purse: &Purse, value: u64) -> Proofs {
    let proofs = purse.mint(value);
    let fee = (proofs.len() as u64 * purse.keys.input_fee_ppk).div_ceil(1_000);
    let amounts: Vec<u64> = purse.keys.keys.iter().map(|(amount, _)| u64::from(*amount)).collect();
    let how = FeeAndAmounts::from((purse.keys.input_fee_ppk, amounts));
    let key = cashu::SecretKey::generate().public_key();
    let lock = SpendingConditions::P2PKConditions { data: key, conditions: None };
    let sum = Amount::from(value - fee);
    let target = SplitTarget::None;
    let made = PreMintSecrets::with_conditions(purse.keys.id, sum, &target, &lock, &how).unwrap();
    let request = SwapRequest::new(proofs, made.blinded_messages());
    let signed = purse.client.swap(&request).unwrap().signatures;
    construct_proofs(signed, made.rs(), made.secrets(), &purse.keys.keys).unwrap()
}

#[test]
fn a_claim_that_can_never_succeed_ends_with_its_reason() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&mint.url());
    let purse = Purse::new(&mint.url());
    let url = account.mint_url.clone().unwrap();
    let token = |proofs| Token::new(url.clone(), proofs, None, cashu::CurrencyUnit::Sat);
    let proofs = locked(&purse, 16);
    let claim = wallet.executor.claim(&token(proofs.clone()), &account.id, &asked()).unwrap();
    wallet.work_until(&claim.id, EntityState::Failed);
    let note = wallet.last_note(&claim.id);
    assert!(note.starts_with("The token is locked"), "{note}");
    assert_eq!(purse.states(&proofs), vec![State::Unspent; proofs.len()]);

    // No mint has signed it, and this one reads no secret of that length.
    let mut long = purse.mint(16);
    long[0].secret = cashu::secret::Secret::new("a".repeat(200_000));
    let claim = wallet.executor.claim(&token(long), &account.id, &asked()).unwrap();
    wallet.work_until(&claim.id, EntityState::Failed);
    let note = wallet.last_note(&claim.id);
    assert!(note.contains("too long"), "{note}");
    assert_eq!(wallet.balance(&account), (0, 0));
    wallet.audit(&[&account]);
}

/// The mint's own words say nothing: only people can end that.
#[test]
fn a_claim_that_nobody_understands_is_given_up_by_people() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let proxy = FaultProxy::start(&mint.url());
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&proxy.url());
    let purse = Purse::new(&mint.url());
    let proofs = purse.mint(16);
    let url = account.mint_url.clone().unwrap();
    let token = Token::new(url, proofs.clone(), None, cashu::CurrencyUnit::Sat);
    let strange = || unspent_testkit::ecash::Fault::error(0, "no");
    proxy.script("/v1/swap", std::iter::repeat_with(strange).take(100));
    let claim = wallet.executor.claim(&token, &account.id, &asked()).unwrap();
    wallet.work_for(Duration::from_secs(3));
    assert_eq!(wallet.entity(&claim.id).state, EntityState::Pending);
    wallet.executor.cancel(&claim.id).unwrap();
    let asked_before = proxy.count("/v1/swap");
    wallet.work_until(&claim.id, EntityState::Failed);
    assert_eq!(proxy.count("/v1/swap"), asked_before, "it isn't tried any more");
    assert_eq!(wallet.last_note(&claim.id), "Given up.");
    assert_eq!(purse.states(&proofs), vec![State::Unspent; proofs.len()]);
    wallet.audit(&[&account]);
}

#[test]
fn a_send_says_what_change_is_under_way_and_waits_for_it_when_asked_to() {
    let Some(mint) = Nutshell::start(plain()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wallet = Wallet::open(folder.path());
    let account = wallet.account(&mint.url());
    wallet.earn(&account, 1_024);
    // The one proof there is is held until the first token is made.
    wallet.executor.send(&account.id, 100, &asked()).unwrap();
    let short = wallet.executor.send(&account.id, 100, &asked()).unwrap_err();
    let told = "0 are there, 922 more come back from payments under way (1024 are held)";
    assert!(short.to_string().contains(told), "{short}");
    let send = || wallet.executor.send(&account.id, 100, &asked());
    let now = std::time::Instant::now();
    let hurried = wallet.executor.with_change(now, &|| true, send);
    assert!(matches!(hurried, Err(EcashWorkError::Short(_))), "{hurried:?}");
    let second = wallet.executor.with_change(now + PATIENCE, &|| true, send).unwrap();
    wallet.work_until(&second.id, EntityState::Pending);
    // What isn't there at all is refused at once.
    let never = wallet.executor.with_change(now + PATIENCE, &|| true, || {
        wallet.executor.send(&account.id, 100_000, &asked())
    });
    assert!(matches!(never, Err(EcashWorkError::Short(short)) if short.coming == 0));
    wallet.audit(&[&account]);
}
