//! Pruning and the audit.

use unspent_wallet::prune::PruneRequest;

use super::{
    Desk,
    args::{NameArgs, PruneArgs},
    json::{AuditJson, PrunedTxsJson},
};
use crate::{fault::Outcome, output::Output};

pub(super) fn prune(
    desk: &Desk,
    args: &PruneArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let request = match args.what.up_to {
        Some(height) => PruneRequest::UpTo(height),
        None => PruneRequest::Exactly(args.what.tx.clone()),
    };
    let gone = desk.room.prune(wallet, &request, args.depth, desk.now)?;
    let names: Vec<String> = gone.iter().map(ToString::to_string).collect();
    output.answer(&PrunedTxsJson { pruned: names.clone() }, || {
        format!("{} transactions removed; the journal keeps a line of each", names.len())
    })?;
    Ok(Outcome::Done)
}

pub(super) fn audit(
    desk: &Desk,
    args: &NameArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let wallet = desk.wallet(&args.wallet)?;
    let found = desk.room.audit(wallet)?;
    output.answer(&AuditJson { differences: found.clone() }, || {
        if found.is_empty() { "everything agrees".to_owned() } else { found.join("\n") }
    })?;
    Ok(if found.is_empty() { Outcome::Done } else { Outcome::Differences })
}
