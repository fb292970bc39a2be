//! Wallets of other programs: real files of btcwallet, and what the real library says of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
};

use bitcoin::{Block, OutPoint, ScriptBuf, hashes::Hash as _};
use serde_json::Value;
use unspent_btcwallet::WalletFile;
use unspent_model::{Micros, Point, wallet::CoinState};
use unspent_testkit::data;
use unspent_wallet::{
    WalletError, WalletId,
    import::{
        ImportResult,
        btcwallet::{ImportTerms, PreparedImport, prepare},
        report::ImportReport,
    },
    placed_block::PlacedBlock,
};

use super::ledger::{Ledger, SECOND, coinbase, descriptor, foreign, on_both, out, tx};

/// A time at which the leases of the files hold or have run out as the answers say.
const NOW: i64 = 1_800_000_000 * SECOND;
const NAME: &str = "moved";

fn file(name: &str) -> Option<Vec<u8>> {
    let name = format!("btcwallet/{name}");
    if data::folder()?.join(&name).exists() {
        return data::bytes(&name);
    }
    let mut bytes = Vec::new();
    let packed = data::bytes(&format!("{name}.gz"))?;
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    Some(bytes)
}

/// A file, read, with what the library says of it.
struct Story<'a> {
    file: WalletFile<'a>,
    prepared: PreparedImport,
    expected: Value,
}

fn with_story(name: &str, test: impl Fn(&Story<'_>, &Ledger)) {
    let Some(bytes) =
        file(&format!("{name}/wallet.db")).filter(|_| data::path("btcwallet").is_some())
    else {
        data::path("btcwallet");
        return;
    };
    let expected = file(&format!("{name}/expected.json")).unwrap();
    let file = WalletFile::read(&bytes).unwrap();
    let public = file.keys.open(&["public"]).unwrap();
    let terms = ImportTerms { name: NAME.into(), gap_limit: 20, now: Micros(NOW) };
    let prepared = prepare(&file, &public, bitcoin::Network::Regtest, &terms).unwrap();
    let expected = serde_json::from_slice(&expected).unwrap();
    let story = Story { file, prepared, expected };
    on_both(|ledger| test(&story, &ledger));
}

impl Story<'_> {
    fn import(
        &self,
        ledger: &Ledger,
        dry_run: bool,
    ) -> Result<(ImportResult, ImportReport), WalletError> {
        let done = ledger.room.import(self.prepared.import.clone(), dry_run, Micros(NOW))?;
        let report = ImportReport::new(&self.file, &self.prepared, &done, dry_run, Micros(NOW));
        Ok((done, report))
    }

    fn said(&self, name: &str) -> &Vec<Value> {
        self.expected["wtxmgr"][name].as_array().unwrap()
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn coin(value: &Value) -> OutPoint {
    format!("{}:{}", value["txid"].as_str().unwrap(), value["vout"]).parse().unwrap()
}

/// Each transaction: its block, bytes, time, label, what it brought and took.
fn check_transactions(story: &Story<'_>, ledger: &Ledger, wallet: WalletId) {
    for said in story.said("transactions") {
        let txid = said["txid"].as_str().unwrap();
        let found = ledger.room.tx(wallet, txid.parse().unwrap()).unwrap();
        assert_eq!(bitcoin::consensus::encode::serialize_hex(&found.tx), said["raw"], "{txid}");
        let summary = &found.summary;
        assert_eq!(summary.height, said["block"]["height"].as_u64(), "{txid}");
        assert_eq!(summary.received, Micros(said["received"].as_i64().unwrap() * SECOND), "{txid}");
        assert_eq!(summary.label.as_deref().unwrap_or(""), said["label"], "{txid}");
        let parts = |name: &str| -> BTreeMap<u64, u64> {
            let parts = said[name].as_array().unwrap().iter();
            parts.map(|part| (number(&part["index"]), number(&part["amount"]))).collect()
        };
        let ours = found.outputs.iter().filter(|output| output.is_ours);
        let ours: BTreeMap<u64, u64> = ours.map(|o| (o.index.into(), o.amount)).collect();
        assert_eq!(ours, parts("credits"), "{txid}");
        let inputs = (0..).zip(&found.inputs);
        let spent: BTreeMap<u64, u64> =
            inputs.filter_map(|(at, input)| Some((at, input.amount?))).collect();
        assert_eq!(spent, parts("debits"), "{txid}");
    }
    let count = number(&story.expected["wtxmgr"]["counts"]["mined"])
        + number(&story.expected["wtxmgr"]["counts"]["unmined"]);
    assert_eq!(story.prepared.import.txs.len() as u64, count);
}

/// Coins that may be spent here, by outpoint.
fn free_coins(ledger: &Ledger, wallet: WalletId) -> BTreeMap<OutPoint, u64> {
    let (mut all, mut after) = (BTreeMap::new(), 0);
    loop {
        let page = ledger.room.all_coins(wallet, after, 1_000, Micros(NOW)).unwrap();
        let Some(last) = page.last() else { return all };
        after = last.id;
        let free = page.iter().filter(|coin| {
            use CoinState as S;
            matches!(coin.state, S::Confirmed | S::Unconfirmed | S::Pending | S::Immature)
        });
        all.extend(free.map(|coin| (coin.outpoint, coin.amount)));
    }
}

/// Unspent outputs, but for those that lost to a conflict, which are given.
fn check_unspent(story: &Story<'_>, ledger: &Ledger, wallet: WalletId, lost: &BTreeSet<OutPoint>) {
    let said = story.said("unspent").iter().map(|said| (coin(said), number(&said["amount"])));
    let said: BTreeMap<_, _> = said.filter(|(coin, _)| !lost.contains(coin)).collect();
    assert_eq!(free_coins(ledger, wallet), said);
    let held = ledger.room.leases(wallet, Micros(NOW)).unwrap();
    let held = held.iter().map(|lease| (lease.coin, lease.lock.to_string(), lease.expires_at.0));
    let wanted = story.said("locked_outputs").iter().map(|said| {
        let expires = said["expiration"].as_i64().unwrap() * SECOND;
        (coin(said), said["id"].as_str().unwrap().to_owned(), expires)
    });
    assert_eq!(held.collect::<BTreeSet<_>>(), wanted.collect::<BTreeSet<_>>());
}

/// Every address that the source knows is watched, and used where the source saw it used.
fn check_addresses(story: &Story<'_>, ledger: &Ledger, wallet: WalletId) {
    let mut here = BTreeMap::new();
    let mut after = 0;
    loop {
        let page = ledger.room.addresses(wallet, after, 1_000).unwrap();
        let Some(last) = page.last() else { break };
        after = last.id;
        here.extend(page.into_iter().map(|found| (found.script, found.is_used)));
    }
    for scope in story.expected["waddrmgr"]["scopes"].as_array().unwrap() {
        for account in scope["accounts"].as_array().unwrap() {
            for said in account["addresses"].as_array().unwrap() {
                let script = ScriptBuf::from_hex(said["pk_script"].as_str().unwrap()).unwrap();
                assert_eq!(here.get(&script).copied(), said["used"].as_bool(), "{said}");
            }
        }
    }
    let chains = ledger.room.keychains(wallet).unwrap();
    for scope in story.expected["waddrmgr"]["scopes"].as_array().unwrap() {
        for account in scope["accounts"].as_array().unwrap() {
            let Some(key) = account["xpub_network_version"].as_str() else { continue };
            if account["addresses"].as_array().unwrap().is_empty() && scope["purpose"] == 1017 {
                continue;
            }
            let of = chains.iter().filter(|chain| chain.descriptor.contains(key));
            let next: Vec<u64> = of.map(|chain| chain.next_index.into()).collect();
            let counts = ["external_count", "internal_count"].map(|name| number(&account[name]));
            assert_eq!(next, counts, "{}", account["name"]);
        }
    }
}

/// Balances as the library gives them, less what lost to a conflict.
fn check_balances(story: &Story<'_>, ledger: &Ledger, wallet: WalletId, lost: u64) {
    let said = story.expected["wtxmgr"]["balance_by_minconf"].as_object().unwrap();
    for (minconf, said) in said {
        let minconf: u32 = minconf.parse().unwrap();
        let found = ledger.room.balance(wallet, minconf, Micros(NOW)).unwrap();
        let waiting = found.unconfirmed_own.sats + found.unconfirmed_foreign.sats;
        let (extra, lost) = if minconf == 0 { (waiting, lost) } else { (0, 0) };
        assert_eq!(found.confirmed.sats + extra + lost, number(said), "at {minconf}");
    }
}

fn check(story: &Story<'_>, ledger: &Ledger, lost: &BTreeSet<OutPoint>) -> ImportReport {
    let (done, report) = story.import(ledger, false).unwrap();
    let wallet = done.wallet;
    check_transactions(story, ledger, wallet);
    check_unspent(story, ledger, wallet, lost);
    check_addresses(story, ledger, wallet);
    let amounts = story.said("unspent").iter().filter(|said| lost.contains(&coin(said)));
    check_balances(story, ledger, wallet, amounts.map(|said| number(&said["amount"])).sum());
    assert!(report.is_sound(), "{report:#?}");
    assert_eq!(ledger.room.audit(wallet).unwrap(), Vec::<String>::new());
    let info = ledger.room.wallet_info(wallet).unwrap();
    let synced = &story.expected["waddrmgr"]["synced_to"];
    let Point { height, hash, .. } = info.scanned.unwrap();
    assert_eq!(height, number(&synced["height"]));
    assert_eq!(bitcoin::BlockHash::from_byte_array(hash.0).to_string(), synced["hash"]);

    let lines = ledger.room.journal(wallet, None, 0, 1_000).unwrap();
    let (again, repeated) = story.import(ledger, false).unwrap();
    assert!(again.is_nothing() && repeated.unchanged, "{repeated:#?}");
    assert_eq!(ledger.room.journal(wallet, None, 0, 1_000).unwrap(), lines);
    assert_eq!(ledger.room.wallet_info(wallet).unwrap(), info);
    assert_eq!(repeated.balances, report.balances);
    report
}

#[test]
fn a_file_with_coinbases_and_every_kind_of_address_is_taken_in_whole() {
    with_story("a", |story, ledger| {
        let report = check(story, ledger, &BTreeSet::new());
        assert_eq!((report.transactions.now, report.difference_count), (8, 0));
        assert_eq!(report.left.len(), 1, "{:?}", report.left);
    });
}

#[test]
fn of_two_unmined_transactions_that_conflict_one_lives_and_the_report_says_so() {
    with_story("b", |story, ledger| {
        let (_, report) = story.import(ledger, true).unwrap();
        assert!(report.dry_run && report.is_sound());
        assert!(
            report.difference_count > 0
                && report
                    .differences
                    .iter()
                    .all(|d| { d.why.contains("two transactions") && d.here != "unknown" }),
            "{report:#?}"
        );
        let lost = report.differences.iter().filter(|found| found.source == "unspent");
        let lost = lost.map(|found| found.outpoint.parse().unwrap()).collect();
        let report = check(story, ledger, &lost);
        assert_eq!((report.labels.now, report.leases.now, report.unmined), (6, 3, 7));
        let left: Vec<&str> = report.left.iter().map(|left| left.what.as_str()).collect();
        assert_eq!(left, ["accounts of lnd's own keys", "leases", "private keys"]);
    });
}

#[test]
fn a_file_of_two_thousand_transactions_is_taken_in_whole() {
    with_story("d", |story, ledger| {
        let report = check(story, ledger, &BTreeSet::new());
        assert_eq!((report.transactions.now, report.addresses), (2_000, 2_430));
        assert_eq!((report.labels.now, report.leases.now), (55, 9));
    });
}

#[test]
fn a_file_that_only_watched_is_taken_in_whole() {
    with_story("e", |story, ledger| {
        let report = check(story, ledger, &BTreeSet::new());
        assert_eq!((report.accounts.now, report.left.len()), (3, 0));
    });
}

#[test]
fn a_dry_run_leaves_nothing() {
    with_story("b", |story, ledger| {
        story.import(ledger, true).unwrap();
        assert!(matches!(ledger.room.wallet(NAME), Err(WalletError::NoWallet(_))));
        assert_eq!(ledger.room.tip().unwrap(), None);
        assert_eq!(ledger.room.all_wallets().unwrap().len(), 1);
    });
}

#[test]
fn a_wallet_that_was_taken_in_follows_the_chain() {
    with_story("a", |story, ledger| {
        let wallet = story.import(ledger, false).unwrap().0.wallet;
        let before = ledger.room.balance(wallet, 1, Micros(NOW)).unwrap();
        let Point { height, hash: parent, .. } =
            ledger.room.wallet_info(wallet).unwrap().scanned.unwrap();
        // The first address that the source had not handed out yet.
        let address = ledger.room.next_address(wallet, Some("bip84/default"), purpose()).unwrap();
        assert_eq!(address.index, 6);
        let paid = tx(&[foreign(1)], &[(&address.script, 777)]);
        let made =
            ledger.block_of(vec![coinbase(&ScriptBuf::from_bytes(vec![0x51]), 1, 1), paid.clone()]);
        let mut block: Block = (*made.block).clone();
        block.header.prev_blockhash = bitcoin::BlockHash::from_byte_array(parent.0);
        let applied =
            ledger.room.apply_blocks(vec![PlacedBlock::of(height + 1, block)], Micros(NOW));
        assert!(applied.unwrap().moved.contains(&wallet));
        let after = ledger.room.balance(wallet, 1, Micros(NOW)).unwrap();
        assert_eq!(after.confirmed.sats, before.confirmed.sats + 777);
        let found = ledger.room.coin(wallet, out(&paid, 0), Micros(NOW)).unwrap();
        assert_eq!(found.state, CoinState::Confirmed);
        // Taken in again, what came since stays.
        let (again, report) = story.import(ledger, false).unwrap();
        assert!(again.is_nothing() && again.has_gone_on && report.is_sound());
        assert_eq!(ledger.room.balance(wallet, 1, Micros(NOW)).unwrap(), after);
    });
}

fn purpose() -> unspent_wallet::wallet_info::KeychainPurpose {
    unspent_wallet::wallet_info::KeychainPurpose::Receive
}

#[test]
fn an_account_of_the_same_name_with_other_keys_refuses_the_whole_file() {
    with_story("e", |story, ledger| {
        let account = unspent_wallet::NewAccount {
            name: "bip84/act:84".into(),
            receive: descriptor(9),
            change: None,
        };
        let new = unspent_wallet::NewWallet {
            name: NAME.into(),
            accounts: vec![account],
            birthday: 0,
            gap_limit: 20,
        };
        let wallet = ledger.room.create_wallet(&new, Micros(1)).unwrap();
        let error = story.import(ledger, false).err().unwrap();
        assert!(error.to_string().contains("already exists with other keys"), "{error}");
        assert_eq!(ledger.room.keychains(wallet).unwrap().len(), 2);
        assert_eq!(ledger.room.tip().unwrap(), None);
    });
}
