//! What an operator does: clean, list what is unmined, drop, preserve, repair.

use clap::Args;
use serde_json::json;
use unspent_server::{
    error::{CliError, Outcome},
    output::{Output, facts, table},
    progress::Show,
    request::{PAGE_DEFAULT, bad_cursor, page_limit},
    text,
};
use unspent_txstore::{CleanLimits, TxStore, UnknownSpender, UnminedTx};

use super::{
    json::{CleanedJson, UnminedJson},
    records::{TxidArgs, parse_txid},
};

/// Records looked through at once.
const PAGE: u32 = 1_000;

/// How far a pass goes.
#[derive(Args)]
pub(crate) struct CleanArgs {
    /// Look at this many due records at most
    #[arg(long, value_name = "N")]
    most: Option<usize>,
}

pub(super) fn print_clean(
    store: &TxStore,
    args: &CleanArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let standard = CleanLimits::default();
    let limits = CleanLimits { most: args.most.unwrap_or(standard.most), ..standard };
    let shown = CleanedJson::from(store.clean(limits)?);
    output.answer(&shown, || {
        let number = |number: usize| text::grouped(number as u128);
        let mut rows = vec![
            ("judged at height", shown.height.to_string()),
            ("looked at", number(shown.looked_at)),
            ("deleted", number(shown.deleted)),
            ("of these losers", number(shown.losers)),
        ];
        let kept = shown.kept.iter();
        rows.extend(kept.map(|(why, count)| ("kept", format!("{} {}", number(*count), why))));
        if shown.cut {
            rows.push(("more", "the limit was reached; run it again for the rest".into()));
        }
        facts(&rows)
    })?;
    Ok(Outcome::Done)
}

/// Which unmined transactions.
#[derive(Args)]
pub(crate) struct UnminedArgs {
    /// Only those unmined since this height or a lower one
    #[arg(long, value_name = "HEIGHT")]
    until: Option<u64>,
    /// Transactions per page, 1 to 500
    #[arg(long, default_value_t = PAGE_DEFAULT, value_name = "N")]
    limit: u32,
    /// Continue after the `next` of the previous page
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

pub(super) fn print_unmined(
    store: &TxStore,
    args: &UnminedArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let network = store.network();
    let limit = page_limit(Some(args.limit))?;
    let after = args.after.as_deref().map(|cursor| {
        let (since, txid) = cursor.split_once('-').ok_or_else(bad_cursor)?;
        let since = since.parse().map_err(|_| bad_cursor())?;
        let txid = network.parse_hash(txid).ok_or_else(bad_cursor)?;
        Ok::<_, anyhow::Error>(UnminedTx { since, txid: unspent_model::TxId(txid) })
    });
    let found = store.unmined(args.until, after.transpose()?, limit)?;
    let is_full = found.len() == limit as usize;
    let shown: Vec<UnminedJson> = found.iter().map(|tx| UnminedJson::new(network, tx)).collect();
    let next = shown.last().filter(|_| is_full);
    let next = next.map(|last| format!("{}-{}", last.unmined_since, last.txid));
    output.answer(&json!({ "unmined": shown, "next": next }), || {
        let rows = shown.iter().map(|tx| [tx.txid.clone(), tx.unmined_since.to_string()]);
        let listed = table(["txid", "unmined since"], rows);
        let next = next.as_ref().map(|next| format!("\nnext page: --after {next}"));
        format!("{listed}{}", next.unwrap_or_default())
    })?;
    Ok(Outcome::Done)
}

pub(super) fn print_drop(
    store: &TxStore,
    args: &TxidArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let txid = args.read(store)?;
    store.drop_unmined(txid)?;
    let name = store.network().show_hash(&txid.0);
    output.answer(&json!({ "dropped": name }), || {
        format!("{name} was deleted; the outputs it spent are unspent again")
    })?;
    Ok(Outcome::Done)
}

/// Which transactions are kept, and up to when.
#[derive(Args)]
pub(crate) struct PreserveArgs {
    /// The transactions, as 64 hex digits each
    #[arg(required = true, value_name = "TXID")]
    txids: Vec<String>,
    /// They are kept up to this height, whatever other rules say
    #[arg(long, value_name = "HEIGHT")]
    until: u64,
}

pub(super) fn print_preserve(
    store: &TxStore,
    args: &PreserveArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let names = args.txids.iter().map(|name| parse_txid(store.network(), name));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    // Asked first, to name the one that is absent as it was typed; `preserve` refuses on its own
    // too.
    let records = store.records(names.clone())?;
    if let Some((name, _)) = args.txids.iter().zip(&records).find(|(_, found)| found.is_none()) {
        let message = format!("{name} is not in the store; nothing was changed");
        return Err(CliError::refused(message).into());
    }
    let count = names.len();
    store.preserve(names, args.until)?;
    let document = json!({ "preserved": count, "until": args.until });
    output.answer(&document, || format!("{count} preserved up to height {}", args.until))?;
    Ok(Outcome::Done)
}

/// Whether something is changed.
#[derive(Args)]
pub(crate) struct RepairArgs {
    /// Repair what was found; without this, nothing is changed
    #[arg(long)]
    pub(super) run: bool,
}

pub(super) fn print_repair(
    store: &TxStore,
    args: &RepairArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let bar = Show::suitable(output.is_json()).counter(0, "records read");
    let (mut found, mut after, mut repaired) = (Vec::new(), None, 0);
    loop {
        // Each page is a transaction of its own: writers of a large store aren't kept waiting for
        // all of it.
        let page = store.unknown_spenders(after, PAGE)?;
        if args.run {
            repaired += store.repair(page.found.clone())?;
        }
        found.extend(page.found);
        bar.inc(u64::from(PAGE));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    bar.finish_and_clear();
    let network = store.network();
    let line = |unknown: &UnknownSpender| {
        let UnknownSpender { coin, by } = unknown;
        (text::outpoint(network, coin), network.show_hash(&by.tx.0))
    };
    let lines: Vec<(String, String)> = found.iter().map(line).collect();
    let unknown = lines.iter().map(|(coin, by)| json!({ "outpoint": coin, "spent_by": by }));
    let unknown: Vec<_> = unknown.collect();
    output.answer(&json!({ "unknown": unknown, "repaired": repaired }), || {
        let rows = lines.iter().map(|(coin, by)| [coin.clone(), by.clone()]);
        let listed = table(["output", "spender that never existed"], rows);
        let more =
            if args.run || lines.is_empty() { "" } else { "; --run makes them unspent again" };
        format!("{listed}\n{} found, {repaired} cleared{more}", lines.len())
    })?;
    Ok(Outcome::Done)
}
