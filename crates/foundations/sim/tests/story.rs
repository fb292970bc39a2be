//! What the story chain promises.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    missing_docs
)]

mod common;

use bitcoin::{Amount, BlockHash, OutPoint, Transaction, TxOut, consensus};
use common::Checker;
use proptest::prelude::*;
use unspent_sim::{ChainSim, ConnectError, ForkError, PayError, SubmitError, TxError};

const FEE: Amount = Amount::from_sat(500);

fn rich(seed: u64) -> ChainSim {
    let mut sim = ChainSim::new(seed);
    sim.mine(110);
    sim
}

fn payment(sim: &mut ChainSim, sats: u64) -> Transaction {
    let script_pubkey = sim.new_script();
    sim.pay(&[TxOut { value: Amount::from_sat(sats), script_pubkey }], FEE).unwrap()
}

/// Blocks from genesis (left out) to the given tip, lowest first.
fn branch(sim: &ChainSim, tip: BlockHash) -> Vec<bitcoin::Block> {
    let mut blocks = Vec::new();
    let mut at = sim.block(&tip).unwrap();
    while at.height > 0 {
        blocks.push(at.block.clone());
        at = sim.block(&at.block.header.prev_blockhash).unwrap();
    }
    blocks.reverse();
    blocks
}

fn assert_all_valid_and_true(sim: &ChainSim) {
    for tip in sim.tips() {
        let mut checker = Checker::new();
        branch(sim, tip.hash).iter().for_each(|block| checker.accept(block));
        assert_eq!(checker.height, tip.height);
        if tip.active {
            let truth = sim.coins().iter().map(|(outpoint, coin)| {
                (*outpoint, (coin.output.clone(), coin.height, coin.coinbase))
            });
            assert_eq!(truth.collect::<common::Unspent>(), checker.unspent);
        }
    }
    let active: Vec<_> = sim.tips().into_iter().filter(|tip| tip.active).collect();
    assert_eq!(active.len(), 1);
    assert!(sim.tips().iter().all(|tip| tip.height <= active[0].height));
}

fn bytes(sim: &ChainSim) -> Vec<u8> {
    sim.all_blocks().flat_map(|b| consensus::serialize(&b.block)).collect()
}

fn eventful(seed: u64) -> ChainSim {
    let mut sim = rich(seed);
    sim.mine_busy(6, 8);
    sim.fork(4).unwrap();
    sim.submit_random(5);
    sim.fork_of_length(2, 1).unwrap();
    sim.mine_busy(2, 6);
    sim.fork(1).unwrap();
    sim
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    assert_eq!(bytes(&eventful(3)), bytes(&eventful(3)));
    assert_ne!(bytes(&eventful(3)), bytes(&eventful(4)));
}

#[test]
fn every_block_of_every_branch_is_valid_and_the_truth_is_right() {
    let sim = eventful(11);
    assert_eq!(sim.tips().len(), 4);
    assert_all_valid_and_true(&sim);
}

#[test]
fn a_busy_block_holds_chains_of_transactions() {
    let mut sim = rich(5);
    sim.mine_busy(10, 12);
    let chained = sim.active_blocks().flat_map(|b| {
        let ids: Vec<_> = b.block.txdata.iter().map(Transaction::compute_txid).collect();
        let inputs = b.block.txdata.iter().flat_map(|tx| tx.input.clone());
        inputs.filter(move |i| ids.contains(&i.previous_output.txid)).collect::<Vec<_>>()
    });
    assert!(chained.count() > 10);
    assert_all_valid_and_true(&sim);
}

#[test]
fn a_fork_keeps_some_contradicts_some_and_adds_some() {
    let mut sim = rich(8);
    sim.mine_busy(5, 10);
    let (old_tip, old_height) = (sim.tip(), sim.height());
    let reorg = sim.fork(5).unwrap();
    assert_eq!((reorg.old.len(), reorg.new.len()), (5, 6));
    assert_eq!(reorg.old.last(), Some(&old_tip));
    assert_eq!(reorg.new.last(), Some(&sim.tip()));
    assert_eq!(sim.height(), old_height + 1);
    assert!(!reorg.kept.is_empty() && !reorg.double_spent.is_empty() && !reorg.fresh.is_empty());
    let mined: Vec<_> =
        reorg.new.iter().flat_map(|h| &sim.block(h).unwrap().block.txdata).collect();
    let mined: Vec<_> = mined.iter().map(|tx| tx.compute_txid()).collect();
    assert!(reorg.kept.iter().chain(&reorg.fresh).all(|txid| mined.contains(txid)));
    for (loser, winner) in &reorg.double_spent {
        assert!(mined.contains(winner) && !mined.contains(loser));
        assert!(sim.mempool().get(loser).is_none(), "a contradicted transaction waits again");
    }
    assert_all_valid_and_true(&sim);
}

#[test]
fn a_branch_that_is_not_longer_stays_aside_and_changes_nothing() {
    let mut sim = rich(9);
    sim.mine_busy(3, 5);
    sim.submit_random(4);
    let before = (sim.tip(), sim.coins().clone());
    let waiting: Vec<_> = sim.mempool().iter().map(|entry| entry.txid).collect();
    let reorg = sim.fork_of_length(3, 3).unwrap();
    assert_eq!((sim.tip(), sim.coins().clone()), before);
    assert_eq!(sim.mempool().iter().map(|entry| entry.txid).collect::<Vec<_>>(), waiting);
    assert_eq!(sim.tips().len(), 2);
    assert!(sim.block(reorg.new.last().unwrap()).is_some());
    assert_all_valid_and_true(&sim);
}

#[test]
fn a_stale_branch_can_be_revived() {
    let mut sim = rich(10);
    sim.mine_busy(3, 5);
    let (old_tip, height) = (sim.tip(), sim.height());
    let away = sim.fork(3).unwrap();
    let back = sim.revive(&old_tip).unwrap();
    assert_eq!(back.ancestor, away.ancestor);
    assert_eq!(back.old, away.new);
    assert_eq!(back.new[..3], away.old[..]);
    assert_eq!(sim.height(), height + 2);
    assert_all_valid_and_true(&sim);
    let here = sim.tip();
    assert_eq!(sim.revive(&here).unwrap().new, vec![]);
    assert_eq!(sim.tip(), here);
}

#[test]
fn after_a_fork_the_mempool_can_be_mined() {
    let mut sim = rich(12);
    sim.mine_busy(4, 9);
    sim.submit_random(9);
    sim.fork(4).unwrap();
    let waiting = sim.mempool().len();
    assert!(waiting > 0);
    sim.mine_block_from_mempool().unwrap();
    assert!(sim.mempool().is_empty());
    assert_all_valid_and_true(&sim);
}

#[test]
fn forks_too_deep_and_unknown_tips_are_refused_with_nothing_changed() {
    let mut sim = rich(1);
    let tip = sim.tip();
    assert_eq!(sim.fork(111), Err(ForkError::TooDeep { depth: 111, height: 110 }));
    let unknown: BlockHash = bitcoin::hashes::Hash::all_zeros();
    assert_eq!(sim.revive(&unknown), Err(ForkError::UnknownBlock(unknown)));
    assert_eq!(sim.tip(), tip);
    sim.fork(110).unwrap();
    assert_all_valid_and_true(&sim);
}

#[test]
fn a_fee_bump_replaces_the_transaction_and_its_children() {
    let mut sim = rich(2);
    let parent = payment(&mut sim, 40_000);
    let parent_id = sim.submit(parent.clone()).unwrap().txid;
    let child = sim.pay_from(&[OutPoint { txid: parent_id, vout: 1 }], &[], FEE).unwrap();
    let child_id = sim.submit(child).unwrap().txid;
    let too_little = sim.bump_fee(&parent_id, FEE);
    let to_beat = Amount::from_sat(1_000);
    assert_eq!(too_little, Err(PayError::Refused(SubmitError::FeeTooLow { to_beat })));
    assert_eq!(sim.mempool().len(), 2);
    let bumped = sim.bump_fee(&parent_id, Amount::from_sat(501)).unwrap();
    let gone: Vec<_> = bumped.replaced.iter().map(|entry| entry.txid).collect();
    assert_eq!(gone, vec![parent_id, child_id]);
    let entry = sim.mempool().get(&bumped.txid).unwrap();
    assert_eq!(entry.fee, Amount::from_sat(1_001));
    assert_eq!(entry.tx.output[0], parent.output[0]);
    sim.mine_block_from_mempool().unwrap();
    assert_all_valid_and_true(&sim);
}

#[test]
fn a_mined_double_spend_clears_the_loser_and_its_children() {
    let mut sim = rich(3);
    let victim = payment(&mut sim, 70_000);
    let victim_id = sim.submit(victim.clone()).unwrap().txid;
    let child = sim.pay_from(&[OutPoint { txid: victim_id, vout: 0 }], &[], FEE).unwrap();
    sim.submit(child).unwrap();
    let thief = sim.double_spend(&victim, Amount::from_sat(100)).unwrap();
    assert!(matches!(sim.submit(thief.clone()), Err(SubmitError::FeeTooLow { .. })));
    sim.mine_with(vec![thief]).unwrap();
    assert!(sim.mempool().is_empty());
    assert_all_valid_and_true(&sim);
}

#[test]
fn invalid_transactions_are_refused_by_name() {
    let mut sim = ChainSim::new(4);
    sim.mine(99);
    let sats = Amount::from_sat(1);
    let none = PayError::InsufficientFunds { needed: sats, available: Amount::ZERO };
    assert_eq!(sim.pay(&[], sats), Err(none));
    let young = *sim.coins().keys().next().unwrap();
    let too_early = sim.pay_from(&[young], &[], FEE).unwrap();
    let refused = sim.submit(too_early);
    assert_eq!(refused, Err(SubmitError::Invalid(TxError::Immature(young))));
    sim.mine(1);
    let good = payment(&mut sim, 9_000);
    let outpoint = good.input[0].previous_output;
    let mut twice = good.clone();
    twice.input.push(twice.input[0].clone());
    assert_eq!(sim.submit(twice), Err(TxError::DuplicateInput(outpoint).into()));
    let mut naked = good.clone();
    naked.input[0].witness.clear();
    assert_eq!(sim.submit(naked), Err(TxError::WrongWitness(outpoint).into()));
    let mut greedy = good.clone();
    greedy.output[0].value = Amount::from_sat(5_000_000_001);
    assert_eq!(sim.submit(greedy), Err(TxError::Overspent.into()));
    let mut later = good.clone();
    later.lock_time = bitcoin::absolute::LockTime::from_consensus(101);
    assert_eq!(sim.submit(later), Err(TxError::NotFinal.into()));
    sim.submit(good.clone()).unwrap();
    assert_eq!(sim.submit(good.clone()), Err(SubmitError::AlreadyKnown));
    let (tip, coins) = (sim.tip(), sim.coins().clone());
    let doubled = sim.mine_with(vec![good.clone(), good]);
    let source = TxError::MissingInput(outpoint);
    assert_eq!(doubled, Err(ConnectError::Transaction { index: 2, source }));
    assert_eq!((sim.tip(), sim.coins()), (tip, &coins));
    assert_all_valid_and_true(&sim);
}

#[test]
fn transactions_too_heavy_for_one_block_are_refused_or_wait_for_the_next() {
    let mut sim = rich(6);
    let bulk = |sim: &mut ChainSim| {
        let output = TxOut { value: Amount::from_sat(1_000), script_pubkey: sim.new_script() };
        let tx = sim.pay(&vec![output; 12_000], FEE).unwrap();
        sim.submit(tx.clone()).unwrap();
        tx
    };
    let both = vec![bulk(&mut sim), bulk(&mut sim)];
    let tip = sim.tip();
    assert!(matches!(sim.mine_with(both), Err(ConnectError::TooHeavy { .. })));
    assert_eq!((sim.tip(), sim.mempool().len()), (tip, 2));
    sim.mine_block_from_mempool().unwrap();
    assert_eq!(sim.mempool().len(), 1);
    sim.mine_block_from_mempool().unwrap();
    assert!(sim.mempool().is_empty());
    assert_all_valid_and_true(&sim);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_history_is_valid_and_its_truth_is_right(
        seed in any::<u64>(),
        steps in prop::collection::vec((0_u8..5, 0_u32..8), 1..12),
    ) {
        let mut sim = ChainSim::new(seed);
        sim.mine(104);
        for (kind, size) in steps {
            match kind {
                0 => sim.mine(size),
                1 => sim.mine_busy(size / 2, 6),
                2 => drop(sim.submit_random(size as usize)),
                3 => drop(sim.fork(size).unwrap()),
                _ => drop(sim.fork_of_length(size, size / 2).unwrap()),
            }
        }
        sim.mine_block_from_mempool().unwrap();
        assert_all_valid_and_true(&sim);
    }
}
