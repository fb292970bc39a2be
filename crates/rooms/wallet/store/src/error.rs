//! What can go wrong, and what to do about it.

use bitcoin::{OutPoint, Txid};
use unspent_model::{
    Micros, Network, TxId,
    wallet::{LockId, PlanRefusal, prune::PruneRefusal, select::SelectError},
};
use unspent_sql::{Failure, OpenError, SqlError};

pub use unspent_model::Kind;

/// Why the room did not do what was asked. Nothing was changed in every case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalletError {
    /// The database said no.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The database could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The planner said no.
    #[error("{}; nothing was changed", shown(.0))]
    Refused(#[from] PlanRefusal),
    /// A choice of coins failed.
    #[error("no coins were chosen: {0}; nothing was changed")]
    Select(#[from] SelectError),
    /// The coins would suffice, but not yet.
    #[error("no coins were chosen: {missing} sats are missing, and {why}; nothing was changed")]
    TimeLocked {
        /// What is missing.
        missing: u64,
        /// How much waits, and for what.
        why: String,
    },
    /// A prune failed.
    #[error("{}", shown_prune(.0))]
    Prune(#[from] PruneRefusal),
    /// The room was made for another network.
    #[error("this database keeps wallets of {stored}, not of {asked}; nothing was changed")]
    WrongNetwork {
        /// Network of the database.
        stored: Network,
        /// Network asked for.
        asked: Network,
    },
    /// A wallet room is Bitcoin only.
    #[error("there are no wallets for {0}: the wallet room is for Bitcoin networks")]
    NotBitcoin(Network),
    /// No such wallet.
    #[error("there is no wallet `{0}`")]
    NoWallet(String),
    /// The wallet stands still.
    #[error(
        "wallet `{name}` is stopped: {reason}; fix the cause and resume it first; nothing was \
         changed"
    )]
    WalletStopped {
        /// The wallet.
        name: String,
        /// What was wrong.
        reason: String,
    },
    /// A second wallet of that name.
    #[error("a wallet called `{0}` already exists; nothing was changed")]
    WalletExists(String),
    /// A name that can't be used.
    #[error(
        "`{}` can't be a name: 1 to 100 characters, none of them a control character",
        .0.escape_debug()
    )]
    BadName(String),
    /// A descriptor that can't be used.
    #[error("descriptor refused: {0}; nothing was changed")]
    Descriptor(String),
    /// The script is already watched in that wallet.
    #[error("this wallet already watches that script; nothing was changed")]
    ScriptExists,
    /// An argument out of its range.
    #[error("{0}; nothing was changed")]
    Argument(String),
    /// A batch for one wallet holds a transaction that doesn't concern it.
    #[error("transaction {0} neither pays nor spends anything of this wallet; nothing was changed")]
    NotOurs(Txid),
    /// An amount that can't be.
    #[error("transaction {0} creates more than 21 million BTC; nothing was changed")]
    TooMuchMoney(Txid),
    /// A label differs from the one that is there.
    #[error("transaction {0} already has another label; nothing was changed")]
    LabelDiffers(Txid),
    /// A label that can't be used.
    #[error("a label has at most 500 characters, this one has {0}; nothing was changed")]
    LabelTooLong(usize),
    /// The block isn't stored.
    #[error(
        "block {height} is not stored; apply it or include it in the batch; nothing was changed"
    )]
    BlockNotFound {
        /// Its height.
        height: u64,
    },
    /// Another block is stored at that height.
    #[error("another block is stored at height {height}; disconnect it first; nothing was changed")]
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
    #[error("block {height} does not build on the stored block below it; disconnect that first")]
    WrongParent {
        /// Height of the block.
        height: u64,
    },
    /// No such coin, or it is spent or dead.
    #[error("coin {0} is not an unspent coin of this wallet; nothing was changed")]
    CoinNotFound(OutPoint),
    /// The coin is kept from being spent.
    #[error("coin {0} can't be spent: it is frozen; nothing was changed")]
    CoinFrozen(OutPoint),
    /// Somebody else holds the coin.
    #[error("coin {coin} is leased by {holder} until {expires_at}; nothing was changed")]
    AlreadyLeased {
        /// The coin.
        coin: OutPoint,
        /// The holder.
        holder: LockId,
        /// When it ends, in microseconds.
        expires_at: Micros,
    },
    /// Somebody else's lease can't be released.
    #[error("coin {0} is leased by another holder; only that holder may release it")]
    NotYourLease(OutPoint),
    /// A lease must last for some time.
    #[error("a lease must last longer than 0 seconds and end before the year 294,000")]
    BadDuration,
    /// A held lease waits for at least one confirmation.
    #[error(
        "a lease is held for 1 or more confirmations; leave that out to hold it for a time only"
    )]
    BadHold,
    /// No such transaction.
    #[error("this wallet doesn't know transaction {0}")]
    NoTransaction(Txid),
    /// The past below a height was pruned.
    #[error(
        "the balance after block {height} is no longer known because history was pruned; it is \
         known from {known_from} on"
    )]
    HistoryPruned {
        /// The height asked for.
        height: u64,
        /// The lowest height that can be asked for.
        known_from: u64,
    },
    /// A payment that can't be built.
    #[error("payment refused: {0}; nothing was changed")]
    Payment(String),
    /// Stored data contradicts itself.
    #[error("stored data is damaged: {0}; run the audit and restore a backup")]
    Corrupt(String),
    /// A fault of ours.
    #[error("a bug in the program: {0}; nothing was changed; please report it")]
    Bug(&'static str),
}

impl WalletError {
    /// Whether the trouble lies in what a single wallet holds, so that others can go on without
    /// it. Not so for a database that is away, a full disk, or a block that doesn't fit.
    pub(crate) fn is_of_one_wallet(&self) -> bool {
        matches!(
            self,
            Self::Refused(_)
                | Self::Descriptor(_)
                | Self::ScriptExists
                | Self::Corrupt(_)
                | Self::Bug(_)
                | Self::Sql(SqlError::Constraint(_) | SqlError::Damaged { .. })
        )
    }

    /// What sort of trouble it is.
    pub fn kind(&self) -> Kind {
        if let Self::Sql(error) | Self::Open(OpenError::Connect { source: error, .. }) = self {
            return kind_of(error);
        }
        if matches!(self, Self::Open(_)) {
            return Kind::Unavailable;
        }
        if matches!(self, Self::Bug(_)) {
            return Kind::Bug;
        }
        if matches!(self, Self::Corrupt(_)) { Kind::Corrupt } else { Kind::Refused }
    }
}

fn kind_of(error: &SqlError) -> Kind {
    if matches!(error, SqlError::Busy(_) | SqlError::Conflict(_)) {
        return Kind::Busy;
    }
    if matches!(error, SqlError::Damaged { .. }) {
        return Kind::Corrupt;
    }
    let is_away = error.is_retryable() || matches!(error, SqlError::Closed | SqlError::Disk(_));
    if is_away { Kind::Unavailable } else { Kind::Bug }
}

impl Failure for WalletError {
    fn sql(&self) -> Option<&SqlError> {
        if let Self::Sql(error) = self { Some(error) } else { None }
    }
}

/// The model names transactions in wire order; people read them reversed.
fn shown(refusal: &PlanRefusal) -> String {
    reversed(&refusal.to_string())
}

fn shown_prune(refusal: &PruneRefusal) -> String {
    reversed(&refusal.to_string())
}

fn reversed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_hexdigit()) {
        let (before, tail) = rest.split_at(at);
        let end = tail.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(tail.len());
        let (digits, after) = tail.split_at(end);
        out.push_str(before);
        match Network::CardanoMainnet.parse_hash(digits) {
            Some(wire) => out.push_str(&Network::Bitcoin.show_hash(&TxId(wire).0)),
            None => out.push_str(digits),
        }
        rest = after;
    }
    out + rest
}
