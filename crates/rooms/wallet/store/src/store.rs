//! The open database and its network.

use unspent_model::Network;
use unspent_sql::{Arg, Door, Options, Url, is_there};

use crate::{error::WalletError, schema::SCHEMA, statistics};

/// All wallets of one database.
pub struct WalletStore {
    pub(crate) door: Door,
    network: Network,
    bitcoin_network: bitcoin::Network,
}

const READ_NETWORK: &str = "SELECT network FROM room WHERE one = 1";
const WRITE_NETWORK: &str = "INSERT INTO room (one, network, next_wallet_id) VALUES (1, $1, 1)
    ON CONFLICT (one) DO NOTHING";

impl WalletStore {
    /// Opens the database, making it when absent. A database serves one network for ever.
    ///
    /// # Errors
    ///
    /// [`WalletError::Open`] or [`WalletError::WrongNetwork`], with nothing changed.
    pub fn open(url: &Url, network: Network, options: Options) -> Result<Self, WalletError> {
        let bitcoin_network = bitcoin_network(network)?;
        let door = statistics::open(url, options)?;
        // In one transaction: of two that open a new database
        // for different networks, one is refused.
        let stored: String = door.write(move |tx| -> Result<String, WalletError> {
            tx.execute(WRITE_NETWORK, &[Arg::Text(network.name())])?;
            Ok(tx.one(READ_NETWORK, &[])?.text("network")?)
        })?;
        let stored = known(&stored)?;
        if stored != network {
            return Err(WalletError::WrongNetwork { stored, asked: network });
        }
        Ok(Self { door, network, bitcoin_network })
    }

    /// Opens a database that is already there, whatever its network.
    ///
    /// # Errors
    ///
    /// As for [`WalletStore::open`]; [`WalletError::Argument`] when nothing was ever kept there,
    /// [`WalletError::NotBitcoin`] when it says that it is of another chain.
    pub fn open_existing(url: &Url, options: Options) -> Result<Self, WalletError> {
        if !is_there(url, &SCHEMA, options)? {
            let missing = match url {
                Url::Sqlite(path) => format!("{} does not exist", path.display()),
                Url::Postgres(_) => "this database has no wallets yet".to_owned(),
            };
            return Err(WalletError::Argument(format!("{missing}; create a wallet first")));
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
        let network = known(&stored)?;
        Ok(Self { door, network, bitcoin_network: bitcoin_network(network)? })
    }

    /// The network all its wallets are of.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Statements sent since the room was opened, for those who count round trips.
    pub fn statements(&self) -> u64 {
        self.door.statements()
    }

    /// The same, as the `bitcoin` crate names it.
    pub fn bitcoin_network(&self) -> bitcoin::Network {
        self.bitcoin_network
    }
}

fn known(stored: &str) -> Result<Network, WalletError> {
    stored.parse().map_err(|_| WalletError::Corrupt(format!("unknown network `{stored}`")))
}

fn bitcoin_network(network: Network) -> Result<bitcoin::Network, WalletError> {
    match network {
        Network::Bitcoin => Ok(bitcoin::Network::Bitcoin),
        Network::BitcoinTestnet4 => Ok(bitcoin::Network::Testnet4),
        Network::BitcoinSignet => Ok(bitcoin::Network::Signet),
        Network::BitcoinRegtest => Ok(bitcoin::Network::Regtest),
        Network::CardanoMainnet | Network::CardanoPreprod | Network::CardanoPreview => {
            Err(WalletError::NotBitcoin(network))
        }
    }
}
