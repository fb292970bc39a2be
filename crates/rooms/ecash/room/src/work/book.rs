//! Clients and keys of mints, kept while the process lives.
//!
//! A keyset's keys never change under its id, which is checked; which keyset is active does, so it
//! is read again when a mint says that ours is old.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use cashu::{CurrencyUnit, Id, KeySetInfo, Keys, mint_url::MintUrl};
use unspent_ecash::{KeysetInfo, OutputKeyset, flow::MintKeys};
use unspent_source::wakeup::lock;

use super::super::mint::{MintClient, MintOptions, NoResult};

/// Keysets of one unit whose keys are loaded; active ones come first.
const MOST_KEYSETS: usize = 64;

/// What is known of a mint in one unit.
#[derive(Clone, Debug)]
pub struct KnownMint {
    /// Its keys, for flows.
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
}

impl MintBook {
    /// An empty book.
    pub fn new(options: MintOptions) -> Self {
        let (clients, known, keys) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { options, clients, known, keys }
    }

    /// How mints are spoken to.
    pub fn options(&self) -> MintOptions {
        self.options
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
        let place = (url.to_string(), unit.to_string());
        if let Some(known) = lock(&self.known).get(&place) {
            return Ok((known.clone(), false));
        }
        // With no lock held, or one silent mint would hold up all others. Two may read at once;
        // both are right.
        let read = self.read(url, unit)?;
        lock(&self.known).insert(place, read.clone());
        Ok((read, true))
    }

    /// Has the keysets of a mint read again.
    pub fn forget(&self, url: &MintUrl) {
        let url = url.to_string();
        lock(&self.known).retain(|(mint, _), _| *mint != url);
    }

    fn read(&self, url: &MintUrl, unit: &CurrencyUnit) -> Result<KnownMint, NoResult> {
        let client = self.client(url);
        let mut keysets = client.keysets()?.keysets;
        keysets.retain(|keyset| keyset.unit == *unit);
        // New outputs are made on the first one: one that signs, and of those the cheapest to
        // spend.
        keysets.sort_by_key(|keyset| (!keyset.active, keyset.input_fee_ppk, keyset.id));
        let mut ring = BTreeMap::new();
        for keyset in keysets.iter().take(MOST_KEYSETS) {
            match self.keys(&client, keyset.id) {
                Ok(keys) => drop(ring.insert(keyset.id, keys)),
                // One keyset that makes no sense doesn't spoil the others.
                Err(NoResult::Malformed { reason }) => {
                    tracing::warn!(mint = %url, keyset = %keyset.id, reason, "a keyset is left out");
                }
                Err(error) => return Err(error),
            }
        }
        keysets.retain(|keyset| ring.contains_key(&keyset.id));
        let missing = || NoResult::Malformed { reason: format!("no active keyset for {unit}") };
        let active = keysets.first().filter(|keyset| keyset.active).ok_or_else(missing)?;
        let keys = ring.get(&active.id).ok_or_else(missing)?;
        let active = OutputKeyset {
            keyset_id: active.id.to_string(),
            fee_ppk: active.input_fee_ppk,
            amounts: keys.iter().map(|(amount, _)| u64::from(*amount)).collect(),
        };
        let keys = Arc::new(MintKeys { url: url.clone(), keys: ring, active });
        Ok(KnownMint { keys, keysets })
    }

    fn keys(&self, client: &MintClient, id: Id) -> Result<Keys, NoResult> {
        if let Some(keys) = lock(&self.keys).get(&id) {
            return Ok(keys.clone());
        }
        let keys = client.keys(id)?.keys;
        lock(&self.keys).insert(id, keys.clone());
        Ok(keys)
    }
}
