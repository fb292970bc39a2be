//! The open database, its network and the lock on a wallet's row.

use bitcoin::{OutPoint, Txid, hashes::Hash as _};
use unspent_model::{BlockHash, Family, Network, Outpoint, TxId};
use unspent_sql::{Arg, Door, Options, Row, Tx, Url};

use crate::{error::WalletError, rows::scanned, statistics, wallets::WalletInfo};

/// A wallet, by its row. Names are for people; this is for programs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WalletId(pub i64);

/// All wallets of one database.
pub struct Room {
    pub(crate) door: Door,
    network: Network,
}

const READ_NETWORK: &str = "SELECT network FROM room WHERE one = 1";
const WRITE_NETWORK: &str = "INSERT INTO room (one, network, next_wallet_id) VALUES (1, $1, 1)
    ON CONFLICT (one) DO NOTHING";

impl Room {
    /// Opens the database, making it when absent. A database serves one network for ever.
    ///
    /// # Errors
    ///
    /// [`WalletError::Open`] or [`WalletError::WrongNetwork`], with nothing changed.
    pub fn open(url: &Url, network: Network, options: Options) -> Result<Self, WalletError> {
        if network.family() != Family::Bitcoin {
            return Err(WalletError::NotBitcoin(network));
        }
        let door = statistics::open(url, options)?;
        let stored: String = door.write(move |tx| -> Result<String, WalletError> {
            tx.execute(WRITE_NETWORK, &[Arg::Text(network.name())])?;
            Ok(tx.one(READ_NETWORK, &[])?.text("network")?)
        })?;
        let stored = known(&stored)?;
        if stored != network {
            return Err(WalletError::WrongNetwork { stored, asked: network });
        }
        Ok(Self { door, network })
    }

    /// Opens a database that is already there, whatever its network.
    ///
    /// # Errors
    ///
    /// As for [`Room::open`]; [`WalletError::Argument`] when nothing was ever kept there.
    pub fn open_existing(url: &Url, options: Options) -> Result<Self, WalletError> {
        if let Url::Sqlite(path) = url
            && !path.exists()
        {
            let missing = format!("{} is not there; create a wallet first", path.display());
            return Err(WalletError::Argument(missing));
        }
        let door = statistics::open(url, options)?;
        let stored = door.read(|tx| -> Result<_, WalletError> {
            let row = tx.maybe(READ_NETWORK, &[])?;
            Ok(row.map(|row| row.text("network")).transpose()?)
        })?;
        let Some(stored) = stored else {
            let empty = "this database has no wallets yet; create one first";
            return Err(WalletError::Argument(empty.into()));
        };
        Ok(Self { door, network: known(&stored)? })
    }

    /// The network all its wallets are of.
    pub fn network(&self) -> Network {
        self.network
    }

    /// The same, as the `bitcoin` crate names it.
    pub fn bitcoin_network(&self) -> bitcoin::Network {
        bitcoin_network(self.network)
    }

    /// Every wallet, in order of their rows.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn all_wallets(&self) -> Result<Vec<WalletInfo>, WalletError> {
        let mut all: Vec<WalletInfo> = Vec::new();
        loop {
            let page = self.wallets(all.last().map(|last| last.id))?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }
}

fn known(stored: &str) -> Result<Network, WalletError> {
    stored.parse().map_err(|_| WalletError::Corrupt(format!("unknown network `{stored}`")))
}

fn bitcoin_network(network: Network) -> bitcoin::Network {
    match network {
        Network::BitcoinTestnet4 => bitcoin::Network::Testnet4,
        Network::BitcoinSignet => bitcoin::Network::Signet,
        Network::BitcoinRegtest => bitcoin::Network::Regtest,
        Network::Bitcoin
        | Network::CardanoMainnet
        | Network::CardanoPreprod
        | Network::CardanoPreview => bitcoin::Network::Bitcoin,
    }
}

/// A wallet's own row, held for the length of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WalletRow {
    pub(crate) id: i64,
    pub(crate) birthday: u64,
    pub(crate) scanned: Option<(u64, BlockHash)>,
    pub(crate) gap_limit: u32,
    pub(crate) next_id: i64,
    pub(crate) next_line: i64,
    pub(crate) confirmed_amount: i64,
    pub(crate) confirmed_coins: i64,
}

const COLUMNS_LOCKED: &str = "SELECT id, birthday_height, scanned_height, scanned_hash, gap_limit,
    next_id, next_line, confirmed_amount, confirmed_coins FROM wallets WHERE id = $1 FOR UPDATE";
const COLUMNS: &str = "SELECT id, birthday_height, scanned_height, scanned_hash, gap_limit,
    next_id, next_line, confirmed_amount, confirmed_coins FROM wallets WHERE id = $1";
const SAVE: &str = "UPDATE wallets SET scanned_height = $2, scanned_hash = $3, next_id = $4,
    next_line = $5, confirmed_amount = $6, confirmed_coins = $7 WHERE id = $1";
const LOCK_ROOM: &str = "SELECT next_wallet_id FROM room WHERE one = 1 FOR UPDATE";

/// Holds the room's row: whoever changes the chain or the list of wallets holds it first.
pub(crate) fn lock_room(tx: &mut Tx<'_>) -> Result<i64, WalletError> {
    Ok(tx.one(LOCK_ROOM, &[])?.int("next_wallet_id")?)
}

impl WalletRow {
    /// Locks the wallet against all other writers.
    pub(crate) fn lock(tx: &mut Tx<'_>, wallet: WalletId) -> Result<Self, WalletError> {
        Self::from(tx.maybe(COLUMNS_LOCKED, &[Arg::Int(wallet.0)])?, wallet)
    }

    /// Reads it without locking.
    pub(crate) fn read(tx: &mut Tx<'_>, wallet: WalletId) -> Result<Self, WalletError> {
        Self::from(tx.maybe(COLUMNS, &[Arg::Int(wallet.0)])?, wallet)
    }

    fn from(row: Option<Row>, wallet: WalletId) -> Result<Self, WalletError> {
        let row = row.ok_or_else(|| WalletError::NoWallet(wallet.0.to_string()))?;
        Ok(Self {
            id: row.int("id")?,
            birthday: row.natural("birthday_height")?,
            scanned: scanned(&row)?,
            gap_limit: row.index("gap_limit")?,
            next_id: row.int("next_id")?,
            next_line: row.int("next_line")?,
            confirmed_amount: row.int("confirmed_amount")?,
            confirmed_coins: row.int("confirmed_coins")?,
        })
    }

    /// Height of the wallet's tip.
    pub(crate) fn tip(&self) -> Option<u64> {
        self.scanned.map(|(height, _)| height)
    }

    /// A new row id.
    pub(crate) fn new_id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// A new number for a line of the journal.
    pub(crate) fn new_line(&mut self) -> i64 {
        self.next_line += 1;
        self.next_line - 1
    }

    /// Writes back what changed.
    pub(crate) fn save(&self, tx: &mut Tx<'_>) -> Result<(), WalletError> {
        let (height, hash) = self.scanned.unzip();
        let args = [
            Arg::Int(self.id),
            Arg::OptInt(height.map(sql_int).transpose()?),
            Arg::OptBlob(hash.as_ref().map(|hash| hash.0.as_slice())),
            Arg::Int(self.next_id),
            Arg::Int(self.next_line),
            Arg::Int(self.confirmed_amount),
            Arg::Int(self.confirmed_coins),
        ];
        tx.execute(SAVE, &args)?;
        Ok(())
    }
}

/// A number as SQL holds it.
pub(crate) fn sql_int(number: u64) -> Result<i64, WalletError> {
    i64::try_from(number).map_err(|_| WalletError::Argument("a number is beyond 2^63".into()))
}

/// The model's name of a transaction.
pub(crate) fn model_txid(txid: Txid) -> TxId {
    TxId(txid.to_byte_array())
}

/// The `bitcoin` crate's name of a transaction.
pub fn bitcoin_txid(txid: TxId) -> Txid {
    Txid::from_byte_array(txid.0)
}

/// The model's name of a coin.
pub(crate) fn model_outpoint(outpoint: OutPoint) -> Outpoint {
    Outpoint::new(model_txid(outpoint.txid), outpoint.vout)
}

/// The `bitcoin` crate's name of a coin.
pub fn bitcoin_outpoint(outpoint: Outpoint) -> OutPoint {
    OutPoint::new(bitcoin_txid(outpoint.tx), outpoint.index)
}
