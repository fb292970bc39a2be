//! One mini-protocol's messages.
//!
//! The library's own clients hold whatever a peer sends until it makes a message, and allow one
//! question at a time. Here a message has a largest size, and questions may be sent ahead.

use pallas_codec::{
    Fragment,
    minicbor::{self, Decoder},
};
use pallas_network::multiplexer::{AgentChannel, MAX_SEGMENT_PAYLOAD_LENGTH};
use unspent_networks::cardano::MAX_BLOCK_BYTES;

/// No message is larger: a block and what wraps it.
const MESSAGE_BYTES: usize = MAX_BLOCK_BYTES + 1024;

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum Failure {
    /// The other side is gone, or too slow.
    Away(String),
    /// What came makes no sense.
    Wrong(String),
    /// It serves another network.
    OtherNetwork(String),
}

impl Failure {
    pub(super) fn away(reason: impl ToString) -> Self {
        Self::Away(reason.to_string())
    }

    pub(super) fn wrong(reason: impl ToString) -> Self {
        Self::Wrong(reason.to_string())
    }
}

/// A conversation in one mini-protocol.
pub(super) struct Talk {
    channel: AgentChannel,
    /// Received and not yet a whole message.
    held: Vec<u8>,
}

impl Talk {
    pub(super) fn new(channel: AgentChannel) -> Self {
        Self { channel, held: Vec::new() }
    }

    pub(super) async fn send<M: Fragment>(&mut self, message: &M) -> Result<(), Failure> {
        let bytes = minicbor::to_vec(message).map_err(Failure::wrong)?;
        for chunk in bytes.chunks(MAX_SEGMENT_PAYLOAD_LENGTH) {
            self.channel.enqueue_chunk(chunk.to_vec()).await.map_err(|_| hung_up())?;
        }
        Ok(())
    }

    /// The next message.
    pub(super) async fn receive<M: Fragment>(&mut self) -> Result<M, Failure> {
        loop {
            if let Some(message) = self.cut()? {
                return Ok(message);
            }
            if self.held.len() > MESSAGE_BYTES {
                return Err(Failure::wrong(format!("a message of over {MESSAGE_BYTES} bytes")));
            }
            let chunk = self.channel.dequeue_chunk().await.map_err(|_| hung_up())?;
            self.held.extend_from_slice(&chunk);
        }
    }

    /// The message that `held` starts with, if it is whole.
    fn cut<M: Fragment>(&mut self) -> Result<Option<M>, Failure> {
        if self.held.is_empty() {
            return Ok(None);
        }
        let mut decoder = Decoder::new(&self.held);
        match decoder.decode() {
            Ok(message) => {
                let length = decoder.position();
                self.held.drain(..length);
                Ok(Some(message))
            }
            Err(error) if error.is_end_of_input() => Ok(None),
            Err(error) => Err(Failure::wrong(error)),
        }
    }
}

fn hung_up() -> Failure {
    Failure::away("it hung up")
}
