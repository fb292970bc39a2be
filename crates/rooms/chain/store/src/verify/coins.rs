//! Coins and spends against the lists, the deltas and the totals.

use std::collections::HashMap;

use unspent_model::{Family as ChainFamily, Outpoint};
use unspent_verify::hash;

use super::{
    Check, Report, SetSum,
    blocks::{Births, Window},
    trees,
};
use crate::{
    codec::Cursor,
    coin::Coin,
    db::{Range, View},
    error::StoreError,
    options::Indexes,
    ranges::{self, KeyRange, Teller},
    schema::{AddressKey, Family, OutpointKey, Owner},
    telemetry,
};

/// Lists are added up by kind of owner and first byte of its hash.
pub(super) const BUCKETS: usize = 512;

/// The bucket of an owner.
pub(super) fn bucket(owner: &Owner) -> usize {
    match owner {
        Owner::Address([first, ..]) => usize::from(*first),
        Owner::Credential([first, ..]) => 256 + usize::from(*first),
    }
}

/// The list entries that a coin asks for.
pub(super) fn wanted(
    indexes: Indexes,
    coin: &Coin,
    outpoint: &Outpoint,
) -> impl Iterator<Item = AddressKey> {
    let by_address = indexes.address_hash.then(|| coin.address_key(outpoint));
    let by_credential = indexes.payment_credential.then(|| coin.credential_key(outpoint));
    by_address.into_iter().chain(by_credential.flatten())
}

/// What a range of `utxo_unspent` and `utxo_spent` adds up to; all ranges, once merged.
struct Coins {
    coins: u64,
    value: u128,
    spent: u64,
    lists: Vec<SetSum>,
    /// Pointers by the ordinal of the spending block.
    pointers: HashMap<u64, SetSum>,
    births: Births,
    /// Leaves of the coins; nothing in a classic store.
    leaves: SetSum,
    report: Report,
}

impl Coins {
    fn new() -> Self {
        Self {
            coins: 0,
            value: 0,
            spent: 0,
            lists: vec![SetSum::default(); BUCKETS],
            pointers: HashMap::new(),
            births: Births::new(),
            leaves: SetSum::default(),
            report: Report::default(),
        }
    }

    fn merge(mut self, other: Self) -> Self {
        self.coins += other.coins;
        self.value += other.value;
        self.spent += other.spent;
        merge_lists(&mut self.lists, &other.lists);
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

fn merge_lists(into: &mut [SetSum], from: &[SetSum]) {
    into.iter_mut().zip(from).for_each(|(into, from)| into.merge(*from));
}

/// Reads one range of coins and spends.
struct CoinReader<'a> {
    view: &'a View<'a>,
    window: &'a Window,
    chain: ChainFamily,
    indexes: Indexes,
    has_leaves: bool,
    spends_floor: u64,
}

impl CoinReader<'_> {
    fn read(&self, range: &KeyRange, teller: &mut Teller<'_>) -> Result<Coins, StoreError> {
        let mut sums = Coins::new();
        let spends = self.spends(range, teller, &mut sums)?;
        self.unspent(range, teller, &mut sums, &spends)?;
        Ok(sums)
    }

    /// Adds pointers up; returns which coins were spent and at which height, in key order.
    fn spends(
        &self,
        (low, high): &KeyRange,
        teller: &mut Teller<'_>,
        sums: &mut Coins,
    ) -> Result<Vec<(Outpoint, u64)>, StoreError> {
        let mut spends = Vec::new();
        self.view.scan_pointers((low, high), self.spends_floor, |(key, number)| {
            let element = Window::pointer(key, number);
            sums.pointers.entry(key.ordinal).or_default().add(&element.parts());
            sums.spent += 1;
            if let Some(block) = self.window.blocks.get(&key.ordinal) {
                spends.push((key.outpoint, block.height));
            }
            Ok(teller.read_one())
        })?;
        Ok(spends)
    }

    fn unspent(
        &self,
        (low, high): &KeyRange,
        teller: &mut Teller<'_>,
        sums: &mut Coins,
        spends: &[(Outpoint, u64)],
    ) -> Result<(), StoreError> {
        let family = Family::Unspent.name();
        let mut spends = spends.iter().peekable();
        self.view.scan(&Range::sweep(Family::Unspent, low, high), |key, value| {
            let outpoint = OutpointKey::decode(key).map_err(StoreError::key(family, key))?.0;
            let (record, coin) =
                Coin::with_record(self.chain, value).map_err(StoreError::value(family, key))?;
            sums.coins += 1;
            sums.value += u128::from(coin.value());
            for entry in wanted(self.indexes, &coin, &outpoint) {
                if let Some(sum) = sums.lists.get_mut(bucket(&entry.owner)) {
                    sum.add(&[&entry.encode()]);
                }
            }
            if coin.leaf().is_some() != self.has_leaves {
                sums.report.found(
                    Family::Unspent,
                    outpoint,
                    "has a leaf or lacks one, unlike the store",
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
                    sums.report.found(Family::Unspent, outpoint, "is both unspent and spent");
                }
            }
            Ok(teller.read_one())
        })
    }
}

/// What a range of `utxo_addr` adds up to; all ranges, once merged.
struct Lists {
    entries: u64,
    lists: Vec<SetSum>,
    report: Report,
}

impl Lists {
    fn read(
        view: &View<'_>,
        (low, high): &KeyRange,
        teller: &mut Teller<'_>,
    ) -> Result<Self, StoreError> {
        let lists = vec![SetSum::default(); BUCKETS];
        let mut sums = Self { entries: 0, lists, report: Report::default() };
        // No owner's list reaches into another range.
        let mut run: Option<(Owner, u64)> = None;
        view.scan(&Range::sweep(Family::Address, low, high), |key, value| {
            let entry = AddressKey::decode(key);
            let entry = entry.map_err(StoreError::key(Family::Address.name(), key))?;
            if !value.is_empty() {
                sums.report.found(Family::Address, entry, "has a value where none belongs");
            }
            if let Some(sum) = sums.lists.get_mut(bucket(&entry.owner)) {
                sum.add(&[key]);
            }
            sums.entries += 1;
            match &mut run {
                Some((owner, length)) if *owner == entry.owner => *length += 1,
                _ => {
                    let ended = run.replace((entry.owner, 1));
                    ended.into_iter().for_each(|(_, coins)| telemetry::coins_of_owner(coins));
                }
            }
            Ok(teller.read_one())
        })?;
        run.into_iter().for_each(|(_, coins)| telemetry::coins_of_owner(coins));
        Ok(sums)
    }

    fn merge(mut self, other: Self) -> Self {
        self.entries += other.entries;
        merge_lists(&mut self.lists, &other.lists);
        self.report.absorb(other.report);
        self
    }
}

impl Check<'_> {
    /// Reads all coins, spends and lists, and compares what they add up to.
    ///
    /// Returns the leaves of the coins.
    pub(super) fn coins(&mut self, window: &Window) -> Result<SetSum, StoreError> {
        let Self { view, progress, indexes, .. } = self;
        let chain = self.network.family();
        let has_leaves = self.commitment.is_some();
        let (indexes, spends_floor) = (*indexes, self.horizon.spends_floor);
        let reader = CoinReader { view, window, chain, indexes, has_leaves, spends_floor };
        let large = ranges::suitable(view.entries_estimated(Family::Unspent)?, &[]);
        let parts =
            ranges::in_parallel(&large, *progress, |range, teller| reader.read(range, teller))?;
        let mut coins = parts.into_iter().fold(Coins::new(), Coins::merge);
        let large = ranges::suitable(view.entries_estimated(Family::Address)?, b"ac");
        let parts = ranges::in_parallel(&large, *progress, |range, teller| {
            Lists::read(view, range, teller)
        })?;
        let lists = parts.into_iter().reduce(Lists::merge);
        self.report.checked.push((Family::Unspent.name(), coins.coins));
        self.report.checked.push((Family::Spent.name(), coins.spent));
        self.report.absorb(std::mem::take(&mut coins.report));
        if let Some(lists) = lists {
            self.report.checked.push((Family::Address.name(), lists.entries));
            self.report.absorb(lists.report);
            self.compare_lists(&coins.lists, &lists.lists)?;
        }
        self.compare_totals(coins.coins, coins.value);
        self.compare_pointers(window, &coins.pointers)?;
        self.compare_births(window, coins.births)?;
        Ok(coins.leaves)
    }

    fn compare_totals(&mut self, coins: u64, value: u128) {
        let Cursor { coins: noted, value: noted_value, .. } = self.cursor;
        if (coins, value) != (noted, noted_value) {
            let what = format!(
                "{coins} coins worth {value} are there, \
                 the cursor says {noted} worth {noted_value}"
            );
            self.report.found(Family::UtxoMeta, "cursor", what);
        }
    }

    fn compare_lists(&mut self, told: &[SetSum], found: &[SetSum]) -> Result<(), StoreError> {
        let pairs = told.iter().zip(found).enumerate();
        let odd = pairs.filter(|(_, (told, found))| told != found).map(|(bucket, _)| bucket);
        let odd: Vec<usize> = odd.collect();
        if odd.is_empty() { Ok(()) } else { self.odd_lists(&odd) }
    }

    fn compare_pointers(
        &mut self,
        window: &Window,
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

    fn compare_births(&mut self, window: &Window, mut found: Births) -> Result<(), StoreError> {
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
