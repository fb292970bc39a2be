//! Where blocks come from: one port, and what stands behind it.
//!
//! | module | keeps |
//! |---|---|
//! | [`core`] | Bitcoin nodes, over JSON-RPC and ZMQ |
//! | [`cardano`] | Cardano nodes, between nodes or over the local socket |
//! | [`folder`] | folders of block files that are followed |
//! | [`sim`] | the simulated network |
//! | [`files`] | files of blocks: finding, cataloguing, reading |
//! | [`dates`] | which height a date leads to |
//! | [`roots`] | who may vouch for the other end of a TLS connection |
//! | [`wakeup`] | waking and stopping threads that wait |
//!
//! A [`Source`] is one reader's place on a chain. It is set with [`Source::intersect`] and then
//! tells, one step at a time, what leads from there to the best chain: forward by a block, or
//! backward to a point when the chain has left the reader's place. Each room has a `Source` of its
//! own, made by an [`Origin`]; so none waits for another. A [`Node`] is asked about transactions
//! that are in no block yet.
//!
//! Invariant: the blocks that a `Source` gives form one chain: each is the child of the reader's
//! place, which moves with every step.

pub mod cardano;
pub mod core;
pub mod dates;
pub mod files;
pub mod folder;
pub mod roots;
pub mod sim;
pub mod wakeup;

use std::{sync::Arc, time::Duration};

use bitcoin::{Transaction, Txid};
use unspent_model::{BlockHash, Network, Point};

use self::sim::SimNetwork;
use crate::files::Place;

/// A block as its source gives it.
#[derive(Clone, Debug)]
pub struct RawBlock {
    /// Its place.
    pub point: Point,
    /// The block it builds on.
    pub parent: Option<BlockHash>,
    /// The block itself.
    pub bytes: Arc<[u8]>,
    /// Where it lies, if in a file; for errors.
    pub place: Option<Place>,
}

impl RawBlock {
    /// A block that lies in no file.
    pub fn new(point: Point, parent: Option<BlockHash>, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { point, parent, bytes: bytes.into(), place: None }
    }
}

/// What leads from the reader's place towards the best chain.
#[derive(Clone, Debug)]
pub enum Step {
    /// The next block.
    Forward(RawBlock),
    /// The chain has left the reader's place: this point is still on it; `None` is the origin.
    Backward(Option<Point>),
    /// The reader stands at the tip; nothing came while it waited.
    Nothing,
}

/// One reader's place on a chain.
pub trait Source: Send {
    /// Goes to the first of `points`, newest first, that is on the best chain. `None` means that
    /// none is and the reader stands at the origin, before the first block.
    ///
    /// # Errors
    ///
    /// [`SourceError`]; the place is then unknown until the next call succeeds.
    fn intersect(&mut self, points: &[Point]) -> Result<Option<Point>, SourceError>;

    /// The next step. At the tip it waits for news, at most for `patience`.
    ///
    /// # Errors
    ///
    /// [`SourceError`]; after one that can be tried again the caller intersects anew.
    fn next(&mut self, patience: Duration) -> Result<Step, SourceError>;

    /// Goes on to the child of the place, which the caller has from elsewhere, without reading it.
    /// `false` when it can't; the place stays then.
    fn skip(&mut self, _child: Point) -> bool {
        false
    }

    /// How many blocks certainly follow the place, where that is known and heights don't tell.
    fn remaining(&self) -> Option<u64> {
        None
    }

    /// The best chain's tip as last heard of.
    fn tip(&self) -> Option<Point>;

    /// The block of the best chain at a height, where the source can tell without reading all
    /// blocks below. `None` when it can't or has no such block. The place stays.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when it can't be asked.
    fn point_at(&mut self, _height: u64) -> Result<Option<Point>, SourceError> {
        Ok(None)
    }

    /// The time, in seconds, that the block of the best chain at a height names; `None` as for
    /// [`Source::point_at`]. The place stays.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when it can't be asked.
    fn time_at(&mut self, _height: u64) -> Result<Option<u64>, SourceError> {
        Ok(None)
    }
}

/// What makes sources: one node, one folder, one simulated network.
pub trait Origin: Send + Sync {
    /// The chain it serves.
    fn network(&self) -> Network;

    /// What to call it in status and logs; holds no secret.
    fn name(&self) -> String;

    /// A new reader.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when it can't be reached.
    fn open(&self) -> Result<Box<dyn Source>, SourceError>;

    /// The node behind it, where there is one that has a mempool.
    fn node(&self) -> Option<Arc<dyn Node>>;

    /// The simulated network, where it is one: others can't be told what to do.
    fn simulated(&self) -> Option<SimNetwork> {
        None
    }
}

/// What a node says to a transaction that is handed to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has taken the transaction, or had it already.
    Accepted,
    /// It won't have it, and says why.
    Rejected {
        /// The node's words.
        reason: String,
    },
}

/// A node's mempool, by name, with the tip it was read at.
#[derive(Clone, Debug)]
pub struct MempoolView {
    /// The node's tip before and after the reading, when they are the same.
    pub tip: Option<BlockHash>,
    /// What is in it.
    pub txids: Vec<Txid>,
}

/// What a node told of its mempool by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeardTxs {
    /// These came in since the last time, and no others. Some may have left again.
    These(Vec<Txid>),
    /// It doesn't tell, or something may have been missed: the whole mempool has to be read.
    Unknown,
}

/// A transaction in a node's mempool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MempoolTx {
    /// Its name.
    pub txid: Txid,
    /// In satoshis.
    pub fee: u64,
    /// In virtual bytes.
    pub virtual_size: u64,
    /// Transactions of the mempool that it spends from.
    pub parents: Vec<Txid>,
}

/// What a node expects of fees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeeEstimate {
    /// At this rate a confirmation is expected in time.
    Rate {
        /// In satoshis per thousand virtual bytes.
        sat_per_kvb: u64,
        /// The blocks that it is good for: nodes have no estimate for every number.
        blocks: u64,
    },
    /// It can't say.
    Unknown {
        /// Its words.
        reason: String,
    },
}

/// A node that has a mempool and can pass on transactions.
pub trait Node: Send + Sync {
    /// What is in the mempool.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when the node can't be asked.
    fn mempool(&self) -> Result<MempoolView, SourceError>;

    /// A number that grows whenever the node tells of something new in its mempool.
    fn news(&self) -> u64 {
        0
    }

    /// What it has told since the last time.
    fn heard(&self) -> HeardTxs {
        HeardTxs::Unknown
    }

    /// Transactions of the mempool; those that have left it meanwhile are missing from the answer.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when the node can't be asked.
    fn transactions(&self, txids: &[Txid]) -> Result<Vec<Transaction>, SourceError>;

    /// Hands a transaction over.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when the node can't be asked; a refusal is an [`Answer`].
    fn broadcast(&self, tx: &Transaction) -> Result<Answer, SourceError>;

    /// What it would say to a transaction, without taking it. `None`: it can't be asked that.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when the node can't be asked.
    fn test(&self, _tx: &Transaction) -> Result<Option<Answer>, SourceError> {
        Ok(None)
    }

    /// The fee rate at which it expects a confirmation within so many blocks.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when the node can't be asked.
    fn fee_rate(&self, _blocks: u16) -> Result<FeeEstimate, SourceError> {
        Ok(FeeEstimate::Unknown { reason: "it gives no estimates".into() })
    }

    /// A transaction of the mempool and all that is unconfirmed below it. Empty: it isn't there, or
    /// the node can't tell.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when the node can't be asked.
    fn with_ancestors(&self, _txid: Txid) -> Result<Vec<MempoolTx>, SourceError> {
        Ok(Vec::new())
    }
}

/// Why a source gave nothing. The rooms are unchanged in every case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It can't be reached, or hung up.
    #[error("{name} can't be reached: {reason}; it will be tried again")]
    Unreachable {
        /// The source as people are told of it, without its password.
        name: String,
        /// What went wrong.
        reason: String,
    },
    /// It refuses us.
    #[error("{name} refuses access: {reason}; check the cookie file or the password")]
    Denied {
        /// The source as people are told of it, without its password.
        name: String,
        /// What it said.
        reason: String,
    },
    /// It serves another chain.
    #[error("{name} serves {found}, not {wanted}; point the daemon at the right node")]
    WrongNetwork {
        /// The source as people are told of it, without its password.
        name: String,
        /// The chain it serves.
        found: String,
        /// The chain wanted.
        wanted: Network,
    },
    /// It has no such block any more: a pruned node.
    #[error(
        "{name} no longer has block {height}; use a node that keeps it, or start the room at a \
         later point"
    )]
    Missing {
        /// The source as people are told of it, without its password.
        name: String,
        /// The height it can't serve.
        height: u64,
    },
    /// What it gave can't be right.
    #[error("{name} gave invalid data: {reason}")]
    Malformed {
        /// The source as people are told of it, without its password.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

impl SourceError {
    /// Trying again may help.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}
