//! Wallets, addresses, labels.

use bitcoin::{OutPoint, ScriptBuf, Txid};
use serde_json::{Value, json};
use unspent_model::wallet::Balance;
use unspent_sql::{Options, Url};
use unspent_wallet::{
    NewAccount, NewWallet, Room, WalletError,
    descriptor::{parse_address, show_script},
    labels::Label,
    wallets::{Purpose, WalletInfo},
};

use super::{
    Desk,
    args::{AddressArgs, CreateArgs, LabelArgs, LabelsArgs, NameArgs, PageArgs},
    json::{AddressJson, ImportedJson, WalletDetailJson, WalletJson},
    read, see,
};
use crate::{
    cli::Cli,
    fault::{Fault, Outcome},
    output::{Output, facts, table},
};

pub(super) fn create(
    cli: &Cli,
    url: &Url,
    args: &CreateArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    if args.descriptor.is_none() && args.watch.is_empty() {
        return Err(Fault::usage("give --descriptor or --watch").into());
    }
    let room = match args.network {
        Some(network) => {
            if let Url::Sqlite(path) = url
                && let Some(folder) = path.parent()
            {
                std::fs::create_dir_all(folder)?;
            }
            Room::open(url, network, Options::default())?
        }
        None => Room::open_existing(url, Options::default()).map_err(|error| needs(cli, error))?,
    };
    let now = super::now()?;
    let account = args.descriptor.as_ref().map(|receive| NewAccount {
        name: args.account.clone(),
        receive: receive.clone(),
        change: args.change.clone(),
    });
    let network = room.bitcoin_network();
    let scripts = args.watch.iter().map(|text| script(text, network));
    let scripts = scripts.collect::<anyhow::Result<Vec<_>>>()?;
    let wallet = match room.wallet(&args.wallet) {
        Ok(wallet) => {
            if let Some(account) = &account {
                room.add_account(wallet, account)?;
            }
            wallet
        }
        Err(WalletError::NoWallet(_)) => {
            let new = NewWallet {
                name: args.wallet.clone(),
                accounts: account.into_iter().collect(),
                birthday: args.birthday,
                gap_limit: args.gap_limit,
            };
            room.create_wallet(&new, now)?
        }
        Err(error) => return Err(error.into()),
    };
    for script in &scripts {
        room.import_script(wallet, script)?;
    }
    let desk = Desk { room, now };
    show(&desk, &NameArgs { wallet: args.wallet.clone() }, output)
}

fn needs(cli: &Cli, error: WalletError) -> anyhow::Error {
    let hint =
        format!("a new database needs --network; the data folder is {}", cli.data_dir().display());
    Fault::usage(error.to_string()).hint(hint).into()
}

pub(crate) fn script(text: &str, network: bitcoin::Network) -> anyhow::Result<ScriptBuf> {
    match ScriptBuf::from_hex(text) {
        Ok(script) if !text.is_empty() => Ok(script),
        _ => Ok(parse_address(text, network)?),
    }
}

pub(super) fn list(desk: &Desk, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let mut wallets: Vec<WalletInfo> = Vec::new();
    loop {
        let page = desk.room.wallets(wallets.last().map(|last| last.id))?;
        if page.is_empty() {
            break;
        }
        wallets.extend(page);
    }
    let network = desk.room.network();
    let document: Vec<_> = wallets.iter().map(|info| WalletJson::new(info, network)).collect();
    output.answer(&json!({ "network": network.name(), "wallets": document }), || {
        let rows = wallets.iter().map(|info| {
            let scanned = info.scanned.map_or("never".to_owned(), |(height, _)| height.to_string());
            [info.name.clone(), scanned, info.birthday.to_string()]
        });
        table(["wallet", "scanned to", "birthday"], rows).to_string()
    })?;
    Ok(Outcome::Done)
}

pub(super) fn show(
    desk: &Desk,
    args: &NameArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let info = desk.room.wallet_info(wallet)?;
    let chains = desk.room.keychains(wallet)?;
    let balance: Balance = desk.room.balance(wallet, 1, desk.now)?;
    let document = WalletDetailJson::new(&info, desk.room.network(), &chains, &balance);
    output.answer(&document, || {
        let scanned = info.scanned.map_or("never".to_owned(), |(height, _)| height.to_string());
        let rows = chains.iter().map(|chain| {
            [
                chain.account.clone(),
                chain.purpose.clone(),
                chain.derived_to.to_string(),
                chain.descriptor.clone(),
            ]
        });
        let facts = facts(&[
            ("wallet", info.name.clone()),
            ("network", desk.room.network().name().to_owned()),
            ("scanned to", scanned),
            ("birthday", info.birthday.to_string()),
            ("total", format!("{} sats", balance.total())),
        ]);
        format!("{facts}\n{}", table(["account", "chain", "watched", "descriptor"], rows))
    })?;
    Ok(Outcome::Done)
}

pub(super) fn address(
    desk: &Desk,
    args: &AddressArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let purpose = if args.change { Purpose::Change } else { Purpose::Receive };
    let found = desk.room.next_address(wallet, args.account.as_deref(), purpose)?;
    let network = desk.room.bitcoin_network();
    output.answer(&AddressJson::new(&found, network), || show_script(&found.script, network))?;
    Ok(Outcome::Done)
}

pub(super) fn addresses(
    desk: &Desk,
    args: &PageArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let after = see::cursor_number(args.after.as_deref())?;
    let found = desk.room.addresses(wallet, after, args.limit)?;
    let network = desk.room.bitcoin_network();
    let listed: Vec<_> = found.iter().map(|info| AddressJson::new(info, network)).collect();
    let next = found.last().map(|last| last.id.to_string());
    output.answer(&json!({ "addresses": listed, "next": next }), || {
        let rows = found.iter().map(|info| {
            let used = if info.is_used { "used" } else { "" };
            [
                show_script(&info.script, network),
                format!("{} {} {}", info.account, info.purpose, info.index),
                used.to_owned(),
            ]
        });
        table(["address", "place", ""], rows).to_string()
    })?;
    Ok(Outcome::Done)
}

pub(super) fn label(
    desk: &Desk,
    args: &LabelArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let kind = if args.what.parse::<Txid>().is_ok() {
        "tx"
    } else if args.what.parse::<OutPoint>().is_ok() {
        "output"
    } else {
        parse_address(&args.what, desk.room.bitcoin_network())?;
        "addr"
    };
    let label =
        Label { kind: kind.into(), reference: args.what.clone(), label: args.label.clone() };
    desk.room.set_label(wallet, &label)?;
    output.answer(&label, || "labelled".to_owned())?;
    Ok(Outcome::Done)
}

pub(super) fn labels(
    desk: &Desk,
    args: &LabelsArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    if let Some(lines) = &args.import {
        let taken = desk.room.import_labels(wallet, &read::text_of(lines)?)?;
        output.answer(&ImportedJson { imported: taken }, || format!("{taken} labels taken in"))?;
        return Ok(Outcome::Done);
    }
    let lines = desk.room.export_labels(wallet)?;
    let document: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    output.answer(&document, || lines.trim_end().to_owned())?;
    Ok(Outcome::Done)
}
