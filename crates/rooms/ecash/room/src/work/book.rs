//! Clients and keys of mints, kept while the process lives.
//!
//! A keyset's keys never change under its id, which is checked; which keyset is active does, so it
//! is read again when a mint says that ours is old. Keys of active keysets come in one answer,
//! those of others when something needs them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use cashu::{CurrencyUnit, Id, KeySetInfo, Keys, mint_url::MintUrl};
use unspent_ecash::{KeysetInfo, OutputKeyset, flow::MintKeys};
use unspent_source::wakeup::lock;

use super::super::mint::{MintClient, MintOptions, MintVisit, NoResult, check::host_of};

/// Keysets of one unit whose keys are loaded when all are wanted; active ones come first.
const MOST_KEYSETS: usize = 64;
/// Requests that may wait for one mint at a time.
const MINT_PLACES: usize = 4;

/// What is known of a mint in one unit.
#[derive(Clone, Debug)]
pub struct KnownMint {
    /// Its keys, for flows: of active keysets, and of those that something has needed.
    pub keys: Arc<MintKeys>,
    /// All keysets of the unit.
    pub keysets: Vec<KeySetInfo>,
}

impl KnownMint {
    /// The keysets as the store keeps them.
    pub fn infos(&self) -> Vec<KeysetInfo> {
        let info = |keyset: &KeySetInfo| KeysetInfo {
            keyset_id: keyset.id.to_string(),
            is_active: keyset.active,
            fee_ppk: keyset.input_fee_ppk,
        };
        self.keysets.iter().map(info).collect()
    }
}

type MintPlace = (String, String);

/// All mints that this process speaks to.
pub struct MintBook {
    options: MintOptions,
    clients: Mutex<BTreeMap<String, Arc<MintClient>>>,
    known: Mutex<BTreeMap<MintPlace, KnownMint>>,
    keys: Mutex<BTreeMap<Id, Keys>>,
    /// Mints of which the keys of all keysets are wanted.
    doubted: Mutex<BTreeSet<String>>,
    /// Requests that wait, by the mint's host.
    waiting: Mutex<BTreeMap<String, usize>>,
}

/// A request that waits for a mint. Dropped, it makes place for another.
pub struct WaitingPlace<'b> {
    book: &'b MintBook,
    host: String,
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.book.waiting);
        if let Some(count) = waiting.get_mut(&self.host) {
            // Each place is counted once when it is taken.
            *count = count.saturating_sub(1);
        }
        waiting.retain(|_, count| *count > 0);
    }
}

impl MintBook {
    /// An empty book.
    pub fn new(options: MintOptions) -> Self {
        Self {
            options,
            clients: Mutex::default(),
            known: Mutex::default(),
            keys: Mutex::default(),
            doubted: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    /// How mints are spoken to.
    pub fn options(&self) -> MintOptions {
        self.options
    }

    /// A place among those who wait for a mint; `None` when they are too many. So a mint that takes
    /// its time leaves places to others.
    pub fn place(&self, url: &MintUrl) -> Option<WaitingPlace<'_>> {
        let url = url.to_string();
        let host = host_of(&url).split('/').next().unwrap_or_default().to_owned();
        let mut waiting = lock(&self.waiting);
        let count = waiting.entry(host.clone()).or_default();
        if *count >= MINT_PLACES {
            return None;
        }
        *count += 1;
        Some(WaitingPlace { book: self, host })
    }

    /// The client of a mint.
    pub fn client(&self, url: &MintUrl) -> Arc<MintClient> {
        let mut clients = lock(&self.clients);
        let new = || Arc::new(MintClient::new(url.clone(), self.options));
        clients.entry(url.to_string()).or_insert_with(new).clone()
    }

    /// What is known of a mint in a unit; the second says whether it was read just now.
    ///
    /// # Errors
    ///
    /// [`NoResult`] when it must be read and can't be.
    pub fn mint(&self, url: &MintUrl, unit: &CurrencyUnit) -> Result<(KnownMint, bool), NoResult> {
        if let Some(known) = self.known(url, unit) {
            return Ok((known, false));
        }
        // With no lock held, or one silent mint would hold up all others. Two may read at once;
        // both are right.
        let client = self.client(url);
        let visit = client.visit();
        let keysets = visit.keysets()?.keysets;
        Ok((self.meet(&visit, keysets, unit)?, true))
    }

    /// What is known of a mint in a unit without asking it.
    pub fn known(&self, url: &MintUrl, unit: &CurrencyUnit) -> Option<KnownMint> {
        lock(&self.known).get(&(url.to_string(), unit.to_string())).cloned()
    }

    /// Reads the keys of a mint that has told its keysets, and keeps them.
    ///
    /// # Errors
    ///
    /// [`NoResult`].
    pub fn meet(
        &self,
        visit: &MintVisit<'_>,
        keysets: Vec<KeySetInfo>,
        unit: &CurrencyUnit,
    ) -> Result<KnownMint, NoResult> {
        let place = (visit.client().url().to_string(), unit.to_string());
        let read = self.read(visit, keysets, unit)?;
        lock(&self.known).insert(place, read.clone());
        Ok(read)
    }

    /// The same with the keys of some keysets, those that the mint lists, active or not.
    ///
    /// # Errors
    ///
    /// [`NoResult`] when something must be read and can't be.
    pub fn mint_with(
        &self,
        url: &MintUrl,
        unit: &CurrencyUnit,
        needed: &[&str],
    ) -> Result<(KnownMint, bool), NoResult> {
        let (mut known, is_new) = self.mint(url, unit)?;
        let is_needed = |keyset: &&KeySetInfo| needed.contains(&&*keyset.id.to_string());
        let missing: Vec<Id> = known.keysets.iter().filter(is_needed).map(|k| k.id).collect();
        let missing: Vec<Id> =
            missing.into_iter().filter(|id| !known.keys.keys.contains_key(id)).collect();
        if missing.is_empty() {
            return Ok((known, is_new));
        }
        let client = self.client(url);
        let visit = client.visit();
        let mut keys = (*known.keys).clone();
        for id in missing {
            keys.keys.insert(id, self.keys(&visit, id)?);
        }
        known.keys = Arc::new(keys);
        lock(&self.known).insert((url.to_string(), unit.to_string()), known.clone());
        Ok((known, is_new))
    }

    /// Has the keysets of a mint read again, with the keys of all.
    pub fn forget(&self, url: &MintUrl) {
        let url = url.to_string();
        lock(&self.known).retain(|(mint, _), _| *mint != url);
        lock(&self.doubted).insert(url);
    }

    fn read(
        &self,
        visit: &MintVisit<'_>,
        mut keysets: Vec<KeySetInfo>,
        unit: &CurrencyUnit,
    ) -> Result<KnownMint, NoResult> {
        let url = visit.client().url().clone();
        keysets.retain(|keyset| keyset.unit == *unit);
        // New outputs are made on the first one: one that signs, and of those the cheapest to
        // spend.
        keysets.sort_by_key(|keyset| (!keyset.active, keyset.input_fee_ppk, keyset.id));
        self.read_active(visit, &keysets)?;
        let wants_all = lock(&self.doubted).contains(&url.to_string());
        let mut ring = BTreeMap::new();
        let mut false_ones = BTreeSet::new();
        let wanted = keysets.iter().filter(|keyset| keyset.active || wants_all);
        for keyset in wanted.take(MOST_KEYSETS) {
            match self.keys(visit, keyset.id) {
                Ok(keys) => drop(ring.insert(keyset.id, keys)),
                // One keyset that makes no sense doesn't spoil the others.
                Err(NoResult::Malformed { reason }) => {
                    let id = keyset.id;
                    tracing::warn!(mint = %url, keyset = %id, reason, "a keyset is left out");
                    false_ones.insert(keyset.id);
                }
                Err(error) => return Err(error),
            }
        }
        keysets.retain(|keyset| !false_ones.contains(&keyset.id));
        let missing = || NoResult::Malformed { reason: format!("no active keyset for {unit}") };
        let active = keysets.first().filter(|keyset| keyset.active).ok_or_else(missing)?;
        let keys = ring.get(&active.id).ok_or_else(missing)?;
        let active = OutputKeyset {
            keyset_id: active.id.to_string(),
            fee_ppk: active.input_fee_ppk,
            amounts: keys.iter().map(|(amount, _)| u64::from(*amount)).collect(),
        };
        let keys = Arc::new(MintKeys { url, keys: ring, active });
        Ok(KnownMint { keys, keysets })
    }

    /// Keys of all active keysets in one answer, unless they are at hand.
    fn read_active(&self, visit: &MintVisit<'_>, keysets: &[KeySetInfo]) -> Result<(), NoResult> {
        let is_at_hand = |keyset: &KeySetInfo| lock(&self.keys).contains_key(&keyset.id);
        if keysets.iter().filter(|keyset| keyset.active).all(is_at_hand) {
            return Ok(());
        }
        match visit.active_keys() {
            Ok(found) => {
                let is_listed = |id| keysets.iter().any(|keyset| keyset.id == id);
                let found = found.into_iter().filter(|keyset| is_listed(keyset.id));
                let found = found.map(|keyset| (keyset.id, keyset.keys));
                lock(&self.keys).extend(found);
                Ok(())
            }
            // Each is asked for by itself then.
            Err(NoResult::Malformed { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn keys(&self, visit: &MintVisit<'_>, id: Id) -> Result<Keys, NoResult> {
        if let Some(keys) = lock(&self.keys).get(&id) {
            return Ok(keys.clone());
        }
        let keys = visit.keys(id)?.keys;
        lock(&self.keys).insert(id, keys.clone());
        Ok(keys)
    }
}
