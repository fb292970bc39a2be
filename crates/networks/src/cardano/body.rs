//! What the transaction bodies of all eras after Byron have in common.

use pallas_primitives::{
    TransactionInput, alonzo,
    babbage::{self, GenTransactionOutput},
    conway,
};
use unspent_model::chain::Output;

use super::output;
use crate::DecodeError;

/// The parts of a body that move coins.
pub(super) trait Body {
    /// Coins spent when phase 2 succeeds.
    fn inputs(&self) -> &[TransactionInput];
    /// Coins spent when it fails.
    fn collateral(&self) -> &[TransactionInput];
    /// Coins created when it succeeds, by index.
    fn outputs(&self) -> Result<Vec<(u32, Output)>, DecodeError>;
    /// How many those are: the index of the collateral return.
    fn output_count(&self) -> u32;
    /// The coin created when it fails.
    fn collateral_return(&self) -> Result<Option<Output>, DecodeError>;
}

fn count<T>(outputs: &[T]) -> u32 {
    // A body is smaller than a block, and a block is smaller than 2^32 bytes.
    u32::try_from(outputs.len()).unwrap_or(u32::MAX)
}

fn numbered<'a, T: 'a>(
    outputs: impl IntoIterator<Item = T>,
    read: impl Fn(T) -> Result<Output, DecodeError>,
) -> Result<Vec<(u32, Output)>, DecodeError> {
    (0..).zip(outputs).map(|(index, wire)| Ok((index, read(wire)?))).collect()
}

fn returned(output: Output) -> Output {
    Output { is_collateral_return: true, ..output }
}

impl Body for alonzo::TransactionBody {
    fn inputs(&self) -> &[TransactionInput] {
        &self.inputs
    }

    fn collateral(&self) -> &[TransactionInput] {
        self.collateral.as_deref().unwrap_or_default()
    }

    fn outputs(&self) -> Result<Vec<(u32, Output)>, DecodeError> {
        numbered(&self.outputs, |wire| Ok(output::legacy(wire)))
    }

    fn output_count(&self) -> u32 {
        count(&self.outputs)
    }

    fn collateral_return(&self) -> Result<Option<Output>, DecodeError> {
        Ok(None)
    }
}

impl Body for babbage::TransactionBody<'_> {
    fn inputs(&self) -> &[TransactionInput] {
        &self.inputs
    }

    fn collateral(&self) -> &[TransactionInput] {
        self.collateral.as_deref().unwrap_or_default()
    }

    fn outputs(&self) -> Result<Vec<(u32, Output)>, DecodeError> {
        numbered(&self.outputs, |wire| babbage_output(wire))
    }

    fn output_count(&self) -> u32 {
        count(&self.outputs)
    }

    fn collateral_return(&self) -> Result<Option<Output>, DecodeError> {
        let wire = self.collateral_return.as_ref();
        Ok(wire.map(|wire| babbage_output(wire)).transpose()?.map(returned))
    }
}

impl Body for conway::TransactionBody<'_> {
    fn inputs(&self) -> &[TransactionInput] {
        &self.inputs
    }

    fn collateral(&self) -> &[TransactionInput] {
        self.collateral.as_ref().map(|set| set.as_slice()).unwrap_or_default()
    }

    fn outputs(&self) -> Result<Vec<(u32, Output)>, DecodeError> {
        numbered(&self.outputs, conway_output)
    }

    fn output_count(&self) -> u32 {
        count(&self.outputs)
    }

    fn collateral_return(&self) -> Result<Option<Output>, DecodeError> {
        Ok(self.collateral_return.as_ref().map(conway_output).transpose()?.map(returned))
    }
}

fn babbage_output(wire: &babbage::TransactionOutput<'_>) -> Result<Output, DecodeError> {
    match wire {
        GenTransactionOutput::Legacy(wire) => Ok(output::legacy(wire)),
        GenTransactionOutput::PostAlonzo(wire) => {
            output::post_alonzo(wire, output::alonzo_value(&wire.value))
        }
    }
}

fn conway_output(wire: &conway::TransactionOutput<'_>) -> Result<Output, DecodeError> {
    match wire {
        GenTransactionOutput::Legacy(wire) => Ok(output::legacy(wire)),
        GenTransactionOutput::PostAlonzo(wire) => {
            output::post_alonzo(wire, output::conway_value(&wire.value))
        }
    }
}
