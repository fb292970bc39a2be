//! A fingerprint of the coin set that anyone can compute from a node's data.
//!
//! Cardano: coins by (tx hash, index); each `tx hash | index u16 | address length u16 | address |
//! value u64`, then per asset by policy and name `length u16 | policy | name | quantity u64`.
//! Bitcoin: coins by (txid as shown, vout); each `txid as shown | vout u32 | value u64 | script`.
//! Numbers are big-endian; the digest is SHA-256 over all of it.

use sha2::{Digest as _, Sha256};
use unspent_model::{Family as ChainFamily, Outpoint, Point, chain::Record};

use crate::{
    coin::Coin,
    db::View,
    error::{QueryError, StoreError},
    query::{self, Reader},
    schema::{Family, OutpointKey},
};

/// Coins sorted in memory at a time; a larger Bitcoin set takes several passes.
const COINS_PER_PASS: u64 = 4_000_000;

/// The coin set in four numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest {
    /// The block as of which this is true.
    pub at: Option<Point>,
    /// Unspent coins.
    pub coins: u64,
    /// Their value in base units.
    pub value: u128,
    /// Assets, counted once per coin that holds them.
    pub asset_entries: u64,
    /// SHA-256 over the coins, as the page above lays them out.
    pub sha256: [u8; 32],
}

impl Reader {
    /// Counts and fingerprints the whole set.
    ///
    /// # Errors
    ///
    /// [`QueryError`], naming the entry when one is damaged.
    pub fn digest(&self) -> Result<Digest, QueryError> {
        self.enabled()?;
        let view = self.db.view();
        let at = query::tip(&view)?;
        let mut sums = Sums { coins: 0, value: 0, asset_entries: 0, hash: Sha256::new() };
        match self.network().family() {
            ChainFamily::Cardano => {
                for_each_coin(&view, |outpoint, record| sums.cardano(&outpoint, &record))?
            }
            ChainFamily::Bitcoin => bitcoin(&view, &mut sums)?,
        }
        let Sums { coins, value, asset_entries, hash } = sums;
        Ok(Digest { at, coins, value, asset_entries, sha256: hash.finalize().into() })
    }
}

struct Sums {
    coins: u64,
    value: u128,
    asset_entries: u64,
    hash: Sha256,
}

impl Sums {
    fn cardano(&mut self, outpoint: &Outpoint, record: &Record) -> Result<(), StoreError> {
        let output = &record.output;
        self.count(record);
        self.hash.update(outpoint.tx.0);
        self.hash.update(short(outpoint, u64::from(outpoint.index))?);
        self.hash.update(short(outpoint, output.addr.len() as u64)?);
        self.hash.update(&output.addr);
        self.hash.update(output.value.to_be_bytes());
        for asset in &output.assets {
            let length = asset.policy.len() + asset.name.len();
            self.hash.update(short(outpoint, length as u64)?);
            self.hash.update(asset.policy);
            self.hash.update(&asset.name);
            self.hash.update(asset.quantity.to_be_bytes());
        }
        Ok(())
    }

    fn bitcoin(&mut self, shown: &[u8; 32], index: u32, record: &Record) {
        self.count(record);
        self.hash.update(shown);
        self.hash.update(index.to_be_bytes());
        self.hash.update(record.output.value.to_be_bytes());
        self.hash.update(&record.output.addr);
    }

    fn count(&mut self, record: &Record) {
        self.coins += 1;
        self.value += u128::from(record.output.value);
        self.asset_entries += record.output.assets.len() as u64;
    }
}

fn short(outpoint: &Outpoint, number: u64) -> Result<[u8; 2], StoreError> {
    let number = u16::try_from(number).map_err(|_| StoreError::Corrupt {
        place: format!("{}[{outpoint:?}]", Family::Unspent.name()),
        what: format!("{number} does not fit in 16 bits"),
    })?;
    Ok(number.to_be_bytes())
}

fn for_each_coin(
    view: &View<'_>,
    mut visit: impl FnMut(Outpoint, Record) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let family = Family::Unspent.name();
    view.scan_all(Family::Unspent, |key, value| {
        let outpoint = OutpointKey::decode(key).map_err(StoreError::key(family, key))?.0;
        let record = Coin::decode(value).map_err(StoreError::value(family, key))?;
        visit(outpoint, record)
    })
}

/// Disk order is wire order; the digest wants the order in which people read hashes. Each pass
/// sorts the coins whose hash, as shown, starts with its share of the 256 first bytes.
fn bitcoin(view: &View<'_>, sums: &mut Sums) -> Result<(), StoreError> {
    let mut coins = 0_u64;
    view.scan_all(Family::Unspent, |_, _| {
        coins += 1;
        Ok(())
    })?;
    let passes = coins.div_ceil(COINS_PER_PASS).clamp(1, 256);
    for pass in 0..passes {
        let mut batch: Vec<([u8; 32], u32, Record)> = Vec::new();
        for_each_coin(view, |outpoint, record| {
            let mut shown = outpoint.tx.0;
            shown.reverse();
            let [first, ..] = shown;
            if u64::from(first) * passes / 256 == pass {
                batch.push((shown, outpoint.index, record));
            }
            Ok(())
        })?;
        batch.sort_unstable_by_key(|(shown, index, _)| (*shown, *index));
        for (shown, index, record) in &batch {
            sums.bitcoin(shown, *index, record);
        }
    }
    Ok(())
}
