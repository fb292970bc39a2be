//! `unspent verify-proof`: checks a proof from anywhere. Needs no data folder.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use unspent_model::Network;
use unspent_server::{
    command::AloneCommand,
    error::{CliError, Outcome},
    output::{Output, table},
};
use unspent_verify::{Hash, Proof, Verdict};

use super::json::CoinProofJson;

/// A proof is smaller than this; a larger file is something else.
const MOST_BYTES: u64 = 64 << 20;

/// Which proof, and the root to check it against.
#[derive(Args)]
pub(crate) struct VerifyProofArgs {
    /// The proof, as CBOR or as JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The root of the block, from somebody you trust: 64 hex digits
    #[arg(long, value_name = "HEX")]
    root: String,
}

/// What a proof says.
#[derive(Serialize)]
struct CheckedProofJson {
    network: String,
    height: u64,
    block_hash: String,
    coins: Vec<CheckedCoinJson>,
}

#[derive(Serialize)]
struct CheckedCoinJson {
    outpoint: String,
    state: String,
}

impl AloneCommand for VerifyProofArgs {
    fn run(&self, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
        verify_proof(self, output)
    }
}

fn verify_proof(args: &VerifyProofArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let mut root = Hash::default();
    hex::decode_to_slice(&args.root, &mut root)
        .map_err(|_| CliError::usage("--root takes 64 hex digits"))?;
    let proof = read(args)?;
    let verdicts = proof.check(&root).map_err(|error| {
        CliError::refused(format!("REFUSED: {error}; it proves nothing"))
            .hint("compare network, block and root with those the proof was made for")
    })?;
    let shown = checked(&proof, &verdicts)?;
    output.answer(&shown, || text(&shown))?;
    Ok(Outcome::Done)
}

fn read(args: &VerifyProofArgs) -> anyhow::Result<Proof> {
    let name = args.file.display();
    let unreadable = || format!("{name} can't be read");
    let length = fs::metadata(&args.file).with_context(unreadable)?.len();
    let none = || CliError::refused(format!("REFUSED: {name} is not a proof"));
    // A proof comes from anybody: its size is looked at before it is read into memory.
    if length > MOST_BYTES {
        return Err(none().into());
    }
    let bytes = fs::read(&args.file).with_context(unreadable)?;
    // In CBOR this byte opens a text of enormous length, which no proof is.
    let found = if bytes.first() == Some(&b'{') {
        from_json(&bytes)
    } else {
        Proof::from_bytes(&bytes).ok()
    };
    Ok(found.ok_or_else(none)?)
}

/// A proof alone, or an answer with one in it.
fn from_json(bytes: &[u8]) -> Option<Proof> {
    let mut document: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let inner = document.get_mut("proof").map(serde_json::Value::take);
    let proof: CoinProofJson = serde_json::from_value(inner.unwrap_or(document)).ok()?;
    proof.read()
}

fn checked(proof: &Proof, verdicts: &[Verdict]) -> anyhow::Result<CheckedProofJson> {
    let name = &proof.head.network;
    let network: Network = name
        .parse()
        .map_err(|_| CliError::refused(format!("REFUSED: `{name}` is not a known network")))?;
    let coins = proof.coins.iter().zip(verdicts).map(|((_, leaf), verdict)| CheckedCoinJson {
        outpoint: format!("{}:{}", network.show_hash(&leaf.txid), leaf.vout),
        state: verdict.to_string(),
    });
    Ok(CheckedProofJson {
        network: name.clone(),
        height: proof.head.height,
        block_hash: network.show_hash(&proof.head.block_hash),
        coins: coins.collect(),
    })
}

fn text(shown: &CheckedProofJson) -> String {
    let rows = shown.coins.iter().map(|coin| [coin.outpoint.clone(), coin.state.clone()]);
    let coins = table(["outpoint", "state"], rows);
    let CheckedProofJson { network, height, block_hash, .. } = shown;
    format!("{coins}\nafter block {height} ({block_hash}) of {network}")
}
