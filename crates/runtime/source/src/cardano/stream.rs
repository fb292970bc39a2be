//! Chain-sync as a stream of events.
//!
//! Questions are sent ahead, so that catching up isn't one round trip per block. Between nodes
//! announced headers gather until the node has nothing more to say or enough are there; then their
//! blocks are fetched in one range. Invariant: fewer answers are ever on their way than the
//! connection holds for one mini-protocol (100), so that blocks are never stuck behind headers.

use std::time::Duration;

use pallas_codec::Fragment;
use pallas_network::miniprotocols::{
    Point as Wire,
    blockfetch::Message as Fetch,
    chainsync::{BlockContent, HeaderContent, Message, Tip},
    keepalive,
};
use tokio::time::sleep;
use unspent_model::Network;
use unspent_networks::cardano::head::{Head, block_head, read_header};

use super::{
    line::Outbox,
    session::{Kind, REPLY_DEADLINE, Session, within},
    wire::{Failure, Talk},
};

/// Questions sent ahead.
const ASKED_AHEAD: usize = 50;
/// More are sent when fewer than this are open.
const ASK_AGAIN: usize = 25;
/// Blocks fetched as one range.
const RANGE: usize = 50;
/// A peer is asked for a sign of life this often.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);

/// What happens on the chain.
pub(super) enum StreamEvent {
    /// The reader stands here; `None` when the node knows none of the points.
    Standing(Option<Wire>, Tip),
    /// The next block.
    Forward { bytes: Vec<u8>, head: Head, tip: Tip },
    /// Back to a point.
    Backward(Wire, Tip),
    /// Nothing more for now.
    AtTip,
}

/// Tells what happens from the intersection on, until the connection breaks.
pub(super) async fn run(
    session: Session,
    network: Network,
    outbox: &Outbox,
) -> Result<(), Failure> {
    let Session { chain, kind, plexer: _plexer } = session;
    let ask = HeaderStream { talk: chain, open: 0, is_waiting: false };
    match kind {
        Kind::Local => whole_blocks(ask, network, outbox).await,
        Kind::NodeToNode { blocks, keepalive } => {
            tokio::select! {
                ended = headers(ask, blocks, network, outbox) => ended,
                dead = stay_alive(keepalive) => dead,
            }
        }
    }
}

/// The questions of chain-sync.
struct HeaderStream {
    talk: Talk,
    /// Not answered yet.
    open: usize,
    /// The node has said that it has nothing more.
    is_waiting: bool,
}

/// One answer.
enum News<C> {
    Forward(C, Tip),
    Backward(Wire, Tip),
    Nothing,
}

impl HeaderStream {
    async fn news<C>(&mut self) -> Result<News<C>, Failure>
    where
        Message<C>: Fragment,
    {
        if self.open < ASK_AGAIN {
            while self.open < ASKED_AHEAD {
                self.talk.send(&Message::<C>::RequestNext).await?;
                self.open += 1;
            }
        }
        let answer = self.talk.receive::<Message<C>>();
        // At the tip nobody knows when the next block comes.
        let answer = match self.is_waiting {
            true => answer.await?,
            false => within(REPLY_DEADLINE, "the next block", answer).await?,
        };
        let news = match answer {
            Message::AwaitReply if !self.is_waiting => {
                // This is no answer yet: the node owes one for the same question, which stays open.
                self.is_waiting = true;
                return Ok(News::Nothing);
            }
            Message::RollForward(content, tip) => News::Forward(content, tip),
            Message::RollBackward(point, tip) => News::Backward(point, tip),
            Message::AwaitReply
            | Message::RequestNext
            | Message::FindIntersect(_)
            | Message::IntersectFound(..)
            | Message::IntersectNotFound(_)
            | Message::Done => return Err(Failure::wrong("no answer to the query for news")),
        };
        self.is_waiting = false;
        self.open -= 1;
        Ok(news)
    }
}

async fn whole_blocks(
    mut ask: HeaderStream,
    network: Network,
    outbox: &Outbox,
) -> Result<(), Failure> {
    loop {
        let event = match ask.news::<BlockContent>().await? {
            News::Forward(BlockContent(bytes), tip) => {
                let head = block_head(network, &bytes).map_err(Failure::wrong)?;
                StreamEvent::Forward { bytes, head, tip }
            }
            News::Backward(point, tip) => StreamEvent::Backward(point, tip),
            News::Nothing => StreamEvent::AtTip,
        };
        outbox.put(event).await?;
    }
}

async fn headers(
    mut ask: HeaderStream,
    mut blocks: Talk,
    network: Network,
    outbox: &Outbox,
) -> Result<(), Failure> {
    let mut announced: Vec<(Head, Tip)> = Vec::new();
    loop {
        match ask.news::<HeaderContent>().await? {
            News::Forward(header, tip) => {
                announced.push((head_of(network, &header)?, tip));
                if announced.len() >= RANGE {
                    fetch(&mut blocks, &mut announced, network, outbox).await?;
                }
            }
            News::Backward(point, tip) => {
                let known = announced.iter().rposition(|(head, _)| wire(head) == point);
                announced.truncate(known.map_or(0, |at| at + 1));
                // Otherwise only headers go that were never handed out, and the reader need not
                // hear of them.
                if known.is_none() {
                    outbox.put(StreamEvent::Backward(point, tip)).await?;
                }
            }
            News::Nothing => {
                fetch(&mut blocks, &mut announced, network, outbox).await?;
                outbox.put(StreamEvent::AtTip).await?;
            }
        }
    }
}

/// Headers name Byron's two kinds of blocks apart from the era.
fn head_of(network: Network, header: &HeaderContent) -> Result<Head, Failure> {
    let era = match (header.variant, header.byron_prefix) {
        (0, Some((kind, _))) => u64::from(kind),
        (0, None) => return Err(Failure::wrong("a Byron header of unknown kind")),
        // Blocks count Byron's boundary blocks as an era of their own, headers don't.
        (later, _) => u64::from(later) + 1,
    };
    read_header(network, era, &header.cbor).map_err(Failure::wrong)
}

fn wire(head: &Head) -> Wire {
    Wire::Specific(head.point.slot, head.point.hash.0.to_vec())
}

/// Fetches the announced blocks; each must be the one announced.
async fn fetch(
    blocks: &mut Talk,
    announced: &mut Vec<(Head, Tip)>,
    network: Network,
    outbox: &Outbox,
) -> Result<(), Failure> {
    let (Some((first, _)), Some((last, _))) = (announced.first(), announced.last()) else {
        return Ok(());
    };
    blocks.send(&Fetch::RequestRange { range: (wire(first), wire(last)) }).await?;
    match within(REPLY_DEADLINE, "a range of blocks", blocks.receive()).await? {
        Fetch::StartBatch => {}
        Fetch::NoBlocks => return Err(Failure::away("it has left the branch it announced")),
        Fetch::RequestRange { .. } | Fetch::ClientDone | Fetch::Block { .. } | Fetch::BatchDone => {
            return Err(Failure::wrong("no answer to the query for blocks"));
        }
    }
    for (head, tip) in announced.drain(..) {
        let Fetch::Block { body: bytes } =
            within(REPLY_DEADLINE, "a block", blocks.receive()).await?
        else {
            return Err(Failure::wrong("fewer blocks than announced"));
        };
        if block_head(network, &bytes).map_err(Failure::wrong)? != head {
            return Err(Failure::wrong("not the block announced"));
        }
        outbox.put(StreamEvent::Forward { bytes, head, tip }).await?;
    }
    match within(REPLY_DEADLINE, "the end of a range", blocks.receive()).await? {
        Fetch::BatchDone => Ok(()),
        Fetch::RequestRange { .. }
        | Fetch::ClientDone
        | Fetch::StartBatch
        | Fetch::NoBlocks
        | Fetch::Block { .. } => Err(Failure::wrong("more blocks than announced")),
    }
}

/// Ends only when the peer shows no sign of life.
async fn stay_alive(mut client: keepalive::Client) -> Result<(), Failure> {
    loop {
        sleep(KEEPALIVE_EVERY).await;
        let sign = async { client.keepalive_roundtrip().await.map_err(Failure::away) };
        within(REPLY_DEADLINE, "a sign of life", sign).await?;
    }
}
