//! All payments that are open, each when it is due.
//!
//! | a payment is due | because |
//! |---|---|
//! | at once | it is new to this worker: after a start, that is all of them |
//! | at once | its mint gave notice, or nobody listened for a while |
//! | every minute, for a grace time | it ended unpaid: money that comes all the same is not lost |
//! | after a pause | it is still open, or something was unclear ([`pace`](super::super::watch::pace)) |
//!
//! One worker at a time, by a lease in the database. Two at once would do no harm, since every
//! change is made under the payment's lock and a repetition changes nothing; it would be a waste.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use cashu::mint_url::MintUrl;
use crossbeam_channel::{Receiver, Sender, unbounded};
use unspent_ecash::Entity;
use unspent_model::ecash::{EntityKind, EntityState};

use super::{
    super::watch::{Listener, ListenerOptions, MintWatch, Wake, WatchKind, pace},
    EcashWorkError,
    executor::{Executor, Standing, is_spark},
    payments::new_id,
};
use crate::clock;

/// So long a worker is the only one without saying so again.
pub const LEASE: Duration = Duration::from_secs(6);
/// Open payments that are read at a time.
const PAGE: u32 = 500;

/// Payments that ended unpaid are looked at so often.
const LATE_EVERY: Duration = Duration::from_secs(60);
/// Kinds of which an end may prove wrong.
const LATE_KINDS: [EntityKind; 3] =
    [EntityKind::CashuReceiveQuote, EntityKind::SparkReceiveQuote, EntityKind::CashuSendQuote];

/// How a worker behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerOptions {
    /// How it listens to mints.
    pub listener: ListenerOptions,
    /// So long after its end a payment that ended unpaid is looked at; the newest 500 of a kind.
    pub late_payment_grace: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        let late_payment_grace = Duration::from_secs(24 * 3_600);
        Self { listener: ListenerOptions::default(), late_payment_grace }
    }
}

/// What one pass did.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PassReport {
    /// Another worker is at work; nothing was done.
    pub is_led_by_another: bool,
    /// Payments that are open.
    pub open: usize,
    /// Payments that had their turn.
    pub moved: usize,
    /// Those that came to their end.
    pub ended: usize,
    /// Those that had ended unpaid and were looked at again.
    pub late: usize,
    /// Why others wait, by payment.
    pub unclear: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Microseconds.
    due: i64,
    /// Turns in a row that led nowhere.
    tries: u32,
}

/// Moves all open payments, pass by pass.
pub struct PaymentWorker {
    executor: Arc<Executor>,
    holder: String,
    slots: BTreeMap<String, Slot>,
    listeners: BTreeMap<String, Listener>,
    options: WorkerOptions,
    /// When payments that ended unpaid are looked at next, in microseconds.
    late_due: i64,
    sender: Sender<Wake>,
    wakes: Receiver<Wake>,
}

impl PaymentWorker {
    /// A worker that has done nothing yet.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`] when the system gives no randomness.
    pub fn new(executor: Arc<Executor>, options: WorkerOptions) -> Result<Self, EcashWorkError> {
        let (sender, wakes) = unbounded();
        let (slots, listeners) = (BTreeMap::new(), BTreeMap::new());
        let holder = new_id()?;
        Ok(Self { executor, holder, slots, listeners, options, late_due: 0, sender, wakes })
    }

    /// Waits until a mint gives notice or time is over.
    pub fn rest(&mut self, patience: Duration) {
        if let Ok(wake) = self.wakes.recv_timeout(patience) {
            self.wake(&wake);
        }
    }

    fn wake(&mut self, wake: &Wake) {
        self.slots.entry(wake.subject.clone()).or_default().due = 0;
    }

    /// Gives every payment that is due its turn.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`] when the database can't be asked; what was done before is done.
    pub fn pass(&mut self) -> Result<PassReport, EcashWorkError> {
        let mut report = PassReport::default();
        if !self.lead()? {
            self.slots.clear();
            self.listeners.clear();
            report.is_led_by_another = true;
            return Ok(report);
        }
        while let Ok(wake) = self.wakes.try_recv() {
            self.wake(&wake);
        }
        let open = self.open()?;
        report.open = open.len();
        let ids: BTreeSet<&str> = open.iter().map(|entity| entity.id.as_str()).collect();
        self.slots.retain(|id, _| ids.contains(id.as_str()));
        for entity in &open {
            let slot = self.slots.entry(entity.id.clone()).or_default();
            if slot.due > clock::now() {
                continue;
            }
            self.turn(entity, &mut report);
            if !self.lead()? {
                report.is_led_by_another = true;
                return Ok(report);
            }
        }
        self.look_at_late(&mut report)?;
        self.listen()?;
        Ok(report)
    }

    /// Looks at payments that ended unpaid not long ago.
    fn look_at_late(&mut self, report: &mut PassReport) -> Result<(), EcashWorkError> {
        let now = clock::now();
        if now < self.late_due {
            return Ok(());
        }
        self.late_due = now.saturating_add(micros(LATE_EVERY));
        let since = now.saturating_sub(micros(self.options.late_payment_grace));
        for kind in LATE_KINDS {
            for entity in self.executor.store.entities(kind, None, PAGE)? {
                let is_late = matches!(entity.state, EntityState::Expired | EntityState::Failed);
                if !is_late || entity.updated_at < since {
                    continue;
                }
                report.late += 1;
                if let Err(error) = self.executor.advance(&entity.id) {
                    tracing::warn!(entity = entity.id, %error, "an end could not be looked at");
                }
                self.lead()?;
            }
        }
        Ok(())
    }

    fn lead(&self) -> Result<bool, EcashWorkError> {
        let now = clock::now();
        let until = now.saturating_add(micros(LEASE));
        Ok(self.executor.store.take_lead(&self.holder, now, until)?)
    }

    fn open(&self) -> Result<Vec<Entity>, EcashWorkError> {
        let mut all: Vec<Entity> = Vec::new();
        loop {
            let after = all.last().map(|entity| entity.id.clone()).unwrap_or_default();
            let page = self.executor.store.open_entities(&after, PAGE)?;
            let is_last = page.len() < PAGE as usize;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// One payment's turn. Its trouble is its own: the others go on.
    fn turn(&mut self, entity: &Entity, report: &mut PassReport) {
        let outcome = self.executor.advance(&entity.id);
        report.moved += 1;
        let is_told = self.listeners.values().any(|listener| listener.tells_of(&entity.id));
        let slot = self.slots.entry(entity.id.clone()).or_default();
        let pause = match outcome {
            Ok(Standing::Over) => {
                report.ended += 1;
                self.slots.remove(&entity.id);
                return;
            }
            Ok(Standing::Watching) => {
                slot.tries = 0;
                still_open(entity, is_told).min(until_end(entity))
            }
            Ok(Standing::Unclear(why)) => {
                slot.tries += 1;
                report.unclear.insert(entity.id.clone(), why);
                pace::retry_after(slot.tries)
            }
            Err(error) => {
                slot.tries += 1;
                tracing::warn!(entity = entity.id, %error, "a payment could not be moved");
                report.unclear.insert(entity.id.clone(), error.to_string());
                pace::retry_after(slot.tries)
            }
        };
        slot.due = clock::now().saturating_add(micros(pause));
    }

    /// Makes the listeners listen for what is open now.
    fn listen(&mut self) -> Result<(), EcashWorkError> {
        let mut wanted: BTreeMap<String, (MintUrl, Vec<MintWatch>)> = BTreeMap::new();
        for entity in self.open()? {
            for (mint, watch) in self.executor.watches(&entity)? {
                let entry = wanted.entry(mint.to_string()).or_insert((mint, Vec::new()));
                entry.1.push(watch);
            }
        }
        self.listeners.retain(|mint, _| wanted.contains_key(mint));
        for (name, (mint, watches)) in wanted {
            if !self.listeners.contains_key(&name) {
                let kinds = vec![WatchKind::MintQuote, WatchKind::MeltQuote, WatchKind::Proofs];
                let sender = self.sender.clone();
                match Listener::start(mint, kinds, self.options.listener, sender) {
                    Ok(listener) => drop(self.listeners.insert(name.clone(), listener)),
                    // Without it the mint is asked more often.
                    Err(error) => tracing::warn!(mint = name, %error, "no thread to listen"),
                }
            }
            if let Some(listener) = self.listeners.get(&name) {
                listener.watch(watches);
            }
        }
        Ok(())
    }
}

/// The pause until a payment's own end, after which it is looked at once more.
fn until_end(entity: &Entity) -> Duration {
    let left = entity.expires_at.map(|end| end.saturating_sub(clock::now()));
    let left = left.and_then(|left| u64::try_from(left).ok()).filter(|left| *left > 0);
    left.map_or(Duration::MAX, Duration::from_micros)
}

/// The pause until a payment is looked at that somebody else has to move.
fn still_open(entity: &Entity, is_told: bool) -> Duration {
    if !is_spark(entity) {
        return pace::ask_after(is_told);
    }
    if entity.kind == EntityKind::SparkSendQuote {
        return pace::SPARK_SEND;
    }
    let age = clock::now().saturating_sub(entity.created_at);
    pace::spark_receive_after(Duration::from_micros(u64::try_from(age).unwrap_or(0)))
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
