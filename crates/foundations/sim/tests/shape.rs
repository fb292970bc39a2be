//! What the benchmark stream promises.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    missing_docs
)]

mod common;

use std::collections::{HashMap, HashSet};

use bitcoin::hashes::{Hash, HashEngine, sha256};
use bitcoin::{Block, ScriptBuf, consensus};
use common::Checker;
use proptest::prelude::*;
use unspent_sim::genesis;
use unspent_sim::shape::{ModernChain, Phase, RawBlock, Shape, Stats};

const SMALL: Shape = Shape { start_coins: 3_000, transactions: 60 };

fn decode(raw: &RawBlock) -> Block {
    let block: Block = consensus::deserialize(&raw.bytes).unwrap();
    assert_eq!(block.block_hash(), raw.hash);
    block
}

fn digest(seed: u64, shape: Shape, blocks: usize) -> sha256::Hash {
    let mut engine = sha256::Hash::engine();
    ModernChain::new(seed, shape).take(blocks).for_each(|raw| engine.input(&raw.bytes));
    sha256::Hash::from_engine(engine)
}

/// Takes genesis, then hands every block on after the checker has accepted it.
fn checked(chain: &mut ModernChain) -> impl FnMut() -> (Block, RawBlock, usize) {
    assert_eq!(decode(&chain.next().unwrap()), genesis());
    let mut checker = Checker::new();
    move || {
        let raw = chain.next().unwrap();
        let block = decode(&raw);
        checker.accept(&block);
        assert_eq!(checker.height, raw.height);
        (block, raw, checker.unspent.len())
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    assert_eq!(digest(1, SMALL, 130), digest(1, SMALL, 130));
    assert_ne!(digest(1, SMALL, 130), digest(2, SMALL, 130));
}

/// Breaks when the generator or the randomness changes, which makes old figures incomparable.
#[test]
fn seed_one_gives_the_bytes_that_it_always_gave() {
    let golden = "1bc0f569dea264e177118397cf132a13d860adf889ca4949c9dd5ef988a28858";
    assert_eq!(digest(1, SMALL, 130).to_string(), golden);
}

/// Tens of millions of coins outlast the coinbases: each block keeps the rest of its coin for another.
#[test]
fn a_large_fan_out_keeps_change_for_later_blocks() {
    let mut chain = ModernChain::new(5, Shape { start_coins: 26_000_000, transactions: 200 });
    let mut next = checked(&mut chain);
    let mut worth = Vec::new();
    while worth.len() < 3 {
        let (block, raw, _) = next();
        if raw.stats.phase == Phase::FanOut {
            let feeding = &block.txdata[1];
            let change = feeding.output.last().unwrap().value.to_sat();
            let paid: u64 = feeding.output.iter().map(|output| output.value.to_sat()).sum();
            assert_eq!(feeding.output.len(), 11);
            assert!(raw.stats.outputs >= 22_000 && change > paid / 2, "{change} of {paid}");
            worth.push(change);
        }
    }
    drop(next);
    assert_eq!(chain.coins(), 66_000, "change is no coin to start with");
}

#[test]
fn the_fan_out_makes_the_coins_asked_for_in_full_blocks() {
    let shape = Shape { start_coins: 50_000, transactions: 200 };
    let mut chain = ModernChain::new(5, shape);
    let mut next = checked(&mut chain);
    let mut fan_out = Vec::new();
    let unspent = loop {
        let (block, raw, unspent) = next();
        match raw.stats.phase {
            Phase::Empty => assert_eq!(block.txdata.len(), 1),
            Phase::FanOut => fan_out.push((block.weight().to_wu(), unspent, raw.height)),
            Phase::Modern => break fan_out.last().unwrap().1,
        }
    };
    assert_eq!(fan_out.len(), 3);
    assert!(fan_out[0].0 > 3_700_000);
    // Every coin beside the coinbases that were not used.
    assert_eq!(unspent, 50_000 + fan_out[2].2 as usize - 3);
}

#[test]
fn the_statistics_of_a_block_are_those_of_its_bytes() {
    let mut chain = ModernChain::new(9, Shape { start_coins: 20_000, transactions: 500 });
    let mut born = HashMap::new();
    for raw in chain.by_ref().take(125) {
        let block = decode(&raw);
        let mut counted = Stats { phase: raw.stats.phase, ..Stats::default() };
        let mut scripts = HashSet::new();
        for tx in block.txdata.iter().skip(1) {
            counted.transactions += 1;
            counted.inputs += tx.input.len() as u32;
            counted.outputs += tx.output.len() as u32;
            let (notes, spendable): (Vec<&ScriptBuf>, Vec<_>) =
                tx.output.iter().map(|o| &o.script_pubkey).partition(|s| s.is_op_return());
            counted.op_returns += notes.len() as u32;
            scripts.extend(spendable.into_iter().cloned());
            born.insert(tx.compute_txid(), raw.height);
            for input in &tx.input {
                let age = raw.height - born[&input.previous_output.txid];
                let limits = [0, 10, 144, 2_016, u32::MAX];
                let class = limits.iter().position(|limit| age <= *limit).unwrap();
                counted.spent_by_age[class] += 1;
            }
        }
        born.insert(block.txdata[0].compute_txid(), raw.height);
        counted.distinct_scripts = scripts.len() as u32;
        assert_eq!(counted, raw.stats, "height {}", raw.height);
    }
}

fn assert_near(what: &str, is: f64, wanted: f64, tolerance: f64) {
    let off = (is / wanted - 1.0).abs();
    assert!(off <= tolerance, "{what} is {is:.3}, wanted {wanted} within {tolerance}");
}

#[test]
fn sixty_blocks_have_the_shape_of_mainnet() {
    let mut chain = ModernChain::new(1, Shape { start_coins: 200_000, ..Shape::default() });
    let hot: Vec<_> = (0..1_000).map(|rank| chain.hot_script(rank)).collect();
    let mut next = checked(&mut chain);
    let (mut blocks, mut sum, mut payments) = (0.0, Stats::default(), HashMap::new());
    let mut bytes = 0.0;
    while blocks < 60.0 {
        let (block, raw, _) = next();
        if !raw.stats.is_modern() {
            continue;
        }
        blocks += 1.0;
        bytes += raw.bytes.len() as f64;
        sum.transactions += raw.stats.transactions;
        sum.inputs += raw.stats.inputs;
        sum.outputs += raw.stats.outputs;
        sum.op_returns += raw.stats.op_returns;
        sum.distinct_scripts += raw.stats.distinct_scripts;
        for (sum, spent) in sum.spent_by_age.iter_mut().zip(raw.stats.spent_by_age) {
            *sum += spent;
        }
        for output in block.txdata.iter().skip(1).flat_map(|tx| &tx.output) {
            if !output.script_pubkey.is_op_return() {
                *payments.entry(output.script_pubkey.clone()).or_insert(0_u32) += 1;
            }
        }
    }
    let share = |part: u32, whole: u32| f64::from(part) / f64::from(whole);
    assert_near("transactions", f64::from(sum.transactions) / blocks, 3_900.0, 0.05);
    assert_near("inputs", f64::from(sum.inputs) / blocks, 7_200.0, 0.06);
    assert_near("outputs", f64::from(sum.outputs) / blocks, 10_000.0, 0.06);
    assert_near("bytes", bytes / blocks, 900_000.0, 0.08);
    assert_near("OP_RETURN", share(sum.op_returns, sum.outputs), 0.178, 0.05);
    assert_near("same block", share(sum.same_block_spends(), sum.inputs), 0.28, 0.05);
    assert_near("distinct", share(sum.distinct_scripts, sum.outputs), 0.6, 0.05);
    let spendable = sum.outputs - sum.op_returns;
    let top = |ranks: usize| {
        share(hot[..ranks].iter().map(|script| payments.get(script).unwrap_or(&0)).sum(), spendable)
    };
    assert_near("top 1", top(1), 0.019, 0.1);
    assert_near("top 10", top(10), 0.074, 0.05);
    assert_near("top 100", top(100), 0.21, 0.05);
    assert_near("top 1000", top(1_000), 0.34, 0.05);
}

/// Only a chain longer than the oldest class of ages can show them all.
#[test]
fn a_long_chain_spends_coins_of_every_age_in_the_shares_of_the_mixture() {
    let chain = ModernChain::new(2, Shape { start_coins: 250_000, transactions: 80 });
    let mut ages = [0_u32; 5];
    for raw in chain.skip(2_400).take(300) {
        for (sum, spent) in ages.iter_mut().zip(raw.stats.spent_by_age) {
            *sum += spent;
        }
    }
    let all: u32 = ages.iter().sum();
    let wanted = [0.28, 0.13, 0.22, 0.17, 0.20];
    for (class, (spent, wanted)) in ages.into_iter().zip(wanted).enumerate() {
        let share = f64::from(spent) / f64::from(all);
        assert_near(&format!("class {class}"), share, wanted, 0.1);
    }
}

#[test]
fn a_chain_without_coins_to_start_with_stays_empty_and_valid() {
    let mut chain = ModernChain::new(1, Shape { start_coins: 0, transactions: 10 });
    let mut next = checked(&mut chain);
    (0..210).for_each(|_| assert_eq!(next().0.txdata.len(), 1));
}

#[test]
fn few_coins_last_for_many_blocks() {
    let mut chain = ModernChain::new(3, Shape { start_coins: 40, transactions: 30 });
    let mut next = checked(&mut chain);
    let mut transactions = 0;
    (0..600).for_each(|_| transactions = next().1.stats.transactions);
    assert!(transactions > 10, "{transactions} transactions at the end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_block_is_valid_for_any_seed_and_size(
        seed in any::<u64>(),
        start_coins in 1_u32..5_000,
        transactions in 0_u32..120,
    ) {
        let mut chain = ModernChain::new(seed, Shape { start_coins, transactions });
        let mut next = checked(&mut chain);
        (0..140).for_each(|_| drop(next()));
    }
}
