//! Coins by payment credential, which Bitcoin doesn't have. They share a family with those by
//! address: one prefix more or less is all that tells the two apart.

use unspent_model::{Family, Outpoint};

use super::{CoinIndex, IndexFacts};
use crate::{
    codec::CodecError,
    coin::Coin,
    schema::{AddressKey, ColumnFamily, KeyError, Owner},
    telemetry,
};

pub(super) struct ByCredential;

impl CoinIndex for ByCredential {
    const FACTS: IndexFacts = IndexFacts {
        family: ColumnFamily::Address,
        tag: Some(Owner::CREDENTIAL_TAG),
        prefix: Owner::LEN,
        needs_body: false,
        fits: |chain| matches!(chain, Family::Cardano),
        counted: telemetry::coins_of_owner,
    };

    type Key = [u8; AddressKey::LEN];
    type Entry = AddressKey;

    fn keys(
        outpoint: &Outpoint,
        coin: &Coin,
    ) -> Result<impl Iterator<Item = Self::Key>, CodecError> {
        Ok(coin.credential_key(outpoint).map(|key| key.encode()).into_iter())
    }

    fn read(key: &[u8]) -> Result<(AddressKey, Outpoint), KeyError> {
        AddressKey::decode(key).map(|key| (key, key.outpoint))
    }
}
