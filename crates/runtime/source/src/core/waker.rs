//! Wakes waiting readers when the node publishes a block.
//!
//! A thread of its own listens (ZMQ) and counts. Only the news that there is news is taken from it;
//! the blocks themselves are asked for, and readers go on asking now and then, so that a lost
//! message costs time and nothing else.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use serde_json::json;
use tokio::{runtime::Builder, sync::oneshot, time};
use zeromq::{Socket, SocketRecv, SubSocket, ZmqMessage};

use super::{rpc::Rpc, shapes::Publication};

/// What tells of blocks, the smallest message first.
const TOPICS: [&str; 3] = ["hashblock", "sequence", "rawblock"];
/// After a failure it listens anew this much later.
pub(super) const RETRY: Duration = Duration::from_secs(2);
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// In a `sequence` message, after the hash: a block was connected or disconnected.
const BLOCK_LABELS: [u8; 2] = [b'C', b'D'];
pub(super) const HASH_BYTES: usize = 32;

/// Counts the blocks that were heard of. Dropping it ends the thread.
pub(super) struct BlockWaker {
    heard: Arc<Heard>,
    _ended: oneshot::Sender<()>,
}

#[derive(Default)]
struct Heard {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Heard {
    fn count_one(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }
}

impl BlockWaker {
    /// Listens where the operator says, or where the node says that it publishes; `None` when it
    /// doesn't, or can't be asked.
    pub(super) fn listen_to(rpc: &Rpc, configured: Option<&str>) -> Option<Self> {
        let (address, topics) = match configured {
            Some(address) => (address.to_owned(), TOPICS.to_vec()),
            None => offered(rpc, &TOPICS)?,
        };
        let heard = Arc::new(Heard::default());
        let (end, ended) = oneshot::channel();
        let counting = heard.clone();
        let run = move || listen(&address, &topics, &counting, ended);
        thread::Builder::new().name("zmq".into()).spawn(run).ok()?;
        Some(Self { heard, _ended: end })
    }

    /// How often it has rung.
    pub(super) fn count(&self) -> u64 {
        *self.heard.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it has rung more often than `heard`, at most for `time`.
    pub(super) fn wait(&self, heard: u64, time: Duration) {
        let count = self.heard.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.heard.changed.wait_timeout_while(count, time, |count| *count <= heard);
        drop(waited);
    }
}

/// Where the node publishes the first of some topics that it does publish.
pub(super) fn offered(rpc: &Rpc, topics: &[&'static str]) -> Option<(String, Vec<&'static str>)> {
    let offered: Vec<Publication> = rpc.call("getzmqnotifications", json!([])).ok()?;
    topics.iter().copied().find_map(|topic| {
        let publishes = |offer: &&Publication| offer.topic.strip_prefix("pub") == Some(topic);
        let offer = offered.iter().find(publishes)?;
        let port = offer.address.strip_prefix("tcp://")?.rsplit_once(':')?.1;
        // Core tells what it is bound to, which isn't always what somebody else can call.
        let everywhere = ["tcp://0.0.0.0:", "tcp://*:", "tcp://[::]:"];
        let address = if everywhere.iter().any(|start| offer.address.starts_with(start)) {
            format!("tcp://{}:{port}", rpc.host())
        } else {
            offer.address.clone()
        };
        Some((address, vec![topic]))
    })
}

fn listen(address: &str, topics: &[&str], heard: &Heard, ended: oneshot::Receiver<()>) {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        tokio::select! {
            _ = ended => {}
            () = listen_for_ever(address, topics, heard) => {}
        }
    });
}

async fn listen_for_ever(address: &str, topics: &[&str], heard: &Heard) {
    loop {
        if let Ok(Some(mut socket)) =
            time::timeout(CONNECT_DEADLINE, connect(address, topics)).await
        {
            while let Ok(message) = socket.recv().await {
                if tells_of_a_block(&message) {
                    heard.count_one();
                }
            }
            // Something may have been missed.
            heard.count_one();
        }
        time::sleep(RETRY).await;
    }
}

pub(super) async fn connect(address: &str, topics: &[&str]) -> Option<SubSocket> {
    let mut socket = SubSocket::new();
    socket.connect(address).await.ok()?;
    for topic in topics {
        socket.subscribe(topic).await.ok()?;
    }
    Some(socket)
}

fn tells_of_a_block(message: &ZmqMessage) -> bool {
    let is_sequence = message.get(0).is_some_and(|topic| topic.as_ref() == b"sequence");
    let label = message.get(1).and_then(|body| body.get(HASH_BYTES));
    !is_sequence || label.is_some_and(|label| BLOCK_LABELS.contains(label))
}
