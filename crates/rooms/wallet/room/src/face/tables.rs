//! What a wallet holds and what happened to it, as the command line shows it.

use unspent_model::wallet::amount::in_btc;
use unspent_server::{
    error::Outcome,
    output::{Output, facts, table},
};

use super::{
    context::WalletContext,
    json::{AnyBalanceJson, EdgeJson, SumJson, TxDetailJson, WalletBalanceJson},
    queries::{self, BalanceQuery, CoinRequest, CoinsQuery, JournalQuery, TxsQuery},
    upkeep::TxRequest,
};

pub(super) fn balance(
    context: &WalletContext,
    query: &BalanceQuery,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let found = query.run(context)?;
    output.answer(&found, || match &found {
        AnyBalanceJson::Past(past) => {
            format!("{} sat in {} coins after block {}", past.value, past.coins, past.height)
        }
        AnyBalanceJson::Now(balance) => classes(balance),
        AnyBalanceJson::ByAccount(found) => {
            let accounts = found.accounts.iter();
            let tables = accounts.map(|one| format!("{}\n{}", one.account, classes(&one.balance)));
            tables.collect::<Vec<_>>().join("\n")
        }
    })?;
    Ok(Outcome::Done)
}

fn classes(balance: &WalletBalanceJson) -> String {
    let row = |name: &str, sum: &SumJson| {
        let btc = sum.value.parse().map(in_btc).unwrap_or_default();
        [name.to_owned(), sum.value.clone(), btc, sum.coins.to_string()]
    };
    let WalletBalanceJson { leaving, value, .. } = balance;
    let rows = balance.classes().map(|(name, sum)| row(name, sum));
    let total = ["total".to_owned(), value.clone(), String::new(), String::new()];
    let leaving = row("(leaving, if confirmed)", leaving);
    let rows = rows.into_iter().chain([total, leaving]);
    table(["class", "value (sat)", "BTC", "coins"], rows).to_string()
}

fn height(height: Option<u64>) -> String {
    height.map_or(String::new(), |height| height.to_string())
}

pub(super) fn coins(
    context: &WalletContext,
    query: &CoinsQuery,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let found = query.run(context)?;
    output.answer(&found, || {
        let rows = found.coins.iter().map(|coin| {
            [
                coin.outpoint.outpoint.clone(),
                coin.value.clone(),
                coin.state.to_owned(),
                height(coin.height),
                coin.address.clone(),
                coin.label.clone().unwrap_or_default(),
            ]
        });
        let headings = ["outpoint", "value (sat)", "state", "height", "address", "label"];
        let coins = table(headings, rows);
        format!("{coins}{}", next(found.next.as_deref()))
    })?;
    Ok(Outcome::Done)
}

/// Where the next page starts, if there is one.
pub(super) fn next(next: Option<&str>) -> String {
    next.map_or(String::new(), |next| format!("\nnext page: --after {next}"))
}

pub(super) fn coin(
    context: &WalletContext,
    request: &CoinRequest,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let found = request.run(context)?;
    output.answer(&found, || {
        let or = |text: &Option<String>, none: &str| text.clone().unwrap_or_else(|| none.into());
        facts(&[
            ("outpoint", found.outpoint.outpoint.clone()),
            ("value", format!("{} sat", found.value)),
            ("state", found.state.to_owned()),
            ("address", found.address.clone()),
            ("account", found.account.clone()),
            ("label", or(&found.label, "")),
            ("height", found.height.map_or("in no block".into(), |height| height.to_string())),
            ("confirmations", found.confirmations.to_string()),
            ("frozen", if found.frozen { "yes" } else { "no" }.to_owned()),
            ("spent by", or(&found.spent_by, "nobody")),
            ("leased by", or(&found.lock, "nobody")),
        ])
    })?;
    Ok(Outcome::Done)
}

pub(super) fn txs(
    context: &WalletContext,
    query: &TxsQuery,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let found = query.run(context)?;
    output.answer(&found, || {
        let rows = found.txs.iter().map(|tx| {
            [
                tx.txid.clone(),
                tx.status.to_owned(),
                height(tx.height),
                tx.block_time.map_or(String::new(), |time| time.text()),
                tx.net.clone(),
                tx.label.clone().unwrap_or_default(),
            ]
        });
        let txs = table(["txid", "status", "height", "time", "net (sat)", "label"], rows);
        format!("{txs}{}", next(found.next.as_deref()))
    })?;
    Ok(Outcome::Done)
}

pub(super) fn tx(
    context: &WalletContext,
    request: &TxRequest,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let found = queries::detail(context, request.txid.0)?;
    output.answer(&found, || facts(&tx_rows(&found)))?;
    Ok(Outcome::Done)
}

fn tx_rows(found: &TxDetailJson) -> Vec<(&'static str, String)> {
    let tx = &found.tx;
    let sat = |value: &String| format!("{value} sat");
    let mut rows = vec![
        ("txid", tx.txid.clone()),
        ("status", tx.status.to_owned()),
        ("height", tx.height.map_or("in no block".into(), |height| height.to_string())),
        ("block time", tx.block_time.map_or(String::new(), |time| time.text())),
        ("confirmations", tx.confirmations.to_string()),
        ("net", sat(&tx.net)),
        ("fee", tx.fee.as_ref().map_or("unknown".into(), sat)),
    ];
    for input in &found.inputs {
        let value = input.value.as_ref().map_or("not ours".into(), sat);
        rows.push(("spends", format!("{} {value}", input.outpoint.outpoint)));
    }
    for out in &found.outputs {
        let ours = if out.ours { " (ours)" } else { "" };
        rows.push(("pays", format!("{} {} sat{ours}", out.address, out.value)));
    }
    let edge = |edge: &EdgeJson| format!("{} ({})", edge.txid, edge.cause);
    rows.extend(found.replaced_by.iter().map(|by| ("replaced by", edge(by))));
    rows.extend(found.replaces.iter().map(|lost| ("replaces", edge(lost))));
    rows
}

pub(super) fn journal(
    context: &WalletContext,
    query: &JournalQuery,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let found = query.run(context)?;
    output.answer(&found, || {
        let rows = found.lines.iter().map(|line| {
            [
                line.number.to_string(),
                line.cause.to_owned(),
                line.change.txid.clone(),
                format!("{} → {}", line.change.from.unwrap_or(""), line.change.to.unwrap_or("")),
                height(line.change.height),
                line.change.other.clone().unwrap_or_default(),
            ]
        });
        let lines = table(["", "cause", "txid", "status", "height", "other"], rows);
        format!("{lines}{}", next(found.next.as_deref()))
    })?;
    Ok(Outcome::Done)
}
