//! Holding outputs: freeze, unfreeze, reassign.

use anyhow::Context as _;
use bitcoin::{ScriptBuf, Transaction, TxOut, consensus::deserialize};
use clap::Args;
use serde::Serialize;
use unspent_model::{Network, Outpoint, txstore::SlotRefusal};
use unspent_networks::address::{Query, parse_query};
use unspent_server::{
    error::{CliError, Outcome},
    json::parse_outpoint,
    output::{Output, table},
    text,
};
use unspent_txstore::{TxStore, output_hash};

/// Which outputs.
#[derive(Args)]
pub(crate) struct OutputsArgs {
    /// The outputs, as TXID:VOUT
    #[arg(required = true, value_name = "TXID:VOUT")]
    outputs: Vec<String>,
}

/// What came of one output.
#[derive(Serialize)]
struct HeldOutputJson {
    outpoint: String,
    done: bool,
    /// Why it stays as it was
    code: Option<&'static str>,
    reason: Option<String>,
}

fn coin(network: Network, name: &str) -> Result<Outpoint, CliError> {
    parse_outpoint(network, name).ok_or_else(|| {
        CliError::usage(format!("`{name}` is not an output"))
            .hint("write TXID:VOUT: 64 hex digits, then the number of the output")
    })
}

pub(super) fn print_freeze(
    store: &TxStore,
    args: &OutputsArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    print_held(store, args, TxStore::freeze, output)
}

pub(super) fn print_unfreeze(
    store: &TxStore,
    args: &OutputsArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    print_held(store, args, TxStore::unfreeze, output)
}

type Hold = fn(
    &TxStore,
    Vec<Outpoint>,
) -> Result<Vec<Result<(), SlotRefusal>>, unspent_txstore::TxStoreError>;

/// Each output stands by itself: all are tried, and the answer says of each what came of it. That
/// some were refused shows in the exit code.
fn print_held(
    store: &TxStore,
    args: &OutputsArgs,
    hold: Hold,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = store.network();
    let coins = args.outputs.iter().map(|name| coin(network, name));
    let coins = coins.collect::<Result<Vec<_>, _>>()?;
    let done = hold(store, coins.clone())?;
    let shown = coins.iter().zip(&done).map(|(coin, done)| {
        let refusal = done.as_ref().err();
        HeldOutputJson {
            outpoint: text::outpoint(network, coin),
            done: done.is_ok(),
            code: refusal.map(|refusal| refusal.code()),
            reason: refusal.map(ToString::to_string),
        }
    });
    let shown: Vec<HeldOutputJson> = shown.collect();
    if let [HeldOutputJson { done: false, reason: Some(reason), .. }] = shown.as_slice() {
        return Err(CliError::refused(format!("{reason}; nothing was changed")).into());
    }
    output.answer(&shown, || {
        let rows = shown.iter().map(|held| {
            let said = held.reason.clone().unwrap_or_else(|| "done".into());
            [held.outpoint.clone(), said]
        });
        table(["output", "result"], rows).to_string()
    })?;
    let is_done = shown.iter().all(|held| held.done);
    Ok(if is_done { Outcome::Done } else { Outcome::Differences })
}

/// Which output goes to whom.
#[derive(Args)]
pub(crate) struct ReassignArgs {
    /// The output, as TXID:VOUT; it has to be frozen
    #[arg(value_name = "TXID:VOUT")]
    output: String,
    /// Its new owner: an address, or a script in hex
    #[arg(long, value_name = "ADDRESS")]
    to: String,
}

pub(super) fn print_reassign(
    store: &TxStore,
    args: &ReassignArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = store.network();
    let coin = coin(network, &args.output)?;
    let Query::Address(script) = parse_query(network, &args.to)? else {
        return Err(CliError::usage(format!("`{}` is not an address", args.to)).into());
    };
    let missing = || CliError::refused("the transaction is not in the store; nothing was changed");
    let stored = store.get(coin.tx)?.ok_or_else(missing)?;
    let parsed: Transaction = deserialize(&stored.body).context("a stored transaction")?;
    let none = || CliError::refused("the transaction has no such output; nothing was changed");
    let before = parsed.output.get(coin.index as usize).ok_or_else(none)?;
    // Once given away, the output is what it was made then: the script on the chain no longer
    // counts.
    let given = stored.record.reassigned.iter().find(|given| given.vout == coin.index);
    let from = given.map_or_else(|| output_hash(coin, before), |given| given.output);
    let after = TxOut { value: before.value, script_pubkey: ScriptBuf::from_bytes(script) };
    let height = store.height()?.unwrap_or(0);
    let done = store.reassign(coin, from, output_hash(coin, &after), height)?;
    done.map_err(|refusal| CliError::refused(format!("{refusal}; nothing was changed")))?;
    let from_height = height + unspent_model::txstore::REASSIGN_COOLDOWN;
    let name = text::outpoint(network, &coin);
    let document = serde_json::json!({ "outpoint": name, "spendable_at": from_height });
    output.answer(&document, || format!("{name} can be spent from height {from_height} on"))?;
    Ok(Outcome::Done)
}
