//! Outputs of Shelley and later.
//!
//! Invariant: datums and scripts are the bytes of the chain, never encoded again, because their hash
//! is over those bytes.

use std::collections::BTreeMap;

use pallas_codec::{
    minicbor::{Decoder, decode::Error as CborError},
    utils::{Bytes, KeepRaw},
};
use pallas_crypto::hash::Hash;
use pallas_primitives::{
    alonzo,
    babbage::{DatumOption, GenPostAlonzoTransactionOutput},
    conway,
};
use unspent_model::chain::{Asset, Output};

use super::{address::Parts, body::has_more};
use crate::{DecodeError, address::blake2b};

/// Where an output keeps its reference script.
const SCRIPT_REF_KEY: u64 = 3;

/// Lovelace, and assets by policy, then name.
type Money = (u64, Vec<Asset>);

/// An output of this address and no more.
pub(super) fn at_address(addr: Vec<u8>, lovelace: u64) -> Output {
    let parts = Parts::of(&addr);
    Output {
        addr,
        lovelace,
        payment_credential: parts.payment,
        stake_credential: parts.stake,
        stake_addr: parts.stake_addr,
        ..Output::default()
    }
}

/// An output in the form of Shelley to Alonzo, which later eras still accept.
pub(super) fn legacy(wire: &alonzo::TransactionOutput) -> Output {
    let (lovelace, assets) = alonzo_value(&wire.amount);
    let data_hash = wire.datum_hash.map(|hash| *hash);
    Output { assets, data_hash, ..at_address(wire.address.to_vec(), lovelace) }
}

/// An output in the form of Babbage and later.
pub(super) fn post_alonzo<V, S>(
    wire: &KeepRaw<'_, GenPostAlonzoTransactionOutput<'_, V, S>>,
    (lovelace, assets): Money,
) -> Result<Output, DecodeError> {
    let mut output = Output { assets, ..at_address(wire.address.to_vec(), lovelace) };
    match wire.datum_option.as_deref() {
        None => {}
        Some(DatumOption::Hash(hash)) => output.data_hash = Some(**hash),
        Some(DatumOption::Data(datum)) => {
            output.data_hash = Some(blake2b(datum.raw_cbor()));
            output.inline_datum = Some(datum.raw_cbor().to_vec());
        }
    }
    if wire.script_ref.is_some() {
        let in_script = |reason| DecodeError::malformed("reference script", reason);
        let script = raw_script_ref(wire.raw_cbor()).map_err(in_script)?;
        output.reference_script_hash = Some(script_hash(script).map_err(in_script)?);
        output.script_ref = Some(script.to_vec());
    }
    Ok(output)
}

pub(super) fn alonzo_value(value: &alonzo::Value) -> Money {
    match value {
        alonzo::Value::Coin(coin) => (*coin, Vec::new()),
        alonzo::Value::Multiasset(coin, assets) => (*coin, in_order(assets, |amount| *amount)),
    }
}

pub(super) fn conway_value(value: &conway::Value) -> Money {
    match value {
        conway::Value::Coin(coin) => (*coin, Vec::new()),
        conway::Value::Multiasset(coin, assets) => {
            (*coin, in_order(assets, |amount| u64::from(*amount)))
        }
    }
}

fn in_order<A>(
    policies: &BTreeMap<Hash<28>, BTreeMap<Bytes, A>>,
    quantity: impl Fn(&A) -> u64,
) -> Vec<Asset> {
    let assets = policies.iter().flat_map(|(policy, names)| names.iter().map(move |a| (policy, a)));
    let asset = |(policy, (name, amount)): (&Hash<28>, (&Bytes, &A))| Asset {
        policy: **policy,
        name: name.to_vec(),
        quantity: quantity(amount),
    };
    assets.map(asset).collect()
}

/// The wrapped bytes of an output's reference script. pallas has read the same output before, but
/// doesn't keep them.
fn raw_script_ref(output: &[u8]) -> Result<&[u8], CborError> {
    let mut d = Decoder::new(output);
    let mut fields = d.map()?;
    let mut script = None;
    while has_more(&mut d, &mut fields)? {
        if d.u64()? == SCRIPT_REF_KEY {
            d.tag()?;
            script = Some(d.bytes()?);
        } else {
            d.skip()?;
        }
    }
    script.ok_or_else(|| CborError::message("not found in its output"))
}

/// The hash of `[language, script]`: over the language and the script's own bytes.
fn script_hash(script_ref: &[u8]) -> Result<[u8; 28], CborError> {
    let mut d = Decoder::new(script_ref);
    d.array()?;
    let language = d.u8()?;
    let script = match language {
        // A native script is CBOR itself.
        0 => {
            let start = d.position();
            d.skip()?;
            script_ref.get(start..d.position()).unwrap_or_default()
        }
        _ => d.bytes()?,
    };
    let mut tagged = Vec::with_capacity(1 + script.len());
    tagged.push(language);
    tagged.extend_from_slice(script);
    Ok(blake2b(&tagged))
}
