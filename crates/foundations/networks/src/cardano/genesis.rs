//! Coins that exist before the first block.
//!
//! Byron's genesis file gives balances to addresses and, on the main network, to redeem keys
//! (AVVM); Shelley's may give initial funds. Such a coin has no transaction: its name is the hash
//! of its address, output 0, as in the ledger.

use base64::{Engine, engine::general_purpose::URL_SAFE};
use pallas_addresses::{ByronAddress, byron::AddressPayload};
use pallas_codec::minicbor;
use pallas_crypto::key::ed25519::PublicKey;
use serde_json::{Map, Value};
use unspent_model::{
    BlockHash, Network, Outpoint, TxId,
    chain::{Born, GenesisCoin, Record},
};

use super::{clock::Clock, output};
use crate::{blake2b::blake2b, query::Query};

/// A genesis file that can't be used. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GenesisError {
    /// Bitcoin's genesis is a block.
    #[error("{0} takes no genesis files; leave them out")]
    NoGenesisFiles(Network),
    /// It isn't JSON.
    #[error("genesis file {file} is not valid JSON: {reason}")]
    NotJson {
        /// Which file, from 1.
        file: usize,
        /// What the parser said.
        reason: String,
    },
    /// It is JSON, but neither Byron's nor Shelley's.
    #[error("genesis file {file} is neither a Byron nor a Shelley genesis; pass one of each")]
    UnknownKind {
        /// Which file, from 1.
        file: usize,
    },
    /// The same kind of file twice.
    #[error("a genesis file of the same kind as {file} was already given; pass each once")]
    Repeated {
        /// Which file, from 1.
        file: usize,
    },
    /// The file is of another network.
    #[error("genesis file {file} has network magic {found}, but {network} has {expected}")]
    WrongNetwork {
        /// Which file, from 1.
        file: usize,
        /// The network asked for.
        network: Network,
        /// The magic that network has.
        expected: u64,
        /// The magic in the file.
        found: u64,
    },
    /// An entry makes no sense.
    #[error("genesis file {file}: malformed entry `{entry}`: {reason}")]
    Malformed {
        /// Which file, from 1.
        file: usize,
        /// The address, key or field.
        entry: String,
        /// What is wrong with it.
        reason: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Byron,
    Shelley,
}

/// The coins of a network's genesis files, by outpoint. Files may come in any order; which is which
/// is seen from what they hold.
///
/// # Errors
///
/// When a file isn't a genesis file of this network, or an entry can't be read.
pub fn genesis_coins(network: Network, files: &[&[u8]]) -> Result<Vec<GenesisCoin>, GenesisError> {
    let no_files = GenesisError::NoGenesisFiles(network);
    let (Some(clock), Some(magic)) = (Clock::of(network), super::magic(network)) else {
        return Err(no_files);
    };
    let mut coins = Vec::new();
    let mut kinds = Vec::new();
    for (file, bytes) in (1..).zip(files) {
        let reader = Reader { network, magic, start: clock.start, file };
        let (kind, more) = reader.read(bytes)?;
        // The same coins twice would have the same outpoints, and count twice in the totals.
        if kinds.contains(&kind) {
            return Err(GenesisError::Repeated { file });
        }
        kinds.push(kind);
        coins.extend(more);
    }
    // JSON gives entries no order, and leaves and digests depend on one.
    coins.sort_unstable_by_key(|coin: &GenesisCoin| coin.outpoint);
    Ok(coins)
}

struct Reader {
    network: Network,
    magic: u32,
    start: u64,
    file: usize,
}

impl Reader {
    fn read(&self, bytes: &[u8]) -> Result<(Kind, Vec<GenesisCoin>), GenesisError> {
        let json = serde_json::from_slice::<Value>(bytes);
        let not_json =
            |e: serde_json::Error| GenesisError::NotJson { file: self.file, reason: e.to_string() };
        let json = json.map_err(not_json)?;
        if let Some(consts) = json.get("protocolConsts") {
            self.check_magic(consts.get("protocolMagic"))?;
            return Ok((Kind::Byron, self.byron(&json)?));
        }
        if json.get("initialFunds").is_some() || json.get("systemStart").is_some() {
            self.check_magic(json.get("networkMagic"))?;
            return Ok((Kind::Shelley, self.shelley(&json)?));
        }
        Err(GenesisError::UnknownKind { file: self.file })
    }

    fn check_magic(&self, found: Option<&Value>) -> Result<(), GenesisError> {
        let missing = || self.malformed("magic", "not a number");
        let found = found.and_then(Value::as_u64).ok_or_else(missing)?;
        let expected = u64::from(self.magic);
        if found == expected {
            return Ok(());
        }
        let Self { network, file, .. } = *self;
        Err(GenesisError::WrongNetwork { file, network, expected, found })
    }

    fn byron(&self, json: &Value) -> Result<Vec<GenesisCoin>, GenesisError> {
        let balances = self.entries(json, "nonAvvmBalances")?.map(|(address, amount)| {
            let addr = self.byron_address(address)?;
            Ok(self.coin(addr, self.amount(address, amount)?, false))
        });
        let redeemable = self.entries(json, "avvmDistr")?.map(|(key, amount)| {
            let addr = self.redeem_address(key)?;
            Ok(self.coin(addr, self.amount(key, amount)?, true))
        });
        balances.chain(redeemable).collect()
    }

    fn shelley(&self, json: &Value) -> Result<Vec<GenesisCoin>, GenesisError> {
        let funds = self.entries(json, "initialFunds")?.map(|(address, amount)| {
            let addr = hex::decode(address).map_err(|e| self.malformed(address, e))?;
            Ok(self.coin(addr, self.amount(address, amount)?, false))
        });
        funds.collect()
    }

    /// The entries of a field; none when the field is absent.
    fn entries<'a>(
        &self,
        json: &'a Value,
        field: &str,
    ) -> Result<impl Iterator<Item = (&'a String, &'a Value)> + use<'a>, GenesisError> {
        let entries = match json.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::Object(entries)) => Some(entries),
            Some(_) => return Err(self.malformed(field, "not an object")),
        };
        Ok(entries.into_iter().flat_map(Map::iter))
    }

    fn byron_address(&self, text: &str) -> Result<Vec<u8>, GenesisError> {
        match super::address::parse(self.network, text) {
            Ok(Query::Address(addr)) => Ok(addr),
            Ok(Query::Credential(_) | Query::ScriptHash(_)) => {
                Err(self.malformed(text, "not a Byron address"))
            }
            Err(reason) => Err(self.malformed(text, reason)),
        }
    }

    /// The address that redeems a key. Test networks write their magic into it.
    fn redeem_address(&self, key: &str) -> Result<Vec<u8>, GenesisError> {
        let bytes = URL_SAFE.decode(key).map_err(|e| self.malformed(key, e))?;
        let bytes = <[u8; 32]>::try_from(bytes.as_slice());
        let bytes = bytes.map_err(|_| self.malformed(key, "not a 32-byte key"))?;
        let tag = if self.network == Network::CardanoMainnet {
            None
        } else {
            Some(minicbor::to_vec(self.magic).map_err(|e| self.malformed(key, e))?)
        };
        let payload = AddressPayload::new_redeem(PublicKey::from(bytes), tag);
        Ok(ByronAddress::from_decoded(payload).to_vec())
    }

    /// Byron writes amounts as text, Shelley as numbers.
    fn amount(&self, entry: &str, amount: &Value) -> Result<u64, GenesisError> {
        let number = amount.as_u64().or_else(|| amount.as_str()?.parse().ok());
        number.ok_or_else(|| self.malformed(entry, format!("{amount} is not an amount")))
    }

    fn coin(&self, addr: Vec<u8>, value: u64, is_redeem: bool) -> GenesisCoin {
        let outpoint = Outpoint::new(TxId(blake2b(&addr)), 0);
        let born = Born {
            slot: 0,
            block_number: 0,
            block_hash: BlockHash::default(),
            epoch: Some(0),
            block_time: self.start,
            tx_position: 0,
        };
        let record = Record { output: output::at_address(addr, value), born };
        GenesisCoin { outpoint, record, is_redeem }
    }

    fn malformed(&self, entry: &str, reason: impl ToString) -> GenesisError {
        let entry = entry.to_owned();
        GenesisError::Malformed { file: self.file, entry, reason: reason.to_string() }
    }
}
