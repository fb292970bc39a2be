//! Named cases: each a mistake that somebody in the field has made.

use unspent_chain::{
    ApplyError, ApplyOutcome, ChainIndex, CoinState, IndexName, Indexes, Kind, OpenError, Options,
    Owner, PageOrder, QueryError, Reader, RollbackError, RollbackTarget, prepare, schema,
};
use unspent_model::{
    BlockHash, Family, Network, Outpoint, Point, TxId,
    chain::{AdmitError, Asset, Block, Era, Header, Output, Tx, Work},
};
use unspent_testkit::chain::{coin_of, payment};

use crate::driver::{Store, all_pages, bytes, genesis, small_windows};

/// A block on top of `parent` with these transactions; the hash is made from height and `branch`.
pub fn block_on(parent: Option<&Block<Output>>, branch: u8, txs: Vec<Tx<Output>>) -> Block<Output> {
    let (height, slot, hash) = parent.map_or((0, 0, BlockHash([0; 32])), |parent| {
        let point = parent.header.point;
        (point.height + 1, point.slot + 20, point.hash)
    });
    let mut own = [branch; 32];
    own[..8].copy_from_slice(&height.to_be_bytes());
    let header = Header {
        point: Point { height, slot, hash: BlockHash(own) },
        parent: hash,
        era: Era::Conway,
        is_boundary: false,
        epoch: Some(slot / 100),
        time: 1_700_000_000 + slot,
        work: Work::default(),
    };
    Block { header, txs }
}

fn chain(blocks: Vec<Vec<Tx<Output>>>) -> Vec<Block<Output>> {
    let mut chain: Vec<Block<Output>> = Vec::new();
    for txs in blocks {
        chain.push(block_on(chain.last(), 1, txs));
    }
    chain
}

fn outpoint(tx: u64, index: u32) -> Outpoint {
    Outpoint::new(payment(tx, vec![], vec![]).id, index)
}

fn create(tx: u64, owner: u8, value: u64) -> Tx<Output> {
    payment(tx, vec![], vec![(0, coin_of(owner, value))])
}

fn spend(tx: u64, coins: Vec<Outpoint>) -> Tx<Output> {
    payment(tx, coins, vec![])
}

fn owner_of(owner: u8) -> Owner {
    Owner::address(Family::Cardano, &coin_of(owner, 0).addr)
}

/// The same bytes as a script of Bitcoin.
fn script_of(owner: u8) -> Owner {
    Owner::address(Family::Bitcoin, &coin_of(owner, 0).addr)
}

fn store() -> Store {
    Store::cardano(small_windows(10, 10))
}

fn is_unspent(reader: &Reader, coin: Outpoint) -> bool {
    matches!(reader.coin(&coin).unwrap(), CoinState::Unspent(_))
}

fn is_unknown(reader: &Reader, coin: Outpoint) -> bool {
    matches!(reader.coin(&coin).unwrap(), CoinState::Unknown)
}

fn listed(reader: &Reader, owner: Owner) -> Vec<Outpoint> {
    all_pages(reader, owner, PageOrder::Ascending, 100)
}

#[test]
fn one_output_answers_by_address_and_by_outpoint() {
    let mut store = store();
    let blocks = chain(vec![vec![create(1, 0, 700)]]);
    store.apply_all(&blocks);
    let page = store.reader().page(owner_of(0), PageOrder::Ascending, 10, None).unwrap();
    let CoinState::Unspent(record) = store.reader().coin(&outpoint(1, 0)).unwrap() else {
        panic!("not unspent")
    };
    assert_eq!(page.coins, [(outpoint(1, 0), record.clone())]);
    assert_eq!(page.at, Some(blocks[0].header.point));
    assert_eq!(record.output.value, 700);
    assert_eq!(record.born.slot, 0);
    assert_eq!(record.born.block_hash, blocks[0].header.point.hash);
}

/// A transaction that failed in phase 2: takes `collateral`, gives `returned` back.
fn failed(tx: u64, collateral: Outpoint, returned: Option<(u32, Output)>) -> Tx<Output> {
    let returned = returned.map(|(i, coin)| (i, Output { is_collateral_return: true, ..coin }));
    Tx { is_invalid: true, ..payment(tx, vec![collateral], returned.into_iter().collect()) }
}

#[test]
fn a_failed_transaction_takes_collateral_and_returns_change_after_its_outputs() {
    let mut store = store();
    let failing = failed(2, outpoint(1, 0), Some((1, coin_of(0, 90))));
    store.apply_all(&chain(vec![vec![create(1, 0, 100)], vec![failing]]));
    let reader = store.reader();
    assert!(matches!(reader.coin(&outpoint(1, 0)).unwrap(), CoinState::Spent(_)));
    assert!(is_unknown(&reader, outpoint(2, 0)), "regular outputs are not created");
    let CoinState::Unspent(returned) = reader.coin(&outpoint(2, 1)).unwrap() else {
        panic!("the change is missing")
    };
    assert!(returned.output.is_collateral_return);
    let delta = &reader.delta(1).unwrap()[0];
    assert_eq!(delta.tx_flags.len(), 1);
    assert!(delta.tx_flags[0].is_invalid && delta.tx_flags[0].had_collateral_return);
}

#[test]
fn a_failed_transaction_without_return_creates_nothing() {
    let mut store = store();
    let blocks = chain(vec![vec![create(1, 0, 100)], vec![failed(2, outpoint(1, 0), None)]]);
    store.apply_all(&blocks);
    let delta = &store.reader().delta(1).unwrap()[0];
    assert!(delta.created.is_empty() && delta.spent.len() == 1);
    assert!(!delta.tx_flags[0].had_collateral_return);
    assert_eq!(store.reader().digest().unwrap().coins, 0);
}

#[test]
fn a_failed_transaction_leaves_its_regular_inputs_unspent() {
    let mut store = store();
    let failing = failed(3, outpoint(2, 0), None);
    store.apply_all(&chain(vec![vec![create(1, 0, 1), create(2, 0, 2)], vec![failing]]));
    assert!(is_unspent(&store.reader(), outpoint(1, 0)));
}

#[test]
fn a_rolled_back_spend_gives_the_coin_and_both_lists_back() {
    let mut store = store();
    let blocks = chain(vec![vec![create(1, 0, 5)], vec![spend(2, vec![outpoint(1, 0)])]]);
    store.apply(&blocks[0]);
    let before = bytes(&store.reader());
    store.apply(&blocks[1]);
    assert!(listed(&store.reader(), owner_of(0)).is_empty());
    store.index().rollback(RollbackTarget::Height(0)).unwrap();
    assert_eq!(listed(&store.reader(), owner_of(0)), [outpoint(1, 0)]);
    assert_eq!(listed(&store.reader(), Owner::Credential([0; 28])), [outpoint(1, 0)]);
    assert_eq!(bytes(&store.reader()), before);
}

#[test]
fn rolling_back_the_creation_too_leaves_no_trace() {
    let mut store = store();
    let empty = bytes(&store.reader());
    store.apply_all(&chain(vec![vec![create(1, 0, 5)], vec![spend(2, vec![outpoint(1, 0)])]]));
    store.index().rollback(RollbackTarget::Origin).unwrap();
    assert_eq!(bytes(&store.reader()), empty);
}

#[test]
fn a_coin_born_and_spent_in_one_block_is_recorded_spent_and_never_listed() {
    let mut store = store();
    store.apply_all(&chain(vec![vec![create(1, 0, 5), spend(2, vec![outpoint(1, 0)])]]));
    let CoinState::Spent(spent) = store.reader().coin(&outpoint(1, 0)).unwrap() else {
        panic!("not spent")
    };
    let by = spent.by.unwrap();
    assert_eq!((by.tx, by.position, by.input), (outpoint(2, 0).tx, 1, 0));
    assert!(listed(&store.reader(), owner_of(0)).is_empty());
    let delta = &store.reader().delta(0).unwrap()[0];
    assert_eq!((delta.created.len(), delta.spent.len()), (1, 1));
}

#[test]
fn rolling_back_a_coin_born_and_spent_in_one_block_forgets_it_for_good() {
    let mut store = store();
    let chained = vec![
        create(1, 0, 5),
        payment(2, vec![outpoint(1, 0)], vec![(0, coin_of(1, 4))]),
        // The collateral return of a failed transaction, spent in the same block.
        failed(3, outpoint(2, 0), Some((2, coin_of(1, 3)))),
        payment(4, vec![outpoint(3, 2)], vec![(0, coin_of(2, 2))]),
    ];
    let blocks = chain(vec![vec![create(9, 3, 1)], chained]);
    store.apply_all(&blocks);
    let applied = bytes(&store.reader());
    store.index().rollback(RollbackTarget::Height(0)).unwrap();
    for coin in [outpoint(1, 0), outpoint(2, 0), outpoint(3, 2), outpoint(4, 0)] {
        assert!(is_unknown(&store.reader(), coin), "{coin:?}");
    }
    store.apply(&blocks[1]);
    assert_eq!(bytes(&store.reader()), applied);
    assert_eq!(listed(&store.reader(), owner_of(2)), [outpoint(4, 0)]);
}

#[test]
fn a_rollback_to_a_slot_keeps_the_block_at_that_slot() {
    let mut store = store();
    let blocks = chain(vec![vec![create(1, 0, 1)], vec![create(2, 0, 2)], vec![create(3, 0, 3)]]);
    store.apply_all(&blocks);
    let target = RollbackTarget::Slot(blocks[1].header.point.slot);
    assert_eq!(store.index().rollback(target).unwrap().tip, Some(blocks[1].header.point));
    assert!(is_unspent(&store.reader(), outpoint(2, 0)));
    let between = RollbackTarget::Slot(blocks[1].header.point.slot - 1);
    assert_eq!(store.index().rollback(between).unwrap().tip, Some(blocks[0].header.point));
}

#[test]
fn rolling_back_to_the_origin_keeps_the_coins_of_genesis() {
    let genesis = genesis();
    let mut store = Store::new(Network::CardanoPreview, small_windows(10, 10), &genesis);
    let spent = genesis[3].outpoint;
    store.apply_all(&chain(vec![vec![create(1, 0, 1), spend(2, vec![spent])]]));
    let done = store.index().rollback(RollbackTarget::Origin).unwrap();
    assert_eq!(done.tip, None);
    let digest = store.reader().digest().unwrap();
    assert_eq!((digest.coins, digest.at), (genesis.len() as u64, None));
    assert!(is_unspent(&store.reader(), spent));
}

#[test]
fn a_rollback_below_the_horizon_is_refused_before_anything_changes() {
    let mut store = Store::cardano(small_windows(2, 3));
    let blocks = chain((1..=9).map(|tx| vec![create(tx, 0, tx)]).collect());
    store.apply_all(&blocks);
    let before = bytes(&store.reader());
    let refused = store.index().rollback(RollbackTarget::Height(2)).unwrap_err();
    let RollbackError::BelowHorizon { depth, possible, .. } = refused else { panic!("{refused}") };
    assert_eq!((depth, possible), (6, 3));
    assert_eq!(refused.kind(), Kind::Refused);
    assert_eq!(bytes(&store.reader()), before);
    assert_eq!(store.index().tip(), Some(blocks[8].header.point));
}

/// Ten blocks, each spending the coin of the one before.
fn relay(length: u64) -> Vec<Block<Output>> {
    let pass_on = |tx: u64| {
        let spends = if tx == 1 { vec![] } else { vec![outpoint(tx - 1, 0)] };
        vec![payment(tx, spends, vec![(0, coin_of(0, tx))])]
    };
    chain((1..=length).map(pass_on).collect())
}

#[test]
fn pruning_less_deep_than_the_window_still_rolls_back_through_the_window() {
    let mut store = Store::cardano(small_windows(3, 4));
    let blocks = relay(10);
    store.apply_all(&blocks[..7]);
    let digest = store.reader().digest().unwrap();
    store.apply_all(&blocks[7..]);
    store.index().prune_all().unwrap();
    store.index().rollback(RollbackTarget::Height(6)).unwrap();
    assert_eq!(store.reader().digest().unwrap(), digest);
}

#[test]
fn past_the_window_delta_and_spent_body_are_pruned_together_and_the_horizon_rises() {
    let mut store = Store::cardano(small_windows(3, 4));
    let blocks = relay(6);
    store.apply_all(&blocks[..5]);
    assert!(!is_unknown(&store.reader(), outpoint(1, 0)), "spent inside the window");
    store.apply(&blocks[5]);
    let status = store.reader().status().unwrap();
    assert_eq!(status.horizon.floor, 2);
    assert!(is_unknown(&store.reader(), outpoint(1, 0)));
    let gone = store.reader().delta(1).unwrap_err();
    assert!(matches!(gone, QueryError::NoDelta { height: 1, floor: Some(1) }), "{gone}");
    assert!(store.reader().delta(2).is_ok());
}

#[test]
fn the_prune_cursor_survives_a_restart_and_a_pass_is_bounded() {
    let mut store = Store::cardano(small_windows(100, 100));
    store.apply_all(&relay(40));
    store.options = Options { prune_batch_size: 1, ..small_windows(5, 5) };
    store.reopen();
    let pass = store.index().prune().unwrap();
    assert_eq!(pass.deltas, 2, "at least one whole block, two while behind");
    assert!(pass.behind > 0);
    store.reopen();
    let next = store.index().prune().unwrap();
    assert_eq!(next.deltas, 2);
    assert_eq!(next.behind, pass.behind - 2);
    let rest = store.index().prune_all().unwrap();
    assert_eq!(rest.deltas as u64, next.behind);
    assert_eq!(store.index().prune().unwrap().deltas, 0, "nothing twice");
    assert!(store.reader().verify(&mut |_| {}).unwrap().is_clean());
}

#[test]
fn the_same_block_twice_is_a_no_op() {
    let mut store = store();
    let blocks = relay(5);
    store.apply_all(&blocks);
    let before = bytes(&store.reader());
    assert_eq!(store.apply(&blocks[4]), ApplyOutcome::Already);
    assert_eq!(store.apply(&blocks[1]), ApplyOutcome::Already);
    assert_eq!(bytes(&store.reader()), before);
}

fn refusal(store: &mut Store, block: &Block<Output>) -> AdmitError {
    let before = bytes(&store.reader());
    let error = store.index().apply(prepare(block.clone())).unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    assert_eq!(bytes(&store.reader()), before, "nothing changed");
    match error {
        ApplyError::Refused(refusal) => refusal,
        other => panic!("{other}"),
    }
}

#[test]
fn another_block_at_a_taken_height_is_refused() {
    let mut store = store();
    let blocks = relay(4);
    store.apply_all(&blocks);
    let rival = block_on(Some(&blocks[2]), 2, vec![]);
    assert_eq!(refusal(&mut store, &rival), AdmitError::OtherBranch { height: 3 });
}

#[test]
fn gaps_and_wrong_parents_are_refused() {
    let mut store = store();
    let blocks = relay(6);
    store.apply_all(&blocks[..3]);
    let gap = refusal(&mut store, &blocks[4]);
    assert_eq!(gap, AdmitError::Gap { tip: Some(2), offered: 4 });
    let mut orphan = blocks[3].clone();
    orphan.header.parent = BlockHash([7; 32]);
    assert!(matches!(refusal(&mut store, &orphan), AdmitError::WrongParent { height: 3, .. }));
    let mut early = blocks[3].clone();
    early.header.point.slot = 0;
    assert!(matches!(refusal(&mut store, &early), AdmitError::SlotGoesBack { .. }));
}

#[test]
fn an_unknown_input_is_counted_and_the_block_still_applies() {
    let mut store = store();
    let stray = payment(1, vec![outpoint(77, 3)], vec![(0, coin_of(0, 1))]);
    store.apply_all(&chain(vec![vec![stray]]));
    assert_eq!(store.reader().status().unwrap().cursor.missing_inputs, 1);
    assert_eq!(store.reader().delta(0).unwrap()[0].missing, [outpoint(77, 3)]);
    assert!(is_unspent(&store.reader(), outpoint(1, 0)));
    store.index().rollback(RollbackTarget::Origin).unwrap();
    assert_eq!(store.reader().status().unwrap().cursor.missing_inputs, 0);
}

#[test]
fn an_enterprise_address_is_listed_twice_and_vanishes_twice() {
    let mut store = store();
    store.apply_all(&chain(vec![vec![create(1, 2, 1)]]));
    let owners = [owner_of(2), Owner::Credential([1; 28])];
    for owner in owners {
        assert_eq!(listed(&store.reader(), owner), [outpoint(1, 0)]);
    }
    let next = block_on(
        Some(&chain(vec![vec![create(1, 2, 1)]])[0]),
        1,
        vec![spend(2, vec![outpoint(1, 0)])],
    );
    store.apply(&next);
    for owner in owners {
        assert!(listed(&store.reader(), owner).is_empty());
    }
}

#[test]
fn a_list_that_is_switched_off_is_an_error_not_an_empty_answer() {
    for address_hash in [true, false] {
        let indexes = Indexes::NONE
            .with(IndexName::AddressHash, address_hash)
            .with(IndexName::PaymentCredential, !address_hash);
        let mut store = Store::cardano(Options { indexes, ..small_windows(5, 5) });
        store.apply_all(&chain(vec![vec![create(1, 0, 1)]]));
        let (kept, dropped) = if address_hash {
            (owner_of(0), Owner::Credential([0; 28]))
        } else {
            (Owner::Credential([0; 28]), owner_of(0))
        };
        assert_eq!(listed(&store.reader(), kept), [outpoint(1, 0)]);
        let refused = store.reader().page(dropped, PageOrder::Ascending, 10, None).unwrap_err();
        assert!(matches!(refused, QueryError::IndexDisabled(_)), "{refused}");
        assert!(matches!(store.reader().balance(dropped), Err(QueryError::IndexDisabled(_))));
        assert_eq!(bytes(&store.reader())["utxo_addr"].len(), 1);
        assert!(store.reader().verify(&mut |_| {}).unwrap().is_clean());
        // The choice belongs to the folder: opening it with another one is refused.
        store.close();
        let (path, other) = (store.folder.path(), small_windows(5, 5));
        let reopened = ChainIndex::open(path, store.network, other, &[]).map(|_| ());
        assert!(matches!(reopened, Err(OpenError::OtherIndexes { .. })));
    }
}

#[test]
fn addresses_that_share_a_credential_are_exact_by_address_and_together_by_credential() {
    let mut store = store();
    let coin = |addr: Vec<u8>| Output {
        addr,
        value: 1,
        payment_credential: Some([7; 28]),
        ..Output::default()
    };
    let enterprise = [&[0x60][..], &[7; 28]].concat();
    let base = [&[0x00][..], &[7; 28], &[8; 28]].concat();
    let pointer = [&[0x40][..], &[7; 28], &[1, 2, 3]].concat();
    let addresses = [enterprise, base, pointer];
    let outputs = addresses.iter().cloned().map(coin);
    let outputs = outputs.enumerate().map(|(i, coin)| (i as u32, coin)).collect();
    store.apply_all(&chain(vec![vec![payment(1, vec![], outputs)]]));
    for (i, address) in addresses.iter().enumerate() {
        let found = listed(&store.reader(), Owner::address(Family::Cardano, address));
        assert_eq!(found, [outpoint(1, i as u32)]);
    }
    assert_eq!(listed(&store.reader(), Owner::Credential([7; 28])).len(), 3);
}

#[test]
fn a_byron_address_is_listed_by_address_and_has_no_credential_entry() {
    let mut store = store();
    store.apply_all(&chain(vec![vec![create(1, 4, 1)]]));
    assert_eq!(listed(&store.reader(), owner_of(4)), [outpoint(1, 0)]);
    assert_eq!(bytes(&store.reader())["utxo_addr"].len(), 1);
}

#[test]
fn a_boundary_block_moves_the_cursor_and_nothing_else() {
    let mut store = store();
    let blocks = relay(3);
    store.apply_all(&blocks[..2]);
    let before = store.reader().digest().unwrap();
    let mut boundary = block_on(Some(&blocks[1]), 9, vec![]);
    boundary.header.is_boundary = true;
    boundary.header.point.height = blocks[1].header.point.height;
    assert!(matches!(store.apply(&boundary), ApplyOutcome::New(_)));
    assert_eq!(store.index().tip(), Some(boundary.header.point));
    let after = store.reader().digest().unwrap();
    assert_eq!((after.coins, after.sha256), (before.coins, before.sha256));
    // The next block builds on it and has the next number.
    let mut next = blocks[2].clone();
    next.header.parent = boundary.header.point.hash;
    next.header.point.slot = boundary.header.point.slot;
    store.apply(&next);
    assert_eq!(store.reader().delta(1).unwrap().len(), 2, "two blocks share the height");
    store.index().rollback(RollbackTarget::Height(1)).unwrap();
    assert_eq!(store.index().tip(), Some(boundary.header.point), "the boundary block stays");
    let exact = RollbackTarget::Point { height: 1, hash: blocks[1].header.point.hash };
    store.index().rollback(exact).unwrap();
    assert_eq!(store.index().tip(), Some(blocks[1].header.point));
}

#[test]
fn asset_names_of_any_bytes_survive_and_are_added_up() {
    let mut store = store();
    let asset = |name: &[u8], quantity| Asset { policy: [3; 28], name: name.into(), quantity };
    let names: [&[u8]; 4] = [b"", b"\0", b"a\0b", &[0xff; 32]];
    let assets: Vec<Asset> = names.iter().map(|name| asset(name, u64::MAX)).collect();
    let coin = Output { assets: assets.clone(), ..coin_of(0, 2) };
    let outputs = vec![(0, coin.clone()), (1, coin)];
    store.apply_all(&chain(vec![vec![payment(1, vec![], outputs)]]));
    let CoinState::Unspent(record) = store.reader().coin(&outpoint(1, 1)).unwrap() else {
        panic!("not unspent")
    };
    assert_eq!(record.output.assets, assets);
    let balance = store.reader().balance(owner_of(0)).unwrap();
    assert_eq!((balance.coins, balance.value), (2, 4));
    for name in names {
        let sum = balance.assets[&([3; 28], name.to_vec())];
        assert_eq!(sum, 2 * u128::from(u64::MAX), "sums pass 64 bits");
    }
}

#[test]
fn pages_of_ten_thousand_coins_lose_and_repeat_nothing() {
    let mut store = store();
    let txs = (0..10).map(|tx| {
        let outputs = (0..1_000).map(|i| (i, coin_of(0, 1))).collect();
        payment(tx + 1, vec![], outputs)
    });
    // Transaction 1 comes last in the block: chain order is not hash order.
    let txs: Vec<_> = txs.collect::<Vec<_>>().into_iter().rev().collect();
    let expected: Vec<Outpoint> =
        txs.iter().flat_map(|tx| (0..1_000).map(|i| Outpoint::new(tx.id, i))).collect();
    store.apply_all(&chain(vec![txs]));
    let reader = store.reader();
    let up = all_pages(&reader, owner_of(0), PageOrder::Ascending, 97);
    assert_eq!(up, expected);
    let mut down = all_pages(&reader, owner_of(0), PageOrder::Descending, 101);
    down.reverse();
    assert_eq!(down, expected);
    for limit in [0, unspent_chain::PAGE_LIMIT + 1] {
        let refused = reader.page(owner_of(0), PageOrder::Ascending, limit, None).unwrap_err();
        assert!(matches!(refused, QueryError::Limit { .. }));
    }
}

#[test]
fn a_page_cursor_survives_the_spending_of_its_coin() {
    let mut store = store();
    let outputs = (0..6).map(|i| (i, coin_of(0, 1))).collect();
    let blocks = chain(vec![
        vec![payment(1, vec![], outputs)],
        vec![spend(2, vec![outpoint(1, 1), outpoint(1, 2)])],
    ]);
    store.apply(&blocks[0]);
    let first = store.reader().page(owner_of(0), PageOrder::Ascending, 2, None).unwrap();
    store.apply(&blocks[1]);
    let rest =
        store.reader().page(owner_of(0), PageOrder::Ascending, 10, first.next.as_ref()).unwrap();
    let rest: Vec<u32> = rest.coins.iter().map(|(outpoint, _)| outpoint.index).collect();
    assert_eq!(rest, [3, 4, 5]);
}

#[test]
fn an_index_ahead_of_the_chain_is_rolled_back_and_one_behind_catches_up() {
    let mut store = store();
    let blocks = relay(8);
    store.apply_all(&blocks[..5]);
    // Switched off, the points go back to 3 and then onto another branch.
    store.options.enabled = false;
    store.reopen();
    store.index().rollback(RollbackTarget::Height(2)).unwrap();
    let rival = block_on(Some(&blocks[2]), 2, vec![create(50, 1, 5)]);
    let rival_next = block_on(Some(&rival), 2, vec![create(51, 1, 6)]);
    store.apply(&rival);
    store.apply(&rival_next);
    store.options.enabled = true;
    store.close();
    let options = store.options.clone();
    let opened = ChainIndex::open(store.folder.path(), store.network, options, &[]).unwrap();
    assert_eq!(opened.1.reconciled, 2, "two blocks of the old branch were undone");
    drop(opened);
    store.reopen();
    assert_eq!(store.index().tip(), Some(blocks[2].header.point));
    let status = store.reader().status().unwrap();
    assert_eq!(status.chain.unwrap().1.point, rival_next.header.point, "the chain is ahead");
    // Behind: it takes only the blocks that the chain has.
    let wrong = block_on(Some(&blocks[2]), 3, vec![]);
    assert_eq!(refusal(&mut store, &wrong), AdmitError::OtherBranch { height: 3 });
    store.apply(&rival);
    store.apply(&rival_next);
    let mut straight = Store::cardano(small_windows(10, 10));
    straight.apply_all(&blocks[..3]);
    straight.apply(&rival);
    straight.apply(&rival_next);
    assert_eq!(bytes(&store.reader()), bytes(&straight.reader()));
}

/// What an index says that was switched off while the chain went back to this height.
fn reopened_after_going_back_to(height: usize, rivals: u64) -> Result<u64, OpenError> {
    let mut store = Store::cardano(small_windows(3, 3));
    let blocks = relay(10);
    store.apply_all(&blocks);
    store.options.enabled = false;
    store.reopen();
    let fork = blocks[height].header.point;
    store.index().rollback(RollbackTarget::Height(fork.height)).unwrap();
    let mut tip = blocks[height].clone();
    for at in 0..rivals {
        tip = block_on(Some(&tip), 2, vec![create(50 + at, 1, 5)]);
        store.apply(&tip);
    }
    store.close();
    let options = Options { enabled: true, ..store.options.clone() };
    let opened = ChainIndex::open(store.folder.path(), store.network, options, &[])?;
    assert_eq!(opened.0.reader().status().unwrap().cursor.tip, Some((fork, Era::Conway)));
    Ok(opened.1.reconciled)
}

#[test]
fn an_index_is_never_reconciled_with_a_block_that_it_cannot_tell_from_its_own() {
    // Undo data is kept for heights 7 to 9, and that of 7 is the last to say which block it is.
    assert_eq!(reopened_after_going_back_to(7, 0).unwrap(), 2);
    assert_eq!(reopened_after_going_back_to(7, 2).unwrap(), 2);
    for (height, rivals) in [(5, 0), (5, 1), (5, 2), (5, 5), (3, 4)] {
        let opened = reopened_after_going_back_to(height, rivals);
        let refusal = opened.expect_err(&format!("back to {height}, {rivals} other blocks"));
        assert!(matches!(refusal, OpenError::Reconcile(_)), "{refusal}");
    }
}

#[test]
fn the_first_allegra_block_withdraws_unclaimed_redeem_coins_and_rollback_restores_them() {
    let genesis = genesis();
    let mut store = Store::new(Network::CardanoPreview, small_windows(10, 10), &genesis);
    let claim = spend(1, vec![genesis[0].outpoint]);
    let mut blocks = chain(vec![vec![claim], vec![create(2, 0, 1)], vec![]]);
    for (block, era) in blocks.iter_mut().zip([Era::Byron, Era::Shelley, Era::Allegra]) {
        block.header.era = era;
    }
    store.apply_all(&blocks[..2]);
    let before = bytes(&store.reader());
    assert!(is_unspent(&store.reader(), genesis[1].outpoint));
    store.apply(&blocks[2]);
    let CoinState::Spent(spent) = store.reader().coin(&genesis[1].outpoint).unwrap() else {
        panic!("the redeem coin is still there")
    };
    assert_eq!(spent.by, None, "no transaction spent it");
    assert!(is_unspent(&store.reader(), genesis[2].outpoint), "other coins of genesis stay");
    assert_eq!(store.reader().delta(2).unwrap()[0].spent.len(), 1);
    store.index().rollback(RollbackTarget::Height(1)).unwrap();
    assert_eq!(bytes(&store.reader()), before);
}

#[test]
fn switched_off_the_index_has_no_column_family() {
    let mut store = Store::cardano(Options { enabled: false, ..small_windows(5, 5) });
    store.apply_all(&relay(3));
    assert_eq!(store.index().tip().unwrap().height, 2);
    let path = store.folder.path().to_owned();
    assert!(matches!(store.reader().digest(), Err(QueryError::Disabled)));
    store.close();
    let families = rocksdb::DB::list_cf(&rocksdb::Options::default(), path.join("db")).unwrap();
    for family in schema::INDEX_FAMILIES {
        assert!(!families.iter().any(|name| name == family.name()), "{families:?}");
    }
    let reader = Reader::open(&path, 1 << 20).unwrap();
    assert!(matches!(reader.coin(&outpoint(1, 0)), Err(QueryError::Disabled)));
}

fn coinbase(tx: u8, value: u64) -> Tx<Output> {
    let coin = Output { is_coinbase: true, ..coin_of(4, value) };
    Tx {
        id: TxId([tx; 32]),
        spends: vec![],
        creates: vec![(0, coin)],
        is_invalid: false,
        is_coinbase: true,
    }
}

#[test]
fn a_repeated_coinbase_overwrites_and_rollback_brings_the_first_back() {
    for self_contained in [false, true] {
        let options = Options { self_contained, ..small_windows(10, 10) };
        let mut store = Store::new(Network::Bitcoin, options, &[]);
        let mut blocks =
            chain(vec![vec![coinbase(1, 50)], vec![coinbase(2, 50)], vec![coinbase(1, 49)]]);
        blocks.iter_mut().for_each(|block| block.header.era = Era::Bitcoin);
        store.apply_all(&blocks[..2]);
        let before = bytes(&store.reader());
        store.apply(&blocks[2]);
        let digest = store.reader().digest().unwrap();
        assert_eq!((digest.coins, digest.value), (2, 99), "one coin is lost for ever");
        assert_eq!(listed(&store.reader(), script_of(4)).len(), 2);
        assert!(store.reader().verify(&mut |_| {}).unwrap().is_clean());
        store.index().rollback(RollbackTarget::Height(1)).unwrap();
        assert_eq!(bytes(&store.reader()), before);
    }
}

#[test]
fn bitcoin_has_no_credentials_to_ask_for() {
    let store = Store::new(Network::Bitcoin, small_windows(5, 5), &[]);
    let asked = store.reader().page(Owner::Credential([0; 28]), PageOrder::Ascending, 5, None);
    assert!(matches!(asked, Err(QueryError::NoCredentials(_))));
}

#[test]
fn holes_are_accepted_only_when_told_are_remembered_and_are_never_rolled_back_across() {
    let mut store = store();
    let blocks = relay(9);
    store.apply_all(&blocks[..3]);
    store.index().allow_holes();
    store.apply_all(&blocks[5..7]);
    let holes = store.reader().status().unwrap().holes;
    assert_eq!((holes.len(), holes[0].left_at, holes[0].resumes_at), (1, Some(2), 5));
    store.index().rollback(RollbackTarget::Height(5)).unwrap();
    let before = bytes(&store.reader());
    for target in [RollbackTarget::Height(4), RollbackTarget::Height(2), RollbackTarget::Origin] {
        let refused = store.index().rollback(target).unwrap_err();
        assert!(matches!(refused, RollbackError::AcrossHole { resumes_at: 5 }), "{refused}");
    }
    assert_eq!(bytes(&store.reader()), before);
    store.reopen();
    let report = store.reader().verify(&mut |_| {}).unwrap();
    assert_eq!(report.holes, [(Some(2), 5)]);
    // The permission was for that session only.
    assert!(matches!(refusal(&mut store, &blocks[8]), AdmitError::Gap { .. }));
}

#[test]
fn a_folder_serves_one_network_and_one_genesis() {
    let genesis = genesis();
    let mut store = Store::new(Network::CardanoPreview, small_windows(5, 5), &genesis);
    store.apply_all(&relay(2));
    store.close();
    let open = |network, genesis: &[_]| {
        ChainIndex::open(store.folder.path(), network, small_windows(5, 5), genesis).map(|_| ())
    };
    let other = open(Network::CardanoPreprod, &[]);
    assert!(matches!(other, Err(OpenError::OtherNetwork { .. })));
    assert!(matches!(open(Network::CardanoPreview, &genesis[1..]), Err(OpenError::OtherGenesis)));
    assert!(open(Network::CardanoPreview, &genesis).is_ok());
    assert!(open(Network::CardanoPreview, &[]).is_ok(), "repeating genesis is not needed");
}

#[test]
fn a_second_writer_is_told_that_the_folder_is_busy_and_readers_are_welcome() {
    let mut store = store();
    store.apply_all(&relay(3));
    let path = store.folder.path();
    let second = ChainIndex::open(path, store.network, small_windows(5, 5), &[]).map(|_| ());
    let second = second.unwrap_err();
    assert_eq!(second.kind(), Kind::Busy, "{second}");
    let beside = Reader::open(path, 1 << 20).unwrap();
    assert_eq!(beside.digest().unwrap(), store.reader().digest().unwrap());
}

#[test]
fn targets_that_do_not_exist_are_refused() {
    let mut store = store();
    let blocks = relay(3);
    store.apply_all(&blocks);
    let hash = BlockHash([0xaa; 32]);
    let refused = |store: &mut Store, target| store.index().rollback(target).unwrap_err();
    assert!(matches!(refused(&mut store, RollbackTarget::Height(3)), RollbackError::AboveTip(_)));
    assert!(matches!(refused(&mut store, RollbackTarget::Slot(9_999)), RollbackError::AboveTip(_)));
    let unknown = refused(&mut store, RollbackTarget::Point { height: 1, hash });
    assert!(matches!(unknown, RollbackError::UnknownTarget));
    let hash = blocks[1].header.point.hash;
    let wrong_height = refused(&mut store, RollbackTarget::Point { height: 2, hash });
    assert!(matches!(wrong_height, RollbackError::UnknownTarget));
}
