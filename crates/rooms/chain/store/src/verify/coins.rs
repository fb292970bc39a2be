//! Coins and spends against the lists, the deltas and the totals.

use std::collections::HashMap;

use unspent_model::{Family, Outpoint};
use unspent_verify::hash;

use super::{
    Check, SetSum, VerifyReport,
    blocks::{Births, WindowSums},
    lists::ListSums,
    named, trees,
};
use crate::{
    codec::IndexCursor,
    coin::Coin,
    db::{ScanRange, View},
    error::StoreError,
    indexes::IndexRow,
    ranges::{self, KeyRange, ProgressSink},
    schema::{ColumnFamily, OutpointKey},
};

/// What a range of `utxo_unspent` and `utxo_spent` adds up to; all ranges, once merged.
struct CoinSums {
    coins: u64,
    value: u128,
    spent: u64,
    lists: ListSums,
    /// Pointers by the ordinal of the spending block.
    pointers: HashMap<u64, SetSum>,
    births: Births,
    /// Leaves of the coins; nothing in a classic store.
    leaves: SetSum,
    report: VerifyReport,
}

impl CoinSums {
    fn new() -> Self {
        Self {
            coins: 0,
            value: 0,
            spent: 0,
            lists: ListSums::new(),
            pointers: HashMap::new(),
            births: Births::new(),
            leaves: SetSum::default(),
            report: VerifyReport::default(),
        }
    }

    fn merge(mut self, other: Self) -> Self {
        self.coins += other.coins;
        self.value += other.value;
        self.spent += other.spent;
        self.lists.merge(&other.lists);
        let sums = |into: &mut HashMap<u64, SetSum>, from: HashMap<u64, SetSum>| {
            from.into_iter().for_each(|(at, sum)| into.entry(at).or_default().merge(sum));
        };
        sums(&mut self.pointers, other.pointers);
        sums(&mut self.births, other.births);
        self.leaves.merge(other.leaves);
        self.report.absorb(other.report);
        self
    }
}

/// Reads one range of coins and spends.
struct CoinReader<'a> {
    view: &'a View<'a>,
    window: &'a WindowSums,
    chain: Family,
    indexes: &'a [IndexRow],
    has_leaves: bool,
    spends_floor: u64,
}

impl CoinReader<'_> {
    fn read(&self, range: &KeyRange, sink: &mut ProgressSink<'_>) -> Result<CoinSums, StoreError> {
        let mut sums = CoinSums::new();
        let spends = self.spends(range, sink, &mut sums)?;
        self.unspent(range, sink, &mut sums, &spends)?;
        Ok(sums)
    }

    /// Adds pointers up; returns which coins were spent and at which height, in key order.
    fn spends(
        &self,
        (low, high): &KeyRange,
        sink: &mut ProgressSink<'_>,
        sums: &mut CoinSums,
    ) -> Result<Vec<(Outpoint, u64)>, StoreError> {
        let mut spends = Vec::new();
        self.view.scan_pointers((low, high), self.spends_floor, |(key, number)| {
            let element = WindowSums::pointer(key, number);
            sums.pointers.entry(key.ordinal).or_default().add(&element.parts());
            sums.spent += 1;
            if let Some(block) = self.window.blocks.get(&key.ordinal) {
                spends.push((key.outpoint, block.height));
            }
            Ok(sink.read_one())
        })?;
        Ok(spends)
    }

    fn unspent(
        &self,
        (low, high): &KeyRange,
        sink: &mut ProgressSink<'_>,
        sums: &mut CoinSums,
        spends: &[(Outpoint, u64)],
    ) -> Result<(), StoreError> {
        let family = ColumnFamily::Unspent.name();
        let mut spends = spends.iter().peekable();
        self.view.scan(&ScanRange::sweep(ColumnFamily::Unspent, low, high), |key, value| {
            let outpoint = OutpointKey::decode(key).map_err(StoreError::key(family, key))?.0;
            let (record, coin) =
                Coin::with_record(self.chain, value).map_err(StoreError::value(family, key))?;
            sums.coins += 1;
            sums.value += u128::from(coin.value());
            let asked = sums.lists.ask(self.indexes, &outpoint, &coin);
            asked.map_err(StoreError::value(family, key))?;
            if coin.leaf().is_some() != self.has_leaves {
                sums.report.found(
                    ColumnFamily::Unspent,
                    named(&outpoint),
                    "has a leaf in a store without leaves, or lacks one in a store with them",
                );
            }
            if let Some(leaf) = coin.leaf() {
                let name = (&outpoint.tx.0, outpoint.index);
                trees::held(
                    &mut sums.leaves,
                    leaf,
                    &hash::output(leaf, name.0, name.1, coin.body()),
                );
            }
            self.window.add_birth(&mut sums.births, &outpoint, (&record, &coin));
            while let Some((spent, height)) = spends.next_if(|(spent, _)| *spent <= outpoint) {
                // An earlier coin of the same name may well have been spent.
                if *spent == outpoint && *height >= record.born.block_number {
                    sums.report.found(
                        ColumnFamily::Unspent,
                        named(&outpoint),
                        "is both unspent and spent",
                    );
                }
            }
            Ok(sink.read_one())
        })
    }
}

impl Check<'_> {
    /// Reads all coins, spends and lists, and compares what they add up to.
    ///
    /// Returns the leaves of the coins.
    pub(super) fn coins(&mut self, window: &WindowSums) -> Result<SetSum, StoreError> {
        let Self { view, progress, indexes, .. } = self;
        let chain = self.network.family();
        let has_leaves = self.commitment.is_some();
        let spends_floor = self.horizon.spends_floor;
        let reader = CoinReader { view, window, chain, indexes, has_leaves, spends_floor };
        let large = ranges::suitable(view.entries_estimated(ColumnFamily::Unspent)?, &[]);
        let parts = ranges::in_parallel(&large, *progress, |range, sink| reader.read(range, sink))?;
        let mut coins = parts.into_iter().fold(CoinSums::new(), CoinSums::merge);
        self.report.checked.push((ColumnFamily::Unspent.name(), coins.coins));
        self.report.checked.push((ColumnFamily::Spent.name(), coins.spent));
        self.report.absorb(std::mem::take(&mut coins.report));
        self.lists(&coins.lists)?;
        self.compare_totals(coins.coins, coins.value);
        self.compare_pointers(window, &coins.pointers)?;
        self.compare_births(window, coins.births)?;
        Ok(coins.leaves)
    }

    fn compare_totals(&mut self, coins: u64, value: u128) {
        let IndexCursor { coins: noted, value: noted_value, .. } = self.cursor;
        if (coins, value) != (noted, noted_value) {
            let what = format!(
                "there are {coins} coins worth {value}, but the cursor says {noted} worth \
                 {noted_value}"
            );
            self.report.found(ColumnFamily::UtxoMeta, "cursor", what);
        }
    }

    fn compare_pointers(
        &mut self,
        window: &WindowSums,
        found: &HashMap<u64, SetSum>,
    ) -> Result<(), StoreError> {
        let none = SetSum::default();
        let told = window
            .blocks
            .iter()
            .filter(|(ordinal, block)| *found.get(ordinal).unwrap_or(&none) != block.pointers);
        let told = told.map(|(ordinal, _)| *ordinal);
        let unlisted = found.keys().filter(|ordinal| !window.blocks.contains_key(ordinal));
        let mut odd: Vec<u64> = told.chain(unlisted.copied()).collect();
        odd.sort_unstable();
        if odd.is_empty() { Ok(()) } else { self.odd_pointers(&odd) }
    }

    fn compare_births(&mut self, window: &WindowSums, mut found: Births) -> Result<(), StoreError> {
        for (ordinal, sum) in &window.births {
            found.entry(*ordinal).or_default().merge(*sum);
        }
        let undoable = window.blocks.iter().filter(|(_, block)| block.undoable);
        let odd = undoable.filter(|(ordinal, block)| {
            found.get(ordinal).copied().unwrap_or_default() != block.created
        });
        let mut odd: Vec<u64> = odd.map(|(ordinal, _)| *ordinal).collect();
        odd.sort_unstable();
        if odd.is_empty() { Ok(()) } else { self.odd_births(&odd) }
    }
}
