//! Who is due, and the delivery to one hook.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use metrics::counter;
use unspent_model::Micros;
use unspent_source::wakeup::lock;

use super::{
    SECRET_BYTES, WEBHOOKS, Webhook, WebhookError, WebhookOptions,
    message::{Message, shown_secret},
    post::{Poster, check_url},
    store::{self, HookPlace, HookStep, StoredHook},
};
use crate::{
    clock,
    events::{Event, EventLog, EventPage, LogError},
    jobs::{Job, Lane, Outcome},
    store::open as store_door,
    tenant::Tenant,
};

/// Events read at once for one hook.
const READ_AT_ONCE: usize = 100;

/// All hooks.
pub struct Webhooks {
    shared: Arc<HookServer>,
    /// The threads under way, by hook.
    under_way: Mutex<HashMap<u64, JoinHandle<()>>>,
}

struct HookServer {
    log: Arc<EventLog>,
    poster: Poster,
    options: WebhookOptions,
    stopping: AtomicBool,
}

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhooks").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Webhooks {
    pub(crate) fn new(log: Arc<EventLog>, options: WebhookOptions) -> Self {
        let poster = Poster::new(&options);
        let shared = HookServer { log, poster, options, stopping: AtomicBool::new(false) };
        Self { shared: Arc::new(shared), under_way: Mutex::default() }
    }

    /// The hooks of a data folder, to look at and change while no daemon serves them.
    ///
    /// # Errors
    ///
    /// [`WebhookError::Log`] when the database can't be opened.
    pub fn open(folder: &Path, options: WebhookOptions) -> Result<Self, WebhookError> {
        let door = store_door(folder).map_err(LogError::from)?;
        // A command doesn't know how many events the daemon keeps, so it must forget none.
        let log = EventLog::open(Arc::new(door), u64::MAX)?;
        Ok(Self::new(Arc::new(log), options))
    }

    /// Makes a hook that is told of a tenant's events from now on, whatever the tenant, known by
    /// its id, is called later. The text is its secret, in the form that libraries take; it
    /// isn't shown again.
    ///
    /// # Errors
    ///
    /// [`WebhookError::Refused`] when the URL may not be called.
    pub fn add(
        &self,
        tenant: &Tenant,
        url: &str,
        secret: [u8; SECRET_BYTES],
        now: Micros,
    ) -> Result<(Webhook, String), WebhookError> {
        check_url(url, &self.shared.options).map_err(WebhookError::Refused)?;
        let made = store::add(self.shared.log.door(), tenant, url, secret, now)?;
        Ok((made, shown_secret(&secret)))
    }

    /// Every hook.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn list(&self) -> Result<Vec<Webhook>, WebhookError> {
        Ok(store::all(self.shared.log.door())?.into_iter().map(|stored| stored.hook).collect())
    }

    /// Shows the hooks of a tenant under its new name. What they are sent doesn't hang on it.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn rename(&self, tenant: &Tenant) -> Result<(), WebhookError> {
        store::rename(self.shared.log.door(), tenant)
    }

    /// Removes a hook. What is being sent may still arrive.
    ///
    /// # Errors
    ///
    /// [`WebhookError::Unknown`].
    pub fn remove(&self, id: u64) -> Result<(), WebhookError> {
        let removed = store::remove(self.shared.log.door(), id)?;
        removed.then_some(()).ok_or(WebhookError::Unknown(id))
    }

    /// Tries a hook again at once, also one that was paused.
    ///
    /// # Errors
    ///
    /// [`WebhookError::Unknown`].
    pub fn resume(&self, id: u64) -> Result<(), WebhookError> {
        let known = store::resume(self.shared.log.door(), id)?;
        known.then_some(()).ok_or(WebhookError::Unknown(id))
    }

    /// Sends a message without an event, once, and waits for the answer.
    ///
    /// # Errors
    ///
    /// [`WebhookError::Failed`] with what went wrong.
    pub fn test(&self, id: u64, now: Micros) -> Result<(), WebhookError> {
        let stored = store::one(self.shared.log.door(), id)?.ok_or(WebhookError::Unknown(id))?;
        let message = Message::test(id, &stored.tenant.named, &stored.secret, now);
        self.shared.poster.post(&stored.hook.url, &message).map_err(WebhookError::Failed)
    }

    /// Starts a thread for each hook that is due and has none; says how many.
    pub(crate) fn look(&self, now: Micros) -> Result<usize, WebhookError> {
        let mut under_way = lock(&self.under_way);
        under_way.retain(|_, thread| !thread.is_finished());
        let last = self.shared.log.last_id();
        let mut started = 0;
        for StoredHook { hook, next_attempt_at, .. } in store::all(self.shared.log.door())? {
            let is_due = hook.paused_at.is_none() && next_attempt_at <= now && hook.cursor < last;
            if !is_due || under_way.contains_key(&hook.id) || self.shared.is_stopping() {
                continue;
            }
            let (shared, id) = (self.shared.clone(), hook.id);
            let thread = std::thread::Builder::new().name(format!("webhook-{id}"));
            if let Ok(thread) = thread.spawn(move || shared.serve(id)) {
                under_way.insert(id, thread);
                started += 1;
            }
        }
        Ok(started)
    }

    /// The job that looks for who is due.
    pub(crate) fn job(self: &Arc<Self>) -> Job {
        let hooks = self.clone();
        let run = move |_| match hooks.look(clock::now()) {
            Ok(0) => Ok(Outcome::Done("nothing to send".into())),
            Ok(started) => Ok(Outcome::Done(format!("delivering to {started} receivers"))),
            Err(error) => Err(error.to_string()),
        };
        let every = self.shared.options.look_every;
        Job { name: WEBHOOKS, every, lane: Lane::Upkeep, is_woken: true, run: Box::new(run) }
    }

    /// Lets every thread end after its call.
    pub(crate) fn end(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        for (_, thread) in lock(&self.under_way).drain() {
            if thread.join().is_err() {
                tracing::error!("a webhook's thread ended because of a bug");
            }
        }
    }
}

impl HookServer {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Delivers until nothing is left, something fails, or the hook is gone.
    fn serve(&self, id: u64) {
        while !self.is_stopping() {
            match self.serve_page(id) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(hook = id, %error, "can't serve a webhook now");
                    return;
                }
            }
        }
    }

    /// Delivers a page of events; says whether there may be more.
    fn serve_page(&self, id: u64) -> Result<bool, WebhookError> {
        // Read anew for each page: it may have been removed, renamed or moved by somebody
        // meanwhile.
        let Some(stored) = store::one(self.log.door(), id)? else { return Ok(false) };
        let cursor = stored.hook.cursor;
        let page = self.log.after(cursor, READ_AT_ONCE)?;
        if page.first_kept > cursor + 1 {
            return self.tell_of_loss(&stored, &page);
        }
        let Some(end) = page.events.last().map(|event| event.id) else { return Ok(false) };
        let mut at = cursor;
        let ours = |event: &&Event| event.is_about(&stored.tenant);
        for event in page.events.iter().filter(ours) {
            if self.is_stopping() || !self.deliver(&stored, at, event)? {
                return Ok(false);
            }
            at = event.id;
        }
        // What is of no interest is passed in one step.
        if at < end {
            return store::settle(
                self.log.door(),
                HookPlace { hook: id, cursor: at },
                HookStep::Pass { to: end },
            );
        }
        Ok(true)
    }

    /// Delivers one event; says whether to go on.
    fn deliver(&self, to: &StoredHook, cursor: u64, event: &Event) -> Result<bool, WebhookError> {
        let message = Message::event(to.hook.id, event, &to.secret, clock::now());
        let step = |at| HookStep::Delivered { to: event.id, at };
        self.send(to, cursor, &message, step)
    }

    /// The log forgot events before they could be sent.
    fn tell_of_loss(&self, to: &StoredHook, page: &EventPage) -> Result<bool, WebhookError> {
        let (after, last) = (to.hook.cursor, page.first_kept - 1);
        let lost = (after, last);
        let (id, whose) = (to.hook.id, &to.tenant.named);
        let message = Message::reset(id, whose, lost, &to.secret, clock::now());
        let step = |at| HookStep::Lost { to: last, count: last - after, at };
        self.send(to, after, &message, step)
    }

    fn send(
        &self,
        to: &StoredHook,
        cursor: u64,
        message: &Message,
        done: impl Fn(Micros) -> HookStep,
    ) -> Result<bool, WebhookError> {
        let hook = &to.hook;
        let place = HookPlace { hook: hook.id, cursor };
        let outcome = self.poster.post(&hook.url, message);
        let now = clock::now();
        let result = if outcome.is_ok() { "delivered" } else { "failed" };
        counter!("unspent_engine_webhook_attempts_total", "result" => result).increment(1);
        let Err(error) = outcome else {
            // A crash before this line repeats the message with the same id; the other order would
            // lose it.
            return store::settle(self.log.door(), place, done(now));
        };
        // A failure counts on only while it is about the same event.
        let (attempts, since) = if cursor == hook.cursor {
            (hook.attempts, hook.failing_since.map_or(now, |since| Micros(since.0)))
        } else {
            (0, now)
        };
        let paused = now >= since.later(self.options.give_up_after);
        let pause = pause(attempts, &self.options);
        let next = now.later(pause);
        tracing::debug!(hook = hook.id, error, attempts, "a webhook was not accepted");
        if paused {
            tracing::warn!(hook = hook.id, tenant = hook.tenant, "a webhook is paused");
        }
        store::settle(self.log.door(), place, HookStep::Failed { at: now, next, error, paused })?;
        Ok(false)
    }
}

/// How long to wait after so many failures before this one.
fn pause(attempts: u32, options: &WebhookOptions) -> Duration {
    let factor = 1_u32.checked_shl(attempts.min(31)).unwrap_or(u32::MAX);
    options.first_pause.saturating_mul(factor).min(options.longest_pause)
}
