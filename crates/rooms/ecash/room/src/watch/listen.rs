//! A thread that listens to one mint.
//!
//! | it is | until | then |
//! |---|---|---|
//! | idle | somebody wants to be told of something | connects |
//! | connecting | the mint picks up, or not | subscribes to all; or waits, longer each time, and tries again |
//! | listening | the connection ends or is silent for too long | connects again |
//!
//! Invariant: a subject is woken each time its subscription is granted, since anything may have
//! happened while nobody listened. What a notice says isn't read: it wakes, and the look decides.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex},
    time::Duration,
};

use cashu::mint_url::MintUrl;
use crossbeam_channel::Sender;
use unspent_engine::{error::StartError, room::plug::spawn};
use unspent_source::wakeup::{Wakeup, lock};

use super::{
    MintWatch, PaymentWake, WakeCause, WatchKind,
    pace::retry_after,
    socket::{Socket, SocketNews},
};

/// Subscriptions on one connection; what is beyond them is asked about instead.
const MOST_SUBSCRIPTIONS: usize = 500;
/// An idle thread looks so often whether it should end, besides being woken for it.
const IDLE: Duration = Duration::from_secs(60);

/// How a listener behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenerOptions {
    /// To pick up, and to take what is sent.
    pub deadline: Duration,
    /// A silence is broken after this.
    pub ping_every: Duration,
    /// A connection that is silent for so long is dead.
    pub dead_after: Duration,
    /// Mints on this machine and in private networks may be called.
    pub allow_private: bool,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            ping_every: Duration::from_secs(20),
            dead_after: Duration::from_secs(60),
            allow_private: false,
        }
    }
}

#[derive(Default)]
struct ListenerState {
    watches: BTreeMap<String, MintWatch>,
    /// Subjects of which the mint tells now.
    told: BTreeMap<String, MintWatch>,
    /// Why nobody listens.
    trouble: Option<String>,
}

struct ListenerThread {
    mint: MintUrl,
    /// Of what this mint gives notice at all.
    kinds: Vec<WatchKind>,
    options: ListenerOptions,
    wakes: Sender<PaymentWake>,
    wanted: Mutex<ListenerState>,
    wakeup: Wakeup,
}

/// Listens to one mint; ends soon after it is dropped.
pub struct MintListener {
    thread: Arc<ListenerThread>,
}

impl MintListener {
    /// Starts to listen, as soon as there is something to be told of. Who is to be looked at is
    /// sent to `wakes`.
    ///
    /// # Errors
    ///
    /// [`StartError::Thread`].
    pub fn start(
        mint: MintUrl,
        kinds: Vec<WatchKind>,
        options: ListenerOptions,
        wakes: Sender<PaymentWake>,
    ) -> Result<Self, StartError> {
        let (wanted, wakeup) = (Mutex::default(), Wakeup::default());
        let thread = Arc::new(ListenerThread { mint, kinds, options, wakes, wanted, wakeup });
        let listening = thread.clone();
        spawn("mint", move || listening.run())?;
        Ok(Self { thread })
    }

    /// From now on tells of these and of nothing else. What the mint gives no notice of is left
    /// out, and so is what is beyond the number of subscriptions that a connection may have.
    pub fn watch(&self, watches: impl IntoIterator<Item = MintWatch>) {
        let known = |watch: &MintWatch| self.thread.kinds.contains(&watch.kind);
        let watches = watches.into_iter().filter(known).take(MOST_SUBSCRIPTIONS);
        let watches = watches.map(|watch| (watch.subject.clone(), watch)).collect();
        let mut wanted = lock(&self.thread.wanted);
        if mem::replace(&mut wanted.watches, watches) != wanted.watches {
            drop(wanted);
            self.thread.wakeup.wake();
        }
    }

    /// Whether the mint tells of this subject now, so that asking can be rare.
    pub fn tells_of(&self, subject: &str) -> bool {
        lock(&self.thread.wanted).told.contains_key(subject)
    }

    /// Why nobody listens, if something is wrong.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.thread.wanted).trouble.clone()
    }
}

impl Drop for MintListener {
    fn drop(&mut self) {
        // Not waited for: it may be connecting to a mint that doesn't pick up.
        self.thread.wakeup.stop();
    }
}

/// What a connection was asked for and told.
#[derive(Default)]
struct Subscriptions {
    /// Subscriptions by their id on this connection.
    subscriptions: BTreeMap<String, MintWatch>,
    /// Requests that wait for an answer.
    asked: BTreeMap<u64, String>,
    next: u64,
}

impl ListenerThread {
    fn run(&self) {
        let mut tries = 0;
        while !self.wakeup.is_stopping() {
            let known = self.wakeup.count();
            if lock(&self.wanted).watches.is_empty() {
                self.wakeup.wait(known, IDLE);
                continue;
            }
            let mut session = Subscriptions::default();
            let ended = Socket::connect(&self.mint, self.options)
                .and_then(|socket| self.listen(socket, &mut session, &mut tries));
            let mut wanted = lock(&self.wanted);
            // Until they are granted again these payments are asked about more often.
            wanted.told.clear();
            wanted.trouble = ended.err();
            if let Some(reason) = &wanted.trouble {
                tries += 1;
                tracing::debug!(mint = %self.mint, reason, tries, "not listening to the mint");
            }
            let pause = wanted.trouble.as_ref().map(|_| retry_after(tries));
            drop(wanted);
            self.wakeup.pause(pause.unwrap_or_default());
        }
    }

    /// Listens until the connection ends, nothing is wanted any more or all ends.
    fn listen(
        &self,
        mut socket: Socket,
        session: &mut Subscriptions,
        tries: &mut u32,
    ) -> Result<(), String> {
        let mut known = None;
        loop {
            let count = self.wakeup.count();
            if self.wakeup.is_stopping() || lock(&self.wanted).watches.is_empty() {
                socket.close();
                return Ok(());
            }
            if known.replace(count) != Some(count) {
                self.subscribe(&mut socket, session)?;
            }
            match socket.hear()? {
                SocketNews::Nothing => {}
                SocketNews::Notice(id) => {
                    self.tell(session.subscriptions.get(&id), WakeCause::Notice)
                }
                SocketNews::Granted(number) => {
                    *tries = 0;
                    let id = session.asked.remove(&number);
                    let watch = id.and_then(|id| session.subscriptions.get(&id));
                    if let Some(watch) = watch {
                        let told = (watch.subject.clone(), watch.clone());
                        let mut wanted = lock(&self.wanted);
                        wanted.told.extend([told]);
                        wanted.trouble = None;
                    }
                    self.tell(watch, WakeCause::Gap);
                }
                // It is asked about instead.
                SocketNews::Refused(number) => {
                    let id = session.asked.remove(&number).unwrap_or_default();
                    tracing::debug!(mint = %self.mint, id, "the mint refuses to give notice");
                }
            }
        }
    }

    /// Makes the subscriptions those that are wanted.
    fn subscribe(&self, socket: &mut Socket, session: &mut Subscriptions) -> Result<(), String> {
        let wanted = lock(&self.wanted).watches.clone();
        let is_wanted = |watch: &MintWatch| wanted.get(&watch.subject) == Some(watch);
        let gone = session.subscriptions.iter().filter(|(_, watch)| !is_wanted(watch));
        let gone: Vec<String> = gone.map(|(id, _)| id.clone()).collect();
        for id in gone {
            if let Some(watch) = session.subscriptions.remove(&id) {
                lock(&self.wanted).told.remove(&watch.subject);
            }
            socket.unsubscribe(&id)?;
        }
        let has = |watch: &&MintWatch| session.subscriptions.values().any(|known| known == *watch);
        let new: Vec<MintWatch> = wanted.values().filter(|watch| !has(watch)).cloned().collect();
        for watch in new {
            // A new id even for the same watch: a late answer about the old one is not about this.
            session.next += 1;
            let id = format!("{}-{}", watch.kind.name(), session.next);
            let number = socket.subscribe(&id, &watch)?;
            session.asked.insert(number, id.clone());
            session.subscriptions.insert(id, watch);
        }
        Ok(())
    }

    fn tell(&self, watch: Option<&MintWatch>, cause: WakeCause) {
        let Some(watch) = watch else { return };
        // Whoever wanted to know is gone; the thread ends soon.
        let _ = self.wakes.send(PaymentWake { subject: watch.subject.clone(), cause });
    }
}
