//! Places for live streams: so many in all, a quarter of them for one client, half for guests.
//!
//! Whoever reaches the port on loopback may be a guest, as often as he likes; so guests together
//! can't take the places of those who showed who they are.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::auth::{ClientKey, Identity};

/// The places.
pub struct Streams {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    guests: usize,
    by_client: HashMap<ClientKey, usize>,
}

/// Why there is no place.
#[derive(Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// Everybody together has too many.
    All,
    /// This client has too many.
    Yours,
}

impl Streams {
    /// So many streams at a time.
    pub fn new(most: usize) -> Self {
        Self { most, taken: Mutex::default() }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more stream of this client.
    pub fn take(self: &Arc<Self>, who: &Identity) -> Result<StreamPlace, NoPlace> {
        let mut taken = self.taken();
        let guests_full = who.is_guest && taken.guests >= self.most.div_ceil(2);
        if taken.all >= self.most || guests_full {
            return Err(NoPlace::All);
        }
        let mine = taken.by_client.get(&who.client).copied().unwrap_or(0);
        if mine >= self.most.div_ceil(4) {
            return Err(NoPlace::Yours);
        }
        taken.all += 1;
        taken.guests += usize::from(who.is_guest);
        taken.by_client.insert(who.client, mine + 1);
        Ok(StreamPlace { streams: self.clone(), client: who.client, is_guest: who.is_guest })
    }
}

/// A place that is taken until it is dropped.
pub struct StreamPlace {
    streams: Arc<Streams>,
    client: ClientKey,
    is_guest: bool,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut taken = self.streams.taken();
        taken.all = taken.all.saturating_sub(1);
        taken.guests = taken.guests.saturating_sub(usize::from(self.is_guest));
        let left = taken.by_client.get(&self.client).copied().unwrap_or(0).saturating_sub(1);
        if left == 0 {
            taken.by_client.remove(&self.client);
        } else {
            taken.by_client.insert(self.client, left);
        }
    }
}
