//! Many processes in one wallet: no coin leased twice, none lost, no deadlock.

use std::{
    collections::HashMap,
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use unspent_model::{
    Micros, Network,
    wallet::{
        LockId,
        select::{ChangePolicy, FeePerWeight},
    },
};
use unspent_sql::Options;
use unspent_wallet::{
    WalletError, WalletId, WalletStore,
    choose::{CoinPolicy, SelectionTarget},
    lease::LeaseTerms,
};

use crate::ledger::*;

const PROCESSES: usize = 32;
const COINS: usize = 40;

/// Requests of each process; `make soak` raises it.
fn rounds() -> u32 {
    std::env::var("UNSPENT_WALLET_RACE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(500)
}

fn clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64
}

/// One process: chooses and leases, and says what it got.
#[test]
#[allow(clippy::print_stdout)]
fn worker_of_a_race_does_nothing_unless_asked() {
    let Ok(url) = std::env::var("UNSPENT_RACE_URL") else { return };
    let me: u32 = std::env::var("UNSPENT_RACE_ID").unwrap().parse().unwrap();
    let room =
        WalletStore::open(&url.parse().unwrap(), Network::BitcoinRegtest, Options::default());
    let room = room.unwrap();
    for round in 0..rounds() {
        let mut id = [1; 32];
        id[..4].copy_from_slice(&me.to_le_bytes());
        id[4..8].copy_from_slice(&round.to_le_bytes());
        let mix = u64::from(me) * 7919 + u64::from(round) * 104_729;
        let now = clock();
        let duration = 3_000 + (mix % 60_000) as i64;
        let terms =
            LeaseTerms { lock: LockId::new(&id).unwrap(), duration, hold_confirmations: None };
        let policy = CoinPolicy { seed: mix, ..CoinPolicy::default() };
        let wanted = SelectionTarget::new(
            5_000 + mix % 25_000,
            200,
            FeePerWeight { sat_per_kwu: 250 },
            ChangePolicy { weight: 124, spend_weight: 272, min: 294 },
        );
        match room.select_and_lease(WalletId(1), wanted, &policy, terms, Micros(now)) {
            Ok(chosen) => {
                for coin in chosen.coins {
                    println!("LEASED {} {now} {} {me}-{round}", coin.outpoint, now + duration);
                }
            }
            Err(WalletError::Select(_)) => println!("NONE"),
            Err(error) => println!("ERROR {error}"),
        }
    }
}

#[test]
fn thirty_two_processes_never_lease_a_coin_twice() {
    on_both(|l| {
        let script = l.ours(0);
        let outputs: Vec<_> = (0..COINS as u64).map(|n| (&script, 10_000 + n)).collect();
        l.mine(&[&tx(&[foreign(1)], &outputs)]);
        let url = match &l.url {
            unspent_sql::Url::Sqlite(path) => format!("sqlite:{}", path.display()),
            unspent_sql::Url::Postgres(text) => text.clone(),
        };
        let start = |id: usize| {
            Command::new(std::env::current_exe().unwrap())
                .args(["races::worker_of_a_race_does_nothing_unless_asked", "--exact"])
                .args(["--nocapture", "--test-threads=1"])
                .env("UNSPENT_RACE_URL", &url)
                .env("UNSPENT_RACE_ID", id.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let children: Vec<_> = (0..PROCESSES).map(start).collect();
        let mut taken: HashMap<String, Vec<(i64, i64, String)>> = HashMap::new();
        let (mut leases, mut answers) = (0, 0);
        for child in children {
            let done = child.wait_with_output().unwrap();
            assert!(done.status.success());
            let text = String::from_utf8(done.stdout).unwrap();
            assert!(!text.contains("ERROR"), "{text}");
            let mut requests = std::collections::HashSet::new();
            for line in text.lines().filter_map(|line| line.split("LEASED ").nth(1)) {
                let words: Vec<&str> = line.split(' ').collect();
                let span = (words[1].parse().unwrap(), words[2].parse().unwrap(), words[3].into());
                requests.insert(words[3].to_owned());
                taken.entry(words[0].into()).or_default().push(span);
                leases += 1;
            }
            answers += requests.len() + text.matches("NONE").count();
        }
        assert_eq!(answers, PROCESSES * rounds() as usize, "every request was answered");
        for (coin, mut spans) in taken {
            spans.sort();
            for pair in spans.windows(2) {
                assert!(pair[1].0 >= pair[0].1, "{coin} was leased twice at once: {pair:?}");
            }
        }
        eprintln!("{leases} leases by {PROCESSES} processes on {}", l.url);
        assert!(leases > 0);
        l.check();
        assert_eq!(l.unspent().len(), COINS, "no coin is lost");
        let later = clock() + 100_000;
        assert_eq!(l.room.balance(l.wallet, 1, Micros(later)).unwrap().leased.coins, 0);
    });
}
