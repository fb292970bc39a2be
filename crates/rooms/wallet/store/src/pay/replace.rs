//! Fee bumps and lifts: making an unconfirmed transaction worth a miner's while.

use bitcoin::{OutPoint, ScriptBuf, Transaction, Txid};
use unspent_model::wallet::select::{FeeRule, UnpaidAncestors};
use unspent_sql::{Arg, Row, RowId, Tx};

use super::{
    CpfpRequest, FeeBump,
    build::PaymentDraft,
    change::{ChangeScript, PayingAccount, paying_account},
    explain::{own_scripts, raw_tx},
    package::package,
    weight_of,
};
use crate::{
    descriptor::script_hash, error::WalletError, ids::model_txid, rows::status,
    wallet_info::KeychainPurpose, wallet_row::WalletRow,
};

const UNCONFIRMED: &str = "SELECT id, raw_tx, status, block_height, is_own, fee FROM transactions
    WHERE wallet_id = $1 AND tx_hash = $2";
const CHILDREN: &str = "SELECT COUNT(*) AS children FROM tx_inputs i
    JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id
        AND t.status IN ('published', 'pending')
    WHERE i.prev_tx_hash = $2 AND i.wallet_id = $1";
const HAS_CHANGE_CHAIN: &str = "SELECT COUNT(*) AS chains FROM keychains
    WHERE wallet_id = $1 AND account_id = $2 AND purpose = 'change'";
const UNSPENT_OF: &str = "SELECT output_index FROM utxos
    WHERE wallet_id = $1 AND tx_id = $2 AND spent_by_tx_id IS NULL AND amount > 0
    ORDER BY output_index";

fn refuse<T>(why: &str) -> Result<T, WalletError> {
    Err(WalletError::Payment(why.into()))
}

/// A transaction that is live and in no block.
fn unconfirmed(tx: &mut Tx<'_>, wallet: &WalletRow, txid: Txid) -> Result<Row, WalletError> {
    let id = model_txid(txid);
    let found = tx.maybe(UNCONFIRMED, &[Arg::Int(wallet.id.0), Arg::Blob(&id.0)])?;
    let row = found.ok_or(WalletError::NoTransaction(txid))?;
    if row.opt_int("block_height")?.is_some() {
        return refuse("it is confirmed");
    }
    if !status(&row)?.is_live() {
        return refuse("it is no longer valid");
    }
    Ok(row)
}

/// The same payment again: all inputs required, own change left out to be worked out anew.
pub(super) fn bumped(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    bump: &FeeBump,
) -> Result<PaymentDraft, WalletError> {
    let row = unconfirmed(tx, wallet, bump.tx)?;
    let is_own = row.flag("is_own")?;
    // With inputs of others it would need their signatures again.
    let Some(fee) = row.opt_natural("fee")?.filter(|_| is_own) else {
        return refuse("not all of its inputs are ours");
    };
    let id = model_txid(bump.tx);
    // It would be thrown out as well, and BIP 125 (rule 3) wants its fee paid on top.
    if tx.one(CHILDREN, &[Arg::Int(wallet.id.0), Arg::Blob(&id.0)])?.int("children")? > 0 {
        return refuse("a live transaction spends its outputs");
    }
    let old = raw_tx(&row)?;
    let inputs: Vec<OutPoint> = old.input.iter().map(|input| input.previous_output).collect();
    let mut policy = bump.policy.clone();
    let account = paying_account(tx, wallet, policy.account.as_deref(), &inputs)?;
    policy.account = Some(account.name.clone());
    policy.imported = false;
    policy.require.extend(inputs);
    // BIP 125, rule 2: a replacement must not bring in new unconfirmed inputs.
    policy.own_change = false;
    policy.pending_chaining = false;
    let mut outputs: Vec<(ScriptBuf, u64)> =
        old.output.iter().map(|out| (out.script_pubkey.clone(), out.value.to_sat())).collect();
    let found = change_of(tx, wallet, &account, &old)?;
    let mut rest_to = None;
    if bump.subtract_fee {
        // Change and coins stay; the largest payment gives what the higher fee needs.
        let kept = found.as_ref().map(|(place, _)| *place);
        rest_to = Some(largest(&mut outputs, kept)?);
        policy.only_required = true;
    } else if let Some((place, _)) = &found {
        outputs.remove(*place);
    }
    let change = match found {
        Some((_, change)) => change,
        None => ChangeScript::next(tx, wallet, &account, policy.seed)?,
    };
    Ok(PaymentDraft {
        outputs,
        rest_to,
        account,
        change,
        rate: bump.rate,
        fee: FeeRule::Replacing { fee, weight: weight_of(&old) },
        subtract_fee: false,
        allow_high_fee: bump.allow_high_fee,
        policy,
        replaces: Some(id),
        package: None,
        terms: bump.terms,
    })
}

/// Takes the largest output out, change left aside.
fn largest(
    outputs: &mut Vec<(ScriptBuf, u64)>,
    change: Option<usize>,
) -> Result<ScriptBuf, WalletError> {
    let places = outputs.iter().enumerate().filter(|(place, _)| Some(*place) != change);
    let found = places.max_by_key(|(_, (_, sats))| *sats).map(|(place, _)| place);
    match found {
        Some(place) => Ok(outputs.remove(place).0),
        None => refuse("it has no payment that the fee could be taken from"),
    }
}

/// Which output is change, to be paid to the same script again. Where an account has no chain for
/// it, it is the one of its latest script; a payment needs another output beside it.
fn change_of(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    account: &PayingAccount,
    old: &Transaction,
) -> Result<Option<(usize, ChangeScript)>, WalletError> {
    let ours = own_scripts(tx, wallet.id, old.output.iter().map(|out| &out.script_pubkey))?;
    let args = [Arg::Int(wallet.id.0), Arg::Int(account.id.0)];
    let has_chain = tx.one(HAS_CHANGE_CHAIN, &args)?.row_id("chains")? > RowId(0);
    let purpose = if has_chain { KeychainPurpose::Change } else { KeychainPurpose::Receive };
    let mut best: Option<(u32, usize, ChangeScript)> = None;
    for (place, output) in old.output.iter().enumerate() {
        let Some(row) = ours.get(&script_hash(&output.script_pubkey)) else { continue };
        if row.text("purpose")? != purpose.name() || (!has_chain && old.output.len() < 2) {
            continue;
        }
        let index = row.index("address_index")?;
        if best.as_ref().is_none_or(|(known, ..)| *known < index) {
            let script = output.script_pubkey.clone();
            best = Some((index, place, ChangeScript::again(script, row.natural("input_weight")?)));
        }
    }
    Ok(best.map(|(_, place, change)| (place, change)))
}

/// A payment to ourselves out of what the parent pays us.
pub(super) fn lifting(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    lift: &CpfpRequest,
) -> Result<PaymentDraft, WalletError> {
    let row = unconfirmed(tx, wallet, lift.tx)?;
    let args = [Arg::Int(wallet.id.0), Arg::Int(row.row_id("id")?.0)];
    let mut coins = Vec::new();
    for unspent in tx.query(UNSPENT_OF, &args)? {
        coins.push(OutPoint::new(lift.tx, unspent.index("output_index")?));
    }
    if coins.is_empty() {
        return refuse("no output that it pays to the wallet is left to spend");
    }
    let mut policy = lift.policy.clone();
    let account = paying_account(tx, wallet, policy.account.as_deref(), &coins)?;
    policy.account = Some(account.name.clone());
    policy.imported = false;
    policy.require.extend(coins);
    // Further coins bring no ancestors that would have to be paid for too.
    policy.own_change = false;
    policy.pending_chaining = false;
    let roots = policy.require.iter().map(|coin| coin.txid).collect();
    let package = package(tx, wallet, roots, lift, lift.rate)?;
    let UnpaidAncestors { fee, virtual_size, .. } = package.unpaid;
    Ok(PaymentDraft {
        outputs: Vec::new(),
        rest_to: None,
        change: ChangeScript::next(tx, wallet, &account, policy.seed)?,
        account,
        rate: lift.rate,
        // No package is that heavy; a fee that saturates is one that no coins pay.
        fee: FeeRule::Lifting { fee, weight: virtual_size.saturating_mul(4) },
        subtract_fee: false,
        allow_high_fee: lift.allow_high_fee,
        policy,
        replaces: None,
        package: Some(package),
        terms: lift.terms,
    })
}
