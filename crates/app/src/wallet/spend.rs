//! Payments and what is recorded by hand.

use std::{fs, path::Path, str::FromStr as _};

use anyhow::Context as _;
use bitcoin::{Psbt, Transaction, consensus::encode};
use serde_json::json;
use unspent_wallet::{
    Batch, TxSource,
    descriptor::parse_address,
    pay::{FeeBump, Payment, Signed, Unsigned},
};

use super::{
    Desk,
    args::{BumpArgs, FinalizeArgs, PayArgs, RecordArgs, TxArgs},
    hold::{policy, terms},
    json::{TxStatusJson, UnsignedJson},
    read,
};
use crate::{
    fault::{Fault, Outcome},
    output::{Output, facts},
};

pub(super) fn pay(desk: &Desk, args: &PayArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let network = desk.room.bitcoin_network();
    let outputs = args.to.iter().map(|(to, sats)| Ok((parse_address(to, network)?, *sats)));
    let payment = Payment {
        outputs: outputs.collect::<anyhow::Result<Vec<_>>>()?,
        rate: args.policy.rate,
        policy: policy(&args.policy)?,
        change_account: args.policy.account.clone(),
        terms: terms(&args.hold)?,
    };
    let unsigned = desk.room.pay(wallet, &payment, desk.now)?;
    show(&unsigned, &payment.terms.lock.to_string(), args.psbt.as_deref(), output)
}

pub(super) fn bump(
    desk: &Desk,
    args: &BumpArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let (policy, terms) = (policy(&args.policy)?, terms(&args.hold)?);
    let bump = FeeBump { tx: args.txid, rate: args.policy.rate, policy, terms };
    let unsigned = desk.room.bump(wallet, &bump, desk.now)?;
    show(&unsigned, &terms.lock.to_string(), args.psbt.as_deref(), output)
}

fn show(
    unsigned: &Unsigned,
    lock: &str,
    file: Option<&Path>,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let text = unsigned.psbt.to_string();
    if let Some(path) = file {
        fs::write(path, &text).with_context(|| format!("can't write {}", path.display()))?;
    }
    let document = UnsignedJson::new(unsigned, lock.to_owned());
    output.answer(&document, || {
        let selection = &unsigned.chosen.selection;
        let shown = match file {
            Some(path) => format!("written to {}", path.display()),
            None => text.clone(),
        };
        let rows = [
            ("fee", selection.fee.to_string()),
            ("change", selection.change.map_or("none".into(), |sats| sats.to_string())),
            ("why", selection.why()),
            ("lock", lock.to_owned()),
        ];
        format!(
            "{}\nPSBT: {shown}\nSign it, then: unspent wallet finalize … --lock {lock}",
            facts(&rows)
        )
    })?;
    Ok(Outcome::Done)
}

pub(super) fn finalize(
    desk: &Desk,
    args: &FinalizeArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let signed = signed(read::text_of(&args.signed)?.trim())?;
    let (txid, _) = desk.room.finalize(wallet, signed, args.lock, args.force, desk.now)?;
    let found = desk.room.tx(wallet, txid)?;
    let raw = encode::serialize_hex(&found.tx);
    let document =
        json!({ "txid": txid.to_string(), "status": found.summary.status.name(), "raw": raw });
    output.answer(&document, || {
        format!("{txid} is pending; send it, then: unspent wallet record … --sent {txid}\n{raw}")
    })?;
    Ok(Outcome::Done)
}

pub(crate) fn signed(text: &str) -> anyhow::Result<Signed> {
    if let Ok(psbt) = Psbt::from_str(text) {
        return Ok(Signed::Psbt(Box::new(psbt)));
    }
    let bytes = hex::decode(text).map_err(|_| neither())?;
    if let Ok(psbt) = Psbt::deserialize(&bytes) {
        return Ok(Signed::Psbt(Box::new(psbt)));
    }
    encode::deserialize(&bytes).map(Signed::Raw).map_err(|_| neither())
}

fn neither() -> anyhow::Error {
    Fault::input("this is neither a PSBT (base64 or hex) nor a raw transaction (hex)").into()
}

fn raw(argument: &str) -> anyhow::Result<Transaction> {
    raw_tx(&read::text_of(argument)?)
}

/// A raw transaction in hex.
pub(crate) fn raw_tx(text: &str) -> anyhow::Result<Transaction> {
    let bytes = hex::decode(text.trim()).map_err(|_| Fault::input("this is no hex"))?;
    encode::deserialize(&bytes)
        .map_err(|error| Fault::input(format!("this is no transaction: {error}")).into())
}

pub(super) fn record(
    desk: &Desk,
    args: &RecordArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let seen = [
        (&args.what.mempool, TxSource::Mempool),
        (&args.what.relayed, TxSource::Relayed),
        (&args.what.created, TxSource::Created { lock: None, force: false }),
    ];
    let mut txid = args.what.sent.or(args.what.evicted);
    for (argument, how) in seen {
        if let Some(argument) = argument {
            let tx = raw(argument)?;
            txid = Some(tx.compute_txid());
            desk.room.record_for(wallet, &Batch::one(tx, how), desk.now)?;
        }
    }
    if let Some(sent) = args.what.sent {
        desk.room.mark_broadcast(wallet, sent, desk.now)?;
    }
    if let Some(evicted) = args.what.evicted {
        desk.room.mark_evicted(wallet, evicted, desk.now)?;
    }
    let Some(txid) = txid else { return Err(Fault::usage("nothing to record").into()) };
    let status = desk.room.tx(wallet, txid)?.summary.status;
    output.answer(&TxStatusJson { txid: txid.to_string(), status: status.name() }, || {
        format!("{txid} is {status}")
    })?;
    Ok(Outcome::Done)
}

pub(super) fn invalidate(
    desk: &Desk,
    args: &TxArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    desk.room.invalidate(wallet, args.txid, desk.now)?;
    let document = json!({ "txid": args.txid.to_string(), "status": "failed" });
    output.answer(&document, || format!("{} is taken back; its coins are free", args.txid))?;
    Ok(Outcome::Done)
}
