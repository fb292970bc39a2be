//! Transaction bodies of all eras after Byron.
//!
//! Only the fields that move coins are read. pallas' own bodies read all of them, and refuse real
//! blocks whose other fields they don't understand.

use pallas_codec::{
    minicbor::{Decode, Decoder, decode::Error as CborError},
    utils::Set,
};
use pallas_primitives::TransactionInput;
use unspent_model::chain::Output;

use super::{cbor::has_more, output::WireOutput};
use crate::DecodeError;

const INPUTS: u64 = 0;
const OUTPUTS: u64 = 1;
const COLLATERAL: u64 = 13;
const COLLATERAL_RETURN: u64 = 16;

/// Coins that go, and coins that come.
pub(super) type Moves<'a> = (&'a [TransactionInput], Vec<(u32, Output)>);

/// The parts of a body that move coins.
pub(super) struct Body<'b> {
    inputs: Vec<TransactionInput>,
    outputs: Vec<WireOutput<'b>>,
    collateral: Vec<TransactionInput>,
    collateral_return: Option<WireOutput<'b>>,
}

impl<'b> Decode<'b, ()> for Body<'b> {
    fn decode(d: &mut Decoder<'b>, ctx: &mut ()) -> Result<Self, CborError> {
        let mut fields = d.map()?;
        let (mut inputs, mut outputs, mut collateral, mut returned) = (None, None, None, None);
        while has_more(d, &mut fields)? {
            match d.u64()? {
                INPUTS => inputs = Some(d.decode_with::<_, Set<_>>(ctx)?.to_vec()),
                OUTPUTS => outputs = Some(d.decode_with(ctx)?),
                COLLATERAL => collateral = Some(d.decode_with::<_, Set<_>>(ctx)?.to_vec()),
                COLLATERAL_RETURN => returned = Some(d.decode_with(ctx)?),
                _ => d.skip()?,
            }
        }
        Ok(Self {
            inputs: inputs.ok_or_else(|| CborError::message("transaction without inputs"))?,
            outputs: outputs.ok_or_else(|| CborError::message("transaction without outputs"))?,
            collateral: collateral.unwrap_or_default(),
            collateral_return: returned,
        })
    }
}

impl Body<'_> {
    /// What the transaction spends and creates when phase 2 succeeds.
    pub(super) fn when_valid(&self) -> Result<Moves<'_>, DecodeError> {
        let outputs = (0..).zip(&self.outputs);
        let creates = outputs.map(|(index, wire)| Ok((index, wire.to_model()?)));
        Ok((&self.inputs, creates.collect::<Result<_, DecodeError>>()?))
    }

    /// What it spends and creates when phase 2 fails: the return stands after the outputs that
    /// never came to be.
    pub(super) fn when_invalid(&self) -> Result<Moves<'_>, DecodeError> {
        let index = u32::try_from(self.outputs.len());
        let index = index.map_err(|e| DecodeError::malformed("output index", e))?;
        let mut creates = Vec::new();
        if let Some(wire) = &self.collateral_return {
            creates.push((index, Output { is_collateral_return: true, ..wire.to_model()? }));
        }
        Ok((&self.collateral, creates))
    }
}
