//! Prints the shape that the benchmark chain really has: `shape [COINS] [BLOCKS] [SEED]`.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use unspent_sim::shape::{ModernChain, Shape, Stats};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().ok());
    let mut number = |default: u64| arguments.next().flatten().unwrap_or(default);
    let start_coins = u32::try_from(number(200_000)).unwrap_or(u32::MAX);
    let blocks = usize::try_from(number(100)).unwrap_or(usize::MAX);
    let mut chain = ModernChain::new(number(1), Shape { start_coins, ..Shape::default() });
    let start = Instant::now();
    let first = chain.by_ref().find(|block| block.stats.is_modern());
    let height = first.map_or(0, |block| block.height);
    println!("{} coins at height {height} in {:?}", chain.coins(), start.elapsed());
    let mut made = 0;
    while made < blocks {
        let hundred = 100.min(blocks - made);
        report(&mut chain, hundred);
        made += hundred;
    }
}

fn report(chain: &mut ModernChain, blocks: usize) {
    let start = Instant::now();
    let (mut bytes, mut sum) = (0, [0_u32; 10]);
    for block in chain.by_ref().take(blocks) {
        bytes += block.bytes.len();
        let Stats { transactions, inputs, outputs, op_returns, distinct_scripts, .. } = block.stats;
        let [a, b, c, d, e] = block.stats.spent_by_age;
        let row = [transactions, inputs, outputs, op_returns, distinct_scripts, a, b, c, d, e];
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    let seconds = start.elapsed().as_secs_f64();
    let count = u32::try_from(blocks).unwrap_or(u32::MAX);
    let [transactions, inputs, outputs, notes, scripts, ages @ ..] = sum.map(|sum| sum / count);
    println!(
        "{transactions} tx, {inputs} in, {outputs} out, {notes} OP_RETURN, {scripts} scripts, \
         by age {ages:?}, {} bytes, {} coins left; {:.1} blocks/s",
        bytes / blocks,
        chain.coins(),
        f64::from(count) / seconds
    );
}
