//! Hears from the node which transactions come into its mempool (ZMQ).
//!
//! Only names are taken from the messages: each transaction is asked for, so that a forged message
//! costs a question and nothing else. What was heard is handed out once; when something may have
//! been missed, that is said, and the whole mempool is read.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use bitcoin::{Transaction, Txid, consensus::encode::deserialize, hashes::Hash as _};
use tokio::{runtime::Builder, sync::oneshot, time};
use zeromq::{SocketRecv, ZmqMessage};

use super::{
    rpc::Rpc,
    waker::{CONNECT_DEADLINE, HASH_BYTES, RETRY, connect, offered},
};
use crate::{HeardTxs, wakeup::lock};

/// What tells of transactions, the most exact first: `sequence` leaves out those of blocks.
const TOPICS: [&str; 3] = ["sequence", "hashtx", "rawtx"];
/// In a `sequence` message, after the hash: a transaction came into the mempool.
const ADDED: u8 = b'A';
/// Names kept until somebody asks; more, and the whole mempool is read instead.
const MOST_KEPT: usize = 20_000;

/// Collects names. Dropping it ends the thread.
pub(super) struct TxBell {
    heard: Arc<Mutex<Names>>,
    _ended: oneshot::Sender<()>,
}

#[derive(Default)]
struct Names {
    /// Grows with every message.
    count: u64,
    txids: Vec<Txid>,
    /// Something may have been missed since somebody asked.
    has_gap: bool,
    is_listening: bool,
}

impl Names {
    fn gap(&mut self, is_listening: bool) {
        self.txids.clear();
        (self.has_gap, self.is_listening) = (true, is_listening);
        self.count += 1;
    }

    /// Whatever comes shows that the node publishes here: until then it is asked, as others are.
    fn take_in(&mut self, message: &ZmqMessage) {
        self.is_listening = true;
        if let Some(txid) = added(message) {
            self.hear(txid);
        }
    }

    fn hear(&mut self, txid: Txid) {
        self.count += 1;
        if self.has_gap {
            return;
        }
        if self.txids.len() >= MOST_KEPT {
            return self.gap(true);
        }
        self.txids.push(txid);
    }
}

impl TxBell {
    /// Listens where the operator says, or where the node says that it publishes; `None` when it
    /// doesn't, or can't be asked.
    pub(super) fn listen_to(rpc: &Rpc, configured: Option<&str>) -> Option<Self> {
        // An operator's address may be for blocks alone; the node knows where else it publishes.
        let (mut address, topics) = offered(rpc, &TOPICS)?;
        let port = |address: &str| address.rsplit_once(':').map(|(_, port)| port.to_owned());
        if let Some(configured) = configured.filter(|told| port(told) == port(&address)) {
            configured.clone_into(&mut address);
        }
        let heard = Arc::new(Mutex::new(Names::default()));
        let (end, ended) = oneshot::channel();
        let collecting = heard.clone();
        let run = move || listen(&address, &topics, &collecting, ended);
        thread::Builder::new().name("zmq-tx".into()).spawn(run).ok()?;
        Some(Self { heard, _ended: end })
    }

    /// Grows whenever there is something to ask for.
    pub(super) fn count(&self) -> u64 {
        lock(&self.heard).count
    }

    /// What was heard since the last time.
    pub(super) fn take(&self) -> HeardTxs {
        let mut heard = lock(&self.heard);
        let txids = std::mem::take(&mut heard.txids);
        let is_whole = !std::mem::take(&mut heard.has_gap);
        if heard.is_listening && is_whole { HeardTxs::These(txids) } else { HeardTxs::Unknown }
    }
}

fn listen(address: &str, topics: &[&str], heard: &Mutex<Names>, ended: oneshot::Receiver<()>) {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        tokio::select! {
            _ = ended => {}
            () = listen_for_ever(address, topics, heard) => {}
        }
    });
}

async fn listen_for_ever(address: &str, topics: &[&str], heard: &Mutex<Names>) {
    loop {
        let connected = time::timeout(CONNECT_DEADLINE, connect(address, topics)).await;
        if let Ok(Some(mut socket)) = connected {
            // The subscription takes a moment to reach the node; what came before it is read whole.
            time::sleep(SETTLES).await;
            lock(heard).gap(false);
            while let Ok(message) = socket.recv().await {
                lock(heard).take_in(&message);
            }
            lock(heard).gap(false);
        }
        time::sleep(RETRY).await;
    }
}

/// How long a subscription takes at most to count.
const SETTLES: Duration = Duration::from_millis(300);

/// The transaction that a message says has come.
fn added(message: &ZmqMessage) -> Option<Txid> {
    let (topic, body) = (message.get(0)?, message.get(1)?);
    let named = |bytes: &[u8]| {
        let mut hash: [u8; HASH_BYTES] = bytes.get(..HASH_BYTES)?.try_into().ok()?;
        // Published as people write it.
        hash.reverse();
        Some(Txid::from_byte_array(hash))
    };
    match topic.as_ref() {
        b"sequence" if body.get(HASH_BYTES) == Some(&ADDED) => named(body),
        b"hashtx" => named(body),
        b"rawtx" => deserialize::<Transaction>(body).ok().map(|tx| tx.compute_txid()),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn message(topic: &str, body: Vec<u8>) -> ZmqMessage {
        let mut message = ZmqMessage::from(topic);
        message.push_back(body.into());
        message
    }

    #[test]
    fn names_are_read_from_every_topic_and_nonsense_is_passed_over() {
        let shown = "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b";
        let hash = hex::decode(shown).unwrap();
        let sequence = |label: u8| [&hash[..], &[label], &[0; 8]].concat();
        let name = |topic: &str, body: Vec<u8>| added(&message(topic, body)).map(|t| t.to_string());
        assert_eq!(name("hashtx", hash.clone()).as_deref(), Some(shown));
        assert_eq!(name("sequence", sequence(b'A')).as_deref(), Some(shown));
        let genesis = bitcoin::constants::genesis_block(bitcoin::Network::Bitcoin);
        let raw = bitcoin::consensus::serialize(&genesis.txdata[0]);
        assert_eq!(name("rawtx", raw).as_deref(), Some(shown));
        for label in [b'R', b'C', b'D'] {
            assert_eq!(name("sequence", sequence(label)), None);
        }
        for topic in ["hashtx", "sequence", "rawtx", "hashblock"] {
            assert_eq!(name(topic, vec![1; 31]), None);
        }
        assert_eq!(added(&ZmqMessage::from("hashtx")), None);
    }

    #[test]
    fn what_may_have_been_missed_is_said_once() {
        let names = Arc::new(Mutex::new(Names::default()));
        let bell = TxBell { heard: names.clone(), _ended: oneshot::channel().0 };
        assert_eq!(bell.take(), HeardTxs::Unknown, "it doesn't publish yet");
        lock(&names).gap(true);
        assert_eq!(bell.take(), HeardTxs::Unknown);
        assert_eq!(bell.take(), HeardTxs::These(Vec::new()));
        let txid = Txid::from_byte_array([7; 32]);
        let before = bell.count();
        lock(&names).hear(txid);
        assert!(bell.count() > before);
        assert_eq!(bell.take(), HeardTxs::These(vec![txid]));
        for _ in 0..=MOST_KEPT {
            lock(&names).hear(txid);
        }
        assert_eq!(bell.take(), HeardTxs::Unknown, "too many to remember");
        assert_eq!(bell.take(), HeardTxs::These(Vec::new()));
    }
}
