//! The scripts of the simulated world: anybody who knows the nonce may spend, nobody signs.
//!
//! An output pays the P2WSH of `<8-byte nonce> OP_DROP OP_TRUE`; its witness is that script alone.
//! A real node accepts such a spend, and the nonce makes an address unique or hot at will.

use bitcoin::opcodes::all::OP_DROP;
use bitcoin::opcodes::{OP_TRUE, all::OP_RETURN};
use bitcoin::script::Builder;
use bitcoin::{Script, ScriptBuf, Witness};

/// Longest script that a node can ever run; longer ones are provably unspendable.
const MAX_SCRIPT_BYTES: usize = 10_000;

/// The script behind the address of `nonce`: `<nonce> OP_DROP OP_TRUE`.
pub fn witness_script(nonce: u64) -> ScriptBuf {
    Builder::new()
        .push_slice(nonce.to_be_bytes())
        .push_opcode(OP_DROP)
        .push_opcode(OP_TRUE)
        .into_script()
}

/// The output script (34 bytes, P2WSH) of the address of `nonce`.
pub fn address_script(nonce: u64) -> ScriptBuf {
    witness_script(nonce).to_p2wsh()
}

/// The witness that spends an output to [`address_script`] of the same nonce.
pub fn unlocking_witness(nonce: u64) -> Witness {
    let mut witness = Witness::new();
    witness.push(witness_script(nonce));
    witness
}

/// Whether no spend of this script can ever be valid, by the rule of Bitcoin Core's coin set.
pub fn is_unspendable(script: &Script) -> bool {
    script.as_bytes().first() == Some(&OP_RETURN.to_u8()) || script.len() > MAX_SCRIPT_BYTES
}
