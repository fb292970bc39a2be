//! What can go wrong, and what to do about it.

use unspent_model::{Network, Outpoint, TxId, txstore::SlotRefusal};
use unspent_sql::{Failure, OpenError, SqlError};

pub use unspent_model::Kind;

/// Why the store did not do what was asked. Nothing was changed in every case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TxStoreError {
    /// The database said no.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The database could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store was made for another network.
    #[error("this database keeps transactions of {stored}, not of {asked}; nothing was changed")]
    WrongNetwork {
        /// Network of the database.
        stored: Network,
        /// Network asked for.
        asked: Network,
    },
    /// The store is for Bitcoin only.
    #[error("there is no transaction store for {0}: it is for Bitcoin networks")]
    NotBitcoin(Network),
    /// An argument out of its range.
    #[error("{0}; nothing was changed")]
    Argument(String),
    /// Bytes that are no transaction.
    #[error("these bytes are not a transaction: {0}; nothing was changed")]
    NotATransaction(String),
    /// Transactions that should be there are not.
    #[error(
        "{} of the transactions are not in the store{}; nothing was changed",
        .0.len(),
        .0.first().map(|first| format!(", first {}", first.on_bitcoin())).unwrap_or_default()
    )]
    Missing(Vec<TxId>),
    /// The transaction is in no block.
    #[error("transaction {} is in no known block; nothing was changed", .0.on_bitcoin())]
    InNoBlock(TxId),
    /// A transaction that the best chain holds can't lose a conflict.
    #[error(
        "transaction {} is in a block of the best chain and can't lose a conflict; undo the block \
         first; nothing was changed",
        .0.on_bitcoin()
    )]
    IsMined(TxId),
    /// One of its inputs can't be had.
    #[error(
        "transaction {txid} can't win its conflict over {coin}: {why}; nothing was changed",
        txid = .txid.on_bitcoin(),
        coin = .coin.on_bitcoin()
    )]
    CannotWin {
        /// Who asked.
        txid: TxId,
        /// Which output.
        coin: Outpoint,
        /// What stands against it.
        why: SlotRefusal,
    },
    /// It descends from one of its own rivals.
    #[error(
        "transaction {} descends from one of its own rivals; nothing was changed",
        .0.on_bitcoin()
    )]
    OwnRival(TxId),
    /// Others spend its outputs.
    #[error(
        "transaction {} has children in the store; drop them first; nothing was changed",
        .0.on_bitcoin()
    )]
    HasChildren(TxId),
    /// It isn't unmined.
    #[error(
        "transaction {} is not unmined; only unmined ones can be dropped; nothing was changed",
        .0.on_bitcoin()
    )]
    NotUnmined(TxId),
    /// Another block is stored at that height.
    #[error("another block is stored at height {height}; roll it back first; nothing was changed")]
    BlockMismatch {
        /// The height.
        height: u64,
    },
    /// Blocks are missing between.
    #[error(
        "block {got} can't follow block {tip}: the blocks between are missing; nothing was changed"
    )]
    Gap {
        /// Height of the stored tip.
        tip: u64,
        /// Height of the block.
        got: u64,
    },
    /// The block doesn't build on the stored one.
    #[error("block {height} does not build on the stored block below it; roll that back first")]
    WrongParent {
        /// Height of the block.
        height: u64,
    },
    /// What would have to be undone is partly deleted.
    #[error(
        "a reorganisation {depth} blocks deep can't be followed: only {possible} can be undone; \
         nothing was changed; rebuild the store or restore a backup"
    )]
    TooDeep {
        /// How deep it goes.
        depth: u64,
        /// How deep it could go.
        possible: u64,
    },
    /// There is no such block to roll back to.
    #[error("block {height} is not stored; nothing was changed")]
    BlockNotFound {
        /// Its height.
        height: u64,
    },
    /// A block holds again what was settled and deleted.
    #[error(
        "transaction {} was settled and deleted long ago, but a block holds it again; nothing was \
         changed; rebuild the store",
        .0.on_bitcoin()
    )]
    Replayed(TxId),
    /// A block spends what an earlier block of the same chain has spent.
    #[error(
        "a block spends an output that transaction {} already spent in the same chain; nothing \
         was changed",
        .0.on_bitcoin()
    )]
    DoubleSpend(TxId),
    /// A block spends what can't be spent.
    #[error(
        "transaction {txid} of a block spends {coin}, but {why}; nothing was changed",
        txid = .txid.on_bitcoin(),
        coin = .coin.on_bitcoin()
    )]
    BadBlock {
        /// The transaction.
        txid: TxId,
        /// The output.
        coin: Outpoint,
        /// What stands against it.
        why: SlotRefusal,
    },
    /// The store follows blocks, so that its height isn't the caller's to set.
    #[error("this store follows blocks; its height can't be set by hand; nothing was changed")]
    FollowsBlocks,
    /// There is no height to clean at.
    #[error("the store has no tip yet to judge by; nothing was changed")]
    NoTip,
    /// Stored data isn't what it must be.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
}

impl TxStoreError {
    /// What to do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Sql(error) => error.kind(),
            Self::Open(error) => error.kind(),
            Self::Corrupt(_) => Kind::Corrupt,
            Self::WrongNetwork { .. }
            | Self::NotBitcoin(_)
            | Self::Argument(_)
            | Self::NotATransaction(_)
            | Self::Missing(_)
            | Self::InNoBlock(_)
            | Self::IsMined(_)
            | Self::CannotWin { .. }
            | Self::OwnRival(_)
            | Self::HasChildren(_)
            | Self::NotUnmined(_)
            | Self::BlockMismatch { .. }
            | Self::Gap { .. }
            | Self::WrongParent { .. }
            | Self::TooDeep { .. }
            | Self::BlockNotFound { .. }
            | Self::Replayed(_)
            | Self::DoubleSpend(_)
            | Self::BadBlock { .. }
            | Self::FollowsBlocks
            | Self::NoTip => Kind::Refused,
        }
    }
}

impl Failure for TxStoreError {
    fn sql(&self) -> Option<&SqlError> {
        if let Self::Sql(error) = self { Some(error) } else { None }
    }
}
