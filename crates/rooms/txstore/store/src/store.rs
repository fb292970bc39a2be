//! The open database, its network, its windows and the row that holds the tip.
//!
//! The tip's row is the one lock that the cleaner and a reorganisation share: a cleaner holds it so
//! that nobody may take it whole, whoever takes a transaction out of the best chain takes it whole.
//! A block that is added changes the row beside a cleaner: it makes nothing unstable.

use unspent_model::{BlockHash, Family, Network, Point, TxId, txstore::DeletionWindows};
use unspent_sql::{Arg, Backend, Door, Options, Row, SqlError, Tx, Url, is_there};

use crate::{error::TxStoreError, schema::SCHEMA};

/// How the store behaves. All windows count blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// When a record may go, and how deep its children must lie.
    pub windows: DeletionWindows,
}

/// All transactions of one database.
pub struct TxStore {
    pub(crate) door: Door,
    network: Network,
    pub(crate) windows: DeletionWindows,
}

const READ_NETWORK: &str = "SELECT network FROM store WHERE one = 1";
const WRITE_NETWORK: &str =
    "INSERT INTO store (one, network) VALUES (1, $1) ON CONFLICT (one) DO NOTHING";

impl TxStore {
    /// Opens the database, making it when absent. A database serves one network for ever.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::Open`], [`TxStoreError::WrongNetwork`], or [`TxStoreError::Argument`] for
    /// windows that don't fit together; nothing is changed.
    pub fn open(
        url: &Url,
        network: Network,
        settings: Settings,
        options: Options,
    ) -> Result<Self, TxStoreError> {
        if network.family() != Family::Bitcoin {
            return Err(TxStoreError::NotBitcoin(network));
        }
        let windows = checked(settings.windows)?;
        let door = Door::open(url, &SCHEMA, options)?;
        let stored = door.write(move |tx| -> Result<String, TxStoreError> {
            // Of two that open a new database at once the first one's network stands.
            tx.execute(WRITE_NETWORK, &[Arg::Text(network.name())])?;
            Ok(tx.one(READ_NETWORK, &[])?.text("network")?)
        })?;
        let stored = known(&stored)?;
        if stored != network {
            return Err(TxStoreError::WrongNetwork { stored, asked: network });
        }
        Ok(Self { door, network, windows })
    }

    /// Opens a database that is already there, whatever its network.
    ///
    /// # Errors
    ///
    /// As for [`TxStore::open`]; [`TxStoreError::Argument`] when nothing was ever kept there.
    pub fn open_existing(
        url: &Url,
        settings: Settings,
        options: Options,
    ) -> Result<Self, TxStoreError> {
        if !is_there(url, &SCHEMA, options)? {
            let missing = match url {
                Url::Sqlite(path) => format!("{} does not exist", path.display()),
                Url::Postgres(_) => "this database keeps no transactions yet".to_owned(),
            };
            return Err(TxStoreError::Argument(format!("{missing}; import blocks first")));
        }
        let windows = checked(settings.windows)?;
        let door = Door::open(url, &SCHEMA, options)?;
        let stored = door.read(|tx| -> Result<_, TxStoreError> {
            let row = tx.maybe(READ_NETWORK, &[])?;
            Ok(row.map(|row| row.text("network")).transpose()?)
        })?;
        let empty = || TxStoreError::Argument("this database keeps no transactions yet".into());
        Ok(Self { door, network: known(&stored.ok_or_else(empty)?)?, windows })
    }

    /// The network all its transactions are of.
    pub fn network(&self) -> Network {
        self.network
    }

    /// The windows it goes by.
    pub fn windows(&self) -> DeletionWindows {
        self.windows
    }

    /// Statements sent since the store was opened, for those who count round trips.
    pub fn statements(&self) -> u64 {
        self.door.statements()
    }

    /// Which database this is.
    pub fn backend(&self) -> Backend {
        self.door.backend()
    }

    /// The newest block; `None` before the first.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn tip(&self) -> Result<Option<Point>, TxStoreError> {
        let row = self.door.read(|tx| TipRow::read(tx, TIP))?;
        Ok(row.point())
    }

    /// The height that deletions are judged by: the tip's, or the one that was set by hand.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn height(&self) -> Result<Option<u64>, TxStoreError> {
        Ok(self.door.read(|tx| TipRow::read(tx, TIP))?.height)
    }

    /// Sets the height of a store that is told of single transactions and follows no blocks.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::FollowsBlocks`], [`TxStoreError::Argument`] for 0, or
    /// [`TxStoreError::TooDeep`] for a height further back than the window.
    pub fn set_height(&self, height: u64) -> Result<(), TxStoreError> {
        if height == 0 {
            return Err(TxStoreError::Argument("the height can't be 0".into()));
        }
        let windows = self.windows;
        self.door.write(move |tx| {
            // A lower height makes children shallow again that a cleaner has just found deep.
            let mut row = TipRow::read(tx, TIP_WHOLE)?;
            if row.hash.is_some() {
                return Err(TxStoreError::FollowsBlocks);
            }
            row.may_go_back_to(Some(height))?;
            row.move_to(height, None, windows);
            row.write(tx, 0)
        })
    }
}

fn checked(windows: DeletionWindows) -> Result<DeletionWindows, TxStoreError> {
    if windows.safety < windows.rollback {
        let why = "the safety window can't be shorter than the rollback window";
        return Err(TxStoreError::Argument(why.into()));
    }
    Ok(windows)
}

fn known(stored: &str) -> Result<Network, TxStoreError> {
    stored.parse().map_err(|_| TxStoreError::Corrupt(format!("unknown network `{stored}`")))
}

macro_rules! tip_row {
    ($lock:literal) => {
        concat!("SELECT tip_height, tip_hash, horizon FROM store WHERE one = 1", $lock)
    };
}

pub(crate) const TIP: &str = tip_row!("");
/// Nobody may take it whole meanwhile.
pub(crate) const TIP_SHARED: &str = tip_row!(" FOR KEY SHARE");
/// To add a block: one at a time, beside cleaners.
pub(crate) const TIP_FORWARD: &str = tip_row!(" FOR NO KEY UPDATE");
/// Nobody else holds it at all.
pub(crate) const TIP_WHOLE: &str = tip_row!(" FOR UPDATE");
const SET_TIP: &str = "UPDATE store SET tip_height = $1, tip_hash = $2, horizon = $3,
    absent_inputs = absent_inputs + $4 WHERE one = 1";

/// The row that holds the tip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TipRow {
    pub(crate) height: Option<u64>,
    pub(crate) hash: Option<BlockHash>,
    /// No block at or below it can be undone.
    pub(crate) horizon: u64,
}

impl TipRow {
    pub(crate) fn read(tx: &mut Tx<'_>, how: &'static str) -> Result<Self, TxStoreError> {
        let row = tx.one(how, &[])?;
        let height = row.opt_natural("tip_height")?;
        let hash = row.opt_hash("tip_hash")?.map(BlockHash);
        Ok(Self { height, hash, horizon: row.natural("horizon")? })
    }

    pub(crate) fn point(&self) -> Option<Point> {
        let (height, hash) = (self.height?, self.hash?);
        Some(Point { height, slot: height, hash })
    }

    /// Refuses what would undo blocks that are too deep.
    pub(crate) fn may_go_back_to(&self, height: Option<u64>) -> Result<(), TxStoreError> {
        let Some(tip) = self.height else { return Ok(()) };
        let target = height.unwrap_or(0);
        if self.horizon > 0 && target < self.horizon {
            // Told to people: a store above its own tip can undo nothing.
            let (depth, possible) = (tip - target, tip.saturating_sub(self.horizon));
            return Err(TxStoreError::TooDeep { depth, possible });
        }
        Ok(())
    }

    pub(crate) fn move_to(
        &mut self,
        height: u64,
        hash: Option<BlockHash>,
        windows: DeletionWindows,
    ) {
        (self.height, self.hash) = (Some(height), hash);
        // Everything can be undone in a chain shorter than the window.
        self.horizon = self.horizon.max(height.saturating_sub(windows.rollback));
    }

    pub(crate) fn write(&self, tx: &mut Tx<'_>, absent: u64) -> Result<(), TxStoreError> {
        let args = [
            Arg::OptInt(self.height.map(sql_int).transpose()?),
            Arg::OptBlob(self.hash.as_ref().map(|hash| hash.0.as_slice())),
            Arg::Int(sql_int(self.horizon)?),
            Arg::Int(sql_int(absent)?),
        ];
        tx.execute(SET_TIP, &args)?;
        Ok(())
    }
}

/// A number as SQL holds it.
pub(crate) fn sql_int(number: u64) -> Result<i64, TxStoreError> {
    i64::try_from(number).map_err(|_| TxStoreError::Argument("a number is beyond 2^63".into()))
}

/// The transaction that a row names.
pub(crate) fn txid(row: &Row) -> Result<TxId, SqlError> {
    Ok(TxId(row.hash("txid")?))
}

/// Spreads writers of different transactions over the connections.
pub(crate) fn writer_key(txid: TxId) -> i64 {
    // A txid is a hash: any of its bytes spread evenly.
    let [a, b, c, d, ..] = txid.0;
    i64::from(i32::from_be_bytes([a, b, c, d]))
}
