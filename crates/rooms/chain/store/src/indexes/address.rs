//! Coins by address: on Cardano by its hash, on Bitcoin by that of the script.

use unspent_model::Outpoint;

use super::{CoinIndex, IndexFacts};
use crate::{
    codec::CodecError,
    coin::Coin,
    schema::{AddressKey, ColumnFamily, KeyError, Owner},
    telemetry,
};

pub(super) struct ByAddress;

impl CoinIndex for ByAddress {
    const FACTS: IndexFacts = IndexFacts {
        family: ColumnFamily::Address,
        tag: Some(Owner::ADDRESS_TAG),
        prefix: Owner::LEN,
        needs_body: false,
        fits: |_| true,
        counted: telemetry::coins_of_owner,
    };

    type Key = [u8; AddressKey::LEN];
    type Entry = AddressKey;

    fn keys(
        outpoint: &Outpoint,
        coin: &Coin,
    ) -> Result<impl Iterator<Item = Self::Key>, CodecError> {
        Ok(std::iter::once(coin.address_key(outpoint).encode()))
    }

    fn read(key: &[u8]) -> Result<(AddressKey, Outpoint), KeyError> {
        AddressKey::decode(key).map(|key| (key, key.outpoint))
    }
}
