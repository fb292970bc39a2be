//! What can go wrong, by operation. The [`Kind`] alone decides between retry, stop and giving up.

use unspent_model::{Network, Point, chain::AdmitError};

use crate::{codec::CodecError, indexes::name::Indexes, options::StoreKind, schema::KeyError};

pub use unspent_model::Kind;

/// The database underneath failed. What was acknowledged before still holds.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process writes to the folder.
    #[error("the data folder is in use by another process; stop it or read with a query command")]
    Busy(#[source] rocksdb::Error),
    /// The writer replaced files faster than they could be opened.
    #[error(
        "another process is changing the data folder faster than it can be opened for reading; \
         try again, or ask that process (the last attempt failed with: {cause})"
    )]
    Changing {
        /// What the last attempt said.
        cause: String,
    },
    /// The disk or the database failed.
    #[error("the database failed while {doing}: {source}; nothing of this step was acknowledged")]
    Unavailable {
        /// What we were about to do.
        doing: &'static str,
        /// What the database says.
        source: rocksdb::Error,
    },
    /// The folder can't be made or entered.
    #[error("the folder {folder} can't be used: {source}; nothing was written")]
    Folder {
        /// As the caller named it.
        folder: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// Stored bytes are damaged.
    #[error("damaged data in {place}: {what}; restore a backup or import again into a new folder")]
    Corrupt {
        /// Family and key, or file.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// Undoing blocks leads to another root than the one stored with them.
    #[error(
        "undoing blocks down to height {height} leads to root {found}, stored is {stored}; nothing \
         was changed: restore a backup or import again into a new folder"
    )]
    OtherRoot {
        /// The block that the rollback would have ended at.
        height: u64,
        /// The root that was stored for it.
        stored: String,
        /// The root of what undoing gives.
        found: String,
    },
    /// A family that should be open isn't.
    #[error("column family {0} is not open; this is a bug")]
    MissingFamily(&'static str),
    /// The thread that flushes died.
    #[error("the flushing thread is gone; nothing since the last flush was acknowledged")]
    FlusherGone,
    /// The thread that reads undo data died.
    #[error(
        "the thread that reads undo data is gone; the index stands at a block boundary, and \
         rolling back again continues from there"
    )]
    ReaderGone,
    /// A write failed earlier, so memory and disk may differ.
    #[error(
        "an earlier write failed; close the folder and open it again, nothing acknowledged is lost"
    )]
    NeedsReopen,
}

impl StoreError {
    /// What to do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Busy(_) | Self::Changing { .. } => Kind::Busy,
            Self::Unavailable { .. }
            | Self::Folder { .. }
            | Self::FlusherGone
            | Self::ReaderGone
            | Self::NeedsReopen => Kind::Unavailable,
            Self::Corrupt { .. } | Self::OtherRoot { .. } => Kind::Corrupt,
            Self::MissingFamily(_) => Kind::Bug,
        }
    }

    pub(crate) fn engine(doing: &'static str) -> impl FnOnce(rocksdb::Error) -> Self {
        move |source| {
            let text = source.as_ref();
            if source.kind() == rocksdb::ErrorKind::Corruption {
                let place = format!("a database file, {doing}");
                return Self::Corrupt { place, what: source.into() };
            }
            if LOCKED.iter().any(|sign| text.contains(sign)) {
                return Self::Busy(source);
            }
            Self::Unavailable { doing, source }
        }
    }

    /// For `map_err`: nothing is formatted unless there is an error, these sit on the hot path.
    pub(crate) fn value(family: &'static str, key: &[u8]) -> impl FnOnce(CodecError) -> Self {
        move |error| Self::Corrupt { place: place(family, key), what: error.to_string() }
    }

    pub(crate) fn key(family: &'static str, key: &[u8]) -> impl FnOnce(KeyError) -> Self {
        move |error| Self::Corrupt { place: place(family, key), what: error.to_string() }
    }

    pub(crate) fn absent(family: &'static str, key: &[u8]) -> Self {
        Self::wrong(family, key, "the entry is missing")
    }

    pub(crate) fn wrong(family: &'static str, key: &[u8], what: &str) -> Self {
        Self::Corrupt { place: place(family, key), what: what.into() }
    }
}

/// How RocksDB says that somebody else, or we ourselves, hold the folder.
const LOCKED: [&str; 2] = ["While lock file", "lock hold by current process"];

fn place(family: &'static str, key: &[u8]) -> String {
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{family}[{hex}]")
}

/// Why a folder can't be opened. It is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It serves another network.
    #[error("the folder serves {found}, not {wanted}; give each network a folder of its own")]
    OtherNetwork {
        /// What it serves.
        found: Network,
        /// What was asked for.
        wanted: Network,
    },
    /// There is no index in it.
    #[error("there is no chain data in {0}; run `unspent chain import` first")]
    NotFound(String),
    /// It was written by another version.
    #[error(
        "{folder} has disk format {found}, this program reads format {wanted}; import again into \
         a new folder"
    )]
    OtherSchema {
        /// The folder, as the caller named it.
        folder: String,
        /// Format found.
        found: u64,
        /// Format of this program.
        wanted: u64,
    },
    /// The index was built with other lists.
    #[error(
        "the folder was built with {0}; an index can't be added or dropped later: use the same \
         settings or import into a new folder"
    )]
    OtherIndexes(Indexes),
    /// The index was built for another kind of store.
    #[error(
        "the folder was built with store = {found}; it can't be opened with store = {wanted}: use \
         the same setting or import into a new folder"
    )]
    OtherStore {
        /// What the folder is.
        found: StoreKind,
        /// What was asked for.
        wanted: StoreKind,
    },
    /// Roots can only be made up where every block can still be looked at.
    #[error(
        "the folder can't be changed to store = mmr, because {0}; import again into a new folder \
         with store = mmr"
    )]
    NotConvertible(&'static str),
    /// Other genesis coins than those it was built from.
    #[error("the genesis files are not those this folder was built from; use another folder")]
    OtherGenesis,
    /// The option values contradict each other.
    #[error("{0}")]
    Options(#[from] crate::options::OptionsError),
    /// The index is ahead of the chain and can't be rolled back to it.
    #[error("the index can't be brought back to the chain: {0}")]
    Reconcile(Box<RollbackError>),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a block was not applied. The index is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The block does not belong here.
    #[error("{0}; the index is unchanged")]
    Refused(#[from] AdmitError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a rollback was refused. The index is unchanged, except where the store itself failed: then
/// it stands at a block boundary and calling again continues.
#[derive(Debug, thiserror::Error)]
pub enum RollbackError {
    /// Pruning has discarded what is needed.
    #[error(
        "rolling back to {target} would undo {depth} blocks, but only the last {possible} can be \
         undone; the index is unchanged: import again to go further back"
    )]
    BelowHorizon {
        /// Height asked for; 0 for the origin.
        target: u64,
        /// Blocks that would have to be undone.
        depth: u64,
        /// Blocks that can be undone from where the index stands.
        possible: u64,
    },
    /// The target is not on the stored chain.
    #[error("there is no such block on the stored chain; the index is unchanged")]
    UnknownTarget,
    /// The target lies above the tip.
    #[error("the target lies above the tip{}; the index is unchanged", height(.0))]
    AboveTip(Option<Point>),
    /// Blocks were jumped over at import.
    #[error(
        "the import skipped blocks below {resumes_at}, and a rollback can't cross them; the index \
         is unchanged"
    )]
    AcrossHole {
        /// Height of the first block after the hole.
        resumes_at: u64,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn height(tip: &Option<Point>) -> String {
    tip.map_or(String::new(), |tip| format!(" at height {}", tip.height))
}

fn kept_above(floor: &Option<u64>) -> String {
    floor.map_or(String::new(), |floor| format!("; deltas are kept for heights above {floor}"))
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The list asked for is switched off.
    #[error("the index `{0}` is switched off in this folder, so it can't be queried")]
    IndexDisabled(&'static str),
    /// The whole index is switched off.
    #[error("the UTXO index is switched off (utxo.enabled = false)")]
    Disabled,
    /// The network has no such thing.
    #[error("{0} has no payment credentials; ask by address")]
    NoCredentials(Network),
    /// MuHash is defined over Bitcoin's coins.
    #[error("{0} has no MuHash; ask for the digest without it")]
    NoMuHash(Network),
    /// The page size is out of bounds.
    #[error("a page holds 1 to {most} coins, not {asked}")]
    Limit {
        /// The page size asked for.
        asked: usize,
        /// The largest page there is.
        most: usize,
    },
    /// The cursor was not made by us.
    #[error("malformed page cursor; use the `next` of the previous page")]
    Cursor,
    /// Undo data of that block is gone or never was.
    #[error("no delta is stored for height {height}{}", kept_above(.floor))]
    NoDelta {
        /// Height asked for.
        height: u64,
        /// Height up to which deltas are gone.
        floor: Option<u64>,
    },
    /// The folder keeps no roots.
    #[error("this folder keeps no roots; import again into a new folder with store = mmr")]
    NoRoots,
    /// The root of that block is not kept.
    #[error("no root is kept for height {height}: roots are kept for heights {from} to {to}")]
    NoRoot {
        /// Height asked for.
        height: u64,
        /// The lowest that has one.
        from: u64,
        /// The highest.
        to: u64,
    },
    /// Nothing can be proved of that coin.
    #[error("{coin}: {why}")]
    NoProof {
        /// The coin asked for, as the network writes it.
        coin: String,
        /// Why not.
        why: &'static str,
    },
    /// A proof is asked of nothing, or of too much.
    #[error("a proof covers 1 to {most} coins, not {asked}")]
    ProofSize {
        /// Coins asked for.
        asked: usize,
        /// Most of them.
        most: usize,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

macro_rules! kinds {
    ($($error:ident),*) => {$(
        impl $error {
            /// What to do about it.
            pub fn kind(&self) -> Kind {
                match self {
                    Self::Store(error) => error.kind(),
                    _ => Kind::Refused,
                }
            }
        }
    )*};
}
kinds!(OpenError, ApplyError, RollbackError, QueryError);
