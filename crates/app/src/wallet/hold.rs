//! Leases and the choice of coins.

use bitcoin::{OutPoint, ScriptBuf};
use unspent_model::wallet::select::{ChangePolicy, OVERHEAD_WEIGHT, Rate};
use unspent_wallet::{
    choose::{CoinPolicy, Wanted},
    descriptor::show_script,
    lease::LeaseTerms,
};

use super::{
    Desk,
    args::{HoldArgs, LeaseArgs, NameArgs, PolicyArgs, ReleaseArgs, SelectArgs},
    json::{ChosenJson, HeldJson, LeaseJson, ReleasedJson},
    lock_or_new, random,
};
use crate::{
    fault::Outcome,
    output::{Output, facts, table},
};

/// Weight of an output and an input of the commonest kind, for a choice without a payment.
const OUTPUT_WEIGHT: u64 = 4 * 31;
const INPUT_WEIGHT: u64 = 272;

pub(super) fn terms(args: &HoldArgs) -> anyhow::Result<LeaseTerms> {
    let lock = lock_or_new(args.lock)?;
    Ok(LeaseTerms { lock, duration: args.duration, hold_confirmations: args.hold })
}

pub(super) fn policy(args: &PolicyArgs) -> anyhow::Result<CoinPolicy> {
    let seed = random()?.first_chunk().copied().map_or(0, u64::from_le_bytes);
    Ok(CoinPolicy {
        minconf: args.minconf,
        own_change: !args.no_own_change,
        pending_chaining: args.chain_pending,
        account: args.account.clone(),
        exclude: args.exclude.clone(),
        require: args.require.clone(),
        by_address: args.by_address,
        max_weight: args.max_weight,
        strategy: args.strategy.strategy(),
        seed,
        ..CoinPolicy::default()
    })
}

pub(super) fn lease(
    desk: &Desk,
    args: &LeaseArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let terms = terms(&args.hold)?;
    let until = desk.room.lease(wallet, &args.coins, terms, desk.now)?;
    let lock = terms.lock.to_string();
    output.answer(
        &HeldJson { lock: lock.clone(), expires_at: until, coins: names(&args.coins) },
        || {
            format!(
                "held {} coins; release them, or pay with them, with\n--lock {lock}",
                args.coins.len()
            )
        },
    )?;
    Ok(Outcome::Done)
}

fn names(coins: &[OutPoint]) -> Vec<String> {
    coins.iter().map(ToString::to_string).collect()
}

pub(super) fn release(
    desk: &Desk,
    args: &ReleaseArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    desk.room.release(wallet, &args.coins, args.lock, desk.now)?;
    output.answer(&ReleasedJson { released: names(&args.coins) }, || "released".to_owned())?;
    Ok(Outcome::Done)
}

pub(super) fn leases(
    desk: &Desk,
    args: &NameArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let found = desk.room.leases(wallet, desk.now)?;
    let network = desk.room.bitcoin_network();
    let address = |script: &ScriptBuf| show_script(script, network);
    let listed: Vec<_> = found.iter().map(|lease| LeaseJson::new(lease, network)).collect();
    output.answer(&listed, || {
        let rows = found.iter().map(|lease| {
            let left = (lease.expires_at - desk.now) / 1_000_000;
            [
                lease.coin.to_string(),
                lease.amount.to_string(),
                address(&lease.script),
                format!("{left} s"),
                lease.lock.to_string(),
            ]
        });
        table(["coin", "sats", "address", "left", "lock"], rows).to_string()
    })?;
    Ok(Outcome::Done)
}

/// A choice of coins without a payment: one output of the commonest kind.
pub(crate) fn wanted(target: u64, rate: Rate) -> Wanted {
    Wanted {
        target,
        base_weight: OVERHEAD_WEIGHT + 4 + OUTPUT_WEIGHT,
        rate,
        min_fee: 0,
        change: ChangePolicy { weight: OUTPUT_WEIGHT, spend_weight: INPUT_WEIGHT, min: 294 },
    }
}

pub(super) fn select(
    desk: &Desk,
    args: &SelectArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let wanted = wanted(args.amount, args.policy.rate);
    let policy = policy(&args.policy)?;
    let terms = terms(&args.hold)?;
    let (chosen, lock) = if args.dry_run {
        (desk.room.preview_selection(wallet, wanted, &policy, desk.now)?, None)
    } else {
        let chosen = desk.room.select_and_lease(wallet, wanted, &policy, terms, desk.now)?;
        (chosen, Some(terms.lock.to_string()))
    };
    output.answer(&ChosenJson::new(&chosen, lock.clone()), || {
        let rows = chosen.coins.iter().map(|c| [c.outpoint.to_string(), c.amount.to_string()]);
        let facts = facts(&[
            ("fee", chosen.selection.fee.to_string()),
            ("change", chosen.selection.change.map_or("none".into(), |sats| sats.to_string())),
            ("why", chosen.selection.why()),
            ("lock", lock.clone().unwrap_or_else(|| "nothing leased".to_owned())),
        ]);
        format!("{}\n{facts}", table(["coin", "sats"], rows))
    })?;
    Ok(Outcome::Done)
}
