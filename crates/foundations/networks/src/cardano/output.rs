//! Outputs of Shelley and later.
//!
//! Invariant: datums and scripts are the bytes of the chain, never encoded again, because their
//! hash is over those bytes. They aren't looked into either: how deep they nest is up to whoever
//! wrote them, and pallas reads datums recursively.

use pallas_codec::minicbor::{Decode, Decoder, data::Type, decode::Error as CborError};
use pallas_primitives::alonzo::{self, Value};
use unspent_model::chain::{Asset, Output};

use super::{
    address::Credentials,
    cbor::{end, has_more, start, wrapped},
};
use crate::{DecodeError, blake2b::blake2b};

const ADDRESS: u64 = 0;
const VALUE: u64 = 1;
const DATUM: u64 = 2;
const SCRIPT_REF: u64 = 3;

/// An output as it stands in a block: an array from Shelley on, a map from Babbage on.
pub(super) struct WireOutput<'b> {
    address: Vec<u8>,
    value: Value,
    datum: Option<Datum<'b>>,
    script_ref: Option<&'b [u8]>,
}

enum Datum<'b> {
    Hash([u8; 32]),
    Inline(&'b [u8]),
}

impl<'b> Decode<'b, ()> for WireOutput<'b> {
    fn decode(d: &mut Decoder<'b>, ctx: &mut ()) -> Result<Self, CborError> {
        if matches!(d.datatype()?, Type::Map | Type::MapIndef) {
            map_output(d, ctx)
        } else {
            d.decode_with(ctx).map(array_output)
        }
    }
}

fn array_output<'b>(wire: alonzo::TransactionOutput) -> WireOutput<'b> {
    WireOutput {
        address: wire.address.to_vec(),
        value: wire.amount,
        datum: wire.datum_hash.map(|hash| Datum::Hash(*hash)),
        script_ref: None,
    }
}

fn map_output<'b>(d: &mut Decoder<'b>, ctx: &mut ()) -> Result<WireOutput<'b>, CborError> {
    let mut fields = d.map()?;
    let (mut address, mut value, mut datum, mut script_ref) = (None, None, None, None);
    while has_more(d, &mut fields)? {
        match d.u64()? {
            ADDRESS => address = Some(d.bytes()?.to_vec()),
            VALUE => value = Some(d.decode_with(ctx)?),
            DATUM => datum = Some(datum_option(d)?),
            SCRIPT_REF => script_ref = Some(wrapped(d)?),
            // An unknown field could hold value: passing over it would lose coins without a word.
            _ => return Err(CborError::message("unknown field of an output")),
        }
    }
    let address = address.ok_or_else(|| CborError::message("output without address"))?;
    let value = value.ok_or_else(|| CborError::message("output without value"))?;
    Ok(WireOutput { address, value, datum, script_ref })
}

fn datum_option<'b>(d: &mut Decoder<'b>) -> Result<Datum<'b>, CborError> {
    let left = start(d, 2)?;
    let datum = match d.u8()? {
        0 => Datum::Hash(hash(d.bytes()?)?),
        1 => Datum::Inline(wrapped(d)?),
        _ => return Err(CborError::message("unknown kind of datum")),
    };
    end(d, left)?;
    Ok(datum)
}

fn hash(bytes: &[u8]) -> Result<[u8; 32], CborError> {
    bytes.try_into().map_err(|_| CborError::message("datum hash has the wrong length"))
}

impl WireOutput<'_> {
    pub(super) fn to_model(&self) -> Result<Output, DecodeError> {
        let (value, assets) = money(&self.value);
        let mut output = Output { assets, ..at_address(self.address.clone(), value) };
        match self.datum {
            None => {}
            Some(Datum::Hash(hash)) => output.data_hash = Some(hash),
            Some(Datum::Inline(datum)) => {
                output.data_hash = Some(blake2b(datum));
                output.inline_datum = Some(datum.to_vec());
            }
        }
        if let Some(script) = self.script_ref {
            let hash = script_hash(script);
            let hash = hash.map_err(|e| DecodeError::malformed("reference script", e))?;
            output.reference_script_hash = Some(hash);
            output.script_ref = Some(script.to_vec());
        }
        Ok(output)
    }
}

/// An output of this address and no more.
pub(super) fn at_address(addr: Vec<u8>, value: u64) -> Output {
    let credentials = Credentials::of(&addr);
    Output {
        addr,
        value,
        payment_credential: credentials.payment,
        stake_credential: credentials.stake,
        stake_addr: credentials.stake_addr,
        ..Output::default()
    }
}

/// Base units, and assets by policy, then name.
fn money(wire: &Value) -> (u64, Vec<Asset>) {
    let (value, policies) = match wire {
        Value::Coin(value) => return (*value, Vec::new()),
        Value::Multiasset(value, policies) => (*value, policies),
    };
    let assets = policies.iter().flat_map(|(policy, names)| {
        names.iter().map(|(name, quantity)| Asset {
            policy: **policy,
            name: name.to_vec(),
            quantity: *quantity,
        })
    });
    (value, assets.collect())
}

/// The hash of `[language, script]`: over the language and the script's own bytes.
fn script_hash(script_ref: &[u8]) -> Result<[u8; 28], CborError> {
    let mut d = Decoder::new(script_ref);
    let left = start(&mut d, 2)?;
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
    end(&mut d, left)?;
    // The ledger hashes the language too: the same bytes in two languages are two scripts.
    let mut tagged = Vec::with_capacity(1 + script.len());
    tagged.push(language);
    tagged.extend_from_slice(script);
    Ok(blake2b(&tagged))
}
