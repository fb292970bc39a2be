//! The thread that async code is confined to, and the bounded way out of it.
//!
//! Each connection has a thread with a small runtime. Events leave through a channel; what waits in
//! it is bounded by bytes, since the writer needs a permit for each event that the reader returns.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use pallas_network::miniprotocols::Point as Wire;
use tokio::{
    runtime::Builder,
    sync::{Semaphore, oneshot},
};

use super::{
    Shared,
    session::Session,
    stream::{self, StreamEvent},
    wire::Failure,
};
use crate::SourceError;

/// What may wait for the reader, in KiB.
const WAITING_KIB: usize = 32 * 1024;
/// Longer than all deadlines of opening together.
const OPEN_DEADLINE: Duration = Duration::from_secs(80);

type Sent = (Result<StreamEvent, Failure>, u32);

/// The writer's end.
pub(super) struct Outbox {
    events: mpsc::Sender<Sent>,
    room: Arc<Semaphore>,
}

impl Outbox {
    /// Passes an event on when there is room for it.
    pub(super) async fn put(&self, event: StreamEvent) -> Result<(), Failure> {
        let bytes = match &event {
            StreamEvent::Forward { bytes, .. } => bytes.len(),
            StreamEvent::Standing(..) | StreamEvent::Backward(..) | StreamEvent::AtTip => 0,
        };
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
        let permit = self.room.acquire_many(kib).await.map_err(Failure::away)?;
        permit.forget();
        self.events.send((Ok(event), kib)).map_err(|_| Failure::away("the reader is gone"))
    }
}

/// A connection. Dropping it hangs up.
pub(super) struct Line {
    shared: Arc<Shared>,
    events: mpsc::Receiver<Sent>,
    room: Arc<Semaphore>,
    _hang_up: oneshot::Sender<()>,
}

impl Line {
    /// Connects and shakes hands, no more.
    pub(super) fn greet(shared: Arc<Shared>) -> Result<(), SourceError> {
        let line = Self::start(shared, None)?;
        line.wait(OPEN_DEADLINE).map(drop)
    }

    /// Connects and stands at the first of `points` that the node has; then events follow.
    pub(super) fn open(shared: Arc<Shared>, points: Vec<Wire>) -> Result<Self, SourceError> {
        Self::start(shared, Some(points))
    }

    fn start(shared: Arc<Shared>, points: Option<Vec<Wire>>) -> Result<Self, SourceError> {
        let (events, inbox) = mpsc::channel();
        let room = Arc::new(Semaphore::new(WAITING_KIB));
        let (hang_up, hung_up) = oneshot::channel();
        let outbox = Outbox { events, room: room.clone() };
        let node = shared.clone();
        let run = move || run(&node, points, &outbox, hung_up);
        let thread = thread::Builder::new().name("cardano".into()).spawn(run);
        thread.map_err(|error| shared.unreachable(error))?;
        Ok(Self { shared, events: inbox, room, _hang_up: hang_up })
    }

    /// The next event, when it comes in time.
    pub(super) fn wait(&self, time: Duration) -> Result<Option<StreamEvent>, SourceError> {
        match self.events.recv_timeout(time) {
            Ok((event, kib)) => {
                self.room.add_permits(kib as usize);
                event.map(Some).map_err(|failure| self.explain(failure))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.shared.unreachable("it hung up")),
        }
    }

    fn explain(&self, failure: Failure) -> SourceError {
        match failure {
            Failure::Away(reason) => self.shared.unreachable(reason),
            Failure::Wrong(reason) => self.shared.malformed(reason),
            Failure::OtherNetwork(found) => {
                let (name, wanted) = (self.shared.name.clone(), self.shared.network);
                SourceError::WrongNetwork { name, found, wanted }
            }
        }
    }
}

fn run(
    shared: &Shared,
    points: Option<Vec<Wire>>,
    outbox: &Outbox,
    hung_up: oneshot::Receiver<()>,
) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            // Nobody listens any more when this fails.
            let _ = outbox.events.send((Err(Failure::away(error)), 0));
            return;
        }
    };
    runtime.block_on(async {
        tokio::select! {
            _ = hung_up => {}
            ended = talk(shared, points, outbox) => {
                if let Err(failure) = ended {
                    let _ = outbox.events.send((Err(failure), 0));
                }
            }
        }
    });
}

async fn talk(shared: &Shared, points: Option<Vec<Wire>>, outbox: &Outbox) -> Result<(), Failure> {
    let mut session = Session::open(&shared.address, shared.magic()).await?;
    let Some(points) = points else { return outbox.put(StreamEvent::AtTip).await };
    let (point, tip) = session.intersect(points).await?;
    outbox.put(StreamEvent::Standing(point, tip)).await?;
    stream::run(session, shared.network, outbox).await
}
