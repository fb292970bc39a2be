//! Questions about coins.

use serde::Serialize;
use unspent_chain::{Balance, CoinState, PageCursor, Reader};
use unspent_model::{Network, Point, chain::Record};
use unspent_networks::address::show_address;

use super::{
    json::{BalanceJson, CoinJson, DeltaJson, DigestJson, PageJson, PointJson},
    parse, text,
};
use crate::{
    cli::{DeltaArgs, OwnerArgs, UtxoArgs, UtxosArgs},
    fault::Outcome,
    output::{Output, facts, table},
};

/// One page of an owner's coins.
pub(crate) fn utxos(
    reader: &Reader,
    args: &UtxosArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = reader.network();
    let owner = parse::owner(network, &args.owner.owner)?;
    let after = args.after.as_deref().map(str::parse::<PageCursor>).transpose()?;
    let page = reader.page(owner, args.order.into(), args.limit, after.as_ref())?;
    output.answer(&PageJson::new(network, &page), || {
        let rows = page.coins.iter().map(|(outpoint, record)| {
            [
                text::outpoint(network, outpoint),
                text::amount(network, u128::from(record.output.value)),
                record.output.assets.len().to_string(),
                record.born.block_number.to_string(),
            ]
        });
        let coins = table(["coin", "amount", "assets", "height"], rows);
        let next = page.next.map_or(String::new(), |next| format!("\nnext page: --after {next}"));
        format!("{coins}\n{} coins {}{next}", page.coins.len(), as_of(network, page.at))
    })?;
    Ok(Outcome::Done)
}

fn as_of(network: Network, at: Option<Point>) -> String {
    let at = at.map_or("the origin".to_owned(), |at| PointJson::new(network, &at).text());
    format!("as of {at}")
}

/// What became of a coin.
pub(crate) fn utxo(
    reader: &Reader,
    args: &UtxoArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = reader.network();
    let outpoint = parse::outpoint(network, &args.outpoint)?;
    let state = reader.coin(&outpoint)?;
    output.answer(&CoinJson::new(network, &outpoint, &state), || {
        let mut rows = vec![("coin", text::outpoint(network, &outpoint))];
        match &state {
            CoinState::Unspent(record) => {
                rows.push(("state", "unspent".into()));
                rows.extend(coin_rows(network, record));
            }
            CoinState::Spent(spent) => {
                rows.push(("state", "spent".into()));
                let by = spent.by.map(|tx| network.show_hash(&tx.0));
                rows.push(("spent by", by.unwrap_or_else(|| "the rules of a new era".into())));
                rows.push(("spent at", PointJson::new(network, &spent.at).text()));
                rows.extend(coin_rows(network, &spent.record));
            }
            CoinState::Unknown => {
                rows.push((
                    "state",
                    "unknown: never seen, or spent so long ago that it is \
                                     forgotten"
                        .into(),
                ));
            }
        }
        facts(&rows)
    })?;
    Ok(Outcome::Done)
}

fn coin_rows(network: Network, record: &Record) -> Vec<(&'static str, String)> {
    let Record { output, born } = record;
    let born_at = Point { height: born.block_number, slot: born.slot, hash: born.block_hash };
    let mut rows = vec![
        ("address", show_address(network, &output.addr)),
        ("amount", text::amount(network, u128::from(output.value))),
        ("born at", PointJson::new(network, &born_at).text()),
    ];
    for asset in &output.assets {
        let (policy, name) = (hex::encode(asset.policy), hex::encode(&asset.name));
        let quantity = text::grouped(u128::from(asset.quantity));
        rows.push(("asset", format!("{quantity} of {policy}.{name}")));
    }
    let flags = [
        (output.is_coinbase, "coinbase"),
        (output.is_collateral_return, "collateral return"),
        (output.inline_datum.is_some(), "inline datum"),
        (output.data_hash.is_some() && output.inline_datum.is_none(), "datum hash"),
        (output.script_ref.is_some(), "reference script"),
    ];
    let flags: Vec<_> = flags.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    if !flags.is_empty() {
        rows.push(("carries", flags.join(", ")));
    }
    rows
}

/// What an owner has.
pub(crate) fn balance(
    reader: &Reader,
    args: &OwnerArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = reader.network();
    let balance = reader.balance(parse::owner(network, &args.owner)?)?;
    output.answer(&BalanceJson::new(network, &balance), || balance_text(network, &balance))?;
    Ok(Outcome::Done)
}

fn balance_text(network: Network, balance: &Balance) -> String {
    let mut rows = vec![
        ("amount", text::amount(network, balance.value)),
        ("coins", text::grouped(u128::from(balance.coins))),
    ];
    for ((policy, name), quantity) in &balance.assets {
        let (policy, name) = (hex::encode(policy), hex::encode(name));
        rows.push(("asset", format!("{} of {policy}.{name}", text::grouped(*quantity))));
    }
    rows.push(("as of", as_of(network, balance.at).replace("as of ", "")));
    facts(&rows)
}

#[derive(Serialize)]
struct Deltas {
    height: u64,
    deltas: Vec<DeltaJson>,
}

/// What the block at a height did.
pub(crate) fn delta(
    reader: &Reader,
    args: &DeltaArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = reader.network();
    let stored = reader.delta(args.height)?;
    let deltas = stored.iter().map(|delta| DeltaJson::new(network, delta)).collect();
    output.answer(&Deltas { height: args.height, deltas }, || {
        let blocks = stored.iter().map(|delta| {
            let created = delta.created.iter().map(|born| ("created", born.outpoint));
            let spent = delta.spent.iter().map(|spent| ("spent", spent.outpoint));
            let lost = delta.overwritten.iter().map(|(lost, _)| ("overwritten", *lost));
            let missing = delta.missing.iter().map(|outpoint| ("missing", *outpoint));
            let all = created.chain(spent).chain(lost).chain(missing);
            let rows = all.map(|(what, at)| [what.to_owned(), text::outpoint(network, &at)]);
            let block = PointJson::new(network, &delta.point).text();
            let invalid = delta.tx_flags.iter().filter(|flags| flags.is_invalid).count();
            let counts = format!(
                "{} created, {} spent, {invalid} transactions failed in phase 2",
                delta.created.len(),
                delta.spent.len()
            );
            format!("{block}\n{}\n{counts}", table(["what", "coin"], rows))
        });
        blocks.collect::<Vec<_>>().join("\n")
    })?;
    Ok(Outcome::Done)
}

/// The fingerprint of the whole set.
pub(crate) fn digest(reader: &Reader, output: &mut Output<'_>) -> anyhow::Result<Outcome> {
    let network = reader.network();
    let digest = reader.digest()?;
    output.answer(&DigestJson::new(network, &digest), || {
        facts(&[
            ("as of", as_of(network, digest.at).replace("as of ", "")),
            ("coins", text::grouped(u128::from(digest.coins))),
            ("worth", text::amount(network, digest.value)),
            ("asset entries", text::grouped(u128::from(digest.asset_entries))),
            ("sha256", hex::encode(digest.sha256)),
        ])
    })?;
    Ok(Outcome::Done)
}
