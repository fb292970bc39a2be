//! All payments that are open, each when it is due.
//!
//! | a payment is due | because |
//! |---|---|
//! | at once | it is new to this worker: after a start, that is all of them |
//! | at once | its mint gave notice, or nobody listened for a while |
//! | every minute, for a grace time | it ended unpaid: money that comes all the same is not lost |
//! | after a pause | it is open, something is unclear, change is owed ([`pace`](super::super::watch::pace)) |
//!
//! The worker decides who is due and keeps what came of it; it never waits for a mint. Turns are
//! taken in lanes, one for each mint, and one worker works at a time, by a lease.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
    time::Duration,
};

use cashu::mint_url::MintUrl;
use crossbeam_channel::{Receiver, Sender, select, unbounded};
use unspent_ecash::{DueScan, EcashEntity, PageRequest};
use unspent_model::{
    Micros,
    ecash::{EntityKind, EntityState},
};

use super::{
    super::watch::{ListenerOptions, MintListener, MintWatch, PaymentWake, WatchKind, pace},
    EcashWorkError,
    executor::{PaymentExecutor, PaymentStanding, is_spark},
    lanes::{Lanes, PaymentTask, TaskOutcome},
    lease::LeaderLease,
    now,
};

/// So long a worker is the only one without saying so again.
pub const LEASE: Duration = Duration::from_secs(6);
/// Open payments that are read at a time.
const PAGE: u32 = 500;
/// A pass that waits for turns looks so often whether it still leads.
const LOOK_EVERY: Duration = Duration::from_millis(200);

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

/// What was done since the last report.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PassReport {
    /// Another worker is at work; nothing was begun.
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

#[derive(Clone, Default)]
struct PaymentSlot {
    due: Micros,
    /// Turns in a row that led nowhere.
    tries: u32,
    /// Why the last one did.
    unclear: Option<String>,
}

/// A scan that is due, or has to wait.
#[derive(Default)]
struct ScanSlot {
    due: Micros,
    /// Turns in a row that led nowhere.
    tries: u32,
    is_under_way: bool,
}

/// A payment whose turn is under way, as it was when that began.
struct RunningTurn {
    entity: EcashEntity,
    /// There was news meanwhile: it is due again at once.
    is_woken: bool,
}

/// Moves all open payments.
pub struct PaymentWorker {
    executor: Arc<PaymentExecutor>,
    slots: BTreeMap<String, PaymentSlot>,
    under_way: BTreeMap<String, RunningTurn>,
    /// Scans, by keyset and account.
    scans: BTreeMap<String, ScanSlot>,
    listeners: BTreeMap<String, MintListener>,
    options: WorkerOptions,
    /// When payments that ended unpaid are looked at next.
    late_due: Micros,
    /// What the next report tells.
    told: PassReport,
    sender: Sender<PaymentWake>,
    wakes: Receiver<PaymentWake>,
    turns: Receiver<TaskOutcome>,
    // Dropped in this order: first nothing is begun any more, then others may lead.
    lanes: Lanes,
    lease: LeaderLease,
}

impl Drop for PaymentWorker {
    fn drop(&mut self) {
        self.lease.give_up();
    }
}

impl PaymentWorker {
    /// A worker that has done nothing yet.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`] when the system gives no randomness or no thread.
    pub fn new(
        executor: Arc<PaymentExecutor>,
        options: WorkerOptions,
    ) -> Result<Self, EcashWorkError> {
        let (sender, wakes) = unbounded();
        let (over, turns) = unbounded();
        let lease = LeaderLease::start(executor.store.clone(), LEASE)?;
        Ok(Self {
            slots: BTreeMap::new(),
            under_way: BTreeMap::new(),
            scans: BTreeMap::new(),
            listeners: BTreeMap::new(),
            options,
            late_due: Micros::default(),
            told: PassReport::default(),
            sender,
            wakes,
            turns,
            lanes: Lanes::new(executor.clone(), lease.watch(), over),
            lease,
            executor,
        })
    }

    /// Waits until a mint gives notice, a turn is over or time is.
    pub fn rest(&mut self, patience: Duration) {
        select! {
            recv(self.wakes) -> wake => if let Ok(wake) = wake { self.wake(&wake) },
            recv(self.turns) -> turn => if let Ok(turn) = turn { self.settle(turn) },
            default(patience) => {}
        }
    }

    fn wake(&mut self, wake: &PaymentWake) {
        if let Some(under_way) = self.under_way.get_mut(&wake.subject) {
            // It may be newer than the answer that the turn is waiting for.
            under_way.is_woken = true;
        } else {
            self.slots.entry(wake.subject.clone()).or_default().due = Micros::default();
        }
    }

    /// Begins the turn of every payment that is due, and tells of turns that are over. Waits for
    /// nobody but the database.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`] when the database can't be asked; what was done before is done.
    pub fn step(&mut self) -> Result<PassReport, EcashWorkError> {
        while let Ok(turn) = self.turns.try_recv() {
            self.settle(turn);
        }
        if !self.lease.take()? {
            // Whoever leads now moves the payments. Our pauses and sockets would be stale when the
            // lease comes back.
            self.lanes.clear();
            self.under_way.clear();
            self.slots.clear();
            self.scans.clear();
            self.listeners.clear();
            return Ok(PassReport { is_led_by_another: true, ..mem::take(&mut self.told) });
        }
        while let Ok(wake) = self.wakes.try_recv() {
            self.wake(&wake);
        }
        let open = self.open()?;
        let ids: BTreeSet<&str> = open.iter().map(|entity| entity.id.as_str()).collect();
        self.slots.retain(|id, _| ids.contains(id.as_str()));
        self.told.open = open.len();
        let now = now();
        let mut due: Vec<(EcashEntity, bool)> = Vec::new();
        for entity in &open {
            let slot = self.slots.entry(entity.id.clone()).or_default();
            if slot.due <= now {
                due.push((entity.clone(), false));
            }
        }
        due.extend(self.late(now)?.into_iter().map(|entity| (entity, true)));
        self.begin(due)?;
        self.begin_scans(now)?;
        self.listen(&open);
        Ok(self.report())
    }

    /// Gives every payment that is due its turn, and waits for the end of all turns: as long as
    /// the slowest mint takes. For those who look once.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`] when the database can't be asked; what was done before is done.
    pub fn pass(&mut self) -> Result<PassReport, EcashWorkError> {
        let mut report = self.step()?;
        if report.is_led_by_another {
            return Ok(report);
        }
        let leads = self.lease.watch();
        while !self.under_way.is_empty() || self.scans.values().any(|slot| slot.is_under_way) {
            if let Ok(turn) = self.turns.recv_timeout(LOOK_EVERY) {
                self.settle(turn);
            }
            // The turns end by themselves. Waiting for them would be waiting for a mint.
            if !leads() {
                report.is_led_by_another = true;
                break;
            }
        }
        let rest = self.report();
        report.moved += rest.moved;
        report.ended += rest.ended;
        report.late += rest.late;
        report.unclear = rest.unclear;
        Ok(report)
    }

    fn report(&mut self) -> PassReport {
        let unclear = self.slots.iter();
        let unclear = unclear.filter_map(|(id, slot)| Some((id.clone(), slot.unclear.clone()?)));
        let unclear = unclear.collect();
        let open = self.told.open;
        PassReport { unclear, open, ..mem::take(&mut self.told) }
    }

    /// Payments that ended unpaid not long ago, when it is time to look at them.
    fn late(&mut self, now: Micros) -> Result<Vec<EcashEntity>, EcashWorkError> {
        if now < self.late_due {
            return Ok(Vec::new());
        }
        self.late_due = now.later(LATE_EVERY);
        let since = now.earlier(self.options.late_payment_grace);
        let mut late = Vec::new();
        for kind in LATE_KINDS {
            let ended = self.executor.store.entities(kind, PageRequest::first(PAGE))?;
            late.extend(ended.into_iter().filter(|entity| {
                let is_late = matches!(entity.state, EntityState::Expired | EntityState::Failed);
                is_late && entity.updated_at >= since
            }));
        }
        Ok(late)
    }

    fn open(&self) -> Result<Vec<EcashEntity>, EcashWorkError> {
        let mut all: Vec<EcashEntity> = Vec::new();
        loop {
            let after = all.last().map(|entity| entity.id.as_str());
            let page = PageRequest { after, limit: PAGE };
            let page = self.executor.store.open_entities(page)?;
            let is_last = page.len() < PAGE as usize;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Puts payments into their lanes, unless they are there.
    fn begin(&mut self, mut due: Vec<(EcashEntity, bool)>) -> Result<(), EcashWorkError> {
        due.retain(|(entity, _)| !self.under_way.contains_key(&entity.id));
        if due.is_empty() {
            return Ok(());
        }
        let accounts = self.executor.store.accounts()?.into_iter();
        let mints: BTreeMap<String, Option<MintUrl>> =
            accounts.map(|account| (account.id, account.mint_url)).collect();
        for (entity, is_late) in due {
            let own = mints.get(&entity.account_id).cloned().flatten();
            self.lanes.put(task_of(&entity, own, is_late));
            self.under_way.insert(entity.id.clone(), RunningTurn { entity, is_woken: false });
        }
        Ok(())
    }

    /// Puts scans into the lanes of their mints, behind the payments that are open.
    fn begin_scans(&mut self, now: Micros) -> Result<(), EcashWorkError> {
        let all = self.executor.store.due_scans()?;
        let id = |due: &DueScan| format!("{} of {}", due.keyset_id, due.account_id);
        let ids: BTreeSet<String> = all.iter().map(id).collect();
        self.scans.retain(|id, slot| slot.is_under_way || ids.contains(id));
        for due in all {
            let slot = self.scans.entry(id(&due)).or_default();
            if slot.is_under_way || slot.due > now {
                continue;
            }
            slot.is_under_way = true;
            let mint = self.executor.store.account(&due.account_id)?.mint_url;
            let mints: Vec<MintUrl> = mint.into_iter().collect();
            let lane = mints.iter().map(ToString::to_string).collect();
            let id = id(&due);
            self.lanes.put(PaymentTask { id, lane, mints, is_late: true, scan: Some(due) });
        }
        Ok(())
    }

    fn settle_scan(&mut self, turn: TaskOutcome) {
        let TaskOutcome { task, outcome, quiet } = turn;
        let Some(slot) = self.scans.get_mut(&task.id) else { return };
        slot.is_under_way = false;
        let why = match outcome {
            Ok(PaymentStanding::Over | PaymentStanding::Watching) => {
                self.scans.remove(&task.id);
                return;
            }
            Ok(PaymentStanding::Unclear(why)) => why,
            Err(error) => error.to_string(),
        };
        tracing::warn!(scan = task.id, why, "a scan has to wait");
        // The pause stops growing long before.
        slot.tries = slot.tries.saturating_add(1);
        slot.due = now().later(pace::unclear_after(slot.tries, quiet));
    }

    /// Keeps what came of a turn.
    fn settle(&mut self, turn: TaskOutcome) {
        if turn.task.scan.is_some() {
            self.settle_scan(turn);
            return;
        }
        let TaskOutcome { task, outcome, quiet } = turn;
        // A turn that began before the lease was lost: somebody else looks after the payment.
        let Some(RunningTurn { entity, is_woken }) = self.under_way.remove(&task.id) else {
            return;
        };
        if task.is_late {
            self.told.late += 1;
            if let Err(error) = outcome {
                tracing::warn!(entity = task.id, %error, "an end could not be looked at");
            }
            return;
        }
        self.told.moved += 1;
        let is_told = self.listeners.values().any(|listener| listener.tells_of(&entity.id));
        let slot = self.slots.entry(entity.id.clone()).or_default();
        let unclear = match outcome {
            Ok(PaymentStanding::Over) => {
                self.told.ended += 1;
                self.slots.remove(&entity.id);
                return;
            }
            Ok(PaymentStanding::Watching) => None,
            Ok(PaymentStanding::Unclear(why)) => Some(why),
            Err(error) => {
                tracing::warn!(entity = entity.id, %error, "a payment could not be moved");
                Some(error.to_string())
            }
        };
        // The pause stops growing long before.
        slot.tries = if unclear.is_some() { slot.tries.saturating_add(1) } else { 0 };
        let pause = match unclear {
            // Paid, and only change is owed. What is known of that is older than the turn if the
            // turn brought it; then it is asked for once more at once.
            Some(_) if entity.kind.is_terminal(entity.state) => owed_pause(&entity).max(quiet),
            Some(_) => pace::unclear_after(slot.tries, quiet),
            None => still_open(&entity, is_told).min(until_end(&entity)).max(quiet),
        };
        slot.unclear = unclear;
        slot.due = if is_woken { Micros::default() } else { now().later(pause) };
    }

    /// Makes the listeners listen for what is open now.
    fn listen(&mut self, open: &[EcashEntity]) {
        let mut wanted: BTreeMap<String, (MintUrl, Vec<MintWatch>)> = BTreeMap::new();
        for entity in open {
            // What can't be read is told by its turn; the others are listened for.
            for (mint, watch) in self.executor.watches(entity).unwrap_or_default() {
                let entry = wanted.entry(mint.to_string()).or_insert((mint, Vec::new()));
                entry.1.push(watch);
            }
        }
        self.listeners.retain(|mint, _| wanted.contains_key(mint));
        for (name, (mint, watches)) in wanted {
            if !self.listeners.contains_key(&name) {
                let kinds = vec![WatchKind::MintQuote, WatchKind::MeltQuote, WatchKind::Proofs];
                let sender = self.sender.clone();
                match MintListener::start(mint, kinds, self.options.listener, sender) {
                    Ok(listener) => drop(self.listeners.insert(name.clone(), listener)),
                    // Without it the mint is asked more often.
                    Err(error) => tracing::warn!(mint = name, %error, "no thread to listen"),
                }
            }
            if let Some(listener) = self.listeners.get(&name) {
                listener.watch(watches);
            }
        }
    }
}

/// A payment with its lane: whoever it waits for.
fn task_of(entity: &EcashEntity, own: Option<MintUrl>, is_late: bool) -> PaymentTask {
    let source = entity.details.source().and_then(|source| source.mint_url.parse().ok());
    let mints: Vec<MintUrl> = [source, own].into_iter().flatten().collect();
    let mut names: Vec<String> = mints.iter().map(ToString::to_string).collect();
    if is_spark(entity) {
        names.push("Spark".into());
    }
    let lane = names.join(" to ");
    PaymentTask { id: entity.id.clone(), lane, mints, is_late, scan: None }
}

/// The pause until a payment's own end, after which it is looked at once more.
fn until_end(entity: &EcashEntity) -> Duration {
    let left = entity.expires_at.map(|end| end.since(now()));
    left.filter(|left| !left.is_zero()).unwrap_or(Duration::MAX)
}

/// The pause until change that is owed is asked for again.
fn owed_pause(entity: &EcashEntity) -> Duration {
    let owed = entity.details.owed_change();
    let since = owed.map_or(entity.updated_at, |(owed, _)| owed.since());
    pace::owed_after(now().since(since))
}

/// The pause until a payment is looked at that somebody else has to move.
fn still_open(entity: &EcashEntity, is_told: bool) -> Duration {
    if !is_spark(entity) {
        return pace::ask_after(is_told);
    }
    if entity.kind == EntityKind::SparkSendQuote {
        return pace::SPARK_SEND;
    }
    pace::spark_receive_after(now().since(entity.created_at))
}
