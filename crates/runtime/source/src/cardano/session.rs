//! Connects, shakes hands, finds the intersection.

use std::time::Duration;

use pallas_codec::Fragment;
use pallas_network::{
    miniprotocols::{
        PROTOCOL_N2C_CHAIN_SYNC, PROTOCOL_N2C_HANDSHAKE, PROTOCOL_N2N_BLOCK_FETCH,
        PROTOCOL_N2N_CHAIN_SYNC, PROTOCOL_N2N_HANDSHAKE, PROTOCOL_N2N_KEEP_ALIVE, Point as Wire,
        chainsync::{Message, SkippedContent, Tip},
        handshake::{Message as Handshake, RefuseReason, VersionTable, n2c, n2n},
        keepalive,
    },
    multiplexer::{Bearer, Plexer, RunningPlexer},
};
use tokio::time::timeout;

use super::{
    Address,
    wire::{Failure, Talk},
};

/// A node may take this long to pick up.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// A node may take this long over an answer that it has.
pub(super) const REPLY_DEADLINE: Duration = Duration::from_secs(30);
/// Of a node's own words, no more than this is passed on.
const WORDS: usize = 200;

/// An open connection.
pub(super) struct Session {
    pub(super) chain: Talk,
    pub(super) kind: Kind,
    /// Its tasks end with the runtime.
    pub(super) plexer: RunningPlexer,
}

/// What a connection offers besides chain-sync.
pub(super) enum Kind {
    /// Headers only; blocks are fetched.
    NodeToNode { blocks: Talk, keepalive: keepalive::Client },
    /// Whole blocks.
    Local,
}

/// A promise with a deadline.
pub(super) async fn within<T>(
    time: Duration,
    what: &str,
    promise: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let late = || Failure::away(format!("no answer to {what} in {} s", time.as_secs()));
    timeout(time, promise).await.unwrap_or_else(|_| Err(late()))
}

impl Session {
    /// Connects and shakes hands.
    pub(super) async fn open(address: &Address, magic: u64) -> Result<Self, Failure> {
        let bearer = async {
            match address {
                Address::Tcp(host) => Bearer::connect_tcp(host.as_str()).await,
                Address::Socket(path) => Bearer::connect_unix(path).await,
            }
            .map_err(Failure::away)
        };
        let mut plexer = Plexer::new(within(CONNECT_DEADLINE, "the call", bearer).await?);
        match address {
            Address::Tcp(_) => {
                let greeting = Talk::new(plexer.subscribe_client(PROTOCOL_N2N_HANDSHAKE));
                let chain = Talk::new(plexer.subscribe_client(PROTOCOL_N2N_CHAIN_SYNC));
                let blocks = Talk::new(plexer.subscribe_client(PROTOCOL_N2N_BLOCK_FETCH));
                let keepalive = plexer.subscribe_client(PROTOCOL_N2N_KEEP_ALIVE);
                let keepalive = keepalive::Client::new(keepalive);
                let plexer = plexer.spawn();
                let agreed = shake(greeting, n2n::VersionTable::v7_and_above(magic)).await?;
                if agreed.network_magic != magic {
                    return Err(Failure::OtherNetwork(format!("magic {}", agreed.network_magic)));
                }
                let kind = Kind::NodeToNode { blocks, keepalive };
                Ok(Self { chain, kind, plexer })
            }
            Address::Socket(_) => {
                let greeting = Talk::new(plexer.subscribe_client(PROTOCOL_N2C_HANDSHAKE));
                let chain = Talk::new(plexer.subscribe_client(PROTOCOL_N2C_CHAIN_SYNC));
                let plexer = plexer.spawn();
                shake(greeting, n2c::VersionTable::v10_and_above(magic)).await?;
                Ok(Self { chain, kind: Kind::Local, plexer })
            }
        }
    }

    /// Stands at the first of `points` that the node has on its chain, the origin among them.
    pub(super) async fn intersect(
        &mut self,
        points: Vec<Wire>,
    ) -> Result<(Option<Wire>, Tip), Failure> {
        // No content comes with these messages.
        let question: Message<SkippedContent> = Message::FindIntersect(points);
        self.chain.send(&question).await?;
        let answer = self.chain.receive::<Message<SkippedContent>>();
        match within(REPLY_DEADLINE, "the intersection", answer).await? {
            Message::IntersectFound(point, tip) => Ok((Some(point), tip)),
            Message::IntersectNotFound(tip) => Ok((None, tip)),
            Message::RequestNext
            | Message::AwaitReply
            | Message::RollForward(..)
            | Message::RollBackward(..)
            | Message::FindIntersect(_)
            | Message::Done => Err(Failure::wrong("no answer to the query for a point")),
        }
    }
}

/// Agrees on a version; the network is part of what is agreed.
async fn shake<D>(mut talk: Talk, versions: VersionTable<D>) -> Result<D, Failure>
where
    D: std::fmt::Debug + Clone,
    Handshake<D>: Fragment,
{
    talk.send(&Handshake::Propose(versions)).await?;
    match within(REPLY_DEADLINE, "the greeting", talk.receive::<Handshake<D>>()).await? {
        Handshake::Accept(_, data) => Ok(data),
        Handshake::Refuse(RefuseReason::Refused(_, words)) => {
            let words: String = words.chars().filter(|c| !c.is_control()).take(WORDS).collect();
            Err(Failure::OtherNetwork(format!("another network ({words})")))
        }
        Handshake::Refuse(_) => Err(Failure::wrong("it supports no protocol version that we know")),
        Handshake::Propose(_) | Handshake::QueryReply(_) => {
            Err(Failure::wrong("no answer to the greeting"))
        }
    }
}
