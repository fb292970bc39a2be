//! What the wallet holds and what happened to it.

use serde_json::json;
use unspent_model::wallet::amount::in_btc;
use unspent_wallet::{
    coins::CoinCursor,
    descriptor::show_script,
    history::{EdgeInfo, Listing},
};

use super::{
    Desk,
    args::{BalanceArgs, CoinArgs, CoinsArgs, JournalArgs, TxArgs, TxsArgs},
    json::{LineJson, PastBalanceJson, TxDetailJson, TxJson, WalletBalanceJson, WalletCoinJson},
};
use crate::{
    fault::{Fault, Outcome},
    output::{Output, facts, table},
};

pub(super) fn balance(
    desk: &Desk,
    args: &BalanceArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    if let Some(height) = args.at {
        let sum = desk.room.balance_as_of(wallet, height)?;
        let document = PastBalanceJson { height, sats: sum.sats, coins: sum.coins };
        output.answer(&document, || {
            format!("{} sats in {} coins after block {height}", sum.sats, sum.coins)
        })?;
        return Ok(Outcome::Done);
    }
    let found = desk.room.balance(wallet, args.minconf, desk.now)?;
    output.answer(&WalletBalanceJson::new(&found), || {
        let classes = found.classes();
        let rows = classes.iter().map(|(name, sum)| {
            [name.replace('_', " "), sum.sats.to_string(), in_btc(sum.sats), sum.coins.to_string()]
        });
        let total = ["total".to_owned(), found.total().to_string(), String::new(), String::new()];
        let leaving = [
            "(leaving, if confirmed)".to_owned(),
            found.leaving.sats.to_string(),
            in_btc(found.leaving.sats),
            found.leaving.coins.to_string(),
        ];
        table(["class", "sats", "BTC", "coins"], rows.chain([total, leaving])).to_string()
    })?;
    Ok(Outcome::Done)
}

/// A row number given back to us as a cursor.
pub(super) fn cursor_number(text: Option<&str>) -> anyhow::Result<i64> {
    let number = text.map_or(Ok(0), str::parse);
    number.map_err(|_| Fault::usage("--after takes what the last answer named as `next`").into())
}

/// Two numbers given back to us as a cursor.
fn cursor_pair(text: Option<&str>) -> anyhow::Result<Option<(i64, i64)>> {
    let Some(text) = text else { return Ok(None) };
    let pair = text.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    match pair {
        Some(pair) => Ok(Some(pair)),
        None => Err(Fault::usage("--after takes what the last answer named as `next`").into()),
    }
}

pub(super) fn coins(
    desk: &Desk,
    args: &CoinsArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.page.wallet)?;
    let (after, limit) = (args.page.after.as_deref(), args.page.limit);
    let (found, next) = if args.all {
        let found = desk.room.all_coins(wallet, cursor_number(after)?, limit, desk.now)?;
        let next = found.last().map(|last| last.id.to_string());
        (found, next)
    } else {
        let cursor = cursor_pair(after)?
            .map(|(amount, id)| CoinCursor { amount: u64::try_from(amount).unwrap_or(0), id });
        let found = desk.room.coins(wallet, cursor, limit, desk.now)?;
        let next = found.last().map(|last| format!("{}-{}", last.amount, last.id));
        (found, next)
    };
    let network = desk.room.bitcoin_network();
    let coin = |coin| WalletCoinJson::new(coin, network);
    let listed: Vec<_> = found.iter().map(coin).collect();
    output.answer(&json!({ "coins": listed, "next": next }), || {
        let rows = found.iter().map(|coin| {
            [
                coin.outpoint.to_string(),
                coin.amount.to_string(),
                coin.state.name().to_owned(),
                coin.height.map_or(String::new(), |height| height.to_string()),
                show_script(&coin.script, network),
            ]
        });
        table(["coin", "sats", "state", "height", "address"], rows).to_string()
    })?;
    Ok(Outcome::Done)
}

pub(super) fn coin(
    desk: &Desk,
    args: &CoinArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let found = desk.room.coin(wallet, args.coin, desk.now)?;
    let network = desk.room.bitcoin_network();
    output.answer(&WalletCoinJson::new(&found, network), || {
        facts(&[
            ("coin", found.outpoint.to_string()),
            ("sats", found.amount.to_string()),
            ("state", found.state.name().to_owned()),
            ("address", show_script(&found.script, network)),
            ("height", found.height.map_or("in no block".into(), |height| height.to_string())),
            ("spent by", found.spent_by.map_or("nobody".into(), |txid| txid.to_string())),
            ("leased by", found.lock.map_or("nobody".into(), |lock| lock.to_string())),
        ])
    })?;
    Ok(Outcome::Done)
}

pub(super) fn txs(desk: &Desk, args: &TxsArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.page.wallet)?;
    let after = args.page.after.as_deref();
    let listing = if args.unconfirmed {
        Listing::Unconfirmed(cursor_number(after)?)
    } else if args.from.is_some() || args.to.is_some() {
        let top = u64::try_from(i64::MAX).unwrap_or(0);
        Listing::Blocks(args.from.unwrap_or(0), args.to.unwrap_or(top))
    } else {
        Listing::Latest(cursor_pair(after)?)
    };
    let found = desk.room.txs(wallet, listing, args.page.limit)?;
    let next = found.last().map(|last| match listing {
        Listing::Unconfirmed(_) => last.id.to_string(),
        Listing::Latest(_) | Listing::Blocks(..) => format!("{}-{}", last.received, last.id),
    });
    let listed: Vec<_> = found.iter().map(TxJson::new).collect();
    output.answer(&json!({ "txs": listed, "next": next }), || {
        let rows = found.iter().map(|tx| {
            [
                tx.txid.to_string(),
                tx.status.name().to_owned(),
                tx.height.map_or(String::new(), |height| height.to_string()),
                tx.net().to_string(),
                tx.label.clone().unwrap_or_default(),
            ]
        });
        table(["transaction", "status", "height", "net sats", "label"], rows).to_string()
    })?;
    Ok(Outcome::Done)
}

pub(super) fn tx(desk: &Desk, args: &TxArgs, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let found = desk.room.tx(wallet, args.txid)?;
    let network = desk.room.bitcoin_network();
    output.answer(&TxDetailJson::new(&found, network), || {
        let tx = &found.summary;
        let mut rows = vec![
            ("transaction", tx.txid.to_string()),
            ("status", tx.status.name().to_owned()),
            ("height", tx.height.map_or("in no block".into(), |height| height.to_string())),
            ("net sats", tx.net().to_string()),
            ("fee", tx.fee.map_or("unknown".into(), |fee| fee.to_string())),
        ];
        for input in &found.inputs {
            let sats = input.amount.map_or("not ours".into(), |sats| format!("{sats} sats"));
            rows.push(("spends", format!("{} {sats}", input.outpoint)));
        }
        for out in &found.outputs {
            let ours = if out.is_ours { " (ours)" } else { "" };
            let to = show_script(&out.script, network);
            rows.push(("pays", format!("{} {} sats{ours}", to, out.amount)));
        }
        let mut edges = |name, edges: &[EdgeInfo]| {
            for edge in edges {
                rows.push((name, format!("{} ({})", edge.txid, edge.cause.name())));
            }
        };
        edges("replaced by", &found.replaced_by);
        edges("replaces", &found.replaces);
        facts(&rows)
    })?;
    Ok(Outcome::Done)
}

pub(super) fn journal(
    desk: &Desk,
    args: &JournalArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.page.wallet)?;
    let after = cursor_number(args.page.after.as_deref())?;
    let found = desk.room.journal(wallet, args.tx, after, args.page.limit)?;
    let listed: Vec<_> = found.iter().map(LineJson::new).collect();
    let next = found.last().map(|last| last.id.to_string());
    output.answer(&json!({ "lines": listed, "next": next }), || {
        let rows = found.iter().map(|line| {
            let status = |status: Option<unspent_model::wallet::Status>| {
                status.map_or("", |status| status.name())
            };
            [
                line.id.to_string(),
                line.cause.name().to_owned(),
                line.txid.to_string(),
                format!("{} → {}", status(line.from), status(line.to)),
                line.height.map_or(String::new(), |height| height.to_string()),
                line.other.map_or(String::new(), |txid| txid.to_string()),
            ]
        });
        table(["", "cause", "transaction", "status", "height", "other"], rows).to_string()
    })?;
    Ok(Outcome::Done)
}
